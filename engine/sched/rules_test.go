// Copyright The otelcol-sglang Authors
// SPDX-License-Identifier: Apache-2.0

package sched

import (
	"math"
	"net/http"
	"slices"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/otelcol-sglang/otelcol-sglang/engine/args"
	"github.com/otelcol-sglang/otelcol-sglang/engine/ledger"
	"github.com/otelcol-sglang/otelcol-sglang/engine/lora"
	"github.com/otelcol-sglang/otelcol-sglang/engine/moe"
	"github.com/otelcol-sglang/otelcol-sglang/internal/sglang"
)

// reportsOf are those of one reporter.
func (g *rig) reportsOf(decode bool) []*ledger.Snapshot {
	return slices.DeleteFunc(slices.Clone(g.rec.reports), func(s *ledger.Snapshot) bool { return (s.Decode != nil) != decode })
}

// Each prefill batch reports what it owns, each 40th decode step what that owns;
// neither touches the other's.
func TestTwoReporters(t *testing.T) {
	g := newRig(t, with(func(a *args.Args) { a.EnableMetrics = true }))
	prompt := g.request(1000, 100)
	again := g.request(1000, 100)
	copy(again.Prompt, prompt.Prompt[:750])
	g.at(0, prompt)
	g.at(200*time.Millisecond, again)
	g.run()
	prefills, decodes := g.reportsOf(false), g.reportsOf(true)
	require.Len(t, prefills, 2)
	assert.InDelta(t, 0, prefills[0].Prefill.CacheHitRate, 0)
	assert.InDelta(t, 0.75, prefills[1].Prefill.CacheHitRate, 1e-9, "of that batch alone")
	assert.Equal(t, ledger.CachedTokens{Device: 750}, again.Cached)

	steps := g.rec.passes[sglang.PassDecodeGraph]
	require.Len(t, decodes, (steps-1)/40+1, "and one of standing still")
	first := decodes[0]
	assert.InDelta(t, 1, float64(first.Running.Total), 1)
	assert.Greater(t, first.Decode.GenThroughput, 50.0)
	assert.GreaterOrEqual(t, first.Decode.SumSeqLens, 1000)
	last := decodes[len(decodes)-1]
	assert.Zero(t, last.Decode.GenThroughput, "falls to 0 on idle")
	assert.Equal(t, decodes[len(decodes)-2].Decode.SumSeqLens, last.Decode.SumSeqLens, "the rest stays")
	assert.Zero(t, last.Running.Total+last.Queued.Total)
}

// What a retraction makes be processed again is neither a hit nor an input.
func TestHitRateLeavesOutReprocessed(t *testing.T) {
	g := newRig(t, with(noOverlap), with(func(a *args.Args) { a.MaxTotalTokens, a.ScheduleConservativeness = 504, 0 }))
	first := g.at(0, g.request(300, 200))
	second := g.at(50*time.Millisecond, g.request(290, 90))
	copy(second.Prompt, first.Prompt[:200])
	g.run()
	require.Equal(t, 1, second.Retractions)
	p := g.reportsOf(false)
	require.Len(t, p, 3)
	assert.InDelta(t, 200.0/290, p[1].Prefill.CacheHitRate, 1e-9)
	assert.InDelta(t, 0, p[2].Prefill.CacheHitRate, 0)
	assert.GreaterOrEqual(t, g.rec.tokens[sglang.ModePrefillCache], 400, "though its prompt was found")
	assert.Equal(t, 200, g.rec.effective[sglang.EffectiveDeviceHit])
	assert.Equal(t, 200, second.Cached.Device)
	var retracted int
	for _, s := range g.rec.reports {
		retracted += s.Retracted
	}
	assert.Equal(t, g.rec.retracted[0], retracted, "each report has those since the last")
}

