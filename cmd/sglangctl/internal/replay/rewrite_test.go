// Copyright The otelcol-sglang Authors
// SPDX-License-Identifier: Apache-2.0

package replay

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"go.opentelemetry.io/collector/pdata/pcommon"
	"go.opentelemetry.io/collector/pdata/ptrace"
	"pgregory.net/rapid"

	"github.com/otelcol-sglang/otelcol-sglang/internal/capture"
	"github.com/otelcol-sglang/otelcol-sglang/internal/sglang"
)

const testCaptures = "../../../../testdata/captures/traces"

// shape numbers ids in the order in which they appear and spells out the rest,
// so two recordings have one shape exactly if they are isomorphic.
type shape struct {
	ids  map[string]int
	text strings.Builder
}

func (s *shape) id(id string) int {
	if n, ok := s.ids[id]; ok {
		return n
	}
	s.ids[id] = len(s.ids)
	return s.ids[id]
}

func (s *shape) time(t pcommon.Timestamp, shift time.Duration) int64 { return int64(t) - int64(shift) }

func (s *shape) span(span ptrace.Span, shift time.Duration) {
	fmt.Fprintf(&s.text, "%d %d %d %d %d", s.id(span.TraceID().String()), s.id(span.SpanID().String()),
		s.id(span.ParentSpanID().String()), s.time(span.StartTimestamp(), shift), s.time(span.EndTimestamp(), shift))
	for _, l := range span.Links().All() {
		fmt.Fprintf(&s.text, " link %d %d %d", s.id(l.TraceID().String()), s.id(l.SpanID().String()), l.Flags())
	}
	for _, e := range span.Events().All() {
		fmt.Fprintf(&s.text, " event %s %d %v", e.Name(), s.time(e.Timestamp(), shift), e.Attributes().AsRaw())
	}
	root := sglang.KindOf(span) == sglang.KindRoot
	name := span.Name()
	for key, v := range span.Attributes().All() {
		value := v.AsString()
		switch key {
		case sglang.AttrRID:
			name = strings.ReplaceAll(name, value[:8], "RID")
			value = fmt.Sprint(s.id("rid" + value))
		case sglang.AttrBootstrapRoom:
			value = fmt.Sprint(s.id("room" + value))
		case sglang.AttrRequestID:
			value = fmt.Sprint(s.id("rid" + value[strings.LastIndexByte(value, '_')+1:]))
		}
		fmt.Fprintf(&s.text, " %s=%s", key, value)
	}
	fmt.Fprintf(&s.text, " %s %t\n", name, root)
}

func shapeOf(exports []ptrace.Traces, shift time.Duration) string {
	s := &shape{ids: map[string]int{"": -1}}
	for _, traces := range exports {
		for _, rs := range traces.ResourceSpans().All() {
			id, _ := rs.Resource().Attributes().Get(attrInstanceID)
			fmt.Fprintf(&s.text, "resource %d\n", s.id("instance"+id.AsString()))
			for _, ss := range rs.ScopeSpans().All() {
				for _, span := range ss.Spans().All() {
					s.span(span, shift)
				}
			}
		}
	}
	return s.text.String()
}

// recording is a capture and its shape.
type recording struct {
	name   string
	traces []ptrace.Traces
	shape  string
}

func recordings(t *testing.T) []recording {
	names, err := capture.Names(testCaptures)
	require.NoError(t, err)
	require.NotEmpty(t, names)
	all := make([]recording, len(names))
	for i, name := range names {
		exports, err := capture.Load(testCaptures, name)
		require.NoError(t, err)
		all[i].name = name
		for _, x := range exports {
			all[i].traces = append(all[i].traces, x.Traces)
		}
		all[i].shape = shapeOf(all[i].traces, 0)
	}
	return all
}

func checkRewrite(t require.TestingT, rec recording, r rewrite) {
	rewritten := make([]ptrace.Traces, len(rec.traces))
	for i := range rec.traces {
		rewritten[i] = r.apply(rec.traces[i])
	}
	if rec.shape != shapeOf(rewritten, r.shift) { // shapes are too long to print
		require.Fail(t, "rewriting changed more than ids", rec.name)
	}
	assertNoIDShared(t, rec.traces, rewritten)
}

func TestRewriteIsIsomorphic(t *testing.T) {
	all := recordings(t)
	for _, rec := range all {
		checkRewrite(t, rec, rewrite{engine: 1, run: 2, shift: time.Hour})
	}
	rapid.Check(t, func(t *rapid.T) {
		checkRewrite(t, rapid.SampledFrom(all).Draw(t, "capture"), rewrite{
			engine: identity(rapid.Uint64().Draw(t, "engine")), run: identity(rapid.Uint64().Draw(t, "run")),
			shift: time.Duration(rapid.Int64Range(-1e15, 1e15).Draw(t, "shift")),
		})
	})
}

func assertNoIDShared(t require.TestingT, a, b []ptrace.Traces) {
	seen, kept := map[pcommon.SpanID]bool{}, 0
	eachSpan(a, func(s ptrace.Span) { seen[s.SpanID()] = true })
	eachSpan(b, func(s ptrace.Span) {
		if seen[s.SpanID()] {
			kept++
		}
	})
	require.Zero(t, kept, "span ids were kept")
}

func eachSpan(exports []ptrace.Traces, take func(ptrace.Span)) {
	for _, traces := range exports {
		for _, rs := range traces.ResourceSpans().All() {
			for _, ss := range rs.ScopeSpans().All() {
				for _, span := range ss.Spans().All() {
					take(span)
				}
			}
		}
	}
}

func TestRewriteLeavesTheRecordingAlone(t *testing.T) {
	exports, err := capture.Load(testCaptures, "traces-retraction-tp2")
	require.NoError(t, err)
	before := ptrace.NewTraces()
	exports[0].Traces.CopyTo(before)
	rewrite{engine: 1, run: 2, shift: time.Hour}.apply(exports[0].Traces)
	assert.Equal(t, shapeOf([]ptrace.Traces{before}, 0), shapeOf([]ptrace.Traces{exports[0].Traces}, 0))
}

func TestRenamed(t *testing.T) {
	for _, tc := range []struct{ name, was, is, want string }{
		{" Req fb34ccc5", "fb34ccc515f5", "0011223344", " Req 00112233"},
		{"prefill Req fb34ccc5", "fb34ccc515f5", "0011223344", "prefill Req 00112233"},
		{" Req 42", "42", "42-0011", " Req 42"},
		{"request", "fb34ccc515f5", "0011223344", "request"},
		{" Req other", "fb34ccc515f5", "0011223344", " Req other"},
	} {
		assert.Equal(t, tc.want, renamed(tc.name, tc.was, tc.is))
	}
}
