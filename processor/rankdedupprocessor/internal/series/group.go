// Copyright The otelcol-sglang Authors
// SPDX-License-Identifier: Apache-2.0

package series // import "github.com/otelcol-sglang/otelcol-sglang/processor/rankdedupprocessor/internal/series"

import (
	"math"
	"slices"
	"time"

	"github.com/otelcol-sglang/otelcol-sglang/internal/sglang"
)

// maxRanks bounds the ranks of one series: twice the largest TP size in use.
const maxRanks = 1024

// rankState is what is remembered of one rank's series.
type rankState struct {
	rank Rank
	// transient: there was no room; forgotten after the round.
	transient bool
	// reported: has shown a value other than zero or a sentinel.
	reported bool
	// seen: has a value; fresh: the first one came in round wave; rebased: its
	// bounds changed in that round.
	seen, fresh, rebased bool
	// wave is the last round with a point.
	wave uint64
	// ts and start are the last point's.
	ts, start uint64
	// cum is the monotonic value, base the part of it from before the last reset,
	// prev the value of cum before the last point.
	cum, base, prev Value
	bounds          []float64

	// of the batch being placed: its number, points so far, the last one's index
	// and its place in the order
	batch          uint64
	batched        int
	point, ordinal int
}

// group is the series of one family that differ in rank only.
type group struct {
	rule   Rule
	kind   Kind
	stored bool
	seen   time.Time
	epoch  int
	// ranks is sorted.
	ranks []*rankState
	// chosen is the rank that "first" follows; offset is what its value lacks of
	// the series that left.
	chosen *rankState
	offset Value
	// total is what the ranks add up to.
	total Value
	// out is the last sum that left.
	out   float64
	start uint64

	wave    uint64
	points  []int
	crowded bool
}

// restart forgets what was before, as after the engine's restart, and the ranks
// that have no point in this batch.
func (g *group) restart(e *Engine) {
	g.epoch, g.chosen, g.start, g.out = e.epoch, nil, 0, 0
	g.offset = Value{}
	kept := g.ranks[:0]
	for _, r := range g.ranks {
		if r.batch == e.batches {
			*r = rankState{rank: r.rank, transient: r.transient, batch: r.batch}
			kept = append(kept, r)
		} else if !r.transient {
			e.count(-1)
		}
	}
	clear(g.ranks[len(kept):])
	g.ranks = kept
}

// rank finds or makes a rank's state; nil if there are too many.
func (e *Engine) rank(g *group, rank Rank) *rankState {
	i, ok := slices.BinarySearchFunc(g.ranks, rank, func(r *rankState, k Rank) int { return r.rank.compare(k) })
	if ok {
		return g.ranks[i]
	}
	if len(g.ranks) >= maxRanks {
		return nil
	}
	r := &rankState{rank: rank, transient: !g.stored || e.full()}
	if !r.transient {
		e.count(1)
	}
	g.ranks = slices.Insert(g.ranks, i, r)
	return r
}

func (g *group) fold(e *Engine, b *Batch) {
	if g.epoch != e.epoch {
		g.restart(e)
	}
	if reason, ok := g.foldable(b); !ok {
		b.Stats.Refused[reason] += int64(len(g.points))
		g.restart(e)
		g.crowded = false
		return
	}
	switch {
	case !slices.ContainsFunc(g.points, func(i int) bool { return b.Points[i].usable() }):
		g.missing(b)
	case g.rule.Reduce == sglang.ReduceKeep:
		g.keep(b)
	case g.kind == Instant, g.kind == Opaque:
		g.instant(b)
	default:
		g.cumulative(e, b)
	}
	if g.rule.Skew {
		g.spread(b)
	}
}

// foldable tells whether the rule can be applied; if not, the points stay as they are.
func (g *group) foldable(b *Batch) (Reason, bool) {
	r := g.rule.Reduce
	switch {
	case g.crowded:
		return TooManyRanks, false
	case r == sglang.ReduceKeep || r == sglang.ReduceFirst:
		return 0, true
	case g.kind == Opaque, g.kind == Histogram && r == sglang.ReduceMax:
		return NotReducible, false
	case len(g.points) > 1 && slices.ContainsFunc(g.points, func(i int) bool { return b.Points[i].Rank == NoRanks }):
		return MixedRanks, false
	case g.kind == Histogram && !g.boundsAgree(b):
		return BoundsDiffer, false
	}
	return 0, true
}

func (g *group) boundsAgree(b *Batch) bool {
	var bounds []float64
	first := true
	for _, i := range g.points {
		p := &b.Points[i]
		if p.Missing {
			continue
		}
		if first {
			bounds, first = p.Bounds, false
		} else if !slices.Equal(bounds, p.Bounds) {
			return false
		}
	}
	return true
}

// missing lets the series end: no rank has a value.
func (g *group) missing(b *Batch) {
	if g.rule.Reduce == sglang.ReduceKeep {
		return
	}
	lowest := g.lowest(b, func(*Point) bool { return true })
	for _, i := range g.points {
		p := &b.Points[i]
		p.Verdict = Drop
		if !g.kind.cumulative() {
			p.rank.reported = false
		}
	}
	lowest.Verdict, lowest.OutStart = Emit, g.start
}

// keep only remembers, for the spread.
func (g *group) keep(b *Batch) {
	for _, i := range g.points {
		p := &b.Points[i]
		switch {
		case !p.usable():
		case g.kind.cumulative():
			p.rank.update(p, g.wave)
		default:
			p.rank.note(p, g.wave, g.measured(p))
		}
	}
}

// lowest finds the point of the lowest rank that satisfies ok, or nil.
func (g *group) lowest(b *Batch, ok func(*Point) bool) *Point {
	var best *Point
	for _, i := range g.points {
		p := &b.Points[i]
		if ok(p) && (best == nil || p.Rank.compare(best.Rank) < 0) {
			best = p
		}
	}
	return best
}

// measured tells a value from a sentinel.
func (g *group) measured(p *Point) bool {
	return !p.Missing && !math.IsNaN(p.Value.Sum) && !(g.rule.MinusOne && p.Value.Sum == -1)
}

// usable tells whether the point has a value to fold: a sentinel of a gauge is
// one, if nothing better is there; a counter that is not a number is none.
func (p *Point) usable() bool {
	return !p.Missing && (p.Kind != Counter || !math.IsNaN(p.Value.Sum))
}

// emit lets best stand for the group.
func (g *group) emit(b *Batch, best *Point) {
	for _, i := range g.points {
		b.Points[i].Verdict = Drop
	}
	best.Verdict = Emit
}

// dropTransient is for the end of a batch: its points refer to the ranks.
func (g *group) dropTransient() {
	g.ranks = slices.DeleteFunc(g.ranks, func(r *rankState) bool { return r.transient })
	if g.chosen != nil && g.chosen.transient {
		g.chosen = nil
	}
}
