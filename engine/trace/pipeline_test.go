// Copyright The otelcol-sglang Authors
// SPDX-License-Identifier: Apache-2.0

package trace

import (
	"context"
	"fmt"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"go.opentelemetry.io/collector/component/componenttest"
	"go.opentelemetry.io/collector/confmap"
	"go.opentelemetry.io/collector/consumer"
	"go.opentelemetry.io/collector/consumer/consumertest"
	"go.opentelemetry.io/collector/pdata/pcommon"
	"go.opentelemetry.io/collector/pdata/ptrace"
	"go.opentelemetry.io/collector/processor"
	"go.opentelemetry.io/collector/processor/processortest"

	"github.com/otelcol-sglang/otelcol-sglang/engine/clock"
	"github.com/otelcol-sglang/otelcol-sglang/engine/ledger"
	"github.com/otelcol-sglang/otelcol-sglang/internal/sglang"
	"github.com/otelcol-sglang/otelcol-sglang/processor/genaiprocessor"
	"github.com/otelcol-sglang/otelcol-sglang/processor/rankdedupprocessor"
)

// processed is a sink that hands requests to a consumer when engine time has passed
// on the consumer's clock as well.
type processed struct {
	loop  *clock.Loop
	began time.Time
	next  consumer.Traces
}

type processedOne struct {
	*processed
	from Process
}

func (s *processed) Open(p Process) (Exporter, error) { return processedOne{s, p}, nil }

func (s processedOne) Export(ctx context.Context, td ptrace.Traces) error {
	time.Sleep(s.loop.Now() - time.Since(s.began))
	td.ResourceSpans().At(0).Resource().Attributes().PutStr(sglang.AttrExporterPeer, "collector/"+s.from.String())
	return s.next.ConsumeTraces(ctx, td)
}

func (processedOne) Close() error { return nil }

func process(t *testing.T, f processor.Factory, next consumer.Traces) processor.Traces {
	t.Helper()
	cfg := f.CreateDefaultConfig()
	require.NoError(t, confmap.New().Unmarshal(cfg))
	p, err := f.CreateTraces(context.Background(), processortest.NewNopSettings(f.Type()), cfg, next)
	require.NoError(t, err)
	require.NoError(t, p.Start(context.Background(), componenttest.NewNopHost()))
	t.Cleanup(func() { require.NoError(t, p.Shutdown(context.Background())) })
	return p
}

// retracted is a request that goes through the DP controller and loses its KV once.
// It waits 1 ms in the queue, and 40 ms after the retraction.
func (b *bench) retracted(r *ledger.Request, p *ledger.Place) {
	start := b.loop.Now()
	when := func(ms float64, do func(time.Duration)) { b.loop.At(start+at(ms), func() { do(b.loop.Now()) }) }
	back := func(now time.Duration, ms float64) ledger.Reading { return ledger.Reading{At: now - at(ms)} }
	here := func(now time.Duration) ledger.Reading { return ledger.Reading{At: now} }
	r.Front.Created = start
	b.Start(r, start)
	when(1, func(now time.Duration) {
		r.Front.DispatchFinish = now
		b.FrontEnd(r, sglang.StageTokenize, start, now-at(0.5))
		b.FrontEnd(r, sglang.StageAPIServerDispatch, now-at(0.4), now)
	})
	when(2, func(now time.Duration) { b.Dispatch(r, now-at(0.5), now) })
	when(4, func(now time.Duration) {
		b.Slice(r, p, sglang.StageRequestProcess, back(now, 1.5), back(now, 1), ledger.NoDecodeCT)
		b.Slice(r, p, sglang.StagePrefillWaiting, back(now, 1), here(now), ledger.NoDecodeCT)
		b.Open(r, p, sglang.StagePrefillForward, here(now))
	})
	when(14, func(now time.Duration) {
		b.Close(r, p, sglang.StagePrefillForward, here(now))
		b.Open(r, p, sglang.StageDecodeForward, here(now))
		r.Front.FirstToken = now + at(0.3)
		r.Output = append(r.Output, 1)
	})
	steps := func(from float64, n int) {
		for i := range n {
			when(from+10*float64(i+1), func(now time.Duration) {
				b.Slice(r, p, sglang.StageDecodeLoop, back(now, 10), here(now), r.DecodeSteps)
				r.DecodeSteps++
				r.Output = append(r.Output, 1)
			})
		}
	}
	steps(14, 5)
	when(64, func(now time.Duration) { b.Retract(r, p, here(now)) })
	when(104, func(now time.Duration) { b.Open(r, p, sglang.StagePrefillForward, here(now)) })
	when(116, func(now time.Duration) { b.Close(r, p, sglang.StagePrefillForward, here(now)) })
	steps(116, 8)
	when(196, func(now time.Duration) {
		r.Finish = ledger.FinishStop
		b.EndThread(r, p, here(now), false)
		r.Front.Finished = now + at(0.4)
		b.Finish(r, r.Front.Finished)
	})
}

