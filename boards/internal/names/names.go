// Copyright The otelcol-sglang Authors
// SPDX-License-Identifier: Apache-2.0

// Package names lists the series that boards and rules may ask for.
package names // import "github.com/otelcol-sglang/otelcol-sglang/boards/internal/names"

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	"go.yaml.in/yaml/v3"

	"github.com/otelcol-sglang/otelcol-sglang/boards/record"
	"github.com/otelcol-sglang/otelcol-sglang/internal/sglang"
)

// coreMetrics are the Collector's own that boards and rules ask for (its documentation.md files, and what Prometheus adds);
// the rest of otelcol_ is of this repository's components.
var coreMetrics = []string{
	"up", "otelcol_process_cpu_seconds", "otelcol_process_memory_rss",
	"otelcol_exporter_queue_size", "otelcol_exporter_queue_capacity", "otelcol_exporter_queue_batch_send_size_bytes_sum",
	"otelcol_exporter_sent_spans", "otelcol_exporter_send_failed_spans", "otelcol_exporter_enqueue_failed_spans",
	"otelcol_exporter_sent_metric_points", "otelcol_exporter_send_failed_metric_points",
	"otelcol_receiver_accepted_spans", "otelcol_receiver_refused_spans",
	"otelcol_receiver_accepted_metric_points", "otelcol_receiver_refused_metric_points",
	"otelcol_processor_memory_limiter_refused_spans",
}

// requestMetrics are the genaimetrics connector's, as its README spells them in
// Prometheus.
var requestMetrics = map[string]bool{ // histogram?
	"gen_ai_server_request_duration": true, "gen_ai_server_time_to_first_token": true, "gen_ai_server_time_per_output_token": true,
	"sglang_request_stage_duration": true, "sglang_ranks_skew": true, "sglang_request_tokens": false, "sglang_request_retractions": false,
}

// Known are all names that a query may have.
func Known(t *testing.T) map[string]bool {
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
	files, err := filepath.Glob(filepath.Join(record.Root(), "*/*/metadata.yaml"))
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
