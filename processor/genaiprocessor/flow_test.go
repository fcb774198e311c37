// Copyright The otelcol-sglang Authors
// SPDX-License-Identifier: Apache-2.0

package genaiprocessor

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"sync"
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
	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/sdk/metric/metricdata"
	"go.opentelemetry.io/otel/sdk/metric/metricdata/metricdatatest"

	"github.com/otelcol-sglang/otelcol-sglang/internal/sglang"
	"github.com/otelcol-sglang/otelcol-sglang/processor/genaiprocessor/internal/metadatatest"
)

// TestAnyOrder: whatever the order and the cuts in which spans come, a root
// leaves with the same attributes, once, and nothing stays behind.
func TestAnyOrder(t *testing.T) {
	for _, name := range captureNames(t) {
		run(t, name, func(t *testing.T) {
			var want ptrace.Traces
			for seed := range uint64(12) {
				rng := rand.New(rand.NewPCG(seed, 7))
				spans := split(mergeAll(reduceRanks(loadCapture(t, name))))
				rng.Shuffle(len(spans), func(i, j int) { spans[i], spans[j] = spans[j], spans[i] })
				r := newRig(t, nil, nil)
				for len(spans) > 0 {
					n := min(len(spans), 1+rng.IntN(64))
					r.send(mergeAll(spans[:n]))
					spans = spans[n:]
				}
				r.roots()
				got := written(r.sink.AllTraces())
				assert.Zero(t, r.total("early_releases", ""))
				assert.Zero(t, r.total("late_spans", ""))
				golden(t, name, got)
				if seed == 0 {
					want = got
				}
				require.Len(t, r.roots(), len(rootsOf([]ptrace.Traces{want})))
				r.close()
				assert.Zero(t, r.p.heldBytes.Load()+int64(r.p.out.held()))
			}
		})
	}
}

// TestShuffledInTime: 2 000 requests whose spans come up to half a second out of
// order leave complete, but for less than 0.1 %.
func TestShuffledInTime(t *testing.T) {
	run(t, "half a second", func(t *testing.T) {
		const requests = 2000
		rng := rand.New(rand.NewPCG(5, 6))
		slots := make([][]ptrace.Traces, 100) // of 10 ms
		for range requests {
			s := plainStory(finished(20))
			s.steps(19, 200, 40)
			begin := rng.IntN(50)
			for _, one := range split(s.end()) {
				at := begin + rng.IntN(50)
				slots[at] = append(slots[at], one)
			}
		}
		r := newRig(t, nil, nil)
		for _, slot := range slots {
			if len(slot) > 0 {
				r.send(mergeAll(slot))
			}
			time.Sleep(10 * time.Millisecond)
		}
		// Threads here do not say how many slices left under them: what a thread's
		// arrival cannot tell is late, and counted.
		assert.Len(t, r.roots(), requests)
		assert.LessOrEqual(t, r.total("early_releases", ""), int64(requests/1000))
		r.close()
	})
}

// TestSharedTrace: many requests of a conversation share one trace id.
func TestSharedTrace(t *testing.T) {
	run(t, "50 requests", func(t *testing.T) {
		r := newRig(t, nil, nil)
		var all []ptrace.Traces
		want := map[pcommon.SpanID]float64{}
		for i := range 50 {
			s := newStory(1000, finished(10)).frontEnd()
			wait := float64(10 + i)
			s.scheduler(stage{"request_process", 4, 5}, stage{"prefill_waiting", 5, 5 + wait},
				stage{"prefill_forward", 5 + wait, 200}, stage{"decode_forward", 200, 999})
			s.steps(9, 200, 50)
			s.trace, s.parent = pcommon.TraceID{9, 9, 9}, pcommon.SpanID{1}
			all = append(all, split(inTrace(s))...)
			want[s.root] = wait / 1000
		}
		rand.New(rand.NewPCG(1, 1)).Shuffle(len(all), func(i, j int) { all[i], all[j] = all[j], all[i] })
		r.send(all...)
		roots := r.roots()
		require.Len(t, roots, 50)
		for _, root := range roots {
			assert.InDelta(t, want[root.SpanID()], seconds(root, sglang.AttrLatencyInQueue), 1e-9)
		}
		assert.Zero(t, r.p.heldBytes.Load())
		r.close()
	})
}

