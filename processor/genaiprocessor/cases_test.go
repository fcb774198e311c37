// Copyright The otelcol-sglang Authors
// SPDX-License-Identifier: Apache-2.0

package genaiprocessor

import (
	"encoding/binary"
	"math/rand/v2"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"go.opentelemetry.io/collector/pdata/pcommon"
	"go.opentelemetry.io/collector/pdata/ptrace"

	"github.com/otelcol-sglang/otelcol-sglang/internal/sglang"
	"github.com/otelcol-sglang/otelcol-sglang/processor/genaiprocessor/internal/assembly"
)

// Public reports as small inputs; the numbers in the names are those of the
// project's list of cases.

// With several tokenizer workers the scheduler's spans vanish from most requests.
func TestCase1SchedulerSpansAbsent(t *testing.T) {
	run(t, "15 of 20", func(t *testing.T) {
		r := newRig(t, nil, nil)
		for i := range 20 {
			attrs := finished(10, sglang.AttrLatencyTTFT, 0.25)
			if i < 5 {
				r.send(plainStory(attrs).end())
			} else {
				r.send(newStory(1000, attrs).frontEnd().end())
			}
		}
		assert.Len(t, r.roots(), 5)
		time.Sleep(7 * time.Second)
		roots := r.roots()
		require.Len(t, roots, 20)
		absent := 0
		for _, root := range roots {
			assert.InDelta(t, 0.25, seconds(root, sglang.AttrLatencyTTFT), 1e-9)
			if text(root, sglang.AttrCompleteness) == sglang.CompletenessNoScheduler {
				absent++
				assert.NotContains(t, root.Attributes().AsRaw(), sglang.AttrLatencyInQueue, "unknown, not 0")
				assert.NotContains(t, root.Attributes().AsRaw(), sglang.AttrRetractions)
			}
		}
		assert.Equal(t, 15, absent)
		assert.EqualValues(t, 5, r.total("roots", sglang.CompletenessComplete))
		assert.EqualValues(t, 15, r.total("roots", sglang.CompletenessNoScheduler))
		assert.EqualValues(t, 15, r.total("early_releases", "wait"))
		r.close()
	})
}

func half(decode bool, room string, attrs map[string]any) *story {
	attrs[sglang.AttrBootstrapRoom] = room
	if !decode {
		s := newStory(300, attrs)
		s.name = "prefill Req 01"
		s.frontEnd()
		s.process()
		s.thread("Prefill Scheduler", 0, "api_server_dispatch", stage{"prefill_prepare", 4, 5},
			stage{"prefill_bootstrap", 5, 20}, stage{"prefill_waiting", 20, 50},
			stage{"prefill_forward", 50, 150}, stage{"prefill_transfer_kv_cache", 150, 290})
		return s
	}
	s := newStory(1000, attrs)
	s.name = "decode Req 02"
	s.frontEnd()
	s.process()
	s.thread("Decode Scheduler", 0, "api_server_dispatch", stage{"decode_prepare", 4, 5},
		stage{"decode_bootstrap", 5, 21}, stage{"decode_transferred", 21, 300},
		stage{"decode_waiting", 300, 310}, stage{"decode_forward", 310, 999})
	return s
}

// Room 0 is of health checks and requests without a pair: many share it.
func TestCase2RoomZero(t *testing.T) {
	for _, room := range []string{"0x0", "None", "0"} {
		run(t, room, func(t *testing.T) {
			r := newRig(t, nil, nil)
			for range 10 {
				r.send(half(false, room, finished(1)).end(), half(true, room, finished(5)).end())
			}
			roots := r.roots()
			require.Len(t, roots, 20, "nothing waits for a pair that cannot come")
			for _, root := range roots {
				assert.Equal(t, "false", text(root, sglang.AttrPDJoined))
				assert.Zero(t, root.Links().Len())
			}
			assert.EqualValues(t, 20, r.total("pd_halves", "not_joinable"))
			r.close()
		})
	}
}

