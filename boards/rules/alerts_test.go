// Copyright The otelcol-sglang Authors
// SPDX-License-Identifier: Apache-2.0

package rules

import (
	"flag"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/prometheus/common/model"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/otelcol-sglang/otelcol-sglang/boards/record"
)

var recordings = flag.String("recordings", "", "a folder of recordings: those that are there are not played again, others are kept there")

// recording plays a scenario, or reads what was played before.
func recording(t *testing.T, s *record.Scenario) *record.Recording {
	t.Helper()
	if *recordings == "" {
		return record.Play(t, s)
	}
	name := filepath.Join(*recordings, s.Name+".om")
	if f, err := os.Open(name); err == nil {
		defer f.Close()
		r, err := record.Read(f)
		require.NoError(t, err)
		return r
	}
	r := record.Play(t, s)
	f, err := os.Create(name + ".part")
	require.NoError(t, err)
	require.NoError(t, r.WriteOpenMetrics(f, r.Start))
	require.NoError(t, f.Close())
	require.NoError(t, os.Rename(name+".part", name))
	return r
}

// TestAlerts: each alert fires on its fault, and in no scenario does another one that
// is not expected there; before a fault begins none does.
func TestAlerts(t *testing.T) {
	if testing.Short() {
		t.Skip("plays each fault: minutes")
	}
	promtool := need(t, "promtool")
	rules := readRules(t)
	wanted := inputs(t, rules)
	var mu sync.Mutex
	fired := map[string]map[string]string{}
	t.Run("scenario", func(t *testing.T) {
		for _, s := range record.Scenarios() {
			t.Run(s.Name, func(t *testing.T) {
				t.Parallel()
				before, late := evaluate(t, promtool, s, recording(t, s), wanted)
				assert.ElementsMatch(t, keys(early[s.Name]), before, "before the fault begins")
				assert.ElementsMatch(t, keys(expected[s.Name]), late)
				mu.Lock()
				defer mu.Unlock()
				fired[s.Name] = map[string]string{}
				for _, a := range late {
					fired[s.Name][a] = expected[s.Name][a]
				}
			})
		}
	})
	printMatrix(t, fired)
	if !t.Failed() {
		everyAlertHasAFault(t, rules)
	}
}

// everyAlertHasAFault: but for the one that needs no engine (TestSlowBurn).
func everyAlertHasAFault(t *testing.T, rules []rule) {
	t.Helper()
	own := map[string]bool{}
	for _, alerts := range expected {
		for a, why := range alerts {
			if why == ownFault {
				own[strings.TrimSuffix(a, pageSuffix)] = true
			}
		}
	}
	for _, r := range rules {
		if r.Alert != "" && r.Alert != "SGLangSLOObjectiveMissing" {
			assert.True(t, own[r.Alert], "%s has no fault of its own", r.Alert)
		}
	}
}

// inputs tells which series of a recording the rules read.
func inputs(t *testing.T, rules []rule) func(name string) bool {
	t.Helper()
	names, made := map[string]bool{}, recorded(rules)
	for _, r := range rules {
		for _, n := range namesIn(t, r.Expr) {
			names[n] = !made[n]
		}
	}
	return func(name string) bool { return names[name] }
}

// firing is what promtool is asked: alerts with their severity.
const firing = `group by (alertname, severity) (max_over_time(ALERTS{alertstate="firing"}[%s]))`

// evaluate gives the alerts that fired before and after the fault began. What promtool
// gets is no test of its own: it is asked to expect nothing, and what it got is read.
func evaluate(t *testing.T, promtool string, s *record.Scenario, r *record.Recording, wanted func(string) bool) (before, late []string) {
	t.Helper()
	var b strings.Builder
	b.WriteString("rule_files:\n")
	for _, f := range files() {
		fmt.Fprintf(&b, "  - %s\n", f)
	}
	fmt.Fprintf(&b, "evaluation_interval: 30s\ntests:\n  - interval: %s\n    input_series:\n", r.Step)
	r.Only(wanted).InputSeries(&b)
	b.WriteString("    promql_expr_test:\n")
	length := time.Duration(r.Steps-1) * r.Step
	times := []time.Duration{length}
	if s.FaultAt > 0 {
		times = []time.Duration{s.FaultAt, length}
	}
	for _, at := range times {
		fmt.Fprintf(&b, "      - expr: '"+firing+"'\n        eval_time: %s\n        exp_samples: []\n", at, at)
	}
	file := filepath.Join(t.TempDir(), "test.yaml")
	require.NoError(t, os.WriteFile(file, []byte(b.String()), 0o600))
	out, _ := exec.CommandContext(t.Context(), promtool, "test", "rules", file).CombinedOutput() // it fails where alerts fired
	got := map[string][]string{}
	for _, at := range times {
		got[at.String()] = alertsIn(string(out), at)
	}
	if len(got[length.String()]) == 0 && !strings.Contains(string(out), "SUCCESS") {
		t.Fatalf("promtool: %.2000s", out)
	}
	if s.FaultAt > 0 {
		before = got[s.FaultAt.String()]
	}
	return before, got[length.String()]
}

// alertsIn reads what promtool got at a time.
func alertsIn(out string, at time.Duration) (alerts []string) {
	_, rest, ok := strings.Cut(out, "time: "+promDuration(at))
	if !ok {
		return nil
	}
	_, rest, _ = strings.Cut(rest, "got:")
	rest, _, _ = strings.Cut(rest, "expr:")
	for _, part := range strings.Split(rest, "alertname=\"")[1:] {
		name, more, _ := strings.Cut(part, `"`)
		_, severity, _ := strings.Cut(more, `severity="`)
		severity, _, _ = strings.Cut(severity, `"`)
		if severity == "page" {
			name += pageSuffix
		}
		alerts = append(alerts, name)
	}
	slices.Sort(alerts)
	return alerts
}

// pageSuffix is on the names of alerts that wake someone up.
const pageSuffix = " (page)"

func promDuration(d time.Duration) string { return model.Duration(d).String() }
