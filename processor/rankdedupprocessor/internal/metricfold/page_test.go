// Copyright The otelcol-sglang Authors
// SPDX-License-Identifier: Apache-2.0

package metricfold // import "github.com/otelcol-sglang/otelcol-sglang/processor/rankdedupprocessor/internal/metricfold"

import (
	"fmt"
	"math"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	dto "github.com/prometheus/client_model/go"
	"github.com/prometheus/common/expfmt"
	"github.com/prometheus/common/model"
	"github.com/stretchr/testify/require"
	"go.opentelemetry.io/collector/pdata/pcommon"
	"go.opentelemetry.io/collector/pdata/pmetric"
)

const pagesDir = "../../../../testdata/captures/metrics"

// engineStart is the start time that test pages carry.
var engineStart = time.Unix(1_700_000_000, 0)

// capturedPage reads a capture as a receiver would hand it on: one metric per
// family, the n-th scrape after engineStart.
func capturedPage(t testing.TB, name string, n int) pmetric.Metrics {
	text, err := os.ReadFile(filepath.Join(pagesDir, name+".prom"))
	require.NoError(t, err)
	return parsePage(t, string(text), n)
}

func parsePage(t testing.TB, text string, n int) pmetric.Metrics {
	parser := expfmt.NewTextParser(model.UTF8Validation)
	families, err := parser.TextToMetricFamilies(strings.NewReader(text))
	require.NoError(t, err)
	md := pmetric.NewMetrics()
	rm := md.ResourceMetrics().AppendEmpty()
	rm.Resource().Attributes().PutStr("service.name", "sglang")
	rm.Resource().Attributes().PutStr("service.instance.id", "localhost:30000")
	metrics := rm.ScopeMetrics().AppendEmpty().Metrics()
	names := make([]string, 0, len(families))
	for name := range families {
		names = append(names, name)
	}
	slices.Sort(names)
	at := pcommon.NewTimestampFromTime(engineStart.Add(time.Duration(n) * 5 * time.Second))
	for _, name := range names {
		m := metrics.AppendEmpty()
		m.SetName(name)
		fillMetric(m, families[name], at)
	}
	return md
}

func fillMetric(m pmetric.Metric, f *dto.MetricFamily, at pcommon.Timestamp) {
	switch f.GetType() {
	case dto.MetricType_COUNTER:
		s := m.SetEmptySum()
		s.SetIsMonotonic(true)
		s.SetAggregationTemporality(pmetric.AggregationTemporalityCumulative)
		for _, x := range f.GetMetric() {
			dp := stamp(s.DataPoints().AppendEmpty(), x, at)
			dp.SetDoubleValue(x.GetCounter().GetValue())
			dp.SetStartTimestamp(pcommon.NewTimestampFromTime(engineStart))
		}
	case dto.MetricType_HISTOGRAM:
		h := m.SetEmptyHistogram()
		h.SetAggregationTemporality(pmetric.AggregationTemporalityCumulative)
		for _, x := range f.GetMetric() {
			fillHistogram(stamp(h.DataPoints().AppendEmpty(), x, at), x.GetHistogram())
		}
	case dto.MetricType_SUMMARY:
		s := m.SetEmptySummary()
		for _, x := range f.GetMetric() {
			dp := stamp(s.DataPoints().AppendEmpty(), x, at)
			dp.SetStartTimestamp(pcommon.NewTimestampFromTime(engineStart))
			dp.SetCount(x.GetSummary().GetSampleCount())
			dp.SetSum(x.GetSummary().GetSampleSum())
		}
	default:
		g := m.SetEmptyGauge()
		for _, x := range f.GetMetric() {
			stamp(g.DataPoints().AppendEmpty(), x, at).SetDoubleValue(x.GetGauge().GetValue() + x.GetUntyped().GetValue())
		}
	}
}