// TestTwice: an agent and a gateway may both run it.
func TestTwice(t *testing.T) {
	for _, name := range captureNames(t) {
		run(t, name, func(t *testing.T) {
			agent := newRig(t, nil, nil)
			agent.send(reduceRanks(loadCapture(t, name))...)
			want := written(func() []ptrace.Traces { agent.roots(); return clone(agent.sink.AllTraces()) }())
			gateway := newRig(t, nil, nil)
			gateway.send(clone(agent.sink.AllTraces())...)
			gateway.roots()
			assert.Equal(t, marshal(t, want), marshal(t, written(gateway.sink.AllTraces())))
			assert.Zero(t, gateway.total("invalid_values", ""))
			assert.Zero(t, gateway.total("late_spans", ""))
			assert.Zero(t, gateway.total("early_releases", ""))
			agent.close()
			gateway.close()
		})
	}
}

// TestTwiceIncomplete: what a tier before refused or could not know is looked for
// again, but its values are not judged a second time.
func TestTwiceIncomplete(t *testing.T) {
	for name, s := range map[string]*story{
		"refused":     newStory(1000, finished(10, sglang.AttrLatencyTTFT, -1.0, sglang.AttrLatencyInDecode, 0.5)).frontEnd(),
		"suspect":     plainStory(finished(10, sglang.AttrLatencyTTFT, 0.9)),
		"prefill":     half(false, "0x9", finished(1)),
		"decode":      half(true, "0x9", finished(11, sglang.AttrLatencyTTFT, 1.2)),
		"not to join": half(true, "0x0", finished(11, sglang.AttrLatencyTTFT, 0.311)),
	} {
		run(t, name, func(t *testing.T) {
			td := s.end()
			if name == "suspect" { // its thread is lost
				removeSpans(td, func(span ptrace.Span) bool { return sglang.KindOf(span) == sglang.KindThread && span.Name()[0] == 'S' })
			}
			batches, attrs := []ptrace.Traces{td}, []map[string]any(nil)
			for range 2 {
				r := newRig(t, nil, nil)
				r.send(batches...)
				time.Sleep(20 * time.Second)
				require.Len(t, r.roots(), 1)
				attrs = append(attrs, r.roots()[0].Attributes().AsRaw())
				batches = clone(r.sink.AllTraces())
				if len(attrs) > 1 {
					assert.Zero(t, r.total("invalid_values", ""))
					assert.Zero(t, r.total("suspect_ttft", ""))
					assert.Equal(t, name != "prefill" && name != "decode", r.total("pd_halves", "") == 0, "only these may yet be joined")
				}
				r.close()
			}
			assert.Equal(t, attrs[0], attrs[1])

			// A tier that only the root comes to knows less and takes nothing away.
			for _, td := range batches {
				removeSpans(td, func(span ptrace.Span) bool { return sglang.KindOf(span) != sglang.KindRoot })
			}
			r := newRig(t, nil, nil)
			r.send(batches...)
			time.Sleep(20 * time.Second)
			for key, v := range attrs[0] {
				if key != sglang.AttrCompleteness {
					assert.Equal(t, v, r.roots()[0].Attributes().AsRaw()[key], key)
				}
			}
			r.close()
		})
	}
}

// TestFoldedBefore: a decode_forward that a tier before has folded waits for nothing.
func TestFoldedBefore(t *testing.T) {
	run(t, "passes", func(t *testing.T) {
		r := newRig(t, nil, nil)
		s := plainStory(finished(10))
		for _, span := range s.spans.All() {
			if span.Name() == "decode_forward" {
				span.Attributes().PutInt(sglang.AttrStepsCount, 9)
			}
		}
		r.send(s.td)
		assert.Len(t, r.named("decode_forward"), 1)
		r.close()
	})
}

