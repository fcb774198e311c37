// Copyright The otelcol-sglang Authors
// SPDX-License-Identifier: Apache-2.0

package radix // import "github.com/otelcol-sglang/otelcol-sglang/engine/radix"

import "fmt"

// Walk visits each node but the roots, parents first.
func (t *Tree) Walk(f func(*Node)) {
	for _, name := range t.names {
		walk(t.roots[name], f)
	}
}

func walk(n *Node, f func(*Node)) {
	for _, c := range n.kids.list {
		f(c)
		walk(c, f)
	}
}

// Sequences are the runs of tokens that a namespace holds, from the root to each leaf.
func (t *Tree) Sequences(extra string) [][]int32 {
	var all [][]int32
	walk(t.Root(extra), func(n *Node) {
		if len(n.kids.list) == 0 {
			all = append(all, n.Tokens(nil))
		}
	})
	return all
}

// Owned are the pages of a part that the tree has on the device and on the host.
func (t *Tree) Owned(p Part) (device, host [][]int32) {
	t.Walk(func(n *Node) {
		device, host = append(device, n.dev[p]), append(host, n.host[p])
	})
	return device, host
}

// Check is nil while the tree's invariants hold.
func (t *Tree) Check() error {
	var evictable, locked [Parts]int
	var listed [orders]int
	var err error
	t.Walk(func(n *Node) {
		if err == nil {
			err = t.checkNode(n)
		}
		for i := range t.orders {
			if t.orders[i].has(n) {
				listed[i]++
			}
		}
		for p := range Parts {
			if n.lock[p] > 0 {
				locked[p] += len(n.dev[p])
			} else {
				evictable[p] += len(n.dev[p])
			}
		}
	})
	if err != nil {
		return err
	}
	if evictable != t.evictable || locked != t.locked {
		return fmt.Errorf("evictable %v and locked %v, the book says %v and %v", evictable, locked, t.evictable, t.locked)
	}
	return t.checkOrders(listed)
}

func (t *Tree) checkNode(n *Node) error {
	pages := len(n.key) / t.PageSize
	switch {
	case len(n.key) == 0 || len(n.key)%t.PageSize != 0 || n.end != n.parent.end+len(n.key):
		return fmt.Errorf("node at %d has %d tokens", n.end, len(n.key))
	case n.dead || n.parent.kids.find(n.key[:t.PageSize]) != n:
		return fmt.Errorf("node at %d is not found from its parent", n.end)
	case n.dev[Full] == nil && n.host[Full] == nil:
		return fmt.Errorf("node at %d is nowhere", n.end)
	case n.dev[Full] == nil && (n.dev[SWA] != nil || n.dev[Mamba] != nil):
		return fmt.Errorf("node at %d has a window or a state without KV", n.end)
	case n.parent.parent != nil && n.dev[Full] != nil && n.parent.dev[Full] == nil:
		return fmt.Errorf("node at %d is on the device, its parent is not", n.end)
	case n.parent.parent != nil && (n.lock[Full] > n.parent.lock[Full] || n.hostLock > n.parent.hostLock):
		return fmt.Errorf("node at %d has more holders than its parent", n.end)
	case min(n.lock[Full], n.lock[SWA], n.lock[Mamba], n.hostLock) < 0 || max(n.lock[SWA], n.lock[Mamba]) > n.lock[Full]:
		return fmt.Errorf("node at %d has %v holders", n.end, n.lock)
	}
	for p, size := range [...]int{Full: pages, SWA: pages, Mamba: 1} {
		if n.dev[p] != nil && len(n.dev[p]) != size || n.host[p] != nil && len(n.host[p]) != size {
			return fmt.Errorf("node at %d has %d and %d pages of part %d, not %d", n.end, len(n.dev[p]), len(n.host[p]), p, size)
		}
	}
	for i := range t.orders {
		if o := &t.orders[i]; o.has(n) != t.belongs(n, o.which) {
			return fmt.Errorf("node at %d is or is not in order %d", n.end, i)
		}
	}
	return nil
}

// checkOrders: each list is whole, and ancestors are more recent where that decides.
func (t *Tree) checkOrders(listed [orders]int) error {
	for i := range t.orders {
		o := &t.orders[i]
		seen := make(map[*Node]bool)
		for n := o.tail; n != nil; n = n.links[i].prev {
			for a := n.parent; a != nil && (o.which == Full || o.which == Host); a = a.parent {
				if seen[a] {
					return fmt.Errorf("order %d: node at %d is older than one below it", i, a.end)
				}
			}
			seen[n] = true
		}
		if len(seen) != o.nodes || o.nodes != listed[i] {
			return fmt.Errorf("order %d has %d nodes, the tree %d, the count is %d", i, len(seen), listed[i], o.nodes)
		}
	}
	return nil
}
