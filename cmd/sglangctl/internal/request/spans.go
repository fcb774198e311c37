// Copyright The otelcol-sglang Authors
// SPDX-License-Identifier: Apache-2.0

package request // import "github.com/otelcol-sglang/otelcol-sglang/cmd/sglangctl/internal/request"

import (
	"fmt"
	"slices"
	"strings"
	"time"

	"go.opentelemetry.io/collector/pdata/pcommon"

	"github.com/otelcol-sglang/otelcol-sglang/internal/sglang"
)

const (
	ganttWidth = 24
	// A run of more than runLimit leaves of one name is cut to its first and
	// last runShown.
	runLimit = 8
	runShown = 2
)

// spans prints a span and all below it; times count from start, bars show parts
// of total.
func (p Printer) spans(root *node, start time.Time, total time.Duration) {
	fmt.Fprintf(p.W, "\n  %s %s  %s %s\n", padLeft("start", 10), padLeft("duration", 10),
		padRight("", ganttWidth+2), plural(root.count(), "span"))
	v := view{Printer: p, start: start, total: max(total, 1)}
	v.node(root, "", "", 0)
}

type view struct {
	Printer
	start time.Time
	total time.Duration
}

// node prints one span: lead stands before its name, below before those of its children.
func (v view) node(n *node, lead, below string, depth int) {
	v.row(n, lead+describe(n))
	if depth == maxDepth {
		return
	}
	v.events(n, below)
	rows := v.cut(n.children)
	for i, row := range rows {
		branch, next := "├─ ", "│  "
		if i == len(rows)-1 {
			branch, next = "└─ ", "   "
		}
		if row.span == nil {
			v.line("", "", strings.Repeat(" ", ganttWidth+2), below+branch+row.text)
			continue
		}
		v.node(row.span, below+branch, below+next, depth+1)
	}
}

func (v view) row(n *node, name string) {
	from := float64(n.start.Sub(v.start)) / float64(v.total)
	to := float64(n.end.Sub(v.start)) / float64(v.total)
	v.line(Duration(n.start.Sub(v.start)), Duration(n.duration()), "▕"+bar(from, to, ganttWidth)+"▏", name)
}

func (v view) line(start, duration, gantt, name string) {
	fmt.Fprintf(v.W, "  %s %s  %s %s\n", padLeft(start, 10), padLeft(duration, 10), gantt, name)
}

// events prints retractions always, as they explain gaps, and the rest if wanted.
func (v view) events(n *node, below string) {
	for _, e := range n.events {
		if e.name != sglang.EventRetract && !v.Events {
			continue
		}
		bar := "│  "
		if len(n.children) == 0 {
			bar = "   "
		}
		v.line(Duration(e.at.Sub(v.start)), "", strings.Repeat(" ", ganttWidth+2), below+bar+"• "+e.name+attrList(e.attrs))
	}
}

func attrList(attrs pcommon.Map) string {
	var parts []string
	for key, value := range attrs.All() {
		parts = append(parts, key+"="+value.AsString())
	}
	slices.Sort(parts)
	if len(parts) == 0 {
		return ""
	}
	return "  " + strings.Join(parts, " ")
}

// treeRow is a span, or a text in place of several.
type treeRow struct {
	span *node
	text string
}

// cut shortens runs of leaves with one name.
func (v view) cut(children []*node) []treeRow {
	var rows []treeRow
	for i := 0; i < len(children); {
		end := i + 1
		for end < len(children) && sameLeaf(children[i], children[end]) {
			end++
		}
		run := children[i:end]
		i = end
		if v.All || len(run) <= runLimit {
			rows = append(rows, spanRows(run)...)
			continue
		}
		hidden := run[runShown : len(run)-runShown]
		rows = append(rows, spanRows(run[:runShown])...)
		rows = append(rows, treeRow{text: summarize(hidden)})
		rows = append(rows, spanRows(run[len(run)-runShown:])...)
	}
	return rows
}