func fillHistogram(dp pmetric.HistogramDataPoint, h *dto.Histogram) {
	dp.SetStartTimestamp(pcommon.NewTimestampFromTime(engineStart))
	dp.SetCount(h.GetSampleCount())
	dp.SetSum(h.GetSampleSum())
	before := uint64(0)
	for _, b := range h.GetBucket() {
		if !math.IsInf(b.GetUpperBound(), 1) {
			dp.ExplicitBounds().Append(b.GetUpperBound())
			dp.BucketCounts().Append(b.GetCumulativeCount() - before)
			before = b.GetCumulativeCount()
		}
	}
	dp.BucketCounts().Append(h.GetSampleCount() - before)
}

func stamp[P interface {
	Attributes() pcommon.Map
	SetTimestamp(pcommon.Timestamp)
}](dp P, m *dto.Metric, at pcommon.Timestamp) P {
	for _, l := range m.GetLabel() {
		dp.Attributes().PutStr(l.GetName(), l.GetValue())
	}
	dp.SetTimestamp(at)
	return dp
}

// sampleLine is one sample of an exposition page.
type sampleLine struct {
	name   string // with _bucket, _sum, _count
	family string
	labels map[string]string
	value  float64
}

// key leaves labels out.
func (l *sampleLine) key(without ...string) string {
	var b strings.Builder
	b.WriteString(l.name)
	names := make([]string, 0, len(l.labels))
	for k := range l.labels {
		if !slices.Contains(without, k) {
			names = append(names, k)
		}
	}
	slices.Sort(names)
	for _, k := range names {
		fmt.Fprintf(&b, ",%s=%q", k, l.labels[k])
	}
	return b.String()
}

// linesOf gives what a page would show of md.
func linesOf(md pmetric.Metrics) []sampleLine {
	var out []sampleLine
	for _, rm := range md.ResourceMetrics().All() {
		for _, sm := range rm.ScopeMetrics().All() {
			for _, m := range sm.Metrics().All() {
				out = append(out, metricLines(m)...)
			}
		}
	}
	return out
}

func metricLines(m pmetric.Metric) []sampleLine {
	var out []sampleLine
	line := func(suffix string, attrs pcommon.Map, v float64, le ...string) {
		l := sampleLine{name: m.Name() + suffix, family: m.Name(), labels: map[string]string{}, value: v}
		for k, a := range attrs.All() {
			l.labels[k] = a.AsString()
		}
		for _, b := range le {
			l.labels["le"] = b
		}
		out = append(out, l)
	}
	switch m.Type() {
	case pmetric.MetricTypeGauge:
		for _, dp := range m.Gauge().DataPoints().All() {
			line("", dp.Attributes(), numberOf(dp))
		}
	case pmetric.MetricTypeSum:
		for _, dp := range m.Sum().DataPoints().All() {
			line("", dp.Attributes(), numberOf(dp))
		}
	case pmetric.MetricTypeHistogram:
		for _, dp := range m.Histogram().DataPoints().All() {
			n := uint64(0)
			for i, c := range dp.BucketCounts().All() {
				n += c
				le := "+Inf"
				if i < dp.ExplicitBounds().Len() {
					le = strconv.FormatFloat(dp.ExplicitBounds().At(i), 'g', -1, 64)
				}
				line("_bucket", dp.Attributes(), float64(n), le)
			}
			line("_sum", dp.Attributes(), dp.Sum())
			line("_count", dp.Attributes(), float64(dp.Count()))
		}
	case pmetric.MetricTypeSummary:
		for _, dp := range m.Summary().DataPoints().All() {
			line("_sum", dp.Attributes(), dp.Sum())
			line("_count", dp.Attributes(), float64(dp.Count()))
		}
	}
	return out
}

func numberOf(dp pmetric.NumberDataPoint) float64 {
	if dp.ValueType() == pmetric.NumberDataPointValueTypeInt {
		return float64(dp.IntValue())
	}
	return dp.DoubleValue()
}
