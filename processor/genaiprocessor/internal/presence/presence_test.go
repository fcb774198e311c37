// Copyright The otelcol-sglang Authors
// SPDX-License-Identifier: Apache-2.0

package presence

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"pgregory.net/rapid"
)

// Keys by their place: as the settings' default has them.
const instance, pod = 0, 1

func named(pairs ...any) (n Names) {
	for i := 0; i < len(pairs); i += 2 {
		n[pairs[i].(int)] = pairs[i+1].(string)
	}
	return n
}

var start = time.Unix(1_700_000_000, 0)

// steady tells a table of engines and pages each ten seconds, for two minutes.
func steady(t *Table, ids map[string][]Names, pages ...Page) time.Time {
	now := start
	for i := range 13 {
		now = start.Add(time.Duration(i) * 10 * time.Second)
		for id, list := range ids {
			for _, names := range list {
				t.Sent(id, &names, -1, now)
			}
		}
		for _, p := range pages {
			p.Finished *= float64(i)
			t.Saw(p, now)
		}
	}
	return now
}

func states(list []Match) []string {
	out := []string{}
	for _, m := range list {
		out = append(out, strings.TrimSpace(fmt.Sprintf("%s/%s %s", m.Engine, m.Page, m.State)))
	}
	slices.Sort(out)
	return out
}

func TestMatches(t *testing.T) {
	busy := func(label string, names Names) Page { return Page{Label: label, Names: names, Finished: 3} }
	idle := func(label string, names Names) Page { return Page{Label: label, Names: names} }
	for _, tt := range []struct {
		name  string
		spans map[string][]Names
		pages []Page
		want  []string
	}{
		{"nothing", nil, nil, []string{}},
		{"one of each", map[string][]Names{"e": {{}}}, []Page{busy("p", named(instance, "h:1"))}, []string{"e/p both"}},
		{
			"one of each, and spans of a sender not known yet",
			map[string][]Names{"e": {{}}, "": {{}}},
			[]Page{busy("p", named(instance, "h:1"))},
			[]string{"e/p both"},
		},
		{"no engine known", map[string][]Names{"": {{}}}, []Page{busy("p", named(instance, "h:1"))}, []string{"/p both"}},
		{
			"one of each, with other names",
			map[string][]Names{"e": {named(pod, "a")}},
			[]Page{busy("p", named(instance, "h:1", pod, "b"))},
			[]string{"/p page_only", "e/ spans_only"},
		},
		{
			"two engines, named",
			map[string][]Names{"e": {named(pod, "a")}, "f": {{}, named(pod, "b")}},
			[]Page{busy("p", named(instance, "h:1", pod, "a")), busy("q", named(instance, "h:2", pod, "b"))},
			[]string{"e/p both", "f/q both"},
		},
		{
			"one process alone is named",
			map[string][]Names{"e": {{}, named(instance, "a"), {}}},
			[]Page{busy("p", named(instance, "a")), busy("q", named(instance, "b"))},
			[]string{"/q page_only", "e/p both"},
		},
		{
			"two engines without a name",
			map[string][]Names{"e": {{}}, "f": {{}}},
			[]Page{busy("p", named(instance, "h:1")), busy("q", named(instance, "h:2"))},
			[]string{"/p ambiguous", "/q ambiguous", "e/ ambiguous", "f/ ambiguous"},
		},
		{
			"keys that have nothing in common",
			map[string][]Names{"e": {named(pod, "a")}, "f": {named(pod, "b")}},
			[]Page{busy("p", named(instance, "h:1"))},
			[]string{"/p ambiguous", "e/ ambiguous", "f/ ambiguous"},
		},
		{
			"two engines without an id",
			map[string][]Names{"": {named(pod, "a"), named(pod, "b")}},
			[]Page{busy("p", named(pod, "a")), busy("q", named(pod, "b"))},
			[]string{"a/p both", "b/q both"},
		},
		{
			"an engine on two nodes",
			map[string][]Names{"e": {named(pod, "a"), named(pod, "b")}},
			[]Page{busy("p", named(pod, "a")), busy("q", named(pod, "b"))},
			[]string{"e/p both", "e/q both"},
		},
		{
			"named spans, a page's address",
			map[string][]Names{"e": {named(instance, "a")}},
			[]Page{{Label: "p", Addresses: named(instance, "h:1"), Finished: 3}},
			[]string{"e/p both"},
		},
		{
			"named spans of two engines, one by a page's address",
			map[string][]Names{"e": {named(instance, "a")}, "f": {named(instance, "h:1")}},
			[]Page{{Label: "p", Addresses: named(instance, "h:1"), Finished: 3}, {Label: "q", Addresses: named(instance, "h:2"), Finished: 3}},
			[]string{"/q ambiguous", "e/ ambiguous", "f/p both"},
		},
		{"spans and no page", map[string][]Names{"e": {{}}, "f": {named(pod, "b")}}, nil, []string{"e/ spans_only", "f/ spans_only"}},
		{"a page and no spans", nil, []Page{busy("p", named(instance, "h:1")), idle("q", named(instance, "h:2"))}, []string{"/p page_only"}},
		{"an idle page with spans", map[string][]Names{"e": {{}}}, []Page{idle("p", named(instance, "h:1"))}, []string{"e/p both"}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			table := New()
			now := steady(table, tt.spans, tt.pages...)
			assert.Equal(t, tt.want, states(table.Matches(now)))
		})
	}
}

