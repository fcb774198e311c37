// Copyright The otelcol-sglang Authors
// SPDX-License-Identifier: Apache-2.0

package radix // import "github.com/otelcol-sglang/otelcol-sglang/engine/radix"

import (
	"slices"

	"github.com/otelcol-sglang/otelcol-sglang/engine/kv"
)

// Run is tokens with their pages, to be put below a node. Pages of [SWA] may begin
// with holes; of [Mamba] there is the state at the end, or none.
type Run struct {
	Tokens []int32
	Pages  [Parts][]int32
}

// Insert gives the run, in whole pages, to the tree and returns its last node. Where
// the tree has the same tokens on the device, the run's pages go back to their pool.
func (t *Tree) Insert(n *Node, r Run) *Node {
	for len(r.Tokens) > 0 {
		c := n.kids.find(r.Tokens[:t.PageSize])
		if c == nil {
			n = t.grow(n, r)
			break
		}
		same := t.Aligned(common(c.key, r.Tokens))
		if same < len(c.key) {
			c = t.split(c, same)
		}
		t.adopt(c, t.take(&r, same))
		n = c
	}
	t.own(n, Mamba, r.Pages[Mamba])
	t.touch(n)
	return n
}

// take cuts the first size tokens off the run, without a state.
func (t *Tree) take(r *Run, size int) Run {
	head := Run{Tokens: r.Tokens[:size]}
	r.Tokens = r.Tokens[size:]
	for _, p := range [...]Part{Full, SWA} {
		head.Pages[p], r.Pages[p] = cut(r.Pages[p], size/t.PageSize)
	}
	return head
}

// adopt gives n those of the run's pages that it lacks.
func (t *Tree) adopt(n *Node, r Run) {
	t.own(n, Full, r.Pages[Full])
	swa := r.Pages[SWA]
	if kv.Count(swa) < len(swa) {
		t.Device[SWA].Return(swa)
		return
	}
	t.own(n, SWA, swa)
}

// own gives n the pages of a part, or their pool if it has some.
func (t *Tree) own(n *Node, p Part, pages []int32) {
	switch {
	case len(pages) == 0:
	case n.dev[p] != nil || n.parent == nil:
		t.Device[p].Return(pages)
	default:
		t.set(n, p, pages)
	}
}

// grow makes nodes of a run that the tree has nothing of: two, if the sliding
// window has left the first of its tokens behind.
func (t *Tree) grow(n *Node, r Run) *Node {
	swa := r.Pages[SWA]
	if holes := len(swa) - kv.Count(swa); holes > 0 {
		head := t.take(&r, holes*t.PageSize)
		n = t.attach(n, head.Tokens)
		t.set(n, Full, head.Pages[Full])
	}
	if len(r.Tokens) == 0 {
		return n
	}
	n = t.attach(n, r.Tokens)
	t.set(n, Full, r.Pages[Full])
	if len(r.Pages[SWA]) > 0 {
		t.set(n, SWA, r.Pages[SWA])
	}
	return n
}

// attach makes a child of n that has nothing yet.
func (t *Tree) attach(n *Node, tokens []int32) *Node {
	c := &Node{key: slices.Clone(tokens), parent: n, end: n.end + len(tokens)}
	n.kids.add(c, t.PageSize)
	return c
}