// Cases 3, 19, 36, 53: one room in two traces is one request; its budget says
// what the time to first token was spent on.
func TestCase3And19And36JoinedHalves(t *testing.T) {
	for _, decodeFirst := range []bool{false, true} {
		run(t, map[bool]string{false: "prefill first", true: "decode first"}[decodeFirst], func(t *testing.T) {
			r := newRig(t, nil, nil)
			prefill := half(false, "0x2a", finished(1, sglang.AttrLatencyTTFT, 0.3))
			decode := half(true, "0x2A", finished(11, sglang.AttrLatencyTTFT, 0.311))
			first, second := prefill, decode
			if decodeFirst {
				first, second = decode, prefill
			}
			r.send(first.end())
			time.Sleep(9 * time.Second)
			assert.Empty(t, r.roots())
			r.send(second.end())
			roots := byID(r.roots())
			require.Len(t, roots, 2)
			d, p := roots[decode.root], roots[prefill.root]
			assert.InDelta(t, 0.311, seconds(d, sglang.AttrLatencyTTFT), 1e-9)
			assert.InDelta(t, 0.03+0.01, seconds(d, sglang.AttrLatencyInQueue), 1e-9, "both queues")
			assert.InDelta(t, 0.1, seconds(d, sglang.AttrBudgetPrefix+"prefill"), 1e-9)
			assert.InDelta(t, 0.03, seconds(d, sglang.AttrBudgetPrefix+"queue"), 1e-9)
			assert.InDelta(t, 0.15, seconds(d, sglang.AttrBudgetPrefix+"kv_transfer"), 1e-9)
			assert.InDelta(t, 0.015, seconds(d, sglang.AttrBudgetPrefix+"bootstrap"), 1e-9+0.001)
			assert.InDelta(t, 0.01, seconds(d, sglang.AttrBudgetPrefix+"decode_wait"), 1e-9)
			assert.InDelta(t, 0.15, seconds(d, sglang.AttrKVTransfer), 1e-9, "not the decode half's wait for it")
			assert.InDelta(t, seconds(d, sglang.AttrBudgetPrefix+"bootstrap"), seconds(d, sglang.AttrBootstrap), 1e-9)
			checkBudget(t, d)
			checkBudget(t, p)
			assert.Equal(t, "true", text(d, sglang.AttrPDJoined))
			assert.Equal(t, prefill.trace.String(), text(d, sglang.AttrPDPeerTraceID))
			assert.Equal(t, decode.trace.String(), text(p, sglang.AttrPDPeerTraceID))
			assert.Equal(t, prefill.root, d.Links().At(0).SpanID())
			assert.Equal(t, decode.root, p.Links().At(0).SpanID())
			assert.NotContains(t, p.Attributes().AsRaw(), sglang.AttrLatencyTTFT)
			assert.EqualValues(t, 2, r.total("pd_halves", "joined"))
			assert.Zero(t, r.p.heldBytes.Load())
			r.close()
		})
	}
}

// TestJoinedWithoutScheduler: where the prefill half's scheduler was not heard of, the
// pair's time in queues is unknown, not the decode half's alone.
func TestJoinedWithoutScheduler(t *testing.T) {
	run(t, "prefill half", func(t *testing.T) {
		r := newRig(t, nil, nil)
		prefill := newStory(300, finished(1, sglang.AttrBootstrapRoom, "0x9"))
		prefill.name = "prefill Req 01"
		decode := half(true, "0x9", finished(11, sglang.AttrLatencyTTFT, 0.311))
		r.send(prefill.frontEnd().end(), decode.end())
		time.Sleep(7 * time.Second) // longer than wait, less than pd_wait
		roots := byID(r.roots())
		require.Len(t, roots, 2)
		d := roots[decode.root]
		assert.Equal(t, "true", text(d, sglang.AttrPDJoined))
		assert.NotContains(t, d.Attributes().AsRaw(), sglang.AttrLatencyInQueue)
		assert.InDelta(t, 0.311, seconds(d, sglang.AttrLatencyTTFT), 1e-9)
		checkBudget(t, d)
		r.close()
	})
}

