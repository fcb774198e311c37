// Copyright The otelcol-sglang Authors
// SPDX-License-Identifier: Apache-2.0

package series // import "github.com/otelcol-sglang/otelcol-sglang/processor/rankdedupprocessor/internal/series"

import (
	"cmp"
	"slices"
)

// Batch is the points of one engine that arrived together. It may be reused
// after [Batch.Reset].
type Batch struct {
	Points  []Point
	Stats   Stats
	Spreads []Spread

	order   []int
	touched []*group
	rounds  int
}

// Reset empties the batch, keeping its memory.
func (b *Batch) Reset() {
	clear(b.Points)
	clear(b.touched)
	b.Points, b.Spreads, b.touched = b.Points[:0], b.Spreads[:0], b.touched[:0]
	b.Stats, b.rounds = Stats{}, 0
}

// Add takes a point of the series that key names: family, type and every label
// but the ranks. The engine must be held.
func (b *Batch) Add(e *Engine, key []byte, rule Rule, p Point) {
	p.group = e.group(key, rule, p.Kind)
	p.group.seen = e.now
	p.rank = e.rank(p.group, p.Rank)
	b.Points = append(b.Points, p)
}

// Fold decides about every point added. Points of one series and rank with
// different times are folded one after the other.
func (b *Batch) Fold(e *Engine) {
	b.place(e)
	for i := 0; i < len(b.order); {
		n := i + b.roundLength(i)
		e.fold(b, b.order[i:n])
		i = n
	}
	e.endBatch()
	if b.Stats.Refused[Untracked] == 0 {
		return
	}
	for i := range b.Points {
		if r := b.Points[i].rank; r != nil && r.transient {
			b.Points[i].group.dropTransient()
		}
	}
}

// place finds each point's round: its ordinal among the points of its rank.
func (b *Batch) place(e *Engine) {
	e.batches++
	b.order = b.order[:0]
	for i := range b.Points {
		b.enter(i, e.batches)
	}
	if b.rounds > 1 {
		slices.SortStableFunc(b.order, func(x, y int) int { return cmp.Compare(b.Points[x].round, b.Points[y].round) })
	}
}

// enter numbers a point among those of its rank. A second one of the same time is
// dropped; the end of a series that a value follows is no end.
func (b *Batch) enter(i int, batch uint64) {
	p := &b.Points[i]
	r := p.rank
	if r == nil {
		p.group.crowded = true
		b.order = append(b.order, i)
		return
	}
	if r.transient {
		b.Stats.Refused[Untracked]++
	}
	if r.batch != batch {
		r.batch, r.batched = batch, 0
	}
	if r.batched > 0 {
		last := &b.Points[r.point]
		switch {
		case last.Missing && !p.Missing:
			last.Verdict, p.round = Drop, last.round
			r.point, b.order[r.ordinal] = i, i
			return
		case last.TS == p.TS:
			p.Verdict = Drop
			b.Stats.Refused[Duplicate]++
			return
		}
	}
	p.round, r.point, r.ordinal = r.batched, i, len(b.order)
	r.batched++
	b.rounds = max(b.rounds, p.round+1)
	b.order = append(b.order, i)
}

func (b *Batch) roundLength(from int) int {
	if b.rounds <= 1 {
		return len(b.order) - from
	}
	n := from
	for n < len(b.order) && b.Points[b.order[n]].round == b.Points[b.order[from]].round {
		n++
	}
	return n - from
}

// fold folds one round: at most one point of each rank of each series.
func (e *Engine) fold(b *Batch, order []int) {
	e.wave++
	if e.restarted(b, order) {
		b.Stats.Restarts++
		e.epoch++
		e.floor = e.lastTS
	}
	for _, i := range order {
		p := &b.Points[i]
		if g := p.group; g.wave != e.wave {
			g.wave = e.wave
			b.touched = append(b.touched, g)
		}
		p.group.points = append(p.group.points, i)
	}
	for _, g := range b.touched {
		g.fold(e, b)
		g.points = g.points[:0]
	}
	b.touched = b.touched[:0]
	for _, i := range order {
		e.lastTS = max(e.lastTS, b.Points[i].TS)
	}
}

// evidence is what the cumulative points of one process say about its life.
type evidence uint8

const (
	// fell: a value is lower than before.
	fell evidence = 1 << iota
	// moved: a start time lies after the last point.
	moved
	// goesOn: a value that was not zero is still there, with its start.
	goesOn
)

// restarted tells whether all processes that say anything began anew. A moved
// start alone is weak: a source may set it for a series that only came back.
func (e *Engine) restarted(b *Batch, order []int) bool {
	clear(e.evidence)
	began, said := false, false
	for _, i := range order {
		p := &b.Points[i]
		if p.rank == nil || !p.Kind.cumulative() || !p.usable() || p.group.epoch != e.epoch {
			continue
		}
		if s := p.rank.evidence(p); s != 0 {
			e.evidence[p.Process] |= s
			said = said || s != goesOn
		}
	}
	if !said {
		return false
	}
	for _, s := range e.evidence {
		switch {
		case s&fell != 0, s == moved:
			began = true
		case s&goesOn != 0:
			return false
		}
	}
	return began
}
