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

// since is when the first of the nodes was heard of; waits says that a root is
// among them.
func (t *Trace) since(nodes []int32, now time.Time) (since time.Time, waits bool) {
	since = now
	for _, i := range nodes {
		since = earlier(since, t.bornAt(i, now))
		waits = waits || t.nodes[i].x != nil && t.nodes[i].x.root != nil
	}
	return since, waits
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
