// Copyright The otelcol-sglang Authors
// SPDX-License-Identifier: Apache-2.0

package load

import (
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"go.opentelemetry.io/collector/pdata/pcommon"
	"go.opentelemetry.io/collector/pdata/ptrace"
	"go.opentelemetry.io/collector/pdata/ptrace/ptraceotlp"

	"github.com/otelcol-sglang/otelcol-sglang/internal/sglang"
)

var (
	shape = Shape{
		TP: 2, Slots: 3, Requests: 7, MinTokens: 5, MaxTokens: 20,
		Step: 10 * time.Millisecond, BatchSpans: 16, Delay: 50 * time.Millisecond, Seed: 1,
	}
	start = time.Unix(1_800_000_000, 0)
)

func decode(t *testing.T, b Batch) []ptrace.Span {
	t.Helper()
	req := ptraceotlp.NewExportRequest()
	require.NoError(t, req.UnmarshalProto(b.Body))
	var spans []ptrace.Span
	for _, rs := range req.Traces().ResourceSpans().All() {
		for _, ss := range rs.ScopeSpans().All() {
			for _, s := range ss.Spans().All() {
				spans = append(spans, s)
			}
		}
	}
	return spans
}

func TestMake(t *testing.T) {
	l, err := Make(shape, start)
	require.NoError(t, err)
	require.Len(t, l.Processes, shape.TP+1)

	byID := map[pcommon.SpanID]ptrace.Span{}
	roots, steps, threads := 0, 0, 0
	for process, batches := range l.Processes {
		var due time.Duration
		for _, b := range batches {
			spans := decode(t, b)
			assert.Len(t, spans, b.Spans)
			assert.LessOrEqual(t, b.Spans, shape.BatchSpans)
			assert.GreaterOrEqual(t, b.Due, due, "batches are in order")
			due = b.Due
			for _, s := range spans {
				byID[s.SpanID()] = s
				assert.Less(t, s.StartTimestamp(), s.EndTimestamp())
				assert.LessOrEqual(t, s.EndTimestamp().AsTime().Sub(start), b.Due+shape.Step, "no span leaves before its end")
				switch sglang.KindOf(s) {
				case sglang.KindRoot:
					assert.Zero(t, process)
					roots++
				case sglang.KindThread:
					threads++
				}
				if s.Name() == "decode_loop" {
					steps++
				}
			}
		}
	}
	assert.Len(t, byID, l.Spans, "each span once")
	assert.Equal(t, shape.Requests, roots)
	assert.Equal(t, shape.Requests*(shape.TP+1), threads)
	assert.Equal(t, l.Spans-shape.Requests*(4+5*shape.TP), steps)
	assert.GreaterOrEqual(t, steps, shape.Requests*shape.MinTokens*shape.TP)
	assert.LessOrEqual(t, steps, shape.Requests*shape.MaxTokens*shape.TP)
	for _, s := range byID {
		if parent := s.ParentSpanID(); !parent.IsEmpty() {
			assert.Contains(t, byID, parent, "parent of %s", s.Name())
			assert.Equal(t, s.TraceID(), byID[parent].TraceID())
		}
		for _, link := range s.Links().All() {
			assert.Contains(t, byID, link.SpanID(), "link of %s", s.Name())
		}
	}
}

func TestMakeRepeats(t *testing.T) {
	a, err := Make(shape, start)
	require.NoError(t, err)
	b, err := Make(shape, start)
	require.NoError(t, err)
	assert.Equal(t, a, b)

	other := shape
	other.Seed++
	c, err := Make(other, start)
	require.NoError(t, err)
	assert.NotEqual(t, a.Processes, c.Processes)
}

func TestDuration(t *testing.T) {
	l := Load{Processes: [][]Batch{nil, {{Due: 1}, {Due: 5}}, {{Due: 3}}}}
	assert.Equal(t, time.Duration(5), l.Duration())
	assert.Zero(t, Load{}.Duration())
}
