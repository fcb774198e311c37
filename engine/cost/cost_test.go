// Copyright The otelcol-sglang Authors
// SPDX-License-Identifier: Apache-2.0

package cost

import (
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"
)

func model(t require.TestingT, profile string, tp int) *Model {
	m, err := New(profile, tp, tp, 1)
	require.NoError(t, err)
	return m
}

func decode(requests, context int) Work {
	return Work{
		Requests: requests, Tokens: requests, Pairs: int64(requests * (context + 1)),
		KVTokens: int64(requests * context), Graph: true,
	}
}

func prefill(tokens int) Work {
	return Work{Requests: 1, Tokens: tokens, Pairs: int64(tokens) * int64(tokens+1) / 2}
}

// Rough sizes that are known of these models on this GPU.
func TestKnownTimes(t *testing.T) {
	for _, tt := range []struct {
		profile  string
		tp       int
		work     Work
		min, max time.Duration
	}{
		{"llama-8b-h100", 1, decode(1, 1000), 4 * time.Millisecond, 8 * time.Millisecond},
		{"llama-8b-h100", 1, decode(128, 1000), 8 * time.Millisecond, 16 * time.Millisecond},
		{"llama-8b-h100", 1, prefill(8192), 150 * time.Millisecond, 350 * time.Millisecond},
		{"llama-70b-h100", 4, decode(1, 1000), 5 * time.Millisecond, 12 * time.Millisecond},
		{"llama-70b-h100", 4, prefill(8192), 400 * time.Millisecond, 900 * time.Millisecond},
		{"qwen3-30b-a3b-h100", 1, decode(1, 1000), 1 * time.Millisecond, 5 * time.Millisecond},
		{"bge-m3-h100", 1, prefill(512), 1 * time.Millisecond, 10 * time.Millisecond},
	} {
		got := model(t, tt.profile, tt.tp).Pass(tt.work)
		assert.True(t, tt.min <= got && got <= tt.max, "%s tp %d %+v: %v", tt.profile, tt.tp, tt.work, got)
	}
}

// A decode step of a few requests costs what reading the weights costs: the second
// request is almost free, unlike the second of two prompts.
func TestDecodeIsBoundByMemory(t *testing.T) {
	m := model(t, "llama-8b-h100", 1)
	assert.Less(t, m.Pass(decode(8, 100)).Seconds(), 1.1*m.Pass(decode(1, 100)).Seconds())
	assert.Greater(t, m.Pass(prefill(16384)).Seconds(), 1.9*m.Pass(prefill(8192)).Seconds())
}

func TestMoEReadsTheExpertsItUses(t *testing.T) {
	m := model(t, "qwen3-30b-a3b-h100", 1)
	one, many := m.Traffic(decode(1, 0)).ReadBytes, m.Traffic(decode(200, 0)).ReadBytes
	assert.Greater(t, many, 5*one)
	assert.InDelta(t, m.Profile.Params*m.Profile.WeightBytes, many, 0.01*many)
}

// All wait for the slowest at the all-reduce.
func TestSlowRank(t *testing.T) {
	m := model(t, "llama-8b-h100", 4)
	w := prefill(4096)
	well := m.Pass(w)
	m.SetSlow(2, 2)
	slow := m.Pass(w)
	assert.Greater(t, slow, well*3/2)
	m.SetSlow(1, 1.5)
	assert.Equal(t, slow, m.Pass(w), "not the slowest")
	assert.InDelta(t, 2, m.Slowness(2), 0)
	assert.InDelta(t, 1, m.Slowness(9), 0)
	m.SetSlow(2, 1)
	m.SetSlow(1, 1)
	m.SetSlow(7, 9) // no such rank
	m.SetSlow(0, 0) // no factor
	assert.Equal(t, well, m.Pass(w))
}

// With attention DP the MLP pays for all groups.
func TestGroupsPay(t *testing.T) {
	m, err := New("llama-8b-h100", 4, 1, 1)
	require.NoError(t, err)
	w := prefill(2048)
	alone := m.Pass(w)
	w.Groups = 4
	assert.Greater(t, m.Pass(w), 2*alone)
}

