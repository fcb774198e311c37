// Copyright The otelcol-sglang Authors
// SPDX-License-Identifier: Apache-2.0

package rankdedupprocessor // import "github.com/otelcol-sglang/otelcol-sglang/processor/rankdedupprocessor"

import (
	"context"
	"errors"

	"go.opentelemetry.io/collector/component"
	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/metric"

	"github.com/otelcol-sglang/otelcol-sglang/processor/rankdedupprocessor/internal/metadata"
	"github.com/otelcol-sglang/otelcol-sglang/processor/rankdedupprocessor/internal/metricfold"
	"github.com/otelcol-sglang/otelcol-sglang/processor/rankdedupprocessor/internal/series"
)

// metricsTelemetry counts what the folding does.
type metricsTelemetry struct {
	in, out, refused, resets, restarts metric.Int64Counter
	tracked                            metric.Registration

	byRule   [metricfold.RuleCount]metric.MeasurementOption
	byReason [series.ReasonCount]metric.MeasurementOption
}

func newMetricsTelemetry(set component.TelemetrySettings, store *series.Store) (*metricsTelemetry, error) {
	meter := metadata.Meter(set)
	t := &metricsTelemetry{}
	for r := range metricfold.RuleCount {
		t.byRule[r] = metric.WithAttributeSet(attribute.NewSet(attribute.String("rule", r.String())))
	}
	for r := range series.ReasonCount {
		t.byReason[r] = metric.WithAttributeSet(attribute.NewSet(attribute.String("reason", r.String())))
	}
	counter := func(to *metric.Int64Counter, name, description, unit string) (err error) {
		*to, err = meter.Int64Counter("otelcol_processor_rankdedup_"+name, metric.WithDescription(description), metric.WithUnit(unit))
		return err
	}
	return t, errors.Join(
		counter(&t.in, "points_in", "Metric points that arrived, by the rule of their family.", "{point}"),
		counter(&t.out, "points_out", "Metric points that left, by the rule of their family.", "{point}"),
		counter(&t.refused, "points_refused", "Metric points that were not folded as their rule asks.", "{point}"),
		counter(&t.resets, "rank_resets", "Counters of single ranks that began anew while others went on.", "{series}"),
		counter(&t.restarts, "engine_restarts", "Pages on which all counters began anew.", "{restart}"),
		t.observe(meter, store),
	)
}

func (t *metricsTelemetry) observe(meter metric.Meter, store *series.Store) error {
	tracked, err1 := meter.Int64ObservableGauge("otelcol_processor_rankdedup_series",
		metric.WithDescription("Series that are remembered, one per rank."), metric.WithUnit("{series}"))
	pages, err2 := meter.Int64ObservableGauge("otelcol_processor_rankdedup_pages",
		metric.WithDescription("Engines' metrics pages that are remembered."), metric.WithUnit("{page}"))
	if err := errors.Join(err1, err2); err != nil {
		return err
	}
	var err error
	t.tracked, err = meter.RegisterCallback(func(_ context.Context, o metric.Observer) error {
		o.ObserveInt64(tracked, store.Tracked())
		o.ObserveInt64(pages, store.Engines())
		return nil
	}, tracked, pages)
	return err
}

func (t *metricsTelemetry) shutdown() {
	_ = t.tracked.Unregister()
}

func (t *metricsTelemetry) record(ctx context.Context, c *metricfold.Counts) {
	for r, n := range c.In {
		add(ctx, t.in, n, t.byRule[r])
	}
	for r, n := range c.Out {
		add(ctx, t.out, n, t.byRule[r])
	}
	for r, n := range c.Refused {
		add(ctx, t.refused, n, t.byReason[r])
	}
	add(ctx, t.resets, c.RankResets)
	add(ctx, t.restarts, c.Restarts)
}

func add(ctx context.Context, c metric.Int64Counter, n int64, options ...metric.AddOption) {
	if n != 0 {
		c.Add(ctx, n, options...)
	}
}
