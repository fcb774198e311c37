// Copyright The otelcol-sglang Authors
// SPDX-License-Identifier: Apache-2.0

package genaiprocessor

import (
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"go.opentelemetry.io/collector/pdata/pcommon"
	"go.opentelemetry.io/collector/pdata/ptrace"

	"github.com/otelcol-sglang/otelcol-sglang/internal/sglang"
)

// Release 0.5.3: other slice names, decode steps below the thread without
// numbers, a root that says next to nothing.
func TestRelease053(t *testing.T) {
	run(t, "aliases", func(t *testing.T) {
		r := newRig(t, nil, nil)
		s := newStory(1000, nil)
		s.name = "Req 0001"
		s.process()
		s.thread("Tokenizer", -1, "", stage{"tokenize", 0, 2}, stage{"dispatch", 2, 3})
		s.process()
		stages := []stage{{"process req", 4, 5}, {"prefill", 105, 200}}
		for i := range 10 {
			stages = append(stages, stage{"decode loop", 200 + 79*float64(i), 279 + 79*float64(i)})
		}
		s.thread("Scheduler", 0, "dispatch", stages...)
		r.send(split(s.end())...)
		require.Len(t, r.roots(), 1)
		root := r.roots()[0]
		assert.InDelta(t, 0.2, seconds(root, sglang.AttrLatencyTTFT), 1e-9)
		assert.InDelta(t, 0.79, seconds(root, sglang.AttrBudgetPrefix+"decode"), 1e-9)
		assert.InDelta(t, 0.095, seconds(root, sglang.AttrBudgetPrefix+"prefill"), 1e-9)
		assert.NotContains(t, root.Attributes().AsRaw(), sglang.AttrLatencyInQueue, "it has no slice for the queue")
		assert.NotContains(t, root.Attributes().AsRaw(), sglang.AttrErrorType)
		assert.Equal(t, "10", text(root, sglang.AttrStepsCount), "there is no decode_forward to stand on")
		checkBudget(t, root)
		assert.Zero(t, r.total("lost_steps", ""))
		r.close()
	})
}

// Releases 0.5.6 to 0.5.9 put a "Bootstrap Room" span above every root, and
// write rooms as integers or "None".
func TestRelease059Room(t *testing.T) {
	for name, tt := range map[string]struct {
		room   any
		joined string
	}{"int": {77, "true"}, "None": {"None", "false"}, "zero": {0, "false"}} {
		run(t, name, func(t *testing.T) {
			r := newRig(t, nil, nil)
			for _, decode := range []bool{false, true} {
				s := half(decode, "", finished(5))
				s.attrs[sglang.AttrBootstrapRoom] = tt.room
				s.parent = newID()
				td := s.end()
				room := s.span(pcommon.SpanID{}, "Bootstrap Room 0x4d", 0, 1000)
				room.SetSpanID(s.parent)
				r.send(td)
			}
			roots := r.roots()
			require.Len(t, roots, 2)
			for _, root := range roots {
				assert.Equal(t, tt.joined, text(root, sglang.AttrPDJoined))
			}
			assert.Len(t, r.named(sglang.SpanNameRoom), 2)
			r.close()
		})
	}
}

// Releases 0.5.12 and 0.5.16 report time to first token and prefill only.
func TestRelease0512(t *testing.T) {
	run(t, "missing latencies", func(t *testing.T) {
		r := newRig(t, nil, nil)
		r.send(plainStory(finished(11, sglang.AttrLatencyTTFT, 0.201, sglang.AttrLatencyInPrefill, 0.198)).end())
		root := r.roots()[0]
		assert.InDelta(t, 0.201, seconds(root, sglang.AttrLatencyTTFT), 1e-9)
		assert.InDelta(t, 0.198, seconds(root, sglang.AttrLatencyInPrefill), 1e-9)
		assert.InDelta(t, 0.799, seconds(root, sglang.AttrLatencyInDecode), 1e-9)
		assert.InDelta(t, 0.997, seconds(root, sglang.AttrLatencyInInference), 1e-9)
		assert.InDelta(t, 1, seconds(root, sglang.AttrLatencyE2E), 1e-9)
		r.close()
	})
}

// Case 4: captures of level 3, cut down to lower levels, give the same values or none.
func TestCase4Levels(t *testing.T) {
	for _, name := range captureNames(t) {
		run(t, name, func(t *testing.T) {
			full := newRig(t, nil, nil)
			full.send(reduceRanks(loadCapture(t, name))...)
			want := byID(full.roots())
			for level := 1; level <= 2; level++ {
				r := newRig(t, nil, nil)
				r.send(reduceRanks(cutLevel(loadCapture(t, name), level))...)
				time.Sleep(7 * time.Second)
				got := r.roots()
				assert.Len(t, got, len(want))
				for _, root := range got {
					sameOrAbsent(t, want[root.SpanID()], root)
				}
				r.close()
			}
			full.close()
		})
	}
}

