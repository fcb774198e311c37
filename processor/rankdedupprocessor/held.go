// Copyright The otelcol-sglang Authors
// SPDX-License-Identifier: Apache-2.0

package rankdedupprocessor // import "github.com/otelcol-sglang/otelcol-sglang/processor/rankdedupprocessor"

import (
	"go.opentelemetry.io/collector/pdata/pcommon"
	"go.opentelemetry.io/collector/pdata/ptrace"

	"github.com/otelcol-sglang/otelcol-sglang/internal/sglang"
	"github.com/otelcol-sglang/otelcol-sglang/processor/rankdedupprocessor/internal/fold"
	"github.com/otelcol-sglang/otelcol-sglang/processor/rankdedupprocessor/internal/identity"
)

// heldOverhead is what a held span occupies beside its encoded size, in bytes,
// estimated: pdata's structs, the item, the queue.
const heldOverhead = 600

// held is the payload of an item: a span out of its batch, and where it came from.
type held struct {
	span   ptrace.Span
	from   *envelope
	sender fold.Origin
	bytes  int64
}

// envelope is a span's resource and scope; shared by the spans of one batch
// that are held.
type envelope struct {
	resource          pcommon.Resource
	scope             pcommon.InstrumentationScope
	resourceSchemaURL string
	scopeSchemaURL    string
	unpaid            int64 // bytes that no held span accounts for
}

var encoder ptrace.ProtoMarshaler

// newHeld moves the entry's span out of its batch.
func newHeld(b *batch, e *entry) *held {
	h := &held{span: ptrace.NewSpan(), from: b.homes[e.home].seal(), sender: b.origin(e)}
	e.span.MoveTo(h.span)
	h.bytes = int64(2*encoder.SpanSize(h.span)) + heldOverhead + h.from.unpaid
	h.from.unpaid = 0
	return h
}

// seal returns the copy of the resource and scope that held spans share.
func (h *home) seal() *envelope {
	if h.envelope == nil {
		h.envelope = &envelope{
			resource:          pcommon.NewResource(),
			scope:             pcommon.NewInstrumentationScope(),
			resourceSchemaURL: h.resource.SchemaUrl(),
			scopeSchemaURL:    h.scope.SchemaUrl(),
		}
		h.envelope.unpaid = sizeOf(h.resource.Resource().Attributes()) + sizeOf(h.scope.Scope().Attributes())
		h.resource.Resource().CopyTo(h.envelope.resource)
		h.scope.Scope().CopyTo(h.envelope.scope)
	}
	return h.envelope
}

// sizeOf estimates the memory that attributes occupy, in bytes.
func sizeOf(attrs pcommon.Map) (sum int64) {
	const overhead = 100
	for key, v := range attrs.All() {
		sum += overhead + int64(len(key))
		switch v.Type() {
		case pcommon.ValueTypeStr:
			sum += int64(len(v.Str()))
		case pcommon.ValueTypeMap, pcommon.ValueTypeSlice, pcommon.ValueTypeBytes:
			sum += int64(len(v.AsString()))
		}
	}
	return sum
}

// assemble moves released spans into a batch. Spans of one process share a
// resource; those of one trace that follow each other keep their order.
func assemble(releases []fold.Release) ptrace.Traces {
	td := ptrace.NewTraces()
	var open openResources
	for i := range releases {
		r := &releases[i]
		h := r.Payload.(*held)
		span := open.spansFor(td, h, r).AppendEmpty()
		h.span.MoveTo(span)
		writeIDs(span, &r.Span)
		if r.Digest != nil {
			writeDigest(span.Attributes(), r.Digest)
		}
	}
	return td
}

// openResources are the resources of a batch that is being built.
type openResources struct {
	all   []openResource
	trace fold.TraceID // of the latest span
	least int          // index that the next span of that trace must not go before
}

type openResource struct {
	from  *envelope
	proc  *identity.Proc
	spans ptrace.SpanSlice
}

// maxReopened bounds how many resources are looked through for a span.
const maxReopened = 16

