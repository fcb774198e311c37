// Copyright The otelcol-sglang Authors
// SPDX-License-Identifier: Apache-2.0

package sched // import "github.com/otelcol-sglang/otelcol-sglang/engine/sched"

import (
	"net/http"
	"slices"
	"time"

	"github.com/otelcol-sglang/otelcol-sglang/engine/ledger"
	"github.com/otelcol-sglang/otelcol-sglang/internal/sglang"
)

const (
	// retractDecodeSteps is SGLANG_RETRACT_DECODE_STEPS: after a retraction the
	// estimate of output lengths looks this far ahead.
	retractDecodeSteps = 20
	// maxGraphBatch is the largest decode batch with a captured graph.
	maxGraphBatch = 256
)

// decodeBatch makes room for one more step of the slot's running requests and
// takes those who keep theirs.
func (s *Scheduler) decodeBatch(i int) *batch {
	sl := &s.slots[i]
	if len(sl.running) == 0 {
		return nil
	}
	if !s.makeDecodeRoom(sl) {
		s.ratio = max(s.ratio-s.ratioDecay, s.minRatio)
	}
	if len(sl.running) == 0 {
		return nil
	}
	b := s.newBatch(modeDecode, i)
	for _, w := range sl.running {
		s.addDecode(b, w) // whose pages were counted, and who is retracted below if refused
	}
	s.retractUngrown(sl, b)
	if len(b.entries) == 0 {
		s.recycle(b)
		return nil
	}
	b.Size, b.Mode = len(b.entries), sglang.ForwardDecode
	b.pass = passOf(b, len(b.entries) <= maxGraphBatch)
	return b
}

// addDecode takes a running request's next step into a pass, unless the memory has no
// room for it.
func (s *Scheduler) addDecode(b *batch, w *work) {
	n := s.growth(w)
	if n > 0 && !s.Memory.Extend(w.holding, n) {
		return
	}
	b.entries = append(b.entries, entry{w: w, epoch: w.epoch, from: w.filled, n: s.verified(), decode: true})
	w.slots += n
	w.filled++
	w.decodes++
}

// mixes tells whether prefill passes take along those who decode. Their drafts could
// not be verified in one.
func (s *Scheduler) mixes() bool {
	return s.Args.EnableMixedChunk && s.Args.ChunkedPrefillSize > 0 && s.Drafter == nil
}

// verified tokens per request and pass.
func (s *Scheduler) verified() int {
	if s.Drafter == nil {
		return 1
	}
	return s.Drafter.DraftTokens()
}

// growth is how many more slots the next pass needs. Speculation writes all draft
// tokens' KV, also while the result of the pass before is not known.
func (s *Scheduler) growth(w *work) int {
	if s.Drafter == nil {
		return max(0, w.filled+1-w.slots)
	}
	return max(0, w.filled+s.verified()*(w.decodes+1)-w.slots)
}

// decodeNeed is the growth of all in whole pages.
func (s *Scheduler) decodeNeed(running []*work) int {
	page := max(s.Args.PageSize, 1)
	need := 0
	for _, w := range running {
		if n := s.growth(w); n > 0 {
			need += (w.slots+n+page-1)/page*page - (w.slots+page-1)/page*page
		}
	}
	return need
}

// makeDecodeRoom retracts requests until the others' next step fits: those with the
// fewest output tokens first, of equals the longest prompt. The last one can't wait
// for another and is aborted. It tells whether any was.
func (s *Scheduler) makeDecodeRoom(sl *slot) bool {
	if s.decodeNeed(sl.running) <= s.Memory.Room() {
		return false
	}
	order := slices.Clone(sl.running)
	slices.SortStableFunc(order, keepFirst)
	for len(order) > 0 && s.decodeNeed(order) > s.Memory.Room() {
		w := order[len(order)-1]
		order = order[:len(order)-1]
		s.retractOrAbort(sl, w, len(order) == 0)
	}
	s.ratio = s.estimate(order)
	sl.full = false
	return true
}

func keepFirst(a, b *work) int {
	if c := b.outputs() - a.outputs(); c != 0 {
		return c
	}
	return a.prompt() - b.prompt()
}

