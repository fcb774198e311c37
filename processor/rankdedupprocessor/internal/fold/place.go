// Copyright The otelcol-sglang Authors
// SPDX-License-Identifier: Apache-2.0

package fold // import "github.com/otelcol-sglang/otelcol-sglang/processor/rankdedupprocessor/internal/fold"

import (
	"maps"
	"slices"

	"github.com/otelcol-sglang/otelcol-sglang/internal/sglang"
	"github.com/otelcol-sglang/otelcol-sglang/processor/rankdedupprocessor/internal/identity"
)

// takeSlice decides a slice.
func (t *trace) takeSlice(now int64, sp *Span, o Origin) (Verdict, *Item) {
	info := sp.Stage.Info()
	if info.Level >= 2 {
		t.levelTwo = true
	}
	if info.Process == sglang.ProcessEncoder {
		t.encoder = true
	}
	switch info.Process {
	case sglang.ProcessFrontEnd, sglang.ProcessDPController, sglang.ProcessEncoder, sglang.ProcessTransfer:
		return t.takeSingle(sp, o)
	}
	if sp.Stage == sglang.StageMooncakeSend || sp.Stage == sglang.StageMooncakeRecv {
		return t.takeSingle(sp, o)
	}
	if o.Proc == nil || !o.Proc.Settled() {
		return t.holdUnknown(now, sp, o)
	}
	return t.place(now, sp, o, nil)
}

// takeSingle passes a span that no other rank has a copy of.
func (t *trace) takeSingle(sp *Span, o Origin) (Verdict, *Item) {
	if _, seen := t.up.get(sp.ID); seen {
		t.shard.stats.Resent++
		return Fold, nil
	}
	t.shard.commit(commit{trace: t, id: sp.ID, parent: sp.Parent, sender: o.Sender, stage: sp.Stage, kind: sp.Kind})
	return Pass, nil
}

func (t *trace) holdUnknown(now int64, sp *Span, o Origin) (Verdict, *Item) {
	if t.heldIDs[sp.ID] != nil {
		t.shard.stats.Resent++
		return Fold, nil
	}
	it := t.hold(sp, o, sglang.NoRank, inUnknown)
	t.holdID(it)
	t.unknown = append(t.unknown, it)
	t.shard.later(learnQueue, it, now)
	return Hold, it
}

// place decides a slice of a known process. item is set where the slice was held
// before; then Hold keeps it and Pass means that it is to be released.
func (t *trace) place(now int64, sp *Span, o Origin, item *Item) (Verdict, *Item) {
	p := o.Proc
	if sp.Stage == sglang.StageRequestProcess {
		p.Group.SawLevelTwo(true)
	}
	if t.nested(sp) {
		parent := t.parentFor(sp, p)
		if parent == nil {
			return t.holdWaiting(now, sp, o, item)
		}
		return t.takeLeaf(now, parent, sp, o, item)
	}
	l, clash := t.threadFor(sp, p)
	if clash {
		o.Proc, o.Strand = nil, t.shard.clash(o.Sender, sp.Parent)
		return t.holdAgain(now, sp, o, item)
	}
	if l == nil {
		return t.holdWaiting(now, sp, o, item)
	}
	return t.takeNode(now, l, sp, o, item)
}

// holdAgain holds a span as one of an unknown process.
func (t *trace) holdAgain(now int64, sp *Span, o Origin, item *Item) (Verdict, *Item) {
	if item == nil {
		return t.holdUnknown(now, sp, o)
	}
	item.where, item.origin = inUnknown, o
	t.unknown = append(t.unknown, item)
	t.holdID(item)
	return Hold, item
}

func (t *trace) holdID(it *Item) {
	if t.heldIDs == nil {
		t.heldIDs = map[uint64]*Item{}
	}
	t.heldIDs[it.span.ID] = it
}

// nested tells whether the slice's parent is a slice.
func (t *trace) nested(sp *Span) bool {
	if r := t.at(sp.Parent); r != (ref{}) {
		return r.node != nil
	}
	// Slices below a thread link to the one before them, those below a slice
	// have no link. A prefill after a retraction is below decode_forward.
	return sp.Link == 0 && (sp.Stage.Info().Nested || sp.Stage == sglang.StagePrefillForward)
}

