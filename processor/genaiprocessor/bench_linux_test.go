// Copyright The otelcol-sglang Authors
// SPDX-License-Identifier: Apache-2.0

package genaiprocessor

import (
	"context"
	"runtime"
	"slices"
	"syscall"
	"testing"
	"time"
	"unsafe"

	"go.opentelemetry.io/collector/pdata/ptrace"
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
// 64-span batch that is folded, and a root whose other spans came before. With the
// root its decode_forward leaves. Where steps were folded their summary is written,
// too; that is work for the steps, so it is a step's share of it that is reported.
func BenchmarkCPU(b *testing.B) {
	b.Run("step", func(b *testing.B) {
		s := plainStory(finished(65))
		s.td = ptrace.NewTraces()
		s.process()
		s.steps(64, 200, 10)
		p := benchProcessor(b, nil)
		measureCPU(b, p, 64, s.td, restampSteps)
	})
	var root float64
	b.Run("root", func(b *testing.B) { root = measureRoot(b, 0) })
	b.Run("root_after_200_steps", func(b *testing.B) {
		if with := measureRoot(b, 200); root > 0 { // -bench may have left it out
			b.ReportMetric((with-root)/200, "summary-ns/step")
		}
	})
}

// measureRoot returns what a root of a request with so many steps takes, in ns.
func measureRoot(b *testing.B, steps int) float64 {
	b.Helper()
	s := foldedStory(steps)
	p := benchProcessor(b, func(c *Config) { c.MaxHeldMiB = 4096; c.MaxRequests = 10_000_000 })
	before := s.td
	s.td = ptrace.NewTraces()
	root := s.end()
	var sent uint64
	return measureCPU(b, p, 1, root, func(td ptrace.Traces, n uint64) {
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
}

// measureCPU returns the time of a span in the quickest tenth of the rounds, in ns:
// what neighbours on the core and the garbage collector take comes and goes.
func measureCPU(
	b *testing.B, p *genaiProcessor, spans int, template ptrace.Traces, change func(ptrace.Traces, uint64),
) float64 {
	b.Helper()
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	b.ReportAllocs()
	batches := make([]ptrace.Traces, 16)
	var used []time.Duration
	var n uint64
	for i := 0; b.Loop(); i += len(batches) {
		b.StopTimer()
		for k := range batches {
			batches[k] = ptrace.NewTraces()
			template.CopyTo(batches[k])
			n++
			change(batches[k], n)
		}
		b.StartTimer()
		begin := threadCPU(b)
		for _, td := range batches {
			if err := p.ConsumeTraces(context.Background(), td); err != nil {
				b.Fatal(err)
			}
		}
		used = append(used, threadCPU(b)-begin) // starting and stopping the timer costs, too
	}
	var sum time.Duration
	for _, d := range used {
		sum += d
	}
	slices.Sort(used)
	each := float64(len(batches) * spans)
	b.ReportMetric(float64(sum.Nanoseconds())/float64(len(used))/each, "cpu-ns/span")
	low := float64(used[len(used)/10].Nanoseconds()) / each
	b.ReportMetric(low, "low-cpu-ns/span")
	return low
}
