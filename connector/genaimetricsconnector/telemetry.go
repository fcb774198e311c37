// Copyright The otelcol-sglang Authors
// SPDX-License-Identifier: Apache-2.0

package genaimetricsconnector // import "github.com/otelcol-sglang/otelcol-sglang/connector/genaimetricsconnector"

import (
	"context"

	"go.opentelemetry.io/collector/component"
	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/metric"

	"github.com/otelcol-sglang/otelcol-sglang/connector/genaimetricsconnector/internal/metadata"
	"github.com/otelcol-sglang/otelcol-sglang/connector/genaimetricsconnector/internal/series"
)

// outcome is what became of a request root.
type outcome uint8

const (
	outcomeCounted outcome = iota
	outcomeResent
	outcomePDPrefill
	outcomeHealthCheck
	outcomeSender
	outcomeEncoder
	outcomeNotJudged

	outcomeCount
)

var outcomeNames = [outcomeCount]string{
	outcomeCounted:     "counted",
	outcomeResent:      "resent",
	outcomePDPrefill:   "pd_prefill",
	outcomeHealthCheck: "health_check",
	outcomeSender:      "sender",
	outcomeEncoder:     "encoder",
	outcomeNotJudged:   "not_judged",
}

// String is the outcome's name in the connector's own telemetry.
func (o outcome) String() string { return outcomeNames[o] }

// tally counts over one batch of spans.
type tally struct {
	outcomes      [outcomeCount]int64
	resentThreads int64
	spilled       [series.MetricCount]int64
	early         int64
	refused       []refusal
}

type telemetry struct {
	builder  *metadata.TelemetryBuilder
	outcomes [outcomeCount]metric.AddOption
	metrics  [series.MetricCount]metric.AddOption
}

func newTelemetry(set component.TelemetrySettings) (*telemetry, error) {
	b, err := metadata.NewTelemetryBuilder(set)
	if err != nil {
		return nil, err
	}
	t := &telemetry{builder: b}
	for o := range t.outcomes {
		t.outcomes[o] = metric.WithAttributeSet(attribute.NewSet(attribute.String("outcome", outcome(o).String())))
	}
	for m := range t.metrics {
		t.metrics[m] = metric.WithAttributeSet(attribute.NewSet(attribute.String("metric", series.Metric(m).String())))
	}
	return t, nil
}

// add reports a batch.
func (t *telemetry) add(ctx context.Context, n *tally) {
	for o, count := range n.outcomes {
		if count > 0 {
			t.builder.ConnectorGenaimetricsRoots.Add(ctx, count, t.outcomes[o])
		}
	}
	for m, count := range n.spilled {
		if count > 0 {
			t.builder.ConnectorGenaimetricsOverflowed.Add(ctx, count, t.metrics[m])
		}
	}
	addIf(ctx, t.builder.ConnectorGenaimetricsResentThreads, n.resentThreads)
	addIf(ctx, t.builder.ConnectorGenaimetricsForgottenEarly, n.early)
	for _, r := range n.refused {
		t.builder.ConnectorGenaimetricsRefusedValues.Add(ctx, 1, metric.WithAttributes(
			attribute.String("attribute", r.attribute), attribute.String("reason", r.reason)))
	}
}

func addIf(ctx context.Context, c metric.Int64Counter, n int64) {
	if n > 0 {
		c.Add(ctx, n)
	}
}

// observe registers the gauges.
func (c *metricsConnector) observe() error {
	b := c.tel.builder
	if err := b.RegisterConnectorGenaimetricsSeriesCallback(func(_ context.Context, o metric.Int64Observer) error {
		o.Observe(int64(c.locked(c.store.Len)))
		return nil
	}); err != nil {
		return err
	}
	return b.RegisterConnectorGenaimetricsRememberedSpansCallback(func(_ context.Context, o metric.Int64Observer) error {
		o.Observe(int64(c.locked(c.seen.Len)))
		return nil
	})
}

func (c *metricsConnector) locked(length func() int) int {
	c.mu.Lock()
	defer c.mu.Unlock()
	return length()
}
