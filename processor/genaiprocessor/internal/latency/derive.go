// Copyright The otelcol-sglang Authors
// SPDX-License-Identifier: Apache-2.0

package latency

import (
	"cmp"
	"math"
	"slices"

	"github.com/otelcol-sglang/otelcol-sglang/internal/sglang"
	"github.com/otelcol-sglang/otelcol-sglang/processor/genaiprocessor/internal/budget"
)

// SuspectLag is how late after the scheduler's first token the front end's may
// be before it counts as suspect, in seconds. A healthy one is under 0.01.
const SuspectLag = 0.1

// Result is what was derived for one root.
type Result struct {
	Start, End int64
	Role       sglang.Role

	TTFT, TPOT, E2E, Queue     Value
	Prefill, Decode, Inference Value
	FirstTokenAtScheduler      Value
	PrefillCompute             Value
	DecodeCompute              Value
	KVTransfer, Bootstrap      Value
	TTFTLag                    Value
	// TTFTSource is "" without a TTFT.
	TTFTSource string
	// Retractions and Chunks are Unknown where the spans do not tell.
	Retractions, Chunks int64
	Refused             []Refusal
	// Suspect: the front end's first token is late, and may be truly so.
	Suspect bool
	Budget  budget.Budget
	// Spans are what the budget was cut from; they may be of the timeline's memory.
	Spans []budget.Span
}

type deriver struct {
	t   *Timeline
	r   Reported
	out Result

	firstToken int64
	retracted  []stretch
	// firstRetract and firstPrefill are the times of the first retraction and of
	// the start of the first prefill, 0 if there is none.
	firstRetract, firstPrefill int64
	// some is room for the stays of most requests.
	some [4]stretch
}

type stretch struct{ start, end int64 }

// Derive computes everything about one root on its own. It drops slices with
// impossible times from the timeline.
func Derive(t *Timeline, r Reported) Result {
	d := deriver{t: t, r: r, out: Result{
		Start: t.Start, End: t.End, Role: t.Role, Retractions: Unknown, Chunks: Unknown,
	}}
	d.dropInsane()
	d.e2e()
	if t.End < t.Start {
		return d.out
	}
	d.firstToken = t.firstToken()
	d.retractions()
	d.ttft()
	d.modelTimes()
	d.tpot()
	d.compute()
	d.queue()
	d.spans()
	d.out.Budget = budget.Cut(t.Start, t.End, d.out.Spans)
	return d.out
}

// refuse notes each refusal once: a request may have many slices with one fault.
func (d *deriver) refuse(attribute string, reason Reason) {
	r := Refusal{Attribute: attribute, Reason: reason}
	if !slices.Contains(d.out.Refused, r) {
		d.out.Refused = append(d.out.Refused, r)
	}
}

func (d *deriver) dropInsane() {
	for _, list := range []*[]Slice{&d.t.Front, &d.t.Scheduler} {
		*list = slices.DeleteFunc(*list, func(s Slice) bool {
			if d.t.Sane(s) {
				return false
			}
			d.refuse(NameSlice, ReasonTimestamp)
			return true
		})
	}
}

// e2e is always the root's own length. What the engine says is only compared.
func (d *deriver) e2e() {
	if d.t.End < d.t.Start {
		d.refuse(NameE2E, ReasonTimestamp)
		return
	}
	d.out.E2E = known(d.t.End - d.t.Start)
	if d.r.Trusted {
		d.keep(&d.out.E2E, d.r.E2E)
		return
	}
	if !d.r.E2E.Given {
		return
	}
	// The engine reads two clocks for the two; they differ by some microseconds.
	e2e := d.out.E2E.Seconds
	slack := max(0.01, e2e/100)
	if reason, ok := plausible(d.r.E2E, e2e+slack); !ok {
		d.refuse(NameE2E, reason)
	} else if d.r.E2E.Value < e2e-slack {
		d.refuse(NameE2E, ReasonDiffersE2E)
	}
}

// keep takes a value over that was judged before. What is no number was not
// written by this distribution, whatever the root says.
func (d *deriver) keep(v *Value, n Number) bool {
	if !d.r.Trusted || !n.Given || n.Odd || math.IsNaN(n.Value) || math.IsInf(n.Value, 0) {
		return false
	}
	*v = Value{Seconds: n.Value, Known: true}
	return true
}

