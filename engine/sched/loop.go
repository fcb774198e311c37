// Copyright The otelcol-sglang Authors
// SPDX-License-Identifier: Apache-2.0

package sched // import "github.com/otelcol-sglang/otelcol-sglang/engine/sched"

import (
	"time"

	"github.com/otelcol-sglang/otelcol-sglang/engine/cost"
	"github.com/otelcol-sglang/otelcol-sglang/engine/dp"
	"github.com/otelcol-sglang/otelcol-sglang/internal/sglang"
)

// CPU times of the loop's stages.
const (
	costLoop       = 15 * time.Microsecond // other
	costRecv       = 10 * time.Microsecond
	costInput      = 120 * time.Microsecond // per request
	costChoose     = 40 * time.Microsecond
	costChooseEach = 500 * time.Nanosecond // per request of the batch
	costLaunch     = 180 * time.Microsecond
	costResult     = 30 * time.Microsecond
	costResultEach = 2 * time.Microsecond
	costQueue      = 5 * time.Microsecond // PD queues
	costSanity     = 2 * time.Microsecond

	// A waiting queue that nothing can be taken from is looked at again, less and
	// less often: a prefetch runs, or the pool is short.
	pollFirst = time.Millisecond
	pollLast  = 250 * time.Millisecond
)

// wake starts the loop if it stands.
func (s *Scheduler) wake() {
	if !s.idle || s.waking {
		return
	}
	s.waking = true
	s.Loop.After(0, s.awake)
}

func (s *Scheduler) awake() {
	s.waking = false
	if !s.idle {
		return
	}
	s.Settle()
	s.idle = false
	s.iterate()
}

// Join implements [dp.Member].
func (s *Scheduler) Join() { s.wake() }

// Settle brings what grows with time up to date, as before a scrape: idle seconds,
// and the age of the throughput.
func (s *Scheduler) Settle() {
	now := s.Loop.Now()
	if s.idle && now > s.idleSince {
		d := now - s.idleSince
		s.idleSince = now
		for _, c := range s.Collectors {
			c.Idle(d)
		}
	}
	s.reports.expire(s, now)
}

// iterate begins a round: read what arrived.
func (s *Scheduler) iterate() {
	s.step++
	now := s.Loop.Now()
	s.loopTime(sglang.LoopOther, now, costLoop+s.stall)
	t := now + costLoop + s.stall
	s.loopTime(sglang.LoopRecvRequests, t, costRecv)
	t += costRecv
	requests, signals := len(s.inbox), len(s.signals)
	for _, w := range s.inbox {
		w.received = s.reading(now)
	}
	if requests+signals == 0 {
		s.choose(t)
		return
	}
	d := time.Duration(requests+signals) * costInput
	s.loopTime(sglang.LoopProcessInputRequests, t, d)
	s.Loop.At(t+d, func() {
		s.intake(requests, signals)
		s.choose(s.Loop.Now())
	})
}

// choose makes the next batch and launches it. t is when the CPU is ready, not
// before now.
func (s *Scheduler) choose(t time.Duration) {
	if s.pd.on() {
		s.loopTime(sglang.LoopProcessQueue, t, costQueue)
		t += costQueue
		s.pd.pump(s)
	}
	var b *batch
	advance := s.slots[s.current].last == 0 || len(s.slots) == 1
	if advance && !s.paused {
		b = s.nextBatch(s.current)
	}
	d := costChoose + s.Memory.Took() + s.loading
	s.loading = 0
	if b != nil {
		d += time.Duration(len(b.entries)) * costChooseEach
	}
	s.loopTime(sglang.LoopGetNextBatch, t, d)
	if advance {
		s.current = (s.current + 1) % len(s.slots)
	}
	s.Loop.At(t+d, func() { s.meet(b) })
}

// meet lets the groups of attention DP agree on the step.
func (s *Scheduler) meet(b *batch) {
	if s.Sync == nil {
		s.launch(b, nil)
		return
	}
	o := dp.Offer{Free: s.free}
	if b != nil {
		o.Work, o.Prefill = b.pass, b.mode == modePrefill
	}
	from := s.Loop.Now()
	s.Sync.Arrive(s.Places[0].DPRank, o, func(out dp.Outcome) {
		s.waited(sglang.LoopGetNextBatch, from, s.Loop.Now())
		s.launch(b, &out)
	})
}

// launch puts a batch on the GPUs.
func (s *Scheduler) launch(b *batch, out *dp.Outcome) {
	now := s.Loop.Now()
	if out != nil && !out.None {
		b = s.joined(b, out)
	}
	if b != nil {
		s.price(b, out, now)
		s.inflight = append(s.inflight, b)
		s.slots[b.slot].last++
		s.onLaunch(b)
		s.loopTime(sglang.LoopRunBatch, now, costLaunch)
	}
	s.proceed(b, now)
}

