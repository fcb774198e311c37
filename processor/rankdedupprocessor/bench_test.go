// Copyright The otelcol-sglang Authors
// SPDX-License-Identifier: Apache-2.0

package rankdedupprocessor

import (
	"context"
	"encoding/binary"
	"fmt"
	"runtime"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"go.opentelemetry.io/collector/component/componenttest"
	"go.opentelemetry.io/collector/consumer/consumertest"
	"go.opentelemetry.io/collector/pdata/pcommon"
	"go.opentelemetry.io/collector/pdata/ptrace"
	"go.opentelemetry.io/collector/processor/processortest"

	"github.com/otelcol-sglang/otelcol-sglang/internal/sglang"
	"github.com/otelcol-sglang/otelcol-sglang/processor/rankdedupprocessor/internal/metadata"
)

const batchSpans = 64

// load makes the batches of an engine's processes for some requests.
type load struct {
	name              string // prefix of its senders' names
	tp, level, tokens int
	requests          int // that a round of the benchmark serves
	lastID            uint64
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
	s.SetStartTimestamp(pcommon.Timestamp(time.Now().UnixNano()))
	s.SetEndTimestamp(s.StartTimestamp() + 1e6)
	return s
}

func (l *load) request() {
	trace, root, tokenizer, tokenize, dispatch := l.id(), l.id(), l.id(), l.id(), l.id()
	l.add(0, trace, tokenize, tokenizer, 0, "tokenize")
	l.add(0, trace, dispatch, tokenizer, tokenize, "api_server_dispatch")
	l.add(0, trace, tokenizer, root, 0, "Tokenizer").Attributes().PutStr(sglang.AttrThreadLabel, "Tokenizer")
	for rank := range l.tp {
		thread, process, waiting, prefill, decode := l.id(), l.id(), l.id(), l.id(), l.id()
		l.add(rank+1, trace, process, thread, dispatch, "request_process")
		l.add(rank+1, trace, waiting, thread, process, "prefill_waiting")
		l.add(rank+1, trace, prefill, thread, waiting, "prefill_forward")
		for i := range l.tokens {
			if l.level < 3 {
				break
			}
			l.add(rank+1, trace, l.id(), decode, 0, "decode_loop").Attributes().PutInt(sglang.AttrDecodeCT, int64(i+1))
		}
		l.add(rank+1, trace, decode, thread, prefill, "decode_forward")
		attrs := l.add(rank+1, trace, thread, root, 0, "Scheduler").Attributes()
		attrs.PutStr(sglang.AttrThreadLabel, "Scheduler")
		attrs.PutInt(sglang.AttrTPRank, int64(rank))
		attrs.PutInt(sglang.AttrPPRank, 0)
	}
	l.add(0, trace, root, 0, 0, " Req 0815").Attributes().PutStr(sglang.AttrRID, "0815")
}

// BenchmarkConsume measures Consume alone: CPU time, bytes and allocations per
// span of rank 0 and the front end, whose spans are kept, and of the other ranks,
// whose copies are folded. All are the whole process's, the flusher's part included.
func BenchmarkConsume(b *testing.B) {
	requests := map[int]int{1: 60, 3: 10} // by level
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
	require.NoError(b, p.Start(context.Background(), componenttest.NewNopHost()))
	defer func() { require.NoError(b, p.Shutdown(context.Background())) }()
	l.serve(1)
	var kept, folded measured
	send(b, p, l.batches, 1) // the ranks are known from here on
	for b.Loop() {
		b.StopTimer()
		l.serve(l.requests)
		runtime.GC() // what made the load is not the processor's
		b.StartTimer()
		kept.measure(l.batches[:2], func() { send(b, p, l.batches[:2], goroutines) })
		folded.measure(l.batches[2:], func() { send(b, p, l.batches[2:], goroutines) })
	}
	kept.report(b, "kept")
	folded.report(b, "folded")
}

// measured is what spans cost by what becomes of them.
type measured struct {
	spans, took   float64 // took in ns
	bytes, allocs float64
}

func (m *measured) measure(batches [][]ptrace.Traces, do func()) {
	for _, mine := range batches {
		for _, td := range mine {
			m.spans += float64(td.SpanCount())
		}
	}
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	began := clock()
	do()
	m.took += float64(clock() - began)
	runtime.ReadMemStats(&after)
	m.bytes += float64(after.TotalAlloc - before.TotalAlloc)
	m.allocs += float64(after.Mallocs - before.Mallocs)
}

func (m *measured) report(b *testing.B, kind string) {
	if m.spans == 0 {
		return
	}
	b.ReportMetric(m.took/m.spans, "ns/"+kind+"-span")
	b.ReportMetric(m.bytes/m.spans, "B/"+kind+"-span")
	b.ReportMetric(m.allocs/m.spans, "allocs/"+kind+"-span")
}

// send consumes the batches of some processes, in turn.
func send(b *testing.B, p *tracesProcessor, batches [][]ptrace.Traces, goroutines int) {
	work := make(chan ptrace.Traces, 4096)
	for _, mine := range batches {
		for _, td := range mine {
			work <- td
		}
	}
	close(work)
	var wg sync.WaitGroup
	for range goroutines {
		wg.Go(func() {
			for td := range work {
				if err := p.ConsumeTraces(context.Background(), td); err != nil {
					b.Error(err)
				}
			}
		})
	}
	wg.Wait()
}
