// Copyright The otelcol-sglang Authors
// SPDX-License-Identifier: Apache-2.0

package genaiprocessor // import "github.com/otelcol-sglang/otelcol-sglang/processor/genaiprocessor"

import (
	"context"
	"encoding/binary"
	"errors"
	"sync"
	"sync/atomic"
	"time"

	"go.opentelemetry.io/collector/component"
	"go.opentelemetry.io/collector/consumer"
	"go.opentelemetry.io/collector/pdata/ptrace"
	"go.opentelemetry.io/collector/processor"

	"github.com/otelcol-sglang/otelcol-sglang/internal/steady"
	"github.com/otelcol-sglang/otelcol-sglang/processor/genaiprocessor/internal/assembly"
	"github.com/otelcol-sglang/otelcol-sglang/processor/genaiprocessor/internal/pdjoin"
	"github.com/otelcol-sglang/otelcol-sglang/processor/genaiprocessor/internal/presence"
)

const shardCount = 16

// halfBytes is about what the numbers of a half take whose root has left, and
// spanBytes what each stretch of its budget adds.
const halfBytes, spanBytes = 1 << 10, 24

// shard is the state of the traces whose id falls to it.
type shard struct {
	mu    sync.Mutex
	table *assembly.Table // guarded by mu
}

// maxEngineAge is how long an engine without open requests shows that it has none.
const maxEngineAge = 30 * time.Minute

type genaiProcessor struct {
	next       consumer.Traces
	tel        *telemetry
	clock      steady.Clock
	decodeLoop string
	replace    bool
	strip      *stripper
	normalize  bool
	pdWait     time.Duration
	wait       time.Duration
	// maxBytes bounds what the shards hold, maxTraces how many traces each may have.
	maxBytes  int64
	maxTraces int

	shards    [shardCount]shard
	heldBytes atomic.Int64
	out       *outbox
	joinMu    sync.Mutex
	join      *pdjoin.Table // guarded by joinMu
	enginesMu sync.RWMutex
	// engines are the engine ids seen of late, at most maxEngines, with the unix
	// second at which each was seen last; guarded by enginesMu.
	engines   map[string]*atomic.Int64
	engineAge time.Duration
	// presence is shared with instances in metrics pipelines, instanceFrom the
	// resource attributes that engines are known by there.
	presence     *presence.Table
	release      func()
	instanceFrom []string

	batches sync.Pool
	stop    context.CancelFunc
	done    sync.WaitGroup
	// gate is held shared by each call, so that none adds to what Shutdown has flushed.
	gate   sync.RWMutex
	closed bool // guarded by gate
}

var _ processor.Traces = (*genaiProcessor)(nil)

func newProcessor(set processor.Settings, cfg *Config, next consumer.Traces) (*genaiProcessor, error) {
	tel, err := newTelemetry(set.TelemetrySettings)
	if err != nil {
		return nil, err
	}
	maxBytes := cfg.MaxHeldMiB << 20
	p := &genaiProcessor{
		next: next, tel: tel,
		clock:      steady.NewClock(),
		decodeLoop: cfg.DecodeLoop,
		replace:    cfg.Semconv == semconvReplace,
		strip:      newStripper(cfg.Attributes.Allow, tel, set.Logger),
		normalize:  cfg.SpanNames == namesNormalize,
		pdWait:     cfg.PDWait, wait: cfg.Wait,
		maxBytes:  int64(maxBytes) * 5 / 8,
		maxTraces: max(1, cfg.MaxRequests/shardCount),
		out:       newOutbox(next, maxBytes/4, tel),
		join: pdjoin.New(pdjoin.Limits{
			Wait: cfg.PDWait, Keep: cfg.MaxRequestAge, Halves: max(100, maxBytes/8/halfBytes), Bytes: max(100*halfBytes, maxBytes/8),
		}),
		engines:   make(map[string]*atomic.Int64),
		engineAge: min(cfg.MaxRequestAge, maxEngineAge), instanceFrom: cfg.InstanceFrom,
		batches: sync.Pool{New: func() any { return newBatch() }},
	}
	for i := range p.shards {
		p.shards[i].table = assembly.NewTable(assembly.Limits{
			Wait: cfg.Wait, MaxAge: cfg.MaxRequestAge, WorstSteps: cfg.WorstSteps,
		})
	}
	p.presence, p.release = share(cfg)
	return p, p.observe()
}

