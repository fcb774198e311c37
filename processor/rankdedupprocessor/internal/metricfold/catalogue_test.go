// Copyright The otelcol-sglang Authors
// SPDX-License-Identifier: Apache-2.0

package metricfold // import "github.com/otelcol-sglang/otelcol-sglang/processor/rankdedupprocessor/internal/metricfold"

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"go.opentelemetry.io/collector/pdata/pcommon"
	"go.opentelemetry.io/collector/pdata/pmetric"

	"github.com/otelcol-sglang/otelcol-sglang/internal/sglang"
)

// ruleOf is what the table says of one family of this release.
type ruleOf struct{ name, typ, ranks, rule, skew string }

var rulesFile = filepath.Join("testdata", "rules.txt")

// rules reads the table: what is to become of each family's ranks, reviewed by
// hand against the engine's code, written by -update.
func rules(t *testing.T) (all []ruleOf) {
	if *update {
		var b strings.Builder
		for f := range sglang.Families() {
			if f.Until == "" {
				fmt.Fprintln(&b, f.Name, f.Type, ranksName(f), f.TPReduce, skewName(f))
			}
		}
		require.NoError(t, os.WriteFile(rulesFile, []byte(b.String()), 0o600))
	}
	text, err := os.ReadFile(rulesFile)
	require.NoError(t, err)
	for line := range strings.Lines(string(text)) {
		var r ruleOf
		n, err := fmt.Sscan(line, &r.name, &r.typ, &r.ranks, &r.rule, &r.skew)
		require.NoError(t, err)
		require.Equal(t, 5, n)
		all = append(all, r)
	}
	return all
}

func ranksName(f *sglang.Family) string { return []string{"none", "global", "attention"}[f.Ranks] }

func skewName(f *sglang.Family) string {
	if f.Skew {
		return "skew"
	}
	return "-"
}

// seriesShown is one series of a scrape: its labels and value per rank, absent
// where there is none. A histogram's value is its count, its mean told apart.
type seriesShown struct {
	labels map[string]string
	values map[int64]float64
}

// scrapeOf makes a page of one family.
func scrapeOf(r ruleOf, n int, shown ...seriesShown) pmetric.Metrics {
	md := pmetric.NewMetrics()
	m := md.ResourceMetrics().AppendEmpty().ScopeMetrics().AppendEmpty().Metrics().AppendEmpty()
	m.SetName(r.name)
	at := pcommon.NewTimestampFromTime(engineStart.Add(time.Duration(n) * 5 * time.Second))
	for _, s := range shown {
		for rank := range int64(4) {
			if v, ok := s.values[rank]; ok {
				labels := pcommon.NewMap()
				for k, v := range s.labels {
					labels.PutStr(k, v)
				}
				if r.ranks != "none" {
					labels.PutStr(sglang.LabelTPRank, fmt.Sprint(rank))
					labels.PutStr(sglang.LabelMoEEPRank, fmt.Sprint(rank/2))
					labels.PutStr(sglang.LabelPID, fmt.Sprint(100+rank))
				}
				addPoint(m, r.typ, labels, at, v)
			}
		}
	}
	return md
}

