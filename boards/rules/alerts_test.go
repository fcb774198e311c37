// Copyright The otelcol-sglang Authors
// SPDX-License-Identifier: Apache-2.0

package rules

import (
	"flag"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/otelcol-sglang/otelcol-sglang/boards/record"
)

var recordings = flag.String("recordings", "", "a folder of recordings: those that are there are not played again, others are kept there")

// recording plays a scenario, or reads what was played before.
func recording(t *testing.T, s *record.Scenario) *record.Recording {
	t.Helper()
	return kept(t, s.Name, func() *record.Recording { return record.Play(t, s) })
}

// kept is a recording from the folder, if it is there.
func kept(t *testing.T, name string, play func() *record.Recording) *record.Recording {
	t.Helper()
	if *recordings == "" {
		return play()
	}
	name = filepath.Join(*recordings, name+".om")
	if f, err := os.Open(name); err == nil {
		defer f.Close()
		r, err := record.Read(f)
		require.NoError(t, err)
		return r
	}
	r := play()
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
	rules := readRules(t)
	wanted := inputs(t, rules)
	var mu sync.Mutex
	fired := map[string]map[string]string{}
	t.Run("scenario", func(t *testing.T) {
		for _, s := range record.Scenarios() {
			t.Run(s.Name, func(t *testing.T) {
				t.Parallel()
				before, late := evaluate(t, s, recording(t, s), wanted)
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

// everyAlertHasAFault, here or elsewhere.
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
		if r.Alert != "" {
			assert.True(t, own[r.Alert] || elsewhere[r.Alert] != "", "%s has no fault of its own", r.Alert)
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

// evaluate gives the alerts that fired before and after the fault began.
func evaluate(t *testing.T, s *record.Scenario, r *record.Recording, wanted func(string) bool) (before, late []string) {
	t.Helper()
	var input strings.Builder
	r.Only(wanted).InputSeries(&input)
	length := time.Duration(r.Steps-1) * r.Step
	if s.FaultAt == 0 {
		return nil, firedBy(t, r.Step, input.String(), length)[0]
	}
	fired := firedBy(t, r.Step, input.String(), s.FaultAt, length)
	return fired[0], fired[1]
}
