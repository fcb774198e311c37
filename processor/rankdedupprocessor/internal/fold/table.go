// Copyright The otelcol-sglang Authors
// SPDX-License-Identifier: Apache-2.0

package fold // import "github.com/otelcol-sglang/otelcol-sglang/processor/rankdedupprocessor/internal/fold"

import (
	"math/bits"
	"math/rand/v2"
)

// table maps span ids to what they stand for. There is one look-up or more per
// span, in the tables of ever other traces, so that memory not in cache is what
// costs: one line per look-up, where a map has four.
type table[V any] struct {
	entries []tableEntry[V] // open addressing; a power of two, at most three quarters full
	used    int
	// The id 0 marks free entries, so that its own value is here.
	zero    V
	hasZero bool
}

type tableEntry[V any] struct {
	id    uint64
	value V
}

// tableSeed makes collisions unpredictable for who chooses the ids; odd.
var tableSeed = rand.Uint64() | 1

const leastEntries = 8

// at returns the index of the id's entry, or of the free one where it belongs.
func (t *table[V]) at(id uint64) int {
	mask := len(t.entries) - 1
	i := int(id * tableSeed >> (64 - bits.Len(uint(mask))))
	for t.entries[i].id != id && t.entries[i].id != 0 {
		i = (i + 1) & mask
	}
	return i
}

// get returns the value of the id, and whether it has one.
func (t *table[V]) get(id uint64) (value V, known bool) {
	if id == 0 {
		return t.zero, t.hasZero
	}
	if t.used == 0 {
		return value, false
	}
	e := &t.entries[t.at(id)]
	return e.value, e.id != 0
}

// set gives the id a value. It reports whether it had none.
func (t *table[V]) set(id uint64, value V) (added bool) {
	if id == 0 {
		added = !t.hasZero
		t.zero, t.hasZero = value, true
		return added
	}
	if 4*(t.used+1) > 3*len(t.entries) {
		t.resize(max(leastEntries, 2*len(t.entries)))
	}
	e := &t.entries[t.at(id)]
	if added = e.id == 0; added {
		e.id = id
		t.used++
	}
	e.value = value
	return added
}

func (t *table[V]) resize(entries int) {
	old := t.entries
	t.entries = make([]tableEntry[V], entries)
	for i := range old {
		if old[i].id != 0 {
			t.entries[t.at(old[i].id)] = old[i]
		}
	}
}

func (t *table[V]) len() int {
	if t.hasZero {
		return t.used + 1
	}
	return t.used
}

// all calls do for every id until it returns false.
func (t *table[V]) all(do func(id uint64, value V) bool) {
	if t.hasZero && !do(0, t.zero) {
		return
	}
	for i := range t.entries {
		if e := &t.entries[i]; e.id != 0 && !do(e.id, e.value) {
			return
		}
	}
}

// deleteIf forgets the ids for which gone is true, and the memory that is too
// much for the rest.
func (t *table[V]) deleteIf(gone func(id uint64, value V) bool) {
	old := *t
	*t = table[V]{}
	old.all(func(id uint64, value V) bool {
		if !gone(id, value) {
			t.set(id, value)
		}
		return true
	})
}

// clear forgets all ids and keeps the memory.
func (t *table[V]) clear() {
	clear(t.entries)
	*t = table[V]{entries: t.entries}
}
