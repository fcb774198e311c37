// Copyright The otelcol-sglang Authors
// SPDX-License-Identifier: Apache-2.0

package fold // import "github.com/otelcol-sglang/otelcol-sglang/processor/rankdedupprocessor/internal/fold"

import (
	"maps"
	"slices"
)

// prune forgets the requests of a trace that left before the time: an agent's
// trace may go on for hours.
func (t *trace) prune(before int64) {
	if len(t.heldIDs) > 0 {
		before -= t.shard.settings.LearnWait.Nanoseconds() // they may be late copies
	}
	past := func(l *thread) bool { l = l.find(); return l.done && l.left < before && !l.holds() }
	pastRoot := func(r *request) bool { return r.item == nil && r.left < before }
	if t.inFlight > 0 || !slices.ContainsFunc(t.threads, past) && !slices.ContainsFunc(t.roots, pastRoot) {
		return
	}
	maps.DeleteFunc(t.anchors, func(_ anchor, l *thread) bool { return past(l) })
	t.pruneUp(pastRoot)
	t.asked, t.bound = known{}, known{}
	t.ids.deleteIf(func(_ uint64, r ref) bool {
		switch {
		case r.root != nil:
			return pastRoot(r.root)
		case r.thread != nil:
			return past(r.thread)
		}
		l := r.node.find().thread
		return l != nil && past(l)
	})
	t.threads = slices.DeleteFunc(t.threads, past)
	t.roots = slices.DeleteFunc(t.roots, pastRoot)
	t.grow(t.size() - t.bytes)
}

// pruneUp forgets the spans that are not folded of requests that are past.
func (t *trace) pruneUp(past func(*request) bool) {
	const maxDepth = 8
	gone := map[uint64]bool{}
	t.up.all(func(id, _ uint64) bool {
		top := id
		for depth := 0; depth < maxDepth && t.above(top) != 0; depth++ {
			top = t.above(top)
		}
		if r := t.rootAt(top); r != nil && past(r) {
			gone[id] = true
		}
		return true
	})
	t.up.deleteIf(func(id, _ uint64) bool { return gone[id] })
}

// holds tells whether a copy waits that may still leave.
func (l *thread) holds() (held bool) {
	for _, n := range l.nodes {
		held = held || n.item != nil
		n.eachSlot(func(s *slot) { held = held || s.item != nil })
	}
	return held || len(l.items) > 0
}

// size estimates what is remembered of the trace, in bytes.
func (t *trace) size() int64 {
	sum := int64(traceBytes) + idBytes*int64(t.ids.len()+len(t.anchors)+t.up.len()+len(t.passed))
	for _, l := range t.threads {
		sum += nodeBytes
		for _, n := range l.nodes {
			sum += nodeBytes + pageBytes*int64(len(n.pages)) + looseBytes*int64(len(n.loose))
		}
	}
	return sum
}
