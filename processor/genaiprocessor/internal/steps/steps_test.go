// Copyright The otelcol-sglang Authors
// SPDX-License-Identifier: Apache-2.0

package steps

import (
	"math"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"
)

func step(number, start, duration int64) Step {
	return Step{Number: number, Start: start, End: start + duration}
}

func TestSummary(t *testing.T) {
	s := Sum{Worst: 3}
	var want int64
	for i := range int64(100) {
		d := 1000 * (i + 1)
		want += d
		assert.True(t, s.Add(Step{Number: i, Start: 1e9 * i, End: 1e9*i + d, BatchSize: int32(i)}))
	}
	got := s.Summary()
	assert.Equal(t, 100, got.Count)
	assert.Equal(t, want, got.Sum)
	assert.EqualValues(t, 1000, got.Min)
	assert.EqualValues(t, 50_000, got.P50)
	assert.EqualValues(t, 95_000, got.P95)
	assert.EqualValues(t, 99_000, got.P99)
	assert.EqualValues(t, 100_000, got.Max)
	require.Len(t, got.Worst, 3)
	for i, w := range got.Worst {
		assert.EqualValues(t, 97+i, w.Number, "in the order of their start")
		assert.EqualValues(t, 97+i, w.BatchSize)
	}
	assert.Equal(t, [2]int64{48e9 + 49_000}, s.MarkedEnds())
}

func TestEmpty(t *testing.T) {
	var none *Sum
	assert.Zero(t, none.Count())
	assert.Zero(t, none.MarkedEnds())
	assert.Equal(t, Summary{}, new(Sum).Summary())
}

func TestResentStepsCountOnce(t *testing.T) {
	s := Sum{Worst: 2}
	for range 3 {
		for i := range int64(10) {
			s.Add(step(i, 100*i, 7))
			s.Add(step(NoNumber, 100*i+50, 5))
			s.Add(step(64*maxWords+i, 100*i+70, 5))
		}
	}
	assert.Equal(t, 30, s.Count())
	assert.EqualValues(t, 10*(7+5+5), s.Summary().Sum)
	assert.True(t, s.Has(step(3, 0, 0)))
	assert.False(t, s.Has(step(1000, 0, 0)))
}

// Any number may come from outside: none makes the bitmap large, and each step
// counts once whether its number was near or far when it came.
func TestFarNumbers(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		numbers := rapid.SliceOfN(rapid.OneOf(rapid.Int64Range(0, 5000), rapid.Int64Range(0, math.MaxInt64)), 1, 200).Draw(t, "numbers")
		s, want := Sum{}, map[int64]bool{}
		for _, n := range numbers {
			if s.Add(step(n, 1, 1)) == want[n] {
				t.Fatalf("step %d: seen before %t", n, want[n])
			}
			want[n] = true
			if !s.Has(step(n, 0, 0)) {
				t.Fatalf("step %d is not remembered", n)
			}
		}
		if s.Count() != len(want) || s.Bytes() > 400+len(numbers)*(maxAhead*8*2+100) {
			t.Fatalf("%d of %d steps in %d bytes", s.Count(), len(want), s.Bytes())
		}
	})
	one := Sum{}
	one.Add(step(64*maxWords-1, 1, 1))
	assert.Less(t, one.Bytes(), 1000)
}

// Token 50 is the end of step 48; of step 49 only where steps count from 1.
func TestMarkedEnds(t *testing.T) {
	from := func(first int64) *Sum {
		s := &Sum{}
		for n := int64(60); n >= first; n-- {
			s.Add(step(n, 100*n, 100))
		}
		return s
	}
	assert.Equal(t, [2]int64{4900, 0}, from(0).MarkedEnds())
	assert.Equal(t, [2]int64{4900, 5000}, from(1).MarkedEnds())
}

func TestBackwardsStepHasNoLength(t *testing.T) {
	s := Sum{Worst: 1}
	s.Add(step(0, 100, -50))
	s.Add(step(1, 200, 10))
	got := s.Summary()
	assert.Equal(t, 2, got.Count)
	assert.EqualValues(t, 10, got.Sum)
	assert.Zero(t, got.Min)
}

func TestManySteps(t *testing.T) {
	const n = 50_000
	rng := rand.New(rand.NewPCG(1, 2))
	s := Sum{Worst: 3}
	all := make([]int64, n)
	var sum int64
	for i := range all {
		all[i] = 5e6 + rng.Int64N(20e6)
		sum += all[i]
		s.Add(step(int64(i), int64(i)*30e6, all[i]))
	}
	slices.Sort(all)
	got := s.Summary()
	assert.Equal(t, n, got.Count)
	assert.Equal(t, sum, got.Sum, "the sum is exact at any length")
	assert.InEpsilon(t, all[n/2-1], got.P50, 0.005)
	assert.InEpsilon(t, all[n*95/100-1], got.P95, 0.005)
	assert.InEpsilon(t, all[n*99/100-1], got.P99, 0.005)
	assert.Less(t, s.Bytes(), 64<<10, "a long request stays small")
}

func TestAnyOrderGivesTheSame(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		n := rapid.IntRange(1, 200).Draw(t, "n")
		all := make([]Step, n)
		at := int64(0)
		for i := range all {
			d := rapid.Int64Range(0, 5).Draw(t, "duration")
			all[i] = step(int64(i), at, d)
			at += d + 1
		}
		a, b := Sum{Worst: 3}, Sum{Worst: 3}
		for _, st := range all {
			a.Add(st)
		}
		for _, i := range rand.New(rand.NewPCG(rapid.Uint64().Draw(t, "seed"), 0)).Perm(n) {
			b.Add(all[i])
			b.Add(all[i])
		}
		assert.Equal(t, a.Summary(), b.Summary())
	})
}

func BenchmarkAdd(b *testing.B) {
	b.ReportAllocs()
	s := Sum{Worst: 3}
	i := int64(0)
	for b.Loop() {
		s.Add(step(i%1000, i*20, 10+i%7))
		if i++; i%1000 == 0 {
			s = Sum{Worst: 3}
		}
	}
}
