// Copyright The otelcol-sglang Authors
// SPDX-License-Identifier: Apache-2.0

package dashboards_test

import (
	"regexp"
	"testing"

	"github.com/stretchr/testify/assert"

	"github.com/otelcol-sglang/otelcol-sglang/boards/dashboards"
	"github.com/otelcol-sglang/otelcol-sglang/boards/internal/names"
)

var (
	selectors = regexp.MustCompile(`\{[^}]*\}|\b(by|on|group_left|without) \([^)]*\)`)
	metrics   = regexp.MustCompile(`\b(sglang[:_]|gen_ai_|otelcol_|target_info)\w*`)
)

// metricsOf are the metrics that an expression names.
func metricsOf(expr string) []string {
	return metrics.FindAllString(selectors.ReplaceAllString(expr, ""), -1)
}

func TestNamesExist(t *testing.T) {
	exist := names.Known(t)
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
