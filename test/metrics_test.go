// Copyright The otelcol-sglang Authors
// SPDX-License-Identifier: Apache-2.0

package e2e

import (
	"fmt"
	"maps"
	"math"
	"slices"
	"strings"
	"testing"
	"time"

	dto "github.com/prometheus/client_model/go"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/otelcol-sglang/otelcol-sglang/internal/sglang"
	"github.com/otelcol-sglang/otelcol-sglang/test/internal/collector"
	"github.com/otelcol-sglang/otelcol-sglang/test/internal/engine"
	"github.com/otelcol-sglang/otelcol-sglang/test/internal/prometheus"
	"github.com/otelcol-sglang/otelcol-sglang/test/internal/sink"
	"github.com/otelcol-sglang/otelcol-sglang/test/internal/tool"
)

// pageLimit is how long a page may take through the collector into Prometheus.
const pageLimit = 30 * time.Second

// pages are engines that differ in what their pages show.
var pages = []string{
	"metrics-tp4-all-schedulers", "metrics-tp4-rank0-only", "metrics-dp2-all-schedulers", "metrics-dp2", "metrics-spec",
	"metrics-pd-prefill", "metrics-pd-decode", "metrics-priority", "metrics-lora-custom-labels", "metrics-unified-tp1",
}

// mustKeep are the families that dashboards and autoscalers ask for by name.
var mustKeep = strings.Fields(`
	e2e_request_latency_seconds time_to_first_token_seconds inter_token_latency_seconds
	request_time_per_output_token_seconds queue_time_seconds per_stage_req_latency_seconds num_running_reqs
	num_queue_reqs num_grammar_queue_reqs gen_throughput cache_hit_rate token_usage num_used_tokens
	max_total_num_tokens kv_used_tokens kv_evictable_tokens kv_available_tokens prompt_tokens_total
	generation_tokens_total cached_tokens_total num_requests_total num_aborted_requests_total num_retracted_reqs
	num_retracted_requests_total realtime_tokens_total utilization fwd_occupancy spec_accept_length
	spec_accept_rate num_prefill_bootstrap_queue_reqs num_prefill_inflight_queue_reqs
	num_decode_prealloc_queue_reqs num_decode_transfer_queue_reqs kv_transfer_latency_ms kv_transfer_speed_gb_s
	kv_transfer_alloc_ms kv_transfer_bootstrap_ms kv_transfer_total_mb hicache_host_used_tokens
	hicache_host_total_tokens evicted_tokens_total load_back_tokens_total eviction_duration_seconds
	load_back_duration_seconds scheduler_idle_seconds_total scheduler_stage_seconds_total eplb_balancedness
	http_requests_total http_responses_total http_requests_active routing_keys_active`)

// board are the queries of the engine's own dashboard
// (examples/monitoring/grafana/dashboards/json/sglang-dashboard.json), a panel each.
var board = map[string]string{
	"E2E latency":          `histogram_quantile(0.99, sum by (le) (rate(sglang:e2e_request_latency_seconds_bucket[1m])))`,
	"E2E heatmap":          `sum by (le) (increase(sglang:e2e_request_latency_seconds_bucket{model_name=~".+"}[1m]))`,
	"TTFT":                 `histogram_quantile(0.5, sum by (le) (rate(sglang:time_to_first_token_seconds_bucket[1m])))`,
	"TTFT heatmap":         `sum by (le) (increase(sglang:time_to_first_token_seconds_bucket{model_name=~".+"}[1m]))`,
	"running requests":     `sglang:num_running_reqs`,
	"generation rate":      `sglang:gen_throughput`,
	"cache hit rate":       `sglang:cache_hit_rate`,
	"queued requests":      `sglang:num_queue_reqs`,
	"average E2E latency":  `avg(rate(sglang:e2e_request_latency_seconds_sum[1m]) / rate(sglang:e2e_request_latency_seconds_count[1m]) >= 0)`,
	"average TTFT":         `avg(rate(sglang:time_to_first_token_seconds_sum[1m]) / rate(sglang:time_to_first_token_seconds_count[1m]) >= 0)`,
	"instances, by model":  `count by (instance, model_name) (sglang:num_running_reqs)`,
	"autoscaler's queue":   `sum(sglang:num_queue_reqs)`,
	"autoscaler's KV used": `max(sglang:token_usage)`,
}

// fleet is a collector that scrapes engines, and a Prometheus that scrapes it.
type fleet struct {
	collector  *collector.Collector
	prometheus *prometheus.Server
	engines    map[string]*engine.Engine
}

