// Copyright The otelcol-sglang Authors
// SPDX-License-Identifier: Apache-2.0

package genaiprocessor // import "github.com/otelcol-sglang/otelcol-sglang/processor/genaiprocessor"

import (
	"go.opentelemetry.io/collector/pdata/ptrace"

	"github.com/otelcol-sglang/otelcol-sglang/internal/sglang"
	"github.com/otelcol-sglang/otelcol-sglang/processor/genaiprocessor/internal/assembly"
)

// held is one span that waits, with its resource and scope.
type held struct {
	traces ptrace.Traces
	bytes  int
}

var _ assembly.Payload = (*held)(nil)

// Bytes is about what the span takes in memory.
func (h *held) Bytes() int { return h.bytes }

func (h *held) span() ptrace.Span {
	return h.traces.ResourceSpans().At(0).ScopeSpans().At(0).Spans().At(0)
}

// takeAll moves a resource's only span with all around it.
func (h *held) takeAll(rs ptrace.ResourceSpans) {
	h.traces = ptrace.NewTraces()
	rs.MoveTo(h.traces.ResourceSpans().AppendEmpty())
	h.measure()
}

// hold moves a span out of its batch; the caller removes the empty one. Its
// resource comes by giveResource.
func (b *batch) hold(h *held, ss ptrace.ScopeSpans, span ptrace.Span) {
	h.traces = ptrace.NewTraces()
	scope := h.traces.ResourceSpans().AppendEmpty().ScopeSpans().AppendEmpty()
	ss.Scope().CopyTo(scope.Scope())
	scope.SetSchemaUrl(ss.SchemaUrl())
	span.MoveTo(scope.Spans().AppendEmpty())
	b.held = append(b.held, h)
}

// giveResource completes the spans that were taken out of a resource; one that
// has none left is not copied.
func (b *batch) giveResource(rs ptrace.ResourceSpans, emptied bool) {
	for i, h := range b.held {
		to := h.traces.ResourceSpans().At(0)
		to.SetSchemaUrl(rs.SchemaUrl())
		if emptied && i == len(b.held)-1 {
			rs.Resource().MoveTo(to.Resource())
		} else {
			rs.Resource().CopyTo(to.Resource())
		}
		h.measure()
	}
	clear(b.held)
	b.held = b.held[:0]
}

var sizer ptrace.ProtoMarshaler

// measure: in memory a span takes what it takes on the wire, texts above all, and
// some per value.
func (h *held) measure() {
	const base, perAttribute = 1400, 70
	rs, span := h.traces.ResourceSpans().At(0), h.span()
	h.bytes = base + sizer.ResourceSpansSize(rs) + perAttribute*(span.Attributes().Len()+
		rs.Resource().Attributes().Len()+span.Events().Len()+span.Links().Len())
}

// takeOut removes from the batch what is held or folded, and gives spans their
// normalized names.
func (p *genaiProcessor) takeOut(td ptrace.Traces, b *batch) {
	next := 0
	td.ResourceSpans().RemoveIf(func(rs ptrace.ResourceSpans) bool {
		if span, ok := onlySpan(rs); ok {
			next++
			h, out := p.takeSpan(span, &b.records[next-1])
			if h != nil {
				h.takeAll(rs)
			}
			return out
		}
		rs.ScopeSpans().RemoveIf(func(ss ptrace.ScopeSpans) bool {
			if ss.Scope().Name() != sglang.ScopeName || ss.Spans().Len() == 0 {
				return false
			}
			ss.Spans().RemoveIf(func(span ptrace.Span) bool {
				next++
				h, out := p.takeSpan(span, &b.records[next-1])
				if h != nil {
					b.hold(h, ss, span)
				}
				return out
			})
			return ss.Spans().Len() == 0
		})
		emptied := rs.ScopeSpans().Len() == 0
		b.giveResource(rs, emptied)
		return emptied
	})
}

// onlySpan returns the span of a resource that has no other: roots that another
// component has held come so.
func onlySpan(rs ptrace.ResourceSpans) (ptrace.Span, bool) {
	if rs.ScopeSpans().Len() != 1 {
		return ptrace.Span{}, false
	}
	ss := rs.ScopeSpans().At(0)
	if ss.Spans().Len() != 1 || ss.Scope().Name() != sglang.ScopeName {
		return ptrace.Span{}, false
	}
	return ss.Spans().At(0), true
}

// takeSpan reports whether a span leaves its batch, and returns what holds it then
// if it is held.
func (p *genaiProcessor) takeSpan(span ptrace.Span, r *assembly.Record) (*held, bool) {
	switch r.Kind {
	case sglang.KindRoot:
		return p.takeRoot(span, r)
	case sglang.KindThread, sglang.KindRoom:
		if p.normalize {
			normalizeName(span, r.Kind)
		}
	case sglang.KindSlice:
		switch r.Stage {
		case sglang.StageDecodeLoop:
			return nil, r.Folded || p.decodeLoop == decodeLoopDrop
		case sglang.StageDecodeForward:
			return p.takeDecodeForward(r)
		}
	}
	return nil, false
}

// takeDecodeForward holds a span until its steps have come. One that a tier
// before has folded passes.
func (p *genaiProcessor) takeDecodeForward(r *assembly.Record) (*held, bool) {
	if p.decodeLoop == decodeLoopKeep || r.FoldedBefore > 0 {
		return nil, false
	}
	h := &held{}
	r.Payload = h
	return h, true
}

func (p *genaiProcessor) takeRoot(span ptrace.Span, r *assembly.Record) (*held, bool) {
	info := readRoot(span)
	r.Root = &info.known
	if !info.known.Done {
		span.Attributes().EnsureCapacity(span.Attributes().Len() + rootAttributes)
	}
	if p.normalize {
		normalizeName(span, sglang.KindRoot)
	}
	if info.known.Done {
		info.markSender(span)
		return nil, false
	}
	info.known.Payload = info
	return &info.held, true
}
