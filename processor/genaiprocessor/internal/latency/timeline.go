// Copyright The otelcol-sglang Authors
// SPDX-License-Identifier: Apache-2.0

// Package latency derives the latencies of one request from the numbers of its
// spans and from what the engine itself reports, and refuses what cannot be true.
package latency // import "github.com/otelcol-sglang/otelcol-sglang/processor/genaiprocessor/internal/latency"

import (
	"math"

	"github.com/otelcol-sglang/otelcol-sglang/internal/sglang"
	"github.com/otelcol-sglang/otelcol-sglang/processor/genaiprocessor/internal/budget"
)

// Slice is one stage of a request. Times here and below are nanoseconds since the epoch.
type Slice struct {
	Stage sglang.Stage
	// In is the stage of the slice around this one; StageUnknown for a slice
	// that stands below its thread.
	In         sglang.Stage
	Start, End int64
}

// Timeline is all that the spans of one request say about its time.
type Timeline struct {
	// Start and End are the root's.
	Start, End int64
	Role       sglang.Role
	// Front are the slices of the front end, the DP controller and the encoder.
	Front []Slice
	// Scheduler are those of the primary: the rank whose copy is kept, of the
	// lowest PP stage. Without decode_loop slices: they come as MarkedEnds.
	Scheduler []Slice
	// SchedulerSeen says that any span of any scheduler came.
	SchedulerSeen bool
	// ThreadSeen says that the primary's thread span came: it knows of retractions.
	ThreadSeen bool
	// Complete says that no span is known to be missing.
	Complete bool
	// Retracts are the times at which the request was taken out of the batch.
	Retracts []int64
	// MarkedEnds are the ends of the steps that give tokens 50 and 51, 0 if not seen.
	MarkedEnds [2]int64

	Facts

	// room is for the spans of most requests' budgets.
	room [16]budget.Span
}

// Facts are what the root says of the request; Unknown where it does not.
type Facts struct {
	OutputTokens int64
	// Aborted: ended by the client or refused by the engine.
	Aborted bool
	// Embedding: a request that generates nothing.
	Embedding bool
	// Encoder: the root of a multimodal encoder's work.
	Encoder bool
}

// Unknown is a count that the engine did not give.
const Unknown = -1

// Number is a value as a span carries it, in seconds.
type Number struct {
	Value float64
	Given bool
	// Odd is a value that is no number.
	Odd bool
}

// Reported are the engine's own latencies.
type Reported struct {
	TTFT, E2E, Queue, Prefill, Decode, Inference Number
	// Trusted values were judged before, by this distribution.
	Trusted bool
}

// Value is a latency in seconds that may be unknown.
type Value struct {
	Seconds float64
	Known   bool
}

func known(ns int64) Value { return Value{Seconds: float64(ns) / 1e9, Known: true} }

func (v Value) ns() int64 { return int64(math.Round(v.Seconds * 1e9)) }

// clamp cuts a stretch to the root's.
func (t *Timeline) clamp(start, end int64) (from, to int64) {
	from, to = max(start, t.Start), min(end, t.End)
	return from, max(from, to)
}

// first returns the earliest slice of the stage below the thread, or nil.
func (t *Timeline) first(stage sglang.Stage) *Slice {
	var found *Slice
	for i := range t.Scheduler {
		s := &t.Scheduler[i]
		if s.Stage == stage && s.In == sglang.StageUnknown && (found == nil || s.Start < found.Start) {
			found = s
		}
	}
	return found
}

func (t *Timeline) any(stage sglang.Stage) *Slice {
	for i := range t.Scheduler {
		if t.Scheduler[i].Stage == stage {
			return &t.Scheduler[i]
		}
	}
	return nil
}

// lastTop returns the slice below the thread that ended last, or nil.
func (t *Timeline) lastTop() *Slice {
	var found *Slice
	for i := range t.Scheduler {
		s := &t.Scheduler[i]
		if s.In == sglang.StageUnknown && (found == nil || s.End > found.End) {
			found = s
		}
	}
	return found
}

// dispatched is the end of the front end's dispatch, 0 if unknown.
func (t *Timeline) dispatched() int64 {
	for _, s := range t.Front {
		if s.Stage == sglang.StageAPIServerDispatch {
			return s.End
		}
	}
	return 0
}

// firstToken is the time of the primary's first token, 0 if unknown: the end of
// the first prefill; on a decode half the end of fake_output (the batch that
// takes the prefill half's token over), else the start of decoding.
func (t *Timeline) firstToken() int64 {
	if t.Role != sglang.RoleDecode {
		if s := t.first(sglang.StagePrefillForward); s != nil {
			return s.End
		}
		return 0
	}
	if s := t.any(sglang.StageFakeOutput); s != nil {
		return s.End
	}
	if s := t.first(sglang.StageDecodeForward); s != nil {
		return s.Start
	}
	return 0
}

// tokenless: there is no first token to speak of, by nature. What the engine
// reports of one is no error, only of no use.
func (t *Timeline) tokenless() bool {
	return t.Encoder || t.Embedding || t.Role == sglang.RolePrefill
}

// abortedBeforeToken: a first token that is reported all the same cannot be true.
func (t *Timeline) abortedBeforeToken() bool { return t.Aborted && t.OutputTokens <= 0 }

// maxSkew is how far a slice may begin before its root; what begins earlier
// comes of a timestamp that was never set.
const maxSkew = int64(60e9)

// Sane reports whether a slice's times can belong to the request.
func (t *Timeline) Sane(s Slice) bool {
	return s.End >= s.Start && s.Start >= t.Start-maxSkew && s.Start <= t.End+maxSkew
}
