// Copyright The otelcol-sglang Authors
// SPDX-License-Identifier: Apache-2.0

package dashboards_test

import (
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"go.yaml.in/yaml/v3"

	"github.com/otelcol-sglang/otelcol-sglang/boards/dashboards"
	"github.com/otelcol-sglang/otelcol-sglang/internal/sglang"
)

const root = "../.."

// coreMetrics are the Collector's own that boards ask for (its documentation.md files);
// the rest of otelcol_ is of this repository's components.
var coreMetrics = []string{
	"otelcol_process_cpu_seconds", "otelcol_process_memory_rss", "otelcol_exporter_queue_size",
	"otelcol_exporter_queue_capacity", "otelcol_exporter_queue_batch_send_size_bytes_sum",
}

// requestMetrics are the genaimetrics connector's, as its README spells them in
// Prometheus.
var requestMetrics = map[string]bool{ // histogram?
	"gen_ai_server_request_duration": true, "gen_ai_server_time_to_first_token": true, "gen_ai_server_time_per_output_token": true,
	"sglang_request_stage_duration": true, "sglang_ranks_skew": true, "sglang_request_tokens": false, "sglang_request_retractions": false,
}

// known are all names that a query may have.
func known(t *testing.T) map[string]bool {
	t.Helper()
	out := map[string]bool{"target_info": true}
	add := func(name string, histogram bool) {
		if !histogram {
			out[name] = true
			return
		}
		for _, suffix := range []string{"_bucket", "_sum", "_count"} {
			out[name+suffix] = true
		}
	}
	for f := range sglang.Families() {
		add(f.Name, f.Type == sglang.TypeHistogram || f.Type == sglang.TypeSummary)
	}
	for name, histogram := range requestMetrics {
		add(name, histogram)
	}
	for _, name := range coreMetrics {
		out[name] = true
	}
	files, err := filepath.Glob(filepath.Join(root, "*/*/metadata.yaml"))
	require.NoError(t, err)
	require.NotEmpty(t, files)
	for _, file := range files {
		ownMetrics(t, file, add)
	}
	return out
}

func ownMetrics(t *testing.T, file string, add func(string, bool)) {
	t.Helper()
	text, err := os.ReadFile(file)
	require.NoError(t, err)
	var meta struct {
		Telemetry struct {
			Metrics map[string]struct {
				Histogram any `yaml:"histogram"`
			} `yaml:"metrics"`
		} `yaml:"telemetry"`
	}
	require.NoError(t, yaml.Unmarshal(text, &meta), file)
	for name, m := range meta.Telemetry.Metrics {
		add("otelcol_"+strings.ReplaceAll(name, ".", "_"), m.Histogram != nil)
	}
}

var (
	selectors = regexp.MustCompile(`\{[^}]*\}|\b(by|on|group_left|without) \([^)]*\)`)
	names     = regexp.MustCompile(`\b(sglang[:_]|gen_ai_|otelcol_|target_info)\w*`)
)

// metricsOf are the metrics that an expression names.
func metricsOf(expr string) []string {
	return names.FindAllString(selectors.ReplaceAllString(expr, ""), -1)
}

func TestNamesExist(t *testing.T) {
	exist := known(t)
	for _, b := range dashboards.All() {
		for _, p := range b.Panels() {
			for _, q := range p.Queries {
				found := metricsOf(q.PromQL())
				assert.NotEmpty(t, found, "%s / %s: no metric", b.Title, p.Title)
				for _, name := range found {
					assert.True(t, exist[name], "%s / %s: nothing writes %s", b.Title, p.Title, name)
				}
			}
		}
	}
	for _, name := range metricsOf(dashboards.Restarts) {
		assert.True(t, exist[name], "annotation: nothing writes %s", name)
	}
	for _, p := range official() {
		for _, name := range metricsOf(p.Queries[0].Expr) {
			assert.True(t, exist[name], "official / %s: nothing writes %s", p.Title, name)
		}
	}
}

func TestMetricsOf(t *testing.T) {
	assert.Equal(t, []string{"sglang:a_total", "otelcol_b"}, metricsOf(`sum by (gen_ai_x) (rate(sglang:a_total{sglang_y="1"}[5m])) / on (sglang_z) group_left (sglang_v) otelcol_b`))
}