func startFleet(t *testing.T, names ...string) *fleet {
	t.Helper()
	tool.Need(t, "prometheus", "apt-get install prometheus")
	f := &fleet{engines: map[string]*engine.Engine{}}
	overlay := "receivers: {sglang: {collection_interval: 500ms, engines: ["
	for _, name := range names {
		f.engines[name] = engine.Start(t, engine.Page(t, name+".t0"))
		overlay += fmt.Sprintf("{endpoint: 'http://%s', timeout: 10s},", f.engines[name].Address)
	}
	overlay += "]}}\n"
	f.collector = collector.Start(t, collector.Options{
		Config: "agent.yaml", Overlay: overlay, Env: sink.Start(t).Env(),
	})
	f.prometheus = prometheus.Start(t, f.collector.Metrics)
	return f
}

// show serves a step of every page and waits until Prometheus has it.
func (f *fleet) show(t *testing.T, step string) {
	t.Helper()
	for name, e := range f.engines {
		e.Show(engine.Page(t, name+"."+step))
	}
	f.seen(t)
}

// seen waits until what the engines show is what Prometheus has: two scrapes of
// ours and two of its after this moment.
func (f *fleet) seen(t *testing.T) {
	t.Helper()
	for _, e := range f.engines {
		before := e.Scrapes()
		require.True(t, tool.Until(pageLimit, func() bool { return e.Scrapes() >= before+2 }), "the engine is not scraped")
	}
	const scrapes = `max(sum_over_time(up{job="otelcol-sglang"}[1h]))`
	first := f.prometheus.Query(scrapes)
	before := 0.0
	if len(first) == 1 {
		before = first[0].Value
	}
	_, ok := f.prometheus.Await(pageLimit, scrapes, func(s []prometheus.Sample) bool {
		return len(s) == 1 && s[0].Value >= before+2
	})
	require.True(t, ok, "Prometheus does not scrape")
}

// of are an engine's series in Prometheus.
func (f *fleet) of(name, more string) []prometheus.Sample {
	return f.prometheus.Query(fmt.Sprintf(`{__name__=~"sglang:.*",job="sglang",instance="%s"%s}`, f.engines[name].Address, more))
}

func TestMetrics(t *testing.T) {
	t.Parallel()
	f := startFleet(t, pages...)
	for _, step := range []string{"t0", "t1", "t2"} {
		f.show(t, step)
		for _, name := range pages {
			t.Run(step+"/"+name, func(t *testing.T) { checkPage(t, f, name, engine.Page(t, name+"."+step)) })
		}
	}
	for panel, query := range board {
		t.Run("board/"+panel, func(t *testing.T) {
			samples, ok := f.prometheus.Await(pageLimit, query, hasData)
			assert.True(t, ok, "%s gives %v", query, samples)
		})
	}
	t.Run("page", func(t *testing.T) { checkExposition(t, f) })
	own, err := f.collector.Telemetry()
	require.NoError(t, err)
	for _, name := range []string{
		"receiver_sglang_engine_up", "receiver_sglang_scrape_duration", "receiver_sglang_page_size",
		"receiver_sglang_page_series", "receiver_sglang_refused_samples", "processor_rankdedup_pages", "processor_rankdedup_series",
	} {
		assert.Positive(t, own[name], name)
	}
	assert.InDelta(t, len(pages), own["receiver_sglang_engine_up"], 0)
	assert.Zero(t, own["receiver_sglang_failed_scrapes"])
}

func hasData(samples []prometheus.Sample) bool {
	return slices.ContainsFunc(samples, func(s prometheus.Sample) bool { return !math.IsNaN(s.Value) })
}

func checkPage(t *testing.T, f *fleet, name, page string) {
	in := engine.Families(t, page)
	got := f.of(name, "")
	have := map[string]bool{}
	for _, s := range got {
		have[s.Labels["__name__"]] = true
		for label := range s.Labels {
			assert.False(t, strings.HasPrefix(label, "otel_"), "label %s of %v", label, s.Labels)
		}
	}
	allowed, required := map[string]bool{}, map[string]bool{}
	for family, f := range in {
		if !strings.HasPrefix(family, sglang.MetricPrefix) {
			continue
		}
		for _, sample := range sampleNames(f) {
			allowed[sample] = true
			required[sample] = reports(f)
		}
	}
	for _, family := range mustKeep {
		if f := in[sglang.MetricPrefix+family]; f != nil && reports(f) {
			for _, sample := range sampleNames(f) {
				assert.True(t, have[sample], "%s is gone", sample)
			}
		}
	}
	for sample, must := range required {
		if must {
			assert.True(t, have[sample], "%s is gone", sample)
		}
	}
	for sample := range have {
		assert.True(t, allowed[sample], "%s is new", sample)
	}
	checkRunning(t, f, name, in)
}

// sampleNames are the names that a family's series have in Prometheus.
func sampleNames(f *dto.MetricFamily) []string {
	if f.GetType() != dto.MetricType_HISTOGRAM {
		return []string{f.GetName()}
	}
	return []string{f.GetName() + "_bucket", f.GetName() + "_sum", f.GetName() + "_count"}
}

