// Copyright The otelcol-sglang Authors
// SPDX-License-Identifier: Apache-2.0

package metricfold // import "github.com/otelcol-sglang/otelcol-sglang/processor/rankdedupprocessor/internal/metricfold"

import (
	"strconv"

	"go.opentelemetry.io/collector/pdata/pcommon"
	"go.opentelemetry.io/collector/pdata/pmetric"

	"github.com/otelcol-sglang/otelcol-sglang/internal/sglang"
	"github.com/otelcol-sglang/otelcol-sglang/processor/rankdedupprocessor/internal/series"
)

// notAdded is the slot of a point that the batch doesn't know.
const notAdded = -1

// reader turns the points of one resource into those of a series batch. All of
// its memory is reused.
type reader struct {
	batch series.Batch
	// slots has the index in the batch of each point of the metrics read, in order.
	slots   []int
	badRank int64

	labels  []label
	key     []byte
	buckets []int64
	bounds  []float64
}

type label struct{ key, value string }

func (r *reader) reset() {
	r.batch.Reset()
	clear(r.labels[:cap(r.labels)])
	r.slots, r.buckets, r.bounds, r.badRank = r.slots[:0], r.buckets[:0], r.bounds[:0], 0
}

// identity names the engine behind a resource: all attributes but those that the
// receiver learns from the engine now and then.
func (r *reader) identity(attrs pcommon.Map) []byte {
	r.labels = r.labels[:0]
	for k, v := range attrs.All() {
		if !learned(k) {
			r.insert(k, v.AsString())
		}
	}
	r.key = r.appendLabels(r.key[:0])
	return r.key
}

func learned(key string) bool {
	switch key {
	case sglang.AttrServerVersion, sglang.AttrServerModel, sglang.AttrServerTPSize, sglang.AttrServerDPSize,
		sglang.AttrServerPPSize, sglang.AttrServerEPSize, sglang.AttrServerDPAttn, sglang.AttrServerDisaggMode:
		return true
	default:
		return false
	}
}

// insert keeps the labels sorted: there are few, and pages bring them in order.
func (r *reader) insert(key, value string) {
	i := len(r.labels)
	r.labels = append(r.labels, label{})
	for i > 0 && r.labels[i-1].key > key {
		r.labels[i] = r.labels[i-1]
		i--
	}
	r.labels[i] = label{key, value}
}

func (r *reader) appendLabels(to []byte) []byte {
	for _, l := range r.labels {
		to = append(append(append(append(to, l.key...), 0), l.value...), 0)
	}
	return to
}

// add puts a point in. Its rank labels must be numbers.
func (r *reader) add(e *series.Engine, d *decision, attrs pcommon.Map, p series.Point) {
	rank, process, ok := r.split(attrs)
	if !ok {
		r.badRank++
		r.slots = append(r.slots, notAdded)
		return
	}
	p.Rank = rank
	p.Process = mix(process, uint64(rank.TP), uint64(d.ranks))
	r.key = append(append(r.key[:0], byte(p.Kind)), d.name...)
	r.key = r.appendLabels(append(r.key, 0))
	r.slots = append(r.slots, len(r.batch.Points))
	r.batch.Add(e, r.key, d.rule, p)
}

// split parts the ranks from the other labels. A label with an empty value is as
// good as none: so a reader of the page understands it.
func (r *reader) split(attrs pcommon.Map) (rank series.Rank, process uint64, ok bool) {
	r.labels = r.labels[:0]
	rank, ok = series.NoRanks, true
	for k, v := range attrs.All() {
		switch k {
		case sglang.LabelTPRank:
			ok = number(v, &rank.TP) && ok
		case sglang.LabelMoEEPRank:
			ok = number(v, &rank.EP) && ok
		case sglang.LabelPID:
			ok = number(v, &rank.PID) && ok
		default:
			s := v.AsString()
			if s == "" {
				continue
			}
			r.insert(k, s)
			if k == sglang.LabelDPRank || k == sglang.LabelPPRank {
				process += hash(k) ^ hash(s)
			}
		}
	}
	return rank, process, ok
}

func number(v pcommon.Value, to *int64) bool {
	if v.Type() == pcommon.ValueTypeInt {
		*to = v.Int()
		return true
	}
	s := v.AsString()
	if s == "" {
		return true
	}
	n, err := strconv.ParseInt(s, 10, 64)
	*to = n
	return err == nil
}

