// Copyright The otelcol-sglang Authors
// SPDX-License-Identifier: Apache-2.0

package genaimetricsconnector // import "github.com/otelcol-sglang/otelcol-sglang/connector/genaimetricsconnector"

import (
	"time"

	"github.com/lightstep/go-expohisto/structure"
	"go.opentelemetry.io/collector/pdata/pcommon"
	"go.opentelemetry.io/collector/pdata/pmetric"

	"github.com/otelcol-sglang/otelcol-sglang/connector/genaimetricsconnector/internal/histogram"
	"github.com/otelcol-sglang/otelcol-sglang/connector/genaimetricsconnector/internal/metadata"
	"github.com/otelcol-sglang/otelcol-sglang/connector/genaimetricsconnector/internal/series"
	"github.com/otelcol-sglang/otelcol-sglang/internal/sglang"
)

// emitter writes a store's series as OTLP metrics.
type emitter struct{ version, collectorID string }

func (e emitter) emit(store *series.Store, now time.Time) pmetric.Metrics {
	out := pmetric.NewMetrics()
	var who series.Resource
	var metrics pmetric.MetricSlice
	first, wasOverflow := true, false
	store.Each(func(r series.Resource, m series.Metric, list []*series.Series, overflow bool) {
		if first || r != who || overflow != wasOverflow {
			metrics = e.resource(out, r)
			first, who, wasOverflow = false, r, overflow
		}
		w := pointWriter{now: pcommon.NewTimestampFromTime(now), collectorID: e.collectorID, overflow: overflow}
		w.metric(metrics.AppendEmpty(), m, list)
	})
	return out
}

// resource has these three attributes and no others: the Prometheus exporter makes
// job and instance of them and drops the rest, and two resources that differ in
// what it drops would write one series in turns.
func (e emitter) resource(out pmetric.Metrics, r series.Resource) pmetric.MetricSlice {
	rm := out.ResourceMetrics().AppendEmpty()
	attrs := rm.Resource().Attributes()
	put(attrs, attrServiceNamespace, r.Namespace)
	put(attrs, attrServiceName, r.Service)
	put(attrs, attrServiceInstance, r.Instance)
	sm := rm.ScopeMetrics().AppendEmpty()
	sm.Scope().SetName(metadata.ScopeName)
	sm.Scope().SetVersion(e.version)
	return sm.Metrics()
}

func put(attrs pcommon.Map, key, value string) {
	if value != "" {
		attrs.PutStr(key, value)
	}
}

type pointWriter struct {
	now         pcommon.Timestamp
	collectorID string
	overflow    bool
}

func (w pointWriter) metric(out pmetric.Metric, m series.Metric, list []*series.Series) {
	info := m.Info()
	out.SetName(info.Name)
	out.SetUnit(info.Unit)
	out.SetDescription(info.Description)
	switch {
	case list[0].Histogram == nil:
		w.sum(out.SetEmptySum(), list)
	case list[0].Histogram.Exponential != nil:
		w.exponential(out.SetEmptyExponentialHistogram(), list)
	default:
		w.explicit(out.SetEmptyHistogram(), list)
	}
}

func (w pointWriter) attrs(out pcommon.Map, s *series.Series) {
	out.EnsureCapacity(len(s.Attrs) + 2)
	for _, a := range s.Attrs {
		out.PutStr(a.Key, a.Value)
	}
	put(out, sglang.AttrCollectorID, w.collectorID)
	if w.overflow {
		out.PutBool(sglang.AttrOverflow, true)
	}
}

func (w pointWriter) sum(out pmetric.Sum, list []*series.Series) {
	out.SetIsMonotonic(true)
	out.SetAggregationTemporality(pmetric.AggregationTemporalityCumulative)
	out.DataPoints().EnsureCapacity(len(list))
	for _, s := range list {
		dp := out.DataPoints().AppendEmpty()
		w.attrs(dp.Attributes(), s)
		dp.SetStartTimestamp(pcommon.NewTimestampFromTime(s.Start))
		dp.SetTimestamp(w.now)
		dp.SetIntValue(s.Total)
	}
}

func (w pointWriter) explicit(out pmetric.Histogram, list []*series.Series) {
	out.SetAggregationTemporality(pmetric.AggregationTemporalityCumulative)
	out.DataPoints().EnsureCapacity(len(list))
	for _, s := range list {
		dp, h := out.DataPoints().AppendEmpty(), s.Histogram
		w.attrs(dp.Attributes(), s)
		dp.SetStartTimestamp(pcommon.NewTimestampFromTime(s.Start))
		dp.SetTimestamp(w.now)
		dp.SetCount(h.Count)
		dp.SetSum(h.Sum)
		dp.SetMin(h.Min)
		dp.SetMax(h.Max)
		dp.ExplicitBounds().FromRaw(h.Bounds)
		dp.BucketCounts().FromRaw(h.Counts)
		exemplars(dp.Exemplars(), h.Exemplars)
	}
}

func (w pointWriter) exponential(out pmetric.ExponentialHistogram, list []*series.Series) {
	out.SetAggregationTemporality(pmetric.AggregationTemporalityCumulative)
	out.DataPoints().EnsureCapacity(len(list))
	for _, s := range list {
		dp, h := out.DataPoints().AppendEmpty(), s.Histogram
		w.attrs(dp.Attributes(), s)
		dp.SetStartTimestamp(pcommon.NewTimestampFromTime(s.Start))
		dp.SetTimestamp(w.now)
		dp.SetCount(h.Count)
		dp.SetSum(h.Sum)
		dp.SetMin(h.Min)
		dp.SetMax(h.Max)
		dp.SetScale(h.Exponential.Scale())
		dp.SetZeroCount(h.Exponential.ZeroCount())
		dp.SetZeroThreshold(histogram.ZeroThreshold)
		buckets(dp.Positive(), h.Exponential.Positive())
		exemplars(dp.Exemplars(), h.Exemplars)
	}
}

func buckets(out pmetric.ExponentialHistogramDataPointBuckets, in *structure.Buckets) {
	out.SetOffset(in.Offset())
	out.BucketCounts().EnsureCapacity(int(in.Len()))
	for i := range in.Len() {
		out.BucketCounts().Append(in.At(i))
	}
}

func exemplars(out pmetric.ExemplarSlice, list []histogram.Exemplar) {
	for i := range list {
		e := &list[i]
		if e.At == 0 {
			continue
		}
		x := out.AppendEmpty()
		x.SetTimestamp(pcommon.Timestamp(e.At))
		x.SetDoubleValue(e.Value)
		x.SetTraceID(e.Trace)
		x.SetSpanID(e.Span)
	}
}
