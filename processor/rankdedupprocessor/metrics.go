// Copyright The otelcol-sglang Authors
// SPDX-License-Identifier: Apache-2.0

package rankdedupprocessor // import "github.com/otelcol-sglang/otelcol-sglang/processor/rankdedupprocessor"

import (
	"context"
	"time"

	"go.opentelemetry.io/collector/component"
	"go.opentelemetry.io/collector/consumer"
	"go.opentelemetry.io/collector/pdata/pmetric"
	"go.opentelemetry.io/collector/processor"

	"github.com/otelcol-sglang/otelcol-sglang/internal/sglang"
	"github.com/otelcol-sglang/otelcol-sglang/processor/rankdedupprocessor/internal/metadata"
	"github.com/otelcol-sglang/otelcol-sglang/processor/rankdedupprocessor/internal/metricfold"
	"github.com/otelcol-sglang/otelcol-sglang/processor/rankdedupprocessor/internal/series"
)

var _ processor.Metrics = (*metricsProcessor)(nil)

// metricsProcessor makes one series out of the copies of TP ranks. It holds
// nothing back: what it keeps are numbers of the last scrape, and folding the same
// scrape again, as after an error of the next consumer, gives the same.
type metricsProcessor struct {
	next      consumer.Metrics
	store     *series.Store
	folder    *metricfold.Folder
	telemetry *metricsTelemetry
	now       func() time.Time
}

func newMetricsProcessor(set processor.Settings, cfg *MetricsConfig, next consumer.Metrics) (processor.Metrics, error) {
	store := series.NewStore(series.Limits{MaxSeries: cfg.MaxSeries, Idle: cfg.IdleExpiry})
	telemetry, err := newMetricsTelemetry(set.TelemetrySettings, store)
	if err != nil {
		return nil, err
	}
	settings := metricfold.Settings{
		Overrides:      make(map[string]sglang.TPReduce, len(cfg.Overrides)),
		KeepRankLabels: cfg.KeepRankLabels,
		Skew:           cfg.Skew,
	}
	for name, value := range cfg.Overrides {
		settings.Overrides[name], _ = sglang.ParseTPReduce(value)
	}
	return &metricsProcessor{
		next:      next,
		store:     store,
		folder:    metricfold.New(settings, store, metadata.ScopeName),
		telemetry: telemetry,
		now:       time.Now,
	}, nil
}

func (*metricsProcessor) Start(context.Context, component.Host) error { return nil }

func (p *metricsProcessor) Shutdown(context.Context) error {
	p.telemetry.shutdown()
	return nil
}

func (*metricsProcessor) Capabilities() consumer.Capabilities {
	return consumer.Capabilities{MutatesData: true}
}

// ConsumeMetrics hands on what is left after folding; a batch of which nothing is
// left is taken.
func (p *metricsProcessor) ConsumeMetrics(ctx context.Context, md pmetric.Metrics) error {
	counts := p.folder.Fold(md, p.now())
	p.telemetry.record(ctx, &counts)
	if md.MetricCount() == 0 {
		return nil
	}
	return p.next.ConsumeMetrics(ctx, md)
}
