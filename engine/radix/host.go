// Copyright The otelcol-sglang Authors
// SPDX-License-Identifier: Apache-2.0

package radix // import "github.com/otelcol-sglang/otelcol-sglang/engine/radix"

import (
	"slices"

	"github.com/otelcol-sglang/otelcol-sglang/engine/kv"
)

// SetHost gives a node a copy of a part on the host.
func (t *Tree) SetHost(n *Node, p Part, pages []int32) {
	n.host[p] = pages
	t.list(n)
}

// StartBackup says that the copy of n is under way: it stays until the transfer ends.
func (t *Tree) StartBackup(n *Node) *Backup {
	n.backup = &Backup{Nodes: []*Node{n}}
	t.list(n)
	return n.backup
}

// EndBackup says that the copies are there.
func (t *Tree) EndBackup(b *Backup) {
	for _, n := range b.Nodes {
		n.backup = nil
		t.list(n)
	}
}

// EvictHost frees n pages on the host, if that many can go: first nodes that are
// there only, then copies of what is on the device.
func (t *Tree) EvictHost(n int) {
	goal := t.Host[Full].Free() + n
	for v := t.orders[Host].tail; v != nil && t.Host[Full].Free() < goal; v = t.orders[Host].tail {
		t.drop(v)
	}
	for v := t.orders[Copies].tail; v != nil && t.Host[Full].Free() < goal; {
		next := v.links[Copies].prev
		if !slices.ContainsFunc(v.kids.list, (*Node).Backed) {
			t.dropCopy(v)
		}
		v = next
	}
}

// dropCopy takes a node's copy off the host. None below it has one.
func (t *Tree) dropCopy(n *Node) {
	for p := range Parts {
		if n.host[p] != nil {
			t.Host[p].Return(n.host[p])
			n.host[p] = nil
		}
	}
	t.list(n)
}

// Overlap is how many tokens of a run the tree had already.
type Overlap struct{ Device, Host int }

// InsertHost gives the run to the tree as a copy on the host, and returns its last
// node. What the tree has already stays, and the run's pages for it are freed.
func (t *Tree) InsertHost(n *Node, r Run) (*Node, Overlap) {
	var o Overlap
	for len(r.Tokens) > 0 {
		c := n.kids.find(r.Tokens[:t.PageSize])
		if c == nil {
			n = t.growHost(n, &r)
			break
		}
		same := t.Aligned(common(c.key, r.Tokens))
		if same < len(c.key) {
			c = t.split(c, same)
		}
		if c.dev[Full] != nil {
			o.Device += same
		} else {
			o.Host += same
		}
		t.giveBack(t.take(&r, same))
		n = c
	}
	t.giveBack(r)
	t.touch(n)
	return n, o
}

// growHost makes nodes of the rest of a run, as grow does.
func (t *Tree) growHost(n *Node, r *Run) *Node {
	swa := r.Pages[SWA]
	if holes := len(swa) - kv.Count(swa); holes > 0 {
		head := t.take(r, holes*t.PageSize)
		head.Pages[SWA] = nil
		n = t.attachHost(n, head)
	}
	if len(r.Tokens) > 0 {
		n = t.attachHost(n, *r)
		r.Pages = [Parts][]int32{}
	}
	return n
}

func (t *Tree) attachHost(n *Node, r Run) *Node {
	n = t.attach(n, r.Tokens)
	n.host = r.Pages
	t.list(n)
	return n
}

func (t *Tree) giveBack(r Run) {
	for p, pages := range r.Pages {
		if len(pages) > 0 {
			t.Host[p].Return(pages)
		}
	}
}

// Missing counts what must come from the host before a request can go on at n.
func (t *Tree) Missing(n *Node) (need [Parts]int) {
	t.missing(n, func(a *Node, p Part) { need[p] += len(a.host[p]) })
	return need
}

// Load puts on the device what [Tree.Missing] counts. The caller has locked n and
// sees to the room.
func (t *Tree) Load(n *Node) {
	t.missing(n, func(a *Node, p Part) {
		t.set(a, p, t.Device[p].Append(nil, len(a.host[p])))
	})
}

func (t *Tree) missing(n *Node, f func(*Node, Part)) {
	lacks := func(a *Node, p Part) bool {
		return t.Device[p] != nil && a.dev[p] == nil && a.host[p] != nil
	}
	if n.parent != nil && lacks(n, Mamba) {
		f(n, Mamba)
	}
	for a := n; a.parent != nil; a = a.parent {
		if lacks(a, Full) {
			f(a, Full)
		}
		if n.end-a.end < t.Window && lacks(a, SWA) {
			f(a, SWA)
		}
	}
}
