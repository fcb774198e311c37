// Copyright The otelcol-sglang Authors
// SPDX-License-Identifier: Apache-2.0

package dashboards_test

import (
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"testing"
	"time"

	"github.com/prometheus/client_golang/api"
	v1 "github.com/prometheus/client_golang/api/prometheus/v1"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/otelcol-sglang/otelcol-sglang/boards/dashboards"
	"github.com/otelcol-sglang/otelcol-sglang/boards/dashboards/ask"
	"github.com/otelcol-sglang/otelcol-sglang/boards/dashboards/picture"
	"github.com/otelcol-sglang/otelcol-sglang/boards/internal/prometheus"
	"github.com/otelcol-sglang/otelcol-sglang/boards/record"
	"github.com/otelcol-sglang/otelcol-sglang/engine/args"
)

// played are engines that together have all that boards show. Each has a day of its own, so
// that none is what is usual for another.
func played() []*record.Scenario {
	const faultAt, length = 6 * time.Minute, 12 * time.Minute
	const atOnce = time.Minute // what is judged over ten minutes
	return []*record.Scenario{
		{
			Name: "healthy", Load: "mixed:rate=0.7", Length: length,
			Settings: func(a *args.Args) { wide(a) },
		},
		{
			Name: "slow rank, evicted cache", Load: "chat:rate=0.7,prefix=400", Length: length, FaultAt: faultAt,
			Faults: []string{"slow-rank:rank=3,delay=8ms", "cache-drift:share=0.9"},
			Settings: func(a *args.Args) {
				wide(a)
				a.MaxTotalTokens = 60_000
			},
		},
		{
			Name: "KV pressure", Load: "chat:rate=3,turns=1,input=20,prefix=10,output=300", Length: 2 * length, FaultAt: 17 * time.Minute,
			Faults: []string{"kv-pressure:share=0.97"},
			Settings: func(a *args.Args) {
				a.ModelProfile, a.MaxTotalTokens, a.ScheduleConservativeness = "llama-70b-h100", 200_000, 0.05
			},
		},
		{
			Name: "worse drafts", Load: "chat:rate=0.7", Length: length, FaultAt: faultAt,
			Faults: []string{"worse-drafts:quality=0.3"},
			Settings: func(a *args.Args) {
				a.ModelProfile, a.SpeculativeAlgorithm, a.DeviceTimer = "llama-70b-h100", "EAGLE", true
			},
		},
		{
			Name: "slow, failing transfers", Load: "chat:rate=0.7", Length: length, FaultAt: faultAt,
			Faults: []string{"slow-transfer:factor=50,fail=0.1"}, PD: true,
			Settings: func(a *args.Args) { a.ModelProfile = "llama-70b-h100" },
		},
		{
			Name: "uneven routing", Load: "chat:rate=0.6", Length: length, FaultAt: atOnce,
			Faults: []string{"dp-skew-routing:rank=0,share=0.9"}, Settings: groups,
		},
		{
			Name: "uneven lengths", Load: "chat:rate=0.6,spread=1.2,input=400", Length: length, FaultAt: atOnce,
			Faults: []string{"dp-skew-length"}, Settings: groups,
		},
		{
			Name: "engine without metrics, lost spans", Load: "chat:rate=0.7,stream=0", Length: length, FaultAt: faultAt,
			Faults:   []string{"no-scheduler-spans:share=0.5"},
			Settings: func(a *args.Args) { a.ModelProfile, a.EnableMetrics = "llama-70b-h100", false },
		},
	}
}

// wide is an engine with all that there is.
func wide(a *args.Args) {
	a.ModelProfile, a.TPSize, a.DPSize, a.EPSize = "qwen3-30b-a3b-h100", 4, 2, 4
	a.EnableDPAttention, a.EnableEPLB, a.EnablePriorityScheduling = true, true, true
	a.EnableExpertDistributionMetrics, a.EnableHierarchicalCache, a.HiCacheStorageBackend = true, true, "file"
	a.EnableMetricsForAllSchedulers, a.DeviceTimer = true, true
}

// live is the built collector, whose backend goes away: for what only a whole one has.
var live = record.Live{
	Simulator: []string{"--tp-size", "2", "--enable-metrics", "--enable-trace", "--load", "chat:rate=2"},
	Backend:   40 * time.Second, Length: 80 * time.Second,
}

// groups is an engine with two DP groups.
func groups(a *args.Args) {
	a.ModelProfile, a.TPSize, a.DPSize, a.EnableDPAttention = "llama-70b-h100", 4, 2, true
}

// absent are the queries without an answer in all that is played, with the reason.
// Their panels say what they need.
var absent = map[string]string{
	"sglang-telemetry/Lost, late and dropped spans#rankdedup lost: {{reason}}": noLoss,
	"sglang-telemetry/Lost, late and dropped spans#rankdedup late: {{reason}}": noLoss,
	"sglang-telemetry/Lost, late and dropped spans#genai lost: {{reason}}":     noLoss,
	"sglang-telemetry/Lost, late and dropped spans#genai late: {{kind}}":       noLoss,
	"sglang-telemetry/Requests with a part missing#without root":               noLoss,
	"sglang-telemetry/Requests with a part missing#{{engine}} without a rank":  noLoss,

	"sglang-telemetry/Refused#spans by rankdedup":                noRefusal,
	"sglang-telemetry/Refused#batches by genai":                  noRefusal,
	"sglang-telemetry/Refused#spans by memory_limiter":           noLoss,
	"sglang-telemetry/Given up by exporters#{{exporter}} points": noLoss,

	"sglang-overview/Failed requests by error#of the aborts: handshake failed": "no handshake fails",

	"sglang-cache/Storage tier#{{instance}} not brought: {{reason}}": "each prefetch brings what it asked for",
}