// Prefills alone, on and on, while a request waits for its next step: after 30 s
// without a decode report the throughput is 0.
func TestThroughputGoesStale(t *testing.T) {
	g := newRig(t, with(func(a *args.Args) { a.MaxTotalTokens = 50000 }))
	g.at(0, g.request(10, 60))
	for range 200 {
		r := g.request(9000, 0)
		r.Kind, r.MaxTokens = ledger.KindEmbedding, 0
		g.at(280*time.Millisecond, r)
	}
	g.run()
	d := g.reportsOf(true)
	require.Len(t, d, 3)
	assert.Positive(t, d[0].Decode.GenThroughput)
	assert.Zero(t, d[1].Decode.GenThroughput)
	assert.Positive(t, d[1].Queued.Total, "not because it stands still")
	assert.InDelta(t, staleAfter.Seconds(), (d[1].At - d[0].At).Seconds(), 0.5)
}

func TestThroughputFallsOnPause(t *testing.T) {
	g := newRig(t)
	r := g.at(0, g.request(10, 400))
	g.loop.At(time.Second, func() { g.SetPaused(true) })
	g.loop.RunUntil(1100 * time.Millisecond)
	n := len(r.Output)
	d := g.reportsOf(true)
	assert.Zero(t, d[len(d)-1].Decode.GenThroughput)
	g.loop.RunUntil(2 * time.Second)
	assert.Len(t, r.Output, n)
	g.SetPaused(false)
	g.run()
	assert.Len(t, r.Output, 400)
}

// utilization is what comes first: the limit of running requests, or 90 % of a pool.
func TestUtilization(t *testing.T) {
	g := newRig(t, with(func(a *args.Args) { a.MaxRunningRequests, a.MaxTotalTokens = 10, 10000 }))
	g.at(0, g.request(4500, 100))
	g.loop.RunUntil(300 * time.Millisecond)
	s := g.Snapshot()
	assert.InDelta(t, s.Full.Usage()/0.9, s.Utilization, 1e-9)
	assert.Greater(t, s.Utilization, 0.5)
	for range 6 {
		g.at(g.loop.Now(), g.request(10, 100))
	}
	g.loop.RunUntil(400 * time.Millisecond)
	s = g.Snapshot()
	assert.Equal(t, 7, s.Running.Total)
	assert.InDelta(t, 0.7, s.Utilization, 1e-9)
	g.run()
}

// The reservation for future output decays from 0.7 to 0.098 in 600 decode steps,
// is estimated anew by a retraction, and starts over when all is done.
func TestNewTokenRatio(t *testing.T) {
	g := newRig(t, with(func(a *args.Args) { a.MaxTotalTokens = 3000 }))
	g.at(0, g.request(10, 900))
	assert.InDelta(t, 0.7, g.ratio, 1e-9)
	g.loop.RunUntil(time.Second)
	steps := float64(g.rec.passes[sglang.PassDecodeGraph])
	assert.InDelta(t, 0.7-steps*(0.7-0.098)/600, g.ratio, 1e-9)
	for g.rec.passes[sglang.PassDecodeGraph] < 650 {
		g.loop.RunUntil(g.loop.Now() + 100*time.Millisecond)
	}
	assert.InDelta(t, 0.098, g.ratio, 1e-9)
	g.run()
	assert.InDelta(t, 0.7, g.ratio, 1e-9)

	g = newRig(t, with(noOverlap), with(func(a *args.Args) { a.MaxTotalTokens, a.ScheduleConservativeness = 704, 0 }))
	g.at(0, g.request(300, 200))
	g.at(50*time.Millisecond, g.request(290, 90))
	for g.rec.retracted[0] == 0 {
		g.loop.RunUntil(g.loop.Now() + time.Millisecond)
	}
	assert.InDelta(t, float64(len(g.sent[0].Output)+20)/201, g.ratio, 0.011)
	g.run()
}

// Admission keeps room for what running requests may still generate.
func TestAdmissionReserves(t *testing.T) {
	waits := func(conservativeness float64) time.Duration {
		g := newRig(t, with(func(a *args.Args) { a.MaxTotalTokens, a.ScheduleConservativeness = 2000, conservativeness }))
		g.at(0, g.request(200, 1000))
		r := g.at(20*time.Millisecond, g.request(900, 100))
		g.run()
		return r.Sched.Queued
	}
	assert.Less(t, waits(0.5), 50*time.Millisecond)
	assert.Greater(t, waits(1.42), time.Second)
}

