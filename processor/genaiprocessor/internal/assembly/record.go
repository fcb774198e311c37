// Copyright The otelcol-sglang Authors
// SPDX-License-Identifier: Apache-2.0

// Package assembly puts the spans of requests together again from numbers: it
// links slices, threads and roots whatever their order, knows when a request
// has all its spans, and hands it over once. It holds no pdata; nothing in it
// may be used from two goroutines at a time.
package assembly // import "github.com/otelcol-sglang/otelcol-sglang/processor/genaiprocessor/internal/assembly"

import (
	"sync"

	"github.com/otelcol-sglang/otelcol-sglang/internal/sglang"
	"github.com/otelcol-sglang/otelcol-sglang/processor/genaiprocessor/internal/latency"
	"github.com/otelcol-sglang/otelcol-sglang/processor/genaiprocessor/internal/steps"
)

// TraceID is a trace id as on the wire.
type TraceID [16]byte

// External says that the trace was begun by a caller: the engine's own ids have
// eight leading zeros. Many requests may share it.
func (t TraceID) External() bool { return [8]byte(t[:8]) != [8]byte{} }

// Payload is a held span; the assembly only carries it.
type Payload interface {
	// Bytes is about what the span takes in memory.
	Bytes() int
}

// Root is what the assembly must know of a request's root.
type Root struct {
	Role sglang.Role
	// EncoderLike: it names neither a model nor tokens, as the roots do that an
	// encoder's work stands under.
	EncoderLike bool
	// Done: nothing is to be derived for it (its latencies were derived before,
	// or it is no request); its spans are only forgotten.
	Done bool
	// Payload is the root itself; nil with Done.
	Payload Payload
}

// Thread is what a thread span says of its process.
type Thread struct {
	Process sglang.Process
	Ranks   sglang.Ranks
	// Slices is the number of slices that left under it, Unknown if not said.
	Slices   int64
	Retracts []int64
	// WithoutRanks: fewer ranks sent spans than there are.
	WithoutRanks bool
	// Failed: the engine closed it with an error; ErrorType says which.
	Failed    bool
	ErrorType string
}

// Unknown is a number of slices that no one gave.
const Unknown = -1

// Record is one span as numbers; times in nanoseconds since the epoch.
type Record struct {
	Trace TraceID
	// Link is the span id of the first link within the trace, 0 if none.
	ID, Parent, Link uint64
	Start, End       int64
	Kind             sglang.SpanKind
	Stage            sglang.Stage
	// Ranks and Engine come from the resource.
	Ranks  sglang.Ranks
	Engine string
	// Step is set for decode_loop; Folded says that the span does not travel on.
	Step   steps.Step
	Folded bool
	// FoldedBefore is how many decode_loop spans a tier before folded into this
	// decode_forward.
	FoldedBefore int64
	// Payload is a decode_forward that waits for its steps.
	Payload  Payload
	Retracts []int64
	Thread   *Thread
	Root     *Root

	// TooLate: its request had left before the batch was handed on.
	TooLate bool
	// LateSum is set by Apply for a late span: steps that were folded and waited for it.
	LateSum *steps.Sum

	pinned *Trace
}

// Outcome is what became of a record.
type Outcome uint8

const (
	// Taken: recorded.
	Taken Outcome = iota
	// Duplicate: a span with this id was recorded before; a held one was replaced.
	Duplicate
	// Late: its request has left.
	Late
	// LateQuiet: its request has left, and no number was missing then.
	LateQuiet
)

// FoldedSteps are steps that left the stream and have yet to be written down.
type FoldedSteps struct {
	// DecodeForward is the span to write on; nil if it never came.
	DecodeForward Payload
	Sum           *steps.Sum
	// Primary: of the rank that the numbers come from.
	Primary bool
}

// Request is a request that leaves.
type Request struct {
	Trace  TraceID
	RootID uint64
	Root   *Root
	Engine string
	// Timeline lacks the root's facts.
	Timeline latency.Timeline
	Folded   []FoldedSteps
	// Completeness is one of sglang.Completeness*.
	Completeness string
	// Level is the highest trace level of any of its spans, Unknown without slices.
	Level int64
	// WithoutRanks: fewer ranks sent spans of it than its engine has.
	WithoutRanks bool
	// Failed and ErrorType are of the primary's thread.
	Failed, EncoderSeen bool
	ErrorType           string

	// Most requests need no more room than this.
	front     [4]latency.Slice
	scheduler [8]latency.Slice
	folded    [1]FoldedSteps
}

var requests = sync.Pool{New: func() any { return new(Request) }}

// Free gives a request back that its owner is done with: to make one for each
// costs more than to fill it.
func (r *Request) Free() {
	*r = Request{}
	requests.Put(r)
}
