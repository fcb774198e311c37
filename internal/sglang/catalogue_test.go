// Copyright The otelcol-sglang Authors
// SPDX-License-Identifier: Apache-2.0

package sglang // import "github.com/otelcol-sglang/otelcol-sglang/internal/sglang"

import (
	"maps"
	"math"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	dto "github.com/prometheus/client_model/go"
	"github.com/prometheus/common/expfmt"
	"github.com/prometheus/common/model"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

const pages = "../../testdata/captures/metrics"

var dtoTypes = map[dto.MetricType]MetricType{
	dto.MetricType_GAUGE: TypeGauge, dto.MetricType_COUNTER: TypeCounter,
	dto.MetricType_HISTOGRAM: TypeHistogram, dto.MetricType_SUMMARY: TypeSummary,
}

// extraLabels are the --extra-metric-labels that two captures ran with.
var extraLabels = map[string][]string{
	"metrics-priority":           {"cluster", "team"},
	"metrics-lora-custom-labels": {"app", "tenant"},
}

func TestEveryCapturedFamilyIsKnown(t *testing.T) {
	files, err := filepath.Glob(filepath.Join(pages, "*.prom"))
	require.NoError(t, err)
	require.NotEmpty(t, files)
	for _, file := range files {
		name := filepath.Base(file)
		capture, _, _ := strings.Cut(name, ".")
		t.Run(name, func(t *testing.T) {
			r, err := os.Open(file)
			require.NoError(t, err)
			defer r.Close()
			parser := expfmt.NewTextParser(model.UTF8Validation)
			families, err := parser.TextToMetricFamilies(r)
			require.NoError(t, err)
			require.NotEmpty(t, families)
			for name, got := range families {
				want, ok := FamilyOf(name)
				if assert.True(t, ok, name) {
					assertFamily(t, want, got, extraLabels[capture])
				}
			}
		})
	}
}

func assertFamily(t *testing.T, want *Family, got *dto.MetricFamily, extra []string) {
	assert.Equal(t, want.Type, dtoTypes[got.GetType()], want.Name)
	for _, m := range got.GetMetric() {
		have := map[string]bool{}
		for _, l := range m.GetLabel() {
			have[l.GetName()] = true
		}
		for _, l := range want.Labels {
			assert.Contains(t, have, l, "%s lacks a label", want.Name)
			delete(have, l)
		}
		assert.Equal(t, want.HasPID(), have[LabelPID], want.Name)
		delete(have, LabelPID)
		for _, l := range want.OptionalLabels {
			delete(have, l)
		}
		if want.ExtraLabels {
			for _, l := range extra {
				delete(have, l)
			}
		}
		assert.Empty(t, slices.Collect(maps.Keys(have)), "%s has labels beyond the catalogue's", want.Name)
		assertBuckets(t, want, m.GetHistogram())
	}
}

func assertBuckets(t *testing.T, want *Family, h *dto.Histogram) {
	if h == nil {
		return
	}
	var bounds []float64
	for _, b := range h.GetBucket() {
		if !math.IsInf(b.GetUpperBound(), 1) {
			bounds = append(bounds, b.GetUpperBound())
		}
	}
	if want.BucketsConfigurable {
		return
	}
	if assert.Len(t, bounds, len(want.Buckets), want.Name) {
		for i, b := range bounds {
			assert.InDelta(t, want.Buckets[i], b, 1e-9*math.Abs(b), want.Name)
		}
	}
}

func TestCatalogueSize(t *testing.T) {
	current, former, otherType := 0, 0, 0
	for f := range Families() {
		switch {
		case f.Until == "":
			current++
		case f.ScrapedAs == "":
			former++
		default:
			otherType++
		}
	}
	assert.Equal(t, 184, current)
	assert.Equal(t, 5, former)
	assert.Equal(t, 5, otherType)
	assert.Len(t, loadsFamilies, 37)
}

func TestFamilyFacts(t *testing.T) {
	var pid []string
	for f := range Families() {
		if f.HasPID() {
			pid = append(pid, f.Name)
		}
		hasTP := slices.Contains(f.Labels, LabelTPRank)
		assert.Equal(t, hasTP, f.Ranks != RanksNone, f.Name)
	}
	assert.Equal(t, []string{"sglang:num_retracted_reqs", "sglang:num_paused_reqs"}, pid)

	evicted, _ := FamilyOf("sglang:evicted_tokens_total")
	assert.Equal(t, RanksAttention, evicted.Ranks)
	running, _ := FamilyOf("sglang:num_running_reqs")
	assert.Equal(t, RanksGlobal, running.Ranks)
	assert.False(t, running.IsSentinel(-1))
	utilization, _ := FamilyOf("sglang:utilization")
	assert.True(t, utilization.IsSentinel(-1))
	assert.False(t, utilization.IsSentinel(0))
	occupancy, _ := FamilyOf("sglang:fwd_occupancy")
	assert.True(t, occupancy.IsSentinel(math.NaN()))

	passes, _ := FamilyOf("sglang:cuda_graph_passes_total")
	mode := func(v string) func(string) string { return func(string) string { return v } }
	assert.Equal(t, EmitAllRanks, passes.EmittersOf(mode("decode_cuda_graph")))
	assert.Equal(t, EmitRank0Only, passes.EmittersOf(mode("prefill_none")))
	assert.Equal(t, EmitRank0Only, running.EmittersOf(mode("")))
}

func TestCanonicalName(t *testing.T) {
	for in, want := range map[string]string{
		"sglang:num_running_reqs":                   "sglang:num_running_reqs",
		"sglang_num_running_reqs":                   "sglang:num_running_reqs",
		"sglang_e2e_request_latency_seconds_bucket": "sglang:e2e_request_latency_seconds_bucket",
		"sglang_family_of_a_later_release":          "sglang:family_of_a_later_release",
		"sglang_spec__x":                            "sglang:spec__x",
		"sglang:spec__x":                            "sglang:spec__x",
		"sglang_timestamp":                          "sglang_timestamp", // the loads page's own
		"sglang_queues_waiting":                     "sglang_queues_waiting",
		"sglang.num_requests.running":               "sglang.num_requests.running",
		"sglangX":                                   "sglangX",
		"vllm:num_requests_running":                 "vllm:num_requests_running",
		"":                                          "",
	} {
		assert.Equal(t, want, CanonicalName(in), in)
	}
}

func TestResolve(t *testing.T) {
	for _, tc := range []struct {
		in     string
		t      MetricType
		name   string
		family string
	}{
		{"sglang:num_running_reqs", TypeGauge, "sglang:num_running_reqs", "sglang:num_running_reqs"},
		{"sglang_num_running_reqs", TypeUntyped, "sglang:num_running_reqs", "sglang:num_running_reqs"},
		{"sglang:num_prefill_infight_queue_reqs", TypeGauge, "sglang:num_prefill_inflight_queue_reqs", "sglang:num_prefill_inflight_queue_reqs"},
		{"sglang:time_per_output_token_seconds", TypeHistogram, "sglang:request_time_per_output_token_seconds", "sglang:request_time_per_output_token_seconds"},
		{"sglang_gpu_execution_seconds_total", TypeCounter, "sglang:forward_execution_seconds_total", "sglang:forward_execution_seconds_total"},
		{"sglang:num_requests", TypeCounter, "sglang:num_requests_total", "sglang:num_requests_total"},
		{"sglang:num_requests", TypeGauge, "sglang:num_requests", ""},
		{"sglang:kv_transfer_speed_gb_s", TypeHistogram, "sglang:kv_transfer_speed_gb_s", "sglang:kv_transfer_speed_gb_s"},
		{"sglang:kv_transfer_speed_gb_s", TypeGauge, "sglang:kv_transfer_speed_gb_s_gauge", "sglang:kv_transfer_speed_gb_s_gauge"},
		{"sglang:num_retracted_reqs", TypeGauge, "sglang:num_retracted_reqs", "sglang:num_retracted_reqs"},
		{"sglang:num_retracted_reqs", TypeCounter, "sglang:num_retracted_reqs_counter", "sglang:num_retracted_reqs"},
		{"sglang:unheard_of", TypeGauge, "sglang:unheard_of", ""},
		{"vllm:num_requests_running", TypeGauge, "vllm:num_requests_running", ""},
		{"_gauge", TypeGauge, "_gauge", ""},
		{"", TypeUntyped, "", ""},
	} {
		name, f := Resolve(tc.in, tc.t)
		assert.Equal(t, tc.name, name, "%s as %s", tc.in, tc.t)
		if tc.family == "" {
			assert.Nil(t, f, tc.in)
			continue
		}
		if assert.NotNil(t, f, tc.in) {
			assert.Equal(t, tc.family, f.Name)
		}
		again, f2 := Resolve(name, tc.t)
		assert.Equal(t, name, again)
		assert.Same(t, f, f2)
	}
}

func TestParseTPReduce(t *testing.T) {
	for _, r := range []TPReduce{ReduceFirst, ReduceMax, ReduceSum, ReduceKeep} {
		got, ok := ParseTPReduce(r.String())
		assert.True(t, ok)
		assert.Equal(t, r, got)
	}
	_, ok := ParseTPReduce("mean")
	assert.False(t, ok)
	assert.Equal(t, "invalid", TPReduce(9).String())
}

func BenchmarkResolve(b *testing.B) {
	b.ReportAllocs()
	for b.Loop() {
		if _, f := Resolve("sglang:num_running_reqs", TypeGauge); f == nil {
			b.Fatal("unknown")
		}
	}
}
