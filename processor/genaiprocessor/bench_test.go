// Copyright The otelcol-sglang Authors
// SPDX-License-Identifier: Apache-2.0

package genaiprocessor

import (
	"context"
	"runtime"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"go.opentelemetry.io/collector/component/componenttest"
	"go.opentelemetry.io/collector/consumer/consumertest"
	"go.opentelemetry.io/collector/pdata/pcommon"
	"go.opentelemetry.io/collector/pdata/ptrace"
	"go.opentelemetry.io/collector/processor/processortest"

	"github.com/otelcol-sglang/otelcol-sglang/internal/sglang"
	"github.com/otelcol-sglang/otelcol-sglang/processor/genaiprocessor/internal/metadata"
)

func benchProcessor(tb testing.TB, change func(*Config)) *genaiProcessor {
	tb.Helper()
	cfg := createDefaultConfig().(*Config)
	if change != nil {
		change(cfg)
	}
	p, err := newProcessor(processortest.NewNopSettings(metadata.Type), cfg, consumertest.NewNop())
	require.NoError(tb, err)
	require.NoError(tb, p.Start(context.Background(), componenttest.NewNopHost()))
	tb.Cleanup(func() { require.NoError(tb, p.Shutdown(context.Background())) })
	return p
}

// restamp gives a template's spans the trace id of the n-th request.
func restamp(td ptrace.Traces, n uint64) {
	var id pcommon.TraceID
	putLow(&id, n)
	for _, rs := range td.ResourceSpans().All() {
		for _, ss := range rs.ScopeSpans().All() {
			for _, s := range ss.Spans().All() {
				s.SetTraceID(id)
				for _, l := range s.Links().All() {
					l.SetTraceID(id)
				}
			}
		}
	}
}

func putLow(id *pcommon.TraceID, n uint64) {
	n = (n + 1) * 0x9e3779b97f4a7c15
	for i := range 8 {
		id[15-i] = byte(n >> (8 * i))
	}
}

// BenchmarkSteps is what most spans cost: batches of 64 decode steps, folded,
// kept, or of someone else.
func BenchmarkSteps(b *testing.B) {
	s := plainStory(finished(65))
	s.td = ptrace.NewTraces()
	s.process()
	s.steps(64, 200, 10)
	template := s.td
	for _, mode := range []string{decodeLoopFold, decodeLoopKeep, "foreign"} {
		b.Run(mode, func(b *testing.B) {
			p := benchProcessor(b, func(c *Config) {
				if mode == decodeLoopKeep {
					c.DecodeLoop = mode
				}
			})
			if mode == "foreign" {
				template.ResourceSpans().At(0).ScopeSpans().At(0).Scope().SetName("other")
			}
			batches := make([]ptrace.Traces, 16) // few: as if just decoded
			b.ReportAllocs()
			var n uint64
			for i := 0; b.Loop(); i++ {
				if i%len(batches) == 0 {
					b.StopTimer()
					for k := range batches {
						batches[k] = ptrace.NewTraces()
						template.CopyTo(batches[k])
						// 64 steps of a request come in batches; a new request each 16th.
						n++
						restampSteps(batches[k], n)
					}
					b.StartTimer()
				}
				if err := p.ConsumeTraces(context.Background(), batches[i%len(batches)]); err != nil {
					b.Fatal(err)
				}
			}
			b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(b.N)/64, "ns/span")
		})
	}
}

func restampSteps(td ptrace.Traces, n uint64) {
	restamp(td, n/16%4096)
	i := int64(n % 16 * 64)
	for _, s := range td.ResourceSpans().At(0).ScopeSpans().At(0).Spans().All() {
		s.Attributes().PutInt(sglang.AttrDecodeCT, i)
		i++
	}
}

// BenchmarkRoot is a whole request without steps: ten spans, one of them the root.
func BenchmarkRoot(b *testing.B) {
	template := plainStory(finished(10, sglang.AttrLatencyTTFT, 0.201, sglang.AttrLatencyE2E, 1.0,
		sglang.AttrLatencyInDecode, 0.7, sglang.AttrLatencyInPrefill, 0.2, sglang.AttrLatencyInInference, 0.99)).end()
	p := benchProcessor(b, func(c *Config) { c.MaxHeldMiB = 4096; c.MaxRequests = 10_000_000 })
	batches := make([]ptrace.Traces, 16) // few: as if just decoded
	b.ReportAllocs()
	n := uint64(0)
	for i := 0; b.Loop(); i++ {
		if i%len(batches) == 0 {
			b.StopTimer()
			for k := range batches {
				batches[k] = ptrace.NewTraces()
				template.CopyTo(batches[k])
				n++
				restamp(batches[k], n)
			}
			b.StartTimer()
		}
		if err := p.ConsumeTraces(context.Background(), batches[i%len(batches)]); err != nil {
			b.Fatal(err)
		}
	}
}

// TestMemoryInFlight: 10 000 requests of 300 steps each, all open. With keep,
// the same numbers are held and the batch can be sent again.
func TestMemoryInFlight(t *testing.T) {
	const requests, limit = 10_000, 100 << 20
	p := benchProcessor(t, func(c *Config) { c.DecodeLoop = decodeLoopKeep })
	template := plainStory(finished(301))
	template.steps(300, 200, 2)
	spans := split(template.td)
	var open []ptrace.Traces // all but decode_forward and the scheduler's thread, which end last
	for _, td := range spans {
		s := td.ResourceSpans().At(0).ScopeSpans().At(0).Spans().At(0)
		if s.Name() != "decode_forward" && s.Name()[0] != 'S' {
			open = append(open, td)
		}
	}
	all := mergeAll(open)
	var before, after runtime.MemStats
	runtime.GC()
	runtime.ReadMemStats(&before)
	for n := range uint64(requests) {
		restamp(all, n)
		require.NoError(t, p.ConsumeTraces(context.Background(), all))
	}
	runtime.GC()
	runtime.ReadMemStats(&after)
	used := int64(after.HeapAlloc) - int64(before.HeapAlloc)
	t.Logf("%d requests of 300 steps in flight: %d MiB, %d MiB by our own count", requests, used>>20, p.heldBytes.Load()>>20)
	assert.Less(t, used, int64(limit))
	assert.EqualValues(t, requests, p.open()[""].requests)
	runtime.KeepAlive(p)
}
