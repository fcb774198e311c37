// Copyright The otelcol-sglang Authors
// SPDX-License-Identifier: Apache-2.0

package rankdedupprocessor

import (
	"context"
	"encoding/binary"
	"fmt"
	"runtime"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"go.opentelemetry.io/collector/consumer/consumertest"
	"go.opentelemetry.io/collector/pdata/pcommon"
	"go.opentelemetry.io/collector/pdata/ptrace"
	"go.opentelemetry.io/collector/processor/processortest"

	"github.com/otelcol-sglang/otelcol-sglang/internal/sglang"
	"github.com/otelcol-sglang/otelcol-sglang/processor/rankdedupprocessor/internal/fold"
	"github.com/otelcol-sglang/otelcol-sglang/processor/rankdedupprocessor/internal/metadata"
)

const batchSpans = 64

// load makes the batches of an engine's processes for some requests.
type load struct {
	name              string // prefix of its senders' names
	tp, level, tokens int
	requests          int // that a round of the benchmark serves
	lastID            uint64
	at                int64             // when the latest slice began, unix ns
	batches           [][]ptrace.Traces // by process; the front end's first
}

func (l *load) id() uint64 { l.lastID++; return l.lastID*0x9e3779b97f4a7c15 | 1 }

func (l *load) serve(requests int) {
	l.batches = make([][]ptrace.Traces, l.tp+1)
	for range requests {
		l.request()
	}
}

func (l *load) add(process int, trace, id, parent, link uint64, name string) ptrace.Span {
	mine := l.batches[process]
	if len(mine) == 0 || mine[len(mine)-1].SpanCount() >= batchSpans {
		td := ptrace.NewTraces()
		rs := td.ResourceSpans().AppendEmpty()
		rs.Resource().Attributes().PutStr("service.name", "sglang")
		rs.Resource().Attributes().PutStr(attrInstanceID, fmt.Sprintf("%sprocess-%d", l.name, process))
		rs.Resource().Attributes().PutStr(sglang.AttrExporterPeer, fmt.Sprintf("collector/%s10.0.0.1:%d", l.name, 4000+process))
		rs.ScopeSpans().AppendEmpty().Scope().SetName(sglang.ScopeName)
		mine = append(mine, td)
		l.batches[process] = mine
	}
	s := mine[len(mine)-1].ResourceSpans().At(0).ScopeSpans().At(0).Spans().AppendEmpty()
	var traceID pcommon.TraceID
	binary.BigEndian.PutUint64(traceID[8:], trace)
	s.SetTraceID(traceID)
	s.SetSpanID(spanID(id))
	if parent != 0 {
		s.SetParentSpanID(spanID(parent))
	}
	if link != 0 {
		to := s.Links().AppendEmpty()
		to.SetTraceID(traceID)
		to.SetSpanID(spanID(link))
	}
	s.SetName(name)
	return timed(s, l.at, 5*time.Millisecond)
}

func timed(s ptrace.Span, start int64, took time.Duration) ptrace.Span {
	s.SetStartTimestamp(pcommon.Timestamp(start))
	s.SetEndTimestamp(pcommon.Timestamp(start + took.Nanoseconds()))
	return s
}

