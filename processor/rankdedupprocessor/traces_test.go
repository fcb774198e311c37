// Copyright The otelcol-sglang Authors
// SPDX-License-Identifier: Apache-2.0

package rankdedupprocessor

import (
	"context"
	"errors"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"go.opentelemetry.io/collector/component/componenttest"
	"go.opentelemetry.io/collector/consumer"
	"go.opentelemetry.io/collector/consumer/consumererror"
	"go.opentelemetry.io/collector/consumer/consumertest"
	"go.opentelemetry.io/collector/pdata/pcommon"
	"go.opentelemetry.io/collector/pdata/ptrace"
	"go.opentelemetry.io/collector/processor"
	"go.opentelemetry.io/collector/processor/processortest"
	"go.opentelemetry.io/otel/sdk/metric/metricdata"

	"github.com/otelcol-sglang/otelcol-sglang/internal/capture"
	"github.com/otelcol-sglang/otelcol-sglang/internal/sglang"
	"github.com/otelcol-sglang/otelcol-sglang/processor/rankdedupprocessor/internal/fold"
	"github.com/otelcol-sglang/otelcol-sglang/processor/rankdedupprocessor/internal/metadata"
)

// startWith starts a processor in front of a consumer, with telemetry that can be read.
func startWith(t *testing.T, cfg *Config, next consumer.Traces) (*tracesProcessor, *componenttest.Telemetry) {
	t.Helper()
	tel := componenttest.NewTelemetry()
	set := processortest.NewNopSettings(metadata.Type)
	set.TelemetrySettings = tel.NewTelemetrySettings()
	p, err := newTracesProcessor(set, cfg, next)
	require.NoError(t, err)
	require.NoError(t, p.Start(context.Background(), componenttest.NewNopHost()))
	t.Cleanup(func() {
		require.NoError(t, p.Shutdown(context.Background()))
		require.NoError(t, tel.Shutdown(context.Background()))
	})
	return p, tel
}

// value returns the sum of a metric's points with the reason, of all points for "".
func value(t *testing.T, tel *componenttest.Telemetry, name, reason string) (sum int64) {
	t.Helper()
	m, err := tel.GetMetric("otelcol_processor_rankdedup_" + name)
	if err != nil {
		return 0
	}
	var points []metricdata.DataPoint[int64]
	switch data := m.Data.(type) {
	case metricdata.Sum[int64]:
		points = data.DataPoints
	case metricdata.Gauge[int64]:
		points = data.DataPoints
	}
	for _, dp := range points {
		if v, _ := dp.Attributes.Value("reason"); reason == "" || v.AsString() == reason {
			sum += dp.Value
		}
	}
	return sum
}

func consumeAll(t *testing.T, p *tracesProcessor, batches ...ptrace.Traces) {
	t.Helper()
	for _, td := range batches {
		require.NoError(t, p.ConsumeTraces(context.Background(), td))
	}
}

// warm serves one request, so that the ranks are known.
func warm(t *testing.T, p *tracesProcessor, l *load) {
	t.Helper()
	l.serve(1)
	for _, batches := range l.batches {
		consumeAll(t, p, batches...)
	}
	time.Sleep(5 * time.Second)
	synctest.Wait()
}

// steps returns the ids of the decode_loop spans by ordinal.
func steps(tds []ptrace.Traces) map[int64][]ptrace.Span {
	out := map[int64][]ptrace.Span{}
	for _, td := range tds {
		eachSpan(td, func(_ ptrace.ResourceSpans, s ptrace.Span) {
			if s.Name() == "decode_loop" {
				ct, _ := s.Attributes().Get(sglang.AttrDecodeCT)
				out[ct.Int()] = append(out[ct.Int()], s)
			}
		})
	}
	return out
}

