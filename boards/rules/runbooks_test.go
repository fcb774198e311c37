// Copyright The otelcol-sglang Authors
// SPDX-License-Identifier: Apache-2.0

package rules

import (
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/otelcol-sglang/otelcol-sglang/boards/record"
)

const runbooksDir = "docs/runbooks"

// index is the one page that is no alert's.
const index = "README"

// pages are the runbooks' texts by name.
func pages(t *testing.T) map[string]string {
	t.Helper()
	dir := filepath.Join(record.Root(), runbooksDir)
	entries, err := os.ReadDir(dir)
	require.NoError(t, err)
	out := map[string]string{}
	for _, e := range entries {
		text, err := os.ReadFile(filepath.Join(dir, e.Name()))
		require.NoError(t, err)
		out[strings.TrimSuffix(e.Name(), ".md")] = string(text)
	}
	return out
}

var (
	blocks = regexp.MustCompile("(?s)```promql\n(.*?)\n```")
	links  = regexp.MustCompile(`\]\(([^)#]+)\)`)
)

func TestRunbooks(t *testing.T) {
	texts, alerts := pages(t), map[string]bool{}
	for _, r := range readRules(t) {
		if r.Alert == "" {
			continue
		}
		alerts[r.Alert] = true
		text := texts[r.Alert]
		assert.NotEmpty(t, text, "%s has no page", r.Alert)
		for _, section := range []string{"What it means for users", "Which cause", "Next queries", "What to do"} {
			assert.Contains(t, text, "\n## "+section+"\n", r.Alert)
		}
		assert.Regexp(t, `Severity: .*`+r.Labels["severity"], text, r.Alert)
		assert.NotEmpty(t, blocks.FindAllString(text, -1), r.Alert)
		assert.Contains(t, texts[index], "("+r.Alert+".md)", "the list lacks %s", r.Alert)
		checkAnnotations(t, &r)
	}
	for name, text := range texts {
		assert.True(t, alerts[name] || name == index, "%s is the page of no alert", name)
		for _, link := range links.FindAllStringSubmatch(text, -1) {
			_, err := os.Stat(filepath.Join(record.Root(), runbooksDir, link[1]))
			assert.NoError(t, err, name)
		}
	}
}

func checkAnnotations(t *testing.T, r *rule) {
	t.Helper()
	assert.Equal(t, runbooksDir+"/"+r.Alert+".md", r.Annotations["runbook"])
	assert.Contains(t, []string{"page", "ticket"}, r.Labels["severity"], r.Alert)
	assert.NotEmpty(t, r.Labels["component"], r.Alert)
	assert.NotEmpty(t, r.Annotations["summary"], r.Alert)
	assert.Contains(t, r.Annotations["description"], "{{ $", "%s says not how much, or of whom", r.Alert)
	namesIn(t, r.Annotations["query"])
}

// TestLaws: what makes numbers wrong is in no rule.
func TestLaws(t *testing.T) {
	for query, where := range queries(t) {
		assert.NotRegexp(t, `tp_rank\s*=`, query, "%s: a rank's number is no filter", where)
		if strings.Contains(query, "sglang:num_queue_reqs") || strings.Contains(query, "sglang:num_running_reqs") {
			assert.NotRegexp(t, `sglang:num_(queue|running)_reqs(\[|\)|$|\s)`, query, "%s: the total and its parts", where)
		}
		assert.NotRegexp(t, `sum[^(]*\((max by[^(]*\()?sglang:(num_queue|num_running|kv_|max_total)`, query, "%s: stages of a pipeline repeat", where)
	}
}

// queries are all but alerts' expressions, with where they stand.
func queries(t *testing.T) map[string]string {
	t.Helper()
	out := map[string]string{}
	for _, r := range readRules(t) {
		if r.Record != "" {
			out[r.Expr] = r.Record
			continue
		}
		out[r.Annotations["query"]] = r.Alert
	}
	texts := pages(t)
	for _, name := range sorted(texts) {
		for _, b := range blocks.FindAllStringSubmatch(texts[name], -1) {
			out[b[1]] = name + ".md"
		}
	}
	return out
}

func sorted[V any](m map[string]V) []string {
	out := make([]string, 0, len(m))
	for k := range m {
		out = append(out, k)
	}
	slices.Sort(out)
	return out
}