// hash is FNV-1a.
func hash(s string) uint64 {
	h := uint64(14695981039346656037)
	for i := range len(s) {
		h = (h ^ uint64(s[i])) * 1099511628211
	}
	return h
}

func mix(vs ...uint64) uint64 {
	h := uint64(14695981039346656037)
	for _, v := range vs {
		h = (h ^ v) * 1099511628211
		h ^= h >> 29
	}
	return h
}

// ranked tells whether a point has a label to fold over.
func ranked(attrs pcommon.Map) bool {
	for k, v := range attrs.All() {
		if isRankLabel(k, v) {
			return true
		}
	}
	return false
}

// read adds a metric's points, if any of them has a rank.
func (r *reader) read(e *series.Engine, d *decision, m pmetric.Metric) {
	switch m.Type() {
	case pmetric.MetricTypeGauge:
		r.numbers(e, d, m.Gauge().DataPoints(), series.Instant)
	case pmetric.MetricTypeSum:
		kind := series.Instant
		if m.Sum().IsMonotonic() && m.Sum().AggregationTemporality() == pmetric.AggregationTemporalityCumulative {
			kind = series.Counter
		}
		r.numbers(e, d, m.Sum().DataPoints(), kind)
	case pmetric.MetricTypeHistogram:
		r.histograms(e, d, m.Histogram())
	case pmetric.MetricTypeExponentialHistogram:
		for _, dp := range m.ExponentialHistogram().DataPoints().All() {
			r.add(e, d, dp.Attributes(), opaque(dp, dp.Sum(), dp.Count(), dp.Flags()))
		}
	case pmetric.MetricTypeSummary:
		for _, dp := range m.Summary().DataPoints().All() {
			r.add(e, d, dp.Attributes(), opaque(dp, dp.Sum(), dp.Count(), dp.Flags()))
		}
	}
}

func (r *reader) numbers(e *series.Engine, d *decision, dps pmetric.NumberDataPointSlice, kind series.Kind) {
	for _, dp := range dps.All() {
		p := timed(dp, kind, dp.Flags())
		if dp.ValueType() == pmetric.NumberDataPointValueTypeInt {
			p.Value.Sum = float64(dp.IntValue())
		} else {
			p.Value.Sum = dp.DoubleValue()
		}
		r.add(e, d, dp.Attributes(), p)
	}
}

func (r *reader) histograms(e *series.Engine, d *decision, h pmetric.Histogram) {
	cumulative := h.AggregationTemporality() == pmetric.AggregationTemporalityCumulative
	for _, dp := range h.DataPoints().All() {
		p := timed(dp, series.Histogram, dp.Flags())
		whole := cumulative && dp.HasSum() && dp.BucketCounts().Len() == dp.ExplicitBounds().Len()+1
		if !p.Missing && !whole {
			p.Kind = series.Opaque
		}
		p.Value.Sum, p.Value.Count = dp.Sum(), int64(dp.Count())
		p.Value.Buckets, p.Bounds = r.copyBuckets(dp)
		r.add(e, d, dp.Attributes(), p)
	}
}

// copyBuckets gives slices whose capacity ends with them: what grows moves away.
func (r *reader) copyBuckets(dp pmetric.HistogramDataPoint) ([]int64, []float64) {
	i, j := len(r.buckets), len(r.bounds)
	for _, c := range dp.BucketCounts().All() {
		r.buckets = append(r.buckets, int64(c))
	}
	for _, b := range dp.ExplicitBounds().All() {
		r.bounds = append(r.bounds, b)
	}
	return r.buckets[i:len(r.buckets):len(r.buckets)], r.bounds[j:len(r.bounds):len(r.bounds)]
}

type timestamped interface {
	Timestamp() pcommon.Timestamp
	StartTimestamp() pcommon.Timestamp
}

func timed[P timestamped](dp P, kind series.Kind, flags pmetric.DataPointFlags) series.Point {
	return series.Point{
		Kind: kind, TS: uint64(dp.Timestamp()), Start: uint64(dp.StartTimestamp()), Missing: flags.NoRecordedValue(),
	}
}

func opaque[P timestamped](dp P, sum float64, count uint64, flags pmetric.DataPointFlags) series.Point {
	p := timed(dp, series.Opaque, flags)
	p.Value = series.Value{Sum: sum, Count: int64(count)}
	return p
}
