// Copyright The otelcol-sglang Authors
// SPDX-License-Identifier: Apache-2.0

package dashboards_test

import (
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"testing"
	"time"

	"github.com/prometheus/client_golang/api"
	v1 "github.com/prometheus/client_golang/api/prometheus/v1"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/otelcol-sglang/otelcol-sglang/boards/dashboards"
	"github.com/otelcol-sglang/otelcol-sglang/boards/dashboards/ask"
	"github.com/otelcol-sglang/otelcol-sglang/boards/dashboards/picture"
	"github.com/otelcol-sglang/otelcol-sglang/boards/record"
	"github.com/otelcol-sglang/otelcol-sglang/engine/args"
)

// played are engines that together have all that boards show. Each has its own hour.
func played() []*record.Scenario {
	const faultAt, length = 12 * time.Minute, 20 * time.Minute
	return []*record.Scenario{
		{
			Name: "healthy", Load: "mixed:rate=0.7", Length: length,
			Settings: func(a *args.Args) { wide(a) },
		},
		{
			Name: "slow rank, evicted cache", Load: "chat:rate=0.7,prefix=400", Length: length, FaultAt: faultAt,
			Faults: []string{"slow-rank:rank=3,delay=4ms", "cache-drift:share=0.9"},
			Settings: func(a *args.Args) {
				wide(a)
				a.MaxTotalTokens = 60_000
			},
		},
		{
			Name: "KV pressure", Load: "chat:rate=3,turns=1,input=20,prefix=10,output=300", Length: length, FaultAt: faultAt,
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

// absent are the queries without an answer in all that is played, with the reason.
// Their panels say what they need.
var absent = map[string]string{}

// window is the time that a scenario's boards show.
type window struct {
	*record.Scenario
	view ask.View
}

// All questions of all boards are put to a Prometheus that has seen the simulator. With
// BOARDS_PICTURES set to a folder the boards are drawn there.
func TestEveryPanelHasData(t *testing.T) {
	if testing.Short() {
		t.Skip("plays two hours")
	}
	prometheus, windows := recorded(t)
	answered := map[string]bool{}
	for _, w := range windows {
		for _, b := range dashboards.All() {
			answers, err := w.view.Board(t.Context(), prometheus, b)
			require.NoError(t, err)
			note(answered, b, answers)
			drawn(t, &w, b, answers)
		}
		for _, p := range official() {
			answers, err := w.view.Panel(t.Context(), prometheus, p)
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

// recorded is a Prometheus that has what is played, each scenario in an hour of its own.
func recorded(t *testing.T) (v1.API, []window) {
	t.Helper()
	for _, program := range []string{"prometheus", "promtool"} {
		if _, err := exec.LookPath(program); err != nil && os.Getenv("CI") == "" {
			t.Skip(program + " is missing")
		}
	}
	dir, start := t.TempDir(), time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)
	var windows []window
	for i, s := range played() {
		r, at := record.Play(t, s), start.Add(time.Duration(i)*time.Hour)
		file := filepath.Join(dir, "recording")
		to, err := os.Create(file)
		require.NoError(t, err)
		require.NoError(t, r.WriteOpenMetrics(to, at))
		require.NoError(t, to.Close())
		out, err := exec.CommandContext(t.Context(), "promtool", "tsdb", "create-blocks-from", "openmetrics", file, filepath.Join(dir, "tsdb")).CombinedOutput()
		require.NoError(t, err, "%s", out)
		end := at.Add(r.End().Sub(r.Start))
		windows = append(windows, window{s, ask.View{Start: at, End: end, Scrape: r.Step, Points: 200}})
	}
	return serve(t, dir), windows
}

// serve starts Prometheus on the folder's blocks, until the test ends.
func serve(t *testing.T, dir string) v1.API {
	t.Helper()
	config := filepath.Join(dir, "prometheus.yml")
	require.NoError(t, os.WriteFile(config, nil, 0o600))
	free, err := net.Listen("tcp", "localhost:0")
	require.NoError(t, err)
	address := free.Addr().String()
	require.NoError(t, free.Close())
	cmd := exec.Command("prometheus", "--config.file="+config, "--storage.tsdb.path="+filepath.Join(dir, "tsdb"),
		"--storage.tsdb.retention.time=100y", "--web.listen-address="+address, "--log.level=error")
	cmd.Stderr = t.Output()
	require.NoError(t, cmd.Start())
	t.Cleanup(func() {
		_ = cmd.Process.Signal(os.Interrupt)
		_ = cmd.Wait() // killed by us
	})
	require.Eventually(t, func() bool { return ready(t, "http://"+address+"/-/ready") }, time.Minute, 100*time.Millisecond)
	client, err := api.NewClient(api.Config{Address: "http://" + address})
	require.NoError(t, err)
	return v1.NewAPI(client)
}

func ready(t *testing.T, url string) bool {
	req, err := http.NewRequestWithContext(t.Context(), http.MethodGet, url, http.NoBody)
	if err != nil {
		return false
	}
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		return false
	}
	_, _ = io.Copy(io.Discard, resp.Body)
	return resp.Body.Close() == nil && resp.StatusCode == http.StatusOK
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