func TestFailover(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		sink := &consumertest.TracesSink{}
		p, tel := startWith(t, createDefaultConfig().(*Config), sink)
		l := &load{tp: 3, level: 3, tokens: 2}
		warm(t, p, l)
		sink.Reset()

		trace, root, dispatch := l.id(), l.id(), l.id()
		type rank struct{ thread, decode uint64 }
		ranks := []rank{{l.id(), l.id()}, {l.id(), l.id()}, {l.id(), l.id()}}
		one := func(process int, add func()) {
			l.batches = make([][]ptrace.Traces, 4)
			add()
			consumeAll(t, p, l.batches[process]...)
		}
		for i, r := range ranks {
			one(i+1, func() { l.add(i+1, trace, l.id(), r.thread, dispatch, "request_process") })
		}
		const tokens, diesAt = 600, 100
		for ct := int64(1); ct <= tokens; ct++ {
			for i, r := range ranks {
				if i == 0 && ct > diesAt {
					continue
				}
				one(i+1, func() {
					l.add(i+1, trace, l.id(), r.decode, 0, "decode_loop").Attributes().PutInt(sglang.AttrDecodeCT, ct)
				})
			}
			time.Sleep(50 * time.Millisecond)
		}
		synctest.Wait()
		assert.EqualValues(t, 1, value(t, tel, "failovers", ""))
		assert.Less(t, p.level(heldSpans), int64(5), "held after the failover")
		for i, r := range ranks[1:] {
			one(i+2, func() {
				l.add(i+2, trace, r.decode, r.thread, 0xabc, "decode_forward")
				s := l.add(i+2, trace, r.thread, root, 0, "Scheduler")
				s.Attributes().PutStr(sglang.AttrThreadLabel, "Scheduler")
				s.Attributes().PutInt(sglang.AttrTPRank, int64(i+1))
				s.Attributes().PutInt(sglang.AttrPPRank, 0)
			})
		}
		one(0, func() { l.add(0, trace, root, 0, 0, " Req 1").Attributes().PutStr(sglang.AttrRID, "1") })
		time.Sleep(10 * time.Second)
		synctest.Wait()

		out := treeOf(sink.AllTraces())
		assert.Empty(t, out.twice)
		loops := steps(sink.AllTraces())
		require.Len(t, loops, tokens)
		for ct, spans := range loops {
			require.Len(t, spans, 1, "step %d", ct)
			assert.Equal(t, spanID(ranks[0].decode), spans[0].ParentSpanID(), "step %d", ct)
		}
		// The slices that left name rank 0's decode_forward and thread: rank 1's take their ids.
		assert.Equal(t, "decode_forward", out.spans[spanID(ranks[0].decode)].Name())
		assert.Equal(t, sglang.KindThread, sglang.KindOf(out.spans[spanID(ranks[0].thread)]))
		assert.Contains(t, out.spans, spanID(root))
		assert.Zero(t, p.level(heldSpans))
	})
}

// TestIdleEngineKeepsPrimary: silence alone is only an idle engine.
func TestIdleEngineKeepsPrimary(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		sink := &consumertest.TracesSink{}
		p, tel := startWith(t, createDefaultConfig().(*Config), sink)
		l := &load{tp: 2, level: 3, tokens: 5}
		warm(t, p, l)
		time.Sleep(20 * time.Minute)
		sink.Reset()
		l.serve(1)
		// Rank 1's copies come first.
		consumeAll(t, p, l.batches[2]...)
		time.Sleep(500 * time.Millisecond)
		consumeAll(t, p, l.batches[1]...)
		consumeAll(t, p, l.batches[0]...)
		time.Sleep(5 * time.Second)
		synctest.Wait()
		assert.Zero(t, value(t, tel, "failovers", ""))
		assert.Zero(t, value(t, tel, "spans_filled", ""))
		for _, td := range sink.AllTraces() {
			for _, rs := range td.ResourceSpans().All() {
				if rank, ok := rs.Resource().Attributes().Get(sglang.AttrResourceTPRank); ok {
					assert.EqualValues(t, 0, rank.Int())
				}
			}
		}
	})
}

// flaky refuses some calls.
type flaky struct {
	consumertest.TracesSink
	refuse func(call int) error
	calls  atomic.Int64
}