// TestOldestOpen: an engine's oldest request began with the first span heard of it.
func TestOldestOpen(t *testing.T) {
	run(t, "of many", func(t *testing.T) {
		r := newRig(t, nil, nil)
		begin := time.Now()
		for range 20 {
			s := newStory(1000, finished(10))
			s.trace[0], s.engine = 1, "a"
			spans := split(s.frontEnd().td)
			r.send(spans[0]) // a slice; its thread names the root later
			time.Sleep(time.Second)
			r.send(spans[2])
		}
		open := r.p.open()["a"]
		assert.EqualValues(t, 20, open.requests)
		assert.Equal(t, begin, open.since)
		r.close()
	})
}

func removeSpans(td ptrace.Traces, which func(ptrace.Span) bool) {
	for _, rs := range td.ResourceSpans().All() {
		for _, ss := range rs.ScopeSpans().All() {
			ss.Spans().RemoveIf(which)
		}
	}
}

func marshal(t *testing.T, td ptrace.Traces) string {
	t.Helper()
	out, err := new(ptrace.JSONMarshaler).MarshalTraces(td)
	require.NoError(t, err)
	return string(out)
}

// TestHalvesMeetAtTheGateway: each agent saw one half only.
func TestHalvesMeetAtTheGateway(t *testing.T) {
	run(t, "two agents", func(t *testing.T) {
		want := newRig(t, nil, nil)
		prefill, decode := half(false, "0x9", finished(1)), half(true, "0x9", finished(11, sglang.AttrLatencyTTFT, 0.311))
		decode.steps(10, 310, 60)
		p, d := prefill.end(), decode.end()
		want.send(clone([]ptrace.Traces{p, d})...)
		gateway := newRig(t, nil, nil)
		for _, td := range []ptrace.Traces{d, p} {
			agent := newRig(t, nil, func(c *Config) { c.PDWait = 0 })
			agent.send(td)
			require.Len(t, agent.roots(), 1)
			assert.Equal(t, "false", text(agent.roots()[0], sglang.AttrPDJoined))
			gateway.send(agent.sink.AllTraces()...)
			agent.close()
		}
		joined := byID(want.roots())
		got := byID(gateway.roots())
		require.Len(t, got, 2)
		for id := range got {
			assert.Equal(t, joined[id].Attributes().AsRaw(), got[id].Attributes().AsRaw())
		}
		want.close()
		gateway.close()
	})
}

// failing refuses calls as long as err is set.
type failing struct {
	consumertest.TracesSink
	mu  sync.Mutex
	err error
}

func (f *failing) set(err error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.err = err
}

// Capabilities: it changes what it gets, even what it refuses.
func (f *failing) Capabilities() consumer.Capabilities {
	return consumer.Capabilities{MutatesData: true}
}

func (f *failing) ConsumeTraces(ctx context.Context, td ptrace.Traces) error {
	f.mu.Lock()
	err := f.err
	f.mu.Unlock()
	if err != nil {
		td.ResourceSpans().RemoveIf(func(ptrace.ResourceSpans) bool { return true })
		return err
	}
	return f.TracesSink.ConsumeTraces(ctx, td)
}

var _ consumer.Traces = (*failing)(nil)

var errDown = errors.New("down")

// TestResend: what the next consumer refused is not recorded, what came twice
// counts once.
func TestResend(t *testing.T) {
	run(t, "refused, then taken, then again", func(t *testing.T) {
		next := new(failing)
		r := newRig(t, next, nil)
		r.sink = &next.TracesSink
		s := plainStory(finished(20))
		s.steps(19, 200, 40)
		batches := split(s.end())
		for _, td := range batches {
			if n := td.ResourceSpans().At(0).ScopeSpans().At(0).Spans().At(0).Name(); n == "tokenize" || n == "prefill_waiting" {
				next.set(errDown)
				assert.ErrorIs(t, r.p.ConsumeTraces(context.Background(), clone([]ptrace.Traces{td})[0]), errDown)
				next.set(nil)
			}
		}
		last := len(batches) - 1
		r.send(clone(batches[:last])...)
		assert.Empty(t, r.roots())
		r.send(clone(batches[:last])...) // the sender missed the acknowledgements
		r.send(clone(batches[last:])...)
		require.Len(t, r.roots(), 1)
		assert.Equal(t, "19", text(r.named("decode_forward")[0], sglang.AttrStepsCount))
		assert.EqualValues(t, 19, r.total("duplicate_spans", "step"))
		r.send(clone(batches[last:])...)
		assert.Len(t, r.roots(), 1, "a root that has left does not leave again")
		assert.EqualValues(t, 1, r.total("duplicate_spans", "root"))
		r.close()
	})
	run(t, "a mixed batch is refused", func(t *testing.T) {
		next := new(failing)
		r := newRig(t, next, nil)
		r.sink = &next.TracesSink
		s := plainStory(finished(20))
		s.steps(19, 200, 40)
		td := s.end()
		next.set(errDown)
		require.ErrorIs(t, r.p.ConsumeTraces(context.Background(), clone([]ptrace.Traces{td})[0]), errDown)
		assert.Zero(t, r.p.heldBytes.Load())
		next.set(nil)
		r.send(td)
		assert.Len(t, r.roots(), 1)
		assert.EqualValues(t, 19, r.total("folded_steps", ""))
		assert.Zero(t, r.total("duplicate_spans", ""))
		r.close()
	})
}

