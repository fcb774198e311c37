// Copyright The otelcol-sglang Authors
// SPDX-License-Identifier: Apache-2.0

package sched // import "github.com/otelcol-sglang/otelcol-sglang/engine/sched"

import (
	"time"

	"github.com/otelcol-sglang/otelcol-sglang/engine/ledger"
	"github.com/otelcol-sglang/otelcol-sglang/internal/sglang"
)

// nextBatch: prefills go before decodes.
func (s *Scheduler) nextBatch(i int) *batch {
	s.compact(&s.slots[i])
	if s.decodeNode() {
		if b := s.prebuiltBatch(i); b != nil {
			return b
		}
		return s.decodeBatch(i)
	}
	if b := s.prefillBatch(i); b != nil {
		return b
	}
	return s.decodeBatch(i)
}

// onLaunch takes the readings of a pass that begins, and counts it.
func (s *Scheduler) onLaunch(b *batch) {
	at := b.launched
	switch b.mode {
	case modePrefill:
		for i := range b.entries {
			s.beginPrefill(&b.entries[i], at)
			s.schedule(b.entries[i].w.r, &b.Batch, at)
		}
		s.reports.prefill(s, b)
	case modeDecode:
		for i := range b.entries {
			s.beginDecode(b.entries[i].w, at)
			s.schedule(b.entries[i].w.r, &b.Batch, at)
		}
		s.reports.decodePass(s, b)
	case modePrebuilt:
		for i := range b.entries {
			s.beginPrebuilt(b.entries[i].w, at)
			s.schedule(b.entries[i].w.r, &b.Batch, at)
		}
	case modeIdle:
		return
	}
	s.reports.busy(s, b)
}

func (s *Scheduler) onResult(b *batch, processed time.Duration) {
	at := s.reading(s.Loop.Now())
	after := s.reading(processed)
	switch b.mode {
	case modePrefill:
		s.prefillResult(b, at, after)
	case modeDecode:
		s.decodeResult(b, at)
	case modePrebuilt:
		s.prebuiltResult(b, at)
	case modeIdle:
	}
}

// beginPrefill: a request's wait is over when its first tokens go in.
func (s *Scheduler) beginPrefill(e *entry, at ledger.Reading) {
	w := e.w
	if e.decode {
		s.beginDecode(w, at)
		return
	}
	if w.prefillOpen || e.stale() {
		return
	}
	s.leaveQueue(w, at)
	w.prefillOpen, w.forwardFrom, w.chunkFrom = true, at, at
	s.open(w.r, sglang.StagePrefillForward, at)
}

// leaveQueue: only the first wait has a span and is in the histogram; the sum is
// what the user feels.
func (s *Scheduler) leaveQueue(w *work, at ledger.Reading) {
	t := &w.r.Sched
	t.Queued += at.At - w.queued.At
	if w.ran {
		return
	}
	w.ran = true
	t.FirstForward = at.At
	stage := sglang.StagePrefillWaiting
	if w.prebuilt {
		stage = sglang.StageDecodeWaiting
		s.stageLatency(stage, w.queued, at)
	}
	s.slice(w.r, stage, w.queued, at)
	for _, c := range s.Collectors {
		c.QueueTime(at.At - w.queued.At)
	}
}

// prefillResult: after is when the scheduler has processed the result, from where
// the first decode iteration is counted.
func (s *Scheduler) prefillResult(b *batch, at, after ledger.Reading) {
	made := 0
	for i := range b.entries {
		e := &b.entries[i]
		if e.stale() {
			continue
		}
		if e.decode {
			made += s.decodeOne(e.w, b, at)
			continue
		}
		s.runBatchCPU(e.w, b)
		if e.w.chunked {
			s.endChunk(e, at)
		}
		if !e.last {
			s.midChunk(e, at)
			continue
		}
		s.endPrefill(e.w, at, after)
	}
	s.reports.made(s, b, made)
}

func (s *Scheduler) endChunk(e *entry, at ledger.Reading) {
	w := e.w
	w.r.Chunks++
	s.slice(w.r, sglang.StageChunkedPrefill, w.chunkFrom, at)
	s.stageLatency(sglang.StageChunkedPrefill, w.chunkFrom, at)
	w.chunkFrom = at
}