// spansFor returns where a span goes: to an earlier one of its process if none
// of its trace went behind that.
func (o *openResources) spansFor(td ptrace.Traces, h *held, r *fold.Release) ptrace.SpanSlice {
	if r.Span.Trace != o.trace {
		o.trace, o.least = r.Span.Trace, 0
	}
	for i := len(o.all) - 1; i >= max(o.least, len(o.all)-maxReopened); i-- {
		if o.all[i].from == h.from && o.all[i].proc == r.Proc {
			o.least = i
			return o.all[i].spans
		}
	}
	o.least = len(o.all)
	o.all = append(o.all, openResource{h.from, r.Proc, h.open(td, r)})
	return o.all[o.least].spans
}

// open adds the span's resource and scope to a batch.
func (h *held) open(td ptrace.Traces, r *fold.Release) ptrace.SpanSlice {
	rs := td.ResourceSpans().AppendEmpty()
	h.from.resource.CopyTo(rs.Resource())
	rs.SetSchemaUrl(h.from.resourceSchemaURL)
	origin := h.sender
	if r.Proc != nil {
		origin.Proc = r.Proc
	}
	writeOrigin(rs.Resource(), origin)
	ss := rs.ScopeSpans().AppendEmpty()
	h.from.scope.CopyTo(ss.Scope())
	ss.SetSchemaUrl(h.from.scopeSchemaURL)
	return ss.Spans()
}

func writeIDs(span ptrace.Span, to *fold.Span) {
	span.SetSpanID(spanID(to.ID))
	if to.Parent != 0 {
		span.SetParentSpanID(spanID(to.Parent))
	}
	if to.Link != 0 && span.Links().Len() > 0 {
		span.Links().At(0).SetSpanID(spanID(to.Link))
	}
}

// writeDigest puts what the folded copies knew on a kept thread span.
func writeDigest(attrs pcommon.Map, d *fold.Digest) {
	attrs.PutInt(sglang.AttrThreadSpans, int64(d.Slices))
	attrs.PutInt(sglang.AttrRanksCount, int64(d.Ranks))
	if d.Expected > 0 {
		attrs.PutInt(sglang.AttrRanksExpected, int64(d.Expected))
	}
	if !d.Compared {
		return
	}
	if d.Slowest != sglang.NoRank {
		attrs.PutInt(sglang.AttrRanksSlowest, int64(d.Slowest))
		attrs.PutDouble(sglang.AttrRanksSlowestShare, d.SlowestShare)
	}
	attrs.PutDouble(sglang.AttrRanksSkew, d.MaxSkew.Seconds())
	for stage, skew := range d.Skew {
		if skew > 0 {
			attrs.PutDouble(skewKeys[stage], skew.Seconds())
		}
	}
}

// skewKeys are the attribute names per stage.
var skewKeys = func() (keys [fold.StageSlots]string) {
	for stage := range keys {
		keys[stage] = sglang.AttrRanksSkewPrefix + sglang.Stage(stage).String()
	}
	return keys
}()

// priorDigest reads what an earlier tier wrote on a thread span, nil if nothing.
func priorDigest(attrs pcommon.Map) *fold.Digest {
	count, ok := attrs.Get(sglang.AttrRanksCount)
	if !ok || sglang.RankOf(count) == sglang.NoRank {
		return nil
	}
	d := &fold.Digest{Ranks: int(sglang.RankOf(count)), Slowest: sglang.NoRank}
	if v, ok := attrs.Get(sglang.AttrRanksExpected); ok {
		d.Expected = int(max(sglang.RankOf(v), 0))
	}
	_, d.Compared = attrs.Get(sglang.AttrRanksSkew)
	if v, ok := attrs.Get(sglang.AttrRanksSlowest); ok {
		d.Slowest = sglang.RankOf(v)
	}
	if v, ok := attrs.Get(sglang.AttrRanksSlowestShare); ok {
		d.SlowestShare = shareOf(v)
	}
	for stage := range d.Skew {
		if v, ok := attrs.Get(skewKeys[stage]); ok {
			d.Skew[stage] = secondsOf(v)
			d.MaxSkew = max(d.MaxSkew, d.Skew[stage])
		}
	}
	return d
}
