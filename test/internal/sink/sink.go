// Copyright The otelcol-sglang Authors
// SPDX-License-Identifier: Apache-2.0

// Package sink is a tracing backend: it takes OTLP over gRPC and keeps it.
package sink // import "github.com/otelcol-sglang/otelcol-sglang/test/internal/sink"

import (
	"context"
	"slices"
	"sync"
	"testing"

	"go.opentelemetry.io/collector/pdata/ptrace"
	"go.opentelemetry.io/collector/pdata/ptrace/ptraceotlp"
	"google.golang.org/grpc"
	_ "google.golang.org/grpc/encoding/gzip" // the exporters compress

	"github.com/otelcol-sglang/otelcol-sglang/test/internal/tool"
)

// maxMessage is the largest request that the sink takes.
const maxMessage = 64 << 20

// Sink is a backend that can be stopped and started again at its address.
type Sink struct {
	ptraceotlp.UnimplementedGRPCServer
	t testing.TB
	// Address is host:port.
	Address string
	server  *grpc.Server

	mu     sync.Mutex
	traces []ptrace.Traces
}

// New returns a sink that is not started.
func New(t testing.TB) *Sink {
	t.Helper()
	s := &Sink{t: t, Address: tool.Address(tool.FreePort(t))}
	t.Cleanup(s.Stop)
	return s
}

// Start starts a sink.
func Start(t testing.TB) *Sink {
	t.Helper()
	s := New(t)
	s.Start()
	return s
}

// Start listens.
func (s *Sink) Start() {
	s.t.Helper()
	l := tool.Listen(s.t, s.Address)
	s.server = grpc.NewServer(grpc.MaxRecvMsgSize(maxMessage))
	ptraceotlp.RegisterGRPCServer(s.server, s)
	go func(server *grpc.Server) { _ = server.Serve(l) }(s.server)
}

// Stop closes the port, after the requests that are under way.
func (s *Sink) Stop() {
	if s.server != nil {
		s.server.GracefulStop()
		s.server = nil
	}
}

// Export implements the service.
func (s *Sink) Export(_ context.Context, req ptraceotlp.ExportRequest) (ptraceotlp.ExportResponse, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.traces = append(s.traces, req.Traces())
	return ptraceotlp.NewExportResponse(), nil
}

// Traces is all that came so far.
func (s *Sink) Traces() []ptrace.Traces {
	s.mu.Lock()
	defer s.mu.Unlock()
	return slices.Clone(s.traces)
}

// Count is the number of spans that came so far.
func (s *Sink) Count() int {
	count := 0
	for _, td := range s.Traces() {
		count += td.SpanCount()
	}
	return count
}

// Env makes the collector's agent configuration send here.
func (s *Sink) Env() []string {
	return []string{"OTLP_ENDPOINT=" + s.Address, "OTLP_INSECURE=true"}
}
