// Copyright The otelcol-sglang Authors
// SPDX-License-Identifier: Apache-2.0

package spanshape // import "github.com/otelcol-sglang/otelcol-sglang/engine/internal/spanshape"

import (
	"cmp"
	"fmt"
	"maps"
	"regexp"
	"slices"
	"strings"

	"go.opentelemetry.io/collector/pdata/pcommon"
	"go.opentelemetry.io/collector/pdata/ptrace"

	"github.com/otelcol-sglang/otelcol-sglang/internal/sglang"
)

// Node is one span of a tree.
type Node struct {
	// Line says what the span looks like, indented by depth.
	Line string
	Span ptrace.Span
	// Events are the lines of its events, in order.
	Events []string
}

// Tree is a root, or a span whose parent did not come, with all below it: threads
// by name, stages by time.
type Tree []Node

func (t Tree) String() string {
	var b strings.Builder
	for _, n := range t {
		b.WriteString(n.Line + "\n")
		for _, e := range n.Events {
			b.WriteString(e + "\n")
		}
	}
	return b.String()
}

// Trees are all trees of some exports, those of the same looks by start.
func Trees(tds ...ptrace.Traces) []Tree {
	x := index(tds)
	var trees []Tree
	for _, s := range x.tops {
		trees = append(trees, x.tree(nil, s, ""))
	}
	slices.SortStableFunc(trees, func(a, b Tree) int {
		return cmp.Or(strings.Compare(a.String(), b.String()),
			cmp.Compare(a[0].Span.StartTimestamp(), b[0].Span.StartTimestamp()))
	})
	return trees
}

// Kinds count the spans and events by looks and place: "Scheduler > decode_forward >
// decode_loop ...". Two engines under different load differ in counts alone.
func Kinds(tds ...ptrace.Traces) map[string]int {
	x := index(tds)
	kinds := map[string]int{}
	for _, s := range x.byID {
		line := x.path(s) + " " + x.looks(s)
		kinds[line]++
		for _, e := range s.Events().All() {
			kinds[x.path(s)+" "+eventLooks(e)]++
		}
	}
	return kinds
}

// Missing are the kinds of want that got lacks, sorted.
func Missing(want, got map[string]int) []string {
	var missing []string
	for _, k := range slices.Sorted(maps.Keys(want)) {
		if got[k] == 0 {
			missing = append(missing, k)
		}
	}
	return missing
}

type key struct {
	trace pcommon.TraceID
	span  pcommon.SpanID
}

type spans struct {
	byID     map[key]ptrace.Span
	children map[key][]ptrace.Span
	tops     []ptrace.Span
}

func index(tds []ptrace.Traces) *spans {
	x := &spans{byID: map[key]ptrace.Span{}, children: map[key][]ptrace.Span{}}
	var all []ptrace.Span
	for _, td := range tds {
		for _, rs := range td.ResourceSpans().All() {
			for _, ss := range rs.ScopeSpans().All() {
				for _, s := range ss.Spans().All() {
					all = append(all, s)
					x.byID[key{s.TraceID(), s.SpanID()}] = s
				}
			}
		}
	}
	for _, s := range all {
		parent := key{s.TraceID(), s.ParentSpanID()}
		if _, known := x.byID[parent]; known {
			x.children[parent] = append(x.children[parent], s)
		} else {
			x.tops = append(x.tops, s)
		}
	}
	return x
}

func (x *spans) tree(t Tree, s ptrace.Span, indent string) Tree {
	n := Node{Line: indent + x.looks(s), Span: s}
	for _, e := range s.Events().All() {
		n.Events = append(n.Events, indent+"  "+eventLooks(e))
	}
	t = append(t, n)
	below := x.children[key{s.TraceID(), s.SpanID()}]
	slices.SortStableFunc(below, before)
	for _, c := range below {
		t = x.tree(t, c, indent+"    ")
	}
	return t
}

// before orders threads by name and then, as stages, by time; what contains
// another comes first.
func before(a, b ptrace.Span) int {
	if sglang.KindOf(a) == sglang.KindThread {
		if c := strings.Compare(name(a, true), name(b, true)); c != 0 {
			return c
		}
	}
	return cmp.Or(cmp.Compare(a.StartTimestamp(), b.StartTimestamp()), cmp.Compare(b.EndTimestamp(), a.EndTimestamp()))
}

// path names the thread and the stages above a span.
func (x *spans) path(s ptrace.Span) string {
	if sglang.KindOf(s) == sglang.KindRoot {
		return "root"
	}
	step := s.Name()
	if sglang.KindOf(s) == sglang.KindThread {
		step = anyNumber.ReplaceAllString(sglang.ThreadOf(s.Attributes()).Label, "<n>")
	}
	parent, known := x.byID[key{s.TraceID(), s.ParentSpanID()}]
	switch {
	case !known:
		return "orphan > " + step
	case sglang.KindOf(parent) == sglang.KindRoot:
		return step
	}
	return x.path(parent) + " > " + step
}

// looks are all of a span but its events.
func (x *spans) looks(s ptrace.Span) string {
	parts := []string{
		fmt.Sprintf("%q", name(s, false)), fmt.Sprintf("flags=%d", s.Flags()),
		strings.ToLower(s.Kind().String()), strings.ToLower(s.Status().Code().String()), attributes(s.Attributes()),
	}
	for _, l := range s.Links().All() {
		parts = append(parts, x.linkLooks(s, l))
	}
	return strings.Join(parts, " ")
}

func (x *spans) linkLooks(from ptrace.Span, l ptrace.SpanLink) string {
	to, known := x.byID[key{l.TraceID(), l.SpanID()}]
	target := "nothing"
	switch {
	case known && to.ParentSpanID() == from.ParentSpanID():
		target = to.Name()
	case known:
		target = x.path(to)
	}
	return fmt.Sprintf("link(%s flags=%d %s)", target, l.Flags(), attributes(l.Attributes()))
}

func eventLooks(e ptrace.SpanEvent) string {
	looks := fmt.Sprintf("event %s %s", e.Name(), attributes(e.Attributes()))
	if mode, ok := e.Attributes().Get(sglang.EventAttrForwardMode); ok {
		looks += " " + mode.Str()
	}
	return looks
}

// telling are the attributes whose values are a matter of shape.
var telling = map[string]bool{
	sglang.AttrModule: true, sglang.AttrFinishReasons: true, sglang.AttrAbortType: true,
	sglang.AttrAbortStatusCode: true,
}

func attributes(m pcommon.Map) string {
	var out []string
	for k, v := range m.All() {
		one := k + ":" + strings.ToLower(v.Type().String())
		if telling[k] {
			one += "=" + v.AsString()
		}
		out = append(out, one)
	}
	slices.Sort(out)
	return "{" + strings.Join(out, " ") + "}"
}

var (
	requestID = regexp.MustCompile(`Req .{1,8}$`)
	hostPID   = regexp.MustCompile(`\(host:[^|]* \| pid:\d+\)$`)
	rankNo    = regexp.MustCompile(`\[([TPD]P) \d+\]`)
	anyNumber = regexp.MustCompile(`\d+`)
)

// name leaves out ids, hosts and pids, and ranks if they should not count.
func name(s ptrace.Span, ranks bool) string {
	n := hostPID.ReplaceAllString(s.Name(), "(host:<h> | pid:<p>)")
	if !ranks {
		n = rankNo.ReplaceAllString(n, "[$1 <n>]")
	}
	if sglang.KindOf(s) == sglang.KindRoot {
		n = requestID.ReplaceAllString(n, "Req <id>")
	}
	return n
}
