// Copyright The otelcol-sglang Authors
// SPDX-License-Identifier: Apache-2.0

package sched // import "github.com/otelcol-sglang/otelcol-sglang/engine/sched"

import (
	"math"
	"slices"
	"time"

	"github.com/otelcol-sglang/otelcol-sglang/engine/ledger"
	"github.com/otelcol-sglang/otelcol-sglang/internal/sglang"
)

const (
	// clipMaxNew is SGLANG_CLIP_MAX_NEW_TOKENS_ESTIMATION.
	clipMaxNew = 4096
	// preemptThreshold is --priority-scheduling-preemption-threshold.
	preemptThreshold = 10
)

// adder decides what fits into a prefill batch (SGLang's PrefillAdder). Tokens are
// of the KV pool (total, now), of the pass (input) and of its chunk.
type adder struct {
	s     *Scheduler
	b     *batch
	slot  *slot
	page  int
	total float64 // left, when what running requests may still generate is reserved
	now   int     // left at this moment
	input int
	chunk int // math.MaxInt: chunking is off
	// steps is what those who decode in the pass will take.
	steps int
	// back are those who were preempted.
	back []*work
}

type verdict uint8

const (
	goOn verdict = iota
	noToken
	otherLimit // the pass is full
)

func (s *Scheduler) newAdder(b *batch, sl *slot) adder {
	a := adder{s: s, b: b, slot: sl, page: max(s.Args.PageSize, 1), input: s.Args.MaxPrefillTokens, chunk: math.MaxInt}
	if s.Args.ChunkedPrefillSize > 0 {
		a.chunk = s.Args.ChunkedPrefillSize
	}
	a.refresh()
	if s.mixes() {
		a.input -= len(sl.running)
		a.chunk -= len(sl.running)
	}
	return a
}

// refresh reads the pool. All slots' requests will grow into it.
func (a *adder) refresh() {
	if a.s.mixes() {
		a.steps = a.s.decodeNeed(a.slot.running)
	}
	a.now = a.room()
	a.total = float64(a.now)
	for i := range a.s.slots {
		for _, w := range a.s.slots[i].running {
			if w.state == stateRunning {
				a.total -= float64(min(w.maxNew(), clipMaxNew)) * a.s.ratio
			}
		}
	}
	for i := range a.b.entries {
		if w := a.b.entries[i].w; a.b.entries[i].last {
			a.total -= float64(min(w.maxNew(), clipMaxNew))
		}
	}
}

// room is what the memory has for prompts.
func (a *adder) room() int { return a.s.Memory.Room() - a.steps }

func (a *adder) verdict() verdict {
	if a.total <= 0 || a.now <= 0 {
		return noToken
	}
	if a.input <= 0 || a.chunk <= 0 {
		return otherLimit
	}
	return goOn
}

func (a *adder) ceil(n int) int { return (n + a.page - 1) / a.page * a.page }

// spend books n new tokens of the pass, and what the request may generate.
func (a *adder) spend(n, maxNew int) {
	n = a.ceil(n)
	a.total -= float64(n + maxNew)
	a.now -= n
	a.input -= n
	if a.chunk != math.MaxInt {
		a.chunk -= n
	}
}

// addChunked goes on with the prompt that is being cut.
func (a *adder) addChunked(w *work) bool {
	n := w.target - w.filled
	last := n <= a.chunk
	if !last {
		n = max(a.chunk/a.page*a.page, 1)
	}
	if !a.s.Memory.Extend(w.holding, n) {
		return false
	}
	a.put(w, n, last)
	maxNew := 0
	if last {
		maxNew = min(w.maxNew(), clipMaxNew)
	}
	a.spend(n, maxNew)
	return true
}

// put takes n more tokens of the prompt into the pass.
func (a *adder) put(w *work, n int, last bool) {
	a.b.entries = append(a.b.entries, entry{w: w, epoch: w.epoch, from: w.filled, n: n, last: last})
	w.filled += n
	w.slots += n
	w.chunked = w.chunked || !last
	a.slot.chunked = nil
	if !last {
		a.slot.chunked = w
	}
}

// add takes a request from the queue into the pass, wholly or its first chunk.
func (a *adder) add(w *work) verdict {
	maxNew := min(w.maxNew(), clipMaxNew)
	need := len(w.ids) - w.prefix.Device
	if float64(need+maxNew) >= a.total {
		return noToken
	}
	n := len(w.ids) - w.prefix.Total()
	if a.ceil(n) >= a.input && len(a.b.entries) > 0 {
		return otherLimit
	}
	last := a.ceil(n) <= a.chunk
	if !last {
		n = a.chunk / a.page * a.page
		if n <= 0 {
			return otherLimit
		}
	}
	h, ok := a.s.Memory.Begin(w.r, w.ids, w.prefix, n)
	if !ok {
		return noToken
	}
	if !last {
		maxNew = 0
	}
	if !a.afford(n, maxNew) {
		a.s.Memory.Release(h)
		return noToken
	}
	w.holding = h
	w.target = len(w.ids)
	w.filled = w.prefix.Total()
	w.slots = w.filled
	a.tally(w)
	a.put(w, n, last)
	return a.verdict()
}

// afford books a request that has its memory. Locking a prefix took from the room
// what was evictable in it, which may be too much beside others; one that is alone
// has nobody to wait for.
func (a *adder) afford(n, maxNew int) bool {
	was := *a
	a.spend(n, maxNew)
	room := a.room()
	a.total -= float64(a.now - room)
	a.now = room
	if a.total < 0 && (len(a.b.entries) > 0 || len(a.slot.running) > 0) {
		*a = was
		return false
	}
	return true
}