// order is that in which requests were first computed.
func order(g *rig) []string {
	rs := slices.Clone(g.sent)
	slices.SortStableFunc(rs, func(a, b *ledger.Request) int { return int(a.Sched.FirstForward - b.Sched.FirstForward) })
	ids := make([]string, len(rs))
	for i, r := range rs {
		ids[i] = r.ID
	}
	return ids
}

// oneByOne lets one request run at a time, without overlap.
func oneByOne(a *args.Args) { a.MaxRunningRequests, a.DisableOverlapSchedule = 1, true }

func TestPolicies(t *testing.T) {
	// r0 runs while the others arrive: r1 short, r2 with a cached prefix, r3 long output.
	play := func(opts ...option) *rig {
		g := newRig(t, append([]option{with(oneByOne)}, opts...)...)
		g.at(0, g.request(500, 20))
		g.at(10*time.Millisecond, g.request(100, 5))
		r2 := g.request(500, 5)
		copy(r2.Prompt, g.sent[0].Prompt[:400])
		g.at(11*time.Millisecond, r2)
		g.at(12*time.Millisecond, g.request(100, 50))
		return g
	}
	policy := func(p string) option { return with(func(a *args.Args) { a.SchedulePolicy = p }) }
	for p, want := range map[string][]string{
		"fcfs": {"r0", "r1", "r2", "r3"}, "lpm": {"r0", "r2", "r1", "r3"}, "lof": {"r0", "r3", "r1", "r2"},
		"dfs-weight": {"r0", "r2", "r1", "r3"},
	} {
		g := play(policy(p))
		g.run()
		assert.Equal(t, want, order(g), p)
	}
	seen := map[string]bool{}
	for seed := range uint64(20) {
		g := play(policy("random"), with(func(a *args.Args) { a.Seed = seed }))
		g.run()
		seen[order(g)[1]] = true
	}
	assert.Len(t, seen, 3)
	for low, want := range map[bool][]string{true: {"r0", "r3", "r2", "r1"}, false: {"r0", "r2", "r3", "r1"}} {
		g := play(with(func(a *args.Args) { a.EnablePriorityScheduling, a.SchedulePriorityLowFirst = true, low }))
		two, one := 2, 1
		g.sent[2].Priority, g.sent[3].Priority = &two, &one // r0, r1 have none: last
		g.sent[0].Priority = &two
		g.run()
		assert.Equal(t, want, order(g), "low first: %t", low)
	}
}

// Requests that share the most popular cached prefix run together.
func TestDFSWeight(t *testing.T) {
	g := newRig(t, with(oneByOne), with(func(a *args.Args) { a.SchedulePolicy = "dfs-weight" }))
	a, b := g.at(0, g.request(100, 2)), g.at(0, g.request(100, 2))
	busy := g.at(100*time.Millisecond, g.request(3000, 2))
	for i, of := range []*ledger.Request{a, b, b, a, b} {
		r := g.request(150, 2)
		copy(r.Prompt, of.Prompt)
		g.at(101*time.Millisecond+time.Duration(i)*time.Microsecond, r)
	}
	g.run()
	require.Less(t, busy.Sched.FirstForward, g.sent[3].Sched.FirstForward)
	// Weights are of those who still wait.
	assert.Equal(t, []string{"r4", "r5", "r3"}, order(g)[3:6])
}

// A request of much higher priority takes the place of one that runs; a little
// higher is not enough.
func TestPreemption(t *testing.T) {
	for diff, want := range map[int]int{preemptThreshold: 0, preemptThreshold + 1: 1} {
		g := newRig(t, with(oneByOne), with(func(a *args.Args) { a.EnablePriorityScheduling = true }))
		low, high := 0, diff
		first, second := g.request(100, 50), g.request(100, 5)
		first.Priority, second.Priority = &low, &high
		g.at(0, first)
		g.at(50*time.Millisecond, second)
		g.run()
		assert.Equal(t, want, first.Retractions, "by %d", diff)
		assert.Equal(t, want == 1, second.Sched.Done < first.Sched.Done)
	}
}

