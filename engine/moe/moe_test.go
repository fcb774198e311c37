// Copyright The otelcol-sglang Authors
// SPDX-License-Identifier: Apache-2.0

package moe

import (
	"math"
	"math/rand/v2"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"github.com/otelcol-sglang/otelcol-sglang/engine/ledger"
)

type book struct{ perLayer map[int][]int }

func (b *book) Dispatched(layer int, perGPU []int) {
	if b.perLayer == nil {
		b.perLayer = map[int][]int{}
	}
	if b.perLayer[layer] == nil {
		b.perLayer[layer] = make([]int, len(perGPU))
	}
	for g, n := range perGPU {
		b.perLayer[layer][g] += n
	}
}

func TestEveryChoiceIsCounted(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		gpus := rapid.IntRange(1, 8).Draw(t, "gpus")
		c := Config{
			Layers: rapid.IntRange(1, 4).Draw(t, "layers"), GPUs: gpus,
			Experts: gpus * rapid.IntRange(1, 16).Draw(t, "each"), TopK: 1,
			Skew: rapid.Float64Range(0, 3).Draw(t, "skew"), Balanced: rapid.Bool().Draw(t, "balanced"),
			Seed: rapid.Uint64().Draw(t, "seed"),
		}
		c.TopK = rapid.IntRange(1, min(8, c.Experts)).Draw(t, "topK")
		b := &book{}
		d, err := New(c, b)
		if err != nil {
			t.Fatal(err)
		}
		tokens := rapid.IntRange(1, 5000).Draw(t, "tokens")
		v, ok := d.Pass(tokens)
		if !ok || v <= 0 || v > 1+1e-9 || v < 1/float64(gpus)-1e-9 {
			t.Fatalf("balancedness %v of %d GPUs", v, gpus)
		}
		for layer := range c.Layers {
			sum := 0
			for _, n := range b.perLayer[layer] {
				if n < 0 {
					t.Fatalf("negative count %v", b.perLayer[layer])
				}
				sum += n
			}
			if sum != tokens*c.TopK {
				t.Fatalf("layer %d counts %d choices of %d", layer, sum, tokens*c.TopK)
			}
		}
	})
}

func balance(t *testing.T, skew float64, balanced bool) float64 {
	d, err := New(Config{Layers: 20, Experts: 128, TopK: 8, GPUs: 8, Skew: skew, Balanced: balanced, Seed: 1}, ledger.NopExpert{})
	require.NoError(t, err)
	v, ok := d.Pass(4096)
	require.True(t, ok)
	return v
}

func TestSkewUnbalancesAndPlacementHelps(t *testing.T) {
	even, skewed, placed := balance(t, 0, false), balance(t, 1, false), balance(t, 1, true)
	assert.Greater(t, even, 0.95)
	assert.Less(t, skewed, 0.7)
	assert.Greater(t, placed, skewed+0.1)
}

// Experts stay where their use put them when the use changes.
func TestShift(t *testing.T) {
	d, err := New(Config{Layers: 20, Experts: 128, TopK: 8, GPUs: 8, Skew: 0.5, Balanced: true, Seed: 1}, ledger.NopExpert{})
	require.NoError(t, err)
	before := d.Balance(4096)
	d.Shift(1.2)
	assert.Less(t, d.Balance(4096), before-0.3)
	d.Restore()
	assert.InDelta(t, before, d.Balance(4096), 0.02)
}

func TestFewTokensAreNeverBalanced(t *testing.T) {
	d, err := New(Config{Layers: 50, Experts: 64, TopK: 1, GPUs: 8, Seed: 1}, ledger.NopExpert{})
	require.NoError(t, err)
	v, _ := d.Pass(1)
	assert.InDelta(t, 1.0/8, v, 1e-9, "one choice is on one GPU")
	_, ok := d.Pass(0)
	assert.False(t, ok, "no tokens is not balanced")
}

func TestSameSeedSameCounts(t *testing.T) {
	run := func(seed uint64) map[int][]int {
		b := &book{}
		d, err := New(Config{Layers: 3, Experts: 16, TopK: 2, GPUs: 4, Skew: 1, Seed: seed}, b)
		require.NoError(t, err)
		for range 10 {
			d.Pass(100)
		}
		return b.perLayer
	}
	first := run(1)
	assert.Equal(t, first, run(1))
	assert.NotEqual(t, first, run(2))
}

func TestBinomial(t *testing.T) {
	rng := rand.New(rand.NewPCG(1, 2))
	for _, c := range []struct {
		n int
		p float64
	}{{1, 0.3}, {20, 0.01}, {100, 0.9}, {100000, 0.125}} {
		const draws = 20000
		sum, squares := 0.0, 0.0
		for range draws {
			x := float64(binomial(rng, c.n, c.p))
			sum += x
			squares += x * x
		}
		mean := sum / draws
		want := float64(c.n) * c.p
		variance := want * (1 - c.p)
		assert.InDelta(t, want, mean, 5*math.Sqrt(variance/draws), "mean of %+v", c)
		assert.InEpsilon(t, variance, squares/draws-mean*mean, 0.1, "variance of %+v", c)
	}
	assert.Equal(t, 7, binomial(rng, 7, 1))
	assert.Equal(t, 0, binomial(rng, 7, 0))
}

func TestConfigIsChecked(t *testing.T) {
	_, err := New(Config{Layers: 0, Experts: 10, TopK: 11, GPUs: 4, Skew: -1}, nil)
	assert.EqualError(t, err, "layers, experts, top_k and gpus must be at least 1 (got 0, 10, 11, 4)\n"+
		"top_k must be at most the 10 experts (got 11)\n"+
		"experts must be a multiple of the 4 gpus (got 10)\n"+
		"skew must not be negative (got -1)")
}

func BenchmarkPass(b *testing.B) {
	d, err := New(Config{Layers: 48, Experts: 128, TopK: 8, GPUs: 8, Skew: 1, Seed: 1}, ledger.NopExpert{})
	if err != nil {
		b.Fatal(err)
	}
	b.ReportAllocs()
	for b.Loop() {
		d.Pass(256)
	}
}
