// Copyright The otelcol-sglang Authors
// SPDX-License-Identifier: Apache-2.0

// Package spans says what must leave the collector of what an engine sent.
package spans // import "github.com/otelcol-sglang/otelcol-sglang/test/internal/spans"

import (
	"cmp"
	"fmt"
	"iter"
	"slices"

	"go.opentelemetry.io/collector/pdata/pcommon"
	"go.opentelemetry.io/collector/pdata/ptrace"

	"github.com/otelcol-sglang/otelcol-sglang/internal/sglang"
)

// ID names a span everywhere.
type ID struct {
	Trace pcommon.TraceID
	Span  pcommon.SpanID
}

// Span is a span with its resource.
type Span struct {
	ptrace.Span
	Resource pcommon.Resource
	Kind     sglang.SpanKind
}

// Of tells what a span is.
func Of(s ptrace.Span, from pcommon.Resource) Span { return Span{s, from, sglang.KindOf(s)} }

// ID is the span's.
func (s Span) ID() ID { return ID{s.TraceID(), s.SpanID()} }

// Parent is the id of the span above.
func (s Span) Parent() ID { return ID{s.TraceID(), s.ParentSpanID()} }

// Thread is what a thread span says of its process.
func (s Span) Thread() sglang.Thread { return sglang.ThreadOf(s.Attributes()) }

// Name is the name that the engine gave.
func (s Span) Name() string {
	if v, ok := s.Attributes().Get(sglang.AttrOriginalName); ok {
		return v.Str()
	}
	return s.Span.Name()
}

// Tree is a set of spans.
type Tree struct {
	Spans map[ID]Span
	// Twice are spans that came more than once.
	Twice []ID
}

// TreeOf collects spans.
func TreeOf(batches ...ptrace.Traces) *Tree {
	tree := &Tree{Spans: map[ID]Span{}}
	for _, td := range batches {
		for s := range All(td) {
			if _, ok := tree.Spans[s.ID()]; ok {
				tree.Twice = append(tree.Twice, s.ID())
			}
			tree.Spans[s.ID()] = s
		}
	}
	return tree
}

// All yields the spans of a batch.
func All(td ptrace.Traces) iter.Seq[Span] {
	return func(yield func(Span) bool) {
		for _, rs := range td.ResourceSpans().All() {
			for _, ss := range rs.ScopeSpans().All() {
				for _, s := range ss.Spans().All() {
					if !yield(Of(s, rs.Resource())) {
						return
					}
				}
			}
		}
	}
}

// Add adds the spans of another tree.
func (t *Tree) Add(other *Tree) {
	for id, s := range other.Spans {
		if _, ok := t.Spans[id]; ok {
			t.Twice = append(t.Twice, id)
		}
		t.Spans[id] = s
	}
	t.Twice = append(t.Twice, other.Twice...)
}

// Of is the part of a tree that belongs to the traces of another.
func (t *Tree) Of(other *Tree) *Tree {
	traces := map[pcommon.TraceID]bool{}
	for id := range other.Spans {
		traces[id.Trace] = true
	}
	part := &Tree{Spans: map[ID]Span{}}
	for id, s := range t.Spans {
		if traces[id.Trace] {
			part.Spans[id] = s
		}
	}
	for _, id := range t.Twice {
		if traces[id.Trace] {
			part.Twice = append(part.Twice, id)
		}
	}
	return part
}

// Roots are the requests, in order of their start.
func (t *Tree) Roots() []Span { return t.kind(sglang.KindRoot) }

// Threads are the thread spans, in order of their start.
func (t *Tree) Threads() []Span { return t.kind(sglang.KindThread) }

func (t *Tree) kind(kind sglang.SpanKind) []Span {
	var some []Span
	for _, s := range t.Spans {
		if s.Kind == kind {
			some = append(some, s)
		}
	}
	slices.SortFunc(some, byStart)
	return some
}