const (
	noLoss    = "nothing is lost or late"
	noRefusal = "what it holds is taken again before its bound"
)

// window is the time that a scenario's boards show.
type window struct {
	*record.Scenario
	view ask.View
}

// All questions of all boards are put to a Prometheus that has seen the simulator. With
// BOARDS_PICTURES set to a folder the boards are drawn there.
func TestEveryPanelHasData(t *testing.T) {
	if testing.Short() {
		t.Skip("plays an hour and a half")
	}
	server, windows := recorded(t)
	answered := map[string]bool{}
	for _, w := range windows {
		if want := verdicts[w.Name]; want != "" {
			assert.Equal(t, want, verdict(t, server, &w), w.Name)
		}
		for _, b := range dashboards.All() {
			answers, err := w.view.Board(t.Context(), server, b)
			require.NoError(t, err)
			note(answered, b, answers)
			drawn(t, &w, b, answers)
		}
		for _, p := range official() {
			answers, err := w.view.Panel(t.Context(), server, p)
			require.NoError(t, err)
			noteAnswers(answered, "official/"+p.Title, answers)
		}
	}
	for key, ok := range answered {
		if absent[key] == "" {
			assert.True(t, ok, "no data in any scenario: %s", key)
		}
	}
	for key := range absent {
		ok, asked := answered[key]
		assert.True(t, asked, "%s is no query of a board", key)
		assert.False(t, ok, "%s has data: take it off the list", key)
	}
}

// verdicts are what the panel DP verdict says of scenarios.
var verdicts = map[string]string{"healthy": "even", "uneven routing": "routing", "uneven lengths": "lengths"}

func verdict(t *testing.T, server v1.API, w *window) string {
	t.Helper()
	p := panelOf(t, "DP verdict")
	answers, err := w.view.Panel(t.Context(), server, p)
	require.NoError(t, err)
	require.Len(t, answers[0].Series, 1)
	v, _ := answers[0].Series[0].Last()
	for _, word := range p.Words {
		if word.Value == strconv.FormatFloat(v, 'g', -1, 64) {
			return word.Text
		}
	}
	return fmt.Sprint(v)
}

func panelOf(t *testing.T, title string) *dashboards.Panel {
	t.Helper()
	for _, b := range dashboards.All() {
		for _, p := range b.Panels() {
			if p.Title == title {
				return p
			}
		}
	}
	require.Fail(t, "no panel", title)
	return nil
}

func note(answered map[string]bool, b *dashboards.Board, answers [][]ask.Answer) {
	for i, p := range b.Panels() {
		noteAnswers(answered, b.UID+"/"+p.Title, answers[i])
	}
}

func noteAnswers(answered map[string]bool, panel string, answers []ask.Answer) {
	for _, a := range answers {
		key := panel + "#" + a.Query.Legend
		for i := range a.Series {
			_, ok := a.Series[i].Last()
			answered[key] = answered[key] || ok
		}
		answered[key] = answered[key] || false
	}
}

// recorded is a Prometheus that has what is played, each scenario on its day.
func recorded(t *testing.T) (v1.API, []window) {
	t.Helper()
	prometheus.Need(t, "prometheus")
	prometheus.Need(t, "promtool")
	data, start := t.TempDir(), time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)
	var windows []window
	add := func(s *record.Scenario, r *record.Recording) {
		at := start.Add(time.Duration(len(windows)) * 24 * time.Hour)
		prometheus.Fill(t, data, r, at)
		windows = append(windows, window{s, ask.View{Start: at, End: at.Add(r.End().Sub(r.Start)), Scrape: r.Step, Points: 200}})
	}
	for _, s := range played() {
		began := time.Now()
		r := record.Play(t, s)
		t.Logf("%s: %s played in %s", s.Name, s.Length, time.Since(began).Round(time.Second))
		add(s, r)
	}
	add(&record.Scenario{Name: "collector without a backend", FaultAt: live.Backend}, live.Record(t))
	client, err := api.NewClient(api.Config{Address: prometheus.Serve(t, data)})
	require.NoError(t, err)
	return v1.NewAPI(client), windows
}

// drawn draws a board, if BOARDS_PICTURES says where.
func drawn(t *testing.T, w *window, b *dashboards.Board, answers [][]ask.Answer) {
	t.Helper()
	dir := os.Getenv("BOARDS_PICTURES")
	if dir == "" {
		return
	}
	f, err := os.Create(filepath.Join(dir, fmt.Sprintf("%s %s.png", b.UID, w.Name)))
	require.NoError(t, err)
	defer f.Close()
	subtitle := w.Name
	if w.FaultAt > 0 {
		subtitle += ", from " + w.view.Start.Add(w.FaultAt).Format("15:04")
	}
	require.NoError(t, picture.Board(f, b, subtitle, answers))
}