func (t *trace) holdWaiting(now int64, sp *Span, o Origin, item *Item) (Verdict, *Item) {
	if it := t.heldIDs[sp.ID]; it != nil && it != item {
		t.shard.stats.Resent++
		return Fold, nil
	}
	if item == nil {
		item = t.hold(sp, o, o.Proc.Ranks.TP, inWaiting)
	}
	t.holdID(item)
	item.where, item.rank, item.origin = inWaiting, o.Proc.Ranks.TP, o
	if t.waiting == nil {
		t.waiting = map[uint64][]*Item{}
	}
	t.waiting[sp.Parent] = append(t.waiting[sp.Parent], item)
	if !item.waited {
		item.waited = true
		t.shard.later(learnQueue, item, now)
	}
	return Hold, item
}

// takeLeaf decides a slice that no other span names.
func (t *trace) takeLeaf(now int64, parent *node, sp *Span, o Origin, item *Item) (Verdict, *Item) {
	rank := o.Proc.Ranks.TP
	s := parent.slotFor(t, sp, rank)
	s.spread.add(rank, sp.End)
	if s.released {
		return t.folded(parent.thread)
	}
	if o.Proc.Primary() && !parent.mayBeMissed() {
		t.shard.passedLate(parent.thread)
		t.shard.commit(commit{trace: t, node: parent, slot: s})
		sp.Parent = parent.nameAs(sp.Parent)
		return Pass, item
	}
	if s.item != nil && s.item != item {
		t.shard.stats.Folded++
		return Fold, nil
	}
	if item == nil {
		item = t.hold(sp, o, rank, inSlot)
	}
	item.where, item.rank, item.node, item.slot, item.origin = inSlot, rank, parent, s, o
	s.item = item
	t.shard.later(waitQueue, item, now)
	return Hold, item
}

func (t *trace) folded(l *thread) (Verdict, *Item) {
	t.shard.stats.Folded++
	if l != nil && l.find().done {
		t.shard.stats.LateFolded++
	}
	return Fold, nil
}

// passedLate counts a slice that leaves after its request.
func (s *Shard) passedLate(l *thread) {
	if l != nil && l.find().done {
		s.stats.LatePassed++
	}
}

// takeNode decides a slice that others may name.
func (t *trace) takeNode(now int64, l *thread, sp *Span, o Origin, item *Item) (Verdict, *Item) {
	rank := o.Proc.Ranks.TP
	n := t.nodeFor(l, sp, rank)
	n.spread.add(rank, sp.End)
	resolved := t.resolveLink(n, sp, o.Proc.Group)
	t.targetCame(l, n, sp.ID)
	t.retry(now, sp.ID)
	n = n.find()
	if _, named := t.passed[sp.ID]; named && n.nameAs(sp.ID) != sp.ID {
		return t.passNamed(l, n, sp), item
	}
	if n.released {
		if n.isNamed(sp.ID) {
			return t.passNamed(l, n, sp), item
		}
		return t.folded(l)
	}
	if o.Proc.Primary() {
		if resolved && (!l.done || !l.misses()) {
			return t.passNode(l, n, sp), item
		}
		if n.item != nil && n.item != item {
			t.drop(n.item)
			n.item = nil
		}
	}
	if n.item != nil && n.item != item {
		t.settle(l, n)
		t.shard.stats.Folded++
		return Fold, nil
	}
	if item == nil {
		item = t.hold(sp, o, rank, inNode)
	}
	item.where, item.rank, item.node, item.origin = inNode, rank, n, o
	n.item = item
	if l.done {
		// The request left; nothing more will settle this span.
		t.shard.later(waitQueue, item, now)
	} else {
		// Others may name it until the request ends, so that it waits for that,
		// but not for a request that never does.
		t.shard.later(learnQueue, item, now)
	}
	return Hold, item
}

// passNamed lets a copy of a node leave under its own id, because spans that left
// name it. What it names itself is what left.
func (t *trace) passNamed(l *thread, n *node, sp *Span) Verdict {
	id := sp.ID
	t.writeIDs(l, n, sp)
	sp.ID = id
	return t.passUnfolded(sp)
}

