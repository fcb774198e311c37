// Copyright The otelcol-sglang Authors
// SPDX-License-Identifier: Apache-2.0

package assembly

import (
	"iter"
	"time"
)

func clockOf(now time.Time) uint32 { return uint32(now.UnixMilli()) }

// bornAt is when a node was first heard of, to the millisecond.
func (t *Trace) bornAt(i int32, now time.Time) time.Time {
	age := int32(clockOf(now) - t.nodes[i].born)
	return now.Add(-time.Duration(max(age, 0)) * time.Millisecond)
}

func earlier(a, b time.Time) time.Time {
	if b.Before(a) {
		return b
	}
	return a
}

// connected collects all that hangs together with a node over parents and links,
// less what was collected in this epoch.
func (t *Trace) connected(i int32) []int32 {
	list := t.visit(nil, i)
	for k := 0; k < len(list); k++ {
		n := &t.nodes[list[k]]
		list = t.visit(list, t.find(n.parent))
		list = t.visit(list, t.find(n.link))
		for c := n.kids; c != 0; c = t.nodes[c].sibling {
			list = t.visit(list, c)
		}
		for l := n.linkers; l != 0; l = t.nodes[l].nextLinker {
			list = t.visit(list, l)
		}
	}
	return list
}

// part is a request of a trace that may have many: what hangs together.
type part struct {
	nodes []int32
	// since is when the first of them was heard of.
	since time.Time
	// waits says that a root is among them.
	waits bool
}

// parts tells the requests of a trace apart.
func (t *Trace) parts(now time.Time) []part {
	t.epoch++
	var out []part
	for i := range t.all() {
		nodes := t.connected(i)
		if len(nodes) == 0 {
			continue
		}
		p := part{nodes: nodes, since: now}
		for _, k := range nodes {
			p.since = earlier(p.since, t.bornAt(k, now))
			p.waits = p.waits || t.nodes[k].x != nil && t.nodes[k].x.root != nil
		}
		out = append(out, p)
	}
	return out
}

// unwritten are the steps and decode_forward spans of nodes that have yet to leave.
func (t *Trace) unwritten(nodes iter.Seq[int32]) []FoldedSteps {
	var out []FoldedSteps
	for i := range nodes {
		if x := t.nodes[i].x; x != nil && !x.left && (x.payload != nil || x.folded) {
			out = append(out, FoldedSteps{DecodeForward: x.payload, Sum: x.sum, Primary: true})
		}
	}
	return out
}
