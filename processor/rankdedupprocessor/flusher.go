// Copyright The otelcol-sglang Authors
// SPDX-License-Identifier: Apache-2.0

package rankdedupprocessor // import "github.com/otelcol-sglang/otelcol-sglang/processor/rankdedupprocessor"

import (
	"context"
	"sync"
	"sync/atomic"
	"time"

	"go.opentelemetry.io/collector/consumer/consumererror"
	"go.opentelemetry.io/collector/pdata/ptrace"
	"go.uber.org/zap"

	"github.com/otelcol-sglang/otelcol-sglang/processor/rankdedupprocessor/internal/fold"
)

const (
	// maxSend bounds the spans of one batch that the flusher hands on.
	maxSend = 1024
	// firstRetry and lastRetry bound the pause after a retryable error.
	firstRetry = 100 * time.Millisecond
	lastRetry  = 5 * time.Second
	// maxDrain bounds how long the end is put off for a next consumer that refuses.
	maxDrain = 15 * time.Second
	// sweepInterval is how often what is remembered is looked through.
	sweepInterval = time.Second
)

var decoder ptrace.ProtoUnmarshaler

// flusher hands on what was held, on a goroutine of its own: a retryable error
// keeps it, a permanent one counts it as lost.
type flusher struct {
	p       *tracesProcessor
	logger  *zap.Logger
	tick    time.Duration
	signal  chan struct{}
	learned atomic.Bool
	quit    chan context.Context
	done    chan struct{}
	once    sync.Once
	started bool

	mu    sync.Mutex
	queue []fold.Release // in the order in which it must leave
	bytes int64          // of queue
	// closed: nothing will be handed on any more.
	closed bool

	// Owned by the goroutine.

	// spare is the batch, encoded, that the next consumer has not taken, of the
	// first sparedSpans of the queue: who fails may have changed what it was given.
	spare       []byte
	sparedSpans int
	retryAt     time.Time
	pause       time.Duration
	swept       time.Time
}

type signalKind bool

const (
	signalOut     signalKind = false
	signalLearned signalKind = true
)

func newFlusher(p *tracesProcessor, logger *zap.Logger, wait time.Duration) *flusher {
	return &flusher{
		p: p, logger: logger,
		tick:   min(max(wait/10, 5*time.Millisecond), 200*time.Millisecond),
		signal: make(chan struct{}, 1),
		quit:   make(chan context.Context, 1),
		done:   make(chan struct{}),
	}
}

func (f *flusher) start() {
	f.started = true
	go f.run()
}

