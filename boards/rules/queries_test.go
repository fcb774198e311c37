// Copyright The otelcol-sglang Authors
// SPDX-License-Identifier: Apache-2.0

package rules

import (
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/prometheus/client_golang/api"
	v1 "github.com/prometheus/client_golang/api/prometheus/v1"
	"github.com/prometheus/common/model"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/otelcol-sglang/otelcol-sglang/boards/internal/names"
	"github.com/otelcol-sglang/otelcol-sglang/boards/internal/prometheus"
	"github.com/otelcol-sglang/otelcol-sglang/boards/record"
)

// told are scenarios that together show all that is asked.
var told = []string{
	"healthy", "kv-pressure", "cache-drift", "dp-skew-routing", "worse-drafts", "failing-transfer", "frontend-flood",
	"no-backend", "no-scheduler-spans", "exporter-overload", "metrics-off", "restart", "queue-full", "no-spans", "page-500",
}

// lossless are series that no scenario has, as nothing is lost there. That their names
// are right is known from their components' documentation (names.Known), and TestLosses
// has them.
// (What the exporters refuse is held, and refused itself at a bound only.)
var lossless = map[string]bool{
	"otelcol_processor_rankdedup_spans_lost": true, "otelcol_processor_genai_lost_spans": true, "otelcol_processor_genai_lost_steps": true,
	"otelcol_exporter_send_failed_metric_points": true,
	"otelcol_connector_genaimetrics_overflowed":  true, "otelcol_connector_genaimetrics_forgotten_early": true,
	"otelcol_processor_rankdedup_spans_refused": true, "otelcol_processor_genai_refused_batches": true, "instance_what:otelcol_spans_lost:count10m": true,
}

// onlyLossless tells whether a query has no answer as nothing is lost.
func onlyLossless(t *testing.T, query string) bool {
	t.Helper()
	read := namesIn(t, query)
	return len(read) > 0 && !slices.ContainsFunc(read, func(n string) bool { return !lossless[n] })
}

// apart is the time between the beginnings of two scenarios.
const apart = 24 * time.Hour

// TestQueries puts all queries of rules and runbooks to a Prometheus that has seen the
// simulator: each name is there, and each query gives something in some scenario.
func TestQueries(t *testing.T) {
	if testing.Short() {
		t.Skip("plays several engines: minutes")
	}
	asked := queries(t)
	wanted := map[string]bool{}
	for q := range asked {
		for _, n := range namesIn(t, q) {
			wanted[n] = true
		}
	}
	for _, r := range readRules(t) {
		for _, n := range namesIn(t, r.Expr) {
			wanted[n] = true
		}
	}
	data := filepath.Join(t.TempDir(), "tsdb")
	times := fill(t, data, func(name string) bool { return wanted[name] })
	// Recorded series that others are made of need a first round.
	for range 2 {
		t.Run("recording rules", func(t *testing.T) { evaluateRules(t, prometheus.Serve(t, data), data, times) })
	}
	url := prometheus.Serve(t, data)
	client, err := api.NewClient(api.Config{Address: url})
	require.NoError(t, err)
	p := v1.NewAPI(client)
	have, known := namesThere(t, p, times), names.Known(t)
	for n := range wanted {
		assert.True(t, have[n] || lossless[n] && (known[n] || strings.Contains(n, ":")), "no series has the name %s", n)
		assert.False(t, have[n] && lossless[n], "%s is there: take it off the list", n)
	}
	for _, q := range sorted(asked) {
		assert.Equal(t, !onlyLossless(t, q), answered(t, p, q, times), "%s:\n%s", asked[q], q)
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
	start := time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)
	byName := map[string]*record.Scenario{}
	for _, s := range record.Scenarios() {
		byName[s.Name] = s
	}
	played := []*record.Recording{lost(t)}
	for _, name := range told {
		played = append(played, recording(t, byName[name]))
	}
	for i, r := range played {
		at := start.Add(time.Duration(i) * apart)
		prometheus.Fill(t, data, r.Only(wanted), at)
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
		out, err := exec.CommandContext(t.Context(), prometheus.Need(t, "promtool"), append(args, files()...)...).CombinedOutput()
		require.NoError(t, err, "%s", out)
	}
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
