// Copyright The otelcol-sglang Authors
// SPDX-License-Identifier: Apache-2.0

package metricfold // import "github.com/otelcol-sglang/otelcol-sglang/processor/rankdedupprocessor/internal/metricfold"

import (
	"fmt"
	"math/rand/v2"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/open-telemetry/opentelemetry-collector-contrib/pkg/pdatatest/pmetrictest"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"go.opentelemetry.io/collector/pdata/pcommon"
	"go.opentelemetry.io/collector/pdata/pmetric"

	"github.com/otelcol-sglang/otelcol-sglang/internal/sglang"
	"github.com/otelcol-sglang/otelcol-sglang/processor/rankdedupprocessor/internal/series"
)

// shown folds a page and shows what leaves, one sample a line, in the order of the page.
func shown(t *testing.T, r *run, n int, page string) []string {
	var out []string
	for _, l := range linesOf(r.fold(parsePage(t, unindent(page), n))) {
		out = append(out, fmt.Sprintf("%s %g", l.key(), l.value))
	}
	return out
}

func unindent(page string) string {
	lines := strings.Split(strings.TrimSpace(page), "\n")
	for i := range lines {
		lines[i] = strings.TrimSpace(lines[i])
	}
	return strings.Join(lines, "\n") + "\n"
}

func override(name string, reduce sglang.TPReduce) func(*Settings) {
	return func(s *Settings) { s.Overrides = map[string]sglang.TPReduce{name: reduce} }
}