// misses tells whether a span of the thread that left names a link's target which
// has not come: a late copy may be it, and must take that id.
func (l *thread) misses() bool {
	return slices.ContainsFunc(l.nodes, func(n *node) bool { return n.wrote != 0 })
}

// mayBeMissed tells whether the node may be a link's target that its thread, which
// left, misses.
func (n *node) mayBeMissed() bool {
	return !n.released && n.thread != nil && n.thread.find().done && n.thread.find().misses()
}

// passUnfolded lets a copy leave as it is, because spans that left name it.
func (t *trace) passUnfolded(sp *Span) Verdict {
	t.shard.stats.Unfolded++
	t.note(sp)
	t.shard.commit(commit{})
	return Pass
}

// note remembers what a span that left unfolded names.
func (t *trace) note(sp *Span) {
	if t.passed == nil {
		t.passed = map[uint64]struct{}{}
	}
	for _, id := range [...]uint64{sp.ID, sp.Parent, sp.Link} {
		if _, known := t.passed[id]; !known && id != 0 {
			t.passed[id] = struct{}{}
			t.grow(idBytes)
		}
	}
}

// targetCame settles the nodes of the thread that link to id.
func (t *trace) targetCame(l *thread, n *node, id uint64) {
	if !t.seeking {
		return
	}
	for _, m := range l.nodes {
		if m != n && slices.Contains(m.openLinks, id) {
			t.setPred(m, n)
			t.settle(l, m)
		}
	}
}

// settle releases the kept rank's copy that waited for its link's target.
func (t *trace) settle(l *thread, n *node) {
	it := n.item
	if it == nil || n.released || n.pred == nil || !it.origin.Proc.Primary() || l.done && l.misses() {
		return
	}
	t.releaseNode(l, n, ReasonNone)
}

// releaseNode lets the item of a node leave.
func (t *trace) releaseNode(l *thread, n *node, why Reason) {
	it := n.item
	sp := it.span
	out := t.leadsOut(sp.Link, sp.Stage, l.group)
	t.writeIDs(l, n, &sp)
	if n.pred == nil && !out {
		n.wrote = sp.Link
	}
	n.released, n.item = true, nil
	t.shard.passedLate(l)
	t.release(it, Release{Span: sp, Proc: it.origin.Proc, Filled: it.rank != keptRank(l), Reason: why})
}

// keptRank is the rank whose thread span released slices name, the group's
// primary where none do.
func keptRank(l *thread) int32 {
	for _, lo := range l.locals {
		if lo.id == l.public {
			return lo.rank
		}
	}
	return l.group.Primary()
}

// passNode lets the kept rank's copy leave in the call that brought it.
func (t *trace) passNode(l *thread, n *node, sp *Span) Verdict {
	t.shard.passedLate(l)
	t.shard.commit(commit{trace: t, node: n})
	t.writeIDs(l, n, sp)
	if n.pred == nil {
		n.wrote = sp.Link
	}
	return Pass
}

// writeIDs puts the public ids into a span of the node that leaves.
func (t *trace) writeIDs(l *thread, n *node, sp *Span) {
	sp.ID = n.nameAs(sp.ID)
	sp.Parent = l.nameAs(sp.Parent)
	if target := n.target(); target != nil {
		sp.Link = target.nameAs(sp.Link)
	}
}

func (n *node) target() *node {
	if n.pred == nil {
		return nil
	}
	return n.pred.find()
}

// resolveLink learns which node the slice's link leads to. It returns false
// while no copy of that node has come and no other rank's link tells.
func (t *trace) resolveLink(n *node, sp *Span, g *identity.Group) bool {
	if sp.Link == 0 {
		return true
	}
	if target := t.nodeAt(sp.Link); target != nil && target != n {
		t.setPred(n, target)
		return true
	}
	if n.pred != nil {
		if !n.guessed {
			t.bind(sp.Link, ref{node: n.pred.find()})
		}
		return true
	}
	if t.leadsOut(sp.Link, sp.Stage, g) {
		return true
	}
	if _, passed := t.passed[sp.Link]; passed {
		return true
	}
	if !slices.Contains(n.openLinks, sp.Link) {
		n.openLinks = append(n.openLinks, sp.Link)
		t.seeking = true
	}
	return t.opening(sp, g)
}

