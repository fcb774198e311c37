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
	builder  *metadata.TelemetryBuilder
	byRule   [metricfold.RuleCount]metric.MeasurementOption
	byReason [series.ReasonCount]metric.MeasurementOption
}

func newMetricsTelemetry(set component.TelemetrySettings, store *series.Store) (*metricsTelemetry, error) {
	builder, err := metadata.NewTelemetryBuilder(set)
	if err != nil {
		return nil, err
	}
	t := &metricsTelemetry{builder: builder}
	for r := range metricfold.RuleCount {
		t.byRule[r] = metric.WithAttributeSet(attribute.NewSet(attribute.String("rule", r.String())))
	}
	for r := range series.ReasonCount {
		t.byReason[r] = reasonOption(r.String())
	}
	return t, errors.Join(
		builder.RegisterProcessorRankdedupSeriesCallback(func(_ context.Context, o metric.Int64Observer) error {
			o.Observe(store.Tracked())
			return nil
		}),
		builder.RegisterProcessorRankdedupPagesCallback(func(_ context.Context, o metric.Int64Observer) error {
			o.Observe(store.Engines())
			return nil
		}),
	)
}

func (t *metricsTelemetry) shutdown() { t.builder.Shutdown() }

func (t *metricsTelemetry) record(ctx context.Context, c *metricfold.Counts) {
	for r, n := range c.In {
		count(ctx, t.builder.ProcessorRankdedupPointsIn, n, t.byRule[r])
	}
	for r, n := range c.Out {
		count(ctx, t.builder.ProcessorRankdedupPointsOut, n, t.byRule[r])
	}
	for r, n := range c.Refused {
		count(ctx, t.builder.ProcessorRankdedupPointsRefused, n, t.byReason[r])
	}
	count(ctx, t.builder.ProcessorRankdedupRankResets, c.RankResets)
	count(ctx, t.builder.ProcessorRankdedupEngineRestarts, c.Restarts)
}