// request makes the spans that an engine emits for one request at the trace level.
func (l *load) request() {
	took := time.Second + time.Duration(l.tokens)*5*time.Millisecond
	trace, root, tokenizer, first := l.id(), l.id(), l.id(), l.id()
	began := time.Now().UnixNano()
	l.at = began
	l.add(0, trace, first, tokenizer, 0, "tokenize")
	if l.level >= 2 {
		tokenize := first
		first = l.id()
		l.add(0, trace, first, tokenizer, tokenize, "api_server_dispatch")
	}
	describe(timed(l.add(0, trace, tokenizer, root, 0, "Tokenizer"), began, took), "Tokenizer", 0)
	for rank := range l.tp {
		thread, decode, before := l.id(), l.id(), first
		l.at = began + int64(rank)*1000
		slice := func(name string) {
			id := l.id()
			l.at += 5e6
			l.add(rank+1, trace, id, thread, before, name)
			before = id
		}
		if l.level >= 2 {
			slice("request_process")
		}
		slice("prefill_waiting")
		slice("prefill_forward")
		for i := range l.tokens {
			if l.level < 3 {
				break
			}
			l.at += 5e6
			l.add(rank+1, trace, l.id(), decode, 0, "decode_loop").Attributes().PutInt(sglang.AttrDecodeCT, int64(i+1))
		}
		l.add(rank+1, trace, decode, thread, before, "decode_forward")
		s := timed(l.add(rank+1, trace, thread, root, 0, "Scheduler"), began, took)
		describe(s, "Scheduler", int64(rank))
		s.Attributes().PutInt(sglang.AttrTPRank, int64(rank))
		s.Attributes().PutInt(sglang.AttrPPRank, 0)
	}
	finish(timed(l.add(0, trace, root, 0, 0, " Req 0815"), began, took))
}

// describe gives a thread span what every process says of itself.
func describe(s ptrace.Span, label string, pid int64) {
	s.Attributes().PutStr(sglang.AttrHostID, "8d9c5c2e9a3f4b0e8f1d2c3b4a596877")
	s.Attributes().PutInt(sglang.AttrPID, 4711+pid)
	s.Attributes().PutStr(sglang.AttrThreadLabel, label)
}

// finish gives a root what a finished request of the release has.
func finish(root ptrace.Span) {
	attrs := root.Attributes()
	attrs.PutStr(sglang.AttrRID, "fb34ccc5d2c54e6a8d0e1b2f3a4c5d6e")
	attrs.PutStr(sglang.AttrModule, sglang.ModuleRequest)
	attrs.PutStr("gen_ai.request.id", "fb34ccc5d2c54e6a8d0e1b2f3a4c5d6e")
	attrs.PutStr("gen_ai.response.model", "meta-llama/Llama-3.1-8B-Instruct")
	attrs.PutStr("gen_ai.response.finish_reasons", `["stop"]`)
	for _, key := range [...]string{"usage.prompt_tokens", "usage.cached_tokens", "usage.completion_tokens", "request.max_tokens"} {
		attrs.PutInt("gen_ai."+key, 1000)
	}
	for _, key := range [...]string{"time_to_first_token", "e2e", "time_in_model_decode", "time_in_model_inference", "time_in_model_prefill"} {
		attrs.PutDouble("gen_ai.latency."+key, 0.5)
	}
}

// BenchmarkConsume measures what spans cost by what becomes of them, on top of
// decoding: CPU time, bytes and allocations per span of the front end and rank 0,
// whose spans are kept, and of the other ranks, whose copies are folded. Each
// batch is decoded right before it is consumed, as in a receiver.
//
// A request's way is walked in three parts. Consume of the kept spans, and of the
// folded ones after them: to complete requests by their last thread span, with the
// digest, counts for the folded. Handing on what was held, roots and thread spans:
// for the kept. Forgetting the requests: for both, by their number.
func BenchmarkConsume(b *testing.B) {
	requests := map[int]int{1: 240, 3: 10} // by level
	for _, tp := range []int{1, 4, 8} {
		for _, level := range []int{1, 3} {
			for _, goroutines := range []int{1, 9} {
				b.Run(fmt.Sprintf("tp%d/level%d/goroutines%d", tp, level, goroutines), func(b *testing.B) {
					benchConsume(b, &load{tp: tp, level: level, tokens: 200, requests: requests[level]}, goroutines)
				})
			}
		}
	}
}

