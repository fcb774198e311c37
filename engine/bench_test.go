// Copyright The otelcol-sglang Authors
// SPDX-License-Identifier: Apache-2.0

package engine

import (
	"context"
	"strconv"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"go.opentelemetry.io/collector/pdata/ptrace"

	"github.com/otelcol-sglang/otelcol-sglang/engine/args"
	"github.com/otelcol-sglang/otelcol-sglang/engine/clock"
	"github.com/otelcol-sglang/otelcol-sglang/engine/internal/cputime"
	"github.com/otelcol-sglang/otelcol-sglang/engine/trace"
)

// BenchmarkEngine runs an engine of 8 ranks on a virtual clock; an operation is one
// request. The load is a chat: 300 shared tokens, 120 of its own, 160 generated.
func BenchmarkEngine(b *testing.B) {
	for name, change := range map[string]func(a *args.Args){
		"plain":        func(*args.Args) {},
		"metrics":      func(a *args.Args) { a.EnableMetrics = true },
		"level 1":      func(a *args.Args) { a.EnableTrace, a.TraceLevel = true, 1 },
		"level 3":      func(a *args.Args) { a.EnableTrace = true },
		"dp attention": func(a *args.Args) { a.DPSize, a.EnableDPAttention = 4, true },
	} {
		b.Run(name, func(b *testing.B) {
			a := args.Default()
			a.TPSize = 8
			change(&a)
			a.Load = "chat:rate=50,turns=1,abort=0,count=" + strconv.Itoa(b.N)
			loop := clock.NewVirtual(epoch)
			e, err := New(context.Background(), a, Options{Loop: loop, Spans: void{}})
			require.NoError(b, err)
			over := false
			e.Clients.Over = func() { over = true }
			b.ReportAllocs()
			b.ResetTimer()
			began := cputime.Used()
			e.Start()
			for !over {
				loop.RunUntil(loop.Now() + time.Second)
			}
			b.StopTimer()
			b.ReportMetric(float64(b.N)/b.Elapsed().Seconds(), "requests/s")
			if used := cputime.Used() - began; used > 0 {
				b.ReportMetric(float64(b.N)/used.Seconds(), "requests/CPU-s")
			}
			require.NoError(b, e.Shutdown(context.Background()))
		})
	}
}

// void takes spans and forgets them.
type void struct{}

func (void) Open(trace.Process) (trace.Exporter, error) { return void{}, nil }

func (void) Export(context.Context, ptrace.Traces) error { return nil }

func (void) Close() error { return nil }
