// Copyright The otelcol-sglang Authors
// SPDX-License-Identifier: Apache-2.0

package page

import (
	"io"
	"testing"
	"time"

	"github.com/otelcol-sglang/otelcol-sglang/engine/args"
	"github.com/otelcol-sglang/otelcol-sglang/engine/ledger"
	"github.com/otelcol-sglang/otelcol-sglang/internal/sglang"
)

func tp8(a *args.Args) {
	a.TPSize, a.EnableHierarchicalCache, a.HiCacheStorageBackend = 8, true, "file"
}

// BenchmarkStep is what one decode step of eight ranks adds.
func BenchmarkStep(b *testing.B) {
	s := engineOf(b, tp8).schedulers[0]
	b.ReportAllocs()
	for b.Loop() {
		s.Pass(sglang.PassDecodeGraph)
		s.RealtimeTokens(sglang.ModeDecode, 64, -1)
		s.LoopTime(sglang.LoopRunBatch, sglang.OverlapNone, time.Millisecond)
		s.LoopTime(sglang.LoopProcessBatchResult, sglang.OverlapFull, time.Millisecond)
	}
}

// BenchmarkReport is one report of eight ranks.
func BenchmarkReport(b *testing.B) {
	e := engineOf(b, tp8)
	snapshot := e.snapshot()
	snapshot.Prefill, snapshot.Decode = &ledger.PrefillReport{}, &ledger.DecodeReport{Spec: &ledger.SpecReport{}}
	b.ReportAllocs()
	for b.Loop() {
		e.schedulers[0].Report(snapshot)
	}
}

// BenchmarkRequest is one streamed request's observations at eight ranks, with ten
// output batches.
func BenchmarkRequest(b *testing.B) {
	e := engineOf(b, tp8)
	r := request(true)
	b.ReportAllocs()
	for b.Loop() {
		e.schedulers[0].QueueTime(time.Millisecond)
		e.schedulers[0].StageLatency(sglang.StageRequestProcess, time.Millisecond)
		e.schedulers[0].StageLatency(sglang.StagePrefillForward, time.Millisecond)
		e.tokenizer.FirstToken(r, time.Second)
		for range 10 {
			e.tokenizer.InterToken(r, time.Millisecond, 4)
		}
		e.tokenizer.Finished(r)
	}
}

// BenchmarkScrape is one page of eight ranks.
func BenchmarkScrape(b *testing.B) {
	e := engineOf(b, tp8)
	e.started()
	tieredWork(e)
	b.ReportAllocs()
	for b.Loop() {
		if err := (exposition{}).write(io.Discard, e.page.store.Gather()); err != nil {
			b.Fatal(err)
		}
	}
	series := 0
	for _, f := range e.page.store.Gather() {
		series += len(f.Metric)
	}
	b.ReportMetric(float64(series), "series")
}
