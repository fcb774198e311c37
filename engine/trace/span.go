// Copyright The otelcol-sglang Authors
// SPDX-License-Identifier: Apache-2.0

package trace // import "github.com/otelcol-sglang/otelcol-sglang/engine/trace"

import (
	"encoding/binary"
	"encoding/hex"

	"go.opentelemetry.io/collector/pdata/pcommon"
	"go.opentelemetry.io/collector/pdata/ptrace"

	"github.com/otelcol-sglang/otelcol-sglang/internal/sglang"
)

// Flags of spans and links: whether the parent, or the span linked to, is known to
// be of another process.
const (
	flagsLocal  = 0x100
	flagsRemote = 0x300
)

// span is one ended span on its way out. Times are Unix ns.
type span struct {
	trace      pcommon.TraceID
	id, parent pcommon.SpanID
	flags      uint32
	name       string
	start, end int64
	link       link
	// number is the value of decode_ct or pp_mb_id; numberKey is "" without one.
	numberKey string
	number    int64
	events    []event
	// thread is whose thread span this is, nil for others.
	thread *proc
	attrs  []attr
	failed bool
}

// link is to a span of the same trace; the zero link is none.
type link struct {
	to    pcommon.SpanID
	flags uint32
}

type event struct {
	name string
	at   int64
	// Of schedule events; mode is "" for others.
	bid  uint32
	size int
	mode string
}

// attr is one attribute; the value is that of kind.
type attr struct {
	key   string
	kind  pcommon.ValueType
	text  string
	int   int64
	float float64
}

func textAttr(key, v string) attr { return attr{key: key, kind: pcommon.ValueTypeStr, text: v} }

func intAttr(key string, v int64) attr { return attr{key: key, kind: pcommon.ValueTypeInt, int: v} }

func floatAttr(key string, v float64) attr {
	return attr{key: key, kind: pcommon.ValueTypeDouble, float: v}
}

func (a *attr) put(m pcommon.Map) {
	switch a.kind {
	case pcommon.ValueTypeInt:
		m.PutInt(a.key, a.int)
	case pcommon.ValueTypeDouble:
		m.PutDouble(a.key, a.float)
	default:
		m.PutStr(a.key, a.text)
	}
}

func (s *span) write(to ptrace.Span) {
	to.SetTraceID(s.trace)
	to.SetSpanID(s.id)
	to.SetParentSpanID(s.parent)
	to.SetFlags(s.flags)
	to.SetName(s.name)
	to.SetKind(ptrace.SpanKindInternal)
	to.SetStartTimestamp(pcommon.Timestamp(s.start))
	to.SetEndTimestamp(pcommon.Timestamp(s.end))
	if s.failed {
		to.Status().SetCode(ptrace.StatusCodeError)
	}
	s.writeAttributes(to.Attributes())
	if !s.link.to.IsEmpty() {
		l := to.Links().AppendEmpty()
		l.SetTraceID(s.trace)
		l.SetSpanID(s.link.to)
		l.SetFlags(s.link.flags)
	}
	for i := range s.events {
		s.events[i].write(to.Events().AppendEmpty())
	}
}

func (s *span) writeAttributes(m pcommon.Map) {
	switch {
	case s.thread != nil:
		m.EnsureCapacity(6 + len(s.attrs))
		s.thread.writeAttributes(m)
	case s.numberKey != "":
		m.PutInt(s.numberKey, s.number)
	case len(s.attrs) > 0:
		m.EnsureCapacity(len(s.attrs))
	}
	for i := range s.attrs {
		s.attrs[i].put(m)
	}
}

func (e *event) write(to ptrace.SpanEvent) {
	to.SetName(e.name)
	to.SetTimestamp(pcommon.Timestamp(e.at))
	if e.mode == "" {
		return
	}
	m := to.Attributes()
	m.EnsureCapacity(3)
	m.PutStr(sglang.EventAttrBatchID, hex.EncodeToString(binary.BigEndian.AppendUint32(nil, e.bid)))
	m.PutInt(sglang.EventAttrBatchSize, int64(e.size))
	m.PutStr(sglang.EventAttrForwardMode, e.mode)
}
