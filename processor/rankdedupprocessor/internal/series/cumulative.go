// Copyright The otelcol-sglang Authors
// SPDX-License-Identifier: Apache-2.0

package series // import "github.com/otelcol-sglang/otelcol-sglang/processor/rankdedupprocessor/internal/series"

import (
	"math"
	"slices"

	"github.com/otelcol-sglang/otelcol-sglang/internal/sglang"
)

// evidence is what a cumulative point says about its process.
func (r *rankState) evidence(p *Point) evidence {
	if !r.seen || p.TS != 0 && p.TS < r.ts {
		return 0
	}
	if r.falls(p) {
		return fell
	}
	switch {
	case r.start != 0 && p.Start > r.start && p.Start >= r.ts:
		return moved
	case r.cum.isZero():
		return 0
	}
	return goesOn
}

// falls tells whether the point can't continue the rank's series.
func (r *rankState) falls(p *Point) bool {
	if p.Kind == Histogram && !slices.Equal(r.bounds, p.Bounds) {
		return true
	}
	if r.base.isZero() {
		return !p.Value.atLeast(&r.cum)
	}
	last := Value{}
	last.set(&r.cum)
	last.add(&r.base, -1)
	return !p.Value.atLeast(&last)
}

// update takes a point in and tells whether the rank's counter began anew. The
// same point again (a resend) changes nothing.
func (r *rankState) update(p *Point, wave uint64) (reset bool) {
	r.wave, r.rebased = wave, false
	if r.seen && r.ts == p.TS && r.same(p) {
		return false
	}
	reset = r.seen && r.falls(p)
	r.fresh = !r.seen
	if reset {
		r.rebase(p)
	}
	r.reported = r.reported || !p.Value.isZero()
	r.prev, r.cum = r.cum, r.prev
	r.cum.set(&p.Value)
	if !r.base.isZero() {
		r.cum.add(&r.base, 1)
	}
	if p.Kind == Histogram {
		r.bounds = append(r.bounds[:0], p.Bounds...)
	}
	r.seen, r.ts, r.start = true, p.TS, p.Start
	return reset
}

// rebase keeps what a rank had before its reset; with other bounds nothing can be kept.
func (r *rankState) rebase(p *Point) {
	if p.Kind == Histogram && !slices.Equal(r.bounds, p.Bounds) {
		r.base, r.fresh, r.rebased = Value{}, true, true
		return
	}
	r.base.set(&r.cum)
}

func (r *rankState) same(p *Point) bool {
	return r.base.isZero() && r.cum.equal(&p.Value) && slices.Equal(r.bounds, p.Bounds)
}

// before is the monotonic value ahead of the present round.
func (r *rankState) before(wave uint64) *Value {
	if r.wave == wave {
		return &r.prev
	}
	return &r.cum
}

// cumulative folds counters and histograms.
func (g *group) cumulative(e *Engine, b *Batch) {
	g.take(b)
	present := g.lowest(b, g.present)
	if present == nil {
		return
	}
	if g.kind == Histogram {
		g.otherBounds(e, present.Bounds)
	}
	if g.rule.Reduce == sglang.ReduceFirst {
		g.first(e, b)
		return
	}
	g.combine(e, b, present)
}

// take brings the ranks up to date; every point is dropped until one is emitted.
func (g *group) take(b *Batch) {
	for _, i := range g.points {
		p := &b.Points[i]
		p.Verdict = Drop
		switch {
		case !p.usable():
		case p.rank.seen && p.TS < p.rank.ts:
			b.Stats.Refused[Late]++
		case p.rank.update(p, g.wave):
			b.Stats.RankResets++
		}
	}
}

func (g *group) present(p *Point) bool { return p.rank.wave == g.wave }

// otherBounds forgets ranks whose bounds are not those of this round: nothing of
// theirs can be added, so the series begins anew. What was chosen needs no
// company and is looked at when the choice changes.
func (g *group) otherBounds(e *Engine, bounds []float64) {
	if g.rule.Reduce == sglang.ReduceFirst {
		return
	}
	for _, r := range g.ranks {
		if !r.seen || slices.Equal(r.bounds, bounds) && !r.rebased {
			continue
		}
		if r.wave != g.wave {
			*r = rankState{rank: r.rank, transient: r.transient}
		}
		g.renew(e)
	}
}

