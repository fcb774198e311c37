// Copyright The otelcol-sglang Authors
// SPDX-License-Identifier: Apache-2.0

package request // import "github.com/otelcol-sglang/otelcol-sglang/cmd/sglangctl/internal/request"

import (
	"cmp"
	"slices"
	"time"

	"go.opentelemetry.io/collector/pdata/pcommon"
	"go.opentelemetry.io/collector/pdata/ptrace"

	"github.com/otelcol-sglang/otelcol-sglang/internal/sglang"
)

// node is one span and those below it.
type node struct {
	id, parent pcommon.SpanID
	name       string
	kind       sglang.SpanKind
	start, end time.Time
	attrs      pcommon.Map
	events     []event
	children   []*node
}

type event struct {
	at    time.Time
	name  string
	attrs pcommon.Map
}

// Tree collects the spans of one trace, each once.
type Tree struct {
	id    pcommon.TraceID
	nodes map[pcommon.SpanID]*node
	order []*node
}

// NewTree returns a tree for one trace.
func NewTree(id pcommon.TraceID) *Tree {
	return &Tree{id: id, nodes: map[pcommon.SpanID]*node{}}
}

// Add takes the trace's spans out of a batch.
func (t *Tree) Add(traces ptrace.Traces) {
	for _, rs := range traces.ResourceSpans().All() {
		for _, ss := range rs.ScopeSpans().All() {
			for _, span := range ss.Spans().All() {
				if span.TraceID() == t.id && t.nodes[span.SpanID()] == nil {
					t.add(span)
				}
			}
		}
	}
}

func (t *Tree) add(span ptrace.Span) {
	n := &node{
		id: span.SpanID(), parent: span.ParentSpanID(), name: span.Name(), kind: sglang.KindOf(span),
		start: span.StartTimestamp().AsTime(), end: span.EndTimestamp().AsTime(), attrs: pcommon.NewMap(),
	}
	span.Attributes().CopyTo(n.attrs)
	for _, e := range span.Events().All() {
		ev := event{at: e.Timestamp().AsTime(), name: e.Name(), attrs: pcommon.NewMap()}
		e.Attributes().CopyTo(ev.attrs)
		n.events = append(n.events, ev)
	}
	t.nodes[n.id] = n
	t.order = append(t.order, n)
}

// link hangs every span under its parent and returns the spans whose parent is
// not in the sink, other than request roots.
func (t *Tree) link() (orphans []*node) {
	for _, n := range t.order {
		n.children = nil
	}
	for _, n := range t.order {
		switch parent := t.nodes[n.parent]; {
		case parent != nil && parent != n:
			parent.children = append(parent.children, n)
		case n.kind != sglang.KindRoot:
			orphans = append(orphans, n)
		}
	}
	for _, n := range t.order {
		slices.SortStableFunc(n.children, byStart)
	}
	slices.SortStableFunc(orphans, byStart)
	return orphans
}

func byStart(a, b *node) int {
	return cmp.Or(a.start.Compare(b.start), b.end.Compare(a.end))
}

func (n *node) duration() time.Duration { return n.end.Sub(n.start) }

// maxDepth ends what is no tree: the engine's has five levels.
const maxDepth = 64

// count is the number of spans from n downwards.
func (n *node) count() int { return n.countTo(maxDepth) }

func (n *node) countTo(depth int) int {
	total := 1
	if depth == 0 {
		return total
	}
	for _, c := range n.children {
		total += c.countTo(depth - 1)
	}
	return total
}
