// Copyright The otelcol-sglang Authors
// SPDX-License-Identifier: Apache-2.0

package sched

import (
	"net/http"
	"slices"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/otelcol-sglang/otelcol-sglang/engine/args"
	"github.com/otelcol-sglang/otelcol-sglang/engine/ledger"
	"github.com/otelcol-sglang/otelcol-sglang/internal/sglang"
)

func noOverlap(a *args.Args) { a.DisableOverlapSchedule = true }

// As in the captures traces-unified-tp2-no-overlap and -tp1-level3: without overlap
// a request waits for its first decode; with it the decode pass is scheduled before
// the prefill's result is seen.
func TestStoryUnified(t *testing.T) {
	for _, tt := range []struct {
		name string
		opts []option
		want []string
	}{
		{"no overlap", []option{with(noOverlap)}, []string{
			"request_process", "prefill_waiting", "+prefill_forward", "prefill of 1", "-prefill_forward",
			"decode_waiting", "+decode_forward", "decode of 1", "decode_loop 0", "decode of 1", "decode_loop 1", "-decode_forward", "end",
		}},
		{"overlap", nil, []string{
			"request_process", "prefill_waiting", "+prefill_forward", "prefill of 1", "decode of 1", "-prefill_forward",
			"+decode_forward", "decode of 1", "decode_loop 0", "decode of 1", "decode_loop 1", "-decode_forward", "end",
		}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			g := newRig(t, tt.opts...)
			r := g.at(time.Millisecond, g.request(100, 3))
			g.run()
			assert.Equal(t, tt.want, g.story(r))
			assert.Equal(t, ledger.FinishLength, r.Finish)
			assert.Len(t, r.Output, 3)
			assert.Equal(t, 2, r.DecodeSteps)
		})
	}
}

// Traces-chunked-prefill-tp2: chunks end to end inside prefill_forward; the schedule
// events of all but the first stand in the chunk before.
func TestStoryChunked(t *testing.T) {
	g := newRig(t, with(func(a *args.Args) { a.ChunkedPrefillSize = 400 }))
	r := g.at(0, g.request(1000, 1))
	g.run()
	assert.Equal(t, []string{
		"request_process", "prefill_waiting", "+prefill_forward", "prefill of 1", "prefill of 1",
		"chunked_prefill", "prefill of 1", "chunked_prefill", "decode of 1", "chunked_prefill", "-prefill_forward",
		"+decode_forward", "-decode_forward", "end",
	}, g.story(r))
	assert.Equal(t, 3, r.Chunks)
	var chunks []event
	for _, e := range g.rec.events[r] {
		if e.stage == sglang.StageChunkedPrefill {
			chunks = append(chunks, e)
		}
	}
	assert.Equal(t, r.Sched.FirstForward, chunks[0].from)
	assert.Equal(t, chunks[0].to, chunks[1].from)
	assert.Equal(t, r.Sched.PrefillDone, chunks[2].to)
}

// A prompt that was queued behind goes in beside the last chunk, and its first
// decode waits while other prompts are prefilled.
func TestStoryPrefillsGoFirst(t *testing.T) {
	g := newRig(t, with(noOverlap), with(func(a *args.Args) { a.MaxTotalTokens = 50000 }))
	first := g.at(0, g.request(100, 20))
	var later []*ledger.Request
	for i := range 3 {
		later = append(later, g.at(20*time.Millisecond+time.Duration(i)*time.Microsecond*400, g.request(8000, 2)))
	}
	g.run()
	loops := loopsOf(g, first)
	longest := slices.MaxFunc(loops, func(a, b event) int { return int((a.to - a.from) - (b.to - b.from)) })
	assert.Greater(t, longest.to-longest.from, 400*time.Millisecond, "three prompts were prefilled within one iteration")
	for i := 1; i < len(loops); i++ {
		assert.Equal(t, loops[i-1].to, loops[i].from, "result to result")
	}
	assert.Greater(t, later[0].Sched.DecodeStart-later[0].Sched.PrefillDone, 200*time.Millisecond)
}

// With mixed chunks, who decodes goes on while a long prompt is cut, a token a pass.
func TestStoryMixedChunk(t *testing.T) {
	play := func(mixed bool) (g *rig, longest time.Duration) {
		g = newRig(t, with(noOverlap), with(func(a *args.Args) { a.ChunkedPrefillSize, a.EnableMixedChunk = 500, mixed }))
		first := g.at(0, g.request(100, 60))
		g.at(100*time.Millisecond, g.request(2000, 5))
		g.run()
		for _, e := range loopsOf(g, first) {
			longest = max(longest, e.to-e.from)
		}
		return g, longest
	}
	g, longest := play(true)
	first, long := g.sent[0], g.sent[1]
	assert.Equal(t, 5, long.Chunks, "the step takes a token of each chunk's budget")
	assert.Equal(t, 5, count1(g.story(first), "prefill of 2"))
	assert.Equal(t, len(first.Output)-1, first.DecodeSteps)
	assert.Equal(t, 59+4, g.rec.tokens[sglang.ModeDecode])
	assert.Equal(t, 2100, g.rec.tokens[sglang.ModePrefillCompute], "a step is no prompt")
	assert.Equal(t, 6, g.rec.passes[sglang.PassPrefillNone])
	separate, waited := play(false)
	assert.Equal(t, 4, separate.sent[1].Chunks)
	assert.Greater(t, waited, 3*longest)
}

