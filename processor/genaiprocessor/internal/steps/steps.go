// Copyright The otelcol-sglang Authors
// SPDX-License-Identifier: Apache-2.0

// Package steps sums up the decode steps of one request (one decode_loop span
// each) in a few numbers, in any order of arrival and once per step.
package steps // import "github.com/otelcol-sglang/otelcol-sglang/processor/genaiprocessor/internal/steps"

import (
	"cmp"
	"maps"
	"math"
	"slices"
)

const (
	// maxExact durations are kept one by one; percentiles of longer requests
	// come from a histogram whose bounds are growth apart.
	maxExact = 8192
	growth   = 1.005
	maxBins  = 8192
	// maxWords bounds the bitmap of step numbers to 16 KiB, maxAhead what one
	// step adds to it.
	maxWords = 1 << 11
	maxAhead = 32

	// NoNumber is the number of a step without one (releases before 0.5.6).
	NoNumber = -1
)

// Step is one decode iteration; times in nanoseconds since the epoch.
type Step struct {
	// Number counts the iterations of a request from 0, across retractions.
	Number     int64
	Start, End int64
	// BatchID and BatchSize are of the batch that was scheduled in the step;
	// zero if unknown.
	BatchID   [8]byte
	BatchSize int32
}

// Duration is never negative.
func (s Step) Duration() int64 { return max(0, s.End-s.Start) }

// Sum takes steps in. The zero value is empty and ready, once Worst is set.
type Sum struct {
	// Worst is how many of the slowest steps to remember.
	Worst int

	count         int
	sum, min, max int64
	// durations are bits of float32: of numbers that are not negative they are in
	// the numbers' order. Their own order means nothing.
	durations []uint32
	bins      map[int32]uint32
	// numbers is a bitmap of the steps seen; one whose bit lies far beyond what
	// the bitmap holds is in far, that one span cannot claim much memory.
	numbers []uint64
	far     map[int64]struct{}
	// starts are those of steps without a number.
	starts      map[int64]struct{}
	worst       []Step
	ends        [2]int64
	first, last int64
}

// FirstMarked is the number of the first step whose end is kept: the front end
// of an engine without metrics hears of a non-streaming request first at its
// 50th token. The prefill gives the first token, so it comes of step 48 where
// steps count from 0, of the next where they count from 1.
const FirstMarked = 48

// Add takes a step in and reports whether it is a first copy: a span that was
// sent again counts once.
func (s *Sum) Add(step Step) bool {
	if !s.mark(step) {
		return false
	}
	d := step.Duration()
	if s.count == 0 || d < s.min {
		s.min = d
	}
	if s.count == 0 || step.Start < s.first {
		s.first = step.Start
	}
	s.last = max(s.last, step.End)
	s.max = max(s.max, d)
	s.sum += d
	s.count++
	s.keepDuration(d)
	s.keepWorst(step)
	if i := step.Number - FirstMarked; i >= 0 && i < int64(len(s.ends)) {
		s.ends[i] = step.End
	}
	return true
}

// Has reports whether the step was taken in before.
func (s *Sum) Has(step Step) bool {
	if step.Number < 0 {
		_, known := s.starts[step.Start]
		return known
	}
	return s.hasNumber(step.Number)
}

func (s *Sum) hasNumber(n int64) bool {
	if word := n / 64; word < int64(len(s.numbers)) && s.numbers[word]&(1<<(n%64)) != 0 {
		return true
	}
	_, known := s.far[n]
	return known
}

func (s *Sum) mark(step Step) bool {
	if s.Has(step) {
		return false
	}
	word := step.Number / 64
	switch {
	case step.Number < 0:
		s.starts = insert(s.starts, step.Start)
	case word >= min(maxWords, int64(len(s.numbers))+maxAhead):
		s.far = insert(s.far, step.Number)
	default:
		for int64(len(s.numbers)) <= word {
			s.numbers = append(s.numbers, 0)
		}
		s.numbers[word] |= 1 << (step.Number % 64)
	}
	return true
}

func insert(set map[int64]struct{}, n int64) map[int64]struct{} {
	if set == nil {
		set = make(map[int64]struct{})
	}
	set[n] = struct{}{}
	return set
}

func floatBits(d int64) uint32 { return math.Float32bits(float32(d)) }

