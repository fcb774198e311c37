// Copyright The otelcol-sglang Authors
// SPDX-License-Identifier: Apache-2.0

package identity

import (
	"fmt"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"github.com/otelcol-sglang/otelcol-sglang/internal/sglang"
)

var began = time.Unix(1_800_000_000, 0)

func newTestRegistry(maxSenders int) *Registry {
	return NewRegistry(Settings{Wait: 2 * time.Second, ForgetAfter: 30 * time.Minute, MaxSenders: maxSenders})
}

func scheduler(tp int32) sglang.Thread {
	return sglang.Thread{Label: "Scheduler", Ranks: sglang.Ranks{TP: tp, PP: 0, DP: sglang.NoRank}}
}

func TestTableIsBounded(t *testing.T) {
	r := newTestRegistry(100)
	for i := range 1000 {
		s := r.Sender(Key{Instance: fmt.Sprint(i), Ranks: sglang.NoRanks}, began)
		assert.Equal(t, i < 100, s != nil)
	}
	assert.EqualValues(t, 100, r.Count().Senders)
	r.Forget(began.Add(time.Hour))
	assert.Zero(t, r.Count().Senders)
	assert.NotNil(t, r.Sender(Key{Instance: "x", Ranks: sglang.NoRanks}, began.Add(time.Hour)))
}

// TestRanksAreBounded: a sender that shows ever other ranks.
func TestRanksAreBounded(t *testing.T) {
	r := newTestRegistry(100)
	s := r.Sender(Key{Instance: "x", Ranks: sglang.NoRanks}, began)
	for i := range int32(3 * maxProcs) {
		r.Learn(s, sglang.Thread{Label: "Scheduler", Ranks: sglang.Ranks{TP: i % 7, PP: i, DP: i}}, Root{1, 1}, began)
	}
	assert.LessOrEqual(t, len(r.groups), maxProcs)
	r.Forget(began.Add(time.Hour))
	assert.Empty(t, r.groups)
	assert.Empty(t, r.instances)
}

// TestSharedInstanceID: an id that front end and scheduler have says nothing.
func TestSharedInstanceID(t *testing.T) {
	r := newTestRegistry(100)
	key := func(peer string) Key { return Key{Instance: "pod", Peer: peer, Ranks: sglang.NoRanks} }
	s := r.Sender(key("1"), began)
	r.Saw(s, sglang.ProcessScheduler, began)
	r.Learn(s, scheduler(0), Root{1, 1}, began)
	later := began.Add(time.Minute)
	require.NotNil(t, r.Sender(key("2"), later).Proc(), "the same process from another port")
	front := r.Sender(key("3"), later)
	r.Saw(front, sglang.ProcessFrontEnd, later)
	assert.Nil(t, front.Proc())
	assert.Nil(t, r.Sender(key("4"), later).Proc())
	assert.NotNil(t, s.Proc(), "it has shown its own thread span")
}

// TestForgottenRootIsJoinedAgain: a request that goes on when its root has been
// forgotten still tells that its senders are of one engine.
func TestForgottenRootIsJoinedAgain(t *testing.T) {
	r := newTestRegistry(100)
	first := r.Sender(Key{Instance: "0", Ranks: sglang.NoRanks}, began)
	now := began
	for root := range uint64(3) {
		r.Learn(first, scheduler(0), Root{1, root + 1}, now)
		now = now.Add(16 * time.Minute)
	}
	require.NotContains(t, r.roots[0], Root{1, 1})
	require.NotContains(t, r.roots[1], Root{1, 1})
	second := r.Sender(Key{Instance: "1", Ranks: sglang.NoRanks}, now)
	for _, s := range []*Sender{first, second} {
		r.Learn(s, scheduler(0), Root{1, 1}, now)
	}
	assert.Equal(t, first.EngineID(), second.EngineID())
}

// TestOlderIDStays: two engines that turn out to be one keep the id of the one
// that was known first, whichever is met again.
func TestOlderIDStays(t *testing.T) {
	for _, again := range []int{0, 1} {
		r := newTestRegistry(100)
		var senders []*Sender
		for i := range 2 {
			s := r.Sender(Key{Instance: fmt.Sprint(i), Ranks: sglang.NoRanks}, began)
			r.Learn(s, scheduler(int32(i)), Root{1, uint64(i + 1)}, began)
			senders = append(senders, s)
		}
		older := senders[0].EngineID()
		require.NotEqual(t, older, senders[1].EngineID())
		_, changed := r.Learn(senders[again], scheduler(int32(again)), Root{1, uint64(2 - again)}, began)
		assert.True(t, changed)
		for _, s := range senders {
			assert.Equal(t, older, s.EngineID())
			assert.Equal(t, older, s.Proc().Group.EngineID())
			assert.Equal(t, []int32{0, 1}, s.Proc().Group.Expected())
		}
		assert.EqualValues(t, 1, r.Count().Engines)
	}
}

