// Copyright The otelcol-sglang Authors
// SPDX-License-Identifier: Apache-2.0

package rules

import (
	"context"
	"io"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"testing"
	"time"

	"github.com/prometheus/client_golang/api"
	v1 "github.com/prometheus/client_golang/api/prometheus/v1"
	"github.com/prometheus/common/model"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/otelcol-sglang/otelcol-sglang/boards/record"
)

// official are the queries of SGLang's own board, with a window in place of Grafana's.
var official = []string{
	`histogram_quantile(0.99, sum by (le) (rate(sglang:e2e_request_latency_seconds_bucket[1m])))`,
	`avg(rate(sglang:e2e_request_latency_seconds_sum[1m]) / rate(sglang:e2e_request_latency_seconds_count[1m]))`,
	`sum by (le) (increase(sglang:e2e_request_latency_seconds_bucket{model_name=~".+"}[1m]))`,
	`histogram_quantile(0.99, sum by (le) (rate(sglang:time_to_first_token_seconds_bucket[1m])))`,
	`avg(rate(sglang:time_to_first_token_seconds_sum[1m]) / rate(sglang:time_to_first_token_seconds_count[1m]))`,
	`sum by (le) (increase(sglang:time_to_first_token_seconds_bucket{model_name=~".+"}[1m]))`,
	`sglang:num_running_reqs`, `sglang:gen_throughput`, `sglang:cache_hit_rate`, `sglang:num_queue_reqs`,
}

// told are scenarios that together show all that is asked.
var told = []string{
	"healthy", "kv-pressure", "cache-drift", "dp-skew-routing", "worse-drafts", "failing-transfer", "frontend-flood",
	"no-scheduler-spans", "exporter-overload", "metrics-off", "restart", "queue-full", "no-spans", "page-500",
}

// empty are queries without an answer in all that is told, and why.
var empty = map[string]string{}

// apart is the time between the beginnings of two scenarios.
const apart = 24 * time.Hour

// TestQueries puts all queries of rules and runbooks to a Prometheus that has seen the
// simulator: each name is there, and each query gives something in some scenario.
func TestQueries(t *testing.T) {
	if testing.Short() {
		t.Skip("plays several engines: minutes")
	}
	asked := queries(t)
	for _, q := range official {
		asked[q] = "official board"
	}
	names := map[string]bool{}
	for q := range asked {
		for _, n := range namesIn(t, q) {
			names[n] = true
		}
	}
	for _, r := range readRules(t) {
		for _, n := range namesIn(t, r.Expr) {
			names[n] = true
		}
	}
	data := filepath.Join(t.TempDir(), "tsdb")
	times := fill(t, data, func(name string) bool { return names[name] })
	// Recorded series that others are made of need a first round.
	for range 2 {
		url, stop := serve(t, data)
		evaluateRules(t, url, data, times)
		stop()
	}
	url, stop := serve(t, data)
	defer stop()
	client, err := api.NewClient(api.Config{Address: url})
	require.NoError(t, err)
	p := v1.NewAPI(client)
	have := namesThere(t, p, times)
	for n := range names {
		assert.True(t, have[n], "no series has the name %s", n)
	}
	for _, q := range sorted(asked) {
		_, known := empty[q]
		assert.Equal(t, !known, answered(t, p, q, times), "%s:\n%s", asked[q], q)
	}
	for _, r := range readRules(t) {
		if r.Alert != "" {
			_, _, err := p.Query(t.Context(), r.Expr, times[0].to)
			require.NoError(t, err, r.Alert)
		}
	}
}

type span struct{ from, to time.Time }

// fill makes blocks of the scenarios, each on a day of its own.
func fill(t *testing.T, data string, wanted func(string) bool) (times []span) {
	t.Helper()
	promtool := need(t, "promtool")
	start := time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)
	byName := map[string]*record.Scenario{}
	for _, s := range record.Scenarios() {
		byName[s.Name] = s
	}
	for i, name := range told {
		r := recording(t, byName[name])
		at := start.Add(time.Duration(i) * apart)
		file := filepath.Join(t.TempDir(), "recording")
		f, err := os.Create(file)
		require.NoError(t, err)
		require.NoError(t, r.Only(wanted).WriteOpenMetrics(f, at))
		require.NoError(t, f.Close())
		run(t, promtool, "tsdb", "create-blocks-from", "openmetrics", file, data)
		times = append(times, span{at, at.Add(time.Duration(r.Steps-1) * r.Step)})
	}
	return times
}

func evaluateRules(t *testing.T, url, data string, times []span) {
	t.Helper()
	for _, s := range times {
		args := []string{
			"tsdb", "create-blocks-from", "rules", "--url=" + url, "--output-dir=" + data, "--eval-interval=30s",
			"--start=" + strconv.FormatInt(s.from.Unix(), 10), "--end=" + strconv.FormatInt(s.to.Unix(), 10),
		}
		run(t, need(t, "promtool"), append(args, files()...)...)
	}
}

func run(t *testing.T, program string, args ...string) {
	t.Helper()
	out, err := exec.CommandContext(t.Context(), program, args...).CombinedOutput()
	require.NoError(t, err, "%s", out)
}

func namesThere(t *testing.T, p v1.API, times []span) map[string]bool {
	t.Helper()
	values, _, err := p.LabelValues(t.Context(), model.MetricNameLabel, nil, times[0].from, times[len(times)-1].to)
	require.NoError(t, err)
	out := map[string]bool{}
	for _, v := range values {
		out[string(v)] = true
	}
	return out
}

// answered tells whether a query gives something near the end of some scenario.
func answered(t *testing.T, p v1.API, query string, times []span) bool {
	t.Helper()
	for _, s := range times {
		v, _, err := p.Query(t.Context(), query, s.to.Add(-10*time.Second))
		require.NoError(t, err, query)
		if vector, ok := v.(model.Vector); ok && len(vector) > 0 {
			return true
		}
	}
	return false
}

const startLimit = time.Minute

// serve runs Prometheus on the blocks.
func serve(t *testing.T, data string) (url string, stop func()) {
	t.Helper()
	program := need(t, "prometheus")
	config := filepath.Join(t.TempDir(), "prometheus.yml")
	require.NoError(t, os.WriteFile(config, nil, 0o600))
	free, err := net.Listen("tcp", "localhost:0")
	require.NoError(t, err)
	address := free.Addr().String()
	require.NoError(t, free.Close())
	cmd := exec.CommandContext(context.WithoutCancel(t.Context()), program, "--config.file="+config, "--storage.tsdb.path="+data,
		"--storage.tsdb.retention.time=100y", "--web.listen-address="+address, "--log.level=error")
	cmd.Stderr = t.Output()
	require.NoError(t, cmd.Start())
	url = "http://" + address
	require.Eventually(t, func() bool { return ready(url + "/-/ready") }, startLimit, 100*time.Millisecond)
	return url, func() {
		_ = cmd.Process.Signal(os.Interrupt)
		_ = cmd.Wait() // its status is that of the signal
	}
}

func ready(url string) bool {
	resp, err := http.Get(url)
	if err != nil {
		return false
	}
	_, _ = io.Copy(io.Discard, resp.Body)
	return resp.Body.Close() == nil && resp.StatusCode == http.StatusOK
}
