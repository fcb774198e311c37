// Copyright The otelcol-sglang Authors
// SPDX-License-Identifier: Apache-2.0

package load // import "github.com/otelcol-sglang/otelcol-sglang/bench/internal/load"

import (
	"fmt"
	"time"

	"go.opentelemetry.io/collector/pdata/ptrace"
	"go.opentelemetry.io/collector/pdata/ptrace/ptraceotlp"

	"github.com/otelcol-sglang/otelcol-sglang/internal/sglang"
)

// writer is a process's batch span processor.
type writer struct {
	shape    Shape
	instance string
	done     []Batch
	err      error

	open ptrace.Traces
	into ptrace.SpanSlice
	// first and last are the ends of the open batch's outer spans.
	first, last time.Duration
}

func newWriter(s Shape, instance uint64) *writer {
	w := &writer{shape: s, instance: fmt.Sprintf("%016x", instance)}
	w.begin()
	return w
}

func (w *writer) begin() {
	w.open = ptrace.NewTraces()
	rs := w.open.ResourceSpans().AppendEmpty()
	a := rs.Resource().Attributes()
	a.PutStr("telemetry.sdk.language", "python")
	a.PutStr("telemetry.sdk.name", "opentelemetry")
	a.PutStr("telemetry.sdk.version", "1.45.2")
	a.PutStr("service.instance.id", w.instance)
	a.PutStr("service.name", "sglang")
	ss := rs.ScopeSpans().AppendEmpty()
	ss.Scope().SetName(sglang.ScopeName)
	w.into = ss.Spans()
	w.last = 0
}

// span adds a span that ends at a time.
func (w *writer) span(end time.Duration) ptrace.Span {
	if n := w.into.Len(); n >= w.shape.BatchSpans || n > 0 && end-w.first >= w.shape.Delay {
		w.flush()
	}
	if w.into.Len() == 0 {
		w.first = end
	}
	w.last = max(w.last, end)
	return w.into.AppendEmpty()
}

func (w *writer) flush() {
	due := w.first + w.shape.Delay
	if w.into.Len() >= w.shape.BatchSpans {
		due = w.last
	}
	body, err := ptraceotlp.NewExportRequestFromTraces(w.open).MarshalProto()
	if err != nil && w.err == nil {
		w.err = err
	}
	w.done = append(w.done, Batch{Due: due, Spans: w.into.Len(), Body: body})
	w.begin()
}

func (w *writer) close() error {
	if w.into.Len() > 0 {
		w.flush()
	}
	return w.err
}