func TestQueueLimit(t *testing.T) {
	play := func(priorities bool) *rig {
		g := newRig(t, with(oneByOne), with(func(a *args.Args) { a.MaxQueuedRequests, a.EnablePriorityScheduling = 2, priorities }))
		for i, p := range []int{5, 3, 1, 4, 2} {
			r := g.request(100, 50)
			r.Priority = &p
			g.at(time.Duration(10*i)*time.Millisecond, r)
		}
		g.run()
		return g
	}
	refused := func(g *rig) (ids []string) {
		for _, r := range g.sent {
			if r.Finish == ledger.FinishAbort {
				assert.Equal(t, http.StatusServiceUnavailable, r.AbortStatus)
				ids = append(ids, r.ID+": "+r.AbortMessage)
			}
		}
		return ids
	}
	assert.Equal(t, []string{"r3: " + msgQueueFull, "r4: " + msgQueueFull}, refused(play(false)))
	// r3 pushes r2 out; r4 is below r1 and r3.
	assert.Equal(t, []string{"r2: " + msgOutranked, "r4: " + msgQueueFull}, refused(play(true)))
}

func TestTooLongIsRefused(t *testing.T) {
	g := newRig(t, with(func(a *args.Args) { a.MaxTotalTokens = 500 }))
	r := g.at(0, g.request(600, 5))
	ok := g.at(0, g.request(490, 500))
	g.run()
	assert.Equal(t, http.StatusBadRequest, r.AbortStatus)
	assert.Equal(t, ledger.FinishLength, ok.Finish)
	assert.Len(t, ok.Output, 9, "what is left of the pool")
}

// Counts come from one pass, in all and by priority.
func TestPriorityCounts(t *testing.T) {
	g := newRig(t, with(oneByOne), with(func(a *args.Args) { a.EnablePriorityScheduling = true }))
	for _, p := range []int{5, 5, -3} {
		r := g.request(100, 50)
		r.Priority = &p
		g.at(0, r)
	}
	g.at(0, g.request(100, 50))
	g.loop.RunUntil(50 * time.Millisecond)
	s := g.Snapshot()
	assert.Equal(t, ledger.QueueCount{Total: 1, ByPriority: map[string]int{"5": 1}}, s.Running)
	assert.Equal(t, ledger.QueueCount{Total: 3, ByPriority: map[string]int{"5": 1, "-3": 1, "None": 1}}, s.Queued)
	g.run()
}

// Only when all running requests have a key.
func TestRoutingKeys(t *testing.T) {
	g := newRig(t, with(func(a *args.Args) { a.MaxRunningRequests = 3 }))
	for _, key := range []string{"a", "a", "b", "b", "c"} {
		r := g.request(100, 20)
		r.RoutingKey = key
		g.at(0, r)
	}
	g.loop.RunUntil(50 * time.Millisecond)
	assert.Equal(t, &ledger.RoutingKeys{Unique: 2, Running: []int{1, 2}, All: []int{1, 2, 2}}, g.Snapshot().Routing)
	g.at(g.loop.Now(), g.request(100, 200))
	g.loop.RunUntil(400 * time.Millisecond)
	assert.Nil(t, g.Snapshot().Routing)
	g.run()
}

// The wall time of the loop is in its stages, or idle.
func TestLoopTime(t *testing.T) {
	g := newRig(t)
	g.at(time.Second, g.request(100, 200))
	g.run()
	g.checkWall()
	assert.GreaterOrEqual(t, g.rec.idle, time.Second)
	for _, c := range []string{
		sglang.LoopOther, sglang.LoopRecvRequests, sglang.LoopGetNextBatch, sglang.LoopRunBatch, sglang.LoopProcessBatchResult,
	} {
		assert.Positive(t, g.rec.loop[c+" none"]+g.rec.loop[c+" full"], c)
	}
	choose := sglang.LoopGetNextBatch
	assert.Greater(t, g.rec.loop[choose+" full"], g.rec.loop[choose+" none"], "while the GPU works")

	serial := newRig(t, with(noOverlap))
	serial.at(0, serial.request(100, 200))
	serial.run()
	assert.Zero(t, serial.rec.loop[choose+" full"])
	assert.Greater(t, serial.sent[0].Sched.Done, g.sent[0].Sched.Done-g.sent[0].Sched.Received, "and is slower")
}

