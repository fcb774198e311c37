// Copyright The otelcol-sglang Authors
// SPDX-License-Identifier: Apache-2.0

package engine

import (
	"context"
	"net"
	"net/http"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"go.opentelemetry.io/collector/pdata/pcommon"
	"go.opentelemetry.io/collector/pdata/pmetric"
	"go.opentelemetry.io/collector/pdata/pmetric/pmetricotlp"
	"go.opentelemetry.io/collector/pdata/ptrace"
	"google.golang.org/grpc"

	"github.com/otelcol-sglang/otelcol-sglang/engine/args"
	"github.com/otelcol-sglang/otelcol-sglang/engine/clock"
	"github.com/otelcol-sglang/otelcol-sglang/engine/trace"
	"github.com/otelcol-sglang/otelcol-sglang/engine/truth"
	"github.com/otelcol-sglang/otelcol-sglang/internal/sglang"
)

// metricsServer takes metrics as a collector does.
type metricsServer struct {
	pmetricotlp.UnimplementedGRPCServer
	mu   sync.Mutex
	last pmetric.Metrics
}

func (s *metricsServer) Export(_ context.Context, r pmetricotlp.ExportRequest) (pmetricotlp.ExportResponse, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.last = r.Metrics()
	return pmetricotlp.NewExportResponse(), nil
}

func listen(t *testing.T) net.Listener {
	t.Helper()
	l, err := (&net.ListenConfig{}).Listen(t.Context(), "tcp", "127.0.0.1:0")
	require.NoError(t, err)
	return l
}

// What the page shows leaves as OTLP too, in the end at the latest, and says whose it is.
func TestMetricsAsOTLP(t *testing.T) {
	to, collector := listen(t), &metricsServer{}
	server := grpc.NewServer()
	pmetricotlp.RegisterGRPCServer(server, collector)
	go func() { _ = server.Serve(to) }()
	defer server.Stop()

	a := args.Default()
	a.EnableMetrics, a.OTLPMetricsEndpoint, a.OTLPServiceName = true, to.Addr().String(), "chat"
	e, err := New(t.Context(), a, Options{Resource: map[string]string{"host.name": "gpu-1"}})
	require.NoError(t, err)
	ctx, cancel := context.WithCancel(t.Context())
	l, served := listen(t), make(chan error, 1)
	go func() { served <- e.Serve(ctx, l) }()
	resp, err := http.Get("http://" + l.Addr().String() + "/v1/models") //nolint:noctx // over in a moment
	require.NoError(t, err)
	require.NoError(t, resp.Body.Close())
	cancel()
	require.NoError(t, <-served)

	collector.mu.Lock()
	defer collector.mu.Unlock()
	rm := collector.last.ResourceMetrics().At(0)
	assert.Equal(t, map[string]any{"service.name": "chat", "host.name": "gpu-1"}, rm.Resource().Attributes().AsRaw())
	got := map[string]float64{}
	for _, m := range rm.ScopeMetrics().At(0).Metrics().All() {
		if m.Type() == pmetric.MetricTypeSum {
			got[m.Name()] += m.Sum().DataPoints().At(0).DoubleValue()
		}
	}
	assert.EqualValues(t, 1, got[string(sglang.FamilyHTTPRequestsTotal)])
}

// modulePair is a pair that served some requests, with the spans of each half.
func modulePair(t *testing.T, modules ...string) map[string]*trace.Recorder {
	t.Helper()
	return faultyPair(t, nil, modules...)
}

// faultyPair has faults on its prefill node.
func faultyPair(t *testing.T, faults []string, modules ...string) map[string]*trace.Recorder {
	t.Helper()
	loop := clock.NewVirtual(epoch)
	a := args.Default()
	a.TPSize, a.TraceModules, a.Faults = 2, modules, faults
	spans := map[string]*trace.Recorder{args.Prefill: trace.NewRecorder(), args.Decode: trace.NewRecorder()}
	prefill, decode := pair(t.Context(), t, loop, a, "chat:rate=5,abort=0,count=20", func(name string) trace.Sink { return spans[name] }, func(*truth.Record) {})
	decode.Start()
	loop.RunUntil(time.Minute)
	require.NoError(t, prefill.Shutdown(context.Background()))
	require.NoError(t, decode.Shutdown(context.Background()))
	return spans
}

func eachSpan(r *trace.Recorder, do func(trace.Process, ptrace.Span)) {
	(&story{spans: r}).eachSpan(do)
}

func textOf(s ptrace.Span, key string) string {
	v, ok := s.Attributes().Get(key)
	if !ok {
		return ""
	}
	return v.Str()
}

