// Copyright The otelcol-sglang Authors
// SPDX-License-Identifier: Apache-2.0

package scrape // import "github.com/otelcol-sglang/otelcol-sglang/receiver/sglangreceiver/internal/scrape"

import (
	"go.opentelemetry.io/collector/pdata/pcommon"
	"go.opentelemetry.io/collector/pdata/pmetric"

	"github.com/otelcol-sglang/otelcol-sglang/receiver/sglangreceiver/internal/page"
)

// Append adds a page's families to out: one metric each, without a unit, since
// exporters would make it a suffix of the name.
func Append(out pmetric.MetricSlice, p *page.Page, at pcommon.Timestamp) {
	out.EnsureCapacity(out.Len() + len(p.Families))
	for _, f := range p.Families {
		m := newMetric(out, f)
		for i := range f.Series {
			appendPoint(m, &f.Series[i], at)
		}
	}
}

// AppendStale adds a point without a value for each series of the page that is
// not in live, and returns their number. Each gets a metric of its own: the
// Prometheus exporter reads a metric only to its first such point.
func AppendStale(out pmetric.MetricSlice, p *page.Page, live map[uint64]struct{}, at pcommon.Timestamp) (n int) {
	for _, f := range p.Families {
		for i := range f.Series {
			if _, ok := live[f.Series[i].Key]; ok {
				continue
			}
			appendStale(newMetric(out, f), &f.Series[i], at)
			n++
		}
	}
	return n
}

func newMetric(out pmetric.MetricSlice, f *page.Family) pmetric.Metric {
	m := out.AppendEmpty()
	m.SetName(f.Name)
	m.SetDescription(f.Help)
	switch f.Kind {
	case page.Counter:
		s := m.SetEmptySum()
		s.SetIsMonotonic(true)
		s.SetAggregationTemporality(pmetric.AggregationTemporalityCumulative)
	case page.Histogram:
		m.SetEmptyHistogram().SetAggregationTemporality(pmetric.AggregationTemporalityCumulative)
	case page.Summary:
		m.SetEmptySummary()
	default:
		m.SetEmptyGauge()
	}
	return m
}

func appendPoint(m pmetric.Metric, s *page.Series, at pcommon.Timestamp) {
	switch m.Type() {
	case pmetric.MetricTypeSum:
		fillNumber(m.Sum().DataPoints().AppendEmpty(), s, at)
	case pmetric.MetricTypeGauge:
		fillNumber(m.Gauge().DataPoints().AppendEmpty(), s, at)
	case pmetric.MetricTypeHistogram:
		d := m.Histogram().DataPoints().AppendEmpty()
		fillHistogram(d, s, at)
		d.SetCount(s.Dist.Count)
		d.SetSum(s.Dist.Sum)
		d.BucketCounts().FromRaw(s.Dist.Counts)
	case pmetric.MetricTypeSummary:
		d := m.Summary().DataPoints().AppendEmpty()
		fillSummary(d, s, at)
		d.SetCount(s.Dist.Count)
		d.SetSum(s.Dist.Sum)
		for _, q := range s.Dist.Quantiles {
			v := d.QuantileValues().AppendEmpty()
			v.SetQuantile(q.Quantile)
			v.SetValue(q.Value)
		}
	}
}

// appendStale keeps bounds and quantiles and has a sum, as remote write makes a
// stale series of each, and of the sum only if it is set.
func appendStale(m pmetric.Metric, s *page.Series, at pcommon.Timestamp) {
	stale := pmetric.DefaultDataPointFlags.WithNoRecordedValue(true)
	switch m.Type() {
	case pmetric.MetricTypeSum:
		staleNumber(m.Sum().DataPoints().AppendEmpty(), s, at)
	case pmetric.MetricTypeGauge:
		staleNumber(m.Gauge().DataPoints().AppendEmpty(), s, at)
	case pmetric.MetricTypeHistogram:
		d := m.Histogram().DataPoints().AppendEmpty()
		fillHistogram(d, s, at)
		d.BucketCounts().FromRaw(make([]uint64, len(s.Dist.Counts)))
		d.SetSum(0)
		d.SetFlags(stale)
	case pmetric.MetricTypeSummary:
		d := m.Summary().DataPoints().AppendEmpty()
		fillSummary(d, s, at)
		for _, q := range s.Dist.Quantiles {
			d.QuantileValues().AppendEmpty().SetQuantile(q.Quantile)
		}
		d.SetFlags(stale)
	}
}

func fillNumber(d pmetric.NumberDataPoint, s *page.Series, at pcommon.Timestamp) {
	d.SetStartTimestamp(pcommon.Timestamp(s.Start))
	d.SetTimestamp(at)
	d.SetDoubleValue(s.Value)
	putLabels(d.Attributes(), s.Labels)
}

func staleNumber(d pmetric.NumberDataPoint, s *page.Series, at pcommon.Timestamp) {
	d.SetStartTimestamp(pcommon.Timestamp(s.Start))
	d.SetTimestamp(at)
	putLabels(d.Attributes(), s.Labels)
	d.SetFlags(pmetric.DefaultDataPointFlags.WithNoRecordedValue(true))
}

func fillHistogram(d pmetric.HistogramDataPoint, s *page.Series, at pcommon.Timestamp) {
	d.SetStartTimestamp(pcommon.Timestamp(s.Start))
	d.SetTimestamp(at)
	d.ExplicitBounds().FromRaw(s.Dist.Bounds)
	putLabels(d.Attributes(), s.Labels)
}

func fillSummary(d pmetric.SummaryDataPoint, s *page.Series, at pcommon.Timestamp) {
	d.SetStartTimestamp(pcommon.Timestamp(s.Start))
	d.SetTimestamp(at)
	putLabels(d.Attributes(), s.Labels)
}

func putLabels(attrs pcommon.Map, labels []page.Label) {
	attrs.EnsureCapacity(len(labels))
	for _, l := range labels {
		attrs.PutStr(l.Name, l.Value)
	}
}