func byStart(a, b Span) int {
	return cmp.Or(cmp.Compare(a.StartTimestamp(), b.StartTimestamp()), cmp.Compare(a.EndTimestamp(), b.EndTimestamp()),
		cmp.Compare(a.SpanID().String(), b.SpanID().String()))
}

// ThreadOf is the thread span above a span, or the span itself.
func (t *Tree) ThreadOf(s Span) (Span, bool) {
	for s.Kind != sglang.KindThread {
		up, ok := t.Spans[s.Parent()]
		if !ok {
			return s, false
		}
		s = up
	}
	return s, true
}

// place is what the ranks' copies of a thread have in common.
type place struct {
	root   ID
	label  string
	pp, dp int32
}

func placeOf(thread Span) place {
	th := thread.Thread()
	return place{thread.Parent(), th.Label, th.Ranks.PP, th.Ranks.DP}
}

// KeptRanks is the lowest rank of each place.
func (t *Tree) keptRanks() map[place]int32 {
	kept := map[place]int32{}
	for _, s := range t.Threads() {
		rank, known := kept[placeOf(s)]
		if tp := s.Thread().Ranks.TP; !known || tp < rank {
			kept[placeOf(s)] = tp
		}
	}
	return kept
}

// Kept are the spans that must leave of what came in: roots, the copies of the
// lowest rank of each place, and what has no thread span.
func (t *Tree) Kept() *Tree {
	ranks := t.keptRanks()
	kept := &Tree{Spans: map[ID]Span{}}
	for id, s := range t.Spans {
		thread, ok := t.ThreadOf(s)
		if !ok || ranks[placeOf(thread)] == thread.Thread().Ranks.TP {
			kept.Spans[id] = s
		}
	}
	return kept
}

// Dangling are the parents and links that lead nowhere.
func (t *Tree) Dangling() []string {
	var out []string
	for _, s := range t.Spans {
		if _, ok := t.Spans[s.Parent()]; !ok && !s.ParentSpanID().IsEmpty() {
			out = append(out, fmt.Sprintf("parent %s of %s %s", s.ParentSpanID(), s.Name(), s.SpanID()))
		}
		for _, l := range s.Links().All() {
			if _, ok := t.Spans[ID{l.TraceID(), l.SpanID()}]; !ok {
				out = append(out, fmt.Sprintf("link %s of %s %s", l.SpanID(), s.Name(), s.SpanID()))
			}
		}
	}
	slices.Sort(out)
	return out
}

// Logical gives each span a name that it shares with the other ranks' copies of
// the same thing: the place and the path of names with their ordinals.
func (t *Tree) Logical() map[ID]string {
	below := map[ID][]Span{}
	for _, s := range t.Spans {
		below[s.Parent()] = append(below[s.Parent()], s)
	}
	names := map[ID]string{}
	for _, s := range t.Spans {
		switch s.Kind {
		case sglang.KindThread:
			path := fmt.Sprintf("%+v", placeOf(s))
			names[s.ID()] = path
			t.nameBelow(below, s.ID(), path, names)
		case sglang.KindRoot, sglang.KindRoom, sglang.KindForeign:
			names[s.ID()] = fmt.Sprintf("%v %s", s.Kind, s.ID())
		default:
		}
	}
	for id := range t.Spans {
		if names[id] == "" {
			names[id] = fmt.Sprintf("alone %s", id)
		}
	}
	return names
}

func (t *Tree) nameBelow(below map[ID][]Span, parent ID, path string, names map[ID]string) {
	children := slices.SortedFunc(slices.Values(below[parent]), byStart)
	count := map[string]int{}
	for _, s := range children {
		mine := fmt.Sprintf("%s/%s#%d", path, s.Name(), count[s.Name()])
		count[s.Name()]++
		names[s.ID()] = mine
		t.nameBelow(below, s.ID(), mine, names)
	}
}

func (id ID) String() string { return id.Trace.String() + "/" + id.Span.String() }