func TestCapacity(t *testing.T) {
	m := model(t, "llama-8b-h100", 1)
	assert.InDelta(t, 16.06, m.WeightGB(), 0.1)
	assert.EqualValues(t, 131072, m.KVBytes(1))
	tokens, window, states := m.Pools(0.88, 0.8, 0.9)
	assert.InDelta(t, 414000, tokens, 2000)
	assert.Zero(t, window+states)
	tokens, _, _ = model(t, "llama-70b-h100", 1).Pools(0.5, 0.8, 0.9)
	assert.Zero(t, tokens, "the weights don't fit")
}

func TestNew(t *testing.T) {
	_, err := New("gpt", 1, 1, 1)
	require.ErrorContains(t, err, `(got "gpt")`)
	_, err = New("llama-8b-h100", 0, 1, 1)
	require.ErrorContains(t, err, "must be positive")
	assert.Len(t, Names(), 6)
}

// More of anything never takes less time.
func TestMonotonic(t *testing.T) {
	rapid.Check(t, func(rt *rapid.T) {
		m := model(rt, rapid.SampledFrom(Names()).Draw(rt, "profile"), rapid.SampledFrom([]int{1, 2, 8}).Draw(rt, "tp"))
		w := Work{
			Requests: 1, Tokens: rapid.IntRange(1, 20000).Draw(rt, "tokens"),
			Pairs:    rapid.Int64Range(1, 1e9).Draw(rt, "pairs"),
			KVTokens: rapid.Int64Range(0, 1e6).Draw(rt, "kv"), Graph: rapid.Bool().Draw(rt, "graph"),
		}
		more := w
		more.Tokens += rapid.IntRange(0, 5000).Draw(rt, "dt")
		more.Pairs += rapid.Int64Range(0, 1e8).Draw(rt, "dp")
		more.KVTokens += rapid.Int64Range(0, 1e5).Draw(rt, "dk")
		require.GreaterOrEqual(rt, m.Pass(more), m.Pass(w))
		require.Positive(rt, m.Pass(w))
	})
	assert.Zero(t, model(t, "llama-8b-h100", 1).Pass(Work{}))
}

// Pools fill the memory that is left, in their ratios.
func TestPools(t *testing.T) {
	for profile, tp := range map[string]int{"gpt-oss-20b-h100": 1, "qwen3-next-80b-a3b-h100": 2, "llama-8b-h100": 1} {
		m := model(t, profile, tp)
		tokens, window, states := m.Pools(0.88, 0.8, 0.9)
		assert.InDelta(t, 0.88*80-m.WeightGB(), float64(m.PoolBytes(tokens, window, states))/1e9, 0.1, profile)
		assert.Equal(t, m.Profile.Window > 0, window > 0, profile)
		assert.Equal(t, m.Profile.StateBytes > 0, states > 0, profile)
		if window > 0 {
			assert.InDelta(t, 0.8, float64(window)/float64(tokens), 1e-4)
		}
		if states > 0 {
			assert.InDelta(t, 0.9, float64(m.StateBytes(states))/float64(m.KVBytes(tokens)), 0.02)
		}
	}
}

// What a window or a state saves: long contexts cost less than full attention on all
// layers would.
func TestHybridLayers(t *testing.T) {
	for profile, tp := range map[string]int{"gpt-oss-20b-h100": 1, "qwen3-next-80b-a3b-h100": 2} {
		m := model(t, profile, tp)
		all := *m
		all.Profile.FullLayers, all.Profile.WindowLayers, all.Profile.StateBytes = 0, 0, 0
		long := decode(16, 60000)
		assert.Less(t, m.Pass(long), all.Pass(long)*3/4, profile)
		assert.Less(t, m.Pass(prefill(60000)), all.Pass(prefill(60000))*3/4, profile)
		assert.Less(t, m.RequestBytes(60000), all.RequestBytes(60000)*3/4, profile)
	}
}