func cutLevel(batches []ptrace.Traces, level int) []ptrace.Traces {
	gone := map[pcommon.SpanID]bool{}
	eachSpan(batches, func(_ ptrace.ResourceSpans, _ ptrace.ScopeSpans, s ptrace.Span) {
		if sglang.StageOf(s.Name()).Info().Level > level {
			gone[s.SpanID()] = true
		}
	})
	eachSpan(batches, func(_ ptrace.ResourceSpans, _ ptrace.ScopeSpans, s ptrace.Span) {
		s.Links().RemoveIf(func(l ptrace.SpanLink) bool { return gone[l.SpanID()] })
	})
	for _, td := range batches {
		for _, rs := range td.ResourceSpans().All() {
			for _, ss := range rs.ScopeSpans().All() {
				ss.Spans().RemoveIf(func(s ptrace.Span) bool { return gone[s.SpanID()] })
			}
		}
	}
	return batches
}

func sameOrAbsent(t *testing.T, want, got ptrace.Span) {
	t.Helper()
	full := want.Attributes().AsRaw()
	decodeHalf := text(want, sglang.AttrPDRole) == "decode"
	for key, v := range got.Attributes().AsRaw() {
		switch {
		case strings.HasPrefix(key, sglang.AttrBudgetPrefix), key == sglang.AttrTraceLevel, key == sglang.AttrLatencyInvalid:
		case decodeHalf && strings.Contains(key, "latency"):
			// Without fake_output a decode half's first token is the start of its decode.
		case !assert.Equal(t, full[key], v, "%s of %s", key, text(want, sglang.AttrOriginalName)):
		}
	}
	checkBudget(t, got)
}

// Release 0.5.6: a room and the role "null" for unified requests too, names of
// dispatch of its own, numbered steps below the thread, a root without latencies.
func TestRelease056(t *testing.T) {
	run(t, "null", func(t *testing.T) {
		r := newRig(t, nil, nil)
		s := newStory(1000, map[string]any{sglang.AttrRID: "chatcmpl_1", sglang.AttrBootstrapRoom: "None"})
		s.name, s.parent = "null Req chatcmpl", newID()
		s.process()
		s.thread("Tokenizer", -1, "", stage{"tokenize", 0, 2}, stage{"dispatch", 2, 3})
		s.process()
		s.thread("DP Controller", -1, "dispatch", stage{"dc_dispatch", 3, 4})
		s.scheduler(stage{"request_process", 4, 5}, stage{"prefill_waiting", 5, 105}, stage{"prefill_forward", 105, 200})
		s.links["decode_forward"] = s.spans.At(s.spans.Len() - 1).SpanID() // the thread
		s.steps(10, 200, 79)
		td := s.end()
		s.span(pcommon.SpanID{}, "Bootstrap Room 0x0", 0, 1000).SetSpanID(s.parent)
		r.send(split(td)...)
		require.Len(t, r.roots(), 1)
		root := r.roots()[0]
		assert.Equal(t, sglang.CompletenessComplete, text(root, sglang.AttrCompleteness))
		assert.Equal(t, sglang.SpanNameRequest, root.Name())
		assert.NotContains(t, root.Attributes().AsRaw(), sglang.AttrPDRole, "it has no role")
		assert.InDelta(t, 0.2, seconds(root, sglang.AttrLatencyTTFT), 1e-9)
		assert.InDelta(t, 0.1, seconds(root, sglang.AttrLatencyInQueue), 1e-9)
		assert.InDelta(t, 0.79, seconds(root, sglang.AttrBudgetPrefix+"decode"), 1e-9)
		assert.InDelta(t, 0.002, seconds(root, sglang.AttrBudgetPrefix+"dispatch"), 1e-9, "of both")
		assert.Equal(t, "10", text(root, sglang.AttrStepsCount))
		checkBudget(t, root)
		r.close()
	})
}

// Releases 0.5.12 to 0.5.23 write slices of speculation, which take no part in the
// budget but in the number of slices that a thread waits for.
func TestReleaseSpeculation(t *testing.T) {
	run(t, "draft, verify, extend", func(t *testing.T) {
		r := newRig(t, nil, nil)
		s := newStory(1000, finished(31)).frontEnd()
		th := s.scheduler(stage{"request_process", 4, 5}, stage{"prefill_waiting", 5, 105},
			stage{"prefill_forward", 105, 200}, stage{"decode_forward", 200, 999})
		s.steps(10, 200, 79)
		decode := s.links["decode_forward"]
		for i := range 10 {
			at := 200 + 79*float64(i)
			for _, name := range []string{"spec_draft", "spec_verify", "spec_draft_extend"} {
				s.span(decode, name, at, at+20)
			}
		}
		th.Attributes().PutInt(sglang.AttrThreadSpans, 44)
		batches := split(s.end())
		last := -1
		for i, td := range batches {
			if td.ResourceSpans().At(0).ScopeSpans().At(0).Spans().At(0).Name() == "spec_verify" {
				last = i
			}
		}
		batches = append(append(batches[:last:last], batches[last+1:]...), batches[last])
		r.send(batches[:len(batches)-1]...)
		assert.Empty(t, r.roots(), "one slice is owed")
		r.send(batches[len(batches)-1])
		require.Len(t, r.roots(), 1)
		root := r.roots()[0]
		assert.Equal(t, sglang.CompletenessComplete, text(root, sglang.AttrCompleteness))
		assert.InDelta(t, 0.8/30, seconds(root, sglang.AttrOutTPOT), 1e-9)
		assert.InDelta(t, 0.799, seconds(root, sglang.AttrBudgetPrefix+"decode"), 1e-9)
		assert.InDelta(t, 3, seconds(r.named("decode_forward")[0], sglang.AttrStepsTokens), 1e-9)
		r.close()
	})
}
