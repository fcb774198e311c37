// Copyright The otelcol-sglang Authors
// SPDX-License-Identifier: Apache-2.0

package metricfold // import "github.com/otelcol-sglang/otelcol-sglang/processor/rankdedupprocessor/internal/metricfold"

import (
	"flag"
	"maps"
	"math"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/open-telemetry/opentelemetry-collector-contrib/pkg/pdatatest/pmetrictest"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"go.opentelemetry.io/collector/pdata/pcommon"
	"go.opentelemetry.io/collector/pdata/pmetric"

	"github.com/otelcol-sglang/otelcol-sglang/internal/sglang"
	"github.com/otelcol-sglang/otelcol-sglang/processor/rankdedupprocessor/internal/series"
)

var update = flag.Bool("update", false, "write the golden files")

// rankLabels are what series are folded over.
var rankLabels = []string{sglang.LabelTPRank, sglang.LabelMoEEPRank, sglang.LabelPID}

// run is a folder with the store behind it.
type run struct {
	*Folder
	counts Counts
	now    time.Time
}

func newRun(change ...func(*Settings)) *run {
	var s Settings
	for _, f := range change {
		f(&s)
	}
	store := series.NewStore(series.Limits{MaxSeries: 10_000, Idle: time.Hour})
	return &run{Folder: New(s, store, "test"), now: time.Unix(1000, 0)}
}

func (r *run) fold(md pmetric.Metrics) pmetric.Metrics {
	r.counts = r.Fold(md, r.now)
	return md
}

func copyOf(md pmetric.Metrics) pmetric.Metrics {
	c := pmetric.NewMetrics()
	md.CopyTo(c)
	return c
}

func keysOf(lines []sampleLine, without ...string) []string {
	set := map[string]bool{}
	for i := range lines {
		set[lines[i].key(without...)] = true
	}
	return slices.Sorted(maps.Keys(set))
}

// TestTP4Pages: what counts as a series in the figures 1683, 1473 and 654 is a
// sample line of the page (so a histogram counts once per bucket, plus its sum and
// count), with the line of fwd_occupancy that is NaN; without rank labels means
// without tp_rank, moe_ep_rank and the accidental pid.
func TestTP4Pages(t *testing.T) {
	var sets [][]string
	for name, in := range map[string]int{
		"metrics-tp4-all-schedulers.t2": 1683,
		"metrics-tp4-rank0-only.t2":     1473,
	} {
		md := capturedPage(t, name, 1)
		before := linesOf(md)
		require.Len(t, before, in, name)
		after := linesOf(newRun().fold(md))
		require.Len(t, keysOf(after), len(after), "%s: a series left twice", name)
		set := keysOf(after, rankLabels...)
		require.Len(t, set, 654, name)
		require.Equal(t, keysOf(before, rankLabels...), set, name)
		sets = append(sets, set)
	}
	assert.Equal(t, sets[0], sets[1])
}

// TestEveryPage checks what leaves against the rule of each family, on all
// captures: t0, t1, t2 as three scrapes of one engine.
func TestEveryPage(t *testing.T) {
	files, err := filepath.Glob(filepath.Join(pagesDir, "*.t0.prom"))
	require.NoError(t, err)
	require.NotEmpty(t, files)
	for _, file := range files {
		capture := strings.TrimSuffix(filepath.Base(file), ".t0.prom")
		t.Run(capture, func(t *testing.T) {
			r := newRun()
			for n := range 3 {
				md := capturedPage(t, capture+".t"+strconv.Itoa(n), n+1)
				before := linesOf(md)
				after := r.fold(md)
				checkFolded(t, before, linesOf(after))
				checkStarts(t, after)
			}
			assert.Positive(t, r.store.Tracked())
		})
	}
}

// ranksOf are the lines of one family that differ in rank labels only.
func ranksOf(lines []sampleLine) map[string][]sampleLine {
	groups := map[string][]sampleLine{}
	for _, l := range lines {
		k := l.key(rankLabels...)
		groups[k] = append(groups[k], l)
	}
	for _, g := range groups {
		slices.SortFunc(g, func(x, y sampleLine) int { return tpOf(x) - tpOf(y) })
	}
	return groups
}

