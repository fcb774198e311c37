// Copyright The otelcol-sglang Authors
// SPDX-License-Identifier: Apache-2.0

package assembly

import (
	"github.com/otelcol-sglang/otelcol-sglang/internal/sglang"
)

// tree is all that belongs to one root, and what is known to be missing of it.
type tree struct {
	root  int32
	nodes []int32
	// primary is the thread, or the place of one, that the numbers come from; 0 if none.
	primary   int32
	scheduler bool
	frontEnd  bool
	encoder   bool
	// lowestStage: the thread of a scheduler of PP stage 0 has come.
	lowestStage bool
	noThread    bool
	missing     bool
	// oldSteps: decode steps stand below a thread, as in releases to 0.5.9.
	oldSteps bool
}

// collect finds the nodes of a root: downwards from it, and over the links by
// which a scheduler's first slice names the front end's last.
func (t *Trace) collect(root int32, scratch []int32) tree {
	t.epoch++
	tr := tree{root: root, nodes: t.visit(scratch[:0], root)}
	t.expand(&tr, 0)
	rootNode := &t.nodes[root]
	if len(tr.nodes) < t.live && t.own(rootNode) {
		from := len(tr.nodes)
		for i := range t.all() {
			if r := t.nodes[i].x; r == nil || r.root == nil {
				tr.nodes = t.visit(tr.nodes, i)
			}
		}
		t.expand(&tr, from)
	}
	return tr
}

// own says that the trace belongs to this one request.
func (t *Trace) own(root *node) bool {
	return !t.id.External() || root.parent == 0 && len(t.roots) == 1 && !t.sharedTrace()
}

// sharedTrace: another root's threads are here.
func (t *Trace) sharedTrace() bool {
	for i := range t.all() {
		n := &t.nodes[i]
		if n.kind != sglang.KindThread {
			continue
		}
		if p := t.find(n.parent); p != 0 && !t.nodes[p].seen {
			return true
		}
	}
	return false
}

func (t *Trace) visit(list []int32, i int32) []int32 {
	if i == 0 || t.nodes[i].mark == t.epoch {
		return list
	}
	t.nodes[i].mark = t.epoch
	return append(list, i)
}

func (t *Trace) expand(tr *tree, from int) {
	for k := from; k < len(tr.nodes); k++ {
		n := t.nodes[tr.nodes[k]]
		for c := n.kids; c != 0; c = t.nodes[c].sibling {
			tr.nodes = t.visit(tr.nodes, c)
		}
		for l := n.linkers; l != 0; l = t.nodes[l].nextLinker {
			tr.nodes = t.visit(tr.nodes, t.topOf(l))
		}
		if target := t.find(n.link); target != 0 && !t.nodes[target].seen {
			tr.nodes = t.visit(tr.nodes, target)
		}
	}
}

// descend adds all children.
func (t *Trace) descend(tr *tree) {
	for k := 0; k < len(tr.nodes); k++ {
		for c := t.nodes[tr.nodes[k]].kids; c != 0; c = t.nodes[c].sibling {
			tr.nodes = t.visit(tr.nodes, c)
		}
	}
}

// topOf climbs to the place of a thread that has not come; 0 where a thread or a
// root has come, for then the parents tell whose it is.
func (t *Trace) topOf(i int32) int32 {
	for range maxDepth {
		n := &t.nodes[i]
		if n.kind == sglang.KindThread || n.kind == sglang.KindRoot {
			return 0
		}
		p := t.find(n.parent)
		if p == 0 {
			return i
		}
		i = p
	}
	return 0
}

// judge finds out what is missing.
func (t *Trace) judge(tr *tree) {
	tr.oldSteps = t.stepsBelowThread(tr)
	for _, i := range tr.nodes {
		n := &t.nodes[i]
		switch {
		case !n.seen:
			t.judgeUnseen(tr, i)
		case n.kind == sglang.KindThread:
			t.judgeThread(tr, i)
		case n.kind == sglang.KindSlice:
			tr.scheduler = tr.scheduler || n.stage.Info().Process == sglang.ProcessScheduler
		}
	}
	t.choosePrimary(tr)
}

func (t *Trace) judgeUnseen(tr *tree, i int32) {
	n := &t.nodes[i]
	switch {
	case n.kids != 0 || n.x != nil:
		tr.missing, tr.noThread = true, tr.noThread || t.isThreadPlace(i)
		tr.scheduler = tr.scheduler || n.x != nil && n.x.sum != nil
	case !tr.oldSteps:
		tr.missing = true
	}
}

