// Copyright The otelcol-sglang Authors
// SPDX-License-Identifier: Apache-2.0

package fold // import "github.com/otelcol-sglang/otelcol-sglang/processor/rankdedupprocessor/internal/fold"

import (
	"cmp"
	"slices"
	"time"
	"unsafe"

	"github.com/otelcol-sglang/otelcol-sglang/internal/sglang"
)

const (
	// nearStart is how far apart the starts of two ranks' copies of one slice
	// without ordinal may lie, after the ranks' clock offset; half the duration
	// where that is more. 50 ms would pair neighbours.
	nearStart = int64(3 * time.Millisecond)
	// clockNoise is how far the clocks of one host's processes may differ, since
	// each calibrates its own offset: a rank that ends last by less is no straggler.
	clockNoise = int64(3 * time.Millisecond)
	// usualNodes is how many nodes a thread has at trace level 1.
	usualNodes = 4
	// pageSlots is how many steps are allocated at a time.
	pageSlots = 32

	// Estimated sizes in bytes, for the memory limit.
	nodeBytes  = 320
	pageBytes  = int64(unsafe.Sizeof(page{}) + unsafe.Sizeof([pageSlots]slot{}))
	looseBytes = int64(unsafe.Sizeof(slot{})) + int64(unsafe.Sizeof(loose{})) + 32
	idBytes    = 64
	traceBytes = 1000
)

// rankBit is the rank's bit in a set. Ranks of one group are contiguous, so sets
// of up to 64 ranks are exact.
func rankBit(rank int32) uint64 { return 1 << (uint32(rank) % 64) }

// spread is which ranks showed a copy and when the copies ended.
type spread struct {
	ranks       uint64
	first, last int64 // ends, unix ns
	slowest     int32
}

// add notes a copy; a copy of a rank that was noted is a resend.
func (s *spread) add(rank int32, end int64) {
	bit := rankBit(rank)
	if s.ranks&bit != 0 {
		return
	}
	if s.ranks == 0 || end < s.first {
		s.first = end
	}
	if s.ranks == 0 || end > s.last {
		s.last, s.slowest = end, rank
	}
	s.ranks |= bit
}

func (s *spread) merge(o spread) {
	if o.ranks == 0 {
		return
	}
	if s.ranks == 0 {
		*s = o
		return
	}
	s.first = min(s.first, o.first)
	if o.last > s.last {
		s.last, s.slowest = o.last, o.slowest
	}
	s.ranks |= o.ranks
}

// node is a logical slice that other spans may name: a child of a thread, or the
// parent of slots. It is a phantom until a copy of the slice itself has come.
type node struct {
	// What a folded copy reads comes first: it is seldom in cache.

	// union-find: this node turned out to be another one.
	merged   *node
	thread   *thread // nil: not known yet which request's
	stage    sglang.Stage
	released bool
	guessed  bool // pred only stands in for a target that was lost
	locals   []local
	// pred is the node that this one links to; openLinks are ids of it that no
	// copy of it has come with.
	pred *node
	// item is a standby, or the kept rank's copy that waits for its link's target.
	item   *Item
	spread spread
	start  int64 // of the first copy
	// public is the id by which released spans name the node, 0 if none did.
	public    uint64
	openLinks []uint64

	// named are further ids that released spans name, from before it was known
	// that they are one node.
	named []uint64
	// wrote is the id by which a span of this node that left names its link's
	// target, while that is not known.
	wrote uint64
	name  string

	pages   []page  // steps, by ordinal
	latest  int     // index of the page that was used last
	loose   []*slot // slices without ordinal, by start
	longest int64   // duration of the longest loose one
}

// local is the id that a rank knows a node or thread by.
type local struct {
	rank  int32
	id    uint64
	start int64 // of the rank's copy, unix ns; 0 while only the id is known
}

// page is the slots of some steps; slots never move.
type page struct {
	number int64 // ordinal / pageSlots
	slots  *[pageSlots]slot
}

