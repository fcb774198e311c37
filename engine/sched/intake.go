// Copyright The otelcol-sglang Authors
// SPDX-License-Identifier: Apache-2.0

package sched // import "github.com/otelcol-sglang/otelcol-sglang/engine/sched"

import (
	"fmt"
	"math"
	"net/http"
	"slices"
	"time"

	"github.com/otelcol-sglang/otelcol-sglang/engine/ledger"
	"github.com/otelcol-sglang/otelcol-sglang/internal/sglang"
)

// signal is something else that the loop reads when it comes by: an abort, or news
// of a PD queue.
type signal struct {
	w  *work
	do func(*Scheduler, *work)
}

// Receive takes a request that arrived on the scheduler's socket; the scheduler
// reads it when its loop comes by.
func (s *Scheduler) Receive(r *ledger.Request) {
	w := &work{r: r, seq: s.seq, seed: seedOf(r.ID), limit: limitOf(r), priority: s.priorityOf(r)}
	s.seq++
	w.ids = append(make([]int32, 0, len(r.Prompt)+w.limit+1), r.Prompt...)
	r.Output = w.ids[len(r.Prompt):]
	r.Work = w
	s.received++
	s.counts[stateInbox]++
	s.inbox = append(s.inbox, w)
	s.wake()
}

// Abort ends a request, wherever it is: its end comes through the hooks. One that
// is not here is ignored.
func (s *Scheduler) Abort(r *ledger.Request) {
	w, ok := r.Work.(*work)
	if !ok || w.state == stateEnded {
		return
	}
	s.signal(w, (*Scheduler).abort)
}

func (s *Scheduler) signal(w *work, do func(*Scheduler, *work)) {
	s.signals = append(s.signals, signal{w, do})
	s.wake()
}

func limitOf(r *ledger.Request) int {
	if r.Kind == ledger.KindEmbedding {
		return 0
	}
	if r.MaxTokens <= 0 {
		return max(1, r.OutputLen)
	}
	return max(1, min(r.OutputLen, r.MaxTokens))
}

// priorityOf turns a priority so that smaller goes first. A request without one
// comes last.
func (s *Scheduler) priorityOf(r *ledger.Request) int64 {
	switch {
	case !s.Args.EnablePriorityScheduling:
		return 0
	case r.Priority == nil:
		return math.MaxInt64
	case s.Args.SchedulePriorityLowFirst:
		return int64(*r.Priority)
	}
	return -int64(*r.Priority)
}

// intake reads what had arrived when the round began: requests in their order, then
// signals. What arrives meanwhile waits for the next round.
func (s *Scheduler) intake(requests, signals int) {
	for _, w := range s.inbox[:requests] {
		s.admit(w)
	}
	s.inbox = slices.Delete(s.inbox, 0, requests)
	for i := range signals {
		g := s.signals[i]
		g.do(s, g.w)
	}
	s.signals = slices.Delete(s.signals, 0, signals)
}

const (
	msgPriorityOff = "Using priority is disabled for this server. Please send a new request without a priority."
	msgQueueFull   = "The request queue is full."
	msgOutranked   = "The request is aborted by a higher priority request."
	msgOutOfMemory = "Out of memory even after retracting all other requests in the decode batch."
	msgTooLong     = "Input length (%d tokens) exceeds the maximum allowed length (%d tokens). Use a shorter input or enable --allow-auto-truncate."
)

// admit puts a request into its first queue, or refuses it.
func (s *Scheduler) admit(w *work) {
	r := w.r
	r.Sched.Received = w.received.At
	if n := w.prompt(); n >= s.maxLen {
		s.refuse(w, http.StatusBadRequest, fmt.Sprintf(msgTooLong, n, s.maxLen))
		return
	}
	w.limit = min(w.limit, s.maxLen-w.prompt())
	if w.limit > 0 {
		w.maxTokens = min(max(r.MaxTokens, w.limit), s.maxLen-w.prompt())
	}
	if r.Priority != nil && !s.Args.EnablePriorityScheduling && s.Args.AbortOnPriorityWhenDisabled {
		s.refuse(w, http.StatusServiceUnavailable, msgPriorityOff)
		return
	}
	if s.pd.on() {
		s.pd.add(s, w)
		return
	}
	if r.Structured {
		s.compile(w)
		return
	}
	s.process(w)
}

