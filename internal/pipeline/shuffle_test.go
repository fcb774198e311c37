// Copyright The otelcol-sglang Authors
// SPDX-License-Identifier: Apache-2.0

package pipeline

import (
	"context"
	"math/rand/v2"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"go.opentelemetry.io/collector/consumer/consumertest"
	"go.opentelemetry.io/collector/pdata/pcommon"
	"go.opentelemetry.io/collector/pdata/ptrace"

	"github.com/otelcol-sglang/otelcol-sglang/internal/capture"
	"github.com/otelcol-sglang/otelcol-sglang/internal/sglang"
	"github.com/otelcol-sglang/otelcol-sglang/processor/genaiprocessor"
	"github.com/otelcol-sglang/otelcol-sglang/processor/rankdedupprocessor"
)

// TestShuffled: spans of hundreds of requests, a hundred times as fast as they
// were recorded and half a second out of order, through both processors with their
// default waits. Every root leaves complete, but for less than one in a thousand.
func TestShuffled(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		exports, err := capture.Load(capturesDir, "traces-unified-tp4-level3")
		require.NoError(t, err)
		sink := &consumertest.TracesSink{}
		first := process(t, rankdedupprocessor.NewFactory(), nil, process(t, genaiprocessor.NewFactory(), nil, sink))
		send := func(td ptrace.Traces) { require.NoError(t, first.ConsumeTraces(context.Background(), td)) }
		for _, e := range exports { // makes the senders known
			td := ptrace.NewTraces()
			e.Traces.CopyTo(td)
			send(td)
		}
		time.Sleep(time.Minute)
		sink.Reset()

		const copies, slot = 350, 10 * time.Millisecond
		rng := rand.New(rand.NewPCG(1, 2))
		slots := make([][]ptrace.Traces, 150)
		roots := 0
		for n := range copies {
			begin := rng.IntN(100)
			for _, e := range exports {
				eachSpan(e.Traces, func(rs ptrace.ResourceSpans, ss ptrace.ScopeSpans, s ptrace.Span) {
					if sglang.KindOf(s) == sglang.KindRoot {
						roots++
					}
					at := begin + rng.IntN(int(500*time.Millisecond/slot))
					slots[at] = append(slots[at], alone(rs, ss, s, byte(n), byte(n>>8)+1))
				})
			}
		}
		for _, spans := range slots {
			for _, td := range spans {
				send(td)
			}
			time.Sleep(slot)
		}
		time.Sleep(time.Minute)
		left, complete := 0, 0
		for _, td := range sink.AllTraces() {
			eachSpan(td, func(_ ptrace.ResourceSpans, _ ptrace.ScopeSpans, s ptrace.Span) {
				if sglang.KindOf(s) != sglang.KindRoot {
					return
				}
				left++
				if v, ok := s.Attributes().Get(sglang.AttrCompleteness); ok && v.Str() == sglang.CompletenessComplete {
					complete++
				} else {
					t.Logf("%s of %s: %v", s.SpanID(), s.TraceID(), v.AsString())
				}
			})
		}
		t.Logf("%d of %d roots complete", complete, roots)
		assert.Equal(t, roots, left)
		assert.LessOrEqual(t, left-complete, roots/1000)
	})
}

func eachSpan(td ptrace.Traces, do func(ptrace.ResourceSpans, ptrace.ScopeSpans, ptrace.Span)) {
	for _, rs := range td.ResourceSpans().All() {
		for _, ss := range rs.ScopeSpans().All() {
			for _, s := range ss.Spans().All() {
				do(rs, ss, s)
			}
		}
	}
}

// alone is a copy of one span in a trace of another id.
func alone(rs ptrace.ResourceSpans, ss ptrace.ScopeSpans, s ptrace.Span, mark ...byte) ptrace.Traces {
	td := ptrace.NewTraces()
	to := td.ResourceSpans().AppendEmpty()
	rs.Resource().CopyTo(to.Resource())
	scope := to.ScopeSpans().AppendEmpty()
	ss.Scope().CopyTo(scope.Scope())
	span := scope.Spans().AppendEmpty()
	s.CopyTo(span)
	other := func(id pcommon.TraceID) pcommon.TraceID {
		for i, b := range mark {
			id[len(id)-1-i] ^= b
		}
		return id
	}
	span.SetTraceID(other(span.TraceID()))
	for _, l := range span.Links().All() {
		l.SetTraceID(other(l.TraceID()))
	}
	return td
}