// TestDeadAndBack: a primary is dead when it owes copies and is silent, and back
// when it speaks; one that is only silent is not.
func TestDeadAndBack(t *testing.T) {
	r := newTestRegistry(100)
	var procs []*Proc
	for tp := range int32(3) {
		p, _ := r.Learn(r.Sender(Key{Instance: fmt.Sprint(tp), Ranks: sglang.NoRanks}, began), scheduler(tp), Root{1, 1}, began)
		procs = append(procs, p)
	}
	g := procs[0].Group
	assert.True(t, procs[0].Primary())
	now := began.Add(time.Minute)
	r.Alive(procs[1], now)
	assert.False(t, r.Owes(g, now))
	assert.False(t, r.Owes(g, now))
	assert.True(t, r.Owes(g, now))
	assert.True(t, procs[1].Primary())
	r.Absent(g, 2, now)
	assert.Equal(t, []int32{1}, g.Expected())
	r.Absent(g, 1, now)
	assert.Equal(t, []int32{1}, g.Expected(), "the primary has spoken")
	assert.Equal(t, 3, g.Known())
	assert.EqualValues(t, 2, r.Count().Silent)
	r.Alive(procs[0], now)
	r.Alive(procs[2], now)
	assert.True(t, procs[0].Primary())
	assert.Equal(t, []int32{0, 1, 2}, g.Expected())
	assert.Zero(t, r.Count().Silent)
}

// TestDeadRankOfAnEarlierTier: that tier goes on with its next rank, and counts them.
func TestDeadRankOfAnEarlierTier(t *testing.T) {
	r := newTestRegistry(100)
	rank := func(tp int32) *Proc {
		ranks := sglang.Ranks{TP: tp, PP: 0, DP: sglang.NoRank}
		return r.Sender(Key{Engine: "e", Ranks: ranks}, began).Proc()
	}
	first, second := rank(0), rank(2)
	now := began.Add(time.Minute)
	r.Alive(second, now)
	for range 3 {
		r.Owes(first.Group, now)
	}
	assert.True(t, second.Primary())
	assert.Equal(t, 1, first.Group.Known())
}

// TestWholeEngineEnds: none of its ranks is missed.
func TestWholeEngineEnds(t *testing.T) {
	r := newTestRegistry(100)
	var p *Proc
	for tp := range int32(3) {
		p, _ = r.Learn(r.Sender(Key{Instance: fmt.Sprint(tp), Ranks: sglang.NoRanks}, began), scheduler(tp), Root{1, 1}, began)
	}
	r.Absent(p.Group, 1, began.Add(time.Minute))
	r.Absent(p.Group, 2, began.Add(time.Minute))
	assert.Equal(t, []int32{0}, p.Group.Expected())
	assert.Zero(t, r.Count().Silent)
}

// FuzzLearn: however senders, ranks and roots meet, the registry stays
// consistent and forgets all.
func FuzzLearn(f *testing.F) {
	f.Fuzz(rapid.MakeFuzz(learnAnything))
}

func TestLearnAnything(t *testing.T) { rapid.Check(t, learnAnything) }

func learnAnything(t *rapid.T) {
	r, now := newTestRegistry(12), began
	var procs []*Proc
	small := func(name string, most int) int { return rapid.IntRange(0, most).Draw(t, name) }
	for range small("steps", 60) {
		now = now.Add(time.Duration(small("s", 20)) * time.Second)
		key := Key{Instance: fmt.Sprint(small("instance", 3)), Peer: fmt.Sprint(small("peer", 4)), Ranks: sglang.NoRanks}
		s := r.Sender(key, now)
		if s == nil {
			continue
		}
		root := Root{uint64(small("trace", 3)), uint64(small("root", 3))}
		ranks := sglang.Ranks{TP: int32(small("tp", 3)), PP: int32(small("pp", 1)), DP: int32(small("dp", 2)) - 1}
		switch small("what", 9) {
		case 0, 1, 2:
			if p, _ := r.Learn(s, sglang.Thread{Label: "Scheduler", Ranks: ranks}, root, now); p != nil {
				require.Equal(t, ranks, p.Ranks)
				procs = append(procs, p)
			}
		case 3:
			r.Join(s, root, now)
		case 4:
			r.Saw(s, sglang.Process(small("kind", 5)), now)
		case 5:
			r.MarkAmbiguous(s, now)
		case 6:
			r.First(s, sglang.StageRequestProcess, uint64(small("link", 3)), uint64(small("parent", 3)), now)
		case 7:
			r.Strand([]uint64{uint64(small("a", 9)), uint64(small("b", 9))}, s.Proc())
		case 8:
			r.Settle(now)
			r.Forget(now)
		case 9:
			for _, p := range procs {
				switch small("fate", 4) {
				case 0:
					r.Owes(p.Group, now)
				case 1:
					r.Absent(p.Group, p.Ranks.TP, now)
				case 2:
					r.Alive(p, now)
				}
			}
		}
		checkRegistry(t, r, s)
	}
	r.Settle(now)
	r.Forget(now.Add(2 * time.Hour))
	require.Zero(t, r.Count())
	require.Empty(t, r.groups)
	require.Empty(t, r.instances)
}

func checkRegistry(t *rapid.T, r *Registry, s *Sender) {
	if p := s.Proc(); p != nil {
		require.False(t, s.Ambiguous())
		require.NotEmpty(t, s.EngineID())
	}
	for _, g := range r.groups {
		if g.merged.Load() != nil {
			continue
		}
		require.Same(t, g, g.engine.find().groups[g.key])
		expected := g.Expected()
		if primary := g.Primary(); primary != sglang.NoRank {
			require.Equal(t, expected[0], primary, "the lowest rank that is alive")
		}
		require.Contains(t, g.Stages(), g)
	}
	for _, e := range r.engines {
		sum := 0
		for _, g := range e.find().groups {
			sum += len(g.members)
		}
		require.Equal(t, sum, e.find().procs)
	}
}