// stop hands on everything and ends the goroutine.
func (f *flusher) stop(ctx context.Context) error {
	if !f.started {
		return nil
	}
	f.once.Do(func() { f.quit <- ctx })
	select {
	case <-f.done:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

func (f *flusher) wake(kind signalKind) {
	if kind == signalLearned {
		f.learned.Store(true)
	}
	select {
	case f.signal <- struct{}{}:
	default:
	}
}

// put adds to what is to leave; a shard's lock is held.
func (f *flusher) put(out []fold.Release) {
	f.mu.Lock()
	f.queue = append(f.queue, out...)
	for i := range out {
		f.bytes += out[i].Bytes
	}
	f.mu.Unlock()
	f.wake(signalOut)
}

// queued is the number of spans that are released and not yet handed on.
func (f *flusher) queued() int64 {
	f.mu.Lock()
	defer f.mu.Unlock()
	return int64(len(f.queue))
}

// full tells that nothing more can be accepted: the next consumer takes too
// little, or the end has come.
func (f *flusher) full() bool {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.bytes > f.p.maxBytes || f.closed
}

func (f *flusher) run() {
	defer close(f.done)
	ticker := time.NewTicker(f.tick)
	defer ticker.Stop()
	for {
		select {
		case <-ticker.C:
			f.expire(f.p.clock.Now())
		case <-f.signal:
			if f.learned.Swap(false) {
				f.each(f.p.clock.Now(), (*fold.Shard).Learned)
			}
		case ctx := <-f.quit:
			f.drain(ctx)
			return
		}
		if !f.p.clock.Now().Before(f.retryAt) {
			f.send(context.Background())
		}
	}
}

// each calls do for every shard and collects what leaves by it.
func (f *flusher) each(now time.Time, do func(*fold.Shard, time.Time)) {
	for i := range f.p.shards {
		s := &f.p.shards[i]
		s.mu.Lock()
		do(s.Shard, now)
		f.p.collect(s)
		st := stats{}
		st.add(s.TakeStats())
		s.mu.Unlock()
		f.p.telem.stats(context.Background(), &st)
	}
}

// expire does what is due.
func (f *flusher) expire(now time.Time) {
	if f.p.registry.Settle(now) {
		f.each(now, (*fold.Shard).Learned)
	}
	f.each(now, (*fold.Shard).Expire)
	if now.Sub(f.swept) < sweepInterval {
		return
	}
	f.swept = now
	f.p.registry.Forget(now)
	if f.p.bytes.Load() > f.p.maxBytes {
		f.each(now, (*fold.Shard).Relieve)
	}
}

// send hands on what is queued until it is empty or the next consumer refuses.
func (f *flusher) send(ctx context.Context) {
	for {
		td, n, err := f.nextBatch()
		if n == 0 {
			return
		}
		if err == nil {
			err = f.p.next.ConsumeTraces(ctx, td)
		}
		switch {
		case err == nil:
			f.pause = 0
			f.p.telem.released(ctx, int64(n))
		case consumererror.IsPermanent(err):
			f.p.telem.lost(lostPermanent, int64(n))
			f.logger.Warn("Held spans were refused for good", zap.Int("spans", n), zap.Error(err))
		default:
			f.pause = min(max(2*f.pause, firstRetry), lastRetry)
			f.retryAt = f.p.clock.Now().Add(f.pause)
			return
		}
		f.pop(n)
	}
}

// nextBatch returns a batch of the first spans of the queue, and their number. An
// error is permanent.
func (f *flusher) nextBatch() (ptrace.Traces, int, error) {
	if f.sparedSpans > 0 {
		td, err := decoder.UnmarshalTraces(f.spare)
		return td, f.sparedSpans, permanent(err)
	}
	f.mu.Lock()
	n := min(len(f.queue), maxSend)
	part := f.queue[:n:n]
	f.mu.Unlock()
	if n == 0 {
		return ptrace.Traces{}, 0, nil
	}
	td := assemble(part)
	var err error
	f.spare, err = encoder.MarshalTraces(td)
	f.sparedSpans = n
	return td, n, permanent(err)
}

func permanent(err error) error {
	if err == nil {
		return nil
	}
	return consumererror.NewPermanent(err)
}

// pop removes the first spans of the queue.
func (f *flusher) pop(n int) {
	f.spare, f.sparedSpans = nil, 0
	f.mu.Lock()
	defer f.mu.Unlock()
	for i := range f.queue[:n] {
		f.bytes -= f.queue[i].Bytes
		f.queue[i] = fold.Release{}
	}
	f.queue = f.queue[n:]
	if len(f.queue) == 0 {
		f.queue = nil
	}
}

// drain lets everything go and hands it on as long as the context allows.
func (f *flusher) drain(ctx context.Context) {
	ctx, cancel := context.WithTimeout(ctx, maxDrain)
	defer cancel()
	f.mu.Lock()
	f.closed = true
	f.mu.Unlock()
	f.each(f.p.clock.Now(), (*fold.Shard).Learned)
	f.each(f.p.clock.Now(), (*fold.Shard).FlushAll)
	for {
		f.send(ctx)
		left := f.queued()
		if left == 0 {
			return
		}
		select {
		case <-ctx.Done():
			f.p.telem.lost(lostShutdown, left)
			f.logger.Error("Held spans could not be handed on before the end", zap.Int64("spans", left))
			return
		case <-time.After(f.pause):
		}
	}
}
