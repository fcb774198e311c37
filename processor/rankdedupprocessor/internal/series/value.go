// Copyright The otelcol-sglang Authors
// SPDX-License-Identifier: Apache-2.0

package series // import "github.com/otelcol-sglang/otelcol-sglang/processor/rankdedupprocessor/internal/series"

import "slices"

// Value is a number (Sum only) or a histogram, whose Buckets are not cumulative.
type Value struct {
	Sum     float64
	Count   int64
	Buckets []int64
}

func (v *Value) isZero() bool {
	return v.Sum == 0 && v.Count == 0
}

// set copies o, reusing v's memory.
func (v *Value) set(o *Value) {
	v.Sum, v.Count = o.Sum, o.Count
	v.Buckets = append(v.Buckets[:0], o.Buckets...)
}

// add expects equal bounds; a value without buckets counts as zeros.
func (v *Value) add(o *Value, sign int64) {
	v.Sum += float64(sign) * o.Sum
	v.Count += sign * o.Count
	for len(v.Buckets) < len(o.Buckets) {
		v.Buckets = append(v.Buckets, 0)
	}
	for i, b := range o.Buckets {
		v.Buckets[i] += sign * b
	}
}

// atLeast tells whether v can follow o in a cumulative series. A histogram's sum
// says nothing: observations may be negative.
func (v *Value) atLeast(o *Value) bool {
	if len(v.Buckets) == 0 && len(o.Buckets) == 0 {
		return v.Sum >= o.Sum && v.Count >= o.Count
	}
	if len(v.Buckets) != len(o.Buckets) || v.Count < o.Count {
		return false
	}
	for i, b := range o.Buckets {
		if v.Buckets[i] < b {
			return false
		}
	}
	return true
}

func (v *Value) equal(o *Value) bool {
	return v.Sum == o.Sum && v.Count == o.Count && slices.Equal(v.Buckets, o.Buckets)
}