func (d *deriver) ttft() {
	d.scheduledFirstToken()
	if d.keep(&d.out.TTFT, d.r.TTFT) {
		return
	}
	if d.r.TTFT.Given {
		reason, ok := d.believeTTFT(d.r.TTFT)
		if ok && !d.t.tokenless() {
			d.engineTTFT()
			return
		}
		if !ok {
			d.refuse(NameTTFT, reason)
		}
	}
	if d.t.tokenless() || d.t.abortedBeforeToken() || !d.out.FirstTokenAtScheduler.Known {
		return
	}
	d.out.TTFT = d.out.FirstTokenAtScheduler
	d.out.TTFTSource = sglang.TTFTSourceScheduler
}

func (d *deriver) engineTTFT() {
	d.out.TTFT = Value{Seconds: min(d.r.TTFT.Value, d.out.E2E.Seconds), Known: true}
	d.out.TTFTSource = sglang.TTFTSourceEngine
	if !d.out.FirstTokenAtScheduler.Known {
		return
	}
	lag := d.out.TTFT.Seconds - d.out.FirstTokenAtScheduler.Seconds
	d.out.TTFTLag = Value{Seconds: lag, Known: true}
	d.out.Suspect = lag > SuspectLag
}

func (d *deriver) scheduledFirstToken() {
	if d.firstToken == 0 || d.t.Embedding || d.t.Encoder {
		return
	}
	if at := min(d.firstToken, d.t.End); at > d.t.Start {
		d.out.FirstTokenAtScheduler = known(at - d.t.Start)
	}
}

// modelTimes: the engine's prefill begins at the end of the dispatch and so
// includes the queue; that meaning stays.
func (d *deriver) modelTimes() {
	d.inference()
	d.decode()
	d.prefill()
}

func (d *deriver) inference() {
	if d.keep(&d.out.Inference, d.r.Inference) {
		return
	}
	if d.r.Inference.Given {
		reason, ok := plausible(d.r.Inference, d.out.E2E.Seconds)
		if ok && d.r.Inference.Value > 0 {
			d.out.Inference = Value{Seconds: d.r.Inference.Value, Known: true}
			return
		}
		d.refuse(NameInference, cmp.Or(reason, ReasonZero))
	}
	if at := d.t.dispatched(); at > d.t.Start && at <= d.t.End {
		d.out.Inference = known(d.t.End - at)
	}
}

// firstTokenRefused: prefill and decode hang on the same first token.
func (d *deriver) firstTokenRefused() bool {
	return slices.ContainsFunc(d.out.Refused, func(r Refusal) bool { return r.Attribute == NameTTFT })
}

func (d *deriver) decode() {
	if d.keep(&d.out.Decode, d.r.Decode) {
		return
	}
	if d.r.Decode.Given {
		reason, ok := plausible(d.r.Decode, d.out.E2E.Seconds)
		switch {
		case !ok:
		case d.firstTokenRefused():
			reason = ReasonFirstToken
		case d.t.Encoder, d.t.Role == sglang.RolePrefill: // what a half counts as decode is the transfer
			return
		case d.r.Decode.Value == 0 && d.t.OutputTokens > 1:
			reason = ReasonZero
		default:
			d.out.Decode = Value{Seconds: d.r.Decode.Value, Known: true}
			return
		}
		d.refuse(NameDecode, reason)
	}
	if d.out.TTFT.Known {
		d.out.Decode = Value{Seconds: max(0, d.out.E2E.Seconds-d.out.TTFT.Seconds), Known: true}
	}
}