func TestCase3Retry(t *testing.T) {
	run(t, "same trace, other room", func(t *testing.T) {
		r := newRig(t, nil, nil)
		lost, prefill, decode := half(false, "0x7", finished(1)), half(false, "0x8", finished(1)), half(true, "0x8", finished(9))
		for i, s := range []*story{lost, prefill, decode} {
			s.trace = pcommon.TraceID{1, 2, 3, 15: 9}
			s.parent = pcommon.SpanID{7: byte(i + 1)}
		}
		// Built anew in the shared trace.
		r.send(inTrace(lost), inTrace(prefill), inTrace(decode))
		roots := byID(r.roots())
		require.Len(t, roots, 2)
		assert.Equal(t, "true", text(roots[decode.root], sglang.AttrPDJoined))
		assert.Equal(t, "true", text(roots[prefill.root], sglang.AttrPDJoined))
		time.Sleep(11 * time.Second)
		alone := byID(r.roots())[lost.root]
		assert.Equal(t, "false", text(alone, sglang.AttrPDJoined))
		assert.EqualValues(t, 1, r.total("pd_halves", "unjoined"))
		r.close()
	})
}

// inTrace moves a story's spans, links included, to its trace id.
func inTrace(s *story) ptrace.Traces {
	td := s.end()
	eachSpan([]ptrace.Traces{td}, func(_ ptrace.ResourceSpans, _ ptrace.ScopeSpans, span ptrace.Span) {
		span.SetTraceID(s.trace)
		for _, l := range span.Links().All() {
			l.SetTraceID(s.trace)
		}
	})
	return td
}

// A router that runs the halves one after the other makes the user wait from
// the prefill root's start.
func TestSequentialRouter(t *testing.T) {
	run(t, "gap", func(t *testing.T) {
		r := newRig(t, nil, nil)
		prefill, decode := half(false, "0x9", finished(1)), half(true, "0x9", finished(11, sglang.AttrLatencyTTFT, 0.311))
		shiftStory(decode, 400*time.Millisecond)
		r.send(prefill.end(), decode.end())
		d := byID(r.roots())[decode.root]
		assert.InDelta(t, 1.4, seconds(d, sglang.AttrLatencyE2E), 1e-9)
		assert.InDelta(t, 0.711, seconds(d, sglang.AttrLatencyTTFT), 1e-9)
		assert.InDelta(t, 0.689/10, seconds(d, sglang.AttrOutTPOT), 1e-9, "the time per token is as before")
		assert.GreaterOrEqual(t, seconds(d, sglang.AttrBudgetPrefix+"bootstrap"), 0.1, "the gap between the two")
		assert.InDelta(t, 0.1, seconds(d, sglang.AttrBudgetPrefix+"prefill"), 1e-9)
		checkBudget(t, d)
		r.close()
	})
}

func shiftStory(s *story, by time.Duration) {
	s.at = s.at.Add(by)
	eachSpan([]ptrace.Traces{s.td}, func(_ ptrace.ResourceSpans, _ ptrace.ScopeSpans, span ptrace.Span) {
		span.SetStartTimestamp(span.StartTimestamp() + pcommon.Timestamp(by))
		span.SetEndTimestamp(span.EndTimestamp() + pcommon.Timestamp(by))
	})
}

// A decode half may end long after its prefill half's root left: it still gets
// the prefill half's numbers.
func TestLongDecodeJoins(t *testing.T) {
	run(t, "a minute later", func(t *testing.T) {
		r := newRig(t, nil, nil)
		prefill, decode := half(false, "0x9", finished(1)), half(true, "0x9", finished(11))
		r.send(prefill.end())
		time.Sleep(time.Minute)
		assert.Equal(t, "false", text(byID(r.roots())[prefill.root], sglang.AttrPDJoined))
		r.send(decode.end())
		d := byID(r.roots())[decode.root]
		assert.Equal(t, "true", text(d, sglang.AttrPDJoined))
		assert.InDelta(t, 0.1, seconds(d, sglang.AttrBudgetPrefix+"prefill"), 1e-9)
		r.close()
	})
}

