// Copyright The otelcol-sglang Authors
// SPDX-License-Identifier: Apache-2.0

package steps

import (
	"slices"
	"testing"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"
)

// TestNth: as if all were sorted, and what is before and behind is so too.
func TestNth(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		most := rapid.SampledFrom([]uint32{0, 3, 1000, 1 << 31}).Draw(t, "most")
		list := rapid.SliceOfN(rapid.Uint32Range(0, most), 1, 200).Draw(t, "list")
		switch rapid.IntRange(0, 2).Draw(t, "order") {
		case 1:
			slices.Sort(list)
		case 2:
			slices.Sort(list)
			slices.Reverse(list)
		}
		k := rapid.IntRange(0, len(list)-1).Draw(t, "k")
		want := slices.Sorted(slices.Values(list))
		require.Equal(t, want[k], nth(list, k))
		require.LessOrEqual(t, slices.Max(append(list[:k:k], 0)), want[k])
		require.GreaterOrEqual(t, slices.Min(list[k:]), want[k])
		slices.Sort(list)
		require.Equal(t, want, list, "nothing lost")
	})
}

func TestSelectAll(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		low := rapid.SampledFrom([]uint32{0, 1000, 1 << 31}).Draw(t, "low")
		width := rapid.SampledFrom([]uint32{0, 3, 254, 255, 256, 1000, 1<<31 - 1}).Draw(t, "width")
		list := rapid.SliceOfN(rapid.Uint32Range(low, low+width), 1, 400).Draw(t, "list")
		places := rapid.SliceOfN(rapid.IntRange(0, len(list)-1), 1, 4).Draw(t, "places")
		slices.Sort(places)
		sorted := slices.Sorted(slices.Values(list))
		lowest := rapid.Uint32Range(low, sorted[0]).Draw(t, "lowest")
		highest := rapid.Uint32Range(sorted[len(sorted)-1], low+width).Draw(t, "highest")
		out := make([]uint32, len(places))
		selectAll(list, lowest, highest, places, out)
		for i, k := range places {
			require.Equal(t, sorted[k], out[i])
		}
		slices.Sort(list)
		require.Equal(t, sorted, list, "nothing lost")
	})
}

func BenchmarkSummary(b *testing.B) {
	s := Sum{Worst: 3}
	for i := range int64(300) {
		s.Add(Step{Number: i, Start: 10e6 * i, End: 10e6*i + 9e6 + i*7919%1_000_000})
	}
	mixed := slices.Clone(s.durations)
	b.ReportAllocs()
	for b.Loop() {
		copy(s.durations, mixed)
		s.Summary()
	}
}
