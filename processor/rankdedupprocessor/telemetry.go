// Copyright The otelcol-sglang Authors
// SPDX-License-Identifier: Apache-2.0

package rankdedupprocessor // import "github.com/otelcol-sglang/otelcol-sglang/processor/rankdedupprocessor"

import (
	"context"
	"errors"
	"time"

	"go.opentelemetry.io/collector/component"
	"go.opentelemetry.io/collector/pdata/pcommon"
	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/metric"

	"github.com/otelcol-sglang/otelcol-sglang/processor/rankdedupprocessor/internal/fold"
	"github.com/otelcol-sglang/otelcol-sglang/processor/rankdedupprocessor/internal/metadata"
)

// stats are the counts of one call.
type stats struct {
	fold.Stats
	refusedSenders int64
}

func (s *stats) add(o fold.Stats) {
	s.Folded += o.Folded
	s.Filled += o.Filled
	s.Resent += o.Resent
	s.Unfolded += o.Unfolded
	s.LateFolded += o.LateFolded
	s.LatePassed += o.LatePassed
	s.Failovers += o.Failovers
	for i := range o.Early {
		s.Early[i] += o.Early[i]
	}
	s.Held += o.Held
	s.Traces += o.Traces
}

type lostReason int

const (
	// lostPermanent: the next consumer refused it for good.
	lostPermanent lostReason = iota
	// lostShutdown: the time to stop ran out.
	lostShutdown

	lostCount
)

var lostNames = [lostCount]string{"refused", "shutdown"}

// telemetry reports what the processor does, in the Collector's own metrics.
type telemetry struct {
	builder  *metadata.TelemetryBuilder
	early    [fold.ReasonCount]metric.MeasurementOption
	lostOpts [lostCount]metric.MeasurementOption
	late     [2]metric.MeasurementOption
}

func reasonOption(reason string) metric.MeasurementOption {
	return metric.WithAttributeSet(attribute.NewSet(attribute.String("reason", reason)))
}

func newTelemetry(set component.TelemetrySettings, p *tracesProcessor) (*telemetry, error) {
	builder, err := metadata.NewTelemetryBuilder(set)
	if err != nil {
		return nil, err
	}
	t := &telemetry{builder: builder}
	for r := range t.early {
		t.early[r] = reasonOption(fold.Reason(r).String())
	}
	for r, name := range lostNames {
		t.lostOpts[r] = reasonOption(name)
	}
	t.late = [2]metric.MeasurementOption{reasonOption("folded"), reasonOption("passed")}
	return t, t.observe(p)
}

// observe registers what is read when the metrics are collected.
func (t *telemetry) observe(p *tracesProcessor) error {
	state := func(name string) metric.ObserveOption {
		return metric.WithAttributeSet(attribute.NewSet(attribute.String("state", name)))
	}
	known, unknown, ambiguous := state("known"), state("unknown"), state("ambiguous")
	return errors.Join(
		t.builder.RegisterProcessorRankdedupHeldBytesCallback(func(_ context.Context, o metric.Int64Observer) error {
			o.Observe(p.bytes.Load())
			return nil
		}),
		t.builder.RegisterProcessorRankdedupHeldSpansCallback(func(_ context.Context, o metric.Int64Observer) error {
			o.Observe(p.level(func(s fold.Stats) int64 { return s.Held }) + p.flusher.queued())
			return nil
		}),
		t.builder.RegisterProcessorRankdedupTracesCallback(func(_ context.Context, o metric.Int64Observer) error {
			o.Observe(p.level(func(s fold.Stats) int64 { return s.Traces }))
			return nil
		}),
		t.builder.RegisterProcessorRankdedupSendersCallback(func(_ context.Context, o metric.Int64Observer) error {
			c := p.registry.Count()
			o.Observe(c.Known, known)
			o.Observe(c.Ambiguous, ambiguous)
			o.Observe(c.Senders-c.Known-c.Ambiguous, unknown)
			return nil
		}),
		t.builder.RegisterProcessorRankdedupSilentRanksCallback(func(_ context.Context, o metric.Int64Observer) error {
			o.Observe(p.registry.Count().Silent)
			return nil
		}),
		t.builder.RegisterProcessorRankdedupEnginesCallback(func(_ context.Context, o metric.Int64Observer) error {
			o.Observe(p.registry.Count().Engines)
			return nil
		}),
	)
}

// level sums one of the shards' levels.
func (p *tracesProcessor) level(of func(fold.Stats) int64) (sum int64) {
	for i := range p.shards {
		s := &p.shards[i]
		s.mu.Lock()
		sum += of(s.Levels())
		s.mu.Unlock()
	}
	return sum
}

// batch reports a Consume call.
func (t *telemetry) batch(ctx context.Context, b *batch) {
	t.builder.ProcessorRankdedupSpansIn.Add(ctx, int64(len(b.entries)))
	count(ctx, t.builder.ProcessorRankdedupSpansAtOnce, b.atOnce)
	count(ctx, t.builder.ProcessorRankdedupSendersRefused, b.stats.refusedSenders)
	t.stats(ctx, &b.stats)
}

func count(ctx context.Context, c metric.Int64Counter, n int64, opts ...metric.AddOption) {
	if n > 0 {
		c.Add(ctx, n, opts...)
	}
}

func (t *telemetry) stats(ctx context.Context, s *stats) {
	count(ctx, t.builder.ProcessorRankdedupSpansFolded, s.Folded)
	count(ctx, t.builder.ProcessorRankdedupSpansFilled, s.Filled)
	count(ctx, t.builder.ProcessorRankdedupSpansResent, s.Resent)
	count(ctx, t.builder.ProcessorRankdedupSpansUnfolded, s.Unfolded)
	count(ctx, t.builder.ProcessorRankdedupFailovers, s.Failovers)
	if s.LateFolded > 0 {
		t.builder.ProcessorRankdedupSpansLate.Add(ctx, s.LateFolded, t.late[0])
	}
	if s.LatePassed > 0 {
		t.builder.ProcessorRankdedupSpansLate.Add(ctx, s.LatePassed, t.late[1])
	}
	for r := fold.ReasonNone + 1; r < fold.ReasonCount; r++ {
		if s.Early[r] > 0 {
			t.builder.ProcessorRankdedupSpansEarlyRelease.Add(ctx, s.Early[r], t.early[r])
		}
	}
}

func (t *telemetry) refused(ctx context.Context, spans int) {
	t.builder.ProcessorRankdedupSpansRefused.Add(ctx, int64(spans))
}

func (t *telemetry) released(ctx context.Context, n int64) {
	t.builder.ProcessorRankdedupSpansReleased.Add(ctx, n)
}

func (t *telemetry) lost(why lostReason, n int64) {
	if n > 0 {
		t.builder.ProcessorRankdedupSpansLost.Add(context.Background(), n, t.lostOpts[why])
	}
}

func (t *telemetry) shutdown() { t.builder.Shutdown() }

// secondsOf reads a duration that is given in seconds; 0 for what is none.
func secondsOf(v pcommon.Value) time.Duration {
	if s := v.Double(); s > 0 && s <= time.Hour.Seconds() {
		return time.Duration(s * float64(time.Second))
	}
	return 0
}

// shareOf reads a share; 0 for what is none.
func shareOf(v pcommon.Value) float64 {
	if share := v.Double(); share > 0 && share <= 1 {
		return share
	}
	return 0
}