func TestNextConsumerIsDown(t *testing.T) {
	run(t, "retryable", func(t *testing.T) {
		next := new(failing)
		r := newRig(t, next, nil)
		r.sink = &next.TracesSink
		batches := split(plainStory(finished(20)).end())
		last := len(batches) - 1
		r.send(batches[:last]...)
		next.set(errDown)
		r.send(batches[last]) // a root alone is held, nothing is to be passed
		time.Sleep(30 * time.Second)
		assert.Empty(t, r.roots())
		assert.Positive(t, r.total("send_retries", ""))
		next.set(nil)
		time.Sleep(10 * time.Second)
		assert.Len(t, r.roots(), 1)
		assert.Zero(t, r.total("lost_spans", ""))
		r.close()
	})
	run(t, "permanent", func(t *testing.T) {
		next := new(failing)
		r := newRig(t, next, nil)
		batches := split(plainStory(finished(20)).end())
		last := len(batches) - 1
		r.send(batches[:last]...)
		next.set(consumererror.NewPermanent(errDown))
		r.send(batches[last])
		idle()
		assert.EqualValues(t, 2, r.total("lost_spans", "permanent_error"), "the root and its decode_forward")
		r.close()
	})
	run(t, "for too long", func(t *testing.T) {
		next := new(failing)
		r := newRig(t, next, func(c *Config) { c.MaxHeldMiB = 1 })
		next.set(errDown)
		var err error
		sent := 0
		for ; err == nil && sent < 1000; sent++ {
			s := newStory(1000, finished(1, sglang.AttrCompleteness, sglang.CompletenessNoScheduler))
			err = r.p.ConsumeTraces(context.Background(), s.end())
			time.Sleep(7 * time.Second)
		}
		require.ErrorIs(t, err, errBusy)
		assert.Positive(t, r.total("refused_batches", ""))
		ctx, cancel := context.WithTimeout(context.Background(), time.Second)
		defer cancel()
		require.NoError(t, r.p.Shutdown(ctx))
		assert.EqualValues(t, sent-1, r.total("lost_spans", "shutdown"), "each is counted")
	})
}

func TestShutdownFlushes(t *testing.T) {
	run(t, "all that is held", func(t *testing.T) {
		r := newRig(t, nil, nil)
		waiting := newStory(1000, finished(10)).frontEnd()
		folded := plainStory(finished(10))
		folded.steps(9, 200, 50)
		orphans := folded.td
		r.send(waiting.end(), orphans, half(false, "0x7", finished(1)).end())
		assert.Empty(t, r.roots())
		r.close()
		assert.Len(t, r.roots(), 2)
		assert.Equal(t, "9", text(r.named("decode_forward")[0], sglang.AttrStepsCount))
		assert.Zero(t, r.total("lost_spans", ""))
		assert.Zero(t, r.total("lost_steps", ""))
		assert.Positive(t, r.total("early_releases", "shutdown"))
		require.NoError(t, r.p.Shutdown(context.Background()), "twice is once")
	})
}