// A grammar is compiled before the request enters the waiting queue.
func TestGrammarQueue(t *testing.T) {
	g := newRig(t)
	r := g.request(50, 5)
	r.Structured = true
	g.at(0, r)
	gone := g.request(50, 5)
	gone.Structured = true
	g.at(0, gone)
	g.loop.RunUntil(10 * time.Millisecond)
	assert.Equal(t, 2, g.Snapshot().Grammar.Total)
	g.Abort(gone)
	g.run()
	assert.GreaterOrEqual(t, r.Sched.FirstQueued-r.Sched.Received, grammarTime)
	assert.True(t, g.dropped[gone])
	assert.Zero(t, g.Snapshot().Grammar.Total)
}

// Of those who begin alike and are not cached, lpm lets one go first; the others come
// last and find its KV. Of another adapter it would be of no use to them.
func TestLPMInBatch(t *testing.T) {
	g := newRig(t, func(a *args.Args, _ *Config) {
		a.SchedulePolicy, a.MaxPrefillTokens, a.DisableOverlapSchedule = "lpm", 600, true
	})
	shared := tokens(7, 250)
	for i, lora := range []string{"", "", "x", ""} {
		r := g.request(280, 2)
		r.LoRA = lora
		if i < 3 {
			copy(r.Prompt, shared)
		}
		g.at(0, r)
	}
	g.run()
	first := func(i int) time.Duration { return g.sent[i].Sched.FirstForward }
	assert.Less(t, first(0), first(1))
	assert.Equal(t, first(0), first(2), "the other adapter's goes along")
	assert.Equal(t, 250, g.sent[1].Cached.Total())
	assert.Zero(t, g.sent[2].Cached.Total())
}

// Waiting prompts are reckoned with the share that those of late found in the cache.
func TestWaitingUncached(t *testing.T) {
	g := newRig(t, func(a *args.Args, _ *Config) { a.MaxRunningRequests = 1 })
	for i := range 3 {
		r := g.request(401, 200)
		copy(r.Prompt, tokens(7, 300))
		g.at(time.Duration(i)*5*time.Second, r)
	}
	wait := g.request(1000, 5)
	g.at(10*time.Second, wait)
	g.loop.RunUntil(10*time.Second + 200*time.Millisecond)
	require.Equal(t, 1, g.Loads().Waiting)
	found := 600.0 / 1203
	assert.InDelta(t, 1000*(1-found), g.Loads().WaitingUncachedTokens, 1)
	g.run()
}

// Requests whose adapter has no slot are passed over by those behind.
func TestLoRASlots(t *testing.T) {
	g := newRig(t, func(_ *args.Args, c *Config) { c.LoRA = lora.New(1, 1e9, 20e9) })
	for _, id := range []string{"a", "b", "a", ""} {
		r := g.request(50, 50)
		r.LoRA = id
		g.at(0, r)
	}
	g.loop.RunUntil(200 * time.Millisecond)
	assert.Equal(t, &ledger.LoRASlots{Used: 1, Total: 1}, g.Snapshot().LoRA)
	assert.Equal(t, 3, g.Snapshot().Running.Total)
	g.run()
	assert.Greater(t, g.sent[1].Sched.FirstForward, g.sent[0].Sched.Done)
	assert.Less(t, g.sent[3].Sched.FirstForward, g.sent[1].Sched.FirstForward)
	assert.Greater(t, g.sent[0].Sched.Queued, 50*time.Millisecond, "loading took 1 GB at 20 GB/s")
}

