// Copyright The otelcol-sglang Authors
// SPDX-License-Identifier: Apache-2.0

package genaiprocessor

import (
	"encoding/binary"
	"time"

	"go.opentelemetry.io/collector/pdata/pcommon"
	"go.opentelemetry.io/collector/pdata/ptrace"

	"github.com/otelcol-sglang/otelcol-sglang/internal/sglang"
)

// story writes the spans of one request; times are milliseconds from its start.
type story struct {
	trace  pcommon.TraceID
	root   pcommon.SpanID
	parent pcommon.SpanID
	name   string
	at     time.Time
	length float64
	attrs  map[string]any
	engine string
	td     ptrace.Traces
	spans  ptrace.SpanSlice
	links  map[string]pcommon.SpanID
}

var nextID uint64

func newID() (id pcommon.SpanID) {
	nextID++
	binary.BigEndian.PutUint64(id[:], nextID*0x9e3779b97f4a7c15)
	return id
}

func newStory(length float64, attrs map[string]any) *story {
	s := &story{name: " Req 0001", at: time.Unix(1_700_000_000, 0), length: length, attrs: attrs, root: newID()}
	id := newID()
	copy(s.trace[8:], id[:])
	s.td = ptrace.NewTraces()
	s.links = map[string]pcommon.SpanID{}
	return s
}

func (s *story) stamp(ms float64) pcommon.Timestamp {
	return pcommon.NewTimestampFromTime(s.at.Add(time.Duration(ms * 1e6)))
}

// process begins the spans of one process.
func (s *story) process() {
	rs := s.td.ResourceSpans().AppendEmpty()
	rs.Resource().Attributes().PutStr("service.name", "sglang")
	if s.engine != "" {
		rs.Resource().Attributes().PutStr(sglang.AttrEngineID, s.engine)
	}
	ss := rs.ScopeSpans().AppendEmpty()
	ss.Scope().SetName(sglang.ScopeName)
	s.spans = ss.Spans()
}

func (s *story) span(parent pcommon.SpanID, name string, from, to float64) ptrace.Span {
	span := s.spans.AppendEmpty()
	span.SetTraceID(s.trace)
	span.SetSpanID(newID())
	span.SetParentSpanID(parent)
	span.SetName(name)
	span.SetStartTimestamp(s.stamp(from))
	span.SetEndTimestamp(s.stamp(to))
	return span
}

// stage is a slice below a thread.
type stage struct {
	name     string
	from, to float64
}

// thread writes a thread with its slices in a chain; the first links to the
// span last named in links[after].
func (s *story) thread(label string, tp int64, after string, stages ...stage) ptrace.Span {
	id := newID()
	last := s.links[after]
	from, to := 1e9, 0.0
	for _, st := range stages {
		slice := s.span(id, st.name, st.from, st.to)
		if last != (pcommon.SpanID{}) {
			link := slice.Links().AppendEmpty()
			link.SetTraceID(s.trace)
			link.SetSpanID(last)
		}
		last = slice.SpanID()
		s.links[st.name] = last
		from, to = min(from, st.from), max(to, st.to)
	}
	th := s.span(s.root, label+" (host:0f | pid:1)", min(from, to), to)
	th.SetSpanID(id)
	th.Attributes().PutStr(sglang.AttrThreadLabel, label)
	if tp >= 0 {
		th.Attributes().PutInt(sglang.AttrTPRank, tp)
		th.Attributes().PutInt(sglang.AttrPPRank, 0)
	}
	return th
}

func (s *story) frontEnd() *story {
	s.process()
	s.thread("Tokenizer", -1, "", stage{"tokenize", 0, 2}, stage{"api_server_dispatch", 2, 3})
	return s
}

func (s *story) scheduler(stages ...stage) ptrace.Span {
	s.process()
	return s.thread("Scheduler", 0, "api_server_dispatch", stages...)
}

// steps writes decode steps below the decode_forward that was named last.
func (s *story) steps(n int, from, each float64) {
	for i := range n {
		at := from + float64(i)*each
		step := s.span(s.links["decode_forward"], "decode_loop", at, at+each)
		step.Attributes().PutInt(sglang.AttrDecodeCT, int64(i))
		e := step.Events().AppendEmpty()
		e.SetName(sglang.EventSchedule)
		e.SetTimestamp(s.stamp(at))
		e.Attributes().PutStr(sglang.EventAttrBatchID, "0a1b2c3d")
		e.Attributes().PutInt(sglang.EventAttrBatchSize, 4)
	}
}

// end writes the root.
func (s *story) end() ptrace.Traces {
	s.process()
	root := s.span(s.parent, s.name, 0, s.length)
	root.SetSpanID(s.root)
	root.Attributes().PutStr(sglang.AttrRID, "1")
	root.Attributes().PutStr(sglang.AttrModule, sglang.ModuleRequest)
	for key, v := range s.attrs {
		switch v := v.(type) {
		case int:
			root.Attributes().PutInt(key, int64(v))
		case float64:
			root.Attributes().PutDouble(key, v)
		case string:
			root.Attributes().PutStr(key, v)
		case bool:
			root.Attributes().PutBool(key, v)
		}
	}
	return s.td
}

// plainStory is an ordinary request of a second.
func plainStory(attrs map[string]any) *story {
	s := newStory(1000, attrs).frontEnd()
	s.scheduler(stage{"request_process", 4, 5}, stage{"prefill_waiting", 5, 105},
		stage{"prefill_forward", 105, 200}, stage{"decode_forward", 200, 999})
	return s
}

// finished are the attributes of an ordinary root.
func finished(tokens int, more ...any) map[string]any {
	out := map[string]any{
		sglang.AttrPromptTokens: 10, sglang.AttrCompletionTokens: tokens, sglang.AttrCachedTokens: 4,
		sglang.AttrRequestID: "chatcmpl_1", sglang.AttrResponseModel: "m", sglang.AttrFinishReasons: `["stop"]`,
	}
	for i := 0; i < len(more); i += 2 {
		out[more[i].(string)] = more[i+1]
	}
	return out
}

// split gives each span a batch of its own.
func split(td ptrace.Traces) []ptrace.Traces {
	var out []ptrace.Traces
	eachSpan([]ptrace.Traces{td}, func(rs ptrace.ResourceSpans, ss ptrace.ScopeSpans, s ptrace.Span) {
		one := ptrace.NewTraces()
		to := one.ResourceSpans().AppendEmpty()
		rs.Resource().CopyTo(to.Resource())
		scope := to.ScopeSpans().AppendEmpty()
		ss.Scope().CopyTo(scope.Scope())
		s.CopyTo(scope.Spans().AppendEmpty())
		out = append(out, one)
	})
	return out
}
