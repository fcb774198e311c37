// Copyright The otelcol-sglang Authors
// SPDX-License-Identifier: Apache-2.0

package genaiprocessor

import (
	"testing"

	"github.com/stretchr/testify/require"
	"go.opentelemetry.io/collector/pdata/pcommon"
	"go.opentelemetry.io/collector/pdata/ptrace"

	"github.com/otelcol-sglang/otelcol-sglang/internal/capture"
	"github.com/otelcol-sglang/otelcol-sglang/internal/sglang"
)

const captures = "../../testdata/captures/traces"

func loadCapture(t testing.TB, name string) []ptrace.Traces {
	t.Helper()
	exports, err := capture.Load(captures, name)
	require.NoError(t, err)
	out := make([]ptrace.Traces, len(exports))
	for i, e := range exports {
		out[i] = e.Traces
	}
	return out
}

func captureNames(t testing.TB) []string {
	t.Helper()
	names, err := capture.Names(captures)
	require.NoError(t, err)
	return names
}

func eachSpan(batches []ptrace.Traces, do func(ptrace.ResourceSpans, ptrace.ScopeSpans, ptrace.Span)) {
	for _, td := range batches {
		for _, rs := range td.ResourceSpans().All() {
			for _, ss := range rs.ScopeSpans().All() {
				for _, span := range ss.Spans().All() {
					do(rs, ss, span)
				}
			}
		}
	}
}

// reduction is what a rank folding tier does, done with the whole capture at
// hand: of threads that are siblings with equal label, DP and PP rank, the one
// with the lowest TP rank stays, with all below it.
type reduction struct {
	parents map[pcommon.SpanID]pcommon.SpanID
	threads map[pcommon.SpanID]sglang.Thread
	kept    map[pcommon.SpanID]bool
	slices  map[pcommon.SpanID]int64
}

func newReduction(batches []ptrace.Traces) *reduction {
	r := &reduction{
		parents: map[pcommon.SpanID]pcommon.SpanID{}, threads: map[pcommon.SpanID]sglang.Thread{},
		kept: map[pcommon.SpanID]bool{}, slices: map[pcommon.SpanID]int64{},
	}
	type group struct {
		root   pcommon.SpanID
		label  string
		dp, pp int32
	}
	best := map[group]pcommon.SpanID{}
	eachSpan(batches, func(_ ptrace.ResourceSpans, _ ptrace.ScopeSpans, s ptrace.Span) {
		r.parents[s.SpanID()] = s.ParentSpanID()
		if sglang.KindOf(s) != sglang.KindThread {
			return
		}
		th := sglang.ThreadOf(s.Attributes())
		r.threads[s.SpanID()] = th
		g := group{s.ParentSpanID(), th.Label, th.Ranks.DP, th.Ranks.PP}
		if was, ok := best[g]; !ok || th.Ranks.TP < r.threads[was].Ranks.TP {
			best[g] = s.SpanID()
		}
	})
	for _, id := range best {
		r.kept[id] = true
	}
	for id := range r.parents {
		if th, ok := r.threadOf(id); ok && th != id {
			r.slices[th]++
		}
	}
	return r
}

func (r *reduction) threadOf(id pcommon.SpanID) (pcommon.SpanID, bool) {
	for range 10 {
		if _, ok := r.threads[id]; ok {
			return id, true
		}
		next, ok := r.parents[id]
		if !ok {
			return id, false
		}
		id = next
	}
	return id, false
}

// reduceRanks drops the copies of other ranks. Kept threads say how many slices
// left under them.
func reduceRanks(batches []ptrace.Traces) []ptrace.Traces {
	r := newReduction(batches)
	for _, td := range batches {
		td.ResourceSpans().RemoveIf(func(rs ptrace.ResourceSpans) bool {
			rs.ScopeSpans().RemoveIf(func(ss ptrace.ScopeSpans) bool {
				ss.Spans().RemoveIf(func(s ptrace.Span) bool {
					th, ok := r.threadOf(s.SpanID())
					if ok && !r.kept[th] {
						return true
					}
					if ok && th == s.SpanID() {
						s.Attributes().PutInt(sglang.AttrThreadSpans, r.slices[th])
					}
					return false
				})
				return ss.Spans().Len() == 0
			})
			return rs.ScopeSpans().Len() == 0
		})
	}
	return batches
}

func clone(batches []ptrace.Traces) []ptrace.Traces {
	out := make([]ptrace.Traces, len(batches))
	for i, td := range batches {
		out[i] = ptrace.NewTraces()
		td.CopyTo(out[i])
	}
	return out
}
