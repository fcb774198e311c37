// Copyright The otelcol-sglang Authors
// SPDX-License-Identifier: Apache-2.0

package rankdedupprocessor // import "github.com/otelcol-sglang/otelcol-sglang/processor/rankdedupprocessor"

import (
	"context"
	"errors"
	"sync"
	"sync/atomic"
	"time"

	"go.opentelemetry.io/collector/component"
	"go.opentelemetry.io/collector/consumer"
	"go.opentelemetry.io/collector/pdata/ptrace"
	"go.opentelemetry.io/collector/processor"

	"github.com/otelcol-sglang/otelcol-sglang/internal/steady"
	"github.com/otelcol-sglang/otelcol-sglang/processor/rankdedupprocessor/internal/fold"
	"github.com/otelcol-sglang/otelcol-sglang/processor/rankdedupprocessor/internal/identity"
)

// shardCount is a power of two; a trace's shard comes from the low bytes of its
// id, since the high ones of the engine's own ids are zero.
const shardCount = 32

// errFull is retryable: the sender keeps its spans.
var errFull = errors.New("rankdedup: the next consumer does not take what is held, and no more can be held")

var _ processor.Traces = (*tracesProcessor)(nil)

// tracesProcessor takes batches on any number of goroutines.
type tracesProcessor struct {
	next     consumer.Traces
	registry *identity.Registry
	shards   [shardCount]lockedShard
	bytes    atomic.Int64 // held and remembered, of all shards
	maxBytes int64
	// clock is for all that waits or is remembered, whose times are numbers.
	clock   steady.Clock
	batches sync.Pool
	flusher *flusher
	telem   *telemetry
}

type lockedShard struct {
	mu sync.Mutex
	*fold.Shard
}

func newTracesProcessor(set processor.Settings, cfg *Config, next consumer.Traces) (*tracesProcessor, error) {
	p := &tracesProcessor{
		next: next,
		registry: identity.NewRegistry(identity.Settings{
			Wait: cfg.Wait, ForgetAfter: cfg.ForgetAfter, MaxSenders: cfg.MaxSenders,
		}),
		maxBytes: cfg.MaxHeldMiB << 20,
		clock:    steady.NewClock(),
	}
	settings := fold.Settings{
		Wait:      cfg.Wait,
		LearnWait: cfg.LearnWait,
		DoneKeep:  max(3*cfg.Wait, 10*time.Second),
		IdleKeep:  max(10*time.Minute, 2*cfg.LearnWait),
		MaxBytes:  p.maxBytes,
	}
	for i := range p.shards {
		p.shards[i].Shard = fold.NewShard(settings, p.registry, &p.bytes)
	}
	p.batches.New = func() any { return &batch{} }
	p.flusher = newFlusher(p, set.Logger, cfg.Wait)
	var err error
	p.telem, err = newTelemetry(set.TelemetrySettings, p)
	return p, err
}

// Capabilities: spans are taken out of batches.
func (*tracesProcessor) Capabilities() consumer.Capabilities {
	return consumer.Capabilities{MutatesData: true}
}

// Start starts the goroutine that hands on what was held.
func (p *tracesProcessor) Start(context.Context, component.Host) error {
	p.flusher.start()
	return nil
}

// Shutdown hands on all that is held, as long as the context allows.
func (p *tracesProcessor) Shutdown(ctx context.Context) error {
	err := p.flusher.stop(ctx)
	p.telem.shutdown()
	return err
}

// ConsumeTraces passes what can leave at once and keeps what must wait. What
// passed counts as seen only once the next consumer took it: a batch that is
// sent again after an error finds nothing recorded.
func (p *tracesProcessor) ConsumeTraces(ctx context.Context, td ptrace.Traces) error {
	if p.flusher.full() {
		p.telem.refused(ctx, td.SpanCount())
		return errFull
	}
	b := p.batches.Get().(*batch)
	defer p.recycle(b)
	now := p.clock.Now()
	if !p.read(b, td, now) {
		return p.next.ConsumeTraces(ctx, td)
	}
	p.decide(b, now)
	p.telem.batch(ctx, b)
	if b.changed {
		p.flusher.wake(signalLearned)
	}
	b.strip(td)
	var err error
	if td.ResourceSpans().Len() > 0 {
		err = p.next.ConsumeTraces(ctx, td)
	}
	p.conclude(b, err == nil)
	return err
}

// decide asks the shards what becomes of each span, one lock per shard.
func (p *tracesProcessor) decide(b *batch, now time.Time) {
	for i := range b.heads {
		if b.heads[i] == 0 {
			continue
		}
		s := &p.shards[i]
		s.mu.Lock()
		if b.changed {
			// A sender's earlier spans are placed before those that told its rank: they
			// show how its clock is off.
			s.Learned(now)
		}
		mark := s.Mark()
		for at := b.heads[i]; at != 0; at = b.entries[at-1].next {
			b.take(s.Shard, &b.entries[at-1], now)
		}
		before := len(b.commits)
		b.commits = s.Commits(b.commits, mark)
		if b.passed[i] = len(b.commits) > before; !b.passed[i] {
			s.Settle(now)
		}
		if s.Over() {
			s.Relieve(now)
		}
		p.collect(s)
		b.stats.add(s.TakeStats())
		s.mu.Unlock()
	}
}

// collect moves what is to leave into the outbox; the shard's lock is held, so
// that the order of one trace's spans stays.
func (p *tracesProcessor) collect(s *lockedShard) {
	if out := s.Out(); len(out) > 0 {
		p.flusher.put(out)
	}
}

// conclude makes true what the passed spans stand for if the next consumer took
// them, and lets requests go that are complete by it.
func (p *tracesProcessor) conclude(b *batch, taken bool) {
	if len(b.commits) == 0 {
		return
	}
	at, now := 0, p.clock.Now()
	for i := range b.passed {
		if !b.passed[i] {
			continue
		}
		s := &p.shards[i]
		s.mu.Lock()
		for ; at < len(b.commits) && b.commits[at].Of(s.Shard); at++ {
			b.commits[at].Conclude(taken)
		}
		s.Settle(now)
		p.collect(s)
		s.Account()
		s.mu.Unlock()
	}
}

func (p *tracesProcessor) recycle(b *batch) {
	const maxPooled = 4096
	if cap(b.entries) > maxPooled {
		return
	}
	b.reset()
	p.batches.Put(b)
}
