// Copyright The otelcol-sglang Authors
// SPDX-License-Identifier: Apache-2.0

// Package pdjoin finds the prefill half and the decode half of one request on
// disaggregated engines (PD). A Table is not safe for concurrent use.
package pdjoin // import "github.com/otelcol-sglang/otelcol-sglang/processor/genaiprocessor/internal/pdjoin"

import (
	"container/list"
	"time"
)

// Half is one half of a request.
type Half struct {
	Trace [16]byte
	Root  uint64
	// Decode is false for the prefill half.
	Decode bool
	// Room is the bootstrap room, 0 if the root names none.
	Room uint64
	// External says that the trace was begun by a caller, so that the other half
	// may be in it.
	External bool
	// Held is true while the half's root waits here; false once it left and only
	// its numbers stay.
	Held bool
	// Bytes is about what stays of it in memory once its root left.
	Bytes int
	// Value is the caller's.
	Value any

	until time.Time
	entry *list.Element
}

// Limits bound a table.
type Limits struct {
	// Wait is how long a root waits for its other half.
	Wait time.Duration
	// Keep is how long the numbers of a half stay after its root left: the decode
	// half ends later than the prefill half by the whole decode.
	Keep time.Duration
	// Halves is how many are kept at most, Bytes how much those may take whose
	// root has left.
	Halves, Bytes int
}

// Table holds the halves that have no pair.
type Table struct {
	limits  Limits
	byRoom  [2]map[uint64]*Half
	byTrace [2]map[[16]byte][]*Half
	// held and kept are in order of arrival.
	held, kept *list.List
	keptBytes  int
	// used are rooms that made a pair, with the time at which they may again.
	used  map[uint64]time.Time
	since *list.List
}

type usedRoom struct {
	room  uint64
	until time.Time
}

// New returns an empty table.
func New(limits Limits) *Table {
	t := &Table{limits: limits, held: list.New(), kept: list.New(), since: list.New(), used: make(map[uint64]time.Time)}
	for i := range t.byRoom {
		t.byRoom[i] = make(map[uint64]*Half)
		t.byTrace[i] = make(map[[16]byte][]*Half)
	}
	return t
}

func side(decode bool) int {
	if decode {
		return 1
	}
	return 0
}

// Joinable reports whether a half names anything to join it by.
func (h *Half) Joinable() bool { return h.Room != 0 || h.External }

// Offer returns the half's pair, and takes the pair out; or keeps the half and
// returns nil. A room makes one pair: a second half with a room that has one,
// and a half that names nothing to join by, is not kept and stays alone.
func (t *Table) Offer(h *Half, now time.Time) (pair *Half, kept bool) {
	if !h.Joinable() || t.isUsed(h.Room) {
		return nil, false
	}
	if pair = t.find(h); pair != nil {
		t.drop(pair)
		t.use(h.Room|pair.Room, now)
		return pair, true
	}
	return nil, t.keep(h, now)
}

func (t *Table) isUsed(room uint64) bool {
	_, used := t.used[room]
	return used && room != 0
}

func (t *Table) use(room uint64, now time.Time) {
	if room == 0 {
		return
	}
	until := now.Add(t.limits.Keep)
	t.used[room] = until
	t.since.PushBack(usedRoom{room, until})
	for t.since.Len() > t.limits.Halves {
		t.forgetRoom(t.since.Front())
	}
}

func (t *Table) forgetRoom(e *list.Element) {
	r := t.since.Remove(e).(usedRoom)
	if t.used[r.room].Equal(r.until) {
		delete(t.used, r.room)
	}
}

// find looks by room first; then, if one of the two names no room, in the trace,
// where the pair must be the only one that it can be.
func (t *Table) find(h *Half) *Half {
	other := side(!h.Decode)
	if h.Room != 0 {
		if pair := t.byRoom[other][h.Room]; pair != nil {
			return pair
		}
	}
	if !h.External {
		return nil
	}
	var found *Half
	for _, pair := range t.byTrace[other][h.Trace] {
		if pair.Room != 0 && h.Room != 0 {
			continue // two rooms: another attempt of a request that was tried again
		}
		if found != nil {
			return nil
		}
		found = pair
	}
	return found
}

func (t *Table) keep(h *Half, now time.Time) bool {
	s := side(h.Decode)
	if h.Room != 0 {
		if old := t.byRoom[s][h.Room]; old != nil {
			return false
		}
		t.byRoom[s][h.Room] = h
	}
	if h.External {
		t.byTrace[s][h.Trace] = append(t.byTrace[s][h.Trace], h)
	}
	h.Held, h.until = true, now.Add(t.limits.Wait)
	h.entry = t.held.PushBack(h)
	return true
}

func (t *Table) drop(h *Half) {
	if h.Held {
		t.held.Remove(h.entry)
	} else {
		t.kept.Remove(h.entry)
		t.keptBytes -= h.Bytes
	}
	s := side(h.Decode)
	if t.byRoom[s][h.Room] == h {
		delete(t.byRoom[s], h.Room)
	}
	if !h.External {
		return
	}
	rest := t.byTrace[s][h.Trace][:0]
	for _, o := range t.byTrace[s][h.Trace] {
		if o != h {
			rest = append(rest, o)
		}
	}
	if t.byTrace[s][h.Trace] = rest; len(rest) == 0 {
		delete(t.byTrace[s], h.Trace)
	}
}

// Expire hands over the halves whose root has waited long enough; their numbers
// stay for a while. With all it hands over every held one.
func (t *Table) Expire(now time.Time, all bool, take func(*Half)) {
	for e := t.held.Front(); e != nil; e = t.held.Front() {
		h := e.Value.(*Half)
		if !all && h.until.After(now) {
			break
		}
		t.retire(h, now)
		take(h)
	}
	for e := t.kept.Front(); e != nil && !e.Value.(*Half).until.After(now); e = t.kept.Front() {
		t.drop(e.Value.(*Half))
	}
	for e := t.since.Front(); e != nil && !e.Value.(usedRoom).until.After(now); e = t.since.Front() {
		t.forgetRoom(e)
	}
}

// Crowded says that more halves wait than there may be.
func (t *Table) Crowded() bool { return t.held.Len() > t.limits.Halves }

// Evict hands over the oldest held half before its time; false if there is none.
func (t *Table) Evict(now time.Time, take func(*Half)) bool {
	e := t.held.Front()
	if e == nil {
		return false
	}
	h := e.Value.(*Half)
	t.retire(h, now)
	take(h)
	return true
}

func (t *Table) retire(h *Half, now time.Time) {
	t.held.Remove(h.entry)
	h.Held, h.until = false, now.Add(t.limits.Keep)
	h.entry = t.kept.PushBack(h)
	t.keptBytes += h.Bytes
	for t.kept.Len() > t.limits.Halves || t.kept.Len() > 0 && t.keptBytes > t.limits.Bytes {
		t.drop(t.kept.Front().Value.(*Half))
	}
}

// Len is the number of halves whose root waits, and of those of which only
// numbers stay.
func (t *Table) Len() (held, kept int) { return t.held.Len(), t.kept.Len() }
