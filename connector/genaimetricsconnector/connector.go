// Copyright The otelcol-sglang Authors
// SPDX-License-Identifier: Apache-2.0

package genaimetricsconnector // import "github.com/otelcol-sglang/otelcol-sglang/connector/genaimetricsconnector"

import (
	"context"
	"sync"
	"time"

	"go.opentelemetry.io/collector/component"
	"go.opentelemetry.io/collector/connector"
	"go.opentelemetry.io/collector/consumer"
	"go.opentelemetry.io/collector/pdata/ptrace"
	"go.uber.org/zap"

	"github.com/otelcol-sglang/otelcol-sglang/connector/genaimetricsconnector/internal/histogram"
	"github.com/otelcol-sglang/otelcol-sglang/connector/genaimetricsconnector/internal/seen"
	"github.com/otelcol-sglang/otelcol-sglang/connector/genaimetricsconnector/internal/series"
)

type metricsConnector struct {
	next     consumer.Metrics
	logger   *zap.Logger
	tel      *telemetry
	emitter  emitter
	resource resourceReader
	interval time.Duration

	// dimensions are names of further attributes.
	dimensions []string
	// batches has *batch: what one ConsumeTraces works with.
	batches sync.Pool

	// mu guards store and seen; no call to another component is made under it.
	mu    sync.Mutex
	store *series.Store
	seen  *seen.Set

	stop func()
	done chan struct{}
	warn sync.Once
}

var (
	_ connector.Traces = (*metricsConnector)(nil)
	_ consumer.Traces  = (*metricsConnector)(nil)
)

func newConnector(set connector.Settings, cfg *Config, next consumer.Metrics) (*metricsConnector, error) {
	tel, err := newTelemetry(set.TelemetrySettings)
	if err != nil {
		return nil, err
	}
	c := &metricsConnector{
		next:       next,
		logger:     set.Logger,
		tel:        tel,
		emitter:    emitter{version: set.BuildInfo.Version, collectorID: cfg.CollectorID},
		resource:   resourceReader{instanceFrom: cfg.InstanceFrom},
		interval:   cfg.Interval,
		dimensions: cfg.Dimensions,
		store:      series.NewStore(settingsOf(cfg)),
		seen:       seen.New(cfg.ResendWindow, cfg.MaxRemembered),
	}
	c.batches.New = func() any { return new(batch) }
	return c, c.observe()
}

func settingsOf(cfg *Config) series.Settings {
	set := series.Settings{Max: cfg.MaxSeries, Expiry: cfg.SeriesExpiry}
	for m := range series.MetricCount {
		shape := histogram.Shape{Exemplars: cfg.Exemplars, MaxSize: int32(cfg.ExponentialSize)}
		if cfg.Histogram == histogramExplicit {
			shape.Bounds = m.Info().Bounds
			if bounds, ok := cfg.Buckets[m.Info().Name]; ok {
				shape.Bounds = bounds
			}
		}
		set.Shapes[m] = shape
	}
	return set
}

// Capabilities: spans are only read.
func (*metricsConnector) Capabilities() consumer.Capabilities { return consumer.Capabilities{} }

// Start begins to hand the metrics on.
func (c *metricsConnector) Start(context.Context, component.Host) error {
	ctx, cancel := context.WithCancel(context.Background())
	c.stop, c.done = cancel, make(chan struct{})
	go c.run(ctx)
	return nil
}

func (c *metricsConnector) run(ctx context.Context) {
	defer close(c.done)
	ticker := time.NewTicker(c.interval)
	defer ticker.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-ticker.C:
			c.flush(ctx)
		}
	}
}

// Shutdown hands on what was counted since the last time.
func (c *metricsConnector) Shutdown(ctx context.Context) error {
	defer c.tel.builder.Shutdown()
	if c.stop == nil {
		return nil
	}
	c.stop()
	c.stop = nil
	select {
	case <-c.done:
		c.flush(ctx)
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

func (c *metricsConnector) flush(ctx context.Context) {
	c.mu.Lock()
	// Read under the lock, so that no observation is later than its point.
	now := time.Now()
	expired := c.store.Expire(now)
	metrics := c.emitter.emit(c.store, now)
	c.mu.Unlock()
	addIf(ctx, c.tel.builder.ConnectorGenaimetricsSeriesExpired, int64(expired))
	if metrics.ResourceMetrics().Len() == 0 {
		return
	}
	// Nothing is lost where this fails: the series are cumulative.
	if err := c.next.ConsumeMetrics(ctx, metrics); err != nil {
		c.tel.builder.ConnectorGenaimetricsFlushFailures.Add(ctx, 1)
		c.logger.Warn("metrics were not taken, the next flush carries them again", zap.Error(err))
	}
}

// ConsumeTraces counts request roots and thread spans.
func (c *metricsConnector) ConsumeTraces(ctx context.Context, td ptrace.Traces) error {
	b := c.batches.Get().(*batch)
	b.begin(c, time.Now())
	for _, rs := range td.ResourceSpans().All() {
		b.resource(rs)
		for _, ss := range rs.ScopeSpans().All() {
			scope := ss.Scope().Name()
			for _, span := range ss.Spans().All() {
				b.span(span, scope)
			}
		}
	}
	b.end()
	c.tel.add(ctx, &b.tally)
	if n := b.tally.outcomes[outcomeNotJudged]; n > 0 {
		c.warn.Do(func() {
			c.logger.Warn("request roots without derived latencies don't count: put the genai processor in front", zap.Int64("roots", n))
		})
	}
	c.batches.Put(b)
	return nil
}