// The engine keeps only what follows the last "_" of a request id.
func TestCase5EqualRequestIDs(t *testing.T) {
	run(t, "two traces", func(t *testing.T) {
		r := newRig(t, nil, nil)
		a, b := plainStory(finished(10)), plainStory(finished(20))
		r.send(a.end(), b.end())
		roots := byID(r.roots())
		require.Len(t, roots, 2)
		assert.Equal(t, "10", text(roots[a.root], sglang.AttrOutputTokens))
		assert.Equal(t, "20", text(roots[b.root], sglang.AttrOutputTokens))
		r.close()
	})
}

// Case 17: a step under speculation gives several tokens. Case 40: the two
// measures have names of their own.
func TestCase17Speculation(t *testing.T) {
	run(t, "100 tokens in 25 steps", func(t *testing.T) {
		r := newRig(t, nil, nil)
		s := newStory(1200, finished(101)).frontEnd()
		s.scheduler(stage{"request_process", 4, 5}, stage{"prefill_waiting", 5, 105},
			stage{"prefill_forward", 105, 200}, stage{"decode_forward", 200, 1200})
		s.steps(25, 200, 40)
		r.send(s.end())
		root := r.roots()[0]
		assert.InDelta(t, 0.010, seconds(root, sglang.AttrOutTPOT), 1e-9)
		decode := r.named("decode_forward")[0]
		assert.InDelta(t, 0.040, seconds(decode, sglang.AttrStepsP50), 1e-9)
		assert.InDelta(t, 0.010, seconds(decode, sglang.AttrITL), 1e-9)
		assert.InDelta(t, 4, seconds(decode, sglang.AttrStepsTokens), 1e-9)
		r.close()
	})
}

func (r *rig) named(name string) []ptrace.Span {
	var out []ptrace.Span
	for _, s := range r.spans() {
		if s.Name() == name {
			out = append(out, s)
		}
	}
	return out
}

// Cases 18, 32, 49: what cannot be a time to first token is refused, counted,
// and taken from the scheduler.
func TestUnbelievableTTFT(t *testing.T) {
	for name, tt := range map[string]struct {
		reported any
		reason   string
	}{
		"18: zero":                      {0.0, "zero"},
		"32: negative":                  {-1.7e9, "negative"},
		"32: nanoseconds":               {2.05e8, "unit"},
		"49: after the end":             {1.2, "exceeds_e2e"},
		"equal to the whole":            {1.0, "equals_e2e"},
		"a string":                      {"0.2", "type"},
		"a boolean":                     {true, "type"},
		"believed: at once":             {0.2, ""},
		"believed: late, but not wrong": {0.9, ""},
	} {
		run(t, name, func(t *testing.T) {
			r := newRig(t, nil, nil)
			r.send(plainStory(finished(10, sglang.AttrLatencyTTFT, tt.reported)).end())
			root := r.roots()[0]
			if tt.reason == "" {
				assert.InDelta(t, tt.reported, seconds(root, sglang.AttrLatencyTTFT), 1e-9)
				assert.Equal(t, sglang.TTFTSourceEngine, text(root, sglang.AttrTTFTSource))
				assert.InDelta(t, tt.reported.(float64)-0.2, seconds(root, sglang.AttrTTFTLag), 1e-9)
				assert.Zero(t, r.total("invalid_values", ""))
				assert.EqualValues(t, map[bool]int{true: 1}[tt.reported.(float64) > 0.5], r.total("suspect_ttft", ""))
			} else {
				assert.InDelta(t, 0.2, seconds(root, sglang.AttrLatencyTTFT), 1e-9)
				assert.Equal(t, sglang.TTFTSourceScheduler, text(root, sglang.AttrTTFTSource))
				assert.Contains(t, text(root, sglang.AttrLatencyInvalid), "time_to_first_token:"+tt.reason)
				assert.EqualValues(t, 1, r.total("invalid_values", tt.reason))
			}
			r.close()
		})
	}
}