// The prefill node's transfers have spans of their own where the module is on: a trace
// for each rank and request, joined by the room.
func TestTransferSpans(t *testing.T) {
	spans := modulePair(t, sglang.TraceModuleRequest, sglang.TraceModuleKV)
	byID := map[pcommon.SpanID]ptrace.Span{}
	counts := map[string]int{}
	rooms, senders := map[string]int{}, map[string]int{}
	eachSpan(spans[args.Prefill], func(_ trace.Process, s ptrace.Span) {
		byID[s.SpanID()] = s
		counts[s.Name()]++
		switch room := textOf(s, sglang.AttrBootstrapRoom); textOf(s, sglang.AttrModule) {
		case sglang.ModuleRequest:
			rooms[room]++
		case sglang.ModuleMooncake:
			senders[room]++
		}
	})
	require.Len(t, rooms, 20)
	for room := range rooms {
		assert.Equal(t, 2, senders[room], "each rank sends")
	}
	for _, s := range []sglang.Stage{sglang.StageMooncakeSend, sglang.StageMooncakeWorkerSend, sglang.StageMooncakeWorkerSendSession} {
		assert.Equal(t, 2*20, counts[s.String()], s)
	}
	for _, s := range byID {
		if s.Name() != sglang.StageMooncakeWorkerSendSession.String() {
			continue
		}
		up := byID[s.ParentSpanID()]
		require.Equal(t, sglang.StageMooncakeWorkerSend.String(), up.Name())
		assert.LessOrEqual(t, up.StartTimestamp(), s.StartTimestamp())
		assert.Less(t, s.StartTimestamp(), s.EndTimestamp())
		assert.LessOrEqual(t, s.EndTimestamp(), up.EndTimestamp())
	}
	eachSpan(spans[args.Decode], func(_ trace.Process, s ptrace.Span) {
		assert.NotContains(t, s.Name(), "mooncake")
	})
}

// A transfer that failed has its spans, and its scheduler's thread is an error.
func TestFailedTransferSpans(t *testing.T) {
	spans := faultyPair(t, []string{"slow-transfer:factor=1,fail=0.5"}, sglang.TraceModuleKV)
	failed, sent, roots := 0, 0, 0
	eachSpan(spans[args.Prefill], func(_ trace.Process, s ptrace.Span) {
		switch {
		case s.Name() == sglang.StageMooncakeWorkerSendSession.String():
			sent++
		case s.ParentSpanID().IsEmpty():
			roots++
		case s.Status().Code() == ptrace.StatusCodeError:
			failed++
			assert.Contains(t, textOf(s, sglang.AttrAbortReason), "transfer failed")
		}
	})
	assert.Equal(t, 2*20, sent)
	assert.Equal(t, 2*20, roots)
	assert.InDelta(t, 20, failed, 10, "about a half")
	assert.Zero(t, failed%2, "on each rank")
}

// Without the request module only transfers are traced, and without either nothing is.
func TestTraceModules(t *testing.T) {
	only := modulePair(t, sglang.TraceModuleKV)
	eachSpan(only[args.Prefill], func(_ trace.Process, s ptrace.Span) {
		assert.NotEqual(t, sglang.ModuleRequest, textOf(s, sglang.AttrModule))
	})
	assert.NotEmpty(t, only[args.Prefill].Exports())
	assert.Empty(t, only[args.Decode].Exports())
}

// Several tokenizer workers are several front ends, and with asynchronous exports
// a process's spans come from two exporters.
func TestExporters(t *testing.T) {
	processes := func(change func(a *args.Args)) (kinds map[trace.Process]bool) {
		r := newRig(t, func(a *args.Args) {
			a.Load = "chat:rate=20,count=40"
			change(a)
		})
		r.run(t, time.Minute)
		kinds = map[trace.Process]bool{}
		for _, x := range r.spans.Exports() {
			kinds[x.From] = true
		}
		return kinds
	}
	front, ranks := 1, 2
	assert.Len(t, processes(func(*args.Args) {}), front+ranks)
	assert.Len(t, processes(func(a *args.Args) { a.TokenizerWorkerNum = 3 }), 3+ranks)
	// A scheduler has no roots to export, and the daemon all else.
	assert.Len(t, processes(func(a *args.Args) { a.TraceAsync = true }), 2*front+ranks)
}

// Engines with one seed at different addresses name nothing alike.
func TestIDsAreTheEngines(t *testing.T) {
	ids := func(port int) (requests []string, traces map[string]bool) {
		r := newRig(t, func(a *args.Args) { a.Port, a.Load = port, "chat:rate=20,count=20" })
		r.run(t, time.Minute)
		traces = map[string]bool{}
		eachSpan(r.spans, func(_ trace.Process, s ptrace.Span) { traces[s.TraceID().String()] = true })
		for _, rec := range r.records {
			requests = append(requests, rec.ID)
		}
		return requests, traces
	}
	one, tracesOne := ids(30000)
	again, _ := ids(30000)
	two, tracesTwo := ids(30001)
	assert.Equal(t, one, again)
	for _, id := range two {
		assert.False(t, slices.Contains(one, id))
	}
	for id := range tracesTwo {
		assert.False(t, tracesOne[id])
	}
}