// TestStories are small pages of public bug reports and of the engine's quirks.
func TestStories(t *testing.T) {
	for name, tc := range map[string]struct {
		settings func(*Settings)
		page     string
		want     []string
	}{
		"context parallelism shows the same value eight times": {
			page: `
			# TYPE sglang:num_running_reqs gauge
			sglang:num_running_reqs{tp_rank="3"} 5
			sglang:num_running_reqs{tp_rank="1"} 5
			sglang:num_running_reqs{tp_rank="0"} 5
			sglang:num_running_reqs{tp_rank="2"} 5
			sglang:num_running_reqs{tp_rank="4"} 5
			sglang:num_running_reqs{tp_rank="5"} 5
			sglang:num_running_reqs{tp_rank="6"} 5
			sglang:num_running_reqs{tp_rank="7"} 5`,
			want: []string{`sglang:num_running_reqs 5`},
		},
		"spelled with an underscore": {
			page: `
			# TYPE sglang_num_running_reqs gauge
			sglang_num_running_reqs{tp_rank="0"} 5
			sglang_num_running_reqs{tp_rank="1"} 5`,
			want: []string{`sglang:num_running_reqs 5`},
		},
		"encoders with one dp_rank and two roles": {
			page: `
			# TYPE sglang:encoder_cache_entries gauge
			sglang:encoder_cache_entries{dp_rank="0",engine_type="encoder",pid="1"} 3
			sglang:encoder_cache_entries{dp_rank="0",engine_type="unified",pid="2"} 4`,
			want: []string{
				`sglang:encoder_cache_entries,dp_rank="0",engine_type="encoder",pid="1" 3`,
				`sglang:encoder_cache_entries,dp_rank="0",engine_type="unified",pid="2" 4`,
			},
		},
		"pipeline stages are no copies": {
			page: `
			# TYPE sglang:num_running_reqs gauge
			sglang:num_running_reqs{pp_rank="0",tp_rank="0"} 4
			sglang:num_running_reqs{pp_rank="0",tp_rank="1"} 4
			sglang:num_running_reqs{pp_rank="1",tp_rank="0"} 3
			sglang:num_running_reqs{pp_rank="1",tp_rank="1"} 3`,
			want: []string{`sglang:num_running_reqs,pp_rank="0" 4`, `sglang:num_running_reqs,pp_rank="1" 3`},
		},
		"the total of priorities and its parts": {
			page: `
			# TYPE sglang:num_running_reqs gauge
			sglang:num_running_reqs{priority="",tp_rank="0"} 10
			sglang:num_running_reqs{priority="1",tp_rank="0"} 4
			sglang:num_running_reqs{priority="2",tp_rank="0"} 6`,
			want: []string{`sglang:num_running_reqs,priority="" 10`, `sglang:num_running_reqs,priority="1" 4`, `sglang:num_running_reqs,priority="2" 6`},
		},
		"the former name of time per output token": {
			page: `
			# TYPE sglang:time_per_output_token_seconds histogram
			sglang:time_per_output_token_seconds_bucket{le="1"} 1
			sglang:time_per_output_token_seconds_bucket{le="+Inf"} 1
			sglang:time_per_output_token_seconds_sum 0.5
			sglang:time_per_output_token_seconds_count 1`,
			want: []string{
				`sglang:request_time_per_output_token_seconds_bucket,le="1" 1`,
				`sglang:request_time_per_output_token_seconds_bucket,le="+Inf" 1`,
				`sglang:request_time_per_output_token_seconds_sum 0.5`, `sglang:request_time_per_output_token_seconds_count 1`,
			},
		},
		"a counter's ranks are added, not the last one taken": {
			page: `
			# TYPE sglang:scheduler_process_cpu_seconds_total counter
			sglang:scheduler_process_cpu_seconds_total{tp_rank="0"} 1
			sglang:scheduler_process_cpu_seconds_total{tp_rank="1"} 2
			sglang:scheduler_process_cpu_seconds_total{tp_rank="2"} 4
			sglang:scheduler_process_cpu_seconds_total{tp_rank="3"} 8`,
			want: []string{`sglang:scheduler_process_cpu_seconds_total 15`},
		},
		"one DP rank queues, three are idle": {
			page: `
			# TYPE sglang:num_queue_reqs gauge
			sglang:num_queue_reqs{dp_rank="0",tp_rank="0"} 11
			sglang:num_queue_reqs{dp_rank="1",tp_rank="1"} 0
			sglang:num_queue_reqs{dp_rank="2",tp_rank="2"} 0
			sglang:num_queue_reqs{dp_rank="3",tp_rank="3"} 0`,
			want: []string{
				`sglang:num_queue_reqs,dp_rank="0" 11`, `sglang:num_queue_reqs,dp_rank="1" 0`,
				`sglang:num_queue_reqs,dp_rank="2" 0`, `sglang:num_queue_reqs,dp_rank="3" 0`,
			},
		},
		"another engine's ranks stay": {
			page: `
			# TYPE vllm:num_requests_running gauge
			vllm:num_requests_running{tp_rank="0"} 1
			vllm:num_requests_running{tp_rank="1"} 1`,
			want: []string{`vllm:num_requests_running,tp_rank="0" 1`, `vllm:num_requests_running,tp_rank="1" 1`},
		},
		"another engine's processes, folded on demand": {
			settings: override("vllm:kv_cache_usage_perc", sglang.ReduceFirst), page: `
			# TYPE vllm:kv_cache_usage_perc gauge
			vllm:kv_cache_usage_perc{pid="1"} 0.5
			vllm:kv_cache_usage_perc{pid="2"} 0.5
			vllm:kv_cache_usage_perc{pid="3"} 0.5
			vllm:kv_cache_usage_perc{pid="4"} 0.5`,
			want: []string{`vllm:kv_cache_usage_perc 0.5`},
		},
		"a catalogue rule overridden": {
			settings: override("sglang:num_running_reqs", sglang.ReduceKeep), page: `
			# TYPE sglang:num_running_reqs gauge
			sglang:num_running_reqs{tp_rank="0"} 1
			sglang:num_running_reqs{tp_rank="1"} 1`,
			want: []string{`sglang:num_running_reqs,tp_rank="0" 1`, `sglang:num_running_reqs,tp_rank="1" 1`},
		},
		"an override by the former name": {
			settings: override("sglang:num_prefill_infight_queue_reqs", sglang.ReduceMax), page: `
			# TYPE sglang:num_prefill_infight_queue_reqs gauge
			sglang:num_prefill_infight_queue_reqs{tp_rank="0"} 1
			sglang:num_prefill_infight_queue_reqs{tp_rank="1"} 2`,
			want: []string{`sglang:num_prefill_inflight_queue_reqs 2`},
		},
		"one type per name": {
			page: `
			# TYPE sglang:num_retracted_reqs counter
			sglang:num_retracted_reqs{tp_rank="0"} 2
			sglang:num_retracted_reqs{tp_rank="1"} 2
			# TYPE sglang:kv_transfer_latency_ms gauge
			sglang:kv_transfer_latency_ms{tp_rank="0"} 2
			sglang:kv_transfer_latency_ms{tp_rank="1"} 3`,
			want: []string{`sglang:kv_transfer_latency_ms_gauge 2`, `sglang:num_retracted_reqs_counter 2`},
		},
		"one family, two emitters": {
			page: `
			# TYPE sglang:cuda_graph_passes_total counter
			sglang:cuda_graph_passes_total{mode="decode_cuda_graph",tp_rank="0"} 7
			sglang:cuda_graph_passes_total{mode="decode_cuda_graph",tp_rank="1"} 7
			sglang:cuda_graph_passes_total{mode="prefill_none",tp_rank="0"} 3`,
			want: []string{`sglang:cuda_graph_passes_total,mode="decode_cuda_graph" 7`, `sglang:cuda_graph_passes_total,mode="prefill_none" 3`},
		},
		"attention ranks begin at 0 in each group": {
			page: `
			# TYPE sglang:load_back_bytes_total counter
			sglang:load_back_bytes_total{dp_rank="0",tp_rank="0"} 1
			sglang:load_back_bytes_total{dp_rank="0",tp_rank="1"} 2
			sglang:load_back_bytes_total{dp_rank="1",tp_rank="0"} 4
			sglang:load_back_bytes_total{dp_rank="1",tp_rank="1"} 8`,
			want: []string{`sglang:load_back_bytes_total,dp_rank="0" 3`, `sglang:load_back_bytes_total,dp_rank="1" 12`},
		},
		"pre-seeded zeros": {
			page: `
			# TYPE sglang:prefill_effective_tokens_total counter
			sglang:prefill_effective_tokens_total{mode="input",tp_rank="0"} 0
			sglang:prefill_effective_tokens_total{mode="input",tp_rank="1"} 0
			sglang:prefill_effective_tokens_total{mode="input",tp_rank="2"} 9
			sglang:prefill_effective_tokens_total{mode="input",tp_rank="3"} 0`,
			want: []string{`sglang:prefill_effective_tokens_total,mode="input" 9`},
		},
		"utilization is not measured on prefill": {
			page: `
			# TYPE sglang:utilization gauge
			sglang:utilization{tp_rank="0"} -1
			sglang:utilization{tp_rank="1"} 0.5`,
			want: []string{`sglang:utilization 0.5`},
		},
		"le on a gauge is a label": {
			page: `
			# TYPE sglang:routing_key_all_req_count gauge
			sglang:routing_key_all_req_count{gt="0",le="1",tp_rank="0"} 1
			sglang:routing_key_all_req_count{gt="1",le="+Inf",tp_rank="0"} 2`,
			want: []string{`sglang:routing_key_all_req_count,gt="0",le="1" 1`, `sglang:routing_key_all_req_count,gt="1",le="+Inf" 2`},
		},
		"expert ranks": {
			page: `
			# TYPE sglang:num_running_reqs gauge
			sglang:num_running_reqs{moe_ep_rank="1",tp_rank="1"} 2
			sglang:num_running_reqs{moe_ep_rank="0",tp_rank="0"} 2`,
			want: []string{`sglang:num_running_reqs 2`},
		},
		"a summary": {
			page: `
			# TYPE sglang:eplb_balancedness summary
			sglang:eplb_balancedness_sum{moe_ep_rank="0",tp_rank="0"} 3
			sglang:eplb_balancedness_count{moe_ep_rank="0",tp_rank="0"} 4`,
			want: []string{`sglang:eplb_balancedness_sum 3`, `sglang:eplb_balancedness_count 4`},
		},
		"a rank that is no number": {
			page: `
			# TYPE sglang:num_running_reqs gauge
			sglang:num_running_reqs{tp_rank="zero"} 1
			sglang:num_running_reqs{tp_rank="0"} 2
			sglang:num_running_reqs{tp_rank="1"} 2`,
			want: []string{`sglang:num_running_reqs,tp_rank="zero" 1`, `sglang:num_running_reqs 2`},
		},
		"labels kept": {
			settings: func(s *Settings) { s.KeepRankLabels = true }, page: `
			# TYPE sglang:num_retracted_reqs gauge
			sglang:num_retracted_reqs{moe_ep_rank="0",pid="17",tp_rank="0"} 1
			sglang:num_retracted_reqs{moe_ep_rank="0",pid="18",tp_rank="1"} 1
			# TYPE sglang:weight_memory_usage_gb gauge
			sglang:weight_memory_usage_gb{tp_rank="1"} 2
			sglang:weight_memory_usage_gb{tp_rank="0"} 1`,
			want: []string{
				`sglang:num_retracted_reqs,moe_ep_rank="0",tp_rank="0" 1`,
				`sglang:weight_memory_usage_gb,tp_rank="0" 3`,
			},
		},
	} {
		t.Run(name, func(t *testing.T) {
			r := newRun()
			if tc.settings != nil {
				r = newRun(tc.settings)
			}
			assert.Equal(t, tc.want, shown(t, r, 1, tc.page))
		})
	}
}

