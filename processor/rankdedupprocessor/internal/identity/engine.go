// Copyright The otelcol-sglang Authors
// SPDX-License-Identifier: Apache-2.0

package identity // import "github.com/otelcol-sglang/otelcol-sglang/processor/rankdedupprocessor/internal/identity"

import (
	"cmp"
	"slices"
	"sync/atomic"
	"time"

	"github.com/otelcol-sglang/otelcol-sglang/internal/sglang"
)

// Engine is one running engine: the senders that appeared under common roots.
// Two engines that turn out to be one are merged; read through find.
type Engine struct {
	id     string
	born   uint64 // order of creation: of two merged engines the older one's id stays
	merged atomic.Pointer[Engine]
	groups map[groupKey]*Group // owned by Registry.mu
	procs  int                 // members of all groups; owned by Registry.mu
}

func (e *Engine) find() *Engine {
	for next := e.merged.Load(); next != nil; next = e.merged.Load() {
		e = next
	}
	return e
}

// ID names the engine as long as one of its senders is remembered.
func (e *Engine) ID() string { return e.find().id }

type groupKey struct{ dp, pp int32 }

// maxProcs bounds the processes of one engine.
const maxProcs = 4096

// Group is the ranks of one engine that emit copies of each other: equal data
// parallel rank and pipeline stage, any tensor-parallel rank.
type Group struct {
	key     groupKey
	engine  *Engine
	merged  atomic.Pointer[Group]
	primary atomic.Int32
	// expected are the ranks that are alive, sorted; replaced, never changed.
	expected atomic.Pointer[[]int32]
	// known is the number of ranks of [Group.Known].
	known atomic.Int32
	// levelTwo: the group's latest request was traced at level 2 or more.
	levelTwo atomic.Bool
	// stages are the groups of all pipeline stages of the same replica; replaced,
	// never changed.
	stages atomic.Pointer[[]*Group]

	// mature is set a wait after the first rank was learned: by then all that
	// are at work should be known.
	mature atomic.Bool

	// Below: owned by Registry.mu.
	members map[int32]*member
	firstAt time.Time // when the first member was learned
	settled bool
}

// member is one rank of a group; read through find, as for groups.
type member struct {
	merged   atomic.Pointer[member]
	lastSeen atomic.Int64 // unix ns of arrival
	owes     atomic.Int32 // copies that others had to fill in since the last arrival
	dead     atomic.Bool
	// stamped: an earlier tier told its rank, and folds copies of its own.
	stamped bool
}

func (m *member) find() *member {
	for next := m.merged.Load(); next != nil; next = m.merged.Load() {
		m = next
	}
	return m
}

// Find returns the group that this one has become a part of.
func (g *Group) Find() *Group {
	for next := g.merged.Load(); next != nil; next = g.merged.Load() {
		g = next
	}
	return g
}

// Primary returns the rank whose copies are kept, NoRank while undecided.
func (g *Group) Primary() int32 { return g.Find().primary.Load() }

// Expected returns the ranks that are known and alive, in ascending order. The
// caller must not change it.
func (g *Group) Expected() []int32 {
	if p := g.Find().expected.Load(); p != nil {
		return *p
	}
	return nil
}

// Known returns how many ranks are remembered, also those that are taken for dead. A
// dead one of an earlier tier does not count: that tier goes on with its next rank
// and says how many it knows.
func (g *Group) Known() int { return int(g.Find().known.Load()) }

// Stages returns the groups of all pipeline stages of the group's replica,
// itself among them. The caller must not change it.
func (g *Group) Stages() []*Group {
	if p := g.Find().stages.Load(); p != nil {
		return *p
	}
	return nil
}

// Mature tells whether all ranks of the group that are at work should be known.
func (g *Group) Mature() bool { return g.Find().mature.Load() }

// EngineID names the group's engine.
func (g *Group) EngineID() string { return g.engine.ID() }

// LevelTwo tells whether the group's latest request that told was traced at
// level 2 or more: then prefill_waiting is not a request's first slice.
func (g *Group) LevelTwo() bool { return g.Find().levelTwo.Load() }

// SawLevelTwo notes what a request told of its trace level.
func (g *Group) SawLevelTwo(two bool) {
	if g = g.Find(); g.levelTwo.Load() != two {
		g.levelTwo.Store(two)
	}
}

// refresh recomputes the primary: the lowest rank that is alive, once no lower
// one can turn up. That is sure at once for rank 0 only: the lowest of a group is
// 2 under DP attention, and 0 in every replica of plain data parallelism.
// Registry.mu is held.
func (g *Group) refresh() {
	alive, known := make([]int32, 0, len(g.members)), int32(0)
	for rank, m := range g.members {
		dead := m.dead.Load()
		if !dead {
			alive = append(alive, rank)
		}
		if !dead || !m.stamped {
			known++
		}
	}
	slices.Sort(alive)
	g.expected.Store(&alive)
	g.known.Store(known)
	primary := int32(sglang.NoRank)
	if len(alive) > 0 && (g.settled || alive[0] == 0) {
		primary = alive[0]
		g.settled = true
	}
	g.primary.Store(primary)
}

// silent is how many ranks are taken for dead of which nothing came for so long
// before the latest of another one: an engine that ends as a whole has none.
// Registry.mu is held.
func (g *Group) silent(long time.Duration) (count int64) {
	latest := int64(0)
	for _, m := range g.members {
		latest = max(latest, m.lastSeen.Load())
	}
	for _, m := range g.members {
		if m.dead.Load() && latest-m.lastSeen.Load() > long.Nanoseconds() {
			count++
		}
	}
	return count
}

// absorb takes the members of other. Registry.mu is held.
func (g *Group) absorb(other *Group) {
	for rank, m := range other.members {
		mine := g.members[rank]
		if mine == nil {
			g.members[rank] = m
			continue
		}
		mine.lastSeen.Store(max(mine.lastSeen.Load(), m.lastSeen.Load()))
		mine.dead.Store(mine.dead.Load() && m.dead.Load())
		m.merged.Store(mine)
	}
	if other.firstAt.Before(g.firstAt) {
		g.firstAt = other.firstAt
	}
	if other.mature.Load() {
		g.mature.Store(true)
	}
	other.merged.Store(g)
	// A lower rank may have come with the other half.
	g.settled = g.settled && other.settled
	g.refresh()
}

// merge joins two engines and returns the older one, whose id stays.
// Registry.mu is held.
func merge(a, b *Engine) *Engine {
	a, b = a.find(), b.find()
	if a == b {
		return a
	}
	if cmp.Compare(a.born, b.born) > 0 {
		a, b = b, a
	}
	b.merged.Store(a)
	for key, g := range b.groups {
		mine := a.groups[key]
		if mine == nil {
			a.groups[key] = g
			continue
		}
		mine.absorb(g)
	}
	clear(b.groups)
	a.procs = 0
	for _, g := range a.groups {
		a.procs += len(g.members)
	}
	a.link()
	return a
}

// link tells the groups of each replica of each other. Registry.mu is held.
func (e *Engine) link() {
	replicas := map[int32][]*Group{}
	for key, g := range e.groups {
		replicas[key.dp] = append(replicas[key.dp], g)
	}
	for _, stages := range replicas {
		for _, g := range stages {
			g.stages.Store(&stages)
		}
	}
}
