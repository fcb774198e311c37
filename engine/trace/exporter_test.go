// Copyright The otelcol-sglang Authors
// SPDX-License-Identifier: Apache-2.0

package trace

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"go.opentelemetry.io/collector/pdata/ptrace"
	"go.opentelemetry.io/collector/pdata/ptrace/ptraceotlp"
	"pgregory.net/rapid"

	"github.com/otelcol-sglang/otelcol-sglang/engine/clock"
	"github.com/otelcol-sglang/otelcol-sglang/engine/ledger"
	"github.com/otelcol-sglang/otelcol-sglang/internal/sglang"
)

// TestQueue: a queue holds the newest spans, in order.
func TestQueue(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		q := queue{limit: rapid.IntRange(1, 40).Draw(t, "limit")}
		var model []int64
		next := int64(0)
		t.Repeat(map[string]func(*rapid.T){
			"push": func(t *rapid.T) {
				next++
				full := len(model) == q.limit
				if full {
					model = model[1:]
				}
				model = append(model, next)
				require.Equal(t, full, q.push(&span{start: next}))
			},
			"take": func(t *rapid.T) {
				n := min(rapid.IntRange(1, 50).Draw(t, "n"), len(model))
				for i, s := range q.take(nil, n) {
					require.Equal(t, model[i], s.start)
				}
				model = model[n:]
			},
			"": func(t *rapid.T) { require.Equal(t, len(model), q.n) },
		})
	})
}

// timed is a sink that notes when requests come.
type timed struct {
	loop  *clock.Loop
	sizes []string
}

func (s *timed) Open(Process) (Exporter, error) { return s, nil }

func (s *timed) Export(_ context.Context, td ptrace.Traces) error {
	s.sizes = append(s.sizes, fmt.Sprintf("%s %d", s.loop.Now(), td.SpanCount()))
	return nil
}

func (*timed) Close() error { return nil }

// TestBatches: full batches leave at once, the rest after the delay, and a process
// that woke up for nothing keeps its pace.
func TestBatches(t *testing.T) {
	for name, tc := range map[string]struct {
		change func(*exporter)
		puts   map[time.Duration]int
		want   []string
		stats  Stats
	}{
		"rest after the delay": {
			puts: map[time.Duration]int{at(100): 3, at(200): 2}, want: []string{"300ms 5"},
			stats: Stats{Exported: 5, Requests: 1},
		},
		"full ones at once": {
			puts:  map[time.Duration]int{at(100): 130},
			want:  []string{"100ms 64", "100ms 64", "600ms 2"},
			stats: Stats{Exported: 130, Requests: 3},
		},
		"same pace": {
			puts: map[time.Duration]int{at(2400): 1, at(2850): 1}, want: []string{"2.8s 1", "3.3s 1"},
			stats: Stats{Exported: 2, Requests: 2},
		},
		"slow sink": {
			change: func(e *exporter) { e.cost = time.Second },
			puts:   map[time.Duration]int{at(100): 64, at(200): 100, at(300): 2000},
			// While the first request is under way the queue drops all but the newest 2,048.
			want: []string{
				"100ms 64", "1.1s 64", "2.1s 64", "3.1s 64", "4.1s 64", "5.1s 64", "6.1s 64", "7.1s 64", "8.1s 64", "9.1s 64",
				"10.1s 64", "11.1s 64", "12.1s 64", "13.1s 64", "14.1s 64", "15.1s 64", "16.1s 64", "17.1s 64", "18.1s 64",
				"19.1s 64", "20.1s 64", "21.1s 64", "22.1s 64", "23.1s 64", "24.1s 64", "25.1s 64", "26.1s 64", "27.1s 64",
				"28.1s 64", "29.1s 64", "30.1s 64", "31.1s 64", "32.1s 64",
			},
			stats: Stats{Exported: 64 + 2048, Dropped: 52, Requests: 33},
		},
		"silent": {
			change: func(e *exporter) { e.silent = true },
			puts:   map[time.Duration]int{at(100): 7}, stats: Stats{Silenced: 7},
		},
	} {
		t.Run(name, func(t *testing.T) {
			loop := clock.NewVirtual(time.Unix(0, 0))
			sink := &timed{loop: loop}
			e := &exporter{
				loop: loop, out: sink, delay: at(500), batchSpans: sglang.ExportBatchSpans,
				queue: queue{limit: sglang.ExportQueueSpans}, resource: ptrace.NewResourceSpans().Resource(), due: at(300),
			}
			if tc.change != nil {
				tc.change(e)
			}
			e.start()
			for when, n := range tc.puts {
				loop.At(when, func() {
					for range n {
						e.put(&span{})
					}
				})
			}
			require.NoError(t, loop.Run(context.Background()))
			require.NoError(t, e.shutdown(context.Background()))
			require.NoError(t, e.shutdown(context.Background()))
			assert.Equal(t, tc.want, sink.sizes)
			assert.Equal(t, tc.stats, e.stats())
		})
	}
}