// TestTwoNodes: the page of another node is another resource; nothing is made of
// what it lacks, and its ranks are not added to this one's.
func TestTwoNodes(t *testing.T) {
	md := parsePage(t, "# TYPE sglang:num_running_reqs gauge\nsglang:num_running_reqs{tp_rank=\"0\"} 5\n", 1)
	other := parsePage(t, "# TYPE process_resident_memory_bytes gauge\nprocess_resident_memory_bytes 1\n", 1)
	other.ResourceMetrics().At(0).Resource().Attributes().PutStr("service.instance.id", "node1:30000")
	other.ResourceMetrics().MoveAndAppendTo(md.ResourceMetrics())
	require.Len(t, linesOf(newRun().fold(md)), 2)
}

// TestEnginesStayApart: equal ranks and labels, another instance.
func TestEnginesStayApart(t *testing.T) {
	const page = "# TYPE sglang:weight_memory_usage_gb gauge\nsglang:weight_memory_usage_gb{tp_rank=\"0\"} 1\nsglang:weight_memory_usage_gb{tp_rank=\"1\"} 2\n"
	md := parsePage(t, page, 1)
	other := parsePage(t, page, 1)
	other.ResourceMetrics().At(0).Resource().Attributes().PutStr("k8s.pod.name", "b")
	other.ResourceMetrics().MoveAndAppendTo(md.ResourceMetrics())
	r := newRun()
	out := linesOf(r.fold(md))
	require.Len(t, out, 2)
	assert.Equal(t, 3.0, out[0].value)
	assert.Equal(t, 3.0, out[1].value)
	assert.EqualValues(t, 2, r.store.Engines())
}

