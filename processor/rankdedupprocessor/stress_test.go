// Copyright The otelcol-sglang Authors
// SPDX-License-Identifier: Apache-2.0

package rankdedupprocessor

import (
	"context"
	"errors"
	"fmt"
	"runtime"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"go.opentelemetry.io/collector/consumer/consumertest"
	"go.opentelemetry.io/collector/pdata/pcommon"
	"go.opentelemetry.io/collector/pdata/ptrace"

	"github.com/otelcol-sglang/otelcol-sglang/internal/sglang"
)

// countingSink counts how often each span left; it refuses some calls.
type countingSink struct {
	consumertest.TracesSink
	calls atomic.Int64
	every int64
}

func (s *countingSink) ConsumeTraces(ctx context.Context, td ptrace.Traces) error {
	if s.every > 0 && s.calls.Add(1)%s.every == 0 {
		return errors.New("busy")
	}
	return s.TracesSink.ConsumeTraces(ctx, td)
}

// TestConcurrentSenders: several engines' processes send at the same time while
// the next consumer refuses now and then. Nothing is lost, and each logical
// step leaves.
func TestConcurrentSenders(t *testing.T) {
	const engines, tp, requests, tokens = 3, 3, 10, 30
	sink := &countingSink{every: 7}
	cfg := createDefaultConfig().(*Config)
	cfg.Wait = 50 * time.Millisecond
	cfg.LearnWait = time.Second
	p, tel := startWith(t, cfg, sink)
	var wg sync.WaitGroup
	for e := range engines {
		l := &load{tp: tp, level: 3, tokens: tokens, name: fmt.Sprintf("engine%d-", e), lastID: uint64(e) << 40}
		l.serve(requests)
		for _, batches := range l.batches {
			wg.Go(func() {
				for _, td := range batches {
					deliver(p, td)
				}
			})
		}
	}
	wg.Go(func() {
		for range 20 {
			p.registry.Count()
			p.level(heldSpans)
			runtime.Gosched()
		}
	})
	wg.Wait()
	require.NoError(t, p.Shutdown(context.Background()))
	assert.Zero(t, value(t, tel, "spans_lost", ""))
	assert.Zero(t, p.bytes.Load())
	seen := map[pcommon.TraceID]map[int64]bool{}
	for ct, spans := range steps(sink.AllTraces()) {
		for _, s := range spans {
			if seen[s.TraceID()] == nil {
				seen[s.TraceID()] = map[int64]bool{}
			}
			seen[s.TraceID()][ct] = true
		}
	}
	assert.Len(t, seen, engines*requests)
	for trace, ordinals := range seen {
		assert.Equal(t, tokens, len(ordinals), "steps of %s", trace) //nolint:testifylint // Len prints the map
	}
}

// deliver sends a batch until it is taken, as an exporter does.
func deliver(p *tracesProcessor, td ptrace.Traces) {
	for {
		again := ptrace.NewTraces()
		td.CopyTo(again)
		if p.ConsumeTraces(context.Background(), again) == nil {
			return
		}
		runtime.Gosched()
	}
}

// TestShutdownDuringTraffic: senders go on; they are refused from some time on.
func TestShutdownDuringTraffic(t *testing.T) {
	p, _ := startWith(t, createDefaultConfig().(*Config), consumertest.NewNop())
	var wg sync.WaitGroup
	var refused atomic.Bool
	for e := range 9 {
		wg.Go(func() {
			l := &load{tp: 2, level: 3, tokens: 20, name: fmt.Sprintf("engine%d-", e), lastID: uint64(e) << 40}
			for !refused.Load() {
				l.serve(1)
				for _, batches := range l.batches {
					for _, td := range batches {
						if p.ConsumeTraces(context.Background(), td) != nil {
							refused.Store(true)
						}
					}
				}
			}
		})
	}
	require.NoError(t, p.Shutdown(context.Background()))
	wg.Wait()
}