// TestRankLoss: an overloaded rank loses its own spans and nobody else's, a silent
// one all, and every span is counted.
func TestRankLoss(t *testing.T) {
	b := newBench(t)
	p := &ledger.Place{DPRank: -1, TPRanks: []int{0, 1, 2}}
	b.Set(func(p Process) bool { return p.TP == 1 }, Condition{ExportTime: 2 * time.Second})
	for i := range 40 {
		b.loop.At(at(float64(i)*100), func() { story(b.Tracer, newRequest("a"), p, b.loop.Now(), 200) })
	}
	b.loop.RunUntil(4 * time.Second)
	b.Set(func(p Process) bool { return p.TP == 2 }, Condition{Silent: true})
	b.loop.At(5*time.Second, func() { story(b.Tracer, newRequest("a"), p, b.loop.Now(), 10) })
	b.out()
	stats := b.Stats()
	const perRank = 40*205 + 15
	good, slow, mute := stats[Scheduler(0, 0, -1)], stats[Scheduler(1, 0, -1)], stats[Scheduler(2, 0, -1)]
	assert.EqualValues(t, perRank, good.Exported)
	assert.Positive(t, slow.Dropped)
	assert.EqualValues(t, perRank, slow.Exported+slow.Dropped)
	assert.GreaterOrEqual(t, mute.Silenced, uint64(15), "what comes, and what was queued")
	assert.EqualValues(t, perRank, mute.Exported+mute.Silenced)
	assert.EqualValues(t, 41*4, stats[FrontEnd(0)].Exported)
}

// stuck is a sink whose requests end when told.
type stuck struct {
	mu    sync.Mutex
	spans map[Process]int
	hold  map[Process]chan struct{}
}

type stuckOne struct {
	*stuck
	p Process
}

func (s *stuck) Open(p Process) (Exporter, error) { return stuckOne{s, p}, nil }

func (s stuckOne) Export(ctx context.Context, td ptrace.Traces) error {
	if hold := s.hold[s.p]; hold != nil {
		select {
		case <-hold:
		case <-ctx.Done():
			return ctx.Err()
		}
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.spans[s.p] += td.SpanCount()
	return nil
}

func (stuckOne) Close() error { return nil }

// TestRealTime: a connection that hangs delays nobody else; its requests fail after
// ten seconds, its queue drops, and shutdown sends what is left.
func TestRealTime(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		one := Scheduler(1, 0, -1)
		sink := &stuck{spans: map[Process]int{}, hold: map[Process]chan struct{}{one: make(chan struct{})}}
		loop := clock.NewReal(1)
		tr, err := New(Config{Loop: loop, Sink: sink, Level: 3})
		require.NoError(t, err)
		p := &ledger.Place{DPRank: -1, TPRanks: []int{0, 1}}
		for i := range 30 {
			loop.At(time.Duration(i)*100*time.Millisecond, func() { story(tr, newRequest("a"), p, loop.Now(), 95) })
		}
		ctx, cancel := context.WithTimeout(t.Context(), 12*time.Second)
		defer cancel()
		require.NoError(t, loop.Run(ctx))
		synctest.Wait()
		held := tr.Stats()[one]
		assert.Zero(t, held.Exported)
		assert.EqualValues(t, 64, held.Failed)
		require.ErrorIs(t, held.LastError, context.DeadlineExceeded)
		assert.EqualValues(t, 3000-64-2048, held.Dropped, "all that came while the first request hung")
		assert.EqualValues(t, 3000, tr.Stats()[Scheduler(0, 0, -1)].Exported)
		close(sink.hold[one])
		require.NoError(t, tr.Shutdown(t.Context()))
		after := tr.Stats()[one]
		assert.EqualValues(t, 3000, after.Exported+after.Failed+after.Dropped)
		assert.EqualValues(t, sink.spans[one], after.Exported)
		story(tr, newRequest("late"), p, loop.Now(), 1)
		assert.Positive(t, tr.Stats()[one].Silenced)
	})
}

// TestShutdownInTime: what a context leaves no time for counts as dropped.
func TestShutdownInTime(t *testing.T) {
	b := newBench(t)
	story(b.Tracer, newRequest("a"), alone, 0, 3)
	ctx, cancel := context.WithCancel(context.Background())
	cancel()
	require.NoError(t, b.Shutdown(ctx))
	assert.EqualValues(t, 8, b.Stats()[Scheduler(0, 0, -1)].Dropped)
	assert.Empty(t, b.to.Exports())
}

type closedSink struct{}

