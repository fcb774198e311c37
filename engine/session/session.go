// Copyright The otelcol-sglang Authors
// SPDX-License-Identifier: Apache-2.0

// Package session is the table of streaming sessions: conversations whose KV stays
// in a slot between turns, outside the prefix tree, so that the next turn goes on
// where the last one ended.
package session // import "github.com/otelcol-sglang/otelcol-sglang/engine/session"

import (
	"slices"
	"time"
)

// Slot is what a session holds between turns.
type Slot[H any] struct {
	// Tokens are those whose KV the slot has.
	Tokens []int32
	Held   H

	idle bool // no turn runs
	used time.Duration
}

// Table is the sessions of one scheduler; H is the memory's holding.
type Table[H any] struct {
	slots map[string]*Slot[H]
}

// NewTable returns a table without sessions.
func NewTable[H any]() *Table[H] { return &Table[H]{slots: make(map[string]*Slot[H])} }

// Open is the number of sessions with a slot, also while a turn runs.
func (t *Table[H]) Open() int { return len(t.slots) }

// Continues finds the slot that a prompt goes on from: one whose turn has ended and
// whose tokens the prompt begins with and goes beyond.
func (t *Table[H]) Continues(id string, prompt []int32) *Slot[H] {
	s := t.slots[id]
	if s == nil || !s.idle || len(prompt) <= len(s.Tokens) || !slices.Equal(s.Tokens, prompt[:len(s.Tokens)]) {
		return nil
	}
	return s
}

// Busy tells whether a turn of the session runs. A session has one at a time.
func (t *Table[H]) Busy(id string) bool {
	s := t.slots[id]
	return s != nil && !s.idle
}

// Start begins a turn. The slot is idle no more; what it held is the caller's.
func (t *Table[H]) Start(id string) (s *Slot[H], held H, was bool) {
	s = t.slots[id]
	if s == nil {
		s = &Slot[H]{}
		t.slots[id] = s
	}
	was = s.idle
	held, s.Held = s.Held, held
	s.idle, s.Tokens = false, nil
	return s, held, was
}

// End keeps what the turn leaves; false if the session was closed meanwhile.
func (t *Table[H]) End(id string, s *Slot[H], tokens []int32, held H, now time.Duration) bool {
	if t.slots[id] != s {
		return false
	}
	s.Tokens, s.Held, s.idle, s.used = slices.Clone(tokens), held, true, now
	return true
}

// Drop closes a session whose turn failed, unless another has its name by now.
func (t *Table[H]) Drop(id string, s *Slot[H]) {
	if t.slots[id] == s {
		delete(t.slots, id)
	}
}

// Close removes a session and returns what it held; nothing while a turn runs,
// whose end then finds no session.
func (t *Table[H]) Close(id string) (held H, was bool) {
	s := t.slots[id]
	if s == nil {
		return held, false
	}
	delete(t.slots, id)
	return s.Held, s.idle
}

// Stale are the sessions, in the order of their names, whose last turn ended at a
// time or before.
func (t *Table[H]) Stale(before time.Duration) []string {
	var ids []string
	for id, s := range t.slots {
		if s.idle && s.used <= before {
			ids = append(ids, id)
		}
	}
	slices.Sort(ids)
	return ids
}

// Held visits what idle slots hold.
func (t *Table[H]) Held(f func(H)) {
	for _, s := range t.slots {
		if s.idle {
			f(s.Held)
		}
	}
}
