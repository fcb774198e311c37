// Copyright The otelcol-sglang Authors
// SPDX-License-Identifier: Apache-2.0

package record

import (
	"math"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"go.opentelemetry.io/collector/pdata/pmetric"
)

func made() *Recording {
	r := newRecording(time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC), Step)
	quoted := []Label{{"a", "x\\\"\n' y"}, {"le", "1.0"}}
	for step := range 8 {
		r.add(sample{"steady", nil, 3})
		if step > 0 && step < 4 {
			r.add(sample{"sglang:gone", quoted, float64(step) / 2})
		}
		r.next()
	}
	return r
}

func TestInputSeries(t *testing.T) {
	var b strings.Builder
	made().InputSeries(&b)
	assert.Equal(t, `      - series: 'sglang:gone{a="x\\\"\n'' y",le="1.0"}'
        values: '_x1 0.5 1 1.5 stale _x3'
      - series: 'steady{}'
        values: '3x7'
`, b.String())
}

// What is written is what is read.
func TestRead(t *testing.T) {
	r := made()
	var b strings.Builder
	require.NoError(t, r.WriteOpenMetrics(&b, r.Start))
	assert.True(t, strings.HasSuffix(b.String(), "# EOF\n"))
	got, err := Read(strings.NewReader(b.String()))
	require.NoError(t, err)
	assert.Equal(t, r.Start, got.Start)
	assert.Equal(t, r.Steps, got.Steps)
	want := r.Series()
	for i, s := range got.Series() {
		assert.Equal(t, want[i].Name, s.Name)
		assert.Equal(t, want[i].Labels, s.Labels)
		assert.Equal(t, want[i].notation(r.Steps), s.notation(r.Steps))
	}
	_, err = Read(strings.NewReader("a 1\n"))
	assert.ErrorIs(t, err, errLine)
}

func TestNumber(t *testing.T) {
	for v, want := range map[float64]string{1: "1.0", 0.25: "0.25", 1e-5: "1e-05", 1e21: "1e+21", math.Inf(1): "+Inf", 0: "0.0"} {
		assert.Equal(t, want, number(v))
	}
}

// A minute of an engine has what each part makes.
func TestPlay(t *testing.T) {
	r := Play(t, &Scenario{Load: "chat:rate=2", Length: time.Minute})
	last := map[string]float64{}
	for _, s := range r.Series() {
		if v := s.at(r.Steps - 1); !IsAbsent(v) {
			last[s.Name] += v
		}
	}
	assert.Equal(t, 5, r.Steps)
	for _, name := range []string{
		"sglang:num_requests_total", "gen_ai_server_request_duration_count", "sglang_request_stage_duration_sum", "sglang_ranks_skew_count",
		"otelcol_processor_genai_roots", "otelcol_processor_genai_engines", "otelcol_receiver_sglang_engine_up",
		"otelcol_processor_rankdedup_spans_folded", "target_info", "up",
	} {
		assert.Positive(t, last[name], name)
	}
	// The page may be a scrape older, a quarter of the minute; roots leave within a second.
	finished, counted := last["sglang:num_requests_total"], last["gen_ai_server_request_duration_count"]
	assert.Less(t, 0.5*counted, finished)
	assert.Less(t, 0.8*finished, counted)
}

// Points as the Prometheus exporter shows them: an end without a value takes a series off.
func TestPage(t *testing.T) {
	md := pmetric.NewMetrics()
	rm := md.ResourceMetrics().AppendEmpty()
	rm.Resource().Attributes().PutStr("service.instance.id", "engine-0")
	ms := rm.ScopeMetrics().AppendEmpty().Metrics()
	m := ms.AppendEmpty()
	m.SetName("sglang:eplb_balancedness")
	d := m.SetEmptySummary().DataPoints().AppendEmpty()
	d.SetSum(3)
	d.SetCount(4)
	q := d.QuantileValues().AppendEmpty()
	q.SetQuantile(0.5)
	q.SetValue(0.7)
	m = ms.AppendEmpty()
	m.SetName("gen_ai.wait")
	h := m.SetEmptyHistogram().DataPoints().AppendEmpty()
	h.ExplicitBounds().FromRaw([]float64{1})
	h.BucketCounts().FromRaw([]uint64{2, 1})
	h.SetCount(3)
	h.SetSum(9)
	gauge := ms.AppendEmpty()
	gauge.SetName("sglang:running")
	n := gauge.SetEmptyGauge().DataPoints().AppendEmpty()
	n.SetIntValue(7)

	p := newPage(time.Minute)
	shown := func() map[string]float64 {
		require.NoError(t, p.ConsumeMetrics(t.Context(), md))
		out := map[string]float64{}
		p.scrape(func(s sample) { out[s.name+"{"+text(s.labels)+"}"] = s.value })
		return out
	}
	const engine = `instance="engine-0"`
	want := map[string]float64{
		"target_info{" + engine + "}":                             1,
		"sglang:eplb_balancedness{" + engine + `,quantile="0.5"}`: 0.7,
		"sglang:eplb_balancedness_sum{" + engine + "}":            3,
		"sglang:eplb_balancedness_count{" + engine + "}":          4,
		"gen_ai_wait_bucket{" + engine + `,le="1.0"}`:             2,
		"gen_ai_wait_bucket{" + engine + `,le="+Inf"}`:            3,
		"gen_ai_wait_sum{" + engine + "}":                         9,
		"gen_ai_wait_count{" + engine + "}":                       3,
		"sglang:running{" + engine + "}":                          7,
	}
	assert.Equal(t, want, shown())
	n.SetFlags(pmetric.DefaultDataPointFlags.WithNoRecordedValue(true))
	delete(want, "sglang:running{"+engine+"}")
	assert.Equal(t, want, shown())
}
