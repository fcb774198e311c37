// Copyright The otelcol-sglang Authors
// SPDX-License-Identifier: Apache-2.0

package genaimetricsconnector

import (
	"bytes"
	"encoding/json"
	"flag"
	"os"
	"path/filepath"
	"testing"

	"github.com/open-telemetry/opentelemetry-collector-contrib/pkg/pdatatest/pmetrictest"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"go.opentelemetry.io/collector/pdata/pmetric"
	"go.opentelemetry.io/collector/pdata/ptrace"

	"github.com/otelcol-sglang/otelcol-sglang/internal/sglang"
)

var update = flag.Bool("update", false, "write the golden files")

// TestGolden: testdata/<story>/spans.jsonl is what leaves genai for a recorded
// capture; metrics.json is what this connector makes of it.
func TestGolden(t *testing.T) {
	paths, err := filepath.Glob(filepath.Join("testdata", "*", "spans.jsonl"))
	require.NoError(t, err)
	require.NotEmpty(t, paths)
	for _, path := range paths {
		dir := filepath.Dir(path)
		run(t, filepath.Base(dir), func(t *testing.T) {
			r := newRig(t, nil, nil)
			r.send(readSpans(t, path)...)
			r.close()
			got := pmetric.NewMetrics()
			for _, md := range r.sink.AllMetrics() {
				md.ResourceMetrics().MoveAndAppendTo(got.ResourceMetrics())
			}
			checkTotals(t, got)
			golden := filepath.Join(dir, "metrics.json")
			if *update {
				writeMetrics(t, golden, got)
			}
			require.NoError(t, pmetrictest.CompareMetrics(readMetrics(t, golden), got,
				pmetrictest.IgnoreMetricsOrder(), pmetrictest.IgnoreMetricDataPointsOrder()))
		})
	}
}

// checkTotals: the stages of the requests add up to their durations, to 1 µs each.
func checkTotals(t *testing.T, md pmetric.Metrics) {
	count, duration := totals(md, sglang.MetricRequestDuration)
	_, stages := totals(md, sglang.MetricStageDuration)
	assert.InDelta(t, duration, stages, 1e-6*float64(count))
}

func readSpans(t testing.TB, path string) []ptrace.Traces {
	data, err := os.ReadFile(path)
	require.NoError(t, err)
	var out []ptrace.Traces
	for line := range bytes.Lines(data) {
		td, err := (&ptrace.JSONUnmarshaler{}).UnmarshalTraces(line)
		require.NoError(t, err)
		out = append(out, td)
	}
	return out
}

func readMetrics(t testing.TB, path string) pmetric.Metrics {
	data, err := os.ReadFile(path)
	require.NoError(t, err)
	md, err := (&pmetric.JSONUnmarshaler{}).UnmarshalMetrics(data)
	require.NoError(t, err)
	return md
}

func writeMetrics(t testing.TB, path string, md pmetric.Metrics) {
	data, err := (&pmetric.JSONMarshaler{}).MarshalMetrics(md)
	require.NoError(t, err)
	var pretty bytes.Buffer
	require.NoError(t, json.Indent(&pretty, data, "", " "))
	pretty.WriteByte('\n')
	require.NoError(t, os.WriteFile(path, pretty.Bytes(), 0o644))
}