// TestLate: numbers that come after their request has left are counted, not
// invented, and their spans pass.
func TestLate(t *testing.T) {
	run(t, "after the wait", func(t *testing.T) {
		r := newRig(t, nil, nil)
		s := plainStory(finished(10))
		s.steps(9, 200, 50)
		batches := split(s.end())
		root, rest := batches[len(batches)-1], batches[:len(batches)-1]
		r.send(rest[:3]...) // the front end
		r.send(root)
		time.Sleep(7 * time.Second)
		require.Len(t, r.roots(), 1)
		assert.Equal(t, sglang.CompletenessNoScheduler, text(r.roots()[0], sglang.AttrCompleteness))
		r.send(rest[3:]...)
		assert.Len(t, r.spans(), len(batches), "late steps pass unfolded")
		assert.EqualValues(t, 9, r.total("late_spans", "step"))
		assert.EqualValues(t, 4, r.total("late_spans", "slice"))
		assert.EqualValues(t, 1, r.total("late_spans", "thread"))
		assert.Len(t, r.roots(), 1)
		r.close()
		assert.Zero(t, r.p.heldBytes.Load())
	})
}

// TestLostDecodeForward: folded steps whose span never came stand on the root.
func TestLostDecodeForward(t *testing.T) {
	run(t, "steps only", func(t *testing.T) {
		r := newRig(t, nil, nil)
		s := plainStory(finished(10))
		s.steps(9, 200, 50)
		for _, td := range split(s.end()) {
			if td.ResourceSpans().At(0).ScopeSpans().At(0).Spans().At(0).Name() != "decode_forward" {
				r.send(td)
			}
		}
		assert.Empty(t, r.roots())
		time.Sleep(7 * time.Second)
		root := r.roots()[0]
		assert.Equal(t, "9", text(root, sglang.AttrStepsCount))
		assert.InDelta(t, 0.45, seconds(root, sglang.AttrStepsSum), 1e-9)
		assert.Equal(t, sglang.CompletenessMissingSpans, text(root, sglang.AttrCompleteness))
		r.close()
	})
	run(t, "another rank's", func(t *testing.T) {
		r := newRig(t, nil, nil)
		ofRank := func(s *story, tp int64) {
			rs := s.td.ResourceSpans()
			attrs := rs.At(rs.Len() - 1).Resource().Attributes()
			attrs.PutInt(sglang.AttrResourceTPRank, tp)
			attrs.PutInt(sglang.AttrResourcePPRank, 0)
		}
		s := plainStory(finished(10))
		ofRank(s, 0)
		s.steps(9, 200, 50)
		s.process()
		ofRank(s, 1)
		s.links["decode_forward"] = newID() // that never comes
		s.steps(5, 200, 50)
		r.send(s.end())
		time.Sleep(7 * time.Second)
		require.Len(t, r.roots(), 1)
		assert.NotContains(t, r.roots()[0].Attributes().AsRaw(), sglang.AttrStepsCount)
		assert.Equal(t, "9", text(r.named("decode_forward")[0], sglang.AttrStepsCount))
		assert.EqualValues(t, 5, r.total("lost_steps", "no_decode_forward"))
		r.close()
	})
	run(t, "no root either", func(t *testing.T) {
		r := newRig(t, nil, nil)
		s := plainStory(finished(10))
		s.steps(9, 200, 50)
		for _, td := range split(s.td) {
			if td.ResourceSpans().At(0).ScopeSpans().At(0).Spans().At(0).Name() == "decode_loop" {
				r.send(td)
			}
		}
		r.close()
		assert.EqualValues(t, 9, r.total("lost_steps", "no_decode_forward"))
	})
}

