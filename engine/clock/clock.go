// Copyright The otelcol-sglang Authors
// SPDX-License-Identifier: Apache-2.0

// Package clock drives the simulated engine: one loop runs everything that
// happens in an engine, in the order of engine time, on one goroutine. The same
// code runs on a virtual clock (as fast as the machine can, the same for the same
// seed) and in real time (scaled if wanted).
package clock // import "github.com/otelcol-sglang/otelcol-sglang/engine/clock"

import (
	"context"
	"errors"
	"sync"
	"sync/atomic"
	"time"
)

// Loop is a queue of things to do at points of engine time. Engine time is
// monotonic and starts at 0; [Loop.Wall] converts. All methods but Post, Now and
// Wall belong to the loop's goroutine (or to whoever built it, before Run).
type Loop struct {
	start time.Time
	// scale is engine seconds per real second; 0 is the virtual clock.
	scale float64

	queue eventQueue
	seq   uint64
	// now is written by the loop's goroutine alone; any may read it.
	now atomic.Int64

	mu sync.Mutex
	// posted is guarded by mu; waiting is 0 while it is empty.
	posted  []func()
	waiting atomic.Int32
	arrived chan struct{}
}

// NewVirtual returns a loop whose time jumps from event to event. start is the
// wall time of engine time 0.
func NewVirtual(start time.Time) *Loop {
	return &Loop{start: start, arrived: make(chan struct{}, 1)}
}

// NewReal returns a loop whose time passes as the machine's does, scale times as
// fast. Scale must be above 0.
func NewReal(scale float64) *Loop {
	l := NewVirtual(time.Now())
	l.scale = scale
	return l
}

// Virtual tells whether time jumps.
func (l *Loop) Virtual() bool { return l.scale == 0 }

// Now is the engine time: on a virtual clock, and for the loop's own goroutine,
// that of the event that runs.
func (l *Loop) Now() time.Duration { return time.Duration(l.now.Load()) }

// Wall converts an engine time to wall time.
func (l *Loop) Wall(t time.Duration) time.Time { return l.start.Add(t) }

// At runs f at engine time t, or as soon as possible if that has passed. Things
// due at one time run in the order in which they were asked for.
func (l *Loop) At(t time.Duration, f func()) {
	l.seq++
	l.queue.push(event{at: max(t, l.Now()), seq: l.seq, run: f})
}

// After runs f when d of engine time has passed.
func (l *Loop) After(d time.Duration, f func()) { l.At(l.Now()+d, f) }

// Post runs f soon; any goroutine may call it.
func (l *Loop) Post(f func()) {
	l.mu.Lock()
	l.posted = append(l.posted, f)
	l.waiting.Store(1)
	l.mu.Unlock()
	select {
	case l.arrived <- struct{}{}:
	default:
	}
}

// Run works until ctx is done, which is no error. On a virtual clock it ends when
// nothing is left to do, too.
func (l *Loop) Run(ctx context.Context) error {
	for {
		if err := ctx.Err(); err != nil {
			return ignoreDone(err)
		}
		l.takePosted()
		if l.Virtual() {
			if !l.step() {
				return nil
			}
			continue
		}
		if !l.wait(ctx) {
			continue
		}
		l.step()
	}
}

// RunUntil runs a virtual loop up to engine time t, at which Now stands afterwards.
func (l *Loop) RunUntil(t time.Duration) {
	for {
		l.takePosted()
		if len(l.queue) == 0 || l.queue[0].at > t {
			break
		}
		l.step()
	}
	l.advance(t)
}

func ignoreDone(err error) error {
	if errors.Is(err, context.Canceled) || errors.Is(err, context.DeadlineExceeded) {
		return nil
	}
	return err
}

// step runs the first event.
func (l *Loop) step() bool {
	if len(l.queue) == 0 {
		return false
	}
	e := l.queue.pop()
	l.advance(e.at)
	e.run()
	return true
}

func (l *Loop) advance(t time.Duration) {
	if t > l.Now() {
		l.now.Store(int64(t))
	}
}

// wait sleeps until the first event is due; false if something was posted first.
func (l *Loop) wait(ctx context.Context) bool {
	// An hour is only a bound: whatever comes up wakes the loop.
	sleep := time.Hour
	if len(l.queue) > 0 {
		sleep = l.realUntil(l.queue[0].at)
	}
	if sleep <= 0 {
		return true
	}
	timer := time.NewTimer(sleep)
	defer timer.Stop()
	select {
	case <-ctx.Done():
	case <-l.arrived:
	case <-timer.C:
		return len(l.queue) > 0
	}
	return false
}

func (l *Loop) realUntil(t time.Duration) time.Duration {
	elapsed := time.Duration(float64(time.Since(l.start)) * l.scale)
	return time.Duration(float64(t-elapsed) / l.scale)
}

func (l *Loop) takePosted() {
	if l.waiting.Load() == 0 {
		return
	}
	l.mu.Lock()
	fs := l.posted
	l.posted = nil
	l.waiting.Store(0)
	l.mu.Unlock()
	if len(fs) > 0 && !l.Virtual() {
		l.advance(time.Duration(float64(time.Since(l.start)) * l.scale))
	}
	for _, f := range fs {
		f()
	}
}

type event struct {
	at  time.Duration
	seq uint64
	run func()
}

func (e *event) before(o *event) bool {
	if e.at != o.at {
		return e.at < o.at
	}
	return e.seq < o.seq
}

// eventQueue is a binary heap: whoever is first is at its root. (container/heap would
// allocate for each event.)
type eventQueue []event

func (q *eventQueue) push(e event) {
	h := append(*q, e)
	*q = h
	i := len(h) - 1
	for i > 0 {
		parent := (i - 1) / 2
		if !e.before(&h[parent]) {
			break
		}
		h[i] = h[parent]
		i = parent
	}
	h[i] = e
}

// pop takes the first of a queue that is not empty.
func (q *eventQueue) pop() event {
	h := *q
	first, last := h[0], h[len(h)-1]
	h[len(h)-1] = event{} // what it refers to is free
	h = h[:len(h)-1]
	*q = h
	if len(h) > 0 {
		h.sink(last)
	}
	return first
}

// sink puts e at the root's place or below, where it belongs.
func (q eventQueue) sink(e event) {
	i := 0
	for {
		child := 2*i + 1
		if child >= len(q) {
			break
		}
		if right := child + 1; right < len(q) && q[right].before(&q[child]) {
			child = right
		}
		if !q[child].before(&e) {
			break
		}
		q[i] = q[child]
		i = child
	}
	q[i] = e
}
