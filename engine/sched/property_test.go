// Copyright The otelcol-sglang Authors
// SPDX-License-Identifier: Apache-2.0

package sched

import (
	"fmt"
	"hash/fnv"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"github.com/otelcol-sglang/otelcol-sglang/engine/args"
	"github.com/otelcol-sglang/otelcol-sglang/engine/ledger"
	"github.com/otelcol-sglang/otelcol-sglang/engine/lora"
	"github.com/otelcol-sglang/otelcol-sglang/internal/sglang"
)

// scenario is a drawn engine and load.
type scenario struct {
	opts     []option
	requests []drawn
	pressure []drawn
}

type drawn struct {
	at             time.Duration
	prompt, out    int
	shared         int // leading tokens that many have
	priority       *int
	embedding      bool
	abortAfter     time.Duration // 0: never
	tokens         int
	maxTokensExtra int
	structured     bool
	lora           string
}

func drawScenario(t *rapid.T) scenario {
	page := rapid.SampledFrom([]int{1, 16}).Draw(t, "page")
	pool := rapid.SampledFrom([]int{1600, 4000, 20000}).Draw(t, "pool") / page * page
	a := func(a *args.Args) {
		a.MaxTotalTokens, a.PageSize = pool, page
		a.ChunkedPrefillSize = rapid.SampledFrom([]int{-1, 128, 512, 8192}).Draw(t, "chunk")
		a.MaxPrefillTokens = rapid.SampledFrom([]int{1024, 16384}).Draw(t, "maxprefill")
		a.MaxRunningRequests = rapid.SampledFrom([]int{2, 8, 64}).Draw(t, "running")
		a.MaxQueuedRequests = rapid.SampledFrom([]int{0, 0, 4}).Draw(t, "queued")
		a.SchedulePolicy = rapid.SampledFrom(Policies).Draw(t, "policy")
		a.DisableOverlapSchedule = rapid.Bool().Draw(t, "nooverlap")
		a.EnablePriorityScheduling = rapid.Bool().Draw(t, "priority")
		a.SchedulePriorityLowFirst = rapid.Bool().Draw(t, "lowfirst")
		a.DisableRadixCache = rapid.IntRange(0, 4).Draw(t, "noradix") == 0
		a.EnableHierarchicalCache = !a.DisableRadixCache && rapid.IntRange(0, 3).Draw(t, "hicache") == 0
		if a.EnableHierarchicalCache && rapid.Bool().Draw(t, "storage") {
			a.HiCacheStorageBackend = "file"
			a.HiCacheStoragePrefetch = rapid.SampledFrom([]string{"best_effort", "wait_complete", "timeout"}).Draw(t, "prefetch")
		}
		a.PPSize = rapid.SampledFrom([]int{1, 1, 2}).Draw(t, "pp")
		a.SpeculativeAlgorithm = rapid.SampledFrom([]string{"", "", "EAGLE", "NGRAM"}).Draw(t, "spec")
		a.EnableMixedChunk = a.ChunkedPrefillSize > 0 && rapid.Bool().Draw(t, "mixed")
		a.Seed = rapid.Uint64Range(1, 1000).Draw(t, "seed")
		a.DecodeLogInterval = rapid.SampledFrom([]int{1, 40}).Draw(t, "log")
	}
	adapters := func(_ *args.Args, c *Config) { c.LoRA = lora.New(2, 100e6, 20e9) }
	sc := scenario{opts: []option{with(a), adapters}}
	n := rapid.IntRange(1, 25).Draw(t, "n")
	for range n {
		d := drawn{
			at:     time.Duration(rapid.IntRange(0, 500).Draw(t, "at")) * time.Millisecond,
			prompt: rapid.IntRange(1, 900).Draw(t, "prompt"), out: rapid.IntRange(1, 120).Draw(t, "out"),
			maxTokensExtra: rapid.SampledFrom([]int{0, 10, 500}).Draw(t, "extra"),
			embedding:      rapid.IntRange(0, 9).Draw(t, "emb") == 0,
			structured:     rapid.IntRange(0, 9).Draw(t, "structured") == 0,
			lora:           rapid.SampledFrom([]string{"", "", "a", "b", "c"}).Draw(t, "lora"),
		}
		d.shared = rapid.IntRange(0, d.prompt).Draw(t, "shared")
		if rapid.IntRange(0, 3).Draw(t, "aborts") == 0 {
			d.abortAfter = time.Duration(rapid.IntRange(1, 800).Draw(t, "abort")) * time.Millisecond
		}
		if rapid.Bool().Draw(t, "hasprio") {
			p := rapid.IntRange(-30, 30).Draw(t, "prio")
			d.priority = &p
		}
		sc.requests = append(sc.requests, d)
	}
	for range rapid.IntRange(0, 2).Draw(t, "pressures") {
		sc.pressure = append(sc.pressure, drawn{
			at:     time.Duration(rapid.IntRange(0, 600).Draw(t, "pat")) * time.Millisecond,
			tokens: rapid.IntRange(0, 1500).Draw(t, "ptokens"),
		})
	}
	return sc
}

