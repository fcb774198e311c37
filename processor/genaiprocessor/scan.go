// Copyright The otelcol-sglang Authors
// SPDX-License-Identifier: Apache-2.0

package genaiprocessor // import "github.com/otelcol-sglang/otelcol-sglang/processor/genaiprocessor"

import (
	"encoding/binary"
	"strconv"
	"strings"
	"time"

	"go.opentelemetry.io/collector/pdata/pcommon"
	"go.opentelemetry.io/collector/pdata/ptrace"

	"github.com/otelcol-sglang/otelcol-sglang/internal/sglang"
	"github.com/otelcol-sglang/otelcol-sglang/processor/genaiprocessor/internal/assembly"
	"github.com/otelcol-sglang/otelcol-sglang/processor/genaiprocessor/internal/presence"
	"github.com/otelcol-sglang/otelcol-sglang/processor/genaiprocessor/internal/steps"
)

// batch is one call's spans as numbers, in the order of the spans.
type batch struct {
	records []assembly.Record
	vllm    bool
	// steps and edits say that spans may have to be taken out or changed.
	steps, edits bool
	// heads and next chain the records of each shard, -1 at the end.
	heads [shardCount]int32
	next  []int32
	// held are the spans taken out of the resource that is being looked at.
	held []*held
	// left is what take was called with.
	left []assembly.Left
	take func(assembly.Left)
	// out is room for the spans that leave.
	out outgoing
}

func newBatch() *batch {
	b := &batch{}
	b.take = func(l assembly.Left) { b.left = append(b.left, l) }
	return b
}

func (b *batch) reset() {
	clear(b.records)
	clear(b.left)
	clear(b.out)
	*b = batch{records: b.records[:0], next: b.next[:0], held: b.held[:0], left: b.left[:0], take: b.take, out: b.out[:0]}
}

// scan reads every span of the engine, and takes off what must not leave.
func (p *genaiProcessor) scan(td ptrace.Traces, b *batch, now time.Time) {
	watched := p.presence.Watched()
	for _, rs := range td.ResourceSpans().All() {
		origin := origin{}
		p.strip.resource(rs.Resource().Attributes())
		for _, ss := range rs.ScopeSpans().All() {
			p.strip.resource(ss.Scope().Attributes())
			switch scope := ss.Scope().Name(); {
			case scope == sglang.ScopeName:
				if !origin.known {
					origin.read(rs.Resource().Attributes())
					p.noteEngine(origin.engine, now)
					if watched {
						p.noteSender(rs.Resource().Attributes(), &origin, now)
					}
				}
				for _, span := range ss.Spans().All() {
					p.strip.engine(span)
					b.add(span, &origin)
				}
				continue
			case strings.HasPrefix(scope, sglang.VLLMScopePrefix):
				b.vllm = true
			}
			for _, span := range ss.Spans().All() {
				p.strip.foreign(span)
			}
		}
	}
}

// origin is what a resource says of the process.
type origin struct {
	known  bool
	ranks  sglang.Ranks
	engine string
}

func (o *origin) read(attrs pcommon.Map) {
	o.known, o.ranks = true, sglang.NoRanks
	for key, v := range attrs.All() {
		switch key {
		case sglang.AttrResourceTPRank:
			o.ranks.TP = rank(v)
		case sglang.AttrResourcePPRank:
			o.ranks.PP = rank(v)
		case sglang.AttrResourceDPRank:
			o.ranks.DP = rank(v)
		case sglang.AttrEngineID:
			if id := v.Str(); len(id) <= maxText {
				o.engine = id
			}
		}
	}
}

// noteSender tells those who watch pages that an engine sends spans.
func (p *genaiProcessor) noteSender(attrs pcommon.Map, o *origin, now time.Time) {
	var names presence.Names
	for key, v := range attrs.All() {
		setName(&names, p.instanceFrom, key, v)
	}
	p.presence.Sent(o.engine, &names, o.ranks.DP, now)
}

// maxText is how long (bytes) a text may be that stays in memory or becomes a
// dimension; longer ones are of no use as such.
const maxText = 128

func rank(v pcommon.Value) int32 {
	if v.Type() != pcommon.ValueTypeInt || v.Int() < 0 || v.Int() > 1<<20 {
		return sglang.NoRank
	}
	return int32(v.Int())
}

var decodeLoopName = sglang.StageDecodeLoop.String()