// TestLearnedAttributesDoNotPart: what the receiver learns from the engine later
// makes no other engine of it.
func TestLearnedAttributesDoNotPart(t *testing.T) {
	const page = "# TYPE sglang:scheduler_process_cpu_seconds_total counter\nsglang:scheduler_process_cpu_seconds_total{tp_rank=\"0\"} %d\nsglang:scheduler_process_cpu_seconds_total{tp_rank=\"1\"} %d\n"
	r := newRun()
	r.fold(parsePage(t, fmt.Sprintf(page, 5, 5), 1))
	md := parsePage(t, fmt.Sprintf(page, 1, 6), 2)
	md.ResourceMetrics().At(0).Resource().Attributes().PutStr(sglang.AttrServerVersion, "0.5.23")
	assert.Equal(t, 12.0, linesOf(r.fold(md))[0].value)
	assert.EqualValues(t, 1, r.store.Engines())
	assert.EqualValues(t, 1, r.counts.RankResets)
}

func TestUntouched(t *testing.T) {
	md := pmetric.NewMetrics()
	md.ResourceMetrics().AppendEmpty().ScopeMetrics().AppendEmpty() // empty as it came
	rm := md.ResourceMetrics().AppendEmpty()
	ms := rm.ScopeMetrics().AppendEmpty().Metrics()
	ms.AppendEmpty().SetName("sglang:num_running_reqs") // without type
	g := ms.AppendEmpty()
	g.SetName("sglang:of_a_later_release")
	g.SetEmptyGauge().DataPoints().AppendEmpty().Attributes().PutStr("tp_rank", "0")
	folded := ms.AppendEmpty()
	folded.SetName("sglang:num_queue_reqs")
	folded.SetEmptyGauge().DataPoints().AppendEmpty().SetIntValue(3)
	want := copyOf(md)
	r := newRun()
	require.NoError(t, pmetrictest.CompareMetrics(want, r.fold(md)))
	assert.Equal(t, 3, md.ResourceMetrics().At(1).ScopeMetrics().At(0).Metrics().Len())
	assert.EqualValues(t, 2, r.counts.In[Pass])
	assert.EqualValues(t, 2, r.counts.Out[Pass])
	assert.Zero(t, r.store.Engines())
}

