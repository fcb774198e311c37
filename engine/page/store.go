// Copyright The otelcol-sglang Authors
// SPDX-License-Identifier: Apache-2.0

package page // import "github.com/otelcol-sglang/otelcol-sglang/engine/page"

import (
	"math"
	"slices"
	"sort"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"

	dto "github.com/prometheus/client_model/go"

	"github.com/otelcol-sglang/otelcol-sglang/internal/sglang"
)

// Store holds an engine's series as prometheus_client does for several processes:
// counters and histograms of one label set add up over processes, and gauges
// merge by their multiprocess mode.
type Store struct {
	// mu guards the maps and slices, not the numbers.
	mu       sync.RWMutex
	families map[*sglang.Family]*storedFamily
	order    []*storedFamily
}

type storedFamily struct {
	family *sglang.Family
	byKey  map[string]*storedSeries
	order  []*storedSeries
}

// storedSeries has one of the three.
type storedSeries struct {
	labels []Label
	pairs  []*dto.LabelPair
	number *number
	dist   *dist
	// parts by process, of a livesum.
	parts map[int]*number
}

// NewStore returns an empty store.
func NewStore() *Store { return &Store{families: map[*sglang.Family]*storedFamily{}} }

// Counter implements [Backend].
func (s *Store) Counter(d Series) Counter { return s.number(d, d.Labels) }

// Gauge implements [Backend].
func (s *Store) Gauge(d Series) Gauge {
	switch {
	case d.Family.HasPID():
		return s.number(d, withPID(d.Labels, d.PID))
	case d.Family.MultiprocessMode == sglang.MultiprocessLiveSum:
		return s.part(d)
	default:
		return s.number(d, d.Labels)
	}
}

// Histogram implements [Backend].
func (s *Store) Histogram(d Series) Histogram {
	s.mu.Lock()
	defer s.mu.Unlock()
	series := s.series(d.Family, d.Labels)
	if series.dist == nil {
		series.dist = newDist(d.Bounds)
	}
	return series.dist
}

func (s *Store) number(d Series, labels []Label) *number {
	s.mu.Lock()
	defer s.mu.Unlock()
	series := s.series(d.Family, labels)
	if series.number == nil {
		series.number = &number{}
	}
	return series.number
}

func (s *Store) part(d Series) *number {
	s.mu.Lock()
	defer s.mu.Unlock()
	series := s.series(d.Family, d.Labels)
	if series.parts == nil {
		series.parts = map[int]*number{}
	}
	if series.parts[d.PID] == nil {
		series.parts[d.PID] = &number{}
	}
	return series.parts[d.PID]
}

// series finds or makes a series; mu is held.
func (s *Store) series(f *sglang.Family, labels []Label) *storedSeries {
	family := s.families[f]
	if family == nil {
		family = &storedFamily{family: f, byKey: map[string]*storedSeries{}}
		s.families[f] = family
		s.order = append(s.order, family)
	}
	key := keyOf(labels)
	series := family.byKey[key]
	if series == nil {
		series = &storedSeries{labels: labels, pairs: pairsOf(labels)}
		family.byKey[key] = series
		family.order = append(family.order, series)
	}
	return series
}

// Reset forgets everything, as when the engine's directory of values goes. What
// holds an instrument writes to nothing that is shown.
func (s *Store) Reset() {
	s.mu.Lock()
	defer s.mu.Unlock()
	clear(s.families)
	s.order = nil
}

// Exit takes a dead process out of the live sums.
func (s *Store) Exit(pid int) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, f := range s.order {
		if f.family.MultiprocessMode != sglang.MultiprocessLiveSum {
			continue
		}
		f.order = slices.DeleteFunc(f.order, func(series *storedSeries) bool {
			delete(series.parts, pid)
			if len(series.parts) > 0 {
				return false
			}
			delete(f.byKey, keyOf(series.labels))
			return true
		})
	}
}

// value of a gauge or counter.
func (s *storedSeries) value() float64 {
	if s.parts == nil {
		return s.number.load()
	}
	sum := 0.0
	for _, p := range s.parts {
		sum += p.load()
	}
	return sum
}

func withPID(labels []Label, pid int) []Label {
	i := sort.Search(len(labels), func(i int) bool { return labels[i].Name >= sglang.LabelPID })
	return slices.Insert(slices.Clone(labels), i, Label{sglang.LabelPID, strconv.Itoa(pid)})
}

func keyOf(labels []Label) string {
	var b strings.Builder
	for _, l := range labels {
		b.WriteString(l.Name)
		b.WriteByte(0)
		b.WriteString(l.Value)
		b.WriteByte(0)
	}
	return b.String()
}

// number is a float that goroutines share.
type number struct{ bits atomic.Uint64 }

func (n *number) load() float64 { return math.Float64frombits(n.bits.Load()) }

// Set implements [Gauge].
func (n *number) Set(v float64) { n.bits.Store(math.Float64bits(v)) }

// Add implements [Counter] and [Gauge].
func (n *number) Add(v float64) {
	for {
		was := n.bits.Load()
		if n.bits.CompareAndSwap(was, math.Float64bits(math.Float64frombits(was)+v)) {
			return
		}
	}
}

// dist is a histogram's or summary's numbers. Counts are one longer than bounds,
// not cumulative.
type dist struct {
	bounds []float64
	counts []atomic.Uint64
	sum    number
}

func newDist(bounds []float64) *dist {
	return &dist{bounds: bounds, counts: make([]atomic.Uint64, len(bounds)+1)}
}

// Observe implements [Histogram].
func (d *dist) Observe(v float64, n uint64) {
	d.counts[sort.SearchFloat64s(d.bounds, v)].Add(n)
	d.sum.Add(v * float64(n))
}
