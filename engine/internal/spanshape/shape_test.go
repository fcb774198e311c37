// Copyright The otelcol-sglang Authors
// SPDX-License-Identifier: Apache-2.0

package spanshape

import (
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"go.opentelemetry.io/collector/pdata/pcommon"
	"go.opentelemetry.io/collector/pdata/ptrace"

	"github.com/otelcol-sglang/otelcol-sglang/internal/capture"
	"github.com/otelcol-sglang/otelcol-sglang/internal/sglang"
)

const capturesDir = "../../../testdata/captures/traces"

// TestTellsApart: what is random leaves no trace, and all else does.
func TestTellsApart(t *testing.T) {
	exports, err := capture.Load(capturesDir, "traces-retraction-tp2")
	require.NoError(t, err)
	load := func(change func(ptrace.Span)) (string, map[string]int) {
		var tds []ptrace.Traces
		for _, e := range exports {
			td := ptrace.NewTraces()
			e.Traces.CopyTo(td)
			for _, rs := range td.ResourceSpans().All() {
				for _, ss := range rs.ScopeSpans().All() {
					for _, s := range ss.Spans().All() {
						change(s)
					}
				}
			}
			tds = append(tds, td)
		}
		text := ""
		for _, tree := range Trees(tds...) {
			text += tree.String()
		}
		return text, Kinds(tds...)
	}
	text, kinds := load(func(ptrace.Span) {})
	loop := func(s ptrace.Span) bool { return s.Name() == "decode_loop" }
	for name, tc := range map[string]struct {
		change func(ptrace.Span)
		same   bool
	}{
		"another trace": {func(s ptrace.Span) {
			id := s.TraceID()
			id[15] ^= 1
			s.SetTraceID(id)
			for _, l := range s.Links().All() {
				l.SetTraceID(id)
			}
		}, true},
		"another pid": {func(s ptrace.Span) {
			if sglang.KindOf(s) == sglang.KindThread {
				s.Attributes().PutInt(sglang.AttrPID, 1)
			}
		}, true},
		"another time": {func(s ptrace.Span) { s.SetStartTimestamp(s.StartTimestamp() + 1e9) }, true},
		"flags": {func(s ptrace.Span) {
			if loop(s) {
				s.SetFlags(1)
			}
		}, false},
		"type of a value": {func(s ptrace.Span) {
			if loop(s) {
				s.Attributes().PutDouble(sglang.AttrDecodeCT, 1)
			}
		}, false},
		"status":       {func(s ptrace.Span) { s.Status().SetCode(ptrace.StatusCodeError) }, false},
		"lost parents": {func(s ptrace.Span) { s.SetParentSpanID(pcommon.SpanID{9}) }, false},
		"link to nothing": {func(s ptrace.Span) {
			for _, l := range s.Links().All() {
				l.SetSpanID(pcommon.SpanID{9})
			}
		}, false},
		"no events": {func(s ptrace.Span) { s.Events().RemoveIf(func(ptrace.SpanEvent) bool { return true }) }, false},
		"forward mode": {func(s ptrace.Span) {
			for _, e := range s.Events().All() {
				e.Attributes().PutStr(sglang.EventAttrForwardMode, "x")
			}
		}, false},
	} {
		t.Run(name, func(t *testing.T) {
			otherText, otherKinds := load(tc.change)
			assert.Equal(t, tc.same, text == otherText)
			assert.Equal(t, tc.same, len(Missing(kinds, otherKinds)) == 0)
		})
	}
}
