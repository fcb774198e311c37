// Copyright The otelcol-sglang Authors
// SPDX-License-Identifier: Apache-2.0

package radix // import "github.com/otelcol-sglang/otelcol-sglang/engine/radix"

import "github.com/otelcol-sglang/otelcol-sglang/engine/kv"

// Config is what a tree is made with.
type Config struct {
	PageSize int
	// Device and Host are the pools by part; nil for a part that is not cached.
	Device, Host [Parts]*kv.Pages
	// Window is the sliding window in tokens, if [SWA] is cached.
	Window int
	// Tail is how many tokens at the end of a cached prefix are computed again, since
	// their windows live in rings that end with their request.
	Tail int
	// MinHost is the fewest tokens on the host that are worth loading back.
	MinHost int
	// Keep is asked before a node leaves the device: true if its copy on the host
	// stays. Nil without a host tier.
	Keep func(*Node) bool
}

// Tree is the prefix cache of one scheduler.
type Tree struct {
	Config
	roots map[string]*Node
	names []string // of roots, in the order in which they came

	orders [orders]order
	// evictable and locked count pages (states) on the device.
	evictable, locked [Parts]int

	path []*Node // scratch of match
}

// New returns an empty tree.
func New(c Config) *Tree {
	t := &Tree{Config: c, roots: make(map[string]*Node)}
	for i := range t.orders {
		t.orders[i].which = Part(i)
	}
	return t
}

// Evictable is the number of pages (states) that the tree could free.
func (t *Tree) Evictable(p Part) int { return t.evictable[p] }

// Locked is the number of pages (states) that holders lock.
func (t *Tree) Locked(p Part) int { return t.locked[p] }

// Aligned is the whole pages of so many tokens.
func (t *Tree) Aligned(tokens int) int { return tokens / t.PageSize * t.PageSize }

// Root is the root of a namespace: an adapter or session whose KV is its own.
func (t *Tree) Root(extra string) *Node {
	r := t.roots[extra]
	if r == nil {
		r = &Node{extra: extra}
		t.roots[extra] = r
		t.names = append(t.names, extra)
	}
	return r
}

// Match is the longest usable prefix. Tokens on the host follow those on the device.
type Match struct {
	// Node is the deepest node of the prefix.
	Node         *Node
	Device, Host int
}

// Match finds the longest usable prefix of tokens below root and makes its path the
// most recently used. A node that matches in part is split.
func (t *Tree) Match(root *Node, tokens []int32) Match {
	m := t.At(root, tokens)
	if total := m.Device + m.Host; t.Tail > 0 && total > 0 {
		m = t.At(root, tokens[:max(0, total-t.Tail)])
	}
	return m
}

// At is [Tree.Match] without a tail that is computed again: it finds what Match found
// when asked for those tokens.
func (t *Tree) At(root *Node, tokens []int32) Match {
	t.descend(root, tokens)
	dev, all := t.usable(root, false), root
	if t.Host[Full] != nil {
		all = t.usable(root, true)
	}
	if all.end-dev.end < max(1, t.MinHost) {
		all = dev
	}
	return Match{Node: all, Device: dev.end, Host: all.end - dev.end}
}

// descend collects the path of the longest match.
func (t *Tree) descend(root *Node, tokens []int32) {
	t.path = t.path[:0]
	n := root
	tokens = tokens[:t.Aligned(len(tokens))]
	for len(tokens) > 0 {
		c := n.kids.find(tokens[:t.PageSize])
		if c == nil {
			break
		}
		same := t.Aligned(common(c.key, tokens))
		if same < len(c.key) {
			c = t.split(c, same)
		}
		t.path = append(t.path, c)
		n, tokens = c, tokens[same:]
	}
	t.touch(n)
}

// usable is the deepest node of the path at which a request could go on.
func (t *Tree) usable(root *Node, host bool) *Node {
	best, run, whole := root, 0, true
	for _, n := range t.path {
		if !n.has(Full, host) {
			break
		}
		ok := true
		if t.Device[SWA] != nil {
			if n.has(SWA, host) {
				run += n.Len()
			} else {
				run, whole = 0, false
			}
			ok = whole || run >= t.Window
		}
		if ok && (t.Device[Mamba] == nil || n.has(Mamba, host)) {
			best = n
		}
	}
	return best
}

// touch makes the path to n the most recently used.
func (t *Tree) touch(n *Node) {
	for ; n.parent != nil; n = n.parent {
		for i := range t.orders {
			if o := &t.orders[i]; o.has(n) {
				o.touch(n)
			}
		}
	}
}

// split cuts the first size tokens of n off into a parent, which it returns, and which
// the caller touches. Who holds n goes on holding the whole run.
func (t *Tree) split(n *Node, size int) *Node {
	up := &Node{
		key: n.key[:size:size], parent: n.parent, end: n.end - n.Len() + size,
		hostLock: n.hostLock, hits: n.hits, backup: n.backup,
	}
	n.parent.kids.replace(n, up, t.PageSize)
	n.key, n.parent = n.key[size:], up
	for _, p := range [...]Part{Full, SWA} {
		up.lock[p] = n.lock[p]
		up.dev[p], n.dev[p] = cut(n.dev[p], size/t.PageSize)
		up.host[p], n.host[p] = cut(n.host[p], size/t.PageSize)
	}
	up.kids.add(n, t.PageSize)
	if up.backup != nil {
		up.backup.Nodes = append(up.backup.Nodes, up)
	}
	t.list(up)
	return up
}

func cut(pages []int32, at int) (head, tail []int32) {
	if pages == nil {
		return nil, nil
	}
	return pages[:at:at], pages[at:]
}

// set changes a part on the device, and the books with it.
func (t *Tree) set(n *Node, p Part, pages []int32) {
	t.count(n, p, -1)
	n.dev[p] = pages
	t.count(n, p, 1)
	t.list(n)
}

func (t *Tree) count(n *Node, p Part, sign int) {
	if n.lock[p] > 0 {
		t.locked[p] += sign * len(n.dev[p])
	} else {
		t.evictable[p] += sign * len(n.dev[p])
	}
}

// list puts n into the orders in which it belongs, as the most recent, and takes it
// out of the others.
func (t *Tree) list(n *Node) {
	for i := range t.orders {
		o := &t.orders[i]
		if want := t.belongs(n, o.which); want != o.has(n) {
			if want {
				o.pushFront(n)
			} else {
				o.remove(n)
			}
		}
	}
}

func (t *Tree) belongs(n *Node, which Part) bool {
	switch which {
	case Host:
		return n.host[Full] != nil && n.dev[Full] == nil && n.hostLock == 0 && !n.locked()
	case Copies:
		return n.host[Full] != nil && n.dev[Full] != nil && n.hostLock == 0 && n.backup == nil
	}
	return n.dev[which] != nil && n.lock[which] == 0
}
