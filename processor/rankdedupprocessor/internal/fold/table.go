// Copyright The otelcol-sglang Authors
// SPDX-License-Identifier: Apache-2.0

package fold // import "github.com/otelcol-sglang/otelcol-sglang/processor/rankdedupprocessor/internal/fold"

import (
	"math/bits"
	"math/rand/v2"
)

// table maps span ids to what they stand for. There is one look-up or more per
// span, in the tables of ever other traces, so that memory not in cache is what
// costs. Most ids that are looked up are new: the tags, of which a line of memory
// has 64, tell that without the entries.
type table[V any] struct {
	entries []tableEntry[V] // open addressing; a power of two, at most three quarters full
	tags    []uint8         // of the entries: bits of the id's hash, 0 of a free one
	used    int
}

type tableEntry[V any] struct {
	id    uint64
	value V
}

// tableSeed makes collisions unpredictable for who chooses the ids; odd.
var tableSeed = rand.Uint64() | 1

const leastEntries = 8

// at returns the index of the id's entry, or of the free one where it belongs,
// and the id's tag.
func (t *table[V]) at(id uint64) (i int, tag uint8) {
	hash := id * tableSeed
	mask := len(t.tags) - 1
	i, tag = int(hash>>(64-bits.Len(uint(mask)))), uint8(hash>>24)|1
	for t.tags[i] != 0 && (t.tags[i] != tag || t.entries[i].id != id) {
		i = (i + 1) & mask
	}
	return i, tag
}

// get returns the value of the id, and whether it has one.
func (t *table[V]) get(id uint64) (value V, known bool) {
	if t.used == 0 {
		return value, false
	}
	i, _ := t.at(id)
	if t.tags[i] == 0 {
		return value, false
	}
	return t.entries[i].value, true
}

// set gives the id a value. It reports whether it had none.
func (t *table[V]) set(id uint64, value V) (added bool) {
	if 4*(t.used+1) > 3*len(t.entries) {
		t.resize(max(leastEntries, 2*len(t.entries)))
	}
	i, tag := t.at(id)
	if added = t.tags[i] == 0; added {
		t.tags[i] = tag
		t.used++
	}
	t.entries[i] = tableEntry[V]{id, value}
	return added
}

func (t *table[V]) resize(entries int) {
	old := *t
	t.entries, t.tags = make([]tableEntry[V], entries), make([]uint8, entries)
	for i := range old.entries {
		if old.tags[i] != 0 {
			to, tag := t.at(old.entries[i].id)
			t.entries[to], t.tags[to] = old.entries[i], tag
		}
	}
}

func (t *table[V]) len() int { return t.used }

// all calls do for every id until it returns false.
func (t *table[V]) all(do func(id uint64, value V) bool) {
	for i := range t.entries {
		if e := &t.entries[i]; t.tags[i] != 0 && !do(e.id, e.value) {
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
	clear(t.tags)
	*t = table[V]{entries: t.entries, tags: t.tags}
}
