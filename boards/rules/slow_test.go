// Copyright The otelcol-sglang Authors
// SPDX-License-Identifier: Apache-2.0

package rules

import (
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
)

// elsewhere are alerts whose fault is in no scenario, with the test that has it.
var elsewhere = map[string]string{
	"SGLangSLOObjectiveMissing": "TestSlowBurn",
	"SGLangTelemetryLost":       "TestLosses",
	"SGLangExportFailures":      "TestLosses",
	"SGLangExportQueueFull":     "TestLosses",
	"SGLangEarlyReleases":       "TestLosses",
	"SGLangRequestsMiscounted":  "TestLosses",
}

// TestSlowBurn: what takes longer than a scenario. One request a second; four of a
// hundred are late for three hours, which is a ticket and no page; and the times per token
// have no bucket with the objective's bound.
func TestSlowBurn(t *testing.T) {
	const labels = `job="sglang",instance="engine-0",gen_ai_request_model="m"`
	const late = "0+57.6x180"
	series := requests(labels, late)
	series[`gen_ai_server_time_per_output_token_count{`+labels+`}`] = each
	series[`gen_ai_server_time_per_output_token_bucket{`+labels+`,le="0.12"}`] = each
	series[`gen_ai_server_request_duration_count{error_type="abort",`+labels+`}`] = "0+6x180"
	series[`gen_ai_server_request_duration_bucket{error_type="abort",`+labels+`,le="40.96"}`] = "0+6x180"
	assert.Equal(t, [][]string{{"SGLangSLOObjectiveMissing", "SGLangTTFTBudgetBurn"}}, firedBy(t, time.Minute, made(series), 3*time.Hour))
}

// each is one request a second, scraped each minute for three hours.
const each = "0+60x180"

// requests are series of good ones with first tokens in time, and of a collector.
func requests(labels, inTime string) map[string]string {
	return map[string]string{
		`up{job="otelcol-sglang",instance="c:8889"}`:                                                                             "1x180",
		`gen_ai_server_time_to_first_token_count{` + labels + `}`:                                                                each,
		`gen_ai_server_time_to_first_token_bucket{` + labels + `,le="2.5"}`:                                                      inTime,
		`gen_ai_server_time_to_first_token_bucket{` + labels + `,le="5.0"}`:                                                      each,
		`gen_ai_server_request_duration_count{` + labels + `}`:                                                                   each,
		`gen_ai_server_request_duration_bucket{` + labels + `,le="40.96"}`:                                                       each,
		`gen_ai_server_request_duration_bucket{` + labels + `,le="81.92"}`:                                                       each,
		`gen_ai_server_request_duration_bucket{` + labels + `,le="+Inf"}`:                                                        each,
		`gen_ai_server_time_to_first_token_bucket{` + labels + `,le="+Inf"}`:                                                     each,
		`otelcol_processor_rankdedup_spans_in{job="otelcol-sglang-own",instance="c:8888"}`:                                       "0+1200x180",
		`otelcol_receiver_accepted_spans{job="otelcol-sglang-own",instance="c:8888",receiver="sglang",transport="grpc"}`:         each,
		`otelcol_receiver_accepted_metric_points{job="otelcol-sglang-own",instance="c:8888",receiver="sglang",transport="http"}`: each,
		`otelcol_receiver_refused_spans{job="otelcol-sglang-own",instance="c:8888",receiver="sglang",transport="grpc"}`:          "0x180",
		`otelcol_exporter_sent_spans{job="otelcol-sglang-own",instance="c:8888",exporter="otlp_grpc"}`:                           each,
		`otelcol_exporter_queue_size{job="otelcol-sglang-own",instance="c:8888",exporter="otlp_grpc",data_type="traces"}`:        "100x180",
		`otelcol_exporter_queue_capacity{job="otelcol-sglang-own",instance="c:8888",exporter="otlp_grpc",data_type="traces"}`:    "1000x180",
		`otelcol_processor_genai_roots{job="otelcol-sglang-own",instance="c:8888",engine="e",completeness="complete"}`:           each,
		`otelcol_connector_genaimetrics_roots{job="otelcol-sglang-own",instance="c:8888",outcome="counted"}`:                     each,
	}
}

