// Copyright The otelcol-sglang Authors
// SPDX-License-Identifier: Apache-2.0

// Package seen remembers, in bounded memory, which spans were counted.
package seen // import "github.com/otelcol-sglang/otelcol-sglang/connector/genaimetricsconnector/internal/seen"

import (
	"hash/maphash"
	"time"
)

// Key is a span: its trace id and its span id.
type Key struct {
	Trace [16]byte
	Span  [8]byte
}

// Set remembers keys for at least a window and at most two. It is not safe for
// concurrent use.
//
// It has two halves. A key goes into the current one; when the window is over or
// the half is full, the current half becomes the former and the former is forgotten.
//
// Kept are 64-bit hashes with a random seed: among 200 000 keys a new one is taken
// for a known one with a probability of 10^-14.
type Set struct {
	seed            maphash.Seed
	window          time.Duration
	half            int
	current, former map[uint64]struct{}
	since           time.Time
	early           int64
}

// New returns a set of at most limit keys.
func New(window time.Duration, limit int) *Set {
	return &Set{
		seed: maphash.MakeSeed(), window: window, half: max(limit/2, 1),
		current: make(map[uint64]struct{}), former: make(map[uint64]struct{}),
	}
}

// Add remembers the key and tells whether it was new.
func (s *Set) Add(k Key, now time.Time) bool {
	s.turn(now)
	if len(s.current) >= s.half {
		s.early += int64(len(s.former))
		s.swap(now)
	}
	hash := s.hash(k)
	if _, ok := s.former[hash]; ok {
		return false
	}
	before := len(s.current)
	s.current[hash] = struct{}{}
	return len(s.current) > before
}

func (s *Set) hash(k Key) uint64 {
	var b [len(k.Trace) + len(k.Span)]byte
	copy(b[:], k.Trace[:])
	copy(b[len(k.Trace):], k.Span[:])
	return maphash.Bytes(s.seed, b[:])
}

// turn forgets what the window is over for.
func (s *Set) turn(now time.Time) {
	age := now.Sub(s.since)
	if age < s.window {
		return
	}
	if age >= 2*s.window {
		clear(s.current)
		s.swap(now)
		return
	}
	s.swap(s.since.Add(s.window))
}

// swap begins a window at since.
func (s *Set) swap(since time.Time) {
	s.current, s.former = s.former, s.current
	clear(s.current)
	s.since = since
}

// Len is the number of keys remembered.
func (s *Set) Len() int { return len(s.current) + len(s.former) }

// TakeForgottenEarly returns how many keys were forgotten for want of room since
// the last call.
func (s *Set) TakeForgottenEarly() int64 {
	n := s.early
	s.early = 0
	return n
}