// midChunk hands the chunk to the prefix tree; an aborted request ends here.
func (s *Scheduler) midChunk(e *entry, at ledger.Reading) {
	w := e.w
	if !w.aborted {
		s.Memory.Cache(w.holding, w.ids[:e.from+e.n])
		s.pd.sendPart(s, w, e.from+e.n, at)
		return
	}
	if sl := &s.slots[w.slot]; sl.chunked == w {
		sl.chunked = nil
	}
	s.close(w.r, sglang.StagePrefillForward, at)
	w.prefillOpen = false
	w.filled = e.from + e.n
	s.finish(w, ledger.FinishAbort, at)
}

func (s *Scheduler) endPrefill(w *work, at, after ledger.Reading) {
	r := w.r
	s.close(r, sglang.StagePrefillForward, at)
	s.stageLatency(sglang.StagePrefillForward, w.forwardFrom, at)
	w.prefillOpen, w.chunked = false, false
	s.Memory.Cache(w.holding, w.ids[:w.target])
	if r.Sched.PrefillDone == ledger.Unset {
		r.Sched.PrefillDone = at.At
	}
	if w.limit == 0 {
		s.finish(w, ledger.FinishStop, at)
		return
	}
	w.append(1)
	if s.prefillNode() {
		s.pd.send(s, w, at)
		return
	}
	w.loopFrom = after
	if !w.decodeOpen {
		s.startDecoding(w, at)
	}
	s.afterTokens(w, at)
}

// startDecoding: with overlap the first decode pass may be under way already; then
// nothing was waited for.
func (s *Scheduler) startDecoding(w *work, at ledger.Reading) {
	if w.decodes > 0 {
		s.openDecode(w, at)
		return
	}
	w.waits, w.waitFrom = true, at
}

func (s *Scheduler) openDecode(w *work, at ledger.Reading) {
	w.decodeOpen = true
	if w.r.Sched.DecodeStart == ledger.Unset {
		w.r.Sched.DecodeStart = at.At
	}
	s.open(w.r, sglang.StageDecodeForward, at)
}

// afterTokens ends a request that has all its tokens, and tells the front end.
func (s *Scheduler) afterTokens(w *work, at ledger.Reading) {
	switch {
	case w.outputs() >= w.limit:
		s.finish(w, finishOf(w), at)
	case w.aborted:
		s.finish(w, ledger.FinishAbort, at)
	default:
		s.output(w)
	}
}

// finishOf: the model stopped, or ran into the client's limit.
func finishOf(w *work) ledger.FinishReason {
	if w.outputs() >= w.maxTokens {
		return ledger.FinishLength
	}
	return ledger.FinishStop
}

// finish ends a request that ran: its KV goes to the prefix tree, except that of
// the last token, which was never computed.
func (s *Scheduler) finish(w *work, why ledger.FinishReason, at ledger.Reading) {
	r := w.r
	r.Finish = why
	computed := len(w.ids)
	if w.outputs() > 0 {
		computed--
	}
	s.Memory.Finish(w.holding, w.ids[:min(w.filled, computed)])
	w.holding = nil
	s.unlockAdapter(w)
	w.epoch++
	if w.decodeOpen {
		s.close(r, sglang.StageDecodeForward, at)
	}
	s.end(w)
	s.endThread(r, at, false)
	s.output(w)
}

func (s *Scheduler) output(w *work) {
	if s.Output != nil {
		s.Output(w.r)
	}
}

// lose takes a running request's KV. It has to be processed anew, with what it has
// generated as part of its prompt.
func (s *Scheduler) lose(w *work) {
	at := s.reading(s.Loop.Now())
	s.release(w)
	w.epoch++
	w.decodes = 0
	if w.prefillOpen {
		s.close(w.r, sglang.StagePrefillForward, at)
		w.prefillOpen, w.chunked = false, false
	}
	w.waits = false
	w.r.Retractions++
	s.retract(w.r, at)
	s.reports.retract(s, w)
}