// vLLM's one span per request: believed where it can be, refused where not.
func TestCase32VLLM(t *testing.T) {
	span := func(ttft, prefill float64) ptrace.Traces {
		td := ptrace.NewTraces()
		ss := td.ResourceSpans().AppendEmpty().ScopeSpans().AppendEmpty()
		ss.Scope().SetName("vllm.llm_engine")
		s := ss.Spans().AppendEmpty()
		s.SetName(sglang.VLLMRequestSpan)
		s.SetTraceID(pcommon.TraceID{1})
		s.SetSpanID(newID())
		s.SetStartTimestamp(pcommon.Timestamp(1e18))
		s.SetEndTimestamp(pcommon.Timestamp(1e18 + 2e9))
		a := s.Attributes()
		a.PutDouble(sglang.AttrLatencyTTFT, ttft)
		a.PutDouble(sglang.AttrLatencyE2E, 2)
		a.PutDouble(sglang.AttrLatencyInQueue, 0.1)
		a.PutDouble(sglang.AttrLatencyInPrefill, prefill)
		a.PutDouble(sglang.AttrLatencyInDecode, 1.5)
		a.PutInt(sglang.AttrCompletionTokens, 11)
		a.PutInt(sglang.AttrPromptTokens, 7)
		a.PutStr(sglang.AttrResponseModel, "m")
		return td
	}
	run(t, "believed", func(t *testing.T) {
		r := newRig(t, nil, nil)
		r.send(span(0.5, 0.4))
		root := r.spans()[0]
		assert.InDelta(t, 0.5, seconds(root, sglang.AttrLatencyTTFT), 1e-9)
		assert.InDelta(t, 0.15, seconds(root, sglang.AttrOutTPOT), 1e-9)
		assert.InDelta(t, 0.1, seconds(root, sglang.AttrLatencyInQueue), 1e-9)
		assert.Equal(t, sglang.ProviderVLLM, text(root, sglang.AttrProviderName))
		assert.Equal(t, "11", text(root, sglang.AttrOutputTokens))
		assert.InDelta(t, 0.4, seconds(root, sglang.AttrBudgetPrefix+"prefill"), 1e-9)
		assert.InDelta(t, 1.5, seconds(root, sglang.AttrBudgetPrefix+"decode"), 1e-9)
		checkBudget(t, root)
		assert.Equal(t, sglang.VLLMRequestSpan, root.Name())
		r.close()
	})
	run(t, "negative", func(t *testing.T) {
		r := newRig(t, nil, nil)
		r.send(span(-1.7e9, -1.7e9))
		root := r.spans()[0]
		assert.NotContains(t, root.Attributes().AsRaw(), sglang.AttrLatencyTTFT)
		assert.NotContains(t, root.Attributes().AsRaw(), sglang.AttrLatencyInPrefill)
		assert.NotContains(t, root.Attributes().AsRaw(), sglang.AttrOutTPOT)
		assert.InDelta(t, 2, seconds(root, sglang.AttrLatencyE2E), 1e-9)
		assert.EqualValues(t, 2, r.total("invalid_values", "negative"))
		r.close()
	})
}

