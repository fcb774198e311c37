// Copyright The otelcol-sglang Authors
// SPDX-License-Identifier: Apache-2.0

package replay // import "github.com/otelcol-sglang/otelcol-sglang/cmd/sglangctl/internal/replay"

import (
	"context"
	"sync"
	"time"

	"github.com/otelcol-sglang/otelcol-sglang/internal/capture"
)

// maxOverlap bounds the repetitions of one engine that are under way at once.
const maxOverlap = 64

// engine is one copy of a capture: its processes and what they send when.
type engine struct {
	id      identity
	exports []capture.Export
	// due is when each export leaves, counted from a repetition's start.
	due     []time.Duration
	senders map[string]*sender
}

// schedule keeps the recorded pauses, each cut to maxGap and divided by speed.
func schedule(exports []capture.Export, speed float64, maxGap time.Duration) []time.Duration {
	due := make([]time.Duration, len(exports))
	var at time.Duration
	for i := range exports {
		if i > 0 {
			gap := min(max(exports[i].At.Sub(exports[i-1].At), 0), maxGap)
			at += time.Duration(float64(gap) / speed)
		}
		due[i] = at
	}
	return due
}

// shift returns what turns recorded times into those of a repetition that
// starts at start: one amount for all, so that spans keep their durations and
// distances, and the largest with which nothing arrives before it happened.
func (e *engine) shift(start time.Time) time.Duration {
	var shift time.Duration
	for i, x := range e.exports {
		if d := start.Add(e.due[i]).Sub(x.At); i == 0 || d < shift {
			shift = d
		}
	}
	return shift
}

// run plays repetitions and returns when all are sent; first is called once,
// after the first repetition or where there was none.
func (e *engine) run(ctx context.Context, o Options, first func()) {
	var once sync.Once
	defer once.Do(first)
	var running sync.WaitGroup
	defer running.Wait()
	slots := make(chan struct{}, overlap(o.Rate))
	start := time.Now()
	for n := 0; o.Repeat == 0 || n < o.Repeat; n++ {
		if !sleep(ctx, time.Until(start.Add(startOf(n, o.Rate)))) {
			return
		}
		select {
		case slots <- struct{}{}:
		case <-ctx.Done():
			return
		}
		running.Go(func() {
			e.play(ctx, n)
			once.Do(first)
			<-slots
		})
	}
}

// overlap is the number of repetitions that may be under way at once.
func overlap(rate float64) int {
	if rate == 0 {
		return 1
	}
	return maxOverlap
}

// startOf is when repetition n starts at the earliest.
func startOf(n int, rate float64) time.Duration {
	if rate == 0 {
		return 0
	}
	return time.Duration(float64(n) / rate * float64(time.Second))
}

// play sends one repetition and waits until every export was sent or given up.
func (e *engine) play(ctx context.Context, n int) {
	start := time.Now()
	change := rewrite{engine: e.id, run: e.id.derive(uint64(n) + 1), shift: e.shift(start)}
	var sent sync.WaitGroup
	defer sent.Wait()
	for i, x := range e.exports {
		if !sleep(ctx, time.Until(start.Add(e.due[i]))) {
			return
		}
		sent.Add(1)
		select {
		case e.senders[x.Peer].queue <- job{traces: change.apply(x.Traces), done: sent.Done}:
		case <-ctx.Done():
			sent.Done()
			return
		}
	}
}
