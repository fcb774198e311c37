// Copyright The otelcol-sglang Authors
// SPDX-License-Identifier: Apache-2.0

// Package sink is a tracing backend that counts what it gets, in a process of its own.
package sink // import "github.com/otelcol-sglang/otelcol-sglang/bench/internal/sink"

import (
	"bufio"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net"
	"strings"
	"sync"

	"go.opentelemetry.io/collector/pdata/pcommon"
	"go.opentelemetry.io/collector/pdata/ptrace"
	"go.opentelemetry.io/collector/pdata/ptrace/ptraceotlp"
	"google.golang.org/grpc"
	_ "google.golang.org/grpc/encoding/gzip" // the exporters compress
	"google.golang.org/grpc/stats"

	"github.com/otelcol-sglang/otelcol-sglang/internal/sglang"
)

// maxMessage is the largest request that the sink takes, in bytes.
const maxMessage = 64 << 20

// Counts is what came so far.
type Counts struct {
	Calls int
	// Bytes are the messages' as they came, compressed.
	Bytes int
	Spans int
	// Roots are spans without a parent; Timed those of them that have a time per
	// output token, Budgets those that have a budget.
	Roots, Timed, Budgets int
}

// Sub is what came since.
func (c Counts) Sub(before Counts) Counts {
	return Counts{
		Calls: c.Calls - before.Calls, Bytes: c.Bytes - before.Bytes, Spans: c.Spans - before.Spans,
		Roots: c.Roots - before.Roots, Timed: c.Timed - before.Timed, Budgets: c.Budgets - before.Budgets,
	}
}

// Serve counts on a free port until asked no more: it writes its address as the
// first line, and then one line of JSON for each line that it reads.
func Serve(in io.Reader, out io.Writer) error {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return err
	}
	s := &service{}
	server := grpc.NewServer(grpc.MaxRecvMsgSize(maxMessage), grpc.StatsHandler(s))
	ptraceotlp.RegisterGRPCServer(server, s)
	go func() { _ = server.Serve(l) }()
	defer server.Stop()
	if _, err := fmt.Fprintln(out, l.Addr()); err != nil {
		return err
	}
	enc := json.NewEncoder(out)
	for lines := bufio.NewScanner(in); lines.Scan(); {
		if err := enc.Encode(s.counts()); err != nil {
			return err
		}
	}
	return nil
}

type service struct {
	ptraceotlp.UnimplementedGRPCServer

	mu sync.Mutex // guards c
	c  Counts
}

func (s *service) counts() Counts {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.c
}

func (s *service) Export(_ context.Context, req ptraceotlp.ExportRequest) (ptraceotlp.ExportResponse, error) {
	c := count(req.Traces())
	s.mu.Lock()
	defer s.mu.Unlock()
	s.c.Calls++
	s.c.Spans += c.Spans
	s.c.Roots += c.Roots
	s.c.Timed += c.Timed
	s.c.Budgets += c.Budgets
	return ptraceotlp.NewExportResponse(), nil
}

func count(td ptrace.Traces) Counts {
	var c Counts
	for _, rs := range td.ResourceSpans().All() {
		for _, ss := range rs.ScopeSpans().All() {
			c.Spans += ss.Spans().Len()
			for _, span := range ss.Spans().All() {
				if span.ParentSpanID().IsEmpty() {
					c.root(span.Attributes())
				}
			}
		}
	}
	return c
}

func (c *Counts) root(a pcommon.Map) {
	c.Roots++
	if _, ok := a.Get(sglang.AttrOutTPOT); ok {
		c.Timed++
	}
	for key := range a.All() {
		if strings.HasPrefix(key, sglang.AttrBudgetPrefix) {
			c.Budgets++
			return
		}
	}
}

// HandleRPC implements stats.Handler: only there a message's compressed size is seen.
func (s *service) HandleRPC(_ context.Context, r stats.RPCStats) {
	if in, ok := r.(*stats.InPayload); ok {
		s.mu.Lock()
		defer s.mu.Unlock()
		s.c.Bytes += in.WireLength
	}
}

// TagRPC implements stats.Handler.
func (*service) TagRPC(ctx context.Context, _ *stats.RPCTagInfo) context.Context { return ctx }

// TagConn implements stats.Handler.
func (*service) TagConn(ctx context.Context, _ *stats.ConnTagInfo) context.Context { return ctx }

// HandleConn implements stats.Handler.
func (*service) HandleConn(context.Context, stats.ConnStats) {}
