// Copyright The otelcol-sglang Authors
// SPDX-License-Identifier: Apache-2.0

package series // import "github.com/otelcol-sglang/otelcol-sglang/processor/rankdedupprocessor/internal/series"

import (
	"sync"
	"sync/atomic"
	"time"
)

// Limits bound a store. Both must be positive.
type Limits struct {
	// MaxSeries is the number of remembered series, one per rank.
	MaxSeries int64
	// Idle is how long an engine or a series is remembered unseen.
	Idle time.Duration
}

// Store remembers engines. It is safe for concurrent use.
type Store struct {
	limits  Limits
	tracked atomic.Int64

	mu      sync.Mutex // guards what follows; never held together with an engine's
	engines map[string]*Engine
	swept   time.Time
}

// NewStore makes an empty store.
func NewStore(l Limits) *Store {
	return &Store{limits: l, engines: map[string]*Engine{}}
}

// Tracked is the number of remembered series.
func (s *Store) Tracked() int64 { return s.tracked.Load() }

// Engines is the number of remembered engines.
func (s *Store) Engines() int64 {
	s.mu.Lock()
	defer s.mu.Unlock()
	return int64(len(s.engines))
}

// Acquire finds or makes the engine of an identity and locks it; the caller
// releases it with [Engine.Release].
func (s *Store) Acquire(identity []byte, now time.Time) *Engine {
	e := s.engine(identity, now)
	e.mu.Lock()
	if now.Sub(e.swept) > s.limits.Idle/2 {
		e.sweep(now)
	}
	e.now = now
	return e
}

func (s *Store) engine(identity []byte, now time.Time) *Engine {
	s.mu.Lock()
	defer s.mu.Unlock()
	if now.Sub(s.swept) > s.limits.Idle/2 {
		s.sweep(now)
	}
	e := s.engines[string(identity)]
	if e == nil {
		e = &Engine{store: s, groups: map[string]*group{}, swept: now, evidence: map[uint64]evidence{}}
		if int64(len(s.engines)) < s.limits.MaxSeries {
			s.engines[string(identity)] = e
		}
	}
	if now.After(e.seen) {
		e.seen = now
	}
	return e
}

// sweep forgets engines. One that a caller holds was seen just before, so it stays.
func (s *Store) sweep(now time.Time) {
	s.swept = now
	for id, e := range s.engines {
		if now.Sub(e.seen) > s.limits.Idle {
			s.tracked.Add(-e.tracked.Load())
			delete(s.engines, id)
		}
	}
}

// Engine is one metrics page: its series, and what they were at the last scrape.
type Engine struct {
	store *Store
	seen  time.Time // guarded by the store's lock
	// tracked is this engine's share of the store's.
	tracked atomic.Int64

	mu     sync.Mutex // guards what follows
	groups map[string]*group
	// passing are the keys of groups that last for one batch.
	passing []string
	now     time.Time
	swept   time.Time
	// epoch counts restarts; a group of an older epoch begins anew.
	epoch int
	// lastTS is the newest time folded; floor is the one before the last restart:
	// nothing of this epoch began earlier.
	lastTS, floor uint64
	// batches and wave number the batches and the rounds of points folded.
	batches, wave uint64

	evidence map[uint64]evidence
}

// Release unlocks the engine.
func (e *Engine) Release() { e.mu.Unlock() }

func (e *Engine) sweep(now time.Time) {
	e.swept = now
	for key, g := range e.groups {
		if now.Sub(g.seen) > e.store.limits.Idle {
			e.forget(g)
			delete(e.groups, key)
		}
	}
}

// forget gives the room of a group back that goes.
func (e *Engine) forget(g *group) {
	n := int64(0)
	for _, r := range g.ranks {
		if !r.transient {
			n++
		}
	}
	g.ranks = nil
	e.count(-n)
}

func (e *Engine) count(n int64) {
	e.tracked.Add(n)
	e.store.tracked.Add(n)
}

func (e *Engine) group(key []byte, rule Rule, kind Kind) *group {
	if g := e.groups[string(key)]; g != nil {
		g.rule, g.kind = rule, kind
		return g
	}
	g := &group{rule: rule, kind: kind, epoch: e.epoch, stored: !e.full()}
	k := string(key)
	e.groups[k] = g
	if !g.stored {
		e.passing = append(e.passing, k)
	}
	return g
}

// endBatch forgets what there was no room for.
func (e *Engine) endBatch() {
	for _, k := range e.passing {
		delete(e.groups, k)
	}
	clear(e.passing)
	e.passing = e.passing[:0]
}

func (e *Engine) full() bool { return e.store.tracked.Load() >= e.store.limits.MaxSeries }