func (sc *scenario) play(t tb, opts ...option) *rig {
	g := newRig(t, append(sc.opts, opts...)...)
	common := tokens(7, 1000)
	for _, d := range sc.requests {
		r := g.request(d.prompt, d.out)
		copy(r.Prompt, common[:d.shared])
		r.MaxTokens += d.maxTokensExtra
		r.Priority, r.Structured, r.LoRA = d.priority, d.structured, d.lora
		if d.embedding {
			r.Kind, r.OutputLen, r.MaxTokens = ledger.KindEmbedding, 0, 0
		}
		g.at(d.at, r)
		if d.abortAfter > 0 {
			g.loop.At(d.at+d.abortAfter, func() { g.Abort(r) })
		}
	}
	for _, p := range sc.pressure {
		g.loop.At(p.at, func() { g.SetPressure(p.tokens) })
	}
	g.loop.At(5*time.Second, func() { g.SetPressure(0) })
	g.run()
	return g
}

// digest is what happened, with the times of it.
func (g *rig) digest() uint64 {
	h := fnv.New64a()
	for _, r := range g.sent {
		fmt.Fprintln(h, r.ID, r.Finish, r.Output, r.Cached, r.Sched, g.rec.events[r], g.tokenAt[r])
		for _, e := range g.rec.events[r] {
			fmt.Fprintln(h, e.from, e.to, e.auto)
		}
	}
	for _, s := range g.rec.reports {
		fmt.Fprintln(h, s.At, s.Full, s.Queued.Total, s.Running.Total)
	}
	return h.Sum64()
}

func TestInvariants(t *testing.T) {
	rapid.Check(t, func(rt *rapid.T) {
		sc := drawScenario(rt)
		g := sc.play(rt)
		for _, r := range g.sent {
			g.checkRequest(r)
		}
		g.checkConserved()
		g.checkWall()
		require.NoError(rt, g.LoRA.Check())
		require.Zero(rt, g.LoRA.Slots().Used)
		g.checkReports()
	})
}

func TestDeterministic(t *testing.T) {
	rapid.Check(t, func(rt *rapid.T) {
		sc := drawScenario(rt)
		again := sc
		a := sc.play(rt)
		// The drawn settings are those of the first run.
		b := again.play(rt, func(x *args.Args, _ *Config) { *x = a.a })
		require.Equal(rt, a.digest(), b.digest())
	})
}

// checkRequest: the readings are in order, the spans well formed, and the tokens
// are those asked for.
func (g *rig) checkRequest(r *ledger.Request) {
	t, s := g.t, &r.Sched
	require.GreaterOrEqual(t, s.Queued, time.Duration(0))
	require.GreaterOrEqual(t, s.Received, g.arrived[r])
	last := s.Received
	for _, at := range []time.Duration{s.FirstQueued, s.FirstForward, s.PrefillDone, s.DecodeStart, s.Done} {
		if at != ledger.Unset {
			require.GreaterOrEqual(t, at, last, "%s %+v", r.ID, *s)
			last = at
		}
	}
	if r.Finish == ledger.FinishAbort {
		require.LessOrEqual(t, len(r.Output), max(r.OutputLen, 1))
	} else if r.Kind != ledger.KindEmbedding {
		want := max(1, min(r.OutputLen, r.MaxTokens))
		require.Len(t, r.Output, min(want, g.maxLen-len(r.Prompt)))
	}
	g.checkSpans(r)
}