func loopsOf(g *rig, r *ledger.Request) []event {
	return slices.DeleteFunc(slices.Clone(g.rec.events[r]), func(e event) bool { return e.stage != sglang.StageDecodeLoop })
}

// Traces-retraction-tp2: decode_forward stays open; the second prefill_forward is in
// it, decode_ct goes on, and the second wait has no span.
func TestStoryRetraction(t *testing.T) {
	g := newRig(t, with(noOverlap), with(func(a *args.Args) {
		a.MaxTotalTokens, a.DisableRadixCache, a.ScheduleConservativeness = 704, true, 0
	}))
	long := g.at(0, g.request(300, 200))
	g.at(50*time.Millisecond, g.request(290, 90))
	g.run()
	short := g.sent[1]
	require.Equal(t, 1, short.Retractions, "it had fewer tokens")
	require.Zero(t, long.Retractions)
	story := g.story(short)
	i := slices.Index(story, "retract")
	assert.Equal(t, "+prefill_forward", story[i+1])
	assert.Equal(t, "prefill of 1", story[i+2])
	assert.Equal(t, "-prefill_forward", story[i+3])
	assert.Equal(t, 1, count1(story, "prefill_waiting"))
	assert.Equal(t, 1, count1(story, "+decode_forward"))
	assert.Equal(t, 1, count1(story, "decode_waiting"))
	assert.Equal(t, len(short.Output)-2, short.DecodeSteps, "each prefill makes a token")

	assert.Equal(t, 1, g.rec.retracted[0])
	assert.Equal(t, 290, g.rec.retracted[1], "lost input tokens")
	assert.Positive(t, g.rec.retracted[2], "lost output tokens")
	var wait time.Duration
	for j, e := range g.rec.events[short] {
		if e.what == "retract" {
			wait = g.rec.events[short][j+1].from - e.to
		}
	}
	assert.Equal(t, short.Sched.FirstForward-short.Sched.FirstQueued+wait, short.Sched.Queued, "all stays are summed")
	assert.Len(t, g.rec.waits, 2, "the histogram has the first ones")
	assert.Equal(t, 590, g.rec.effective[sglang.EffectiveInput], "not what was processed again")
	assert.Greater(t, g.rec.tokens[sglang.ModePrefillCompute], 590+290)
	assert.Zero(t, short.Cached.Total())
}

func count1(story []string, s string) (n int) {
	for _, v := range story {
		if v == s {
			n++
		}
	}
	return n
}

// The last request of all has nobody to wait for: it is aborted, which is no
// retraction.
func TestOutOfMemoryAborts(t *testing.T) {
	g := newRig(t, with(func(a *args.Args) { a.MaxTotalTokens = 1000 }))
	r := g.at(0, g.request(100, 500))
	g.loop.At(100*time.Millisecond, func() { require.True(t, g.mem.Reserve(g.mem.Room())) })
	g.run()
	assert.Zero(t, g.rec.retracted[0])
	assert.Equal(t, ledger.FinishAbort, r.Finish)
	assert.Equal(t, msgOutOfMemory, r.AbortMessage)
}

func TestStorySingleTokenAndEmbedding(t *testing.T) {
	g := newRig(t, with(noOverlap))
	one := g.at(0, g.request(50, 1))
	emb := g.request(60, 0)
	emb.Kind, emb.MaxTokens = ledger.KindEmbedding, 0
	g.at(0, emb)
	g.run()
	assert.Equal(t, []string{
		"request_process", "prefill_waiting", "+prefill_forward", "prefill of 2", "-prefill_forward", "end",
	}, g.story(one)[:6])
	assert.Equal(t, []string{
		"request_process", "prefill_waiting", "+prefill_forward", "prefill of 2", "-prefill_forward", "end",
	}, g.story(emb))
	assert.Equal(t, ledger.FinishStop, emb.Finish)
	assert.Empty(t, emb.Output)
	assert.Len(t, one.Output, 1)
}

// The model may stop before the client's limit.
func TestFinishReasons(t *testing.T) {
	g := newRig(t)
	stops, full := g.request(10, 5), g.request(10, 5)
	stops.MaxTokens = 50
	g.at(0, stops)
	g.at(0, full)
	g.run()
	assert.Equal(t, ledger.FinishStop, stops.Finish)
	assert.Equal(t, ledger.FinishLength, full.Finish)
}

