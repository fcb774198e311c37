// Copyright The otelcol-sglang Authors
// SPDX-License-Identifier: Apache-2.0

package explain

import (
	"context"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	dto "github.com/prometheus/client_model/go"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"go.opentelemetry.io/collector/component/componenttest"
	"go.opentelemetry.io/collector/consumer/consumertest"
	"go.opentelemetry.io/collector/pdata/pcommon"
	"go.opentelemetry.io/collector/pdata/pmetric"
	"go.opentelemetry.io/collector/processor/processortest"

	own "github.com/otelcol-sglang/otelcol-sglang/cmd/sglangctl/internal/status"
	"github.com/otelcol-sglang/otelcol-sglang/internal/sglang"
	"github.com/otelcol-sglang/otelcol-sglang/processor/rankdedupprocessor"
)

func families(t *testing.T, text string) Families {
	t.Helper()
	p, err := own.Parse(strings.NewReader(text))
	require.NoError(t, err)
	return p.Families()
}

func TestSelector(t *testing.T) {
	s, err := ParseSelector(`sglang_num_running_reqs{dp_rank="0"}`)
	require.NoError(t, err)
	assert.Equal(t, Selector{name: "sglang:num_running_reqs", labels: map[string]string{"dp_rank": "0"}}, s)
	s, err = ParseSelector("sglang:queue_time_seconds_count")
	require.NoError(t, err)
	assert.Equal(t, Selector{name: "sglang:queue_time_seconds", suffix: "_count", labels: map[string]string{}}, s)
	_, err = ParseSelector(`sglang:queue_time_seconds_bucket{le="1"}`)
	require.ErrorContains(t, err, "must not be a bucket")
	for _, bad := range []string{"", "a b", "{", "a{b}", "a\nb"} {
		_, err := ParseSelector(bad)
		require.ErrorContains(t, err, "series must be a name", bad)
	}
}

func TestSeries(t *testing.T) {
	const engine = `# TYPE sglang:num_running_reqs gauge
sglang:num_running_reqs{tp_rank="0"} 5
sglang:num_running_reqs{tp_rank="1"} 5
# TYPE sglang:load_back_bytes_total counter
sglang:load_back_bytes_total{tp_rank="0"} 10
sglang:load_back_bytes_total{tp_rank="1"} 30
# TYPE sglang:fwd_occupancy gauge
sglang:fwd_occupancy{tp_rank="0"} NaN
# TYPE sglang:num_queue_reqs gauge
sglang:num_queue_reqs{tp_rank="0"} 0
sglang:num_queue_reqs{tp_rank="1"} 3
# TYPE sglang:unheard_of gauge
sglang:unheard_of{tp_rank="0"} 1
`
	collector := func(lines string) string { return strings.ReplaceAll(lines, "{", `{instance="host:1",job="sglang",`) }
	for _, tc := range []struct {
		name, series, after, shown string
		result, want               string
		agrees                     bool
		note                       string
	}{
		{"copies", "sglang:num_running_reqs", engine, collector("sglang:num_running_reqs{} 5\n"), "5", "5", true, ""},
		{"wrong", "sglang:num_running_reqs", engine, collector("sglang:num_running_reqs{} 10\n"), "5", "10", false, "does not give"},
		{"absent", "sglang:num_running_reqs", engine, "other 1\n", "5", "", false, "no such series"},
		{"idle at the moment", "sglang:num_queue_reqs", engine, collector("sglang:num_queue_reqs{} 0\n"), "3", "0", true, "reported before"},
		{
			"another engine", "sglang:num_running_reqs", engine,
			strings.ReplaceAll(collector("sglang:num_running_reqs{} 5\n"), "host:1", "host:2"), "5", "", false, "no such series",
		},
		{
			"shares", "sglang:load_back_bytes_total", engine,
			"# TYPE sglang:load_back_bytes_total counter\n" + collector("sglang:load_back_bytes_total{} 40\n"), "40", "40", true, "",
		},
		{
			"it grows", "sglang:load_back_bytes_total", strings.ReplaceAll(engine, " 30\n", " 50\n"),
			"# TYPE sglang:load_back_bytes_total counter\n" + collector("sglang:load_back_bytes_total{} 45\n"), "40", "45", true, "",
		},
		{
			"a rank began anew", "sglang:load_back_bytes_total", engine,
			"# TYPE sglang:load_back_bytes_total counter\n" + collector("sglang:load_back_bytes_total{} 90\n"), "40", "90", false, "began anew",
		},
		{"not measured", "sglang:fwd_occupancy", engine, "other 1\n", "NaN", "", true, "not measured"},
		{"unknown family", "sglang:unheard_of", engine, collector(`sglang:unheard_of{tp_rank="0"} 1` + "\n"), "1", "1", true, ""},
	} {
		t.Run(tc.name, func(t *testing.T) {
			s, err := ParseSelector(tc.series)
			require.NoError(t, err)
			all, err := Series(s, families(t, engine), families(t, tc.after), families(t, tc.shown), "host:1")
			require.NoError(t, err)
			require.Len(t, all, 1)
			f := all[0]
			assert.Equal(t, tc.result, f.Result)
			assert.Equal(t, tc.want, f.Shown)
			require.NotNil(t, f.Agrees)
			assert.Equal(t, tc.agrees, *f.Agrees)
			assert.Contains(t, f.Note, tc.note)
			assert.NotEmpty(t, f.Rule)
			var b strings.Builder
			PrintSeries(&b, all)
			assert.Contains(t, b.String(), "result  "+tc.result)
		})
	}
	s, err := ParseSelector("sglang:num_paused_reqs")
	require.NoError(t, err)
	_, err = Series(s, families(t, engine), nil, nil, "")
	require.ErrorContains(t, err, "no family sglang:num_paused_reqs")
	s, err = ParseSelector(`sglang:num_running_reqs{dp_rank="9"}`)
	require.NoError(t, err)
	_, err = Series(s, families(t, engine), nil, nil, "")
	require.ErrorContains(t, err, "has these labels")
}