// Eight ranks' worth of steps do not reach the back end.
func TestCase47Folding(t *testing.T) {
	run(t, "2000 steps", func(t *testing.T) {
		r := newRig(t, nil, nil)
		s := newStory(21_000, finished(2001)).frontEnd()
		s.scheduler(stage{"request_process", 4, 5}, stage{"prefill_waiting", 5, 105},
			stage{"prefill_forward", 105, 200}, stage{"decode_forward", 200, 20_300})
		s.steps(2000, 200, 10)
		r.send(split(s.end())...)
		spans := r.spans()
		assert.LessOrEqual(t, len(spans), 40)
		decode := r.named("decode_forward")[0]
		assert.Equal(t, "2000", text(decode, sglang.AttrStepsCount))
		assert.InEpsilon(t, 2000*0.01, seconds(decode, sglang.AttrStepsSum), 1e-6)
		require.Equal(t, 3, decode.Events().Len())
		event := decode.Events().At(0)
		assert.Equal(t, sglang.EventSlowStep, event.Name())
		assert.Equal(t, map[string]any{"bid": "0a1b2c3d", "batch_size": int64(4), "duration": 0.01, "decode_ct": int64(0)},
			event.Attributes().AsRaw())
		assert.EqualValues(t, 2000, r.total("folded_steps", ""))
		r.close()
	})
	for mode, want := range map[string]int{decodeLoopKeep: 50, decodeLoopDrop: 0} {
		run(t, mode, func(t *testing.T) {
			r := newRig(t, nil, func(c *Config) { c.DecodeLoop = mode })
			s := plainStory(finished(51))
			s.steps(50, 200, 15)
			r.send(s.end())
			assert.Len(t, r.roots(), 1)
			assert.Len(t, r.named("decode_loop"), want)
			decode := r.named("decode_forward")[0]
			assert.Equal(t, map[string]string{decodeLoopDrop: "50"}[mode], text(decode, sglang.AttrStepsCount))
			assert.NotContains(t, decode.Attributes().AsRaw(), sglang.AttrStepsSum)
			assert.EqualValues(t, map[string]int{decodeLoopDrop: 50}[mode], r.total("dropped_steps", ""))
			r.close()
		})
	}
}

// The time per token holds neither queue nor prefill.
func TestCase54TPOT(t *testing.T) {
	run(t, "5 s in the queue", func(t *testing.T) {
		r := newRig(t, nil, nil)
		s := newStory(6_100, finished(101)).frontEnd()
		s.scheduler(stage{"request_process", 4, 5}, stage{"prefill_waiting", 5, 5005},
			stage{"prefill_forward", 5005, 5100}, stage{"decode_forward", 5100, 6100})
		r.send(s.end())
		root := r.roots()[0]
		assert.InDelta(t, 0.010, seconds(root, sglang.AttrOutTPOT), 1e-9)
		assert.InDelta(t, 5.0, seconds(root, sglang.AttrLatencyInQueue), 1e-9)
		r.close()
	})
}

// Case 41: tokens of a model's reasoning are tokens; the engine's first one counts.
func TestCase41Reasoning(t *testing.T) {
	run(t, "first tokens are reasoning", func(t *testing.T) {
		r := newRig(t, nil, nil)
		r.send(plainStory(finished(100, sglang.AttrLatencyTTFT, 0.201, "gen_ai.usage.reasoning_tokens", 90)).end())
		root := r.roots()[0]
		assert.InDelta(t, 0.201, seconds(root, sglang.AttrLatencyTTFT), 1e-9)
		assert.InDelta(t, 0.799/99, seconds(root, sglang.AttrOutTPOT), 1e-9)
		assert.Equal(t, "90", text(root, "gen_ai.usage.reasoning_tokens"))
		assert.NotContains(t, root.Attributes().AsRaw(), sglang.AttrLatencyInvalid)
		r.close()
	})
}

// Case 42: what the root says of its priority stays there, for a connector to
// make a dimension of.
func TestCase42Priority(t *testing.T) {
	for _, semconv := range []string{semconvAdd, semconvReplace} {
		run(t, semconv, func(t *testing.T) {
			r := newRig(t, nil, func(c *Config) { c.Semconv = semconv })
			r.send(plainStory(finished(10, "priority", 5)).end())
			assert.Equal(t, "5", text(r.roots()[0], "priority"))
			r.close()
		})
	}
}

// Health probes of both halves' engines may name one room.
func TestHealthProbesNeverJoin(t *testing.T) {
	run(t, "one room", func(t *testing.T) {
		r := newRig(t, nil, nil)
		attrs := func() map[string]any { return finished(1, sglang.AttrRequestID, "HEALTH_CHECK_1") }
		r.send(half(false, "0x5", attrs()).end(), half(true, "0x5", attrs()).end())
		roots := r.roots()
		require.Len(t, roots, 2, "they wait for nothing")
		for _, root := range roots {
			assert.Equal(t, "false", text(root, sglang.AttrPDJoined))
		}
		r.close()
	})
}