// isThreadPlace: top-level slices name it as their parent.
func (t *Trace) isThreadPlace(i int32) bool {
	for c := t.nodes[i].kids; c != 0; c = t.nodes[c].sibling {
		if t.nodes[c].kind == sglang.KindSlice && !t.nodes[c].stage.Info().Nested {
			return true
		}
	}
	return false
}

// stepsBelowThread: releases to 0.5.9 have no decode_forward; their slices link
// to decode steps, which are not held as nodes.
func (t *Trace) stepsBelowThread(tr *tree) bool {
	for _, i := range tr.nodes {
		if n := &t.nodes[i]; n.x != nil && n.x.sum != nil && (n.kind == sglang.KindThread || t.isThreadPlace(i)) {
			return true
		}
	}
	return false
}

func (t *Trace) judgeThread(tr *tree, i int32) {
	thread := t.nodes[i].x.thread
	switch thread.Process {
	case sglang.ProcessFrontEnd:
		tr.frontEnd = true
	case sglang.ProcessEncoder:
		tr.encoder = true
	case sglang.ProcessScheduler:
		tr.scheduler = true
		tr.lowestStage = tr.lowestStage || thread.Ranks.PP <= 0
	}
	if thread.Slices >= 0 && t.count(i, 0) < thread.Slices {
		tr.missing = true
	}
}

// maxDepth bounds the walk down: spans that name each other as parents form a ring.
const maxDepth = 16

// count is the number of slices that have come below a node.
func (t *Trace) count(i int32, depth int) int64 {
	if depth > maxDepth {
		return 0
	}
	n := &t.nodes[i]
	var sum int64
	if n.x != nil {
		sum = int64(n.x.sum.Count()+len(n.x.others)) + n.x.foldedBefore
	}
	for c := n.kids; c != 0; c = t.nodes[c].sibling {
		if t.nodes[c].seen {
			sum++
		}
		sum += t.count(c, depth+1)
	}
	return sum
}

func (t *Trace) choosePrimary(tr *tree) {
	best := int64(-1)
	for _, i := range tr.nodes {
		if !t.isScheduler(i) {
			continue
		}
		rank := t.rankOrder(i)
		if best < 0 || rank < best || rank == best && t.nodes[i].id < t.nodes[tr.primary].id {
			tr.primary, best = i, rank
		}
	}
}

func (t *Trace) isScheduler(i int32) bool {
	n := &t.nodes[i]
	if n.seen {
		return n.kind == sglang.KindThread && n.x.thread.Process == sglang.ProcessScheduler
	}
	for c := n.kids; c != 0; c = t.nodes[c].sibling {
		info := t.nodes[c].stage.Info()
		if t.nodes[c].kind == sglang.KindSlice && !info.Nested && info.Process == sglang.ProcessScheduler {
			return true
		}
	}
	return n.x != nil && n.x.sum != nil && n.kids == 0
}

// rankOrder: the lowest PP stage, then the lowest TP rank; places without known
// ranks come after those with, and places of slices last.
func (t *Trace) rankOrder(i int32) int64 {
	n, ranks := &t.nodes[i], sglang.NoRanks
	order := int64(0)
	if n.seen {
		ranks = n.x.thread.Ranks
	} else {
		if n.x != nil {
			ranks = n.x.ranks
		}
		if ranks == sglang.NoRanks {
			order = 1 << 60
		}
		if !t.isThreadPlace(i) {
			order += 1 << 61
		}
	}
	return order + int64(max(0, ranks.PP))<<24 + int64(max(0, ranks.TP))
}

// completeness names what is missing; sglang.CompletenessComplete if nothing is.
func (t *Trace) completeness(tr *tree) string {
	root := t.nodes[tr.root].x.root
	switch {
	case !tr.scheduler && tr.encoder && root.EncoderLike && tr.frontEnd && !tr.missing:
		return sglang.CompletenessComplete
	case !tr.scheduler:
		return sglang.CompletenessNoScheduler
	case tr.noThread || !tr.lowestStage:
		return sglang.CompletenessNoThread
	case tr.missing:
		return sglang.CompletenessMissingSpans
	case !tr.frontEnd:
		return sglang.CompletenessNoFrontEnd
	}
	return sglang.CompletenessComplete
}