func (f *flaky) ConsumeTraces(ctx context.Context, td ptrace.Traces) error {
	if err := f.refuse(int(f.calls.Add(1))); err != nil {
		return err
	}
	return f.TracesSink.ConsumeTraces(ctx, td)
}

// TestResend: a batch that was refused is sent again, one that was taken too.
func TestResend(t *testing.T) {
	exports, err := capture.Load(capturesDir, "traces-unified-tp4-level3")
	require.NoError(t, err)
	synctest.Test(t, func(t *testing.T) {
		next := &flaky{refuse: func(call int) error {
			if call%3 == 1 {
				return errors.New("queue is full")
			}
			return nil
		}}
		p, tel := startWith(t, createDefaultConfig().(*Config), next)
		for run := range uint64(2) {
			next.Reset()
			in := inputTree(exports, run)
			for _, e := range exports {
				for taken := 0; taken < 2; {
					td := fresh(e.Traces, run)
					stamp(td, e.Peer)
					if p.ConsumeTraces(context.Background(), td) == nil {
						taken++
					}
				}
			}
			time.Sleep(time.Minute)
			synctest.Wait()
			checkOutput(t, in, treeOf(next.AllTraces()))
		}
		assert.Positive(t, value(t, tel, "spans_resent", ""))
		assert.Zero(t, value(t, tel, "spans_lost", ""))
	})
}

func TestPermanentErrorIsCounted(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		next := &flaky{refuse: func(int) error { return consumererror.NewPermanent(errors.New("no")) }}
		p, tel := startWith(t, createDefaultConfig().(*Config), next)
		l := &load{tp: 1}
		l.serve(1)
		// What could pass is refused to its sender; the root is held and ours.
		require.Error(t, p.ConsumeTraces(context.Background(), l.batches[0][0]))
		time.Sleep(time.Minute)
		synctest.Wait()
		assert.EqualValues(t, 1, value(t, tel, "spans_lost", "refused"))
		assert.Zero(t, p.level(heldSpans))
	})
}

// persist sends a batch until it is taken.
func persist(t *testing.T, p *tracesProcessor, td ptrace.Traces) {
	t.Helper()
	for range 1000 {
		again := ptrace.NewTraces()
		td.CopyTo(again)
		if p.ConsumeTraces(context.Background(), again) == nil {
			return
		}
		time.Sleep(100 * time.Millisecond)
	}
	t.Fatal("never taken")
}

// TestBackPressure: while the next consumer takes nothing, held spans are kept
// up to the limit; then senders are refused, and nothing is lost.
func TestBackPressure(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var open atomic.Bool
		next := &flaky{refuse: func(int) error {
			if open.Load() {
				return nil
			}
			return errors.New("down")
		}}
		cfg := createDefaultConfig().(*Config)
		cfg.MaxHeldMiB = 1
		p, tel := startWith(t, cfg, next)
		l := &load{tp: 1, level: 3, tokens: 5000}
		l.serve(1)
		time.AfterFunc(10*time.Second, func() { open.Store(true) })
		for _, td := range l.batches[1] {
			persist(t, p, td)
		}
		time.Sleep(time.Minute)
		synctest.Wait()
		assert.Positive(t, value(t, tel, "spans_refused", ""))
		assert.Zero(t, value(t, tel, "spans_lost", ""))
		assert.Len(t, steps(next.AllTraces()), 5000)
	})
}

