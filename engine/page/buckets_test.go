// Copyright The otelcol-sglang Authors
// SPDX-License-Identifier: Apache-2.0

package page

import (
	"slices"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"github.com/otelcol-sglang/otelcol-sglang/engine/args"
	"github.com/otelcol-sglang/otelcol-sglang/internal/sglang"
)

func TestGenerateBuckets(t *testing.T) {
	defaults := []float64{3, 1, 2, 2}
	for _, tt := range []struct {
		rule []string
		want []float64
		err  string
	}{
		{nil, []float64{1, 2, 3}, ""},
		{[]string{"default"}, []float64{1, 2, 3}, ""},
		{[]string{"custom", "50", "10", "10.5"}, []float64{10, 10.5, 50}, ""},
		{[]string{"tse", "1000", "2", "8"}, []float64{984, 992, 996, 998, 1000, 1002, 1004, 1008, 1016}, ""},
		{[]string{"tse", "3", "2", "3"}, []float64{0, 1, 3, 5, 7}, ""},
		{[]string{"tse", "1000", "1", "8"}, nil, "a base above 1"},
		{[]string{"tse", "1000", "2"}, nil, "takes a middle, a base"},
		{[]string{"custom"}, nil, "must have 1 to 1000 numbers, got 0"},
		{[]string{"custom", "x"}, nil, `must be finite numbers, got "x"`},
		{[]string{"custom", "NaN"}, nil, `must be finite numbers, got "NaN"`},
		{[]string{"linear", "1"}, nil, `must begin with default, tse or custom, got "linear"`},
	} {
		got, err := GenerateBuckets(tt.rule, defaults)
		if tt.err != "" {
			require.ErrorContains(t, err, tt.err, tt.rule)
			continue
		}
		require.NoError(t, err, tt.rule)
		assert.Equal(t, tt.want, got, tt.rule)
	}
}

func TestGeneratedBucketsAscend(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		params := rapid.SliceOf(rapid.SampledFrom([]string{"tse", "custom", "default", "0", "-1", "2.5", "1e300", "9", ""})).Draw(t, "rule")
		got, err := GenerateBuckets(params, []float64{1})
		if err != nil {
			return
		}
		if len(got) == 0 || !slices.IsSorted(got) || len(slices.Compact(slices.Clone(got))) != len(got) {
			t.Fatalf("%q gave %v", params, got)
		}
	})
}

func TestBucketFlags(t *testing.T) {
	e := engineOf(t, func(a *args.Args) {
		a.BucketTimeToFirstToken = []float64{0.5, 0.25}
		a.BucketInterTokenLatency = []float64{0.01}
		a.BucketE2ERequestLatency = []float64{9}
		a.PromptTokensBuckets = []string{"custom", "100", "7"}
		a.GenerationTokensBuckets = []string{"tse", "4", "2", "2"}
	})
	e.served(request(true))
	for name, want := range map[sglang.FamilyName][]float64{
		sglang.FamilyTimeToFirstTokenSeconds:          {0.25, 0.5},
		sglang.FamilyInterTokenLatencySeconds:         {0.01},
		sglang.FamilyRequestTimePerOutputTokenSeconds: {0.01},
		sglang.FamilyE2ERequestLatencySeconds:         {9},
		sglang.FamilyPromptTokensHistogram:            {7, 100},
		sglang.FamilyUncachedPromptTokensHistogram:    {7, 100},
		sglang.FamilyGenerationTokensHistogram:        {2, 4, 6},
	} {
		assert.Equal(t, want, e.bounds(name), name)
	}
	a := testArgs()
	a.PromptTokensBuckets, a.GenerationTokensBuckets = []string{"x"}, []string{"tse"}
	_, err := New(Config{Args: a})
	require.ErrorContains(t, err, "prompt_tokens_buckets: must begin with")
	assert.ErrorContains(t, err, "generation_tokens_buckets: must have 1 to")
}

func (e *engine) bounds(name sglang.FamilyName) []float64 {
	var out []float64
	for _, f := range e.page.store.Gather() {
		if f.GetName() != string(name) {
			continue
		}
		for _, b := range f.Metric[0].Histogram.Bucket {
			out = append(out, b.GetUpperBound())
		}
	}
	return out
}