func (closedSink) Open(Process) (Exporter, error) { return nil, errors.New("no way") }

// TestNoConnection: spans of a process that has no connection fail, and say why.
func TestNoConnection(t *testing.T) {
	b := newBench(t, func(c *Config) { c.Sink = closedSink{} })
	story(b.Tracer, newRequest("a"), alone, 0, 3)
	b.out()
	s := b.Stats()[FrontEnd(0)]
	assert.EqualValues(t, 4, s.Failed)
	assert.EqualError(t, s.LastError, "no way")
}

func TestOTLP(t *testing.T) {
	send := func(t *testing.T, protocol, endpoint string) {
		t.Helper()
		sink, err := NewOTLP(protocol, endpoint)
		require.NoError(t, err)
		b := newBench(t, func(c *Config) { c.Sink = sink })
		story(b.Tracer, newRequest("a"), alone, 0, 3)
		b.out()
		assert.EqualValues(t, 8, b.Stats()[Scheduler(0, 0, -1)].Exported)
	}
	t.Run("grpc", func(t *testing.T) {
		endpoint, s := listen(t)
		send(t, "", endpoint)
		assert.Equal(t, 12, s.spans)
	})
	t.Run("http", func(t *testing.T) {
		var mu sync.Mutex
		spans, calls := 0, 0
		server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			mu.Lock()
			defer mu.Unlock()
			if calls++; calls == 1 {
				w.WriteHeader(http.StatusServiceUnavailable)
				return
			}
			body, err := io.ReadAll(r.Body)
			assert.NoError(t, err)
			req := ptraceotlp.NewExportRequest()
			assert.NoError(t, req.UnmarshalProto(body))
			assert.Equal(t, "application/x-protobuf", r.Header.Get("Content-Type"))
			spans += req.Traces().SpanCount()
		}))
		t.Cleanup(server.Close)
		send(t, ProtocolHTTP, server.URL+"/v1/traces")
		mu.Lock()
		defer mu.Unlock()
		assert.Equal(t, 12, spans)
	})
	t.Run("refused for good", func(t *testing.T) {
		server := httptest.NewServer(http.NotFoundHandler())
		t.Cleanup(server.Close)
		sink, err := NewOTLP(ProtocolHTTP, server.URL)
		require.NoError(t, err)
		b := newBench(t, func(c *Config) { c.Sink = sink })
		story(b.Tracer, newRequest("a"), alone, 0, 3)
		b.out()
		assert.EqualError(t, b.Stats()[FrontEnd(0)].LastError, "status 404 Not Found")
	})
	_, err := NewOTLP("http/json", "x")
	require.ErrorContains(t, err, `(got "http/json")`)
	_, err = NewOTLP(ProtocolHTTP, "localhost:4318")
	require.ErrorContains(t, err, "must be a URL")
}

// TestCrashWhileExporting: nothing leaves after a crash, though a request was under way.
func TestCrashWhileExporting(t *testing.T) {
	b := newBench(t)
	b.Set(func(Process) bool { return true }, Condition{ExportTime: time.Second})
	b.loop.At(0, func() { story(b.Tracer, newRequest("a"), alone, 0, 195) })
	gone, cancel := context.WithCancel(context.Background())
	cancel()
	sent := 0
	b.loop.At(at(100), func() {
		require.NoError(t, b.Shutdown(gone))
		sent = len(b.to.Exports())
	})
	b.out()
	assert.Len(t, b.to.Exports(), sent)
	s := b.Stats()[Scheduler(0, 0, -1)]
	assert.EqualValues(t, 200, s.Exported+s.Dropped)
	assert.Positive(t, s.Dropped)
}

// TestCrash: a shutdown that has no time does not wait for the request under way.
func TestCrash(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		one := Scheduler(0, 0, -1)
		sink := &stuck{spans: map[Process]int{}, hold: map[Process]chan struct{}{one: make(chan struct{})}}
		loop := clock.NewReal(1)
		tr, err := New(Config{Loop: loop, Sink: sink, Level: 3})
		require.NoError(t, err)
		ctx, cancel := context.WithTimeout(t.Context(), 3*time.Second)
		defer cancel()
		loop.At(0, func() { story(tr, newRequest("a"), alone, 0, 95) })
		loop.At(time.Second, func() {
			gone, cancel := context.WithCancel(context.Background())
			cancel()
			began := time.Now()
			require.NoError(t, tr.Shutdown(gone))
			assert.Equal(t, began, time.Now())
		})
		require.NoError(t, loop.Run(ctx))
		s := tr.Stats()[one]
		assert.Zero(t, s.Exported)
		assert.EqualValues(t, 100, s.Failed+s.Dropped)
		require.ErrorIs(t, s.LastError, context.Canceled)
	})
}