// add appends the record of a span of the engine.
func (b *batch) add(span ptrace.Span, o *origin) {
	b.records = append(b.records, assembly.Record{}) // filled in place: it is large
	r := &b.records[len(b.records)-1]
	r.Trace = assembly.TraceID(span.TraceID())
	r.ID, r.Parent = spanID(span.SpanID()), spanID(span.ParentSpanID())
	r.Start, r.End = int64(span.StartTimestamp()), int64(span.EndTimestamp())
	r.Ranks, r.Engine = o.ranks, o.engine
	if r.ID == 0 {
		return // no valid span: passes as it is
	}
	// Most spans are decode steps; their name alone tells.
	if name := span.Name(); name == decodeLoopName {
		r.Stage = sglang.StageDecodeLoop
	} else {
		r.Stage = sglang.StageOf(name)
	}
	if r.Stage == sglang.StageDecodeLoop {
		r.Kind = sglang.KindSlice
		b.steps = true
		readStep(span, r)
		return
	}
	switch r.Kind = sglang.KindOf(span); r.Kind {
	case sglang.KindRoot, sglang.KindRoom:
		b.edits = true
	case sglang.KindThread:
		b.edits = true
		r.Thread = readThread(span)
	case sglang.KindSlice:
		readSlice(span, r)
		b.edits = b.edits || r.Stage == sglang.StageDecodeForward
	}
}

func spanID(id pcommon.SpanID) uint64 { return binary.BigEndian.Uint64(id[:]) }

func readStep(span ptrace.Span, r *assembly.Record) {
	r.Step = steps.Step{Number: steps.NoNumber, Start: r.Start, End: r.End}
	if v, ok := span.Attributes().Get(sglang.AttrDecodeCT); ok && v.Type() == pcommon.ValueTypeInt && v.Int() >= 0 {
		r.Step.Number = v.Int()
	}
	for _, event := range span.Events().All() {
		switch event.Name() {
		case sglang.EventRetract:
			r.Retracts = append(r.Retracts, int64(event.Timestamp()))
		case sglang.EventSchedule:
			if r.Step.BatchSize == 0 {
				readSchedule(event.Attributes(), &r.Step)
			}
		}
	}
}

func readSchedule(attrs pcommon.Map, s *steps.Step) {
	for key, v := range attrs.All() {
		switch key {
		case sglang.EventAttrBatchID:
			copy(s.BatchID[:], v.Str())
		case sglang.EventAttrBatchSize:
			if v.Type() == pcommon.ValueTypeInt {
				s.BatchSize = int32(min(max(v.Int(), 0), 1<<30))
			}
		}
	}
}

func readSlice(span ptrace.Span, r *assembly.Record) {
	if links := span.Links(); links.Len() > 0 && links.At(0).TraceID() == span.TraceID() {
		r.Link = spanID(links.At(0).SpanID())
	}
	r.Retracts = retracts(span.Events())
	if r.Stage != sglang.StageDecodeForward {
		return
	}
	if v, ok := span.Attributes().Get(sglang.AttrStepsCount); ok && v.Type() == pcommon.ValueTypeInt {
		r.FoldedBefore = max(0, v.Int())
	}
}

func retracts(events ptrace.SpanEventSlice) []int64 {
	var out []int64
	for _, event := range events.All() {
		if event.Name() == sglang.EventRetract {
			out = append(out, int64(event.Timestamp()))
		}
	}
	return out
}

func readThread(span ptrace.Span) *assembly.Thread {
	attrs := span.Attributes()
	th := sglang.ThreadOf(attrs)
	out := &assembly.Thread{
		Process: sglang.ProcessOf(th.Label), Ranks: th.Ranks,
		Slices: intOf(attrs, sglang.AttrThreadSpans), Retracts: retracts(span.Events()),
	}
	count, expected := intOf(attrs, sglang.AttrRanksCount), intOf(attrs, sglang.AttrRanksExpected)
	out.WithoutRanks = count >= 0 && count < expected
	if span.Status().Code() == ptrace.StatusCodeError {
		out.Failed, out.ErrorType = true, errorType(attrs)
	}
	return out
}

// intOf is the integer under a key, assembly.Unknown if there is none.
func intOf(attrs pcommon.Map, key string) int64 {
	if v, ok := attrs.Get(key); ok && v.Type() == pcommon.ValueTypeInt {
		return v.Int()
	}
	return assembly.Unknown
}

// errorType names the error of a thread span in few words: free text would make
// it useless as a dimension.
func errorType(attrs pcommon.Map) string {
	if v, ok := attrs.Get(sglang.AttrAbortErrType); ok && v.Str() != "" && len(v.Str()) <= maxText {
		return v.Str()
	}
	if v, ok := attrs.Get(sglang.AttrAbortStatusCode); ok && v.Type() == pcommon.ValueTypeInt {
		return strconv.FormatInt(v.Int(), 10)
	}
	if v, ok := attrs.Get(sglang.AttrAbortReason); ok && v.AsString() != sglang.AutoClosedReason {
		return sglang.ErrorTypeOther
	}
	return sglang.ErrorTypeAbort
}
