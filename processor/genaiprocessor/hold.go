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

var sizer ptrace.ProtoMarshaler

// hold moves a span out of its batch; the caller removes the empty one. In memory
// it takes what it takes on the wire, texts above all, and some per value.
func hold(rs ptrace.ResourceSpans, ss ptrace.ScopeSpans, span ptrace.Span) held {
	const base, perAttribute = 700, 70
	h := held{traces: ptrace.NewTraces()}
	to := h.traces.ResourceSpans().AppendEmpty()
	rs.Resource().CopyTo(to.Resource())
	to.SetSchemaUrl(rs.SchemaUrl())
	scope := to.ScopeSpans().AppendEmpty()
	ss.Scope().CopyTo(scope.Scope())
	scope.SetSchemaUrl(ss.SchemaUrl())
	h.bytes = base + perAttribute*(span.Attributes().Len()+rs.Resource().Attributes().Len()+
		span.Events().Len()+span.Links().Len())
	span.MoveTo(scope.Spans().AppendEmpty())
	h.bytes += sizer.ResourceSpansSize(to)
	return h
}

// takeOut removes from the batch what is held or folded, and gives spans their
// normalized names.
func (p *genaiProcessor) takeOut(td ptrace.Traces, b *batch) {
	next := 0
	td.ResourceSpans().RemoveIf(func(rs ptrace.ResourceSpans) bool {
		rs.ScopeSpans().RemoveIf(func(ss ptrace.ScopeSpans) bool {
			if ss.Scope().Name() != sglang.ScopeName || ss.Spans().Len() == 0 {
				return false
			}
			ss.Spans().RemoveIf(func(span ptrace.Span) bool {
				next++
				return p.takeSpan(rs, ss, span, &b.records[next-1])
			})
			return ss.Spans().Len() == 0
		})
		return rs.ScopeSpans().Len() == 0
	})
}

func (p *genaiProcessor) takeSpan(
	rs ptrace.ResourceSpans, ss ptrace.ScopeSpans, span ptrace.Span, r *assembly.Record,
) bool {
	switch r.Kind {
	case sglang.KindRoot:
		return p.takeRoot(rs, ss, span, r)
	case sglang.KindThread, sglang.KindRoom:
		if p.normalize {
			normalizeName(span, r.Kind)
		}
	case sglang.KindSlice:
		switch r.Stage {
		case sglang.StageDecodeLoop:
			return r.Folded || p.decodeLoop == decodeLoopDrop
		case sglang.StageDecodeForward:
			return p.takeDecodeForward(rs, ss, span, r)
		}
	}
	return false
}

// takeDecodeForward holds a span until its steps have come. One that a tier
// before has folded passes.
func (p *genaiProcessor) takeDecodeForward(
	rs ptrace.ResourceSpans, ss ptrace.ScopeSpans, span ptrace.Span, r *assembly.Record,
) bool {
	if p.decodeLoop == decodeLoopKeep || r.FoldedBefore > 0 {
		return false
	}
	h := hold(rs, ss, span)
	r.Payload = &h
	return true
}

func (p *genaiProcessor) takeRoot(
	rs ptrace.ResourceSpans, ss ptrace.ScopeSpans, span ptrace.Span, r *assembly.Record,
) bool {
	info := readRoot(span)
	r.Root = &assembly.Root{Role: info.role, EncoderLike: info.encoderLike(), Done: info.done()}
	if p.normalize {
		normalizeName(span, sglang.KindRoot)
	}
	if r.Root.Done {
		info.markSender(span)
		return false
	}
	info.held = hold(rs, ss, span)
	r.Root.Payload = info
	return true
}
