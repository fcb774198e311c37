// Copyright The otelcol-sglang Authors
// SPDX-License-Identifier: Apache-2.0

package radix // import "github.com/otelcol-sglang/otelcol-sglang/engine/radix"

// Lock is a holder's claim on the path to a node. The zero Lock holds nothing.
type Lock struct {
	Node *Node
	// window is the first token whose sliding-window KV is locked; splits do not move it.
	window int
}

// Lock claims the path to n; n may be a root.
func (t *Tree) Lock(n *Node) Lock {
	l := Lock{Node: n, window: n.end}
	if n.parent == nil {
		return l
	}
	t.bump(n, Mamba, 1)
	for a := n; a.parent != nil; a = a.parent {
		if t.Device[SWA] != nil && n.end-a.end < t.Window {
			t.bump(a, SWA, 1)
			l.window = a.Start()
		}
		t.bump(a, Full, 1)
		t.list(a)
	}
	return l
}

// Unlock lets go of what l claims.
func (t *Tree) Unlock(l *Lock) {
	n := l.Node
	if n == nil {
		return
	}
	if n.parent != nil {
		t.bump(n, Mamba, -1)
	}
	for a := n; a.parent != nil; a = a.parent {
		if a.Start() >= l.window {
			t.bump(a, SWA, -1)
		}
		t.bump(a, Full, -1)
		t.list(a)
	}
	*l = Lock{}
}

// UnlockWindow lets go of the sliding window alone, once the holder's own tokens
// fill it.
func (t *Tree) UnlockWindow(l *Lock) {
	for a := l.Node; a.parent != nil && a.Start() >= l.window; a = a.parent {
		t.bump(a, SWA, -1)
		t.list(a)
	}
	l.window = l.Node.end
}

// bump changes a count of holders, and the books with it.
func (t *Tree) bump(n *Node, p Part, by int) {
	t.count(n, p, -1)
	n.lock[p] += by
	t.count(n, p, 1)
}

// LockHost keeps the path to n on the host, wherever else it is.
func (t *Tree) LockHost(n *Node) { t.bumpHost(n, 1) }

// UnlockHost is the reverse; a node that has left the tree stays as it is.
func (t *Tree) UnlockHost(n *Node) { t.bumpHost(n, -1) }

func (t *Tree) bumpHost(n *Node, by int) {
	for ; n.parent != nil; n = n.parent {
		n.hostLock += by
		t.list(n)
	}
}