// TestSecondTier: folding what is folded changes nothing.
func TestSecondTier(t *testing.T) {
	once := newRun().fold(capturedPage(t, "metrics-tp4-all-schedulers.t2", 1))
	want := copyOf(once)
	require.NoError(t, pmetrictest.CompareMetrics(noNaN(want), noNaN(newRun().fold(once))))
}

// TestOrderIsFree: series and metrics in any order give the same.
func TestOrderIsFree(t *testing.T) {
	page := capturedPage(t, "metrics-tp4-all-schedulers.t2", 1)
	want := valuesOf(newRun().fold(copyOf(page)))
	for seed := range uint64(30) {
		md := copyOf(page)
		shuffle(md, rand.New(rand.NewPCG(seed, 1)))
		require.Equal(t, want, valuesOf(newRun().fold(md)))
	}
}

func valuesOf(md pmetric.Metrics) map[string]float64 {
	values := map[string]float64{}
	for _, l := range linesOf(noNaN(md)) {
		values[l.key()] = l.value
	}
	return values
}

func shuffle(md pmetric.Metrics, rnd *rand.Rand) {
	for _, m := range md.ResourceMetrics().At(0).ScopeMetrics().At(0).Metrics().All() {
		order := map[string]int{}
		rank := func(a pcommon.Map) int {
			k := fmt.Sprint(a.AsRaw())
			if _, ok := order[k]; !ok {
				order[k] = rnd.Int()
			}
			return order[k]
		}
		switch m.Type() {
		case pmetric.MetricTypeGauge:
			m.Gauge().DataPoints().Sort(func(a, b pmetric.NumberDataPoint) bool { return rank(a.Attributes()) < rank(b.Attributes()) })
		case pmetric.MetricTypeSum:
			m.Sum().DataPoints().Sort(func(a, b pmetric.NumberDataPoint) bool { return rank(a.Attributes()) < rank(b.Attributes()) })
		case pmetric.MetricTypeHistogram:
			m.Histogram().DataPoints().Sort(func(a, b pmetric.HistogramDataPoint) bool { return rank(a.Attributes()) < rank(b.Attributes()) })
		}
	}
}

