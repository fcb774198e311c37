// Copyright The otelcol-sglang Authors
// SPDX-License-Identifier: Apache-2.0

package latency

import (
	"github.com/otelcol-sglang/otelcol-sglang/internal/sglang"
	"github.com/otelcol-sglang/otelcol-sglang/processor/genaiprocessor/internal/budget"
)

// stageOf is where a slice below its thread puts the request. A decode half's
// bootstrap and transfer are waits for the prefill half.
func (d *deriver) stageOf(s Slice) (budget.Stage, budget.Priority) {
	switch s.Stage {
	case sglang.StageTokenize:
		return budget.Tokenize, budget.Own
	case sglang.StageAPIServerDispatch, sglang.StageDPCDispatch:
		return budget.Dispatch, budget.Own
	case sglang.StageRequestProcess, sglang.StagePrefillPrepare, sglang.StageDecodePrepare:
		return budget.Intake, budget.Own
	case sglang.StagePrefillBootstrap:
		return budget.Bootstrap, budget.Own
	case sglang.StageDecodeBootstrap:
		return budget.Bootstrap, budget.Waiting
	case sglang.StageDecodeTransferred:
		return budget.KVTransfer, budget.Waiting
	case sglang.StagePrefillTransferKVCache:
		return budget.KVTransfer, budget.Own
	case sglang.StagePrefillWaiting:
		return budget.Queue, budget.Own
	case sglang.StageDecodeWaiting:
		return budget.DecodeWait, budget.Own
	case sglang.StagePrefillForward, sglang.StageChunkedPrefill:
		if d.isReprefill(s) {
			return budget.Reprefill, budget.Own
		}
		return budget.Prefill, budget.Own
	case sglang.StageDecodeForward, sglang.StageFakeOutput:
		return budget.Decode, budget.Own
	}
	return budget.Unattributed, budget.Filler
}

func (d *deriver) spans() {
	out := d.t.room[:0]
	for _, list := range [][]Slice{d.t.Front, d.t.Scheduler} {
		for _, s := range list {
			if stage, priority := d.stageOf(s); stage != budget.Unattributed {
				out = append(out, budget.Span{Start: s.Start, End: s.End, Stage: stage, Priority: priority})
			}
		}
	}
	for _, w := range d.retracted {
		out = append(out, budget.Span{Start: w.start, End: w.end, Stage: budget.RetractWait, Priority: budget.Own})
	}
	if last, stage := d.openStage(); last != nil {
		out = append(out, budget.Span{Start: last.End, End: d.t.End, Stage: stage, Priority: budget.Own})
	} else if last := d.lastEnd(); last != 0 {
		out = append(out, budget.Span{Start: last, End: d.t.End, Stage: budget.Finish, Priority: budget.Filler})
	}
	d.out.Spans = out
}

// lastEnd is the last that the scheduler did, 0 if nothing is known of it.
func (d *deriver) lastEnd() int64 {
	var last int64
	for _, s := range d.t.Scheduler {
		last = max(last, s.End)
	}
	return last
}

// sequentialLead: a prefill root that begins so much before its decode root
// (nanoseconds) was sent first; less may be the hosts' clocks.
const sequentialLead = int64(20e6)

// Join completes a decode half with what its prefill half knows.
func Join(decode *Result, prefill *Result) {
	start := decode.Start
	if prefill.Start < decode.Start-sequentialLead || prefill.End <= decode.Start && prefill.Start < decode.Start {
		start = prefill.Start
	}
	spans := make([]budget.Span, 0, len(decode.Spans)+len(prefill.Spans)+1)
	spans = append(spans, decode.Spans...)
	for _, s := range prefill.Spans {
		s.Priority = peerPriority(s)
		spans = append(spans, s)
	}
	if prefill.End < decode.Start {
		spans = append(spans, budget.Span{
			Start: prefill.End, End: decode.Start, Stage: budget.Bootstrap, Priority: budget.Filler,
		})
	}
	decode.Budget = budget.Cut(start, decode.End, spans)
	decode.KVTransfer = known(decode.Budget[budget.KVTransfer])
	decode.Bootstrap = known(decode.Budget[budget.Bootstrap])
	decode.E2E = known(decode.End - start)
	shift := known(decode.Start - start).Seconds
	for _, v := range []*Value{&decode.TTFT, &decode.FirstTokenAtScheduler} {
		if v.Known {
			v.Seconds += shift
		}
	}
	decode.Queue.Known = decode.Queue.Known && prefill.Queue.Known
	decode.Queue.Seconds += prefill.Queue.Seconds
	decode.Start = start
}

func peerPriority(s budget.Span) budget.Priority {
	switch s.Stage {
	case budget.Finish:
		return budget.Filler
	case budget.Tokenize, budget.Dispatch, budget.Intake, budget.Bootstrap:
		return budget.PeerFront
	}
	return budget.PeerWork
}
