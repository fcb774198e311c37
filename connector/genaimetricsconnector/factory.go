// Copyright The otelcol-sglang Authors
// SPDX-License-Identifier: Apache-2.0

package genaimetricsconnector // import "github.com/otelcol-sglang/otelcol-sglang/connector/genaimetricsconnector"

import (
	"context"

	"go.opentelemetry.io/collector/component"
	"go.opentelemetry.io/collector/connector"
	"go.opentelemetry.io/collector/consumer"

	"github.com/otelcol-sglang/otelcol-sglang/connector/genaimetricsconnector/internal/metadata"
)

// NewFactory returns the factory of the genaimetrics connector.
func NewFactory() connector.Factory {
	return connector.NewFactory(metadata.Type, createDefaultConfig,
		connector.WithTracesToMetrics(createTracesToMetrics, metadata.TracesToMetricsStability))
}

func createTracesToMetrics(
	_ context.Context, set connector.Settings, cfg component.Config, next consumer.Metrics,
) (connector.Traces, error) {
	return newConnector(set, cfg.(*Config), next)
}
