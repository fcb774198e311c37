// Copyright The otelcol-sglang Authors
// SPDX-License-Identifier: Apache-2.0

package trace

import (
	"context"
	"net"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"go.opentelemetry.io/collector/pdata/ptrace"
	"go.opentelemetry.io/collector/pdata/ptrace/ptraceotlp"
	"google.golang.org/grpc"

	"github.com/otelcol-sglang/otelcol-sglang/engine/clock"
	"github.com/otelcol-sglang/otelcol-sglang/engine/internal/cputime"
	"github.com/otelcol-sglang/otelcol-sglang/engine/ledger"
	"github.com/otelcol-sglang/otelcol-sglang/internal/sglang"
)

type discard struct{}

func (discard) Open(Process) (Exporter, error) { return discard{}, nil }

func (discard) Export(context.Context, ptrace.Traces) error { return nil }

func (discard) Close() error { return nil }

// serve is a receiver that counts spans.
type serve struct {
	ptraceotlp.UnimplementedGRPCServer
	spans int
}

func (s *serve) Export(_ context.Context, req ptraceotlp.ExportRequest) (ptraceotlp.ExportResponse, error) {
	s.spans += req.Traces().SpanCount()
	return ptraceotlp.NewExportResponse(), nil
}

func listen(t testing.TB) (endpoint string, s *serve) {
	t.Helper()
	s = &serve{}
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	server := grpc.NewServer()
	ptraceotlp.RegisterGRPCServer(server, s)
	done := make(chan error, 1)
	go func() { done <- server.Serve(ln) }()
	t.Cleanup(func() {
		server.Stop()
		require.NoError(t, <-done)
	})
	return ln.Addr().String(), s
}

// story is one request through four ranks: 4 + 4 ranks * (5 + steps) spans.
func story(tr *Tracer, r *ledger.Request, p *ledger.Place, at time.Duration, steps int) (end time.Duration) {
	ms := func(n float64) time.Duration { return at + time.Duration(n*float64(time.Millisecond)) }
	read := func(n float64) ledger.Reading { return ledger.Reading{At: ms(n)} }
	r.Front.Created, r.Front.DispatchFinish = at, ms(1)
	tr.Start(r, at)
	tr.FrontEnd(r, sglang.StageTokenize, at, ms(0.5))
	tr.FrontEnd(r, sglang.StageAPIServerDispatch, ms(0.6), ms(1))
	tr.Slice(r, p, sglang.StageRequestProcess, read(1.5), read(2), ledger.NoDecodeCT)
	tr.Slice(r, p, sglang.StagePrefillWaiting, read(2), read(3), ledger.NoDecodeCT)
	tr.Open(r, p, sglang.StagePrefillForward, read(3))
	tr.Schedule(r, p, &ledger.Batch{ID: 1, Size: 1, Mode: sglang.ForwardPrefill}, read(3))
	tr.Close(r, p, sglang.StagePrefillForward, read(10))
	tr.Open(r, p, sglang.StageDecodeForward, read(10))
	for i := range steps {
		from := 10 + 10*float64(i)
		tr.Schedule(r, p, &ledger.Batch{ID: uint64(i) + 2, Size: 1, Mode: sglang.ForwardDecode}, read(from))
		tr.Slice(r, p, sglang.StageDecodeLoop, read(from), read(from+10), i)
	}
	end = ms(10 + 10*float64(steps))
	tr.Close(r, p, sglang.StageDecodeForward, ledger.Reading{At: end})
	r.Finish = ledger.FinishLength
	r.Front.FirstToken, r.Front.Finished = ms(10.2), end+time.Millisecond/2
	tr.EndThread(r, p, ledger.Reading{At: end}, false)
	tr.Finish(r, end+time.Millisecond/2)
	return end
}

const (
	storySteps = 32
	storySpans = 4 + 4*(5+storySteps)
)

func benchmark(b *testing.B, sink Sink) *Tracer {
	loop := clock.NewVirtual(time.Unix(1_700_000_000, 0))
	tr, err := New(Config{Loop: loop, Sink: sink, Level: 3, StepJitter: 200 * time.Microsecond})
	require.NoError(b, err)
	p := &ledger.Place{DPRank: -1, TPRanks: []int{0, 1, 2, 3}}
	b.ReportAllocs()
	b.ResetTimer()
	began, at := cputime.Used(), time.Duration(0)
	for b.Loop() {
		r := ledger.NewRequest("0123456789abcdef0123456789abcdef", ledger.KindGenerate)
		at = story(tr, r, p, at, storySteps)
		loop.RunUntil(at)
	}
	require.NoError(b, tr.Shutdown(context.Background()))
	b.StopTimer()
	spans := float64(b.N) * storySpans
	// CPU time, sink included: others on the machine count for nothing.
	if used := cputime.Used() - began; used > 0 {
		b.ReportMetric(float64(used.Nanoseconds())/spans, "cpu-ns/span")
		b.ReportMetric(spans/used.Seconds(), "spans/cpu-s")
	}
	return tr
}

// BenchmarkRecord is the tracer without a way out, BenchmarkGRPC with a receiver
// in the same process (run with -cpu 1).
func BenchmarkRecord(b *testing.B) { benchmark(b, discard{}) }

func BenchmarkGRPC(b *testing.B) {
	endpoint, s := listen(b)
	sink, err := NewOTLP(ProtocolGRPC, endpoint)
	require.NoError(b, err)
	benchmark(b, sink)
	if s.spans < b.N*storySpans {
		b.Fatalf("%d of %d spans arrived", s.spans, b.N*storySpans)
	}
}