// Uneven experts make each pass longer, and are reported.
func TestExperts(t *testing.T) {
	play := func(skew float64) (time.Duration, float64) {
		dispatch, err := moe.New(moe.Config{Layers: 4, Experts: 128, TopK: 8, GPUs: 8, Skew: skew, Seed: 1}, ledger.NopExpert{})
		require.NoError(t, err)
		g := newRig(t, func(a *args.Args, c *Config) {
			a.ModelProfile, a.TPSize = "qwen3-30b-a3b-h100", 8
			c.Experts = dispatch
		})
		r := g.at(0, g.request(4000, 20))
		g.run()
		require.NotEmpty(t, g.rec.balance)
		return r.Sched.PrefillDone - r.Sched.FirstForward, g.rec.balance[0]
	}
	even, b0 := play(0)
	uneven, b1 := play(1)
	assert.Greater(t, b0, b1+0.2)
	assert.Greater(t, uneven, even)
}

func TestStallIsInTheLoop(t *testing.T) {
	play := func(stall time.Duration) *rig {
		g := newRig(t, with(noOverlap))
		g.SetStall(stall)
		g.at(0, g.request(100, 50))
		g.run()
		return g
	}
	well, stalled := play(0), play(20*time.Millisecond)
	assert.Greater(t, stalled.sent[0].Sched.Done, well.sent[0].Sched.Done+49*20*time.Millisecond)
	assert.Greater(t, stalled.rec.loop[sglang.LoopOther+" none"], time.Second)
}

func TestPressureRetractsAndHeals(t *testing.T) {
	g := newRig(t, with(func(a *args.Args) { a.MaxTotalTokens = 3000 }))
	for range 4 {
		g.at(0, g.request(300, 300))
	}
	g.loop.At(time.Second, func() {
		room := g.mem.Room()
		assert.Equal(t, room, g.SetPressure(2000), "as far as it can be had")
	})
	g.loop.At(1200*time.Millisecond, func() {
		assert.Positive(t, g.rec.retracted[0])
		assert.NotEmpty(t, g.queue)
		g.SetPressure(0)
	})
	g.run()
	for _, r := range g.sent {
		assert.Len(t, r.Output, 300)
	}
}

func TestMFUAndDeviceTimer(t *testing.T) {
	g := newRig(t)
	g.at(0, g.request(100, 50))
	g.run()
	assert.Zero(t, g.rec.flops)
	assert.True(t, math.IsNaN(g.rec.reports[0].FwdOccupancy))
	g = newRig(t, with(func(a *args.Args) { a.EnableMFUMetrics, a.DeviceTimer = true, true }))
	g.at(0, g.request(100, 50))
	g.run()
	assert.Greater(t, g.rec.flops, 2*7.5e9*149)
	d := g.reportsOf(true)
	assert.InDelta(t, 0.9, d[0].FwdOccupancy, 0.1, "the GPU is busy while requests run")
}

func TestConstants(t *testing.T) {
	g := newRig(t, with(func(a *args.Args) { a.PageSize = 16 }))
	c := g.rec.constants
	assert.Equal(t, testPool, c.MaxTotalTokens)
	assert.Equal(t, testPool/16, c.Pages)
	assert.InDelta(t, 16.06, c.WeightGB, 0.1)
	assert.Positive(t, c.AvailableGB)
}

func TestSpecReports(t *testing.T) {
	g := newRig(t, with(func(a *args.Args) { a.SpeculativeAlgorithm = "EAGLE" }))
	for range 8 {
		g.at(0, g.request(50, 300))
	}
	g.loop.At(500*time.Millisecond, func() { g.Drafter.SetQuality(0.3) })
	g.run()
	d := g.reportsOf(true)
	require.GreaterOrEqual(t, len(d), 3)
	first, last := d[0].Decode.Spec, d[len(d)-1].Decode.Spec
	assert.InDelta(t, 3, first.AcceptLength, 0.5)
	assert.InDelta(t, (first.AcceptLength-1)/3, first.AcceptRate, 1e-9)
	assert.Less(t, last.AcceptLength, first.AcceptLength-0.5, "drafts got worse")
	assert.Equal(t, []int{3, 4}, []int{first.Steps, first.DraftToks})
	l := g.Loads()
	assert.Less(t, last.AcceptLength, l.AcceptLength, "lifetime")
	assert.Less(t, l.AcceptLength, first.AcceptLength)
}

