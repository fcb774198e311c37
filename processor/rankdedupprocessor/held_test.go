// Copyright The otelcol-sglang Authors
// SPDX-License-Identifier: Apache-2.0

package rankdedupprocessor

import (
	"testing"

	"github.com/stretchr/testify/assert"
	"go.opentelemetry.io/collector/pdata/pcommon"
	"go.opentelemetry.io/collector/pdata/ptrace"

	"github.com/otelcol-sglang/otelcol-sglang/processor/rankdedupprocessor/internal/fold"
)

// TestAssemble: spans of one process share a resource, unless one of their trace
// would go before another that left earlier.
func TestAssemble(t *testing.T) {
	front, rank := newEnvelope("front"), newEnvelope("rank")
	td := assemble([]fold.Release{
		released(rank, 1, 10), released(front, 1, 11),
		released(rank, 2, 20), released(front, 2, 21),
		released(front, 3, 30), released(rank, 3, 31),
	})
	var got [][]uint64
	for _, rs := range td.ResourceSpans().All() {
		var ids []uint64
		for _, s := range rs.ScopeSpans().At(0).Spans().All() {
			ids = append(ids, idOf(s.SpanID()))
		}
		got = append(got, ids)
	}
	assert.Equal(t, [][]uint64{{10, 20}, {11, 21, 30}, {31}}, got)
}

func newEnvelope(service string) *envelope {
	e := &envelope{resource: pcommon.NewResource(), scope: pcommon.NewInstrumentationScope()}
	e.resource.Attributes().PutStr("service.name", service)
	return e
}

func released(from *envelope, trace, id uint64) fold.Release {
	h := &held{span: ptrace.NewSpan(), from: from}
	return fold.Release{Payload: h, Span: fold.Span{Trace: fold.TraceID{Lo: trace}, ID: id}}
}