// TestTime: a side is awaited for a while, and forgotten when it is gone.
func TestTime(t *testing.T) {
	table, p := New(), Page{Label: "p", Names: named(instance, "h:1"), Finished: 1}
	table.Saw(p, start)
	assert.Empty(t, table.Matches(start), "a page without requests")
	p.Finished++
	table.Saw(p, start.Add(time.Second))
	assert.Empty(t, table.Matches(start.Add(time.Minute)), "the spans may be on their way")
	assert.Equal(t, []string{"/p page_only"}, states(table.Matches(start.Add(Patience+time.Second))))

	spans := start.Add(2 * time.Minute)
	table.Sent("e", &Names{}, -1, spans)
	assert.Equal(t, []string{"e/p both"}, states(table.Matches(spans)))
	table.Sent("e", &Names{}, -1, start.Add(Recent))
	assert.Equal(t, []string{"e/ spans_only"}, states(table.Matches(start.Add(Recent+2*time.Second))), "the page is gone")
	assert.Empty(t, table.Matches(start.Add(2*Recent)), "all is gone")

	p.Finished = 0
	table.Saw(p, start.Add(2*Recent))
	p.Finished = 5
	table.Saw(p, start.Add(2*Recent+time.Second))
	assert.Empty(t, table.Matches(start.Add(2*Recent+2*time.Second)), "awaited anew")
	p.Finished = 1
	table.Saw(p, start.Add(3*Recent))
	assert.Empty(t, table.Matches(start.Add(3*Recent+Patience)), "a restart of an idle engine is no request")
}

// TestRanks: what spans and page show of the data-parallel ranks stands side by side.
func TestRanks(t *testing.T) {
	table, p := New(), Page{Label: "p", Ranks: 1, Set: 4}
	table.Saw(p, start)
	for rank := range int32(4) {
		table.Sent("e", &Names{}, rank, start)
	}
	table.Sent("e", &Names{}, 200, start)
	assert.Len(t, table.Matches(start), 1)
	assert.Equal(t, Match{Engine: "e", Page: "p", State: Both, SpanRanks: 4, PageRanks: 1, SetRanks: 4}, table.Matches(start)[0])
}

func TestBounded(t *testing.T) {
	table := New()
	for i := range 3 * maxEngines {
		names := named(instance, fmt.Sprint(i))
		table.Sent(fmt.Sprint(i), &names, -1, start)
		table.Sent("one", &names, -1, start)
		table.Saw(Page{Names: names}, start)
	}
	assert.Len(t, table.spans, maxEngines)
	assert.Len(t, table.pages, maxEngines)
	assert.Len(t, table.spans["one"].names, maxNames)
}

// TestNoFalseAlarm: whatever subset of its names each side of an engine gives, it
// is never said to lack the other side.
func TestNoFalseAlarm(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		table, ids := New(), map[string][]Names{}
		var pages []Page
		for e := range rapid.IntRange(1, 4).Draw(t, "engines") {
			some := func() (n Names) {
				for key := range 3 {
					if rapid.Bool().Draw(t, "given") {
						n[key] = fmt.Sprint(e, key)
					}
				}
				return n
			}
			ids[fmt.Sprint(e)] = []Names{some(), some()}
			// Each page has an address of its own, which spans may have or another name.
			p := Page{Label: fmt.Sprint(e), Names: some(), Addresses: named(3, fmt.Sprint(e)), Finished: 1}
			if rapid.Bool().Draw(t, "by address") {
				ids[fmt.Sprint(e)][0][3] = rapid.SampledFrom([]string{fmt.Sprint(e), "other"}).Draw(t, "address")
			}
			pages = append(pages, p)
		}
		for _, m := range table.Matches(steady(table, ids, pages...)) {
			if m.State == Both && m.Engine != m.Page {
				t.Fatalf("another engine's page: %+v", m)
			}
			if m.State == SpansOnly || m.State == PageOnly {
				t.Fatalf("its other side may be there: %+v", m)
			}
		}
	})
}