// slot is a logical leaf. There is one per decode step, so its size counts.
type slot struct {
	spread   spread
	item     *Item  // standby
	loose    *loose // nil for steps that are not merged
	stage    sglang.Stage
	released bool
}

// loose is what is known of a slot that has no ordinal, or was merged.
type loose struct {
	start, duration int64 // ns, on the reference rank's clock
	merged          *slot // this slot turned out to be another one
	// copies are the low halves of the ids that the slot was found for, to tell a
	// resend from a neighbour.
	copies []uint32
}

func (s *slot) find() *slot {
	for s.loose != nil && s.loose.merged != nil {
		s = s.loose.merged
	}
	return s
}

func (n *node) find() *node {
	for n.merged != nil {
		n = n.merged
	}
	return n
}

// know notes a rank's copy of the slice. Common slices show how far the ranks'
// clocks are apart.
func (n *node) know(l *thread, rank int32, sp *Span) {
	if n.start == 0 {
		n.start = sp.Start
	}
	at := slices.IndexFunc(n.locals, func(lo local) bool { return lo.rank == rank })
	switch {
	case at < 0:
		at = len(n.locals)
		if n.locals == nil {
			n.locals = l.carve()
		}
		n.locals = append(n.locals, local{rank, sp.ID, sp.Start})
	case n.locals[at].id == sp.ID || n.locals[at].start == 0:
		n.locals[at].start = sp.Start
	default:
		return
	}
	l.compareClocks(n, at)
}

func (n *node) localOf(rank int32) (uint64, bool) { return localOf(n.locals, rank) }

func localOf(locals []local, rank int32) (uint64, bool) {
	for _, l := range locals {
		if l.rank == rank {
			return l.id, true
		}
	}
	return 0, false
}

// nameAs returns the id by which a released span must name the node that it
// knows by id.
func (n *node) nameAs(id uint64) uint64 {
	if n.public == 0 {
		n.public = id
	}
	return n.public
}

// isNamed tells whether spans that left name the node by the id beside its public one.
func (n *node) isNamed(id uint64) bool { return id != n.public && slices.Contains(n.named, id) }

// slotFor finds or makes the slot that a leaf belongs to.
func (n *node) slotFor(t *trace, sp *Span, rank int32) *slot {
	if sp.Stage == sglang.StageDecodeLoop && sp.Ordinal >= 0 {
		s := n.step(t, sp.Ordinal)
		s.stage = sp.Stage
		return s
	}
	return n.nearest(t, sp, rank)
}

// step returns the slot of an ordinal.
func (n *node) step(t *trace, ordinal int64) *slot {
	number := ordinal / pageSlots
	if n.latest >= len(n.pages) || n.pages[n.latest].number != number {
		at, found := slices.BinarySearchFunc(n.pages, number, func(p page, number int64) int { return cmp.Compare(p.number, number) })
		if !found {
			n.pages = slices.Insert(n.pages, at, page{number, new([pageSlots]slot)})
			t.grow(pageBytes)
		}
		n.latest = at
	}
	return &n.pages[n.latest].slots[ordinal%pageSlots]
}

// nearest pairs leaves without an ordinal by their start.
func (n *node) nearest(t *trace, sp *Span, rank int32) *slot {
	start := sp.Start - n.offset(rank)
	window := max(nearStart, n.longest/2)
	var best *slot
	bestOff := int64(0)
	for _, s := range n.loose[n.looseFrom(start-window):] {
		if s.loose.start > start+window {
			break
		}
		off := abs(s.loose.start - start)
		if s.stage != sp.Stage || off > max(nearStart, s.loose.duration/2) {
			continue
		}
		// A second copy of a rank is a neighbour, unless it is the same span again.
		if slices.Contains(s.loose.copies, uint32(sp.ID)) {
			return s
		}
		if rank != sglang.NoRank && s.spread.ranks&rankBit(rank) != 0 {
			continue
		}
		if best == nil || off <= bestOff {
			best, bestOff = s, off
		}
	}
	if best == nil {
		best = &slot{stage: sp.Stage, loose: &loose{start: start, duration: sp.End - sp.Start}}
		n.insert(t, best)
	}
	if sp.ID != 0 {
		best.loose.copies = append(best.loose.copies, uint32(sp.ID))
	}
	return best
}