func (g *rig) checkSpans(r *ledger.Request) {
	t := g.t
	var open []sglang.Stage
	waits, ends, retracts, ct := 0, 0, 0, 0
	for _, e := range g.rec.events[r] {
		require.Zero(t, ends, "%s: %s after the end", r.ID, e)
		if strings.HasPrefix(e.stage.String(), "mooncake") {
			continue // a trace of its own
		}
		switch e.what {
		case "open":
			open = append(open, e.stage)
		case "close":
			require.NotEmpty(t, open, r.ID)
			require.Equal(t, open[len(open)-1], e.stage, r.ID)
			open = open[:len(open)-1]
		case "retract":
			retracts++
		case "end":
			ends++
			require.True(t, e.auto || len(open) == 0, "%s ends with %v open", r.ID, open)
		case "slice":
			nested := e.stage.Info().Nested
			require.Equal(t, nested, len(open) > 0, "%s: %s in %v", r.ID, e, open)
			switch e.stage {
			case sglang.StagePrefillWaiting:
				waits++
			case sglang.StageDecodeLoop:
				require.Equal(t, ct, e.ct, r.ID)
				ct++
			}
		}
	}
	require.Equal(t, 1, ends, r.ID)
	require.LessOrEqual(t, waits, 1)
	require.Equal(t, r.Retractions, retracts)
	require.Equal(t, r.DecodeSteps, ct)
}

// checkConserved: tokens that were counted are those that were made or asked for.
func (g *rig) checkConserved() {
	t := g.t
	outputs, prompts, aborts, made, computed, hits := 0, 0, false, 0, 0, 0
	for _, r := range g.sent {
		aborts = aborts || r.Finish == ledger.FinishAbort
		outputs += len(r.Output)
		prompts += len(r.Prompt)
		hits += r.Cached.Total()
		for _, e := range g.rec.events[r] {
			if e.what == "close" && e.stage == sglang.StagePrefillForward && r.Kind != ledger.KindEmbedding {
				made++
			}
		}
	}
	computed = g.rec.tokens[sglang.ModePrefillCompute] / len(g.Places)
	effective := 0
	for _, n := range g.rec.effective {
		effective += n / len(g.Places)
	}
	require.GreaterOrEqual(t, g.rec.tokens[sglang.ModePrefillCache]/len(g.Places)+computed, effective)
	if aborts || g.rec.retracted[0] > 0 {
		return
	}
	require.Equal(t, outputs, g.rec.tokens[sglang.ModeDecode]/len(g.Places)+made)
	require.Equal(t, prompts, effective)
	require.Equal(t, hits, effective-g.rec.effective[sglang.EffectiveInput]/len(g.Places))
}

// checkWall: what the loop did, waited for and idled is the time that passed, to the
// step that is under way.
func (g *rig) checkWall() {
	g.Settle()
	all := g.rec.idle
	for _, d := range g.rec.loop {
		all += d
	}
	require.InDelta(g.t, g.loop.Now().Seconds(), all.Seconds()/float64(len(g.Places)), 0.001)
}

func (g *rig) checkReports() {
	for _, s := range g.rec.reports {
		require.True(g.t, s.Full.Balanced(), "%+v", s.Full)
		require.InDelta(g.t, max(s.Full.Usage(), s.SWA.Usage(), s.Mamba.Usage()), s.TokenUsage, 1e-9)
		require.False(g.t, s.Prefill != nil && s.Decode != nil, "one reporter at a time")
		if s.Decode != nil {
			require.GreaterOrEqual(g.t, s.Decode.GenThroughput, 0.0)
		}
		total := 0
		for _, n := range s.Queued.ByPriority {
			total += n
		}
		assert.True(g.t, s.Queued.ByPriority == nil || total == s.Queued.Total)
	}
}
