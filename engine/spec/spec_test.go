// Copyright The otelcol-sglang Authors
// SPDX-License-Identifier: Apache-2.0

package spec

import (
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"github.com/otelcol-sglang/otelcol-sglang/engine/args"
)

func drafter(t require.TestingT, algorithm string) *Drafter {
	a := args.Default()
	a.SpeculativeAlgorithm = algorithm
	d, err := New(&a, 1)
	require.NoError(t, err)
	return d
}

const enough = 1000

// The length has the bonus token, the rate has not: 3 drafts of which 0.5, 0.25 and
// 0.125 are accepted.
func TestLengthAndRate(t *testing.T) {
	d := drafter(t, "EAGLE")
	d.SetChances([]float64{0.5, 0.5, 0.5})
	tokens := 0
	const n = 100000
	for range n {
		tokens += d.Verify(enough)
	}
	assert.InDelta(t, 1.875, d.Window.AcceptLength(), 0.02)
	assert.InDelta(t, 0.875/3, d.Window.AcceptRate(), 0.01)
	assert.InDelta(t, float64(tokens)/n, d.Window.AcceptLength(), 1e-9)
	assert.Zero(t, d.Window.CapLength())
}

func TestWindowAndLifetime(t *testing.T) {
	d := drafter(t, "EAGLE")
	d.SetChances([]float64{1, 1, 1})
	d.Verify(enough)
	w := d.TakeWindow()
	assert.InDelta(t, 4, w.AcceptLength(), 0)
	d.SetQuality(0)
	for range 3 {
		d.Verify(enough)
	}
	assert.InDelta(t, 1, d.Window.AcceptLength(), 0, "drafts are no good: the bonus alone")
	assert.InDelta(t, 0, d.Window.AcceptRate(), 0)
	assert.InDelta(t, 7.0/4, d.Lifetime.AcceptLength(), 0)
	assert.InDelta(t, 0.25, d.Lifetime.AcceptRate(), 0)
}

// The last step of a request makes no more tokens than it may have; the drafts were
// accepted nonetheless.
func TestLimit(t *testing.T) {
	d := drafter(t, "EAGLE")
	d.SetChances([]float64{1, 1, 1})
	assert.Equal(t, 2, d.Verify(2))
	assert.InDelta(t, 4, d.Window.AcceptLength(), 0)
}

func TestCap(t *testing.T) {
	d := drafter(t, "EAGLE")
	d.SetChances([]float64{1, 1, 1})
	d.SetCap(2)
	assert.Equal(t, 2, d.Verify(enough))
	assert.InDelta(t, 2, d.Window.CapLength(), 0)
	assert.InDelta(t, 1, d.Window.AcceptRate(), 0, "of what was verified")
	d.SetCap(0)
	assert.Equal(t, 4, d.Verify(enough))
}

func TestSetSteps(t *testing.T) {
	d := drafter(t, "EAGLE3")
	d.SetSteps(5, 8)
	assert.Equal(t, []int{5, 8, 7}, []int{d.Steps(), d.DraftTokens(), d.Proposed()})
	assert.LessOrEqual(t, d.Verify(enough), 8)
}

func TestNew(t *testing.T) {
	a := args.Default()
	d, err := New(&a, 1)
	require.NoError(t, err)
	assert.Nil(t, d)
	a.SpeculativeAlgorithm = "MEDUSA"
	_, err = New(&a, 1)
	require.ErrorContains(t, err, `(got "MEDUSA")`)
	a.SpeculativeAlgorithm, a.SpeculativeNumDraftTokens = "NGRAM", 1
	_, err = New(&a, 1)
	require.ErrorContains(t, err, "(got 1)")
	assert.True(t, drafter(t, "NGRAM").NGram())
	assert.False(t, drafter(t, "EAGLE").NGram())
}

func TestBounds(t *testing.T) {
	rapid.Check(t, func(rt *rapid.T) {
		d := drafter(rt, rapid.SampledFrom(Algorithms).Draw(rt, "algorithm"))
		d.SetQuality(rapid.Float64Range(0, 2).Draw(rt, "quality"))
		d.SetCap(rapid.IntRange(0, 6).Draw(rt, "cap"))
		for range 50 {
			n := d.Verify(rapid.IntRange(1, 6).Draw(rt, "limit"))
			require.True(rt, n >= 1 && n <= d.DraftTokens())
		}
		b := d.Window
		require.True(rt, b.AcceptRate() >= 0 && b.AcceptRate() <= 1)
		require.True(rt, b.AcceptLength() >= 1 && b.AcceptLength() <= float64(d.DraftTokens()))
		require.Equal(rt, b, d.Lifetime)
	})
}