// reports tells whether a family has a value that is none of its sentinels.
func reports(f *dto.MetricFamily) bool {
	known, _ := sglang.FamilyOf(f.GetName())
	return slices.ContainsFunc(f.GetMetric(), func(m *dto.Metric) bool {
		if m.Gauge == nil {
			return true
		}
		v := m.GetGauge().GetValue()
		return !math.IsNaN(v) && (known == nil || !known.IsSentinel(v))
	})
}

// checkRunning: the number of running requests is that of the lowest rank of
// each data-parallel group, however many ranks report it.
func checkRunning(t *testing.T, f *fleet, name string, in map[string]*dto.MetricFamily) {
	t.Helper()
	type group struct{ dp, pp, priority string }
	lowest, values := map[group]string{}, map[group]float64{}
	for _, m := range in["sglang:num_running_reqs"].GetMetric() {
		labels := labelsOf(m)
		g := group{labels["dp_rank"], labels["pp_rank"], labels["priority"]}
		if rank, ok := lowest[g]; !ok || labels["tp_rank"] < rank {
			lowest[g], values[g] = labels["tp_rank"], m.GetGauge().GetValue()
		}
	}
	got := map[group]float64{}
	for _, s := range f.of(name, `,__name__="sglang:num_running_reqs"`) {
		g := group{s.Labels["dp_rank"], s.Labels["pp_rank"], s.Labels["priority"]}
		_, twice := got[g]
		assert.False(t, twice, "two series of %+v", g)
		got[g] = s.Value
	}
	assert.Equal(t, values, got)
}

func labelsOf(m *dto.Metric) map[string]string {
	labels := map[string]string{}
	for _, l := range m.GetLabel() {
		labels[l.GetName()] = l.GetValue()
	}
	return labels
}

// checkExposition: promtool reads the page, and finds nothing on it that it does
// not find on the engines' own.
func checkExposition(t *testing.T, f *fleet) {
	page, err := f.collector.Page()
	require.NoError(t, err)
	known := map[string]bool{}
	for _, name := range pages {
		for line := range strings.Lines(prometheus.Lint(t, engine.Page(t, name+".t2"))) {
			known[line] = true
		}
	}
	for line := range strings.Lines(prometheus.Lint(t, page)) {
		metric, _, _ := strings.Cut(line, " ")
		if strings.HasPrefix(metric, sglang.MetricPrefix) {
			assert.True(t, known[line], "%s", line)
		}
	}
	assert.NotContains(t, page, "otel_scope")
	assert.NotContains(t, page, "secret-key")
}

// TestEngineLife: an engine that vanishes leaves no series behind, one that
// restarts no counter that falls.
func TestEngineLife(t *testing.T) {
	t.Parallel()
	const stays, restarts = "metrics-tp4-all-schedulers", "metrics-unified-tp1"
	f := startFleet(t, stays, restarts)
	f.show(t, "t0")
	f.show(t, "t2")
	checkSame(t, f, restarts, engine.Page(t, restarts+".t2"))

	f.engines[restarts].Show(engine.Page(t, restarts+".after-restart-t0"))
	f.seen(t)
	checkSame(t, f, restarts, engine.Page(t, restarts+".after-restart-t0"))
	f.engines[restarts].Show(engine.Page(t, restarts+".after-restart-t1"))
	f.seen(t)
	checkSame(t, f, restarts, engine.Page(t, restarts+".after-restart-t1"))
	resets := f.prometheus.Query(fmt.Sprintf(`resets(sglang:prompt_tokens_total{instance="%s"}[5m])`, f.engines[restarts].Address))
	require.NotEmpty(t, resets)
	for _, s := range resets {
		assert.InDelta(t, 1, s.Value, 0, "resets of %v", s.Labels)
	}

	gone := f.engines[stays].Address
	f.engines[stays].Stop()
	delete(f.engines, stays)
	left, ok := f.prometheus.Await(pageLimit, fmt.Sprintf(`{__name__=~"sglang:.*",instance="%s"}`, gone),
		func(s []prometheus.Sample) bool { return len(s) == 0 })
	assert.True(t, ok, "%d series of the engine that vanished", len(left))
	assert.NotEmpty(t, f.of(restarts, ""), "the other engine's series")
}

// checkSame: an engine with one rank leaves as it is, value by value.
func checkSame(t *testing.T, f *fleet, name, page string) {
	t.Helper()
	want := map[string]float64{}
	for family, f := range engine.Families(t, page) {
		if strings.HasPrefix(family, sglang.MetricPrefix) && reports(f) {
			maps.Copy(want, series(f))
		}
	}
	got := map[string]float64{}
	for _, s := range f.of(name, "") {
		delete(s.Labels, "job")
		delete(s.Labels, "instance")
		got[key(s.Labels)] = s.Value
	}
	for k, v := range want {
		g, ok := got[k]
		if assert.True(t, ok, "%s is gone", k) {
			assert.InDelta(t, v, g, 1e-9*math.Abs(v), k)
		}
	}
	for k := range got {
		assert.Contains(t, want, k)
	}
}