func sameLeaf(a, b *node) bool {
	return a.name == b.name && len(a.children) == 0 && len(b.children) == 0
}

func spanRows(nodes []*node) []treeRow {
	rows := make([]treeRow, len(nodes))
	for i, n := range nodes {
		rows[i].span = n
	}
	return rows
}

func summarize(run []*node) string {
	shortest, longest := run[0].duration(), run[0].duration()
	for _, n := range run {
		shortest, longest = min(shortest, n.duration()), max(longest, n.duration())
	}
	return fmt.Sprintf("... %d more %s, %s to %s each", len(run), run[0].name, Duration(shortest), Duration(longest))
}

// describe names a span and what is special about it.
func describe(n *node) string {
	switch n.kind {
	case sglang.KindThread:
		return describeThread(n)
	case sglang.KindRoot:
		return strings.TrimSpace(n.name)
	}
	if ct, ok := number(n.attrs, sglang.AttrDecodeCT); ok {
		return fmt.Sprintf("%s #%.0f", n.name, ct)
	}
	return n.name + stepsNote(n.attrs)
}

// stepsNote tells what the folded steps of a decode took.
func stepsNote(attrs pcommon.Map) string {
	count, ok := number(attrs, sglang.AttrStepsCount)
	if !ok {
		return ""
	}
	parts := []string{fmt.Sprintf("   %.0f steps", count)}
	for _, part := range []struct{ name, key string }{
		{"p50", sglang.AttrStepsP50}, {"p99", sglang.AttrStepsP99}, {"max", sglang.AttrStepsMax},
	} {
		if note := named(attrs, part.name, part.key); note != "" {
			parts = append(parts, note)
		}
	}
	if tokens, ok := number(attrs, sglang.AttrStepsTokens); ok {
		parts = append(parts, fmt.Sprintf("%.2f tokens per step", tokens))
	}
	return strings.Join(parts, ", ")
}

// describeThread writes a thread by its label and ranks, whatever its name
// looks like, and what the other ranks' copies said.
func describeThread(n *node) string {
	t := sglang.ThreadOf(n.attrs)
	out := t.Label
	for _, rank := range []struct {
		name  string
		value int32
	}{{"TP", t.Ranks.TP}, {"PP", t.Ranks.PP}, {"DP", t.Ranks.DP}} {
		if rank.value != sglang.NoRank {
			out += fmt.Sprintf(" %s%d", rank.name, rank.value)
		}
	}
	if note := ranksNote(n.attrs); note != "" {
		out += "   " + note
	}
	if reason := text(n.attrs, sglang.AttrAbortReason); reason != "" {
		out += "   ✗ " + reason
	} else if message := text(n.attrs, sglang.AttrAbortMessage); message != "" {
		out += "   ✗ " + message
	}
	return out
}

// ranksNote tells what N ranks' copies showed. A skew below what clocks of one
// host differ by is noise and names nobody.
func ranksNote(attrs pcommon.Map) string {
	count, ok := number(attrs, sglang.AttrRanksCount)
	if !ok {
		return ""
	}
	out := fmt.Sprintf("%.0f ranks", count)
	if expected, ok := number(attrs, sglang.AttrRanksExpected); ok && expected > count {
		out += fmt.Sprintf(" of %.0f", expected)
	}
	skew, ok := number(attrs, sglang.AttrRanksSkew)
	if !ok {
		return out
	}
	out += ", skew " + Duration(seconds(skew))
	if slowest, ok := number(attrs, sglang.AttrRanksSlowest); ok && seconds(skew) > clockNoise {
		out += fmt.Sprintf(", TP%.0f last", slowest)
		if share, ok := number(attrs, sglang.AttrRanksSlowestShare); ok {
			out += fmt.Sprintf(" in %.0f %% of the steps", 100*share)
		}
	}
	return out
}

// clockNoise is how far the processes' clocks of one host may lie apart.
const clockNoise = 3 * time.Millisecond