// TestOpenRequests: a request that hangs shows while it hangs; one whose
// scheduler is done and whose root is lost does not.
func TestOpenRequests(t *testing.T) {
	run(t, "per engine", func(t *testing.T) {
		r := newRig(t, nil, nil)
		for i := range 3 {
			s := newStory(1000, finished(10))
			s.engine = []string{"a", "b", "b"}[i]
			s.frontEnd().scheduler(stage{"request_process", 4, 5})
			spans := split(s.td)
			r.send(spans[:4]...) // not the scheduler's thread
		}
		probe := newStory(1000, finished(1))
		probe.engine = "a"
		r.send(probe.frontEnd().td)
		done := newStory(1000, finished(10))
		done.engine = "c"
		done.frontEnd().scheduler(stage{"request_process", 4, 5}, stage{"prefill_waiting", 5, 105})
		r.send(clone([]ptrace.Traces{done.td})...)
		time.Sleep(90 * time.Second)
		synctest.Wait()
		point := func(engine string, n int64) metricdata.DataPoint[int64] {
			return metricdata.DataPoint[int64]{Value: n, Attributes: attribute.NewSet(attribute.String("engine", engine))}
		}
		metadatatest.AssertEqualProcessorGenaiOpenRequests(t, r.tel,
			[]metricdata.DataPoint[int64]{point("a", 1), point("b", 2), point("c", 0)}, metricdatatest.IgnoreTimestamp())
		metadatatest.AssertEqualProcessorGenaiOldestOpenRequestAge(t, r.tel, []metricdata.DataPoint[float64]{
			{Value: 90, Attributes: attribute.NewSet(attribute.String("engine", "a"))},
			{Value: 90, Attributes: attribute.NewSet(attribute.String("engine", "b"))},
			{Value: 0, Attributes: attribute.NewSet(attribute.String("engine", "c"))},
		}, metricdatatest.IgnoreTimestamp())
		metadatatest.AssertEqualProcessorGenaiRequestsWithoutRoot(t, r.tel,
			[]metricdata.DataPoint[int64]{{Value: 1}}, metricdatatest.IgnoreTimestamp())
		time.Sleep(3 * time.Hour)
		assert.Empty(t, r.p.open(), "engines are forgotten")
		r.close()
	})
	run(t, "a root that comes late has its numbers", func(t *testing.T) {
		r := newRig(t, nil, nil)
		s := plainStory(finished(10))
		rest := clone([]ptrace.Traces{s.td})[0]
		s.td = ptrace.NewTraces()
		r.send(rest)
		time.Sleep(5 * time.Minute)
		r.send(s.end())
		root := r.roots()[0]
		assert.InDelta(t, 0.1, seconds(root, sglang.AttrLatencyInQueue), 1e-9)
		assert.Equal(t, sglang.CompletenessComplete, text(root, sglang.AttrCompleteness))
		r.close()
	})
}

func TestOwnTelemetry(t *testing.T) {
	run(t, "what was refused and why", func(t *testing.T) {
		r := newRig(t, nil, nil)
		r.send(plainStory(finished(10, sglang.AttrLatencyTTFT, -1.0, sglang.AttrLatencyInDecode, 0.5)).end())
		r.roots()
		metadatatest.AssertEqualProcessorGenaiInvalidValues(t, r.tel, []metricdata.DataPoint[int64]{
			{Value: 1, Attributes: attribute.NewSet(attribute.String("attribute", "time_to_first_token"), attribute.String("reason", "negative"))},
			{Value: 1, Attributes: attribute.NewSet(attribute.String("attribute", "time_in_model_decode"), attribute.String("reason", "first_token"))},
		}, metricdatatest.IgnoreTimestamp())
		metadatatest.AssertEqualProcessorGenaiRoots(t, r.tel, []metricdata.DataPoint[int64]{
			{Value: 1, Attributes: attribute.NewSet(attribute.String("completeness", "complete"), attribute.String("engine", ""))},
		}, metricdatatest.IgnoreTimestamp())
		metadatatest.AssertEqualProcessorGenaiHeldBytes(t, r.tel, []metricdata.DataPoint[int64]{{Value: 0}}, metricdatatest.IgnoreTimestamp())
		metadatatest.AssertEqualProcessorGenaiHeldRoots(t, r.tel, []metricdata.DataPoint[int64]{{Value: 0}}, metricdatatest.IgnoreTimestamp())
		r.close()
	})
}

