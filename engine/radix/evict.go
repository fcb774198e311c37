// Copyright The otelcol-sglang Authors
// SPDX-License-Identifier: Apache-2.0

package radix // import "github.com/otelcol-sglang/otelcol-sglang/engine/radix"

// Evicted is what an eviction freed on the device.
type Evicted struct{ Tokens, Nodes int }

// Evict frees at least n pages (states) of a part on the device, if that many are
// evictable. Nodes leave the device as a whole, but for those that are locked or
// have children: these lose only the window or the state.
func (t *Tree) Evict(p Part, n int) Evicted {
	var e Evicted
	goal := t.evictable[p] - n
	for t.evictable[p] > max(0, goal) {
		v := t.orders[p].tail
		e.Nodes++
		if p == Full || !v.locked() && len(v.kids.list) == 0 {
			e.Tokens += v.Len()
			t.evict(v)
			continue
		}
		t.Device[p].Return(v.dev[p])
		t.set(v, p, nil)
	}
	return e
}

// evict takes an unlocked node without children on the device off the device.
func (t *Tree) evict(v *Node) {
	keep := t.Keep != nil && t.Keep(v)
	for p := range Parts {
		if v.dev[p] != nil {
			t.Device[p].Return(v.dev[p])
			t.set(v, p, nil)
		}
	}
	if !keep {
		t.drop(v)
	}
}

// drop removes a node that is not on the device, with all below it.
func (t *Tree) drop(v *Node) {
	for len(v.kids.list) > 0 {
		t.drop(v.kids.list[len(v.kids.list)-1])
	}
	t.dropCopy(v)
	// Who locks v on the host learns that it is dead and lets go of nothing.
	if v.hostLock > 0 {
		t.bumpHost(v.parent, -v.hostLock)
	}
	v.parent.kids.remove(v, t.PageSize)
	v.parent, v.dead = nil, true
}

// Flush removes all that nobody holds.
func (t *Tree) Flush() {
	keep := t.Keep
	t.Keep = nil
	t.Evict(Full, t.evictable[Full])
	t.Keep = keep
	if t.Host[Full] != nil {
		t.EvictHost(t.Host[Full].Total())
	}
}
