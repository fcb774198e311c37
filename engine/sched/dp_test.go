// Copyright The otelcol-sglang Authors
// SPDX-License-Identifier: Apache-2.0

package sched

import (
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"github.com/otelcol-sglang/otelcol-sglang/engine/args"
	"github.com/otelcol-sglang/otelcol-sglang/engine/clock"
	"github.com/otelcol-sglang/otelcol-sglang/engine/cost"
	"github.com/otelcol-sglang/otelcol-sglang/engine/dp"
	"github.com/otelcol-sglang/otelcol-sglang/engine/ledger"
)

// groups are the schedulers of an engine with attention DP.
type groups struct {
	loop *clock.Loop
	sync *dp.Sync
	of   []*rig
}

func newGroups(t tb, n int, opts ...option) *groups {
	loop := clock.NewVirtual(time.Unix(1000, 0))
	model, err := cost.New("llama-8b-h100", n, 1, 1)
	require.NoError(t, err)
	e := &groups{loop: loop, sync: dp.NewSync(loop, model, n)}
	for i := range n {
		all := append([]option{func(a *args.Args, c *Config) {
			a.TPSize, a.DPSize, a.EnableDPAttention = n, n, true
			c.Cost, c.Sync = model, e.sync
			c.Places = []ledger.Place{{DPRank: i, TPRanks: []int{i}}}
		}}, opts...)
		e.of = append(e.of, newRigOn(t, loop, all...))
	}
	return e
}

func (e *groups) run() {
	live := func() bool {
		for _, g := range e.of {
			if !g.Idle() || g.future() > 0 {
				return true
			}
		}
		return false
	}
	for end := e.loop.Now() + time.Minute; e.loop.Now() < end && live(); {
		e.loop.RunUntil(e.loop.Now() + checkEvery + e.loop.Now()/20)
		for _, g := range e.of {
			require.NoError(g.t, g.Check())
		}
	}
	for _, g := range e.of {
		g.settled()
	}
}

// A long prompt on one group makes the others' decode steps as long, and their
// MLP-sync steps show the imbalance.
func TestGroupsWaitForTheLongest(t *testing.T) {
	e := newGroups(t, 2, with(func(a *args.Args) { a.MaxTotalTokens = 100000 }))
	slowest := func(r *ledger.Request) time.Duration {
		d := time.Duration(0)
		for _, s := range e.of[1].rec.events[r] {
			if s.ct > 5 && s.what == "slice" {
				d = max(d, s.to-s.from)
			}
		}
		return d
	}
	alone := e.of[1].at(0, e.of[1].request(50, 100))
	e.run()
	e.of[0].at(e.loop.Now()+100*time.Millisecond, e.of[0].request(8000, 2))
	beside := e.of[1].at(e.loop.Now(), e.of[1].request(50, 100))
	e.run()
	assert.Greater(t, slowest(beside), 3*slowest(alone))

	for _, g := range e.of {
		require.Len(t, g.rec.steps, e.sync.Steps, "each group has each step")
	}
	idle, gap := 0, 0
	for _, s := range e.of[0].rec.steps {
		if s.Tokens == 0 {
			idle++
		}
		gap += s.MaxTokens - s.Tokens
		assert.Equal(t, 2, s.Groups)
	}
	assert.Greater(t, idle, 150, "the first group mostly steps along")
	assert.Equal(t, idle+2*(50-1), gap, "one decode token a step, and two prompts")
	assert.Zero(t, e.sync.Errors)
	assert.Positive(t, e.of[1].rec.groups[1], "tokens while one group prefilled")
	assert.Positive(t, e.of[1].rec.groups[0])
	assert.NotContains(t, e.of[1].rec.groups, -1)
}

// The group that comes late to the all-gather makes the other wait.
func TestStallIsTheOthersWait(t *testing.T) {
	e := newGroups(t, 2)
	e.of[0].at(0, e.of[0].request(50, 50))
	e.of[1].at(0, e.of[1].request(50, 50))
	e.of[1].SetStall(4 * time.Millisecond)
	e.run()
	waits := func(g *rig) (sum time.Duration) {
		for _, s := range g.rec.steps {
			sum += s.SyncWait
		}
		return sum / time.Duration(len(g.rec.steps))
	}
	assert.Greater(t, waits(e.of[0]), 3*time.Millisecond)
	assert.Less(t, waits(e.of[1]), time.Millisecond)
}

func TestGroupInvariants(t *testing.T) {
	rapid.Check(t, func(rt *rapid.T) {
		e := newGroups(rt, rapid.IntRange(2, 4).Draw(rt, "groups"), with(func(a *args.Args) {
			a.MaxTotalTokens = rapid.SampledFrom([]int{1600, 20000}).Draw(rt, "pool")
			a.ChunkedPrefillSize = rapid.SampledFrom([]int{128, 8192}).Draw(rt, "chunk")
			a.DisableOverlapSchedule = rapid.Bool().Draw(rt, "nooverlap")
			a.SpeculativeAlgorithm = rapid.SampledFrom([]string{"", "EAGLE"}).Draw(rt, "spec")
			a.EnableMixedChunk = rapid.Bool().Draw(rt, "mixed")
		}))
		for range rapid.IntRange(1, 20).Draw(rt, "n") {
			g := e.of[rapid.IntRange(0, len(e.of)-1).Draw(rt, "group")]
			r := g.request(rapid.IntRange(1, 900).Draw(rt, "prompt"), rapid.IntRange(1, 100).Draw(rt, "out"))
			g.at(time.Duration(rapid.IntRange(0, 400).Draw(rt, "at"))*time.Millisecond, r)
			if rapid.IntRange(0, 3).Draw(rt, "aborts") == 0 {
				e.loop.At(time.Duration(rapid.IntRange(0, 900).Draw(rt, "abort"))*time.Millisecond, func() { g.Abort(r) })
			}
		}
		e.run()
		require.Zero(rt, e.sync.Errors)
		for _, g := range e.of {
			require.Len(rt, g.rec.steps, e.sync.Steps)
			g.checkWall()
			for _, r := range g.sent {
				if g.ends[r] == 1 && r.Sched.Received != ledger.Unset {
					g.checkRequest(r)
				}
			}
		}
	})
}
