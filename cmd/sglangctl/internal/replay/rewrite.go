// Copyright The otelcol-sglang Authors
// SPDX-License-Identifier: Apache-2.0

package replay // import "github.com/otelcol-sglang/otelcol-sglang/cmd/sglangctl/internal/replay"

import (
	"strings"
	"time"

	"go.opentelemetry.io/collector/pdata/pcommon"
	"go.opentelemetry.io/collector/pdata/ptrace"

	"github.com/otelcol-sglang/otelcol-sglang/internal/sglang"
)

// attrInstanceID names a process; newer OpenTelemetry SDKs set a random one.
const attrInstanceID = "service.instance.id"

// rewrite makes a recorded export that of another run.
type rewrite struct {
	// engine names the processes, run the requests of one repetition.
	engine, run identity
	// shift is added to every time.
	shift time.Duration
}

// apply returns a rewritten copy of the traces.
func (r rewrite) apply(recorded ptrace.Traces) ptrace.Traces {
	traces := ptrace.NewTraces()
	recorded.CopyTo(traces)
	for _, rs := range traces.ResourceSpans().All() {
		if id, ok := rs.Resource().Attributes().Get(attrInstanceID); ok {
			id.SetStr(r.engine.digits(id.Str(), id.Str()))
		}
		for _, ss := range rs.ScopeSpans().All() {
			for _, span := range ss.Spans().All() {
				r.span(span)
			}
		}
	}
	return traces
}

func (r rewrite) span(span ptrace.Span) {
	span.SetTraceID(r.run.traceID(span.TraceID()))
	span.SetSpanID(r.run.spanID(span.SpanID()))
	span.SetParentSpanID(r.run.spanID(span.ParentSpanID()))
	span.SetStartTimestamp(r.time(span.StartTimestamp()))
	span.SetEndTimestamp(r.time(span.EndTimestamp()))
	for _, link := range span.Links().All() {
		link.SetTraceID(r.run.traceID(link.TraceID()))
		link.SetSpanID(r.run.spanID(link.SpanID()))
	}
	for _, event := range span.Events().All() {
		event.SetTimestamp(r.time(event.Timestamp()))
	}
	r.request(span)
}

// time leaves 0, which is "not set".
func (r rewrite) time(t pcommon.Timestamp) pcommon.Timestamp {
	if t == 0 {
		return t
	}
	return pcommon.Timestamp(int64(t) + int64(r.shift))
}

// request rewrites what names the request on a root: its name, rid, full id and
// bootstrap room.
func (r rewrite) request(span ptrace.Span) {
	attrs := span.Attributes()
	if v, ok := attrs.Get(sglang.AttrRID); ok && v.Type() == pcommon.ValueTypeStr {
		rid := r.run.requestID(v.Str())
		span.SetName(renamed(span.Name(), v.Str(), rid))
		v.SetStr(rid)
	}
	if v, ok := attrs.Get(sglang.AttrRequestID); ok && v.Type() == pcommon.ValueTypeStr {
		v.SetStr(r.run.requestID(v.Str()))
	}
	v, ok := attrs.Get(sglang.AttrBootstrapRoom)
	switch {
	case !ok:
	case v.Type() == pcommon.ValueTypeStr:
		v.SetStr(r.run.roomText(v.Str()))
	case v.Type() == pcommon.ValueTypeInt && v.Int() > 0:
		v.SetInt(int64(r.run.room(uint64(v.Int()))))
	}
}

// renamed puts the new rid into a root's name, "{role} Req {rid[:8]}".
func renamed(name, was, is string) string {
	const mark = "Req "
	at := strings.LastIndex(name, mark)
	if at < 0 {
		return name
	}
	head, short := name[:at+len(mark)], name[at+len(mark):]
	if short == "" || !strings.HasPrefix(was, short) {
		return name
	}
	return head + is[:min(len(short), len(is))]
}