// keepDuration: float32 holds durations to 16 ms exactly, longer ones to 1 in 10 million.
func (s *Sum) keepDuration(d int64) {
	if s.bins != nil {
		s.bins[bin(float64(d))]++
		return
	}
	s.durations = append(s.durations, floatBits(d))
	if len(s.durations) <= maxExact {
		return
	}
	s.bins = make(map[int32]uint32)
	for _, d := range s.durations {
		s.bins[bin(float64(math.Float32frombits(d)))]++
	}
	s.durations = nil
}

func bin(d float64) int32 {
	if d < 1 {
		return 0
	}
	return min(maxBins, int32(math.Log(d)/math.Log(growth)))
}

func (s *Sum) keepWorst(step Step) {
	if s.Worst <= 0 {
		return
	}
	if len(s.worst) == s.Worst && slower(step, s.worst[len(s.worst)-1]) >= 0 {
		return
	}
	at, _ := slices.BinarySearchFunc(s.worst, step, slower)
	if len(s.worst) == s.Worst {
		s.worst = s.worst[:s.Worst-1]
	}
	s.worst = slices.Insert(s.worst, at, step)
}

// slower orders steps: the slowest first, then the earliest.
func slower(a, b Step) int {
	if c := cmp.Compare(b.Duration(), a.Duration()); c != 0 {
		return c
	}
	if c := cmp.Compare(a.Start, b.Start); c != 0 {
		return c
	}
	return cmp.Compare(a.Number, b.Number)
}

// Count is the number of steps taken in.
func (s *Sum) Count() int {
	if s == nil {
		return 0
	}
	return s.count
}

// MarkedEnds are the ends of the steps FirstMarked and FirstMarked+1, 0 if not
// seen or, the latter, if there is a step 0.
func (s *Sum) MarkedEnds() [2]int64 {
	if s == nil {
		return [2]int64{}
	}
	ends := s.ends
	if s.hasNumber(0) {
		ends[1] = 0
	}
	return ends
}

// Extent is the start of the first step and the end of the last.
func (s *Sum) Extent() (start, end int64) {
	if s == nil {
		return 0, 0
	}
	return s.first, s.last
}

// Bytes is about what the sum holds in memory.
func (s *Sum) Bytes() int {
	const header, perStep, perEntry = 200, 48, 16
	return header + 4*cap(s.durations) + 8*cap(s.numbers) + perStep*cap(s.worst) +
		perEntry*(len(s.bins)+len(s.starts)+len(s.far))
}

// Summary is what all steps say together; durations in nanoseconds.
type Summary struct {
	Count         int
	Sum, Min, Max int64
	P50, P95, P99 int64
	// Worst are the slowest steps in the order of their start.
	Worst []Step
}

// percentiles that a summary has, rising.
var percentiles = [...]float64{0.50, 0.95, 0.99}

// Summary sums up. Percentiles are of the nearest rank; exact up to 8192 steps,
// within 0.5 % beyond.
func (s *Sum) Summary() Summary {
	out := Summary{Count: s.count, Sum: s.sum, Min: s.min, Max: s.max}
	if s.count == 0 {
		return out
	}
	at := s.percentiles()
	out.P50, out.P95, out.P99 = at[0], at[1], at[2]
	out.Worst = slices.Clone(s.worst)
	slices.SortFunc(out.Worst, func(a, b Step) int { return cmp.Compare(a.Start, b.Start) })
	return out
}

// rank is the nearest rank of a quantile, from 0.
func (s *Sum) rank(q float64) int { return max(1, int(math.Ceil(q*float64(s.count)))) - 1 }

func (s *Sum) percentiles() [len(percentiles)]int64 {
	if s.bins != nil {
		return s.binned()
	}
	return s.exact()
}

// exact finds the percentiles among single durations.
func (s *Sum) exact() (out [len(percentiles)]int64) {
	var places [len(percentiles)]int
	for i, q := range percentiles {
		places[i] = s.rank(q)
	}
	var found [len(percentiles)]uint32
	selectAll(s.durations, floatBits(s.min), floatBits(s.max), places[:], found[:])
	for i, d := range found {
		out[i] = s.clamp(int64(math.Float32frombits(d)))
	}
	return out
}

func (s *Sum) binned() (out [len(percentiles)]int64) {
	keys := slices.Sorted(maps.Keys(s.bins))
	for i, q := range percentiles {
		out[i] = s.max
		left := s.rank(q)
		for _, k := range keys {
			if left -= int(s.bins[k]); left < 0 {
				out[i] = s.clamp(int64(math.Pow(growth, float64(k)+0.5)))
				break
			}
		}
	}
	return out
}

func (s *Sum) clamp(d int64) int64 { return min(max(d, s.min), s.max) }