func tpOf(l sampleLine) int {
	n, err := strconv.Atoi(l.labels[sglang.LabelTPRank])
	if err != nil {
		return -1
	}
	return n
}

func checkFolded(t *testing.T, before, after []sampleLine) {
	in, out := ranksOf(before), ranksOf(after)
	require.Len(t, out, len(in))
	reporting := reportingRanks(before)
	for key, ranks := range in {
		f, ok := sglang.FamilyOf(ranks[0].family)
		require.True(t, ok, key)
		got := out[key]
		if f.TPReduce == sglang.ReduceKeep || f.Ranks == sglang.RanksNone {
			assert.ElementsMatch(t, keysOf(ranks), keysOf(got), "%s stays per rank", key)
			continue
		}
		require.Len(t, got, 1, key)
		for _, l := range rankLabels {
			assert.NotContains(t, got[0].labels, l, key)
		}
		assertValue(t, f.TPReduce, ranks, got[0], reporting[groupKey(ranks[0])])
	}
}

// groupKey is the series that a line is of: a histogram's lines have one rank.
func groupKey(l sampleLine) string {
	l.name = l.family
	return l.key(append([]string{"le"}, rankLabels...)...)
}

// reportingRanks is the lowest rank of each series that has a value which is
// neither zero nor a sentinel, else the lowest.
func reportingRanks(lines []sampleLine) map[string]int {
	lowest, reporting := map[string]int{}, map[string]int{}
	for _, l := range lines {
		k, tp := groupKey(l), tpOf(l)
		put(lowest, k, tp)
		if l.value != 0 && !math.IsNaN(l.value) {
			put(reporting, k, tp)
		}
	}
	maps.Copy(lowest, reporting)
	return lowest
}

func put(m map[string]int, k string, v int) {
	if old, ok := m[k]; !ok || v < old {
		m[k] = v
	}
}

func assertValue(t *testing.T, reduce sglang.TPReduce, ranks []sampleLine, got sampleLine, reporting int) {
	want := math.NaN()
	switch reduce {
	case sglang.ReduceFirst:
		for _, l := range ranks {
			if tpOf(l) == reporting {
				want = l.value
			}
		}
	case sglang.ReduceMax:
		want = math.Inf(-1)
		for _, l := range ranks {
			want = max(want, l.value)
		}
	case sglang.ReduceSum:
		want = 0
		for _, l := range ranks {
			want += l.value
		}
	}
	if math.IsNaN(want) {
		assert.True(t, math.IsNaN(got.value), got.key())
		return
	}
	assert.Equal(t, want, got.value, "%s as %s", got.key(), reduce)
}

// checkStarts: what is cumulative began with the engine.
func checkStarts(t *testing.T, md pmetric.Metrics) {
	start := pcommon.NewTimestampFromTime(engineStart)
	for _, m := range md.ResourceMetrics().At(0).ScopeMetrics().At(0).Metrics().All() {
		switch m.Type() {
		case pmetric.MetricTypeSum:
			for _, dp := range m.Sum().DataPoints().All() {
				assert.Equal(t, start, dp.StartTimestamp(), m.Name())
			}
		case pmetric.MetricTypeHistogram:
			for _, dp := range m.Histogram().DataPoints().All() {
				assert.Equal(t, start, dp.StartTimestamp(), m.Name())
			}
		}
	}
}

// TestPriorityTotal: the total under priority="" is never added to its parts.
func TestPriorityTotal(t *testing.T) {
	md := capturedPage(t, "metrics-priority.t2", 1)
	before, after := linesOf(copyOf(md)), linesOf(newRun().fold(md))
	count := 0
	for _, l := range after {
		if l.family != "sglang:num_running_reqs" {
			continue
		}
		count++
		for _, b := range before {
			if b.family == l.family && b.labels["priority"] == l.labels["priority"] && tpOf(b) == 0 {
				assert.Equal(t, b.value, l.value)
			}
		}
	}
	assert.Greater(t, count, 2)
}