// A request that waits in the engine's queue for longer than an hour gets all its
// values, in a trace of its own and in a caller's.
func TestLongWaitInQueue(t *testing.T) {
	for name, external := range map[string]bool{"own trace": false, "caller's trace": true} {
		run(t, name, func(t *testing.T) {
			r := newRig(t, nil, nil)
			const wait = 100 * 60e3
			s := newStory(wait+1000, finished(11))
			if external {
				s.trace[0], s.parent = 1, newID()
			}
			s.frontEnd()
			scheduler := newID()
			s.process()
			process := s.span(scheduler, "request_process", 4, 5)
			r.send(s.td)
			time.Sleep(100 * time.Minute)
			assert.EqualValues(t, 1, r.p.open()[""].requests)
			s.td = ptrace.NewTraces()
			s.links["request_process"] = process.SpanID()
			s.process()
			th := s.thread("Scheduler", 0, "request_process", stage{"prefill_waiting", 5, wait},
				stage{"prefill_forward", wait, wait + 100}, stage{"decode_forward", wait + 100, wait + 999})
			moved := th.SpanID()
			th.SetSpanID(scheduler)
			for _, slice := range s.spans.All() {
				if slice.ParentSpanID() == moved {
					slice.SetParentSpanID(scheduler)
				}
			}
			r.send(s.end())
			require.Len(t, r.roots(), 1)
			root := r.roots()[0]
			assert.Equal(t, sglang.CompletenessComplete, text(root, sglang.AttrCompleteness))
			assert.InDelta(t, wait/1e3-0.005, seconds(root, sglang.AttrLatencyInQueue), 1e-6)
			assert.InDelta(t, 0.002, seconds(root, sglang.AttrBudgetPrefix+"tokenize"), 1e-6)
			checkBudget(t, root)
			assert.Zero(t, r.total("early_releases", ""))
			r.close()
		})
	}
}

func TestLimits(t *testing.T) {
	run(t, "requests", func(t *testing.T) {
		r := newRig(t, nil, func(c *Config) { c.MaxRequests = 160 })
		for range 1000 {
			r.send(newStory(1000, finished(10)).frontEnd().end())
		}
		roots := r.roots()
		assert.Greater(t, len(roots), 800, "beyond the limit the oldest leave early")
		assert.EqualValues(t, len(roots), r.total("early_releases", "limit"))
		r.close()
		assert.Len(t, r.roots(), 1000)
	})
	run(t, "memory", func(t *testing.T) {
		r := newRig(t, nil, func(c *Config) { c.MaxHeldMiB = 1 })
		for range 3000 {
			s := plainStory(finished(10))
			s.steps(9, 200, 50)
			r.send(s.td)
			idle() // the outbox is small, too
			assert.LessOrEqual(t, r.p.heldBytes.Load(), int64(1<<20))
		}
		assert.Positive(t, r.total("early_releases", "limit"))
		r.close()
		assert.Len(t, r.named("decode_forward"), 3000, "held spans leave, numbers go")
	})
}

// Spans of others pass in the call that brought them, untouched.
func TestForeignSpans(t *testing.T) {
	run(t, "pass", func(t *testing.T) {
		td := ptrace.NewTraces()
		ss := td.ResourceSpans().AppendEmpty().ScopeSpans().AppendEmpty()
		ss.Scope().SetName("gateway")
		for i := range 5 {
			s := ss.Spans().AppendEmpty()
			s.SetName(fmt.Sprintf("Scheduler %d", i))
			s.Attributes().PutStr(sglang.AttrRID, "1")
			s.Attributes().PutStr(sglang.AttrThreadLabel, "Scheduler")
		}
		want := marshal(t, td)
		r := newRig(t, nil, nil)
		r.send(td)
		require.Len(t, r.sink.AllTraces(), 1)
		assert.Equal(t, want, marshal(t, r.sink.AllTraces()[0]))
		assert.Zero(t, r.p.heldBytes.Load())
		r.close()
	})
}

