// Copyright The otelcol-sglang Authors
// SPDX-License-Identifier: Apache-2.0

package series // import "github.com/otelcol-sglang/otelcol-sglang/processor/rankdedupprocessor/internal/series"

import (
	"cmp"
	"math"

	"github.com/otelcol-sglang/otelcol-sglang/internal/sglang"
)

// Kind says what may be done with a point.
type Kind uint8

const (
	// Instant is a gauge, a non-monotonic sum, or anything of delta temporality
	// that is a number.
	Instant Kind = iota
	// Counter is a cumulative monotonic number.
	Counter
	// Histogram is cumulative, with explicit bounds.
	Histogram
	// Opaque can be chosen but not computed with: summaries, exponential and delta
	// histograms.
	Opaque
)

func (k Kind) cumulative() bool { return k == Counter || k == Histogram }

// NoRank stands for an absent rank label and sorts first.
const NoRank = math.MinInt64

// Rank is what a series is folded over.
type Rank struct{ TP, EP, PID int64 }

// NoRanks is the rank of a point without rank labels.
var NoRanks = Rank{NoRank, NoRank, NoRank}

// compare puts the lowest tp_rank first, then the lowest expert rank; of two
// processes with one rank the younger (higher) pid goes first, since dead
// processes stay on the page.
func (r Rank) compare(o Rank) int {
	return cmp.Or(cmp.Compare(r.TP, o.TP), cmp.Compare(r.EP, o.EP), cmp.Compare(o.PID, r.PID))
}

// Rule says how one family is folded.
type Rule struct {
	Reduce sglang.TPReduce
	// Private: ranks measure their own thing, so a change of rank must not show as
	// an increase.
	Private bool
	// MinusOne: -1 means "not measured".
	MinusOne bool
	// Skew asks for the spread over the ranks.
	Skew bool
}

// Point is one rank's point of one series.
type Point struct {
	Rank Rank
	Kind Kind
	// Process is equal for the points of one process of the engine.
	Process uint64
	// TS and Start are nanoseconds; 0 is unknown.
	TS, Start uint64
	Value     Value
	// Bounds are a histogram's.
	Bounds []float64
	// Missing marks a point without a value: its series ended.
	Missing bool

	// Verdict is set by [Batch.Fold], and so are the fields below.
	Verdict Verdict
	// Rewrite: the point's value becomes Value.
	Rewrite bool
	// OutStart becomes the start of an emitted cumulative point.
	OutStart uint64

	group *group
	rank  *rankState
	round int
}

// Verdict is what happens to a point.
type Verdict uint8

const (
	// Pass leaves the point as it is, rank labels included.
	Pass Verdict = iota
	// Drop: the point is folded into another one.
	Drop
	// Emit: the point stands for its group and loses the labels it was folded over.
	Emit
)

// Reason says why a point was not folded as its rule asks.
type Reason uint8

const (
	// BoundsDiffer: histograms with other bounds can't be added; left per rank.
	BoundsDiffer Reason = iota
	// NotReducible: the rule makes no sense for the type; left per rank.
	NotReducible
	// MixedRanks: a series without rank among ranked ones may be their sum already;
	// left as they are.
	MixedRanks
	// TooManyRanks: more ranks than any engine has; left per rank.
	TooManyRanks
	// Duplicate: two points of one series and time; the first one counts.
	Duplicate
	// Late: older than what was folded before; dropped.
	Late
	// Untracked: no room to remember the series; folded from this scrape alone.
	Untracked
	// BadRank: a rank label that is no number; left as it is. Counted by the caller.
	BadRank
	// ReasonCount is the number of reasons.
	ReasonCount
)

var reasonNames = [ReasonCount]string{
	"bounds_differ", "not_reducible", "mixed_ranks", "too_many_ranks", "duplicate", "late", "untracked", "bad_rank",
}

func (r Reason) String() string { return reasonNames[r] }

// Stats counts what one Fold did.
type Stats struct {
	// Refused counts points by reason.
	Refused [ReasonCount]int64
	// RankResets are counters of single ranks that began anew while others went on.
	RankResets int64
	// Restarts of whole engines.
	Restarts int64
}
