// Copyright The otelcol-sglang Authors
// SPDX-License-Identifier: Apache-2.0

package radix // import "github.com/otelcol-sglang/otelcol-sglang/engine/radix"

// link is a node's place in one order of eviction; prev is the more recent side.
type link struct{ prev, next *Node }

// order is a list of nodes from the most to the least recently used. In the orders
// of [Full] and [Host] a node's ancestors are always more recent than the node, so
// that the last one is a leaf.
type order struct {
	which      Part
	head, tail *Node
	nodes      int
}

func (o *order) has(n *Node) bool {
	l := &n.links[o.which]
	return l.prev != nil || l.next != nil || o.head == n
}

func (o *order) pushFront(n *Node) {
	n.links[o.which] = link{next: o.head}
	if o.head != nil {
		o.head.links[o.which].prev = n
	} else {
		o.tail = n
	}
	o.head = n
	o.nodes++
}

func (o *order) remove(n *Node) {
	l := n.links[o.which]
	if l.prev != nil {
		l.prev.links[o.which].next = l.next
	} else {
		o.head = l.next
	}
	if l.next != nil {
		l.next.links[o.which].prev = l.prev
	} else {
		o.tail = l.prev
	}
	n.links[o.which] = link{}
	o.nodes--
}

func (o *order) touch(n *Node) {
	if o.head != n {
		o.remove(n)
		o.pushFront(n)
	}
}