// TestLimit: at the limit spans leave early; a duplicate may, none is lost.
func TestLimit(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		sink := &consumertest.TracesSink{}
		cfg := createDefaultConfig().(*Config)
		cfg.MaxHeldMiB = 1
		p, tel := startWith(t, cfg, sink)
		l := &load{tp: 4, level: 3, tokens: 2000}
		l.serve(3)
		highest := int64(0)
		for i := range l.batches[1] {
			for process := range l.batches {
				if i < len(l.batches[process]) {
					persist(t, p, l.batches[process][i])
					highest = max(highest, p.bytes.Load())
				}
			}
		}
		time.Sleep(time.Minute)
		synctest.Wait()
		assert.Less(t, highest, int64(2<<20))
		assert.Positive(t, value(t, tel, "spans_early_release", "held_limit"))
		assert.Zero(t, value(t, tel, "spans_lost", ""))
		seen := map[pcommon.TraceID]map[int64]bool{}
		for ct, spans := range steps(sink.AllTraces()) {
			for _, s := range spans {
				if seen[s.TraceID()] == nil {
					seen[s.TraceID()] = map[int64]bool{}
				}
				seen[s.TraceID()][ct] = true
			}
		}
		require.Len(t, seen, 3)
		for trace, ordinals := range seen {
			assert.Equal(t, 2000, len(ordinals), "steps of %s", trace) //nolint:testifylint // Len prints the map
		}
	})
}

// TestUnknownSenderLeavesAfterLearnWait: no thread span ever comes.
func TestUnknownSenderLeavesAfterLearnWait(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		sink := &consumertest.TracesSink{}
		cfg := createDefaultConfig().(*Config)
		p, tel := startWith(t, cfg, sink)
		l := &load{tp: 1}
		l.batches = make([][]ptrace.Traces, 2)
		l.add(1, 7, 8, 9, 10, "request_process")
		consumeAll(t, p, l.batches[1]...)
		time.Sleep(cfg.LearnWait - time.Second)
		synctest.Wait()
		assert.Zero(t, sink.SpanCount())
		assert.EqualValues(t, 1, value(t, tel, "held_spans", ""))
		time.Sleep(2 * time.Second)
		synctest.Wait()
		assert.Equal(t, 1, sink.SpanCount())
		assert.EqualValues(t, 1, value(t, tel, "spans_early_release", "learn_wait"))
		stampLeft, ok := sink.AllTraces()[0].ResourceSpans().At(0).Resource().Attributes().Get(sglang.AttrExporterPeer)
		assert.True(t, ok, "a later tier needs the stamp")
		assert.Equal(t, "collector/10.0.0.1:4001", stampLeft.Str())
	})
}

func TestShutdownFlushes(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		sink := &consumertest.TracesSink{}
		p, err := newTracesProcessor(processortest.NewNopSettings(metadata.Type), createDefaultConfig().(*Config), sink)
		require.NoError(t, err)
		require.NoError(t, p.Start(context.Background(), componenttest.NewNopHost()))
		l := &load{tp: 2, level: 3, tokens: 4}
		l.serve(2)
		for _, batches := range l.batches {
			consumeAll(t, p, batches[0])
		}
		require.NoError(t, p.Shutdown(context.Background()))
		require.NoError(t, p.Shutdown(context.Background()), "a second time")
		in := treeOf(nil)
		l2 := &load{tp: 2, level: 3, tokens: 4}
		l2.serve(2)
		for _, batches := range l2.batches {
			for id, s := range treeOf(batches).spans {
				in.spans[id] = s
			}
		}
		checkOutput(t, in, treeOf(sink.AllTraces()))
		assert.Zero(t, p.bytes.Load())
	})
}

// TestForeignSpans: what is not SGLang's passes as it came, without allocation.
func TestForeignSpans(t *testing.T) {
	p, err := newTracesProcessor(processortest.NewNopSettings(metadata.Type), createDefaultConfig().(*Config), consumertest.NewNop())
	require.NoError(t, err)
	td := ptrace.NewTraces()
	rs := td.ResourceSpans().AppendEmpty()
	rs.Resource().Attributes().PutStr(attrInstanceID, "other")
	ss := rs.ScopeSpans().AppendEmpty()
	ss.Scope().SetName("http")
	for range batchSpans {
		s := ss.Spans().AppendEmpty()
		s.SetName("decode_loop")
		s.Attributes().PutStr(sglang.AttrThreadLabel, "not ours")
	}
	before := ptrace.NewTraces()
	td.CopyTo(before)
	assert.Zero(t, testing.AllocsPerRun(100, func() { _ = p.ConsumeTraces(context.Background(), td) }))
	assert.Equal(t, before, td)
}

