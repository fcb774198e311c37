// Copyright The otelcol-sglang Authors
// SPDX-License-Identifier: Apache-2.0

package metricfold // import "github.com/otelcol-sglang/otelcol-sglang/processor/rankdedupprocessor/internal/metricfold"

import (
	"math"
	"strconv"
	"testing"

	"github.com/stretchr/testify/require"
	"go.opentelemetry.io/collector/pdata/pcommon"
	"go.opentelemetry.io/collector/pdata/pmetric"
	"pgregory.net/rapid"

	"github.com/otelcol-sglang/otelcol-sglang/internal/sglang"
)

// anyMetrics makes scrapes that no engine would send.
type anyMetrics struct {
	*rapid.T
	ts uint64
}

func (a anyMetrics) page() pmetric.Metrics {
	md := pmetric.NewMetrics()
	for range a.n("resources", 3) {
		rm := md.ResourceMetrics().AppendEmpty()
		rm.Resource().Attributes().PutInt("id", int64(a.n("engine", 2)))
		for range a.n("scopes", 3) {
			ms := rm.ScopeMetrics().AppendEmpty().Metrics()
			for range a.n("metrics", 4) {
				a.metric(ms.AppendEmpty())
			}
		}
	}
	return md
}

func (a anyMetrics) n(what string, below int) int { return rapid.IntRange(0, below-1).Draw(a.T, what) }

func (a anyMetrics) metric(m pmetric.Metric) {
	m.SetName(rapid.SampledFrom([]string{
		"sglang:num_running_reqs", "sglang:utilization", "sglang:load_back_bytes_total", "sglang:queue_time_seconds",
		"sglang:kv_transfer_speed_gb_s", "sglang:evicted_tokens_total", "sglang:num_bootstrap_failed_reqs_total",
		"added", "largest", "other",
	}).Draw(a.T, "name"))
	temporality := pmetric.AggregationTemporality(a.n("temporality", 3))
	switch a.n("type", 6) {
	case 0:
		a.numbers(m.SetEmptyGauge().DataPoints())
	case 1:
		m.SetEmptySum().SetIsMonotonic(a.n("monotonic", 4) > 0)
		m.Sum().SetAggregationTemporality(temporality)
		a.numbers(m.Sum().DataPoints())
	case 2:
		m.SetEmptyHistogram().SetAggregationTemporality(temporality)
		for range a.n("points", 6) {
			a.histogram(m.Histogram().DataPoints().AppendEmpty())
		}
	case 3:
		m.SetEmptyExponentialHistogram().SetAggregationTemporality(temporality)
		for range a.n("points", 6) {
			a.common(m.ExponentialHistogram().DataPoints().AppendEmpty())
		}
	case 4:
		m.SetEmptySummary()
		for range a.n("points", 6) {
			a.common(m.Summary().DataPoints().AppendEmpty())
		}
	}
}

func (a anyMetrics) numbers(dps pmetric.NumberDataPointSlice) {
	for range a.n("points", 6) {
		dp := dps.AppendEmpty()
		a.common(dp)
		switch a.n("number", 4) {
		case 0:
			dp.SetIntValue(int64(a.n("int", 100)))
		case 1:
			dp.SetDoubleValue(rapid.SampledFrom([]float64{math.NaN(), math.Inf(1), -1, 0, 1e300}).Draw(a.T, "odd"))
		case 2:
			dp.SetDoubleValue(float64(a.n("double", 100)))
		}
	}
}

func (a anyMetrics) histogram(dp pmetric.HistogramDataPoint) {
	a.common(dp)
	n := a.n("bounds", 4)
	for i := range n {
		dp.ExplicitBounds().Append(float64(i + a.n("shift", 2)))
	}
	if n == 0 && a.n("no buckets", 2) == 0 {
		dp.SetCount(uint64(a.n("count", 9)))
	}
	for range n + 1 {
		if dp.Count() > 0 && n == 0 {
			break
		}
		c := uint64(a.n("bucket", 9))
		dp.BucketCounts().Append(c)
	}
	if dp.BucketCounts().Len() > 0 {
		dp.SetCount(total(dp))
	}
	if a.n("sum", 4) > 0 {
		dp.SetSum(float64(a.n("sum", 100)))
	}
}