// TestDPStaysApart: the groups' leaders are ranks 0 and 2, and radix families say
// 0 and 1 for the same processes.
func TestDPStaysApart(t *testing.T) {
	for _, capture := range []string{"metrics-dp2.t2", "metrics-dp2-all-schedulers.t2"} {
		after := linesOf(newRun().fold(capturedPage(t, capture, 1)))
		dp := map[string][]string{}
		for _, l := range after {
			if v, ok := l.labels[sglang.LabelDPRank]; ok {
				dp[l.name] = append(dp[l.name], v)
			}
		}
		assert.ElementsMatch(t, []string{"0", "1"}, dp["sglang:num_running_reqs"], capture)
		for name := range dp {
			if strings.HasPrefix(name, "sglang:max_total_num_tokens") {
				assert.ElementsMatch(t, []string{"0", "1"}, dp[name], capture)
			}
		}
	}
}

// TestEngineRestartStory: unified-tp1 after a restart, whose receiver knows no
// start times: everything begins anew at the last scrape before.
func TestEngineRestartStory(t *testing.T) {
	r := newRun()
	for n := range 3 {
		r.fold(capturedPage(t, "metrics-unified-tp1.t"+strconv.Itoa(n), n+1))
	}
	for n, page := range []string{"t0", "t1"} {
		md := capturedPage(t, "metrics-unified-tp1.after-restart-"+page, n+4)
		before := linesOf(md)
		after := r.fold(md)
		checkFolded(t, before, linesOf(after))
		restart := pcommon.NewTimestampFromTime(engineStart.Add(15e9))
		folded := 0
		for _, m := range after.ResourceMetrics().At(0).ScopeMetrics().At(0).Metrics().All() {
			f, _ := sglang.FamilyOf(m.Name())
			if m.Type() != pmetric.MetricTypeSum || f.Ranks == sglang.RanksNone || f.TPReduce == sglang.ReduceKeep {
				continue
			}
			for _, dp := range m.Sum().DataPoints().All() {
				folded++
				assert.Equal(t, restart, dp.StartTimestamp(), m.Name())
			}
		}
		assert.Positive(t, folded)
	}
}

// TestGoldenPages compares whole pages: reviewed by hand, written by -update.
func TestGoldenPages(t *testing.T) {
	for _, name := range []string{
		"metrics-tp4-all-schedulers.t2", "metrics-tp4-rank0-only.t2", "metrics-dp2-all-schedulers.t2",
		"metrics-pd-prefill.t2", "metrics-spec.t2",
	} {
		t.Run(name, func(t *testing.T) {
			got := newRun().fold(capturedPage(t, name, 1))
			file := filepath.Join("testdata", name+".json")
			if *update {
				writeMetrics(t, file, got)
			}
			want := readMetrics(t, file)
			require.NoError(t, pmetrictest.CompareMetrics(want, noNaN(got),
				pmetrictest.IgnoreMetricsOrder(), pmetrictest.IgnoreMetricDataPointsOrder()))
		})
	}
}

// noNaN takes out what JSON has no word for.
func noNaN(md pmetric.Metrics) pmetric.Metrics {
	md.ResourceMetrics().At(0).ScopeMetrics().At(0).Metrics().RemoveIf(func(m pmetric.Metric) bool {
		return m.Name() == "sglang:fwd_occupancy"
	})
	return md
}

func writeMetrics(t *testing.T, file string, md pmetric.Metrics) {
	out, err := (&pmetric.JSONMarshaler{}).MarshalMetrics(noNaN(copyOf(md)))
	require.NoError(t, err)
	require.NoError(t, os.MkdirAll(filepath.Dir(file), 0o755))
	require.NoError(t, os.WriteFile(file, append(out, '\n'), 0o644))
}

func readMetrics(t *testing.T, file string) pmetric.Metrics {
	in, err := os.ReadFile(file)
	require.NoError(t, err)
	md, err := (&pmetric.JSONUnmarshaler{}).UnmarshalMetrics(in)
	require.NoError(t, err)
	return md
}