// TestStalePoints: a receiver says that series ended in metrics of their own.
func TestStalePoints(t *testing.T) {
	md := pmetric.NewMetrics()
	ms := md.ResourceMetrics().AppendEmpty().ScopeMetrics().AppendEmpty().Metrics()
	put := func(name, tp string, v float64, stale bool) {
		m := ms.AppendEmpty()
		m.SetName(name)
		dp := m.SetEmptyGauge().DataPoints().AppendEmpty()
		dp.Attributes().PutStr("tp_rank", tp)
		if stale {
			dp.SetFlags(pmetric.DefaultDataPointFlags.WithNoRecordedValue(true))
			return
		}
		dp.SetDoubleValue(v)
	}
	put("sglang:num_running_reqs", "0", 0, true)
	put("sglang:num_running_reqs", "1", 4, false)
	put("sglang:num_queue_reqs", "1", 0, true)
	put("sglang:num_queue_reqs", "0", 0, true)
	newRun().fold(md)
	require.Equal(t, 2, ms.Len())
	assert.Equal(t, "sglang:num_running_reqs", ms.At(0).Name())
	assert.Equal(t, 4.0, ms.At(0).Gauge().DataPoints().At(0).DoubleValue())
	assert.Equal(t, "sglang:num_queue_reqs", ms.At(1).Name())
	dp := ms.At(1).Gauge().DataPoints().At(0)
	assert.True(t, dp.Flags().NoRecordedValue())
	assert.Zero(t, dp.Attributes().Len())
}

func TestIntegersAndIntegerRanks(t *testing.T) {
	md := pmetric.NewMetrics()
	m := md.ResourceMetrics().AppendEmpty().ScopeMetrics().AppendEmpty().Metrics().AppendEmpty()
	m.SetName("sglang:load_back_bytes_total")
	s := m.SetEmptySum()
	s.SetIsMonotonic(true)
	s.SetAggregationTemporality(pmetric.AggregationTemporalityCumulative)
	for tp := range int64(2) {
		dp := s.DataPoints().AppendEmpty()
		dp.Attributes().PutInt("tp_rank", tp)
		dp.SetIntValue(21)
	}
	newRun().fold(md)
	require.Equal(t, 1, s.DataPoints().Len())
	assert.Equal(t, pmetric.NumberDataPointValueTypeInt, s.DataPoints().At(0).ValueType())
	assert.EqualValues(t, 42, s.DataPoints().At(0).IntValue())
	s.DataPoints().At(0).Attributes().PutInt("tp_rank", 0)
	half := s.DataPoints().AppendEmpty()
	half.Attributes().PutInt("tp_rank", 1)
	half.SetDoubleValue(0.5)
	newRun().fold(md)
	assert.Equal(t, 42.5, s.DataPoints().At(0).DoubleValue())
}

func TestHistogramSum(t *testing.T) {
	name := "sglang:queue_time_seconds"
	md := pmetric.NewMetrics()
	m := md.ResourceMetrics().AppendEmpty().ScopeMetrics().AppendEmpty().Metrics().AppendEmpty()
	m.SetName(name)
	h := m.SetEmptyHistogram()
	h.SetAggregationTemporality(pmetric.AggregationTemporalityCumulative)
	for tp := range int64(2) {
		dp := h.DataPoints().AppendEmpty()
		dp.Attributes().PutInt("tp_rank", tp)
		dp.ExplicitBounds().FromRaw([]float64{1, 2})
		dp.BucketCounts().FromRaw([]uint64{1, 2, uint64(tp)})
		dp.SetCount(3 + uint64(tp))
		dp.SetSum(5)
		dp.SetMin(0.5)
		dp.SetMax(9)
	}
	other := copyOf(md)
	r := newRun(override(name, sglang.ReduceSum))
	r.fold(md)
	require.Equal(t, 1, h.DataPoints().Len())
	dp := h.DataPoints().At(0)
	assert.Equal(t, []uint64{2, 4, 1}, dp.BucketCounts().AsRaw())
	assert.EqualValues(t, 7, dp.Count())
	assert.Equal(t, 10.0, dp.Sum())
	assert.False(t, dp.HasMin())
	assert.False(t, dp.HasMax())

	apart := other.ResourceMetrics().At(0).ScopeMetrics().At(0).Metrics().At(0).Histogram().DataPoints()
	apart.At(1).ExplicitBounds().FromRaw([]float64{1, 3}) // as many, but others
	r = newRun(override(name, sglang.ReduceSum))
	want := copyOf(other)
	require.NoError(t, pmetrictest.CompareMetrics(want, r.fold(other)))
	assert.EqualValues(t, 2, r.counts.Refused[series.BoundsDiffer])
}

