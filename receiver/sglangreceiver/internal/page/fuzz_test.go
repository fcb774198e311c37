// Copyright The otelcol-sglang Authors
// SPDX-License-Identifier: Apache-2.0

package page

import (
	"math"
	"os"
	"sort"
	"testing"

	"github.com/stretchr/testify/require"
)

// FuzzParse: any bytes give a page that keeps its promises, or an error. More
// seeds are in testdata/fuzz.
func FuzzParse(f *testing.F) {
	for _, path := range captures(f, "metrics-unified-tp1.*") {
		body, err := os.ReadFile(path)
		require.NoError(f, err)
		f.Add(body, contentOf(path))
		f.Add(body[:len(body)/2], contentOf(path))
	}
	f.Fuzz(func(t *testing.T, body []byte, content string) {
		p, err := Parse(body, content, Options{DropSentinels: true})
		if err != nil {
			require.Nil(t, p)
			return
		}
		require.Positive(t, p.Samples)
		checkPage(t, p)
	})
}

func checkPage(t *testing.T, p *Page) {
	keys := map[uint64]struct{}{}
	for _, f := range p.Families {
		require.NotEmpty(t, f.Series)
		for i := range f.Series {
			s := &f.Series[i]
			require.NotContains(t, keys, s.Key)
			keys[s.Key] = struct{}{}
			require.True(t, sort.SliceIsSorted(s.Labels, func(a, b int) bool { return s.Labels[a].Name < s.Labels[b].Name }))
			for _, l := range s.Labels {
				require.NotEmpty(t, l.Value)
			}
			checkValue(t, f.Kind, s)
		}
	}
	require.Len(t, keys, p.SeriesCount())
}

func checkValue(t *testing.T, kind Kind, s *Series) {
	switch kind {
	case Counter:
		require.GreaterOrEqual(t, s.Value, 0.0)
		require.False(t, math.IsInf(s.Value, 0))
	case Histogram:
		require.Len(t, s.Dist.Counts, len(s.Dist.Bounds)+1)
		total := uint64(0)
		for _, c := range s.Dist.Counts {
			total += c
		}
		require.Equal(t, s.Dist.Count, total)
		require.True(t, sort.Float64sAreSorted(s.Dist.Bounds))
		require.False(t, math.IsNaN(s.Dist.Sum))
	case Summary:
		require.False(t, math.IsNaN(s.Dist.Sum))
	}
}
