// Copyright The otelcol-sglang Authors
// SPDX-License-Identifier: Apache-2.0

package scrape // import "github.com/otelcol-sglang/otelcol-sglang/receiver/sglangreceiver/internal/scrape"

import (
	"github.com/otelcol-sglang/otelcol-sglang/receiver/sglangreceiver/internal/page"
)

// spareStates is how many vanished series are remembered beyond as many as live.
const spareStates = 1024

// point is the last sight of one cumulative series.
type point struct {
	start  uint64
	value  float64
	bounds int
	// scan is the number of the scrape that saw it.
	scan uint64
}

// Tracker finds out when cumulative series began, as an engine's page does not
// say (its client runs in multiprocess mode, which has no `_created`):
//   - what the first page shows began at that page: its past is unknown;
//   - a series that turns up later, or falls back, began at the page before;
//   - if most of what counted falls back or vanishes at once, the engine was
//     restarted, and every series began at the page before.
//
// It belongs to one engine's scraping goroutine. Times are Unix nanoseconds.
type Tracker struct {
	points map[uint64]point
	scan   uint64
	lastAt uint64
	// forgot: a vanished series' state was dropped, so that a series that turns up
	// may be an old one.
	forgot bool
}

// NewTracker returns an empty tracker.
func NewTracker() *Tracker { return &Tracker{points: map[uint64]point{}} }

// Observe sets [page.Series.Start] of the cumulative series of a page that was
// read at the given time, and tells whether the engine was restarted since the last one.
func (t *Tracker) Observe(p *page.Page, at uint64) (restarted bool) {
	t.scan++
	restarted = t.restarted(p)
	if restarted {
		clear(t.points)
		t.forgot = false
	}
	fresh := t.lastAt
	if t.scan == 1 || t.forgot {
		fresh = at
	}
	live := 0
	each(p, func(s *page.Series) {
		live++
		s.Start = t.start(s, fresh)
	})
	t.lastAt = at
	t.trim(live)
	return restarted
}

func (t *Tracker) start(s *page.Series, fresh uint64) uint64 {
	value, bounds := s.Cumulative(), boundCount(s)
	old, known := t.points[s.Key]
	start := old.start
	switch {
	case !known:
		start = fresh
	case value < old.value || bounds != old.bounds:
		start = t.lastAt
	}
	t.points[s.Key] = point{start: start, value: value, bounds: bounds, scan: t.scan}
	return start
}

// restarted looks at the series that had counted something on the page before.
func (t *Tracker) restarted(p *page.Page) bool {
	counted, back := 0, 0
	for _, old := range t.points {
		if old.scan == t.scan-1 && old.value > 0 {
			counted++
			back++
		}
	}
	each(p, func(s *page.Series) {
		old, known := t.points[s.Key]
		if known && old.scan == t.scan-1 && old.value > 0 && s.Cumulative() >= old.value {
			back--
		}
	})
	return counted > 0 && 2*back > counted
}

// trim bounds the states of vanished series.
func (t *Tracker) trim(live int) {
	if len(t.points) <= 2*live+spareStates {
		return
	}
	for k, old := range t.points {
		if old.scan != t.scan {
			delete(t.points, k)
			t.forgot = true
		}
	}
}

func boundCount(s *page.Series) int {
	if s.Dist == nil {
		return 0
	}
	return len(s.Dist.Bounds)
}

func each(p *page.Page, take func(*page.Series)) {
	for _, f := range p.Families {
		if f.Kind == page.Gauge {
			continue
		}
		for i := range f.Series {
			take(&f.Series[i])
		}
	}
}