// retractOrAbort: the last of all, with nobody else to give up memory, is aborted,
// which is no retraction.
func (s *Scheduler) retractOrAbort(sl *slot, w *work, last bool) {
	sl.running = slices.DeleteFunc(sl.running, func(v *work) bool { return v == w })
	if last && s.aloneInMemory(w) {
		w.r.AbortStatus, w.r.AbortMessage = http.StatusInternalServerError, msgOutOfMemory
		s.finishWithout(w)
		return
	}
	s.lose(w)
	s.requeue(w)
}

// requeue: one that the client gave up meanwhile does not wait again.
func (s *Scheduler) requeue(w *work) {
	if w.aborted {
		s.drop(w, true)
		return
	}
	s.enqueue(w)
}

// aloneInMemory: no other micro-batch, chunk or KV pressure holds memory that may
// come back.
func (s *Scheduler) aloneInMemory(w *work) bool {
	if s.pressure > 0 || s.pd.holding() {
		return false
	}
	for i := range s.slots {
		if s.slots[i].chunked != nil || slices.ContainsFunc(s.slots[i].running, func(v *work) bool { return v != w }) {
			return false
		}
	}
	return true
}

// finishWithout aborts a running request whose next step has no room.
func (s *Scheduler) finishWithout(w *work) {
	at := s.reading(s.Loop.Now())
	if w.prefillOpen {
		s.close(w.r, sglang.StagePrefillForward, at)
		w.prefillOpen = false
	}
	s.finish(w, ledger.FinishAbort, at)
}

// retractUngrown is for those whom the pool refused though their pages were
// counted (another pool is short).
func (s *Scheduler) retractUngrown(sl *slot, b *batch) {
	if len(b.entries) == len(sl.running) {
		return
	}
	for _, w := range slices.Clone(sl.running) {
		if !slices.ContainsFunc(b.entries, func(e entry) bool { return e.w == w }) {
			s.retractOrAbort(sl, w, len(sl.running) == 1)
		}
	}
	s.ratio = s.estimate(sl.running)
}

// estimate is the share of their max_tokens that requests will use, from what those
// who run have used and some steps more.
func (s *Scheduler) estimate(running []*work) float64 {
	decoded, most := 0, 0
	for _, w := range running {
		decoded += w.outputs()
		most += w.maxTokens
	}
	return min(1, float64(decoded+retractDecodeSteps*len(running))/float64(most+1))
}

func (s *Scheduler) beginDecode(w *work, at ledger.Reading) {
	if !w.waits {
		return
	}
	w.waits = false
	s.slice(w.r, sglang.StageDecodeWaiting, w.waitFrom, at)
	s.stageLatency(sglang.StageDecodeWaiting, w.waitFrom, at)
	s.openDecode(w, at)
	w.loopFrom = at
}

func (s *Scheduler) decodeResult(b *batch, at ledger.Reading) {
	made := 0
	for i := range b.entries {
		e := &b.entries[i]
		if e.stale() {
			continue
		}
		made += s.decodeOne(e.w, b, at)
	}
	s.reports.decode(s, b, made, at.At)
}

// decodeOne gives a request its tokens of one pass and tells how many.
func (s *Scheduler) decodeOne(w *work, b *batch, at ledger.Reading) int {
	r := w.r
	w.decodes--
	n := 1
	if s.Drafter != nil {
		n = s.Drafter.Verify(w.limit - w.outputs())
		r.VerifyCalls++
		w.filled += n - 1
		s.draftSlice(w, b)
	}
	w.append(n)
	s.runBatchCPU(w, b)
	s.slice2(r, sglang.StageDecodeLoop, w.loopFrom, at, r.DecodeSteps)
	r.DecodeSteps++
	w.loopFrom = at
	s.afterTokens(w, at)
	return n
}

// draftTime is that of proposing, before the pass.
func (s *Scheduler) draftTime(b *batch) time.Duration {
	steps := s.Drafter.Steps()
	if s.Drafter.NGram() {
		steps = 1
	}
	return s.Cost.Draft(len(b.entries), steps)
}

// draftSlice: only drafts from n-grams, made on the CPU, have a span.
func (s *Scheduler) draftSlice(w *work, b *batch) {
	if !s.Drafter.NGram() {
		return
	}
	from := ledger.Reading{At: b.launched.At + draftAfter, Step: b.launched.Step}
	to := ledger.Reading{At: from.At + s.draftTime(b), Step: from.Step}
	s.slice(w.r, sglang.StageSpecDraft, from, to)
}

const draftAfter = 20 * time.Microsecond