// addPoint adds a point; of a histogram v observations of 3 s.
func addPoint(m pmetric.Metric, typ string, labels pcommon.Map, at pcommon.Timestamp, v float64) {
	start := pcommon.NewTimestampFromTime(engineStart)
	switch typ {
	case "gauge":
		if m.Type() == pmetric.MetricTypeEmpty {
			m.SetEmptyGauge()
		}
		dp := m.Gauge().DataPoints().AppendEmpty()
		labels.CopyTo(dp.Attributes())
		dp.SetTimestamp(at)
		dp.SetDoubleValue(v)
	case "counter":
		if m.Type() == pmetric.MetricTypeEmpty {
			m.SetEmptySum().SetIsMonotonic(true)
			m.Sum().SetAggregationTemporality(pmetric.AggregationTemporalityCumulative)
		}
		dp := m.Sum().DataPoints().AppendEmpty()
		labels.CopyTo(dp.Attributes())
		dp.SetTimestamp(at)
		dp.SetStartTimestamp(start)
		dp.SetDoubleValue(v)
	case "histogram":
		if m.Type() == pmetric.MetricTypeEmpty {
			m.SetEmptyHistogram().SetAggregationTemporality(pmetric.AggregationTemporalityCumulative)
		}
		dp := m.Histogram().DataPoints().AppendEmpty()
		labels.CopyTo(dp.Attributes())
		dp.SetTimestamp(at)
		dp.SetStartTimestamp(start)
		dp.ExplicitBounds().FromRaw([]float64{1, 5})
		dp.BucketCounts().FromRaw([]uint64{0, uint64(v), 0})
		dp.SetCount(uint64(v))
		dp.SetSum(3 * v)
	case "summary":
		if m.Type() == pmetric.MetricTypeEmpty {
			m.SetEmptySummary()
		}
		dp := m.Summary().DataPoints().AppendEmpty()
		labels.CopyTo(dp.Attributes())
		dp.SetTimestamp(at)
		dp.SetStartTimestamp(start)
		dp.SetCount(uint64(v))
		dp.SetSum(3 * v)
	}
}

// left gives the family's values by labels; a histogram's and a summary's are
// their counts.
func left(md pmetric.Metrics, r ruleOf) map[string]float64 {
	out := map[string]float64{}
	for _, l := range linesOf(md) {
		if l.family == r.name && (l.name == r.name || l.name == r.name+"_count") {
			l.name = ""
			out[l.key()] = l.value
		}
	}
	return out
}

// expected is what the rule makes of the ranks' values of one series; first is the
// rank that "first" follows.
func (r ruleOf) expected(out map[string]float64, s seriesShown, sum, most, first float64) {
	l := sampleLine{labels: s.labels}
	switch {
	case r.ranks == "none":
		out[l.key()] = s.values[0]
	case r.rule == "keep":
		for rank, v := range s.values {
			ranked := sampleLine{labels: map[string]string{
				sglang.LabelTPRank: fmt.Sprint(rank), sglang.LabelMoEEPRank: fmt.Sprint(rank / 2), sglang.LabelPID: fmt.Sprint(100 + rank),
			}}
			for k, v := range s.labels {
				ranked.labels[k] = v
			}
			out[ranked.key()] = v
		}
	default:
		out[l.key()] = map[string]float64{"first": first, "max": most, "sum": sum}[r.rule]
	}
}

// TestEveryFamily folds three ranks of every family of this release by the table's
// rule: other labels keep series apart, a rank that restarts makes no value fall, a
// rank that vanishes leaves a counter standing and a gauge, zeros that are set up
// for ranks which never report lose.
func TestEveryFamily(t *testing.T) {
	all := rules(t)
	require.Len(t, all, 184)
	for _, r := range all {
		t.Run(r.name, func(t *testing.T) {
			f, ok := sglang.FamilyOf(r.name)
			require.True(t, ok)
			known := ruleOf{f.Name, f.Type.String(), ranksName(f), f.TPReduce.String(), skewName(f)}
			require.Equal(t, r, known)
			t.Run("labels", func(t *testing.T) { checkLabels(t, r) })
			if r.ranks == "none" {
				return
			}
			t.Run("restart and leave", func(t *testing.T) { checkLife(t, r) })
			t.Run("zeros", func(t *testing.T) { checkZeros(t, r) })
			t.Run("skew", func(t *testing.T) { checkSkew(t, r) })
		})
	}
}