// TestSeriesEqualRankdedup: the rules give what rankdedup makes of each recorded
// page, series by series.
func TestSeriesEqualRankdedup(t *testing.T) {
	paths, err := filepath.Glob(root + "/testdata/captures/metrics/*.prom")
	require.NoError(t, err)
	require.NotEmpty(t, paths)
	for _, path := range paths {
		t.Run(filepath.Base(path), func(t *testing.T) {
			text, err := os.ReadFile(path)
			require.NoError(t, err)
			page := families(t, string(text))
			shown := rankdedup(t, page)
			compared := 0
			for name, f := range page {
				if !strings.HasPrefix(name, sglang.MetricPrefix) || f.GetType() == dto.MetricType_HISTOGRAM {
					continue
				}
				all, err := Series(Selector{name: name}, page, page, shown, "")
				require.NoError(t, err)
				for _, folded := range all {
					require.NotNil(t, folded.Agrees, folded.Series)
					assert.True(t, *folded.Agrees, "%s: %s, rankdedup %s", folded.Series, folded.Result, folded.Shown)
					compared++
				}
			}
			assert.Greater(t, compared, 50)
		})
	}
}

// rankdedup gives what the processor makes of a page, as a page.
func rankdedup(t *testing.T, page Families) Families {
	t.Helper()
	md := pmetric.NewMetrics()
	metrics := md.ResourceMetrics().AppendEmpty().ScopeMetrics().AppendEmpty().Metrics()
	for _, name := range slices.Sorted(maps.Keys(page)) {
		appendMetric(metrics, page[name])
	}
	sink := &consumertest.MetricsSink{}
	f := rankdedupprocessor.NewFactory()
	p, err := f.CreateMetrics(context.Background(), processortest.NewNopSettings(f.Type()), f.CreateDefaultConfig(), sink)
	require.NoError(t, err)
	require.NoError(t, p.Start(context.Background(), componenttest.NewNopHost()))
	require.NoError(t, p.ConsumeMetrics(context.Background(), md))
	require.NoError(t, p.Shutdown(context.Background()))
	out := Families{}
	for _, m := range sink.AllMetrics()[0].ResourceMetrics().At(0).ScopeMetrics().At(0).Metrics().All() {
		out[m.Name()] = familyFrom(m)
	}
	return out
}

func appendMetric(to pmetric.MetricSlice, f *dto.MetricFamily) {
	var points pmetric.NumberDataPointSlice
	switch f.GetType() {
	case dto.MetricType_GAUGE:
		points = to.AppendEmpty().SetEmptyGauge().DataPoints()
	case dto.MetricType_COUNTER:
		sum := to.AppendEmpty().SetEmptySum()
		sum.SetIsMonotonic(true)
		sum.SetAggregationTemporality(pmetric.AggregationTemporalityCumulative)
		points = sum.DataPoints()
	default:
		return
	}
	to.At(to.Len() - 1).SetName(f.GetName())
	for _, m := range f.GetMetric() {
		point := points.AppendEmpty()
		point.SetTimestamp(1)
		point.SetDoubleValue(value(m, ""))
		for _, l := range m.GetLabel() {
			point.Attributes().PutStr(l.GetName(), l.GetValue())
		}
	}
}

func familyFrom(m pmetric.Metric) *dto.MetricFamily {
	f := &dto.MetricFamily{}
	points := pmetric.NewNumberDataPointSlice()
	if m.Type() == pmetric.MetricTypeGauge {
		points = m.Gauge().DataPoints()
	} else if m.Type() == pmetric.MetricTypeSum {
		points = m.Sum().DataPoints()
	}
	for _, point := range points.All() {
		v := point.DoubleValue()
		out := &dto.Metric{Untyped: &dto.Untyped{Value: &v}}
		for name, label := range point.Attributes().All() {
			out.Label = append(out.Label, pair(name, label))
		}
		f.Metric = append(f.Metric, out)
	}
	return f
}

func pair(name string, label pcommon.Value) *dto.LabelPair {
	v := label.AsString()
	return &dto.LabelPair{Name: &name, Value: &v}
}