func total(dp pmetric.HistogramDataPoint) (n uint64) {
	for _, c := range dp.BucketCounts().All() {
		n += c
	}
	return n
}

func (a anyMetrics) common(dp interface {
	Attributes() pcommon.Map
	SetTimestamp(pcommon.Timestamp)
	SetStartTimestamp(pcommon.Timestamp)
	SetFlags(pmetric.DataPointFlags)
},
) {
	dp.SetTimestamp(pcommon.Timestamp(a.ts + uint64(a.n("ts", 3))))
	dp.SetStartTimestamp(pcommon.Timestamp(a.n("start", int(a.ts))))
	dp.SetFlags(pmetric.DefaultDataPointFlags.WithNoRecordedValue(a.n("missing", 6) == 0))
	for _, l := range []string{"tp_rank", "moe_ep_rank", "pid", "dp_rank"} {
		switch v := a.n(l, 5); v {
		case 0:
		case 1:
			dp.Attributes().PutInt(l, int64(v))
		default:
			dp.Attributes().PutStr(l, []string{"", "x", "0", "1"}[v-1])
		}
	}
}

// TestAnythingIsTaken: whatever comes, nothing panics, no histogram falls apart,
// and what is counted in is counted out, dropped or refused.
func TestAnythingIsTaken(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		r := newRun(func(s *Settings) {
			s.Skew = rapid.Bool().Draw(t, "skew")
			s.KeepRankLabels = rapid.Bool().Draw(t, "labels")
			s.Overrides = map[string]sglang.TPReduce{
				"added": sglang.ReduceSum, "largest": sglang.ReduceMax, "sglang:queue_time_seconds": sglang.ReduceSum,
			}
		})
		for scrape := range 6 {
			md := anyMetrics{t, uint64(10 + 2*scrape)}.page()
			in := int64(md.DataPointCount())
			r.fold(md)
			out := int64(0)
			for rule := range RuleCount {
				require.LessOrEqual(t, r.counts.Out[rule], r.counts.In[rule])
				in -= r.counts.In[rule]
				out += r.counts.Out[rule]
			}
			require.Zero(t, in)
			require.Equal(t, out, int64(checkSound(t, md)))
		}
	})
}

// checkSound counts the points that were there before.
func checkSound(t require.TestingT, md pmetric.Metrics) (n int) {
	for _, rm := range md.ResourceMetrics().All() {
		for _, sm := range rm.ScopeMetrics().All() {
			for _, m := range sm.Metrics().All() {
				if m.Name() != sglang.MetricSeriesSkew && m.Name() != sglang.MetricSeriesSkewRank {
					n += pointCount(m)
				}
				if m.Type() != pmetric.MetricTypeHistogram {
					continue
				}
				for _, dp := range m.Histogram().DataPoints().All() {
					require.Less(t, dp.Count(), uint64(math.MaxInt32))
					if dp.BucketCounts().Len() > 0 {
						require.Equal(t, dp.Count(), total(dp))
						require.Equal(t, dp.ExplicitBounds().Len()+1, dp.BucketCounts().Len())
					}
				}
			}
		}
	}
	return n
}

// FuzzRank: no rank label makes the folding lose or invent points.
func FuzzRank(f *testing.F) {
	for _, s := range []string{"0", "-1", "", "00", "9223372036854775808", "1e3", " 1", "\x00"} {
		f.Add(s, "1")
	}
	f.Fuzz(func(t *testing.T, a, b string) {
		md := pmetric.NewMetrics()
		m := md.ResourceMetrics().AppendEmpty().ScopeMetrics().AppendEmpty().Metrics().AppendEmpty()
		m.SetName("sglang:num_running_reqs")
		dps := m.SetEmptyGauge().DataPoints()
		for _, s := range []string{a, b} {
			dp := dps.AppendEmpty()
			dp.Attributes().PutStr("tp_rank", s)
			dp.SetIntValue(5)
		}
		newRun().fold(md)
		want := 1
		for _, s := range []string{a, b} {
			if _, err := strconv.ParseInt(s, 10, 64); err != nil && s != "" {
				want++
			}
		}
		require.Equal(t, min(want, 2), dps.Len())
	})
}