// TestAllocations: what only passes costs none per span.
func TestAllocations(t *testing.T) {
	const spans = 512
	for name, scope := range map[string]string{"foreign": "other", "slices": sglang.ScopeName} {
		t.Run(name, func(t *testing.T) {
			p := benchProcessor(t, func(c *Config) { c.DecodeLoop = decodeLoopKeep })
			s := plainStory(finished(10))
			s.td = ptrace.NewTraces()
			s.process()
			s.steps(spans, 200, 1)
			s.td.ResourceSpans().At(0).ScopeSpans().At(0).Scope().SetName(scope)
			require.NoError(t, p.ConsumeTraces(context.Background(), s.td))
			perBatch := testing.AllocsPerRun(20, func() {
				if err := p.ConsumeTraces(context.Background(), s.td); err != nil {
					t.Error(err)
				}
			})
			assert.Less(t, perBatch, 16.0, "a few per batch of %d", spans)
		})
	}
}

func TestSpanNamesAndConventions(t *testing.T) {
	run(t, "replace", func(t *testing.T) {
		r := newRig(t, nil, func(c *Config) { c.Semconv = semconvReplace })
		r.send(plainStory(finished(10)).end())
		root := r.roots()[0]
		got := root.Attributes().AsRaw()
		for _, key := range []string{sglang.AttrPromptTokens, sglang.AttrCompletionTokens, sglang.AttrCachedTokens, sglang.AttrRequestID} {
			assert.NotContains(t, got, key)
		}
		assert.EqualValues(t, 10, got[sglang.AttrInputTokens])
		assert.EqualValues(t, 10, got[sglang.AttrOutputTokens])
		assert.EqualValues(t, 4, got[sglang.AttrCacheReadInputTokens])
		assert.Equal(t, "m", got[sglang.AttrRequestModel])
		assert.Equal(t, "chatcmpl_1", got[sglang.AttrResponseID])
		assert.Equal(t, sglang.OperationChat, got[sglang.AttrOperationName])
		assert.Equal(t, sglang.ProviderSGLang, got[sglang.AttrProviderName])
		assert.Equal(t, []any{"stop"}, got[sglang.AttrFinishReasons])
		assert.Equal(t, sglang.SpanNameRequest, root.Name())
		assert.Equal(t, " Req 0001", got[sglang.AttrOriginalName])
		assert.Len(t, r.named("Scheduler"), 1)
		assert.Len(t, r.named("Tokenizer"), 1)
		r.close()
	})
	run(t, "keep", func(t *testing.T) {
		r := newRig(t, nil, func(c *Config) { c.SpanNames = namesKeep })
		r.send(plainStory(finished(10)).end())
		root := r.roots()[0]
		assert.Equal(t, " Req 0001", root.Name())
		assert.NotContains(t, root.Attributes().AsRaw(), sglang.AttrOriginalName)
		assert.Contains(t, root.Attributes().AsRaw(), sglang.AttrPromptTokens)
		r.close()
	})
	run(t, "health probe", func(t *testing.T) {
		r := newRig(t, nil, nil)
		attrs := finished(1)
		attrs[sglang.AttrRequestID] = "HEALTH_CHECK_0815"
		r.send(plainStory(attrs).end())
		assert.Equal(t, "true", text(r.roots()[0], sglang.AttrHealthCheck))
		r.close()
	})
}

// TestConcurrent is for the race detector: many goroutines, requests cut across them.
func TestConcurrent(t *testing.T) {
	sink := new(consumertest.TracesSink)
	p, err := newProcessor(metadatatest.NewSettings(componenttest.NewTelemetry()), createDefaultConfig().(*Config), sink)
	require.NoError(t, err)
	require.NoError(t, p.Start(context.Background(), componenttest.NewNopHost()))
	var all []ptrace.Traces
	for range 300 {
		s := plainStory(finished(10))
		s.steps(9, 200, 50)
		all = append(all, split(s.end())...)
	}
	rand.New(rand.NewPCG(2, 2)).Shuffle(len(all), func(i, j int) { all[i], all[j] = all[j], all[i] })
	var wg sync.WaitGroup
	const workers = 8
	for w := range workers {
		wg.Go(func() {
			for i := w; i < len(all); i += workers {
				assert.NoError(t, p.ConsumeTraces(context.Background(), all[i]))
			}
		})
	}
	wg.Wait()
	p.open()
	require.NoError(t, p.Shutdown(context.Background()))
	assert.Len(t, rootsOf(sink.AllTraces()), 300)
	assert.Zero(t, p.heldBytes.Load())
}
