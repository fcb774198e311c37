// Copyright The otelcol-sglang Authors
// SPDX-License-Identifier: Apache-2.0

package sched // import "github.com/otelcol-sglang/otelcol-sglang/engine/sched"

import (
	"errors"
	"fmt"

	"github.com/otelcol-sglang/otelcol-sglang/engine/ledger"
)

// Check is nil while every invariant holds: each request is in exactly one place,
// none is lost, those who run have memory and those who wait have none.
func (s *Scheduler) Check() error {
	return errors.Join(s.checkCounts(), s.checkRunning(), s.checkQueue(), s.Memory.Check())
}

func (s *Scheduler) checkCounts() error {
	live := 0
	for st, n := range s.counts[:stateEnded] {
		if n < 0 {
			return fmt.Errorf("%d requests in state %d", n, st)
		}
		live += n
	}
	if live != s.received-s.ended || s.counts[stateEnded] != s.ended {
		return fmt.Errorf("%d requests live, %d received and %d ended", live, s.received, s.ended)
	}
	var errs []error
	same := func(what string, got, want int) {
		if got != want {
			errs = append(errs, fmt.Errorf("%s: %d in the list, %d by state", what, got, want))
		}
	}
	same("inbox", len(s.inbox), s.counts[stateInbox])
	same("grammar", len(s.grammar), s.counts[stateGrammar])
	same("queue", len(s.queue), s.counts[stateQueued])
	same("running", s.runningNow(), s.counts[stateRunning])
	if !s.pd.on() {
		same("pd", 0, s.counts[statePD])
	}
	return errors.Join(errs...)
}

func (s *Scheduler) checkRunning() error {
	if s.ratio < 0 || s.ratio > 1 {
		return fmt.Errorf("new token ratio %g", s.ratio)
	}
	for i := range s.slots {
		sl := &s.slots[i]
		n := 0
		for _, w := range sl.running {
			if w.state != stateRunning {
				continue
			}
			n++
			switch {
			case w.holding == nil:
				return fmt.Errorf("%s runs without memory", w.r.ID)
			case w.slots < w.filled && s.Drafter == nil:
				return fmt.Errorf("%s has %d slots for %d tokens", w.r.ID, w.slots, w.filled)
			case s.inMemory(w) != w.slots:
				return fmt.Errorf("%s has %d slots, the memory says %d", w.r.ID, w.slots, s.inMemory(w))
			case w.outputs() > w.limit:
				return fmt.Errorf("%s has %d tokens of %d", w.r.ID, w.outputs(), w.limit)
			}
		}
		if n > s.runningLimit() {
			return fmt.Errorf("%d requests run, the limit is %d", n, s.runningLimit())
		}
		if w := sl.chunked; w != nil && (w.state != stateChunked || w.holding == nil) {
			return fmt.Errorf("%s is cut into chunks in state %d", w.r.ID, w.state)
		}
	}
	return nil
}

// inMemory is what the memory says that a request has, where it tells.
func (s *Scheduler) inMemory(w *work) int {
	if m, ok := s.Memory.(interface{ Allocated(h ledger.Holding) int }); ok {
		return m.Allocated(w.holding)
	}
	return w.slots
}

func (s *Scheduler) checkQueue() error {
	for _, w := range s.queue {
		if w.state != stateQueued || w.holding != nil {
			return fmt.Errorf("%s waits in state %d, with memory: %t", w.r.ID, w.state, w.holding != nil)
		}
	}
	if n := s.Args.MaxQueuedRequests; n > 0 && !s.pd.on() && len(s.queue) > n+s.runningLimit()*len(s.slots)+1 {
		return fmt.Errorf("%d requests wait, the limit is %d and those retracted", len(s.queue), n)
	}
	return nil
}