// TestTwoTiers: an engine spans two nodes; each agent folds its own ranks, the
// gateway folds what is left.
func TestTwoTiers(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		sink := &consumertest.TracesSink{}
		slow := createDefaultConfig().(*Config)
		slow.Wait = 6 * time.Second
		gateway, _ := startWith(t, slow, sink)
		a, _ := startWith(t, createDefaultConfig().(*Config), gateway)
		b, _ := startWith(t, createDefaultConfig().(*Config), gateway)
		agents := []processor.Traces{a, a, a, b, b} // front end, ranks 0 to 3
		l := &load{tp: 4, level: 3, tokens: 20}
		for round := range 3 {
			sink.Reset()
			l.serve(1)
			for process, batches := range l.batches {
				for _, td := range batches {
					require.NoError(t, agents[process].ConsumeTraces(context.Background(), td))
				}
			}
			time.Sleep(30 * time.Second)
			synctest.Wait()
			out := treeOf(sink.AllTraces())
			assert.Empty(t, out.twice, "round %d", round)
			assert.Empty(t, out.dangling(), "round %d", round)
			assert.Len(t, out.spans, 3+1+4+20+1, "round %d", round)
			engines := map[string]bool{}
			for id, s := range out.spans {
				engine, _ := out.res[id].Attributes().Get(sglang.AttrEngineID)
				engines[engine.Str()] = true
				if sglang.KindOf(s) == sglang.KindThread && sglang.ThreadOf(s.Attributes()).Label == "Scheduler" {
					count, _ := s.Attributes().Get(sglang.AttrRanksCount)
					assert.EqualValues(t, 4, count.Int(), "round %d", round)
					assert.EqualValues(t, 0, sglang.ThreadOf(s.Attributes()).Ranks.TP)
				}
			}
			if round > 0 {
				assert.Len(t, engines, 1, "round %d", round)
			}
		}
	})
}

func heldSpans(s fold.Stats) int64 { return s.Held }

// TestGatewayThatSawAPart: before a gateway joined the group of a queue's readers the
// other one took the spans of one node. What it has learned of the other node alone
// must not make it take that for an engine.
func TestGatewayThatSawAPart(t *testing.T) {
	for name, seen := range map[string][]bool{
		"nothing": {false, false}, "the node with the root": {true, false}, "the other node": {false, true},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				sink := &consumertest.TracesSink{}
				slow := createDefaultConfig().(*Config)
				slow.Wait = 12 * time.Second
				gateway, tel := startWith(t, slow, sink)
				agents := []processor.Traces{}
				reaches := []bool{true, true}
				for node := range 2 {
					next, err := consumer.NewTraces(func(ctx context.Context, td ptrace.Traces) error {
						if !reaches[node] {
							return nil
						}
						return gateway.ConsumeTraces(ctx, td)
					})
					require.NoError(t, err)
					agent, _ := startWith(t, createDefaultConfig().(*Config), next)
					agents = append(agents, agent)
				}
				l := &load{tp: 4, level: 3, tokens: 20}
				serve := func() {
					l.serve(1)
					for process := len(l.batches) - 1; process >= 0; process-- { // the far node first
						node := 0
						if process > 2 {
							node = 1
						}
						consumeAll(t, agents[node].(*tracesProcessor), l.batches[process]...)
						time.Sleep(time.Second)
					}
				}
				copy(reaches, []bool{false, false})
				serve()
				time.Sleep(time.Minute)
				copy(reaches, seen)
				serve()
				time.Sleep(time.Minute)
				sink.Reset()
				early := value(t, tel, "spans_early_release", "")
				copy(reaches, []bool{true, true})
				for range 3 {
					serve()
				}
				time.Sleep(time.Minute)
				synctest.Wait()
				out := treeOf(sink.AllTraces())
				assert.Empty(t, out.twice)
				assert.Empty(t, out.dangling())
				assert.Len(t, out.spans, 3*(3+1+4+20+1))
				assert.Equal(t, early, value(t, tel, "spans_early_release", ""))
			})
		})
	}
}
