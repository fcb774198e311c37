// Copyright The otelcol-sglang Authors
// SPDX-License-Identifier: Apache-2.0

package genaiprocessor

import (
	"context"
	"runtime"
	"syscall"
	"testing"
	"time"
	"unsafe"

	"go.opentelemetry.io/collector/pdata/ptrace"

	"github.com/otelcol-sglang/otelcol-sglang/internal/sglang"
)

// threadCPU is what the calling thread has computed: on a busy machine wall
// time says little.
func threadCPU(b *testing.B) time.Duration {
	const clockThreadCPU = 3
	var ts syscall.Timespec
	if _, _, errno := syscall.RawSyscall(syscall.SYS_CLOCK_GETTIME, clockThreadCPU, uintptr(unsafe.Pointer(&ts)), 0); errno != 0 {
		b.Fatal(errno)
	}
	return time.Duration(ts.Nano())
}

// BenchmarkCPU is the processor's own time on the caller's thread: a step of a
// 64-span batch that is folded, and a root (with its decode_forward) whose other
// spans came before.
func BenchmarkCPU(b *testing.B) {
	b.Run("step", func(b *testing.B) {
		s := plainStory(finished(65))
		s.td = ptrace.NewTraces()
		s.process()
		s.steps(64, 200, 10)
		p := benchProcessor(b, nil)
		measureCPU(b, p, 64, s.td, restampSteps)
	})
	b.Run("root", func(b *testing.B) {
		s := plainStory(finished(10, sglang.AttrLatencyTTFT, 0.201, sglang.AttrLatencyE2E, 1.0,
			sglang.AttrLatencyInDecode, 0.7, sglang.AttrLatencyInPrefill, 0.2, sglang.AttrLatencyInInference, 0.99))
		p := benchProcessor(b, func(c *Config) { c.MaxHeldMiB = 4096; c.MaxRequests = 10_000_000 })
		before := s.td
		s.td = ptrace.NewTraces()
		root := s.end()
		var sent uint64
		measureCPU(b, p, 1, root, func(td ptrace.Traces, n uint64) {
			for ; sent < n; sent++ {
				rest := ptrace.NewTraces()
				before.CopyTo(rest)
				restamp(rest, sent+1)
				if err := p.ConsumeTraces(context.Background(), rest); err != nil {
					b.Fatal(err)
				}
			}
			restamp(td, n)
		})
	})
}

func measureCPU(b *testing.B, p *genaiProcessor, spans int, template ptrace.Traces, change func(ptrace.Traces, uint64)) {
	b.Helper()
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	b.ReportAllocs()
	batches := make([]ptrace.Traces, 16)
	var used time.Duration
	var n uint64
	for i := 0; b.Loop(); i += len(batches) {
		b.StopTimer()
		for k := range batches {
			batches[k] = ptrace.NewTraces()
			template.CopyTo(batches[k])
			n++
			change(batches[k], n)
		}
		begin := threadCPU(b)
		b.StartTimer()
		for _, td := range batches {
			if err := p.ConsumeTraces(context.Background(), td); err != nil {
				b.Fatal(err)
			}
		}
		b.StopTimer()
		used += threadCPU(b) - begin
		b.StartTimer()
	}
	b.ReportMetric(float64(used.Nanoseconds())/float64(b.N*len(batches)*spans), "cpu-ns/span")
}