func (d *deriver) prefill() {
	if d.keep(&d.out.Prefill, d.r.Prefill) {
		return
	}
	if d.r.Prefill.Given {
		reason, ok := plausible(d.r.Prefill, d.out.E2E.Seconds)
		switch {
		case !ok:
		case d.firstTokenRefused():
			reason = ReasonFirstToken
		case d.t.Encoder, d.t.Role == sglang.RolePrefill: // a half's first token comes after the transfer
		default:
			d.out.Prefill = Value{Seconds: d.r.Prefill.Value, Known: true}
			return
		}
		if reason != "" {
			d.refuse(NamePrefill, reason)
		}
	}
	first := d.out.TTFT
	if d.t.Role == sglang.RolePrefill {
		first = d.out.FirstTokenAtScheduler
	}
	if !first.Known || !d.out.Inference.Known {
		return
	}
	dispatched := d.out.E2E.Seconds - d.out.Inference.Seconds
	if s := first.Seconds - dispatched; s > 0 {
		d.out.Prefill = Value{Seconds: s, Known: true}
	}
}

func (d *deriver) tpot() {
	if !d.out.TTFT.Known || d.t.OutputTokens <= 1 {
		return
	}
	if s := d.out.E2E.Seconds - d.out.TTFT.Seconds; s > tolerance {
		d.out.TPOT = Value{Seconds: s / float64(d.t.OutputTokens-1), Known: true}
	}
}

// retractions finds the waits after each retraction: no span shows them.
func (d *deriver) retractions() {
	if !d.t.ThreadSeen {
		return
	}
	d.out.Retractions = int64(len(d.t.Retracts))
	if len(d.t.Retracts) == 0 {
		return
	}
	retracts := slices.Sorted(slices.Values(d.t.Retracts))
	d.firstRetract = retracts[0]
	if s := d.t.first(sglang.StagePrefillForward); s != nil {
		d.firstPrefill = s.Start
	}
	restarts := d.restarts()
	for i, at := range retracts {
		until := d.t.End
		if i+1 < len(retracts) {
			until = retracts[i+1]
		}
		if j, _ := slices.BinarySearch(restarts, at); j < len(restarts) {
			until = min(until, restarts[j])
		}
		if from, to := d.t.clamp(at, until); to > from {
			d.retracted = append(d.retracted, stretch{from, to})
		}
	}
}

// restarts are the starts of prefills inside decode_forward, in order.
func (d *deriver) restarts() []int64 {
	var out []int64
	for _, s := range d.t.Scheduler {
		if d.isReprefill(s) {
			out = append(out, s.Start)
		}
	}
	slices.Sort(out)
	return out
}

// isReprefill: inside decode_forward, or, where a request was retracted before
// that opened, any prefill after the first.
func (d *deriver) isReprefill(s Slice) bool {
	switch s.Stage {
	case sglang.StagePrefillForward, sglang.StageChunkedPrefill:
	default:
		return false
	}
	return s.In == sglang.StageDecodeForward ||
		s.In == sglang.StageUnknown && s.Stage == sglang.StagePrefillForward &&
			len(d.t.Retracts) > 0 && s.Start >= d.firstRetract && s.Start > d.firstPrefill
}

func (d *deriver) compute() {
	if s := d.t.first(sglang.StagePrefillForward); s != nil {
		d.out.PrefillCompute = d.length(s)
	}
	for _, s := range d.t.Scheduler {
		if s.Stage == sglang.StageChunkedPrefill {
			d.out.Chunks = max(d.out.Chunks, 0) + 1
		}
	}
	d.decodeCompute()
	d.transfer()
}

func (d *deriver) decodeCompute() {
	decode := d.t.first(sglang.StageDecodeForward)
	if decode == nil || !d.t.ThreadSeen {
		return
	}
	spans := []budget.Span{{Start: decode.Start, End: decode.End, Stage: budget.Decode, Priority: budget.Own}}
	for _, w := range d.retracted {
		spans = append(spans, budget.Span{Start: w.start, End: w.end, Stage: budget.RetractWait, Priority: budget.Own})
	}
	for _, s := range d.t.Scheduler {
		if d.isReprefill(s) {
			spans = append(spans, budget.Span{Start: s.Start, End: s.End, Stage: budget.Reprefill, Priority: budget.Own})
		}
	}
	if len(spans) == 1 {
		d.out.DecodeCompute = d.length(decode)
		return
	}
	from, to := d.t.clamp(decode.Start, decode.End)
	d.out.DecodeCompute = known(budget.Cut(from, to, spans)[budget.Decode])
}