func benchConsume(b *testing.B, l *load, goroutines int) {
	p, err := newTracesProcessor(processortest.NewNopSettings(metadata.Type), createDefaultConfig().(*Config), consumertest.NewNop())
	require.NoError(b, err)
	defer func() { require.NoError(b, p.Shutdown(context.Background())) }()
	// What the processor's own goroutine does is done here, to tell what it is for.
	handOn := func() { p.flusher.send(context.Background()) }
	forget := func() { p.flusher.expire(time.Now().Add(time.Minute)) }
	l.serve(1)
	newPart(b, l.batches, 1).run(p) // the ranks are known from here on
	p.flusher.each(time.Now().Add(time.Minute), (*fold.Shard).Learned)
	forget()
	handOn()
	var kept, folded, both measured
	for b.Loop() {
		b.StopTimer()
		l.serve(l.requests)
		first, second := newPart(b, l.batches[:2], goroutines), newPart(b, l.batches[2:], goroutines)
		runtime.GC() // what made the load is not the processor's
		b.StartTimer()
		kept.part(first, p)
		folded.part(second, p)
		kept.measure(handOn)
		both.measure(forget)
	}
	both.spans = kept.spans + folded.spans
	require.Zero(b, p.level(func(s fold.Stats) int64 { return s.Held + s.Traces }))
	kept.report(b, &both, "kept")
	folded.report(b, &both, "folded")
}

// part is encoded batches that some goroutines consume in turn.
type part struct {
	b          *testing.B
	batches    [][]byte
	spans      int
	goroutines int
}

func newPart(b *testing.B, processes [][]ptrace.Traces, goroutines int) *part {
	p := &part{b: b, goroutines: goroutines}
	for _, mine := range processes {
		for _, td := range mine {
			p.spans += td.SpanCount()
			encoded, err := (&ptrace.ProtoMarshaler{}).MarshalTraces(td)
			require.NoError(b, err)
			p.batches = append(p.batches, encoded)
		}
	}
	return p
}

// run decodes and consumes all batches; it returns the CPU time of the latter. A
// nil processor only decodes.
func (w *part) run(p *tracesProcessor) time.Duration {
	var next, took atomic.Int64
	var wg sync.WaitGroup
	for range w.goroutines {
		wg.Go(func() {
			runtime.LockOSThread() // the clock is the thread's
			defer runtime.UnlockOSThread()
			for at := next.Add(1); at <= int64(len(w.batches)); at = next.Add(1) {
				td, err := (&ptrace.ProtoUnmarshaler{}).UnmarshalTraces(w.batches[at-1])
				if err != nil {
					w.b.Error(err)
				}
				if p == nil {
					continue
				}
				began := clock()
				if err := p.ConsumeTraces(context.Background(), td); err != nil {
					w.b.Error(err)
				}
				took.Add(int64(clock() - began))
			}
		})
	}
	wg.Wait()
	return time.Duration(took.Load())
}

// measured is what spans cost.
type measured struct {
	spans, took   float64 // took in ns
	bytes, allocs float64
}

// part measures to consume; what decoding allocates is taken off.
func (m *measured) part(w *part, p *tracesProcessor) {
	m.spans += float64(w.spans)
	m.allocated(-1, func() { w.run(nil) })
	m.allocated(1, func() { m.took += float64(w.run(p)) })
}

func (m *measured) measure(do func()) {
	m.allocated(1, func() {
		runtime.LockOSThread()
		defer runtime.UnlockOSThread()
		began := clock()
		do()
		m.took += float64(clock() - began)
	})
}

func (m *measured) allocated(sign float64, do func()) {
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	do()
	runtime.ReadMemStats(&after)
	m.bytes += sign * float64(after.TotalAlloc-before.TotalAlloc)
	m.allocs += sign * float64(after.Mallocs-before.Mallocs)
}

func (m *measured) report(b *testing.B, both *measured, kind string) {
	if m.spans == 0 {
		return
	}
	b.ReportMetric(m.took/m.spans+both.took/both.spans, "ns/"+kind+"-span")
	b.ReportMetric(m.bytes/m.spans+both.bytes/both.spans, "B/"+kind+"-span")
	b.ReportMetric(m.allocs/m.spans+both.allocs/both.spans, "allocs/"+kind+"-span")
}
