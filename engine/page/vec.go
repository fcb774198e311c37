// Copyright The otelcol-sglang Authors
// SPDX-License-Identifier: Apache-2.0

package page // import "github.com/otelcol-sglang/otelcol-sglang/engine/page"

import (
	"slices"
	"strings"
	"time"

	"github.com/otelcol-sglang/otelcol-sglang/engine/ledger"
	"github.com/otelcol-sglang/otelcol-sglang/internal/sglang"
)

// maxOwn is the largest number of labels that a family has beside its role's.
const maxOwn = 4

// emitter is one process with the labels that its role puts on every family.
type emitter struct {
	labels []Label
	pid    int
	// rank is nil for a process that is no scheduler.
	rank *rank
}

func (e *emitter) running() bool { return e.rank == nil || !e.rank.stopped }

// stats tells whether the process writes engine-level series.
func (p *Page) stats(e *emitter) bool {
	return e.rank == nil || e.rank.attnTP == 0 || p.args.EnableMetricsForAllSchedulers
}

// role is a collector's processes.
type role struct {
	page     *Page
	emitters []emitter
}

// shown is one series of a family.
type shown[T any] struct {
	instrument T
	rank       *rank
}

func (s *shown[T]) running() bool { return s.rank == nil || !s.rank.stopped }

// vec is one family of a role. A series comes into being when its values are
// asked for.
type vec[T any] struct {
	role   *role
	family *sglang.Family
	make   func(Series) T
	// own are the labels for which the caller gives values. They may replace one
	// of the role's.
	own []string

	plain  []shown[T]
	series map[[maxOwn]string][]shown[T]
}

func newVec[T any](r *role, name sglang.FamilyName, mk func(Series) T, own ...string) *vec[T] {
	v := &vec[T]{role: r, family: name.Family(), make: mk, own: own, series: map[[maxOwn]string][]shown[T]{}}
	if len(own) > 0 || len(r.emitters) == 0 {
		return v
	}
	for _, l := range v.family.Labels {
		if !slices.ContainsFunc(r.emitters[0].labels, func(b Label) bool { return b.Name == l }) {
			v.own = append(v.own, l)
		}
	}
	return v
}

func (r *role) counter(name sglang.FamilyName) *vec[Counter] {
	return newVec(r, name, r.page.backend.Counter)
}

func (r *role) gauge(name sglang.FamilyName, own ...string) *vec[Gauge] {
	return newVec(r, name, r.page.backend.Gauge, own...)
}

func (r *role) histogram(name sglang.FamilyName) *vec[Histogram] {
	return newVec(r, name, r.page.backend.Histogram)
}

// with gives the series of all processes that show these values, in the order of own.
func (v *vec[T]) with(values ...string) []shown[T] {
	if len(values) == 0 {
		if v.plain == nil {
			v.plain = v.create([maxOwn]string{})
		}
		return v.plain
	}
	var key [maxOwn]string
	copy(key[:], values)
	s, ok := v.series[key]
	if !ok {
		s = v.create(key)
		v.series[key] = s
	}
	return s
}

// seed makes the series of every process, whoever writes them later.
func (v *vec[T]) seed(values ...string) {
	for i := range v.role.emitters {
		v.make(v.of(&v.role.emitters[i], values))
	}
}

func (v *vec[T]) create(key [maxOwn]string) []shown[T] {
	values := key[:len(v.own)]
	emitters := v.family.EmittersOf(func(name string) string {
		if i := slices.Index(v.own, name); i >= 0 {
			return values[i]
		}
		return ""
	})
	out := make([]shown[T], 0, len(v.role.emitters))
	for i := range v.role.emitters {
		e := &v.role.emitters[i]
		if !e.running() || (emitters == sglang.EmitRank0Only && !v.role.page.stats(e)) {
			continue
		}
		out = append(out, shown[T]{v.make(v.of(e, values)), e.rank})
	}
	return out
}

func (v *vec[T]) of(e *emitter, values []string) Series {
	ls := make([]Label, 0, len(e.labels)+len(values))
	for i, name := range v.own {
		ls = append(ls, Label{name, values[i]})
	}
	// The last of a name counts: an extra label may replace the role's.
	for _, l := range slices.Backward(e.labels) {
		if !slices.ContainsFunc(ls, func(has Label) bool { return has.Name == l.Name }) {
			ls = append(ls, l)
		}
	}
	slices.SortFunc(ls, func(a, b Label) int { return strings.Compare(a.Name, b.Name) })
	return Series{Family: v.family, Labels: ls, Bounds: v.role.page.boundsOf(v.family), PID: e.pid}
}

func add(ss []shown[Counter], v float64) {
	for i := range ss {
		if ss[i].running() {
			ss[i].instrument.Add(v)
		}
	}
}

func set(ss []shown[Gauge], v float64) {
	for i := range ss {
		if ss[i].running() {
			ss[i].instrument.Set(v)
		}
	}
}

func observe(ss []shown[Histogram], v float64, n int) {
	for i := range ss {
		if ss[i].running() {
			ss[i].instrument.Observe(v, uint64(n))
		}
	}
}

// addTime adds to each rank's counter what it spent, in seconds.
func addTime(ss []shown[Counter], t RankTime, d time.Duration) {
	for i := range ss {
		if ss[i].running() {
			ss[i].instrument.Add(ss[i].rank.spent(t, d).Seconds())
		}
	}
}

// observeTime is one observation of each rank's own duration, in units of unit; none
// of what is [ledger.Unset].
func observeTime(ss []shown[Histogram], t RankTime, d, unit time.Duration) {
	if d == ledger.Unset {
		return
	}
	for i := range ss {
		if ss[i].running() {
			ss[i].instrument.Observe(float64(ss[i].rank.measured(t, d))/float64(unit), 1)
		}
	}
}