// length is a slice's, as far as the request goes: other processes have other clocks.
func (d *deriver) length(s *Slice) Value {
	from, to := d.t.clamp(s.Start, s.End)
	return known(to - from)
}

func (d *deriver) transfer() {
	boot, move := sglang.StagePrefillBootstrap, sglang.StagePrefillTransferKVCache
	switch d.t.Role {
	case sglang.RolePrefill:
	case sglang.RoleDecode:
		boot, move = sglang.StageDecodeBootstrap, sglang.StageDecodeTransferred
	default:
		return
	}
	if s := d.t.first(boot); s != nil {
		d.out.Bootstrap = d.length(s)
	}
	if s := d.t.first(move); s != nil {
		d.out.KVTransfer = d.length(s)
	}
}

// queue sums every stay in a waiting queue. Without the slice of the first stay
// or without the thread span, which knows of retractions, it is unknown.
func (d *deriver) queue() {
	if d.keep(&d.out.Queue, d.r.Queue) {
		return
	}
	if d.r.Queue.Given {
		if reason, ok := plausible(d.r.Queue, d.out.E2E.Seconds); !ok {
			d.refuse(NameQueue, reason)
		} else if !d.t.SchedulerSeen {
			d.out.Queue = Value{Seconds: d.r.Queue.Value, Known: true}
			return
		}
	}
	stays := d.stays()
	if len(stays) > 0 && (d.t.ThreadSeen && d.retractionsCertain() || d.neverRan()) {
		d.out.Queue = known(union(append(stays, d.retracted...)))
	}
}

// neverRan: it was aborted before its first batch, and so never retracted.
func (d *deriver) neverRan() bool {
	open, _ := d.openStage()
	return open != nil && d.t.any(sglang.StagePrefillForward) == nil && d.t.any(sglang.StageDecodeForward) == nil
}

// stays are the times in a waiting queue that slices tell of.
func (d *deriver) stays() []stretch {
	waiting := sglang.StagePrefillWaiting
	if d.t.Role == sglang.RoleDecode {
		waiting = sglang.StageDecodeWaiting
	}
	out := d.some[:0]
	for _, s := range d.t.Scheduler {
		if s.Stage == waiting {
			from, to := d.t.clamp(s.Start, s.End)
			out = append(out, stretch{from, to})
		}
	}
	open, stage := d.openStage()
	switch {
	case open == nil:
	case isQueue(stage, d.t.Role):
		from, to := d.t.clamp(open.End, d.t.End)
		out = append(out, stretch{from, to})
	default: // it never came to a queue
		out = append(out, stretch{})
	}
	return out
}

// union is the length of what the stretches cover.
func union(list []stretch) int64 {
	slices.SortFunc(list, func(a, b stretch) int { return cmp.Compare(a.start, b.start) })
	var sum, until int64
	for _, s := range list {
		from := max(s.start, until)
		sum += max(0, s.end-from)
		until = max(until, s.end)
	}
	return sum
}

// retractionsCertain: with a span missing, a wait that seems to last until the
// end may have ended in the missing prefill.
func (d *deriver) retractionsCertain() bool {
	return d.t.Complete || len(d.t.Retracts) <= len(d.restarts())
}

func isQueue(stage budget.Stage, role sglang.Role) bool {
	return stage == budget.Queue || role == sglang.RoleDecode && stage == budget.DecodeWait
}

// openStage returns the last slice of a request that was aborted, and the stage
// that it was in from there to its end: the slice of that stage never closed.
// With output it ran, and what seems to be its last slice is not.
func (d *deriver) openStage() (*Slice, budget.Stage) {
	last := d.t.lastTop()
	if !d.t.Aborted || d.t.OutputTokens > 0 || last == nil || last.End >= d.t.End {
		return nil, budget.Unattributed
	}
	switch last.Stage {
	case sglang.StageRequestProcess, sglang.StagePrefillBootstrap:
		return last, budget.Queue
	case sglang.StagePrefillPrepare, sglang.StageDecodePrepare:
		return last, budget.Bootstrap
	case sglang.StageDecodeBootstrap:
		return last, budget.KVTransfer
	case sglang.StageDecodeTransferred:
		return last, budget.DecodeWait
	}
	return nil, budget.Unattributed
}
