// Copyright The otelcol-sglang Authors
// SPDX-License-Identifier: Apache-2.0

package histogram

import (
	"math"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"
)

func TestExplicitBoundsAreInclusive(t *testing.T) {
	h := New(Shape{Bounds: []float64{1, 2, 4}})
	for _, v := range []float64{0, 1, 1.0001, 2, 3, 4, 4.0001, 1e6} {
		h.Observe(Exemplar{Value: v})
	}
	assert.Equal(t, []uint64{2, 2, 2, 2}, h.Counts)
	assert.Equal(t, uint64(8), h.Count)
	assert.Zero(t, h.Min)
	assert.InDelta(t, 1e6, h.Max, 0)
	assert.Nil(t, h.Exemplars)
}

func TestExemplarsAreTheLatestOfEachBucket(t *testing.T) {
	h := New(Shape{Bounds: []float64{1, 2}, Exemplars: true})
	for at, v := range []float64{0.5, 1.5, 0.7, 9, 8} {
		h.Observe(Exemplar{Value: v, At: int64(at + 1), Span: [8]byte{byte(at)}})
	}
	require.Len(t, h.Exemplars, 3)
	assert.Equal(t, Exemplar{Value: 0.7, At: 3, Span: [8]byte{2}}, h.Exemplars[0])
	assert.Equal(t, Exemplar{Value: 1.5, At: 2, Span: [8]byte{1}}, h.Exemplars[1])
	assert.Equal(t, Exemplar{Value: 8, At: 5, Span: [8]byte{4}}, h.Exemplars[2])
}

func TestExponentialSlotsCoverAnyValue(t *testing.T) {
	for value, slot := range map[float64]int{
		0: 0, 1e-300: 0, 1: 16, 1.5: 16, 2: 17, 0.5: 15, 1e7: 31, math.MaxFloat64: 31,
	} {
		assert.Equal(t, slot, exponentSlot(value), value)
	}
}

// TestExponentialBuckets: whatever is observed, each bucket holds as many values
// as lie within its bounds, however often the scale went down.
func TestExponentialBuckets(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		size := rapid.SampledFrom([]int32{20, 160}).Draw(t, "size")
		values := rapid.SliceOfN(rapid.Float64Range(0, 1e7), 1, 200).Draw(t, "values")
		h := New(Shape{MaxSize: size, Exemplars: true})
		for i, v := range values {
			h.Observe(Exemplar{Value: v, At: int64(i + 1)})
		}
		e := h.Exponential
		require.Equal(t, uint64(len(values)), h.Count)
		require.LessOrEqual(t, e.Positive().Len(), uint32(size))
		total := e.ZeroCount()
		step := math.Exp2(-float64(e.Scale())) // of the exponent, from bound to bound
		for i := range e.Positive().Len() {
			index := float64(e.Positive().Offset()) + float64(i)
			low, high := math.Exp2(index*step), math.Exp2((index+1)*step)
			within, slack := uint64(0), uint64(0)
			for _, v := range values {
				switch {
				case v <= ZeroThreshold:
				case math.Abs(v-low) < low*1e-9 || math.Abs(v-high) < high*1e-9:
					slack++
				case v > low && v < high:
					within++
				}
			}
			require.GreaterOrEqual(t, e.Positive().At(i), within)
			require.LessOrEqual(t, e.Positive().At(i), within+slack)
			total += e.Positive().At(i)
		}
		require.Equal(t, h.Count, total)
		require.Len(t, h.Exemplars, exponentialSlots)
	})
}

// TestExponentialScaleStaysExportable: Prometheus' native histograms end at scale -4.
func TestExponentialScaleStaysExportable(t *testing.T) {
	h := New(Shape{MaxSize: 20})
	for _, v := range []float64{0, 1e-300, 1e-10, 1.1e-9, 1e7} {
		h.Observe(Exemplar{Value: v})
	}
	assert.GreaterOrEqual(t, h.Exponential.Scale(), int32(-4))
	assert.Equal(t, uint64(3), h.Exponential.ZeroCount())
}