func TestLoads(t *testing.T) {
	g := newRig(t, with(oneByOne))
	g.at(0, g.request(1000, 100))
	g.at(0, g.request(300, 10))
	g.loop.RunUntil(500 * time.Millisecond)
	l := g.Loads()
	assert.Equal(t, []int{1, 1, 300, testPool, 1}, []int{l.Running, l.Waiting, l.WaitingUncachedTokens, l.CapacityTokens, l.MaxRunning})
	assert.EqualValues(t, 1000, l.PrefillUncachedTokens)
	assert.Equal(t, 2, g.Load().Requests)
	assert.GreaterOrEqual(t, g.Load().Tokens, 1300)
	assert.False(t, g.Flush(), "busy")
	g.run()
	full, _, _ := g.mem.Books()
	assert.Positive(t, full.Evictable)
	assert.True(t, g.Flush())
	full, _, _ = g.mem.Books()
	assert.Zero(t, full.Evictable)
	assert.True(t, g.Idle())
}

func TestConfigErrors(t *testing.T) {
	_, err := New(Config{})
	require.ErrorContains(t, err, "must be set")
	g := newRig(t)
	c := g.Config
	a := args.Default()
	a.SchedulePolicy, a.MaxRunningRequests, a.MaxPrefillTokens, a.DecodeLogInterval, a.DisaggregationMode = "best", 0, 0, 0, args.Decode
	c.Args, c.Collectors = &a, nil
	_, err = New(c)
	for _, want := range []string{`(got "best")`, "max_running_requests", "max_prefill_tokens", "decode_log_interval", "one per place", "a link must be set"} {
		require.ErrorContains(t, err, want)
	}
}

// A prompt between chunks whose rest does not fit waits while others run, and
// starts anew when nobody does.
func TestChunkWithoutRoom(t *testing.T) {
	g := newRig(t, with(func(a *args.Args) { a.ChunkedPrefillSize = 500 }))
	r := g.at(0, g.request(15000, 5))
	g.loop.At(100*time.Millisecond, func() {
		room := g.mem.Room()
		require.True(t, g.mem.Reserve(room))
		g.loop.After(100*time.Millisecond, func() { g.mem.Unreserve(room) })
	})
	g.run()
	assert.Equal(t, 1, r.Retractions)
	assert.Len(t, r.Output, 5)
	assert.Equal(t, 2, count1(g.story(r), "+prefill_forward"))
}

// Requests that the memory refuses though it has room are retracted.
func TestRefusedGrowth(t *testing.T) {
	g := newRig(t, func(_ *args.Args, c *Config) { c.Memory = &flakyMemory{} })
	for range 3 {
		g.at(0, g.request(50, 50))
	}
	g.loop.At(100*time.Millisecond, func() { g.flaky.refuse = 2 })
	g.run()
	assert.Equal(t, 2, g.rec.retracted[0])
	for _, r := range g.sent {
		assert.Len(t, r.Output, 50)
	}
}

// Drafts of the last steps need slots beyond the request's own tokens.
func TestSpeculationFillsThePool(t *testing.T) {
	g := newRig(t, with(func(a *args.Args) { a.MaxTotalTokens, a.SpeculativeAlgorithm = 500, "EAGLE" }))
	r := g.at(0, g.request(100, 1000))
	g.run()
	assert.Equal(t, ledger.FinishLength, r.Finish)
	assert.Len(t, r.Output, g.maxLen-100)
}

// A resumed decode request has its KV back without a second fake_output.
func TestPDRetractionResumes(t *testing.T) {
	p := newPair(t, with(func(a *args.Args) { a.MaxTotalTokens, a.PageSize = 1600, 1 }))
	for i := range 3 {
		p.send(time.Duration(i)*time.Millisecond, 0, 300, 700)
	}
	p.run()
	require.Positive(t, p.decode.rec.retracted[0])
	for _, r := range p.decode.sent {
		assert.Len(t, r.Output, 700)
		assert.Equal(t, 1, count1(p.decode.story(r), "fake_output"))
		assert.Equal(t, 1, count1(p.decode.story(r), "+decode_forward"))
		assert.Zero(t, count1(p.decode.story(r), "+prefill_forward"))
	}
}