// tally books the prefix. Tokens that a retraction makes be processed again do not
// count as hits of the request.
func (a *adder) tally(w *work) {
	p, t := &w.prefix, &a.b.tally
	t.hit += p.Total()
	if w.r.Retractions > 0 {
		return
	}
	w.r.Cached = ledger.CachedTokens{Device: p.Device, Host: p.Host, Storage: p.Storage}
	t.device += p.Device
	t.host += p.Host
	t.storage += p.Storage
}

// prefillBatch takes requests from the queue, in the policy's order, while there is
// budget; nil if none can go.
func (s *Scheduler) prefillBatch(i int) *batch {
	sl := &s.slots[i]
	if (sl.full || len(s.queue) == 0) && sl.chunked == nil {
		return nil
	}
	limit := s.runningLimit() - len(sl.running)
	if limit <= 0 && sl.chunked == nil && !s.Args.EnablePriorityScheduling {
		sl.full = true
		return nil
	}
	s.order()
	b := s.newBatch(modePrefill, i)
	a := s.newAdder(b, sl)
	if w := sl.chunked; w != nil && !a.addChunked(w) {
		s.unstick(sl, w)
		s.recycle(b)
		return nil
	}
	s.take(&a, sl, limit)
	if len(b.entries) == 0 {
		s.recycle(b)
		return nil
	}
	s.compose(b, sl)
	return b
}

// take goes through the queue. Requests whose prefetch is worth waiting for,
// and those whose adapter has no slot, are passed over.
func (s *Scheduler) take(a *adder, sl *slot, limit int) {
	if sl.chunked != nil {
		return // one prompt at a time is cut
	}
	kept := s.queue[:0]
	v := a.verdict()
	i := 0
	for ; i < len(s.queue) && v == goOn; i++ {
		w := s.queue[i]
		if s.LoRA != nil && !s.LoRA.Fits(w.r.LoRA) {
			kept = append(kept, w)
			continue
		}
		if len(a.b.entries) >= limit && !s.preempt(a, sl, w, &limit) {
			sl.full = true
			break
		}
		w.prefix = s.Memory.Match(w.r, w.ids)
		if !w.prefix.Ready {
			kept = append(kept, w)
			continue
		}
		before := len(a.b.entries)
		v = a.add(w)
		if len(a.b.entries) == before {
			break
		}
		s.move(w, stateChunked)
		s.lockAdapter(w)
	}
	if v == noToken {
		sl.full = len(a.b.entries) > 0 || len(sl.running) > 0
	}
	n := len(kept) + copy(s.queue[len(kept):], s.queue[i:])
	clear(s.queue[n:])
	s.queue = s.queue[:n]
	for _, w := range a.back {
		s.requeue(w)
	}
}

func (s *Scheduler) lockAdapter(w *work) {
	if s.LoRA == nil || w.adapter {
		return
	}
	var load time.Duration
	load, w.adapter = s.LoRA.Acquire(w.r.LoRA)
	s.loading += load
}

func (s *Scheduler) unlockAdapter(w *work) {
	if w.adapter {
		w.adapter = false
		s.LoRA.Release(w.r.LoRA)
	}
}

// preempt makes a full batch give up a request of much lower priority.
func (s *Scheduler) preempt(a *adder, sl *slot, w *work, limit *int) bool {
	if !s.Args.EnablePriorityScheduling || len(sl.running) == 0 {
		return false
	}
	i := 0
	for j, v := range sl.running {
		if comesAfter(v, sl.running[i]) > 0 {
			i = j
		}
	}
	victim := sl.running[i]
	// Unsigned: a request without priority is as far as can be.
	if victim.priority <= w.priority || uint64(victim.priority)-uint64(w.priority) <= preemptThreshold {
		return false
	}
	sl.running = slices.Delete(sl.running, i, i+1)
	a.back = append(a.back, victim)
	s.lose(victim)
	*limit++
	a.refresh()
	return true
}

// compose makes the batch of what was taken: those whose prompt is done with it
// decode from the next pass on, those who decode already in this one if passes mix.
func (s *Scheduler) compose(b *batch, sl *slot) {
	decoding := sl.running
	for i := range b.entries {
		e := &b.entries[i]
		b.tally.compute += e.n
		if e.w.r.Retractions == 0 {
			b.tally.input += e.n
		}
		e.w.slot = b.slot
		if e.last && e.w.limit > 0 && !s.prefillNode() {
			s.move(e.w, stateRunning)
			sl.running = append(sl.running, e.w)
		}
	}
	if s.mixes() {
		for _, w := range decoding {
			s.addDecode(b, w)
		}
	}
	b.Size, b.Mode = len(b.entries), sglang.ForwardPrefill
	b.pass = passOf(b, false)
}

// unstick: the rest of a prompt does not fit, and nothing runs that would make
// room: the request starts anew.
func (s *Scheduler) unstick(sl *slot, w *work) {
	if len(sl.running) > 0 || len(s.inflight) > 0 {
		return
	}
	sl.chunked = nil
	s.lose(w)
	s.requeue(w)
}

// compact takes those who ended out of the running requests.
func (s *Scheduler) compact(sl *slot) {
	n := len(sl.running)
	sl.running = slices.DeleteFunc(sl.running, func(w *work) bool { return w.state != stateRunning })
	if len(sl.running) < n || len(sl.running) == 0 {
		sl.full = false
	}
}

func (s *Scheduler) runningNow() int {
	n := 0
	for i := range s.slots {
		for _, w := range s.slots[i].running {
			if w.state == stateRunning {
				n++
			}
		}
	}
	return n
}