// Traces-spec-ngram-tp2: drafts from n-grams are made on the CPU, in a span of their
// own beside decode_loop; nothing overlaps. EAGLE's have none.
func TestStorySpeculation(t *testing.T) {
	for _, algorithm := range []string{"NGRAM", "EAGLE"} {
		g := newRig(t, with(func(a *args.Args) { a.SpeculativeAlgorithm = algorithm }))
		r := g.at(0, g.request(50, 40))
		g.run()
		drafts := count1(g.story(r), "spec_draft")
		assert.Len(t, r.Output, 40)
		assert.Less(t, r.DecodeSteps, 39, "several tokens a step")
		assert.Equal(t, r.DecodeSteps, r.VerifyCalls)
		if algorithm == "NGRAM" {
			assert.Equal(t, r.DecodeSteps, drafts)
			assert.Contains(t, g.story(r), "decode_waiting")
		} else {
			assert.Zero(t, drafts)
			assert.NotContains(t, g.story(r), "decode_waiting")
		}
	}
}

// Each pipeline stage has a copy of the spans; run_batch_cpu exists there alone.
func TestStoryPipeline(t *testing.T) {
	g := newRig(t, with(func(a *args.Args) { a.PPSize = 2 }))
	a, b := g.at(0, g.request(50, 5)), g.at(0, g.request(50, 5))
	g.run()
	assert.Equal(t, 5, count1(g.story(a), "run_batch_cpu 0")+count1(g.story(a), "run_batch_cpu 1"))
	assert.Equal(t, 5, count1(g.story(b), "run_batch_cpu 0")+count1(g.story(b), "run_batch_cpu 1"))
	assert.Contains(t, g.story(a), "decode_waiting")
}

// With as many micro-batches as stages, two requests decode about as fast as one.
func TestPipelineOverlapsMicroBatches(t *testing.T) {
	took := func(requests int) time.Duration {
		g := newRig(t, with(func(a *args.Args) { a.PPSize, a.MaxRunningRequests = 2, 2 }))
		for range requests {
			g.at(0, g.request(50, 100))
		}
		g.run()
		last := time.Duration(0)
		for _, r := range g.sent {
			last = max(last, r.Sched.Done)
		}
		return last
	}
	assert.Less(t, took(2).Seconds(), 1.3*took(1).Seconds())
}

// Traces-abort-tp2.
func TestStoryAborts(t *testing.T) {
	g := newRig(t, with(func(a *args.Args) { a.MaxRunningRequests, a.AbortOnPriorityWhenDisabled = 1, true }))
	running, queued := g.at(0, g.request(50, 100)), g.at(time.Millisecond, g.request(50, 5))
	refused := g.request(50, 5)
	refused.Priority = new(int)
	g.at(time.Millisecond, refused)
	g.loop.At(50*time.Millisecond, func() { g.Abort(queued) })
	g.loop.At(100*time.Millisecond, func() { g.Abort(running); g.Abort(running) })
	g.run()

	// In the running batch: an end like others, without a status.
	story := g.story(running)
	assert.Equal(t, []string{"-decode_forward", "end"}, story[len(story)-2:])
	assert.Equal(t, ledger.FinishAbort, running.Finish)
	assert.Zero(t, running.AbortStatus)
	assert.Less(t, len(running.Output), 100)
	assert.NotEmpty(t, running.Output)
	assert.False(t, g.dropped[running])

	// In the queue: the thread ends when the object is collected.
	assert.Equal(t, []string{"request_process", "end"}, g.story(queued))
	end := g.rec.events[queued][1]
	assert.True(t, end.auto)
	assert.GreaterOrEqual(t, end.to-queued.Sched.Done, collectAfter)
	assert.True(t, g.dropped[queued])

	assert.Equal(t, []string{"end"}, g.story(refused))
	assert.False(t, g.rec.events[refused][0].auto)
	assert.Equal(t, http.StatusServiceUnavailable, refused.AbortStatus)
	assert.Equal(t, msgPriorityOff, refused.AbortMessage)
}

func TestAbortBetweenChunks(t *testing.T) {
	g := newRig(t, with(func(a *args.Args) { a.ChunkedPrefillSize = 500 }))
	r := g.at(0, g.request(15000, 5))
	g.loop.At(100*time.Millisecond, func() { g.Abort(r) })
	g.run()
	assert.Equal(t, ledger.FinishAbort, r.Finish)
	assert.Less(t, r.Chunks, 30)
	story := g.story(r)
	assert.Equal(t, []string{"chunked_prefill", "-prefill_forward", "end"}, story[len(story)-3:])
}
