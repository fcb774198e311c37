// Copyright The otelcol-sglang Authors
// SPDX-License-Identifier: Apache-2.0

package sglangreceiver // import "github.com/otelcol-sglang/otelcol-sglang/receiver/sglangreceiver"

import (
	"context"

	"go.opentelemetry.io/collector/component"
	"go.opentelemetry.io/collector/consumer"
	"go.opentelemetry.io/collector/receiver"

	"github.com/otelcol-sglang/otelcol-sglang/receiver/sglangreceiver/internal/metadata"
)

// NewFactory returns the factory of the sglang receiver.
func NewFactory() receiver.Factory {
	return receiver.NewFactory(
		metadata.Type,
		createDefaultConfig,
		receiver.WithTraces(createTraces, metadata.TracesStability),
		receiver.WithMetrics(createMetrics, metadata.MetricsStability),
		receiver.WithLogs(createLogs, metadata.LogsStability),
	)
}

func createTraces(ctx context.Context, set receiver.Settings, cfg component.Config, next consumer.Traces) (receiver.Traces, error) {
	s := sharedOf(cfg.(*Config))
	stamped, err := newStamper(instanceOf(set.TelemetrySettings), next)
	if err != nil {
		return nil, err
	}
	inner, err := otlpFactory.CreateTraces(ctx, otlpSettings(set), s.otlp, stamped)
	if err != nil {
		return nil, err
	}
	return newPart(s, set, inner), nil
}

func createMetrics(ctx context.Context, set receiver.Settings, cfg component.Config, next consumer.Metrics) (receiver.Metrics, error) {
	s := sharedOf(cfg.(*Config))
	inner, err := otlpFactory.CreateMetrics(ctx, otlpSettings(set), s.otlp, next)
	if err != nil {
		return nil, err
	}
	engines, err := newEngines(set, s.cfg, next)
	if err != nil {
		return nil, err
	}
	s.scraped.Store(true)
	p := newPart(s, set, inner)
	p.engines = engines
	return p, nil
}

func createLogs(ctx context.Context, set receiver.Settings, cfg component.Config, next consumer.Logs) (receiver.Logs, error) {
	s := sharedOf(cfg.(*Config))
	inner, err := otlpFactory.CreateLogs(ctx, otlpSettings(set), s.otlp, next)
	if err != nil {
		return nil, err
	}
	return newPart(s, set, inner), nil
}
