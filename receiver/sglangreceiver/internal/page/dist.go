// Copyright The otelcol-sglang Authors
// SPDX-License-Identifier: Apache-2.0

package page // import "github.com/otelcol-sglang/otelcol-sglang/receiver/sglangreceiver/internal/page"

import (
	"cmp"
	"math"
	"slices"
	"strconv"

	"github.com/prometheus/prometheus/model/labels"
)

// maxExact is the largest count that a float64 holds exactly.
const maxExact = 1 << 53

type bucket struct {
	le    float64
	count float64
}

// dist is a histogram or summary whose samples are still coming.
type dist struct {
	key       uint64
	labels    []Label
	respelled bool
	samples   int

	buckets          []bucket
	quantiles        []Quantile
	sum, count       float64
	hasSum, hasCount bool
	invalid          bool
	repeats          int // bucket lines that say the same again
}

func (b *builder) distSample(t target, lset labels.Labels, v float64) {
	f := t.family
	skip := ""
	switch t.part {
	case partBucket:
		skip = labelLE
	case partQuantile:
		skip = labelQuantile
	}
	key, _ := b.identify(f, lset, skip)
	d := f.dists[key]
	if d == nil {
		d = &dist{key: key, labels: b.keepLabels(), respelled: t.respelled}
		if f.dists == nil {
			f.dists = map[uint64]*dist{}
		}
		f.dists[key] = d
		f.order = append(f.order, d)
	}
	// The same histogram in the other spelling: its first one is enough.
	if d.respelled != t.respelled {
		b.refused[RefusedDuplicate]++
		return
	}
	b.last = d
	d.samples++
	if !d.take(t.part, lset, v) {
		d.samples--
		b.refused[RefusedDuplicate]++
	}
}

// take is false for a sample that the series has already.
func (d *dist) take(p part, lset labels.Labels, v float64) bool {
	switch p {
	case partSum:
		if d.hasSum {
			return false
		}
		d.sum, d.hasSum = v, true
	case partCount:
		if d.hasCount {
			return false
		}
		d.count, d.hasCount = v, true
	case partBucket:
		d.takeBucket(lset.Get(labelLE), v)
	case partQuantile:
		q, err := strconv.ParseFloat(lset.Get(labelQuantile), 64)
		d.invalid = d.invalid || err != nil
		d.quantiles = append(d.quantiles, Quantile{q, v})
	}
	return true
}

func (d *dist) takeBucket(le string, v float64) {
	bound, err := strconv.ParseFloat(le, 64)
	if err != nil || math.IsNaN(bound) {
		d.invalid = true
		return
	}
	d.buckets = append(d.buckets, bucket{bound, v})
}

// complete tells that sum and count are there. The bucket +Inf says the count too.
func (d *dist) complete() bool {
	if !d.hasSum {
		return false
	}
	return d.hasCount || slices.ContainsFunc(d.buckets, func(b bucket) bool { return math.IsInf(b.le, 1) })
}

// value is nil, with the reason, for what makes no histogram or summary.
func (d *dist) value(kind Kind) (*Dist, Reason) {
	switch {
	case !d.complete():
		return nil, RefusedIncomplete
	case d.invalid:
		return nil, RefusedHistogram
	case kind == Summary:
		return d.summary()
	default:
		return d.histogram()
	}
}

func (d *dist) summary() (*Dist, Reason) {
	count, ok := exact(d.count)
	if !ok || math.IsNaN(d.sum) {
		return nil, RefusedValue
	}
	return &Dist{Count: count, Sum: d.sum, Quantiles: d.quantiles}, ""
}

func (d *dist) histogram() (*Dist, Reason) {
	if math.IsNaN(d.sum) || math.IsInf(d.sum, 0) {
		return nil, RefusedValue
	}
	slices.SortStableFunc(d.buckets, func(x, y bucket) int { return cmp.Compare(x.le, y.le) })
	given := len(d.buckets)
	d.buckets = slices.Compact(d.buckets)
	d.repeats = given - len(d.buckets)
	total, finite, ok := d.total()
	if !ok {
		return nil, RefusedHistogram
	}
	out := &Dist{
		Count:  total,
		Sum:    d.sum,
		Bounds: make([]float64, len(finite)),
		Counts: make([]uint64, len(finite)+1),
	}
	below := uint64(0)
	for i, b := range finite {
		cumulative, ok := exact(b.count)
		if !ok || cumulative < below || (i > 0 && b.le == finite[i-1].le) {
			return nil, RefusedHistogram
		}
		out.Bounds[i], out.Counts[i] = b.le, cumulative-below
		below = cumulative
	}
	if below > total {
		return nil, RefusedHistogram
	}
	out.Counts[len(finite)] = total - below
	return out, ""
}

// total is the count, which the bucket +Inf must equal, and the finite buckets.
func (d *dist) total() (total uint64, finite []bucket, ok bool) {
	finite = d.buckets
	if n := len(finite); n > 0 && math.IsInf(finite[n-1].le, 1) {
		if d.hasCount && d.count != finite[n-1].count {
			return 0, nil, false
		}
		d.count, finite = finite[n-1].count, finite[:n-1]
	}
	if n := len(finite); n > 0 && (math.IsInf(finite[n-1].le, 1) || math.IsInf(finite[0].le, -1)) {
		return 0, nil, false
	}
	total, ok = exact(d.count)
	return total, finite, ok
}

// exact is the whole number that a count must be.
func exact(v float64) (uint64, bool) {
	if !(v >= 0 && v <= maxExact) || v != math.Trunc(v) {
		return 0, false
	}
	return uint64(v), true
}
