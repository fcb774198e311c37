// Copyright The otelcol-sglang Authors
// SPDX-License-Identifier: Apache-2.0

package radix // import "github.com/otelcol-sglang/otelcol-sglang/engine/radix"

import "slices"

// Part is one of the things that a run of tokens leaves in memory.
type Part uint8

const (
	Full  Part = iota // KV of full attention, in pages
	SWA               // KV of sliding-window attention, in pages
	Mamba             // one state

	Parts
)

// Orders of eviction on the host, beside those of the device's parts: of nodes that
// are on the host only, and of copies of what is on the device as well.
const (
	Host   = Parts
	Copies = Parts + 1

	orders = Parts + 2
)

// Node is a run of tokens. The zero node with no parent is a root.
type Node struct {
	key    []int32
	parent *Node
	kids   kids
	// end is the number of tokens from the root through this node.
	end int

	dev, host [Parts][]int32
	// lock counts holders. Full is locked from the node to the root, SWA for the last
	// window of tokens, Mamba at the node alone.
	lock     [Parts]int
	hostLock int

	links [orders]link
	// hits counts requests that went through, for the write policy.
	hits int
	dead bool
	// extra is the namespace, of roots only.
	extra string

	backup *Backup
}

// Backup is a transfer of nodes to the host. A split while it is under way adds the
// upper half.
type Backup struct{ Nodes []*Node }

// Parent is nil for a root.
func (n *Node) Parent() *Node { return n.parent }

// End is the number of tokens from the root through this node.
func (n *Node) End() int { return n.end }

// Start is the number of tokens before this node.
func (n *Node) Start() int { return n.end - len(n.key) }

// Len is the number of tokens of this node.
func (n *Node) Len() int { return len(n.key) }

// Dead tells whether the node has left the tree.
func (n *Node) Dead() bool { return n.dead }

// OnDevice tells whether the part is on the device.
func (n *Node) OnDevice(p Part) bool { return n.dev[p] != nil }

// OnHost tells whether the part is on the host, or on its way there.
func (n *Node) OnHost(p Part) bool { return n.host[p] != nil }

// Backed tells whether what the node holds has a copy on the host, as roots have.
func (n *Node) Backed() bool { return n.parent == nil || n.host[Full] != nil }

// Hit counts one more request and returns how many there were.
func (n *Node) Hit() int {
	n.hits++
	return n.hits
}

// Pages is the number of pages (states, for [Mamba]) of a part on the device.
func (n *Node) Pages(p Part) int { return len(n.dev[p]) }

// Extra is the namespace that the node is in.
func (n *Node) Extra() string {
	for n.parent != nil {
		n = n.parent
	}
	return n.extra
}

// Tokens appends the tokens from the root through this node.
func (n *Node) Tokens(dst []int32) []int32 {
	at := len(dst)
	dst = append(dst, make([]int32, n.end)...)
	for ; n.parent != nil; n = n.parent {
		copy(dst[at+n.Start():], n.key)
	}
	return dst
}

func (n *Node) has(p Part, host bool) bool { return n.dev[p] != nil || host && n.host[p] != nil }

func (n *Node) locked() bool { return n.lock[Full] > 0 }

// kids are a node's children by their first page. Few are searched one by one, many
// through the hash of that page.
type kids struct {
	list  []*Node
	index map[uint64]int
	// linear: two children have one hash, so that the index is of no use.
	linear bool
}

const fewKids = 8

func (k *kids) find(page []int32) *Node {
	if k.index != nil {
		i, ok := k.index[hashPage(page)]
		if !ok || !startsWith(k.list[i].key, page) {
			return nil
		}
		return k.list[i]
	}
	for _, c := range k.list {
		if startsWith(c.key, page) {
			return c
		}
	}
	return nil
}

func (k *kids) add(n *Node, pageSize int) {
	k.list = append(k.list, n)
	if k.index != nil {
		k.note(n, len(k.list)-1, pageSize)
		return
	}
	if k.linear || len(k.list) <= fewKids {
		return
	}
	k.index = make(map[uint64]int, 2*fewKids)
	for i, c := range k.list {
		k.note(c, i, pageSize)
	}
}

func (k *kids) note(n *Node, i, pageSize int) {
	if k.linear {
		return
	}
	h := hashPage(n.key[:pageSize])
	if _, taken := k.index[h]; taken {
		k.index, k.linear = nil, true
		return
	}
	k.index[h] = i
}

// replace puts a node in the place of one with the same first page.
func (k *kids) replace(old, n *Node, pageSize int) { k.list[k.at(old, pageSize)] = n }

func (k *kids) remove(n *Node, pageSize int) {
	i, last := k.at(n, pageSize), len(k.list)-1
	if k.index != nil {
		k.index[hashPage(k.list[last].key[:pageSize])] = i
		delete(k.index, hashPage(n.key[:pageSize]))
	}
	k.list[i] = k.list[last]
	k.list[last] = nil
	k.list = k.list[:last]
}

func (k *kids) at(n *Node, pageSize int) int {
	if k.index != nil {
		return k.index[hashPage(n.key[:pageSize])]
	}
	return slices.Index(k.list, n)
}

func startsWith(key, page []int32) bool {
	for i, t := range page {
		if key[i] != t {
			return false
		}
	}
	return true
}

func hashPage(page []int32) uint64 {
	h := uint64(len(page))
	for _, t := range page {
		h = Mix(h, t)
	}
	return h
}

// Mix adds a token to a hash of tokens.
func Mix(h uint64, token int32) uint64 {
	h = (h ^ uint64(uint32(token))) * 0x9E3779B97F4A7C15
	return h ^ h>>29
}

// common is the length of the longest common prefix.
func common(a, b []int32) int {
	n := min(len(a), len(b))
	a, b = a[:n], b[:n]
	for i := range a {
		if a[i] != b[i] {
			return i
		}
	}
	return n
}
