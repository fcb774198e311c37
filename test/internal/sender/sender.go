// Copyright The otelcol-sglang Authors
// SPDX-License-Identifier: Apache-2.0

// Package sender sends captures as the engine's processes would, and knows what
// was acknowledged.
package sender // import "github.com/otelcol-sglang/otelcol-sglang/test/internal/sender"

import (
	"context"
	"encoding/binary"
	"path/filepath"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"go.opentelemetry.io/collector/pdata/pcommon"
	"go.opentelemetry.io/collector/pdata/ptrace"
	"go.opentelemetry.io/collector/pdata/ptrace/ptraceotlp"
	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials/insecure"

	"github.com/otelcol-sglang/otelcol-sglang/internal/capture"
	"github.com/otelcol-sglang/otelcol-sglang/test/internal/spans"
	"github.com/otelcol-sglang/otelcol-sglang/test/internal/tool"
)

// Captures is the folder of recorded spans.
func Captures() string { return filepath.Join(tool.Root(), "testdata", "captures", "traces") }

// Load reads a capture.
func Load(t testing.TB, name string) []capture.Export {
	t.Helper()
	exports, err := capture.Load(Captures(), name)
	require.NoError(t, err)
	return exports
}

// Salted copies a batch with ids of another run.
func Salted(td ptrace.Traces, salt uint64) ptrace.Traces {
	out := ptrace.NewTraces()
	td.CopyTo(out)
	for s := range spans.All(out) {
		s.SetTraceID(saltTrace(s.TraceID(), salt))
		s.SetSpanID(saltSpan(s.SpanID(), salt))
		s.SetParentSpanID(saltSpan(s.ParentSpanID(), salt))
		for _, l := range s.Links().All() {
			l.SetTraceID(saltTrace(l.TraceID(), salt))
			l.SetSpanID(saltSpan(l.SpanID(), salt))
		}
	}
	return out
}

func saltTrace(id pcommon.TraceID, salt uint64) pcommon.TraceID {
	low := id[8:]
	binary.BigEndian.PutUint64(low, binary.BigEndian.Uint64(low)^salt)
	return id
}

func saltSpan(id pcommon.SpanID, salt uint64) pcommon.SpanID {
	if id.IsEmpty() {
		return id
	}
	binary.BigEndian.PutUint64(id[:], binary.BigEndian.Uint64(id[:])^salt)
	return id
}

// Engine is one engine's processes, each with a connection.
type Engine struct {
	exports []capture.Export
	clients map[string]ptraceotlp.GRPCClient

	mu sync.Mutex
	// made is all that the processes made, acknowledged what the collector took.
	made, acknowledged []ptrace.Traces
}

// New connects the processes of a capture to a collector.
func New(t testing.TB, endpoint, name string) *Engine {
	t.Helper()
	return NewSpread(t, name, func(string) string { return endpoint })
}

// NewSpread connects each process of a capture to the collector of its node.
func NewSpread(t testing.TB, name string, endpoint func(peer string) string) *Engine {
	t.Helper()
	e := &Engine{exports: Load(t, name), clients: map[string]ptraceotlp.GRPCClient{}}
	for _, x := range e.exports {
		if e.clients[x.Peer] != nil {
			continue
		}
		conn, err := grpc.NewClient(endpoint(x.Peer), grpc.WithTransportCredentials(insecure.NewCredentials()), grpc.WithNoProxy())
		require.NoError(t, err)
		t.Cleanup(func() { _ = conn.Close() })
		e.clients[x.Peer] = ptraceotlp.NewGRPCClient(conn)
	}
	return e
}

// Play sends one run in the recorded order, as fast as it is taken, and gives up
// what is not. It returns the number of exports that were not taken.
func (e *Engine) Play(ctx context.Context, salt uint64) (failed int) {
	return e.PlaySome(ctx, salt, func(string, spans.Span) bool { return true })
}

// PlaySome leaves out what a process (its peer) made and does not send.
func (e *Engine) PlaySome(ctx context.Context, salt uint64, sent func(peer string, s spans.Span) bool) (failed int) {
	const timeout = 10 * time.Second
	now := pcommon.NewTimestampFromTime(time.Now())
	first := Earliest(e.exports)
	for _, x := range e.exports {
		td := Salted(x.Traces, salt)
		shift(td, now-first)
		e.note(&e.made, td)
		td = only(td, x.Peer, sent)
		call, cancel := context.WithTimeout(ctx, timeout)
		_, err := e.clients[x.Peer].Export(call, ptraceotlp.NewExportRequestFromTraces(td))
		cancel()
		if err != nil {
			failed++
			continue
		}
		e.note(&e.acknowledged, td)
	}
	return failed
}

func (e *Engine) note(in *[]ptrace.Traces, td ptrace.Traces) {
	e.mu.Lock()
	defer e.mu.Unlock()
	*in = append(*in, td)
}

func only(from ptrace.Traces, peer string, sent func(string, spans.Span) bool) ptrace.Traces {
	td := ptrace.NewTraces()
	from.CopyTo(td)
	for _, rs := range td.ResourceSpans().All() {
		for _, ss := range rs.ScopeSpans().All() {
			ss.Spans().RemoveIf(func(s ptrace.Span) bool { return !sent(peer, spans.Of(s, rs.Resource())) })
		}
	}
	return td
}

// Made is all that the engine's processes made so far.
func (e *Engine) Made() *spans.Tree {
	e.mu.Lock()
	defer e.mu.Unlock()
	return spans.TreeOf(slices.Clone(e.made)...)
}

// Acknowledged is what the collector took of it.
func (e *Engine) Acknowledged() *spans.Tree {
	e.mu.Lock()
	defer e.mu.Unlock()
	return spans.TreeOf(slices.Clone(e.acknowledged)...)
}

// Earliest is the start of a capture's first span.
func Earliest(exports []capture.Export) pcommon.Timestamp {
	var first pcommon.Timestamp
	for _, x := range exports {
		for s := range spans.All(x.Traces) {
			if first == 0 || s.StartTimestamp() < first {
				first = s.StartTimestamp()
			}
		}
	}
	return first
}

func shift(td ptrace.Traces, by pcommon.Timestamp) {
	for s := range spans.All(td) {
		s.SetStartTimestamp(s.StartTimestamp() + by)
		s.SetEndTimestamp(s.EndTimestamp() + by)
		for _, e := range s.Events().All() {
			e.SetTimestamp(e.Timestamp() + by)
		}
	}
}
