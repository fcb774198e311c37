// Copyright The otelcol-sglang Authors
// SPDX-License-Identifier: Apache-2.0

package series // import "github.com/otelcol-sglang/otelcol-sglang/processor/rankdedupprocessor/internal/series"

import "github.com/otelcol-sglang/otelcol-sglang/internal/sglang"

// instant folds numbers that stand for themselves: only the ranks of this scrape count.
func (g *group) instant(b *Batch) {
	switch g.rule.Reduce {
	case sglang.ReduceSum:
		g.instantSum(b)
	case sglang.ReduceMax:
		g.instantMax(b)
	default:
		g.instantFirst(b)
	}
}

func (g *group) instantFirst(b *Batch) {
	for _, i := range g.points {
		if p := &b.Points[i]; !p.Missing {
			p.rank.note(p, g.wave, g.measured(p))
		}
	}
	best := g.lowest(b, func(p *Point) bool { return !p.Missing && p.rank.reported && g.measured(p) })
	if best == nil {
		best = g.lowestMeasured(b)
	}
	g.emit(b, best)
}

// lowestMeasured falls back to a sentinel where nothing else is there.
func (g *group) lowestMeasured(b *Batch) *Point {
	if p := g.lowest(b, g.measured); p != nil {
		return p
	}
	return g.lowest(b, func(p *Point) bool { return !p.Missing })
}

func (g *group) instantSum(b *Batch) {
	best, sum, n := g.lowestMeasured(b), 0.0, 0
	for _, i := range g.points {
		p := &b.Points[i]
		p.rank.note(p, g.wave, g.measured(p))
		if g.measured(p) {
			sum += p.Value.Sum
			n++
		}
	}
	g.emit(b, best)
	if n > 1 {
		best.Value.Sum, best.Rewrite = sum, true
	}
}

func (g *group) instantMax(b *Batch) {
	best := g.lowestMeasured(b)
	for _, i := range g.points {
		p := &b.Points[i]
		p.rank.note(p, g.wave, g.measured(p))
		if g.measured(p) && p.Value.Sum > best.Value.Sum {
			best = p
		}
	}
	g.emit(b, best)
}

// note remembers whether the rank reports.
func (r *rankState) note(p *Point, wave uint64, measured bool) {
	if p.Missing {
		return
	}
	if measured {
		r.reported = r.reported || !p.Value.isZero()
		r.cum.Sum, r.cum.Count = p.Value.Sum, p.Value.Count
		r.seen = true
	}
	r.wave, r.ts = wave, p.TS
}