// TestShutdownEnds although the next consumer refuses for good; what is left is counted.
func TestShutdownEnds(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		next := &flaky{refuse: func(call int) error {
			if call > 1 {
				return errors.New("down")
			}
			return nil
		}}
		p, tel := startWith(t, createDefaultConfig().(*Config), next)
		l := &load{tp: 1}
		l.serve(1)
		require.NoError(t, p.ConsumeTraces(context.Background(), l.batches[0][0]))
		began := time.Now()
		require.NoError(t, p.Shutdown(context.Background()))
		assert.LessOrEqual(t, time.Since(began), maxDrain+lastRetry)
		assert.EqualValues(t, 1, value(t, tel, "spans_lost", "shutdown"))
	})
}

// TestMemory: a TP-8 engine at trace level 3 with 100 requests of 2000 tokens in
// flight, 50 steps a second, and known senders.
func TestMemory(t *testing.T) {
	if testing.Short() {
		t.Skip("takes seconds")
	}
	const tp, requests, tokens = 8, 100, 2000
	synctest.Test(t, func(t *testing.T) {
		p, _ := startWith(t, createDefaultConfig().(*Config), consumertest.NewNop())
		l := &load{tp: tp, level: 3, tokens: 1}
		warm(t, p, l)
		f := newFlight(l, requests)
		mostHeld, mostHeap := int64(0), int64(0)
		base := heap()
		for ct := 1; ct <= tokens; ct++ {
			for i := range tp {
				consumeAll(t, p, f.step((i+ct)%tp, ct)...)
				mostHeld = max(mostHeld, p.level(heldSpans))
			}
			if ct%500 == 0 {
				mostHeap = max(mostHeap, heap()-base)
			}
			time.Sleep(20 * time.Millisecond)
		}
		t.Logf("held at most %d spans, %d MiB counted, %d MiB of heap", mostHeld, p.bytes.Load()>>20, mostHeap>>20)
		assert.Less(t, mostHeld, int64(2000))
		assert.Less(t, mostHeap, int64(150<<20))
		assert.Zero(t, p.level(heldSpans))
		// What is counted must be near what is used, or the limit would mean nothing.
		assert.Greater(t, 2*p.bytes.Load(), mostHeap)
	})
}

// heap returns the bytes in use. Signed: what other tests left may go between two
// calls. What a sync.Pool holds goes with the second collection only.
func heap() int64 {
	runtime.GC()
	runtime.GC()
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	return int64(m.HeapAlloc)
}

// flight is requests that decode at the same time.
type flight struct {
	l        *load
	requests []flying
}

type flying struct {
	trace, dispatch uint64
	thread, decode  []uint64
}

func newFlight(l *load, requests int) *flight {
	f := &flight{l: l}
	for range requests {
		r := flying{trace: l.id(), dispatch: l.id()}
		for range l.tp {
			r.thread, r.decode = append(r.thread, l.id()), append(r.decode, l.id())
		}
		f.requests = append(f.requests, r)
	}
	return f
}

// step returns what one rank exports for one step of all requests.
func (f *flight) step(rank, ct int) []ptrace.Traces {
	l := f.l
	l.at = time.Now().UnixNano()
	l.batches = make([][]ptrace.Traces, l.tp+1)
	for _, r := range f.requests {
		if ct == 1 {
			process := l.id()
			l.add(rank+1, r.trace, process, r.thread[rank], r.dispatch, "request_process")
		}
		l.add(rank+1, r.trace, l.id(), r.decode[rank], 0, "decode_loop").Attributes().PutInt(sglang.AttrDecodeCT, int64(ct))
	}
	return l.batches[rank+1]
}

// TestLongColdStart: no rank is known while four ranks show one request of many
// steps; the thread spans come last.
func TestLongColdStart(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const tokens = 6000
		sink := &consumertest.TracesSink{}
		cfg := createDefaultConfig().(*Config)
		cfg.MaxHeldMiB = 1024
		p, tel := startWith(t, cfg, sink)
		l := &load{tp: 4, level: 3, tokens: tokens}
		l.serve(1)
		for i := range l.batches[1] {
			for _, batches := range l.batches {
				if i < len(batches) {
					consumeAll(t, p, batches[i])
				}
			}
		}
		time.Sleep(time.Minute)
		synctest.Wait()
		assert.Zero(t, value(t, tel, "spans_early_release", ""))
		out := treeOf(sink.AllTraces())
		assert.Empty(t, out.twice)
		assert.Empty(t, out.dangling())
		assert.Len(t, out.spans, tokens+3+1+4+1)
	})
}