// TestPipeline: what the tracer exports goes through the processors as an engine's
// spans do: one root per request, complete, one thread per process kind of the group
// that owns it, nothing that points to what is not there.
func TestPipeline(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		out := &consumertest.TracesSink{}
		first := process(t, rankdedupprocessor.NewFactory(), process(t, genaiprocessor.NewFactory(), out))
		b := &bench{t: t, loop: clock.NewVirtual(time.Now()), to: NewRecorder()}
		tr, err := New(Config{
			Loop: b.loop, Sink: &processed{loop: b.loop, began: time.Now(), next: first}, Model: "m", Level: 3,
			Seed: 3, StepJitter: 200 * time.Microsecond,
		})
		require.NoError(t, err)
		b.Tracer = tr
		tr.Set(func(p Process) bool { return p.TP == 3 }, Condition{Delay: 2 * time.Millisecond})
		groups := []*ledger.Place{{DPRank: 0, TPRanks: []int{0, 1}}, {DPRank: 1, TPRanks: []int{2, 3}}}
		const requests = 60
		for i := range requests {
			b.loop.At(at(float64(i)*25), func() { b.retracted(newRequest(fmt.Sprintf("r%d", i)), groups[i%2]) })
		}
		b.out()
		time.Sleep(time.Minute)

		spans := map[pcommon.SpanID]ptrace.Span{}
		threads := map[pcommon.TraceID]map[string]int{}
		roots := 0
		for _, s := range spansOf(out.AllTraces()...) {
			require.NotContains(t, spans, s.SpanID(), "twice: %s", s.Name())
			spans[s.SpanID()] = s
			switch sglang.KindOf(s) {
			case sglang.KindThread:
				if threads[s.TraceID()] == nil {
					threads[s.TraceID()] = map[string]int{}
				}
				threads[s.TraceID()][sglang.ThreadOf(s.Attributes()).Label]++
			case sglang.KindRoot:
				roots++
				told(t, s)
			}
		}
		assert.Equal(t, requests, roots)
		assert.Len(t, threads, requests)
		for id, n := range threads {
			assert.Equal(t, map[string]int{"Tokenizer": 1, "DP Controller": 1, "Scheduler": 1}, n, id)
		}
		for _, s := range spans {
			if !s.ParentSpanID().IsEmpty() {
				assert.Contains(t, spans, s.ParentSpanID(), s.Name())
			}
			for _, l := range s.Links().All() {
				assert.Contains(t, spans, l.SpanID(), "link of %s", s.Name())
			}
		}
	})
}

// told: what the processors say of a request is what happened to it.
func told(t *testing.T, root ptrace.Span) {
	t.Helper()
	m := root.Attributes()
	value := func(key string) float64 {
		v, ok := m.Get(key)
		require.True(t, ok, "%s of %v", key, m.AsRaw())
		if v.Type() == pcommon.ValueTypeInt {
			return float64(v.Int())
		}
		return v.Double()
	}
	assert.Equal(t, sglang.CompletenessComplete, text(m, sglang.AttrCompleteness))
	assert.InDelta(t, 1, value(sglang.AttrRetractions), 0)
	assert.InDelta(t, 0.1964, value(sglang.AttrLatencyE2E), 1e-6)
	assert.InDelta(t, 0.0143, value(sglang.AttrLatencyTTFT), 1e-6)
	assert.InDelta(t, 0.041, value(sglang.AttrLatencyInQueue), 0.0008)
	assert.InDelta(t, (0.1964-0.0143)/13, value(sglang.AttrOutTPOT), 1e-6)
}
