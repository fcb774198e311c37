// Copyright The otelcol-sglang Authors
// SPDX-License-Identifier: Apache-2.0

// Package histogram counts values in buckets and keeps an exemplar for each.
package histogram // import "github.com/otelcol-sglang/otelcol-sglang/connector/genaimetricsconnector/internal/histogram"

import (
	"math"
	"sort"

	"github.com/lightstep/go-expohisto/structure"
)

// An exponential histogram keeps one exemplar per power of two, from 2^-16 (15 µs)
// to 2^15 (9 h); values beyond share the outermost.
const (
	exponentialSlots = 32
	firstExponent    = -16
)

// ZeroThreshold is the largest value, in seconds, that an exponential histogram
// counts as zero. Smaller ones would cost it the resolution of all others.
const ZeroThreshold = 1e-9

// Exemplar is one observation and the span that it came from.
type Exemplar struct {
	Value float64
	// At is the time of the observation, in nanoseconds since the epoch; 0 is no exemplar.
	At    int64
	Trace [16]byte
	Span  [8]byte
}

// Shape is what histograms of one metric have in common.
type Shape struct {
	// Bounds are the upper, inclusive bounds of explicit buckets, rising. nil makes
	// the histogram exponential (base 2).
	Bounds []float64
	// MaxSize is the number of buckets of an exponential histogram.
	MaxSize int32
	// Exemplars says whether the latest exemplar of each bucket is kept.
	Exemplars bool
}

// Histogram counts finite values from 0 on. It is not safe for concurrent use.
type Histogram struct {
	Count         uint64
	Sum, Min, Max float64
	// Bounds and Counts are those of explicit buckets; Counts has one more.
	Bounds []float64
	Counts []uint64
	// Exponential is nil for explicit buckets.
	Exponential *structure.Float64
	// Exemplars has one place per explicit bucket or power of two, nil if none are kept.
	Exemplars []Exemplar
}

// New returns an empty histogram.
func New(s Shape) *Histogram {
	h := &Histogram{Bounds: s.Bounds}
	slots := exponentialSlots
	if s.Bounds != nil {
		h.Counts = make([]uint64, len(s.Bounds)+1)
		slots = len(h.Counts)
	} else {
		h.Exponential = new(structure.Float64)
		h.Exponential.Init(structure.NewConfig(structure.WithMaxSize(s.MaxSize)))
	}
	if s.Exemplars {
		h.Exemplars = make([]Exemplar, slots)
	}
	return h
}

// Observe counts e.Value.
func (h *Histogram) Observe(e Exemplar) {
	v := e.Value
	if h.Count == 0 || v < h.Min {
		h.Min = v
	}
	h.Max = max(h.Max, v)
	h.Count++
	h.Sum += v
	slot := h.count(v)
	if h.Exemplars != nil {
		h.Exemplars[slot] = e
	}
}

// count returns the place of the value's exemplar.
func (h *Histogram) count(v float64) int {
	if h.Exponential != nil {
		if v <= ZeroThreshold {
			v = 0
		}
		h.Exponential.Update(v)
		return exponentSlot(v)
	}
	i := sort.SearchFloat64s(h.Bounds, v)
	h.Counts[i]++
	return i
}

func exponentSlot(v float64) int {
	if v <= 0 {
		return 0
	}
	return min(max(math.Ilogb(v)-firstExponent, 0), exponentialSlots-1)
}
