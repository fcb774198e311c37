// Copyright The otelcol-sglang Authors
// SPDX-License-Identifier: Apache-2.0

package ask

import (
	"testing"
	"time"

	"github.com/prometheus/common/model"
	"github.com/stretchr/testify/assert"
)

func TestExpand(t *testing.T) {
	end := time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)
	view := func(span time.Duration) *View {
		return &View{Start: end.Add(-span), End: end, Scrape: 15 * time.Second, Points: 100, Vars: map[string]string{"job": "(a|b)"}}
	}
	for _, c := range []struct {
		name string
		span time.Duration
		expr string
		want string
	}{
		{"four scrapes at least", 10 * time.Minute, "rate(x[$__rate_interval])", "rate(x[60s])"},
		{"one step and a scrape", 10 * time.Hour, "rate(x[$__rate_interval])", "rate(x[375s])"},
		{"the range", time.Hour, "x[$__range]", "x[3600s]"},
		{"chosen and all", time.Hour, `x{job=~"$job",model=~"$model"}`, `x{job=~"(a|b)",model=~".*"}`},
	} {
		t.Run(c.name, func(t *testing.T) { assert.Equal(t, c.want, view(c.span).Expand(c.expr)) })
	}
}

func TestLegend(t *testing.T) {
	labels := model.Metric{"instance": "engine-0", "dp_rank": "1"}
	assert.Equal(t, "engine-0 DP 1", legend("{{instance}} DP {{ dp_rank }}", labels))
	assert.Equal(t, "engine-0 DP", legend("{{instance}} DP {{none}}", labels))
}