// renew gives the series a new start: what follows does not continue it.
func (g *group) renew(e *Engine) {
	g.start, g.out, g.offset = e.lastTS, 0, Value{}
}

// startAt is the series' start: that of its first point, never before the
// engine's last restart.
func (g *group) startAt(e *Engine, start uint64) uint64 {
	if g.start == 0 {
		g.start = max(start, e.floor)
	}
	return g.start
}

// earliest is the earliest start of this round's points.
func (g *group) earliest(b *Batch) uint64 {
	start := uint64(0)
	for _, i := range g.points {
		p := &b.Points[i]
		if g.present(p) && p.Start != 0 && (start == 0 || p.Start < start) {
			start = p.Start
		}
	}
	return start
}

// combine adds the ranks up or takes the largest, those included that are gone.
func (g *group) combine(e *Engine, b *Batch, body *Point) {
	total, n := &g.total, 0
	total.set(&Value{})
	for _, r := range g.ranks {
		switch {
		case !r.seen:
		case g.rule.Reduce == sglang.ReduceSum:
			total.add(&r.cum, 1)
			n++
		case n == 0 || r.cum.Sum > total.Sum:
			total.set(&r.cum)
			n++
		}
	}
	g.leave(b, body, total, g.startAt(e, g.earliest(b)))
}

// first continues with the rank chosen, or with another one.
func (g *group) first(e *Engine, b *Batch) {
	best := g.choose(b)
	if r := best.rank; g.chosen != r {
		g.follow(e, r)
		g.chosen = r
	} else if g.kind == Histogram && r.rebased {
		g.renew(e)
	}
	out := best.rank.cum
	if !g.offset.isZero() {
		g.total.set(&out)
		g.total.add(&g.offset, 1)
		out = g.total
	}
	g.leave(b, best, &out, g.startAt(e, best.Start))
}

// choose stays with the chosen rank while it reports, and changes to a lower one
// only where that leaves no trace.
func (g *group) choose(b *Batch) *Point {
	low := g.lowest(b, func(p *Point) bool { return g.present(p) && p.rank.reported })
	if low == nil {
		low = g.lowest(b, g.present)
	}
	cur := g.chosen
	if cur == nil || cur.wave != g.wave || !cur.reported || cur == low.rank || g.fits(low.rank) {
		return low
	}
	return g.lowest(b, func(p *Point) bool { return p.rank == cur })
}

// fits tells whether r's value lies between what left last and what would leave next.
func (g *group) fits(r *rankState) bool {
	last, next := Value{}, Value{}
	last.set(g.chosen.before(g.wave))
	last.add(&g.offset, 1)
	next.set(&g.chosen.cum)
	next.add(&g.offset, 1)
	return slices.Equal(r.bounds, g.chosen.bounds) && r.cum.atLeast(&last) && next.atLeast(&r.cum)
}

// follow makes r continue the series of the rank chosen before: by its value where
// ranks have the same one, else by its increase.
func (g *group) follow(e *Engine, r *rankState) {
	if g.chosen == nil {
		return
	}
	if !slices.Equal(r.bounds, g.chosen.bounds) {
		g.renew(e)
		return
	}
	last := Value{}
	last.set(g.chosen.before(g.wave))
	last.add(&g.offset, 1)
	g.offset = Value{}
	if r.cum.atLeast(&last) && (r.fresh || !g.rule.Private) {
		return
	}
	from := r.before(g.wave)
	if r.fresh {
		from = &r.cum
	}
	last.add(from, -1)
	g.offset = last
}

// roundingSlack is far above what one addition rounds, far below any increase that
// counts; relative to the larger operand.
const roundingSlack = 1e-12

// rounded tells a sum that went back by a rounding. A counter goes back by nothing
// else; a histogram's sum may, by negative observations.
func (g *group) rounded(sum float64) bool {
	if sum >= g.out {
		return false
	}
	return g.kind == Counter || g.out-sum <= roundingSlack*max(math.Abs(g.out), math.Abs(g.offset.Sum))
}

// leave writes the series' value into body and lets it stand for the group. A sum
// never goes back by a rounding: a reader takes that for a reset.
func (g *group) leave(b *Batch, body *Point, out *Value, start uint64) {
	if g.rounded(out.Sum) {
		out.Sum = g.out
	}
	g.out = out.Sum
	g.emit(b, body)
	body.OutStart = start
	if !out.equal(&body.Value) {
		body.Value.set(out)
		body.Rewrite = true
	}
}
