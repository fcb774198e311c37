// Copyright The otelcol-sglang Authors
// SPDX-License-Identifier: Apache-2.0

// Package budget cuts the time of one request into stages that do not overlap
// and add up to the whole, to the nanosecond.
package budget // import "github.com/otelcol-sglang/otelcol-sglang/processor/genaiprocessor/internal/budget"

import (
	"cmp"
	"slices"
)

// Stage is what a request was doing. Where two stages of equal priority cover
// one instant, the later one in this list has it: a request that has reached a
// stage is no longer in the one before.
type Stage uint8

// Stages in the order in which a request passes them.
const (
	// Unattributed is time that no span covers.
	Unattributed Stage = iota
	// Finish is the time from the last the scheduler did to the root's end.
	Finish
	Tokenize
	Dispatch
	Intake
	Bootstrap
	KVTransfer
	Queue
	Prefill
	DecodeWait
	Decode
	RetractWait
	Reprefill

	Count
)

var names = [Count]string{
	Unattributed: "unattributed",
	Finish:       "finish",
	Tokenize:     "tokenize",
	Dispatch:     "dispatch",
	Intake:       "intake",
	Bootstrap:    "bootstrap",
	KVTransfer:   "kv_transfer",
	Queue:        "queue",
	Prefill:      "prefill",
	DecodeWait:   "decode_wait",
	Decode:       "decode",
	RetractWait:  "retract_wait",
	Reprefill:    "reprefill",
}

// String is the stage's name in attributes.
func (s Stage) String() string {
	if s >= Count {
		return "unknown"
	}
	return names[s]
}

// Priority decides between spans that cover one instant; the higher one has it.
type Priority uint8

// Priorities, lowest first. The halves of a disaggregated (PD) request overlap:
// the decode half's bootstrap and transfer only wait for the prefill half's work.
const (
	// Filler covers what nothing else explains.
	Filler Priority = iota
	// PeerFront is the prefill half's way to its scheduler, seen from the decode half.
	PeerFront
	// Waiting is the decode half's wait for the prefill half.
	Waiting
	// PeerWork is the prefill half's queue, prefill and transfer.
	PeerWork
	// Own is everything else.
	Own
)

// Span is a stretch of time in a stage; times in nanoseconds since the epoch.
type Span struct {
	Start, End int64
	Stage      Stage
	Priority   Priority
}

func (s Span) order() uint16 { return uint16(s.Priority)<<8 | uint16(s.Stage) }

// Budget is the time spent in each stage, in nanoseconds.
type Budget [Count]int64

// Total is the sum over all stages.
func (b *Budget) Total() int64 {
	var sum int64
	for _, ns := range b {
		sum += ns
	}
	return sum
}

// Cut attributes each instant of [start, end) to one stage. Spans may overlap,
// leave gaps, reach beyond both ends or be empty; what none covers is
// Unattributed. The stages add up to end-start exactly.
func Cut(start, end int64, spans []Span) Budget {
	var b Budget
	if end <= start {
		return b
	}
	var storage [96]int64
	cuts := append(storage[:0], start, end)
	for _, s := range spans {
		cuts = appendInside(cuts, start, end, s.Start)
		cuts = appendInside(cuts, start, end, s.End)
	}
	slices.Sort(cuts)
	cuts = slices.Compact(cuts)
	byStart := slices.Clone(spans)
	slices.SortFunc(byStart, func(a, b Span) int { return cmp.Compare(a.Start, b.Start) })

	active, next := byStart[:0:0], 0
	for i := 0; i+1 < len(cuts); i++ {
		from, to := cuts[i], cuts[i+1]
		for next < len(byStart) && byStart[next].Start <= from {
			active = append(active, byStart[next])
			next++
		}
		active = slices.DeleteFunc(active, func(s Span) bool { return s.End <= from })
		b[best(active)] += to - from
	}
	return b
}

func appendInside(cuts []int64, start, end, at int64) []int64 {
	if at > start && at < end {
		return append(cuts, at)
	}
	return cuts
}

// best returns the stage of the span with the highest priority, then the latest stage.
func best(active []Span) Stage {
	stage, order := Unattributed, uint16(0)
	for _, s := range active {
		if o := s.order(); o >= order {
			stage, order = s.Stage, o
		}
	}
	return stage
}