// proceed goes on after a launch, or after there was nothing to launch.
func (s *Scheduler) proceed(b *batch, now time.Duration) {
	ready := now
	if b != nil {
		ready += costLaunch
	}
	switch {
	case len(s.inflight) > s.depth, b == nil && len(s.inflight) > 0:
		done := max(ready, s.inflight[0].done)
		s.waited(sglang.LoopProcessBatchResult, ready, done)
		s.Loop.At(done, s.finishOldest)
	case b != nil:
		s.poll = 0
		s.Loop.At(ready, s.iterate)
	case s.anySlotBusy():
		s.Loop.At(ready, s.iterate)
	default:
		s.stand(now)
	}
}

// anySlotBusy: another micro-batch has requests.
func (s *Scheduler) anySlotBusy() bool {
	if len(s.slots) == 1 || s.paused {
		return false
	}
	for i := range s.slots {
		if len(s.slots[i].running) > 0 || s.slots[i].chunked != nil {
			return true
		}
	}
	return false
}

// stand stops the loop until something comes.
func (s *Scheduler) stand(now time.Duration) {
	if len(s.inbox)+len(s.signals) > 0 {
		s.Loop.At(now, s.iterate)
		return
	}
	s.idle, s.idleSince = true, now
	s.loopTime(sglang.LoopSanityCheckCache, now, costSanity)
	if s.Idle() {
		s.ratio = s.initRatio
		s.reports.still(s)
		return
	}
	if len(s.queue) > 0 && !s.paused {
		s.poll = min(max(2*s.poll, pollFirst), pollLast)
		s.Loop.After(s.poll, s.wake)
	}
}

// joined gives a group without a batch an idle one, so that it steps along.
func (s *Scheduler) joined(b *batch, out *dp.Outcome) *batch {
	for _, c := range s.Collectors {
		c.DPStep(&out.Step)
	}
	if b == nil {
		b = s.newBatch(modeIdle, 0)
	}
	b.groups = out.Step.PrefillGroups
	return b
}

// price sets when the pass starts and ends.
func (s *Scheduler) price(b *batch, out *dp.Outcome, now time.Duration) {
	b.launched = s.reading(now)
	took := time.Duration(0)
	if out != nil {
		b.start, took = max(out.Start, now), out.Took
		b.pass = out.Padded
	} else {
		b.pass.Balance = s.balance(b)
		b.start, took = max(now, s.free), s.Cost.Pass(b.pass)
	}
	s.reports.balanced(s, b)
	if b.mode == modeDecode && s.Drafter != nil {
		took += s.draftTime(b)
	}
	b.done = b.start + took
	s.free = b.start + s.Cost.Stage(took)
}

// balance spreads a pass over the experts.
func (s *Scheduler) balance(b *batch) float64 {
	if s.Experts == nil {
		return 0
	}
	return s.Experts.Balance(b.pass.Tokens)
}

// waited books time in which the CPU waited: for the GPUs' result, or for other
// groups.
func (s *Scheduler) waited(category string, from, to time.Duration) {
	if to <= from {
		return
	}
	overlap := sglang.OverlapNone
	if n := len(s.inflight); n > 0 && s.inflight[n-1].done >= to {
		overlap = sglang.OverlapFull
	}
	for _, c := range s.Collectors {
		c.LoopTime(category, overlap, to-from)
	}
}

// loopTime books d of the loop from t on; the GPUs work all the while, or not.
func (s *Scheduler) loopTime(category string, t, d time.Duration) {
	if d <= 0 {
		return
	}
	overlap := sglang.OverlapNone
	if n := len(s.inflight); n > 0 && s.inflight[n-1].done >= t+d {
		overlap = sglang.OverlapFull
	}
	for _, c := range s.Collectors {
		c.LoopTime(category, overlap, d)
		c.CPU(d)
	}
}

// finishOldest processes the result that has been in flight for longest.
func (s *Scheduler) finishOldest() {
	b := s.inflight[0]
	s.inflight = s.inflight[:copy(s.inflight, s.inflight[1:])]
	s.slots[b.slot].last--
	now := s.Loop.Now()
	d := costResult + time.Duration(len(b.entries))*costResultEach
	s.loopTime(sglang.LoopProcessBatchResult, now, d)
	s.onResult(b, now+d)
	s.recycle(b)
	s.Loop.At(now+d, s.iterate)
}

// passOf is the work of a batch.
func passOf(b *batch, graph bool) cost.Work {
	w := cost.Work{Requests: len(b.entries), Graph: graph}
	for i := range b.entries {
		e := &b.entries[i]
		n, before := int64(e.n), int64(e.from)
		w.Tokens += e.n
		w.Pairs += n*before + n*(n+1)/2
		w.KVTokens += before
	}
	return w
}
