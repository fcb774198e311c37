// Copyright The otelcol-sglang Authors
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"os"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/otelcol-sglang/otelcol-sglang/bench/internal/load"
	"github.com/otelcol-sglang/otelcol-sglang/bench/internal/sink"
)

// TestChecks: each pipeline is held to what it must make of the load, and fails
// where one span, root, value or count is missing.
func TestChecks(t *testing.T) {
	in, warm := load.Load{Requests: 10, Spans: 5000}, load.Load{Requests: 2, Spans: 100}
	for _, tt := range []struct {
		key     string
		out     sink.Counts
		counted float64
	}{
		{"a", sink.Counts{Spans: 90, Roots: 10, Timed: 10, Budgets: 10}, 12},
		{"b", sink.Counts{Spans: 5000, Roots: 10}, 0},
		{"c", sink.Counts{Spans: 5000, Roots: 10, Timed: 10}, 5100},
	} {
		t.Run(tt.key, func(t *testing.T) {
			check := byKey(t, tt.key).check
			right := outcome{in: in, warm: warm, out: tt.out, counted: tt.counted}
			right.out.Bytes, right.out.Calls = 123, 4
			require.NoError(t, check(right))
			for _, change := range []func(*outcome){
				func(o *outcome) { o.out.Spans -= o.in.Spans / 10; o.counted -= float64(o.in.Spans) / 10 },
				func(o *outcome) { o.out.Spans++ },
				func(o *outcome) { o.out.Roots-- },
				func(o *outcome) { o.out.Timed-- },
				func(o *outcome) { o.out.Budgets-- },
				func(o *outcome) { o.counted-- },
			} {
				wrong := right
				change(&wrong)
				assert.Error(t, check(wrong), "%+v", wrong)
			}
		})
	}
}

func byKey(t *testing.T, key string) contestant {
	t.Helper()
	for _, c := range contestants("", "") {
		if c.key == key {
			return c
		}
	}
	t.Fatal(key)
	return contestant{}
}

// TestSameExporter: all send with one exporter's settings.
func TestSameExporter(t *testing.T) {
	settings := map[string]bool{}
	for _, c := range contestants("", "") {
		raw, err := os.ReadFile(c.config)
		require.NoError(t, err)
		settings[section(t, string(raw), "  otlp_grpc:\n")] = true
	}
	assert.Len(t, settings, 1)
}

// section is a key's indented block.
func section(t *testing.T, yaml, key string) string {
	t.Helper()
	_, rest, ok := strings.Cut(yaml, "\n"+key)
	require.True(t, ok)
	var block strings.Builder
	for line := range strings.Lines(rest) {
		if !strings.HasPrefix(line, "    ") {
			break
		}
		block.WriteString(line)
	}
	require.NotEmpty(t, block.String())
	return block.String()
}
