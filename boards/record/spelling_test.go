// Copyright The otelcol-sglang Authors
// SPDX-License-Identifier: Apache-2.0

package record

import (
	"fmt"
	"maps"
	"regexp"
	"slices"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/otelcol-sglang/otelcol-sglang/engine/args"
)

// realFor is how long the real programs run. Some of it they need to start.
const realFor = 40 * time.Second

// notOurs are series of the collector's own page that parts make which the recorder
// does without: exporters, memory_limiter, the process itself.
var notOurs = regexp.MustCompile(`^(otelcol_(exporter|process|processor_(incoming|outgoing|memory_limiter)|receiver_(accepted|refused|failed)_metric)_|up$|promhttp_|target_info)`)

// TestSpelling: the built collector with the built simulator shows the names, labels
// and bounds that the recorder notes.
func TestSpelling(t *testing.T) {
	if testing.Short() {
		t.Skip("runs real programs for most of a minute")
	}
	const load = "chat:rate=2,abort=0"
	live := Live{Length: realFor, Simulator: []string{"--tp-size", "2", "--enable-metrics", "--enable-trace", "--load", load}}
	got := shapes(live.Record(t))
	want := shapes(Play(t, &Scenario{Load: load, Length: 2 * time.Minute, Settings: func(a *args.Args) { a.TraceLevel = 3 }}))
	require.Greater(t, len(got), 300)
	assert.Empty(t, without(got, want), "what the recorder has not")
	assert.Empty(t, without(want, got), "what the collector shows not")
}

// without is what is in a and not in b.
func without(a, b map[string]bool) (out []string) {
	for _, s := range slices.Sorted(maps.Keys(a)) {
		if !b[s] {
			out = append(out, s)
		}
	}
	return out
}

// shapes are those of all series but notOurs.
func shapes(r *Recording) map[string]bool {
	out := map[string]bool{}
	for _, s := range r.Series() {
		if !notOurs.MatchString(s.Name) {
			out[shape(s.Name, s.Labels)] = true
		}
	}
	return out
}

// shape is a series' name, the names of its labels and its bound. Prometheus adds
// job and instance where a page has none; which rank was last is not said of each request.
func shape(name string, labels []Label) string {
	var names []string
	for _, l := range labels {
		switch l.Name {
		case "job", "instance", "sglang_ranks_slowest": // the last one only where a rank is late
		case "le":
			names = append(names, "le="+l.Value)
		default:
			names = append(names, l.Name)
		}
	}
	slices.Sort(names)
	return name + fmt.Sprint(names)
}