func TestExponentialHistogramAndDelta(t *testing.T) {
	md := pmetric.NewMetrics()
	ms := md.ResourceMetrics().AppendEmpty().ScopeMetrics().AppendEmpty().Metrics()
	exponential, delta := ms.AppendEmpty(), ms.AppendEmpty()
	exponential.SetName("sglang:queue_time_seconds")
	delta.SetName("sglang:load_back_bytes_total")
	exponential.SetEmptyExponentialHistogram()
	delta.SetEmptySum().SetIsMonotonic(true)
	delta.Sum().SetAggregationTemporality(pmetric.AggregationTemporalityDelta)
	for tp := range int64(2) {
		e := exponential.ExponentialHistogram().DataPoints().AppendEmpty()
		e.Attributes().PutInt("tp_rank", tp)
		e.SetCount(3)
		d := delta.Sum().DataPoints().AppendEmpty()
		d.Attributes().PutInt("tp_rank", tp)
		d.SetIntValue(2)
	}
	r := newRun()
	for range 2 { // a delta is no cumulative series: again the same
		c := copyOf(md)
		r.fold(c)
		ms := c.ResourceMetrics().At(0).ScopeMetrics().At(0).Metrics()
		require.Equal(t, 1, ms.At(0).ExponentialHistogram().DataPoints().Len())
		require.Equal(t, 1, ms.At(1).Sum().DataPoints().Len())
		assert.EqualValues(t, 4, ms.At(1).Sum().DataPoints().At(0).IntValue())
	}
}

func TestSkew(t *testing.T) {
	r := newRun(func(s *Settings) { s.Skew = true })
	r.fold(capturedPage(t, "metrics-tp4-all-schedulers.t1", 1))
	out := linesOf(r.fold(capturedPage(t, "metrics-tp4-all-schedulers.t2", 2)))
	families := map[string]bool{}
	for _, l := range out {
		if l.family != sglang.MetricSeriesSkew {
			continue
		}
		families[l.labels[sglang.LabelFamily]] = true
		assert.GreaterOrEqual(t, l.value, 0.0)
		assert.NotContains(t, l.labels, sglang.LabelTPRank)
	}
	for _, f := range []string{"sglang:scheduler_idle_seconds_total", "sglang:queue_time_seconds", "sglang:scheduler_process_cpu_seconds_total"} {
		assert.True(t, families[f], f)
	}
	rest := out[:0]
	for _, l := range out {
		if !strings.HasPrefix(l.family, "sglang.series.") {
			rest = append(rest, l)
		}
	}
	assert.Len(t, keysOf(rest, rankLabels...), 654, "what is folded stays the same")
}

func TestSkewOfAStraggler(t *testing.T) {
	const page = `
		# TYPE sglang:forward_execution_seconds_total counter
		sglang:forward_execution_seconds_total{category="decode",tp_rank="0"} %g
		sglang:forward_execution_seconds_total{category="decode",tp_rank="1"} %g
		sglang:forward_execution_seconds_total{category="decode",tp_rank="2"} %g`
	r := newRun(func(s *Settings) { s.Skew = true })
	shown(t, r, 1, fmt.Sprintf(page, 10., 10., 12.))
	assert.Equal(t, []string{
		`sglang:forward_execution_seconds_total,category="decode" 14`,
		`sglang.series.skew,category="decode",family="sglang:forward_execution_seconds_total" 1.5`,
		`sglang.series.skew_rank,category="decode",family="sglang:forward_execution_seconds_total" 1`,
	}, shown(t, r, 2, fmt.Sprintf(page, 12., 13.5, 14.)))
}

func TestConcurrentEngines(t *testing.T) {
	r := newRun()
	page := capturedPage(t, "metrics-tp4-rank0-only.t2", 1)
	want := newRun().fold(copyOf(page)).DataPointCount()
	var wg sync.WaitGroup
	for i := range 8 {
		wg.Go(func() {
			for n := range 10 {
				md := copyOf(page)
				md.ResourceMetrics().At(0).Resource().Attributes().PutInt("engine", int64((i+n)%4))
				r.Fold(md, r.now.Add(time.Duration(n)*time.Second))
				assert.Equal(t, want, md.DataPointCount())
			}
		})
	}
	wg.Wait()
	assert.EqualValues(t, 4, r.store.Engines())
}

