// Copyright The otelcol-sglang Authors
// SPDX-License-Identifier: Apache-2.0

package dashboards_test

import (
	"encoding/json"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/otelcol-sglang/otelcol-sglang/boards/dashboards"
	"github.com/otelcol-sglang/otelcol-sglang/boards/record"
)

func eachPanel(t *testing.T, f func(t *testing.T, b *dashboards.Board, p *dashboards.Panel)) {
	t.Helper()
	for _, b := range dashboards.All() {
		for _, p := range b.Panels() {
			t.Run(b.UID+"/"+p.Title, func(t *testing.T) { f(t, b, p) })
		}
	}
}

// What no other board has, and these are there for, by board.
func TestPanelsOfOurOwn(t *testing.T) {
	want := map[string][]string{
		"sglang-latency":  {"TTFT budget", "Decode budget per token"},
		"sglang-ranks":    {"Rank skew", "Which rank was last", "DP queue spread", "DP verdict", "Wait for the other ranks"},
		"sglang-cache":    {"Prompt tokens: computed or found", "Time to first token, and prefill in it"},
		"sglang-overview": {"Accepted minus finished"},
		"sglang-telemetry": {
			"Without scheduler spans", "Invalid values of the engine", "Age of the oldest page", "Copies folded", "Lost, late and dropped spans",
			"Beyond the last bucket: requests", "Beyond the last bucket: pages", "Accepted minus counted, 1 h",
			"Spans in and out", "Bytes per request to the backend", "Refused", "Given up by exporters",
		},
	}
	have := map[string][]string{}
	eachPanel(t, func(_ *testing.T, b *dashboards.Board, p *dashboards.Panel) {
		have[b.UID] = append(have[b.UID], p.Title)
	})
	for uid, titles := range want {
		assert.Subset(t, have[uid], titles)
	}
}

func TestPanelsSayWhatTheyAre(t *testing.T) {
	eachPanel(t, func(t *testing.T, _ *dashboards.Board, p *dashboards.Panel) {
		assert.Greater(t, len(p.Says), 15, "a description")
		assert.True(t, strings.HasSuffix(p.Says, "."), "a description is sentences")
		assert.False(t, strings.HasSuffix(p.Empty, "."), "Empty is no sentence: it stands in a panel's place")
		assert.NotEmpty(t, p.Needs)
		assert.NotEmpty(t, p.Unit)
		assert.NotEmpty(t, p.Queries)
		for _, q := range p.Queries {
			assert.NotEmpty(t, q.Legend)
			if p.Show == dashboards.Table {
				assert.True(t, q.Unit != "" || len(p.Queries) == 1, "column %s has a unit", q.Legend)
			}
		}
	})
}

// The lines of a row's panels fill the grid's width.
func TestRowsAreFull(t *testing.T) {
	for _, b := range dashboards.All() {
		for _, r := range b.Rows {
			x := uint32(0)
			for _, p := range r.Panels {
				x += p.W
				assert.LessOrEqual(t, x, uint32(24), "%s / %s / %s is over the edge", b.Title, r.Title, p.Title)
				x %= 24
			}
			assert.Zero(t, x, "%s / %s ends early", b.Title, r.Title)
		}
	}
}

// Traps of the engine's page that a query can fall into.
func TestQueriesMindTheEngine(t *testing.T) {
	byPriority := regexp.MustCompile(`sglang:(num_running_reqs|num_queue_reqs)\{[^}]*\}`)
	selector := regexp.MustCompile(`(\w+:?\w*)\{([^}]*)\}`)
	eachPanel(t, func(t *testing.T, b *dashboards.Board, p *dashboards.Panel) {
		for _, q := range p.Queries {
			expr := q.PromQL()
			for _, s := range byPriority.FindAllString(expr, -1) {
				assert.Contains(t, s, `priority=""`, "the total holds the parts")
			}
			assert.NotRegexp(t, `avg[^(]*\([^)]*histogram_quantile`, expr, "quantiles have no average")
			assert.NotContains(t, expr, "@", "an unknown filter")
			assert.NotRegexp(t, `rate\([^[]*\[\$__interval\]`, expr, "a rate needs several scrapes")
			for _, s := range selector.FindAllStringSubmatch(expr, -1) {
				if strings.HasPrefix(s[1], "otelcol_") {
					assert.True(t, b.Own, "the board has no variable collector")
					assert.Contains(t, s[2], `instance=~"$collector"`)
				} else if s[1] != "target_info" && !strings.Contains(s[2], `engine_type="prefill"`) {
					assert.Contains(t, s[2], `job=~"$job",instance=~"$instance"`, s[0])
				}
			}
		}
	})
}

func TestCommittedFilesAreUpToDate(t *testing.T) {
	dir := filepath.Join(record.Root(), "config/grafana/dashboards")
	files, err := filepath.Glob(filepath.Join(dir, "*.json"))
	require.NoError(t, err)
	assert.Len(t, files, len(dashboards.All()), "a board that is no more")
	for _, b := range dashboards.All() {
		want, err := b.JSON()
		require.NoError(t, err)
		got, err := os.ReadFile(filepath.Join(dir, b.UID+".json"))
		require.NoError(t, err)
		assert.Equal(t, string(want), string(got), "%s: run make generate", b.UID)
	}
}

// The files are what they are said to be, whatever library wrote them.
func TestFiles(t *testing.T) {
	for _, b := range dashboards.All() {
		text, err := b.JSON()
		require.NoError(t, err)
		var d struct {
			UID        string
			Panels     []struct{ ID int }
			Templating struct{ List []struct{ Name string } }
			Links      []struct {
				Tags        []string
				IncludeVars bool
			}
		}
		require.NoError(t, json.Unmarshal(text, &d))
		assert.Equal(t, b.UID, d.UID)
		assert.Equal(t, []string{dashboards.Tag}, d.Links[0].Tags)
		assert.True(t, d.Links[0].IncludeVars)
		var vars []string
		for _, v := range d.Templating.List {
			vars = append(vars, v.Name)
		}
		assert.Subset(t, vars, []string{"datasource", "job", "instance", "model"})
		ids := map[int]bool{}
		for _, p := range d.Panels {
			assert.False(t, ids[p.ID], "two panels have id %d", p.ID)
			ids[p.ID] = true
		}
		for _, m := range regexp.MustCompile(`"uid": "([^"]*)"`).FindAllStringSubmatch(string(text), -1) {
			assert.Contains(t, []string{"$datasource", b.UID}, m[1], "a data source that others don't have")
		}
	}
}
