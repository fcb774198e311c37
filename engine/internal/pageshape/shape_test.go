// Copyright The otelcol-sglang Authors
// SPDX-License-Identifier: Apache-2.0

package pageshape

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

const page = `# TYPE sglang:num_requests_total counter
sglang:num_requests_total{is_streaming="true"} 3.0
# TYPE sglang:num_retracted_reqs gauge
sglang:num_retracted_reqs{pid="12",priority=""} 0.0
# TYPE sglang:queue_time_seconds histogram
sglang:queue_time_seconds_sum{tp_rank="0"} 0.25
sglang:queue_time_seconds_bucket{le="1.0",tp_rank="0"} 1.0
sglang:queue_time_seconds_bucket{le="+Inf",tp_rank="0"} 1.0
sglang:queue_time_seconds_count{tp_rank="0"} 1.0
`

const (
	text        = "text/plain; version=0.0.4"
	openMetrics = "application/openmetrics-text; version=1.0.0"
)

func compare(t *testing.T, got, contentType string) []Difference {
	t.Helper()
	w, err := Parse([]byte(page), text)
	require.NoError(t, err)
	g, err := Parse([]byte(got), contentType)
	require.NoError(t, err)
	return Compare(w, g)
}

func TestCompare(t *testing.T) {
	for _, tt := range []struct {
		name, from, to string
		want           []Difference
	}{
		{"values are free", "3.0", "5.0", nil},
		{"pids are free", `pid="12"`, `pid="13"`, nil},
		{"type", "total counter", "total gauge", []Difference{{OtherType, "sglang:num_requests_total", "counter became gauge"}}},
		{"label", `is_streaming="true"`, `is_streaming="false"`, []Difference{
			{ExtraSeries, "sglang:num_requests_total", `{is_streaming="false"}`},
			{MissingSeries, "sglang:num_requests_total", `{is_streaming="true"}`},
		}},
		{"empty label", `,priority=""`, "", []Difference{
			{ExtraSeries, "sglang:num_retracted_reqs", `{pid="*"}`},
			{MissingSeries, "sglang:num_retracted_reqs", `{pid="*"} priority`},
		}},
		{"family", "num_retracted_reqs", "num_paused_reqs", []Difference{
			{MissingFamily, "sglang:num_retracted_reqs", "gauge"},
			{ExtraFamily, "sglang:num_paused_reqs", "gauge"},
		}},
		{"bounds", `le="1.0"`, `le="2.0"`, []Difference{{OtherBounds, "sglang:queue_time_seconds", "1 +Inf became 2 +Inf"}}},
		{"form of bounds", `le="1.0"`, `le="1"`, []Difference{{OtherForm, formBounds, `want "1.0", got "1"`}}},
		{"form of numbers", " 3.0", " 3", []Difference{{OtherForm, formNumbers, `want "1.0", got "1, 1.0"`}}},
		{"form of counts", "+Inf\",tp_rank=\"0\"} 1.0", "+Inf\",tp_rank=\"0\"} 1", []Difference{{OtherForm, formCounts, `want "1.0", got "1, 1.0"`}}},
		{"order of labels", `{le="1.0",tp_rank="0"}`, `{tp_rank="0",le="1.0"}`, []Difference{{OtherForm, formLabels, `want "by name", got "by name, not by name"`}}},
		{"help", "# TYPE sglang:num_requests_total", "# HELP sglang:num_requests_total x\n# TYPE sglang:num_requests_total", []Difference{{OtherForm, formHelp, `want "", got "yes"`}}},
		{"spelling", "\nsglang:num_ret", "\nsglang_num_ret", []Difference{{OtherForm, formSamples, `want "sglang:", got "sglang:, sglang_"`}}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			assert.ElementsMatch(t, tt.want, compare(t, strings.ReplaceAll(page, tt.from, tt.to), text))
		})
	}
	om := strings.Replace(page, "requests_total counter", "requests counter", 1) + "# EOF\n"
	assert.ElementsMatch(t, []Difference{
		{MissingFamily, "sglang:num_requests_total", "counter"},
		{ExtraFamily, "sglang:num_requests", "counter"},
		{OtherForm, formEnd, `want "", got "# EOF"`},
	}, compare(t, om, openMetrics))
}

func TestParseRefuses(t *testing.T) {
	for _, p := range []string{"sglang:x 1.0\n", "no page"} {
		_, err := Parse([]byte(p), text)
		require.Error(t, err, p)
	}
	_, err := Parse([]byte(page), ";")
	assert.Error(t, err)
}

func TestTable(t *testing.T) {
	table := NewTable(
		Accepted{Page: "tp4", Kind: MissingSeries, What: "cached", Detail: "total", Reason: "met"},
		Accepted{Kind: OtherForm, Reason: "not met"},
	)
	met, kept := Difference{MissingSeries, "sglang:cached_tokens_total", `{cache_source="total"}`}, Difference{ExtraFamily, "x", "gauge"}
	assert.Equal(t, []Difference{kept}, table.Unknown("tp4.t0", []Difference{met, kept}))
	assert.Equal(t, []Difference{met}, table.Unknown("tp1.t0", []Difference{met}))
	require.Len(t, table.Stale(), 1)
	assert.Equal(t, "not met", table.Stale()[0].Reason)
}
