// Copyright The otelcol-sglang Authors
// SPDX-License-Identifier: Apache-2.0

package request

import (
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"go.opentelemetry.io/collector/pdata/pcommon"
	"go.opentelemetry.io/collector/pdata/ptrace"

	"github.com/otelcol-sglang/otelcol-sglang/internal/sglang"
)

// TestLargeTrace: 20 000 steps are a few lines, and none of them is hidden
// without a word.
func TestLargeTrace(t *testing.T) {
	const steps = 20_000
	td := ptrace.NewTraces()
	spans := td.ResourceSpans().AppendEmpty().ScopeSpans().AppendEmpty().Spans()
	add := func(id, parent uint16, name string, from, to time.Duration) ptrace.Span {
		s := spans.AppendEmpty()
		s.SetTraceID(pcommon.TraceID{15: 1})
		s.SetSpanID(pcommon.SpanID{0: 1, 6: byte(id >> 8), 7: byte(id)})
		if parent != 0 {
			s.SetParentSpanID(pcommon.SpanID{0: 1, 6: byte(parent >> 8), 7: byte(parent)})
		}
		s.SetName(name)
		s.SetStartTimestamp(pcommon.Timestamp(from))
		s.SetEndTimestamp(pcommon.Timestamp(to))
		return s
	}
	add(1, 0, " Req 1", 0, steps*time.Millisecond).Attributes().PutStr(sglang.AttrRID, "12345")
	add(2, 1, "Scheduler", 0, steps*time.Millisecond).Attributes().PutStr(sglang.AttrThreadLabel, "Scheduler")
	add(3, 2, "decode_forward", 0, steps*time.Millisecond)
	for i := range uint16(steps) {
		at := time.Duration(i) * time.Millisecond
		add(4+i, 3, "decode_loop", at, at+time.Millisecond)
	}
	out := printed(t, Printer{}, []ptrace.Traces{td}, Last)
	assert.Less(t, strings.Count(out, "\n"), 30, out)
	assert.Contains(t, out, "20 003 spans")
	assert.Contains(t, out, "... 19996 more decode_loop")
}