func BenchmarkFold(b *testing.B) {
	for _, name := range []string{"metrics-unified-tp1.t2", "metrics-tp4-rank0-only.t2", "metrics-tp4-all-schedulers.t2"} {
		b.Run(name, func(b *testing.B) {
			page := capturedPage(b, name, 1)
			r := newRun()
			r.fold(copyOf(page))
			b.ReportAllocs()
			for b.Loop() {
				b.StopTimer()
				md := copyOf(page)
				b.StartTimer()
				r.fold(md)
			}
			b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(b.N)/float64(page.DataPointCount()), "ns/point")
		})
	}
}

func TestEmptyLabelIsNoLabel(t *testing.T) {
	assert.Equal(t, []string{`sglang:num_running_reqs,priority="" 2`}, shown(t, newRun(), 1, `
		# TYPE sglang:num_running_reqs gauge
		sglang:num_running_reqs{priority="",tp_rank="0"} 2
		sglang:num_running_reqs{tp_rank="1"} 2`))
}

// TestPrivateRankTakesOver: each rank evicts on its own; only what the next rank
// adds continues the series.
func TestPrivateRankTakesOver(t *testing.T) {
	r := newRun()
	assert.Equal(t, []string{`sglang:evicted_tokens_total 5`}, shown(t, r, 1, `
		# TYPE sglang:evicted_tokens_total counter
		sglang:evicted_tokens_total{tp_rank="0"} 5
		sglang:evicted_tokens_total{tp_rank="1"} 5000`))
	assert.Equal(t, []string{`sglang:evicted_tokens_total 15`}, shown(t, r, 2, `
		# TYPE sglang:evicted_tokens_total counter
		sglang:evicted_tokens_total{tp_rank="1"} 5010`))
}

// TestOneGroupRestarts: attention rank 0 of two DP groups is two processes.
func TestOneGroupRestarts(t *testing.T) {
	const page = `
		# TYPE sglang:load_back_bytes_total counter
		sglang:load_back_bytes_total{dp_rank="0",tp_rank="0"} %d
		sglang:load_back_bytes_total{dp_rank="1",tp_rank="0"} %d`
	r := newRun()
	shown(t, r, 1, fmt.Sprintf(page, 10, 10))
	assert.Equal(t, []string{
		`sglang:load_back_bytes_total,dp_rank="0" 11`, `sglang:load_back_bytes_total,dp_rank="1" 11`,
	}, shown(t, r, 2, fmt.Sprintf(page, 1, 11)))
	assert.Zero(t, r.counts.Restarts)
	assert.EqualValues(t, 1, r.counts.RankResets)
}

// TestStaleHistogram: a point without value has no sum either.
func TestStaleHistogram(t *testing.T) {
	md := parsePage(t, unindent(`
		# TYPE sglang:queue_time_seconds histogram
		sglang:queue_time_seconds_bucket{le="+Inf",tp_rank="1"} 3
		sglang:queue_time_seconds_sum{tp_rank="1"} 4
		sglang:queue_time_seconds_count{tp_rank="1"} 3`), 1)
	ms := md.ResourceMetrics().At(0).ScopeMetrics().At(0).Metrics()
	stale := ms.AppendEmpty()
	stale.SetName("sglang:queue_time_seconds")
	stale.SetEmptyHistogram().SetAggregationTemporality(pmetric.AggregationTemporalityCumulative)
	dp := stale.Histogram().DataPoints().AppendEmpty()
	dp.Attributes().PutStr("tp_rank", "0")
	dp.SetFlags(pmetric.DefaultDataPointFlags.WithNoRecordedValue(true))
	newRun().fold(md)
	require.Equal(t, 1, ms.Len())
	assert.EqualValues(t, 3, ms.At(0).Histogram().DataPoints().At(0).Count())
}