func checkLabels(t *testing.T, r ruleOf) {
	values := map[int64]float64{0: 3, 1: 9, 2: 4}
	if r.ranks == "none" {
		values = map[int64]float64{0: 3}
	}
	var in []seriesShown
	want := map[string]float64{}
	for _, labels := range []map[string]string{
		{},
		{sglang.LabelDPRank: "0"},
		{sglang.LabelDPRank: "1"},
		{sglang.LabelPPRank: "1"},
		{sglang.LabelPriority: "1"},
		{"engine_type": "prefill"},
		{"model_name": "x"},
		{"own": "label"},
	} {
		s := seriesShown{labels, values}
		in = append(in, s)
		r.expected(want, s, 16, 9, 3)
	}
	assert.Equal(t, want, left(newRun().fold(scrapeOf(r, 1, in...)), r))
}

func checkLife(t *testing.T, r ruleOf) {
	gauge, counts := r.typ == "gauge", r.typ == "counter" || r.typ == "histogram"
	run := newRun()
	step := func(n int, values map[int64]float64, sum, most, first float64) {
		t.Helper()
		s := seriesShown{map[string]string{}, values}
		want := map[string]float64{}
		r.expected(want, s, sum, most, first)
		assert.Equal(t, want, left(run.fold(scrapeOf(r, n, s)), r), "scrape %d", n)
	}
	step(1, map[int64]float64{0: 3, 1: 9, 2: 4}, 16, 9, 3)
	switch {
	case gauge || !counts:
		step(2, map[int64]float64{0: 1, 1: 12, 2: 8}, 21, 12, 1)
		step(3, map[int64]float64{1: 11, 2: 7}, 18, 11, 11)
	default:
		step(2, map[int64]float64{0: 1, 1: 12, 2: 8}, 16+1+3+4, 12, 4) // rank 0 began anew
		assert.Equal(t, b2i(r.rule != "keep"), run.counts.RankResets)
		step(3, map[int64]float64{0: 2, 1: 12, 2: 8}, 25, 12, 5)
		step(4, map[int64]float64{1: 13, 2: 8}, 26, 13, firstAfter(r)) // rank 0 vanished
	}
	assert.Zero(t, run.counts.Restarts)
}

func b2i(b bool) int64 {
	if b {
		return 1
	}
	return 0
}

// firstAfter is what rank 1 makes of 5 when it goes from 12 to 13: its own value
// where ranks count the same, else the increase.
func firstAfter(r ruleOf) float64 {
	if f, _ := sglang.FamilyOf(r.name); f.AcrossTP == sglang.TPPrivate {
		return 6
	}
	return 13
}

func checkZeros(t *testing.T, r ruleOf) {
	s := seriesShown{map[string]string{}, map[int64]float64{0: 0, 1: 0, 2: 7, 3: 0}}
	want := map[string]float64{}
	r.expected(want, s, 7, 7, 7)
	if r.typ == "summary" {
		return // chosen by rank alone
	}
	assert.Equal(t, want, left(newRun().fold(scrapeOf(r, 1, s)), r))
}

func checkSkew(t *testing.T, r ruleOf) {
	run := newRun(func(s *Settings) { s.Skew = true })
	run.fold(scrapeOf(r, 1, seriesShown{map[string]string{"own": "label"}, map[int64]float64{0: 10, 1: 10, 2: 10}}))
	out := linesOf(run.fold(scrapeOf(r, 2, seriesShown{map[string]string{"own": "label"}, map[int64]float64{0: 11, 1: 17, 2: 12}})))
	skew := map[string]float64{}
	for _, l := range out {
		if strings.HasPrefix(l.name, "sglang.series.") {
			assert.Equal(t, map[string]string{"own": "label", sglang.LabelFamily: r.name}, l.labels)
			skew[l.name] = l.value
		}
	}
	want := map[string]float64{}
	if r.skew == "skew" {
		want = map[string]float64{sglang.MetricSeriesSkew: 6, sglang.MetricSeriesSkewRank: 1}
		if r.typ == "histogram" { // the mean of each is 3 s
			want = map[string]float64{sglang.MetricSeriesSkew: 0, sglang.MetricSeriesSkewRank: 0}
		}
	}
	assert.Equal(t, want, skew)
}