// leadsOut tells whether a link leads to a span of the front end.
func (t *trace) leadsOut(link uint64, stage sglang.Stage, g *identity.Group) bool {
	_, single := t.up.get(link)
	if single && stage == sglang.StagePrefillWaiting {
		g.SawLevelTwo(false)
	}
	return single
}

// setPred notes the node that n links to: every rank's id of it is the same node.
func (t *trace) setPred(n, target *node) {
	if n.pred == nil || n.guessed {
		n.pred, n.guessed = target, false
	}
	n.leadTo(target)
	for _, id := range n.openLinks {
		if t.nodeAt(id) == nil {
			t.bind(id, ref{node: target})
		}
	}
	n.openLinks = nil
}

// guessPred lets n link to a node though its own target was lost. The target's
// ids stay free: it may come late.
func (n *node) guessPred(target *node) {
	n.pred, n.guessed, n.openLinks = target, true, nil
	n.leadTo(target)
}

// leadTo makes the target take the id by which a span of n that left names it.
func (n *node) leadTo(target *node) {
	if id := n.wrote; id != 0 && target.nameAs(id) != id {
		target.named = append(target.named, id)
	}
	n.wrote = 0
}

// retry places what waited for the parent id.
func (t *trace) retry(now int64, id uint64) {
	if items := t.waiting[id]; items != nil {
		delete(t.waiting, id)
		t.placeAll(now, items)
	}
}

// retryAll places what can be placed of all that waits for a parent.
func (t *trace) retryAll(now int64) {
	if len(t.waiting) == 0 {
		return
	}
	for _, parent := range slices.Collect(maps.Keys(t.waiting)) {
		t.retry(now, parent)
	}
}

// placeAll places held items: the kept rank's first, so that the others find
// them released, and parents before their children.
func (t *trace) placeAll(now int64, items []*Item) {
	for _, primary := range [...]bool{true, false} {
		for _, children := range [...]bool{false, true} {
			for _, it := range items {
				if it.placeable() && it.origin.Proc.Primary() == primary && (children || !t.nested(&it.span)) {
					t.placeItem(now, it)
				}
			}
		}
	}
}

func (it *Item) placeable() bool {
	return !it.gone && it.origin.Proc != nil && (it.where == inUnknown || it.where == inWaiting)
}

// unplaced marks an item while place decides it.
const unplaced place = 255

func (t *trace) placeItem(now int64, it *Item) {
	it.where = unplaced
	sp := it.span
	verdict, kept := t.place(now, &sp, it.origin, it)
	switch {
	case verdict == Pass:
		t.shard.commitLast()
		t.release(it, Release{Span: sp, Proc: it.origin.Proc})
	case verdict == Fold:
		t.forget(it) // place has counted it
	case kept != it:
		t.drop(it)
	}
}

// hold makes an item for a span that stays.
func (t *trace) hold(sp *Span, o Origin, rank int32, where place) *Item {
	t.held++
	t.shard.stats.Held++
	return &Item{span: *sp, origin: o, rank: rank, trace: t, where: where}
}

// drop forgets an item: another copy left or will.
func (t *trace) drop(it *Item) {
	if it.gone {
		return
	}
	t.shard.stats.Folded++
	t.forget(it)
}

func (t *trace) forget(it *Item) {
	it.gone = true
	if t.heldIDs[it.span.ID] == it {
		delete(t.heldIDs, it.span.ID)
	}
	t.held--
	t.shard.stats.Held--
	t.shard.grow(-it.Bytes)
	it.Payload = nil
}

// release hands an item on to leave.
func (t *trace) release(it *Item, r Release) {
	if it.gone {
		return
	}
	r.Payload, r.Bytes = it.Payload, it.Bytes
	t.forget(it)
	if r.Filled {
		t.shard.stats.Filled++
	}
	t.shard.stats.Early[r.Reason]++
	t.shard.out = append(t.shard.out, r)
}