// grammarTime is what compiling a grammar takes, in a pool of threads.
const grammarTime = 40 * time.Millisecond

func (s *Scheduler) compile(w *work) {
	s.move(w, stateGrammar)
	s.grammar = append(s.grammar, w)
	s.Loop.After(grammarTime, func() { s.signal(w, (*Scheduler).compiled) })
}

func (s *Scheduler) compiled(w *work) {
	if w.state == stateGrammar {
		s.grammar = remove(s.grammar, w)
		s.process(w)
	}
}

// process ends a request's way into the waiting queue, or refuses it: the limit
// holds for those whose grammar was compiled too.
func (s *Scheduler) process(w *work) {
	r := w.r
	if !s.makeRoom(w) {
		s.refuse(w, http.StatusServiceUnavailable, msgQueueFull)
		return
	}
	at := s.reading(s.Loop.Now())
	s.slice(r, sglang.StageRequestProcess, w.received, at)
	s.stageLatency(sglang.StageRequestProcess, w.received, at)
	s.enqueue(w)
}

// makeRoom: a full queue lets a request in for one that goes after it, the last of
// those.
func (s *Scheduler) makeRoom(w *work) bool {
	limit := s.Args.MaxQueuedRequests
	if limit <= 0 || len(s.queue) < limit {
		return true
	}
	if !s.Args.EnablePriorityScheduling {
		return false
	}
	last := slices.MaxFunc(s.queue, comesAfter)
	if w.priority >= last.priority {
		return false
	}
	s.dequeue(last)
	s.refuse(last, http.StatusServiceUnavailable, msgOutranked)
	return true
}

// comesAfter orders by priority, then arrival.
func comesAfter(a, b *work) int {
	if a.priority != b.priority {
		if a.priority < b.priority {
			return -1
		}
		return 1
	}
	return int(int64(a.seq) - int64(b.seq))
}

func (s *Scheduler) enqueue(w *work) {
	w.queued = s.reading(s.Loop.Now())
	if w.r.Sched.FirstQueued == ledger.Unset {
		w.r.Sched.FirstQueued = w.queued.At
	}
	s.move(w, stateQueued)
	s.queue = append(s.queue, w)
}

func (s *Scheduler) dequeue(w *work) { s.queue = remove(s.queue, w) }

func remove(ws []*work, w *work) []*work {
	if i := slices.Index(ws, w); i >= 0 {
		return slices.Delete(ws, i, i+1)
	}
	return ws
}

// refuse ends a request that did not run, with an error for the client.
func (s *Scheduler) refuse(w *work, status int, message string) {
	w.r.AbortStatus, w.r.AbortMessage = status, message
	s.drop(w, false)
}

// abort ends a request that the client gave up. One that runs ends with its next
// result.
func (s *Scheduler) abort(w *work) {
	switch w.state {
	case stateGrammar:
		s.grammar = remove(s.grammar, w)
		s.drop(w, true)
	case stateQueued:
		s.dequeue(w)
		s.drop(w, true)
	case statePD:
		s.pd.abort(s, w)
	case stateChunked, stateRunning:
		w.aborted = true
	}
}

// drop ends a request in a queue. The thread of one that the client gave up ends
// only when the object is collected, some time later.
func (s *Scheduler) drop(w *work, collected bool) {
	r := w.r
	s.release(w)
	s.Memory.Forget(r)
	r.Finish = ledger.FinishAbort
	w.epoch++
	s.end(w)
	if collected {
		at := s.Loop.Now() + collectAfter + time.Duration(s.rng.Int64N(int64(collectSpread)))
		s.Loop.At(at, func() { s.endThread(r, s.reading(at), true) })
	} else {
		s.endThread(r, s.reading(s.Loop.Now()), false)
	}
	if s.Dropped != nil {
		s.Dropped(r)
	}
}

// Python's collector comes by when it comes by.
const (
	collectAfter  = 20 * time.Millisecond
	collectSpread = 100 * time.Millisecond
)

func (s *Scheduler) end(w *work) {
	w.r.Sched.Done = s.Loop.Now()
	s.pd.part(w)
	s.move(w, stateEnded)
	s.ended++
}

// release gives the KV back without keeping it.
func (s *Scheduler) release(w *work) {
	if w.holding != nil {
		s.Memory.Release(w.holding)
	}
	s.unreserve(w)
	s.unlockAdapter(w)
	w.holding, w.filled, w.slots = nil, 0, 0
}