// looseFrom returns the index of the first loose slot that starts at the time or
// later.
func (n *node) looseFrom(start int64) int {
	i, _ := slices.BinarySearchFunc(n.loose, start, func(s *slot, at int64) int { return cmp.Compare(s.loose.start, at) })
	return i
}

func (n *node) insert(t *trace, s *slot) {
	n.loose = slices.Insert(n.loose, n.looseFrom(s.loose.start+1), s)
	n.longest = max(n.longest, s.loose.duration)
	t.grow(looseBytes)
}

func (n *node) offset(rank int32) int64 {
	if n.thread == nil {
		return 0
	}
	return n.thread.find().offset(rank)
}

// eachSlot calls do for every slot.
func (n *node) eachSlot(do func(*slot)) {
	for _, p := range n.pages {
		for i := range p.slots {
			if s := &p.slots[i]; s.spread.ranks != 0 {
				do(s)
			}
		}
	}
	for i := range n.loose {
		do(n.loose[i])
	}
}

// absorb makes o the same node as n.
func (n *node) absorb(t *trace, o *node) {
	o.merged = n
	for _, l := range o.locals {
		if _, known := n.localOf(l.rank); !known {
			n.locals = append(n.locals, l)
		}
	}
	if o.released && !n.released {
		n.public, o.public = o.public, n.public // the one that left stays
	}
	n.public, n.named = joinNames(n.public, n.named, o.public, o.named)
	n.spread.merge(o.spread)
	n.released = n.released || o.released
	n.item = t.keepOne(n.released, n.item, o.item)
	if n.item != nil {
		n.item.node = n
	}
	if n.start == 0 {
		n.start = o.start
	}
	if n.pred == nil || n.guessed && o.pred != nil {
		n.pred, n.guessed = o.pred, o.guessed
	}
	n.openLinks = append(n.openLinks, o.openLinks...)
	if n.wrote == 0 {
		n.wrote = o.wrote
	}
	if n.pred != nil && !n.guessed {
		t.setPred(n, n.target())
	}
	n.absorbSlots(t, o)
}

func (n *node) absorbSlots(t *trace, o *node) {
	for _, p := range o.pages {
		for i := range p.slots {
			s := &p.slots[i]
			if s.spread.ranks == 0 && !s.released {
				continue
			}
			into := n.step(t, p.number*pageSlots+int64(i))
			n.absorbSlot(t, into, s)
			s.loose = &loose{merged: into}
		}
	}
	for _, s := range o.loose {
		sp := Span{Stage: s.stage, Start: s.loose.start, End: s.loose.start + s.loose.duration}
		// The start is on the reference rank's clock: use a rank without offset.
		into := n.nearest(t, &sp, sglang.NoRank)
		n.absorbSlot(t, into, s)
		into.loose.copies = append(into.loose.copies, s.loose.copies...)
		s.loose.merged = into
	}
	o.pages, o.loose = nil, nil
}

func (n *node) absorbSlot(t *trace, into, from *slot) {
	into.spread.merge(from.spread)
	into.stage = from.stage
	into.released = into.released || from.released
	into.item = t.keepOne(into.released, into.item, from.item)
	if into.item != nil {
		into.item.node, into.item.slot = n, into
	}
}

// keepOne drops what is not needed of two standbys of one span.
func (t *trace) keepOne(released bool, a, b *Item) *Item {
	if a == nil {
		a, b = b, nil
	}
	if b != nil {
		t.drop(b)
	}
	if released && a != nil {
		t.drop(a)
		return nil
	}
	return a
}

func abs(v int64) int64 {
	if v < 0 {
		return -v
	}
	return v
}