// TestLosses: each loss of the collector's own has its alert, and no other one; a hiccup
// has none. The names are those that the real collector shows (TestSpelling,
// TestLiveLosses) or that its components document.
func TestLosses(t *testing.T) {
	if testing.Short() {
		t.Skip("some dozens of promtool's runs")
	}
	const labels, own = `job="sglang",instance="engine-0",gen_ai_request_model="m"`, `job="otelcol-sglang-own",instance="c:8888"`
	const exporter = own + `,exporter="otlp_grpc"`
	for _, c := range []struct {
		name, series, values string
		want                 []string
	}{
		{name: "none"},
		{"lost at once", `otelcol_processor_rankdedup_spans_lost{` + own + `,reason="refused"}`, "_x15 500x24", []string{"SGLangTelemetryLost"}},
		{"lost at a shutdown", `otelcol_processor_genai_lost_spans{` + own + `,reason="shutdown"}`, "7x15 500x24", []string{"SGLangTelemetryLost"}},
		{"steps without a span", `otelcol_processor_genai_lost_steps{` + own + `,reason="no_span"}`, "0x15 0+30x24", []string{"SGLangTelemetryLost"}},
		{"a single lost span", `otelcol_processor_genai_lost_steps{` + own + `,reason="no_span"}`, "_x15 1x24", nil},
		{"refused", `otelcol_receiver_refused_spans{` + own + `,receiver="sglang",transport="grpc"}`, "0x15 0+6x24", []string{"SGLangTelemetryRefused"}},
		{"refused for a moment", `otelcol_receiver_refused_spans{` + own + `,receiver="sglang",transport="grpc"}`, "0x15 5x24", nil},
		{"points refused", `otelcol_receiver_refused_metric_points{` + own + `,receiver="sglang",transport="http"}`, "0x15 0+6x24", []string{"SGLangTelemetryRefused"}},
		{"given up", `otelcol_exporter_send_failed_spans{` + exporter + `}`, "_x15 10+10x24", []string{"SGLangExportFailures"}},
		{"points given up", `otelcol_exporter_send_failed_metric_points{` + own + `,exporter="prometheusremotewrite"}`, "_x15 10+10x24", []string{"SGLangExportFailures"}},
		{"a full queue", `otelcol_exporter_queue_size{` + exporter + `,data_type="traces"}`, "100x15 990x24", []string{"SGLangExportQueueFull"}},
		{"a burst in the queue", `otelcol_exporter_queue_size{` + exporter + `,data_type="traces"}`, "100x15 990x2 100x22", nil},
		{"no room for spans", `otelcol_processor_rankdedup_spans_early_release{` + own + `,reason="held_limit"}`, "_x15 0+60x24", []string{"SGLangEarlyReleases"}},
		{"a root that did not come", `otelcol_processor_rankdedup_spans_early_release{` + own + `,reason="root_missing"}`, "_x15 0+60x24", nil},
		{"no room for requests", `otelcol_processor_genai_early_releases{` + own + `,reason="limit"}`, "_x15 0+6x24", []string{"SGLangEarlyReleases"}},
		{"too many series", `otelcol_connector_genaimetrics_overflowed{` + own + `,metric="gen_ai.server.request.duration"}`, "_x15 0+6x24", []string{"SGLangRequestsMiscounted"}},
		{"remembered too short", `otelcol_connector_genaimetrics_forgotten_early{` + own + `}`, "_x15 0+6x24", []string{"SGLangRequestsMiscounted"}},
		{"without genai", `otelcol_connector_genaimetrics_roots{` + own + `,outcome="not_judged"}`, "_x15 0+6x24", []string{"SGLangRequestsMiscounted"}},
		{"no collector known", `up{job="otelcol-sglang",instance="c:8889"}`, "1x15 stale _x23", []string{"SGLangCollectorDown (page)"}},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			series := requests(labels, each)
			if c.series != "" {
				series[c.series] = c.values
			}
			fired := firedBy(t, time.Minute, made(series), 15*time.Minute, 39*time.Minute)
			assert.Empty(t, fired[0], "before")
			assert.Equal(t, c.want, fired[1])
		})
	}
}
