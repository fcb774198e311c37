// Copyright The otelcol-sglang Authors
// SPDX-License-Identifier: Apache-2.0

package series // import "github.com/otelcol-sglang/otelcol-sglang/processor/rankdedupprocessor/internal/series"

// Spread is how far the ranks of one series are apart: of gauges the value, of
// counters the increase and of histograms the mean since the last scrape, each in
// the family's unit.
type Spread struct {
	// Point is the index of a point of the series, for its labels and time.
	Point int
	// Width is the largest value less the smallest.
	Width float64
	// TPRank has the largest value.
	TPRank int64
}

// spread is computed over the ranks of this round that have something to compare.
func (g *group) spread(b *Batch) {
	var s Spread
	least, most, n := 0.0, 0.0, 0
	for _, i := range g.points {
		p := &b.Points[i]
		v, ok := g.comparable(p)
		if !ok || p.Rank.TP == NoRank {
			continue
		}
		if n == 0 || v < least {
			least = v
		}
		if n == 0 || v > most || v == most && p.Rank.TP < s.TPRank {
			most, s.TPRank, s.Point = v, p.Rank.TP, i
		}
		n++
	}
	if n > 1 {
		s.Width = most - least
		b.Spreads = append(b.Spreads, s)
	}
}

func (g *group) comparable(p *Point) (float64, bool) {
	r := p.rank
	if !p.usable() || r == nil || r.wave != g.wave {
		return 0, false
	}
	switch g.kind {
	case Instant:
		return r.cum.Sum, g.measured(p)
	case Counter:
		return r.cum.Sum - r.prev.Sum, !r.fresh
	case Histogram:
		n := r.cum.Count - r.prev.Count
		return (r.cum.Sum - r.prev.Sum) / float64(n), !r.fresh && n > 0
	default:
		return 0, false
	}
}