// Capabilities: spans are renamed, completed and taken out.
func (p *genaiProcessor) Capabilities() consumer.Capabilities {
	return consumer.Capabilities{MutatesData: true}
}

// Start begins to hand held spans on.
func (p *genaiProcessor) Start(context.Context, component.Host) error {
	ctx, stop := context.WithCancel(context.Background())
	p.stop = stop
	p.done.Go(func() { p.out.run(ctx) })
	p.done.Go(func() { p.tick(ctx) })
	return nil
}

// shutdownTime bounds how long Shutdown tries: the Collector sets no limit, and
// a dead back end must not keep it from stopping.
const shutdownTime = 10 * time.Second

// Shutdown lets everything held leave, as long as ctx allows.
func (p *genaiProcessor) Shutdown(ctx context.Context) error {
	p.release()
	if p.stop == nil {
		p.tel.builder.Shutdown()
		return nil
	}
	p.stop()
	p.stop = nil
	p.done.Wait()
	p.gate.Lock()
	p.closed = true
	p.gate.Unlock()
	ctx, cancel := context.WithTimeout(ctx, shutdownTime)
	defer cancel()
	p.releaseAll(p.clock.Now())
	p.out.flush(ctx)
	p.out.discard()
	p.tel.builder.Shutdown()
	return nil
}

// Errors that make the sender try again.
var (
	errBusy   = errors.New("genai: the next consumer does not take the spans held; max_held_mib reached")
	errClosed = errors.New("genai: shutting down")
)

// ConsumeTraces passes spans on and records their numbers once they were taken.
// On an error nothing is recorded, so that the sender's next attempt counts.
func (p *genaiProcessor) ConsumeTraces(ctx context.Context, td ptrace.Traces) error {
	p.gate.RLock()
	defer p.gate.RUnlock()
	if p.closed {
		return errClosed
	}
	if p.out.full() {
		p.tel.refused.add(1)
		return errBusy
	}
	b := p.batches.Get().(*batch)
	defer func() {
		b.reset()
		p.batches.Put(b)
	}()
	now := p.clock.Now()
	p.scan(td, b, now)
	p.chain(b)
	if b.steps && p.decodeLoop != decodeLoopKeep {
		p.pin(b, now)
	}
	if b.edits || b.steps && p.decodeLoop != decodeLoopKeep {
		p.takeOut(td, b)
	}
	var vllm []vllmResult
	if b.vllm {
		vllm = p.deriveVLLM(td)
	}
	if td.ResourceSpans().Len() > 0 {
		if err := p.next.ConsumeTraces(ctx, td); err != nil {
			p.cancel(b, now)
			return err
		}
	}
	p.apply(b, now)
	p.countVLLM(vllm)
	return nil
}

// shardOf uses the low bytes: the engine's trace ids have eight leading zeros.
func shardOf(id assembly.TraceID) int {
	const mix = 0x9e3779b97f4a7c15
	return int(binary.BigEndian.Uint64(id[8:]) * mix >> 60)
}

// chain links the records of each shard.
func (p *genaiProcessor) chain(b *batch) {
	for i := range b.heads {
		b.heads[i] = -1
	}
	for range b.records {
		b.next = append(b.next, -1)
	}
	for i := len(b.records) - 1; i >= 0; i-- {
		s := shardOf(b.records[i].Trace)
		b.next[i], b.heads[s] = b.heads[s], int32(i)
	}
}

// tick releases what has waited long enough.
func (p *genaiProcessor) tick(ctx context.Context) {
	ticker := time.NewTicker(min(max(p.wait/20, 10*time.Millisecond), time.Second))
	defer ticker.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-ticker.C:
			p.expire(p.clock.Now())
		}
	}
}
