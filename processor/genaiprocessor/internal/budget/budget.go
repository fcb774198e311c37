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

// rank orders spans that cover one instant: by priority, then by stage.
func (s Span) rank() int32 { return int32(s.Priority)*int32(Count) + int32(s.Stage) }

const ranks = (int(Own) + 1) * int(Count)

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
	var storage [few]edge
	edges := storage[:0]
	for _, s := range spans {
		from, to := max(s.Start, start), min(s.End, end)
		if from < to {
			edges = append(edges, edge{from, s.rank(), 1}, edge{to, s.rank(), -1})
		}
	}
	sortEdges(edges)

	var open [ranks]int32
	highest, last := int32(-1), start
	for _, e := range edges {
		b[stageAt(highest)] += e.at - last
		last = e.at
		open[e.rank] += e.by
		highest = max(highest, e.rank)
		for highest >= 0 && open[highest] == 0 {
			highest--
		}
	}
	b[stageAt(highest)] += end - last
	return b
}

// edge is where one more or one less span of a rank covers what follows.
type edge struct {
	at       int64
	rank, by int32
}

// few is more edges than nearly all requests have.
const few = 64

// sortEdges orders by time. The spans of a request come almost in order.
func sortEdges(edges []edge) {
	if len(edges) > few {
		slices.SortFunc(edges, func(a, b edge) int { return cmp.Compare(a.at, b.at) })
		return
	}
	for i := 1; i < len(edges); i++ {
		e, k := edges[i], i
		for ; k > 0 && edges[k-1].at > e.at; k-- {
			edges[k] = edges[k-1]
		}
		edges[k] = e
	}
}

// stageAt is the stage of the highest rank of those that cover an instant.
func stageAt(rank int32) Stage {
	if rank < 0 {
		return Unattributed
	}
	return Stage(rank % int32(Count))
}