// The engine does not say what was asked of it; no operation is claimed that a
// request may not have been.
func TestOperation(t *testing.T) {
	for id, want := range map[string]string{
		"chatcmpl-1": "chat", "cmpl-1": "text_completion", "9765dd06c28505f59a57e2be0b06c819": "generate_content",
	} {
		run(t, id, func(t *testing.T) {
			r := newRig(t, nil, nil)
			r.send(plainStory(finished(10, sglang.AttrRequestID, id)).end())
			assert.Equal(t, want, text(r.roots()[0], sglang.AttrOperationName))
			r.close()
		})
	}
	run(t, "embeddings", func(t *testing.T) {
		r := newRig(t, nil, nil)
		r.send(reduceRanks(loadCapture(t, "traces-embeddings-tp1"))...)
		assert.Equal(t, "embeddings", text(r.roots()[0], sglang.AttrOperationName))
		r.close()
	})
}

// The engine's trace ids begin with eight zero bytes.
func TestCase6Shards(t *testing.T) {
	rng := rand.New(rand.NewPCG(6, 6))
	var traces [shardCount]int
	const each = 1000
	for range each * shardCount {
		var id assembly.TraceID
		binary.BigEndian.PutUint64(id[8:], rng.Uint64())
		traces[shardOf(id)]++
	}
	for i, n := range traces {
		assert.InDelta(t, each, n, each/5, "shard %d", i)
	}
}

// A link alone joins the engine's root to the span of the HTTP server above it.
func TestCase38LinkOnly(t *testing.T) {
	run(t, "to another trace", func(t *testing.T) {
		r := newRig(t, nil, nil)
		s := plainStory(finished(10))
		td := s.end()
		root := s.spans.At(s.spans.Len() - 1)
		server := pcommon.TraceID{1, 2, 3}
		for _, span := range []ptrace.Span{root, s.spans.At(0)} {
			link := span.Links().AppendEmpty()
			link.SetTraceID(server)
			link.SetSpanID(pcommon.SpanID{1})
		}
		r.send(td)
		require.Len(t, r.roots(), 1)
		got := r.roots()[0]
		assert.Equal(t, server, got.Links().At(0).TraceID())
		assert.Equal(t, sglang.CompletenessComplete, text(got, sglang.AttrCompleteness), "the other trace is not waited for")
		assert.InDelta(t, 0.1, seconds(got, sglang.AttrLatencyInQueue), 1e-9)
		r.close()
	})
}

// Behind another front end there may be the engine's roots only.
func TestCase46OnlyRoots(t *testing.T) {
	run(t, "nothing below", func(t *testing.T) {
		r := newRig(t, nil, nil)
		r.send(newStory(1000, finished(10, sglang.AttrLatencyTTFT, 0.25, sglang.AttrLatencyInInference, 0.9)).end())
		time.Sleep(7 * time.Second)
		require.Len(t, r.roots(), 1)
		root := r.roots()[0]
		assert.InDelta(t, 0.25, seconds(root, sglang.AttrLatencyTTFT), 1e-9)
		assert.InDelta(t, 0.75/9, seconds(root, sglang.AttrOutTPOT), 1e-9)
		assert.InDelta(t, 1, seconds(root, sglang.AttrLatencyE2E), 1e-9)
		assert.InDelta(t, 0.9, seconds(root, sglang.AttrLatencyInInference), 1e-9)
		assert.NotContains(t, root.Attributes().AsRaw(), sglang.AttrLatencyInQueue)
		assert.InDelta(t, 1, seconds(root, sglang.AttrBudgetPrefix+"unattributed"), 1e-9)
		assert.Equal(t, sglang.CompletenessNoScheduler, text(root, sglang.AttrCompleteness))
		r.close()
	})
}
