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

	"github.com/otelcol-sglang/otelcol-sglang/internal/sglang"
	"github.com/otelcol-sglang/otelcol-sglang/processor/genaiprocessor/internal/metadatatest"
)

func benchProcessor(tb testing.TB, change func(*Config)) *genaiProcessor {
	tb.Helper()
	cfg := createDefaultConfig().(*Config)
	if change != nil {
		change(cfg)
	}
	tel := componenttest.NewTelemetry() // counters cost, too
	tb.Cleanup(func() { require.NoError(tb, tel.Shutdown(context.Background())) })
	p, err := newProcessor(metadatatest.NewSettings(tel), cfg, consumertest.NewNop())
	require.NoError(tb, err)
	require.NoError(tb, p.Start(context.Background(), componenttest.NewNopHost()))
	tb.Cleanup(func() { require.NoError(tb, p.Shutdown(context.Background())) })
	return p
}

// foldedStory is a request of an engine with TP 8 at level 3 as rankdedup hands it
// on, all but its root: every attribute of every span, and so many steps.
func foldedStory(steps int) *story {
	s := plainStory(finished(201, sglang.AttrLatencyTTFT, 0.201, sglang.AttrLatencyE2E, 1.0,
		sglang.AttrLatencyInDecode, 0.799, sglang.AttrLatencyInPrefill, 0.198, sglang.AttrLatencyInInference, 0.997,
		sglang.AttrMaxTokens, 512, sglang.AttrTemperature, 0.7, sglang.AttrTopP, 0.95, sglang.AttrTopK, 40,
		sglang.AttrRequestID, "chatcmpl-48ec6ace2f0e4c5b9a7d3e1f60718293",
		sglang.AttrResponseModel, "meta-llama/Llama-3.3-70B-Instruct"))
	s.steps(steps, 200, 3.9)
	for i, step := range s.spans.All() { // no two steps take the same time
		step.SetEndTimestamp(step.EndTimestamp() - pcommon.Timestamp(i*7919%1_000_000))
	}
	for _, rs := range s.td.ResourceSpans().All() {
		ranked(rs, steps)
	}
	return s
}

// ranked puts on a process and its threads what newer SDKs and rankdedup put there.
func ranked(rs ptrace.ResourceSpans, steps int) {
	resource := rs.Resource().Attributes()
	for key, text := range map[string]string{
		"telemetry.sdk.language": "python", "telemetry.sdk.name": "opentelemetry", "telemetry.sdk.version": "1.39.1",
		"service.instance.id": "0c9a3c9e-6b1f-4a57-8a37-3a2f7c1d9e55", sglang.AttrEngineID: "48ec6ace2f0e4c5b",
	} {
		resource.PutStr(key, text)
	}
	for _, span := range rs.ScopeSpans().At(0).Spans().All() {
		attrs := span.Attributes()
		label, isThread := attrs.Get(sglang.AttrThreadLabel)
		if !isThread {
			continue
		}
		attrs.PutStr(sglang.AttrHostID, "0f3d5c7a9b1e2d4f")
		attrs.PutInt(sglang.AttrPID, 24445)
		slices := int64(2)
		if label.Str() == "Scheduler" {
			slices = int64(4 + steps)
			resource.PutInt(sglang.AttrResourceTPRank, 0)
			resource.PutInt(sglang.AttrResourcePPRank, 0)
			attrs.PutInt(sglang.AttrRanksCount, 8)
			attrs.PutInt(sglang.AttrRanksExpected, 8)
			attrs.PutInt(sglang.AttrRanksSlowest, 3)
			attrs.PutDouble(sglang.AttrRanksSkew, 0.0004)
		}
		attrs.PutInt(sglang.AttrThreadSpans, slices)
	}
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

// BenchmarkRequest is a whole request in one batch: 209 spans, 200 of them steps, one the root.
func BenchmarkRequest(b *testing.B) {
	template := foldedStory(200).end()
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

// liveHeap is what is in use, in bytes. What pools keep outlives one collection.
func liveHeap() int64 {
	runtime.GC()
	runtime.GC()
	var stats runtime.MemStats
	runtime.ReadMemStats(&stats)
	return int64(stats.HeapAlloc)
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
	before := liveHeap()
	for n := range uint64(requests) {
		restamp(all, n)
		require.NoError(t, p.ConsumeTraces(context.Background(), all))
	}
	used := liveHeap() - before
	t.Logf("%d requests of 300 steps in flight: %d MiB, %d MiB by our own count", requests, used>>20, p.heldBytes.Load()>>20)
	assert.Less(t, used, int64(limit))
	assert.Less(t, p.heldBytes.Load(), int64(limit), "what does not depend on the garbage collector")
	assert.EqualValues(t, requests, p.open()[""].requests)
	runtime.KeepAlive(p)
}
