// Copyright The otelcol-sglang Authors
// SPDX-License-Identifier: Apache-2.0

package fold // import "github.com/otelcol-sglang/otelcol-sglang/processor/rankdedupprocessor/internal/fold"

import (
	"time"

	"github.com/otelcol-sglang/otelcol-sglang/internal/sglang"
	"github.com/otelcol-sglang/otelcol-sglang/processor/rankdedupprocessor/internal/identity"
)

// TraceID is a trace id; the engine's own have only the low half.
type TraceID struct{ Hi, Lo uint64 }

// NoOrdinal is the ordinal of a slice that has none.
const NoOrdinal = -1

// Span is what the logic needs of a span. Take rewrites ID, Parent and Link to
// what the span must say when it leaves.
type Span struct {
	Trace            TraceID
	ID, Parent, Link uint64 // Link: the first link's span in the same trace, 0 for none
	Kind             sglang.SpanKind
	Stage            sglang.Stage
	Name             string // read only where Stage is unknown
	Ordinal          int64  // decode_ct, NoOrdinal where absent
	Start, End       int64  // unix ns
	// Own is set on roots that each rank makes for itself.
	Own bool
	// Prior is what an earlier tier folded into a thread span, nil if nothing.
	Prior *Digest
}

// Origin is who sent a span.
type Origin struct {
	Sender *identity.Sender
	// Proc is nil while the process is unknown.
	Proc *identity.Proc
	// Strand is set where Proc is nil: it may tell the process later.
	Strand *identity.Strand
}

// resolve returns the process if it is known by now.
func (o Origin) resolve() *identity.Proc {
	if o.Proc != nil {
		return o.Proc
	}
	if o.Strand != nil {
		if p := o.Strand.Proc(); p != nil {
			return p
		}
	}
	if o.Sender != nil {
		return o.Sender.Proc()
	}
	return nil
}

// Verdict is what becomes of a span in the call that brought it.
type Verdict uint8

const (
	// Pass: the span leaves, with the ids that Take left in it.
	Pass Verdict = iota
	// Fold: another copy left or will; the span goes.
	Fold
	// Hold: the span is kept until its Item is released.
	Hold
)

// Reason says why a held span left before it was known to be the only copy.
type Reason uint8

const (
	// ReasonNone: it left in due course.
	ReasonNone Reason = iota
	// ReasonLearnWait: its sender stayed unknown.
	ReasonLearnWait
	// ReasonUnplaced: its request stayed unknown.
	ReasonUnplaced
	// ReasonNoThread: the root waited in vain for a thread span.
	ReasonNoThread
	// ReasonNoRoot: the root of its request never came.
	ReasonNoRoot
	// ReasonLimit: the memory limit was reached.
	ReasonLimit
	// ReasonShutdown: the collector stops.
	ReasonShutdown

	ReasonCount
)

// String is the value of the reason attribute.
func (r Reason) String() string {
	return [ReasonCount]string{"none", "learn_wait", "unplaced", "thread_missing", "root_missing", "held_limit", "shutdown"}[r]
}

// Item is one held span.
type Item struct {
	// Payload is the caller's: the span itself.
	Payload any
	// Bytes is what the payload occupies.
	Bytes int64

	span   Span
	origin Origin
	rank   int32
	trace  *trace
	node   *node // set for standbys and deferred spans
	slot   *slot // set for standbys of slots
	due    int64 // unix ns
	gone   bool
	waited bool // it was put off once for want of its parent
	where  place
}

// place says which list of a trace holds an item.
type place uint8

const (
	inUnknown place = iota // its process is not known or not settled
	inWaiting              // its parent's request is not known
	inSlot                 // standby of a slot
	inNode                 // standby or deferred span of a node
	inThread
	inRoot
)

// Release is a held span that leaves.
type Release struct {
	Payload any
	// Bytes as in Item.
	Bytes int64
	// Span has the ids to write.
	Span Span
	Proc *identity.Proc
	// Filled: the copy stands in for one that the kept rank did not deliver.
	Filled bool
	// Reason is set where the span left early.
	Reason Reason
	// Digest is set on kept thread spans.
	Digest *Digest
}

// Digest is what the folded copies of a thread knew.
type Digest struct {
	// Ranks is the number of ranks that showed a copy; Expected those alive, 0 if unknown.
	Ranks, Expected int
	// Slowest is the rank that ended last most often, by more than what the clocks
	// may differ; NoRank where none did.
	Slowest int32
	// SlowestShare is the share of the compared spans in which it did, 0 to 1.
	SlowestShare float64
	// Compared is set where two ranks showed a copy of one span.
	Compared bool
	// Skew is the largest spread of a span's end over the ranks, per stage; 0 where not compared.
	Skew [StageSlots]time.Duration
	// MaxSkew is the largest of Skew.
	MaxSkew time.Duration
	// Slices is the number of slices that left below the thread.
	Slices int
}

// StageSlots bounds the per-stage table of a digest.
const StageSlots = 40
