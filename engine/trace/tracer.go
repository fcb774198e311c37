// Copyright The otelcol-sglang Authors
// SPDX-License-Identifier: Apache-2.0

package trace // import "github.com/otelcol-sglang/otelcol-sglang/engine/trace"

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"maps"
	"math/rand/v2"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/google/uuid"
	"go.opentelemetry.io/collector/pdata/pcommon"

	"github.com/otelcol-sglang/otelcol-sglang/engine/ledger"
	"github.com/otelcol-sglang/otelcol-sglang/internal/sglang"
)

// Tracer makes spans of what the engine tells. Its methods belong to the loop's
// goroutine but for SetLevel, Level and Stats, which any may call, and Shutdown,
// which is for after the loop.
type Tracer struct {
	cfg   Config
	rng   *rand.Rand
	uuids *rand.ChaCha8
	// requests and transfers tell which modules trace.
	requests, transfers bool

	// levels has one per tokenizer worker; next is the worker that gets the next
	// call that sets one.
	levels []atomic.Int32
	next   atomic.Uint32

	procs map[Process]*proc
	pids  int64
	rules []rule

	mu sync.Mutex
	// exporters is guarded by mu.
	exporters map[Process]*exporter
}

var _ ledger.Tracer = (*Tracer)(nil)

// Condition is what ails a process. The zero condition is none.
type Condition struct {
	// Delay is how late the process reads its clock (a slow rank), or how far its
	// clock is off: negative if behind. At most an hour.
	Delay time.Duration
	// ExportTime is what an export request takes beyond the sink's time.
	ExportTime time.Duration
	// Silent processes export nothing, as if they were dead.
	Silent bool
}

type rule struct {
	match func(Process) bool
	Condition
}

// New returns a tracer; no connection is made before a process has spans to send.
func New(cfg Config) (*Tracer, error) {
	cfg.withDefaults()
	if err := cfg.validate(); err != nil {
		return nil, err
	}
	rng := rand.New(rand.NewPCG(cfg.Seed, 0x7472616365))
	t := &Tracer{
		cfg: cfg, rng: rng, uuids: newUUIDs(rng), procs: map[Process]*proc{}, exporters: map[Process]*exporter{},
		pids:     5000 + rng.Int64N(20000),
		levels:   make([]atomic.Int32, cfg.Workers),
		requests: slices.Contains(cfg.Modules, sglang.TraceModuleRequest),
		// The other module's spans are of the prefill node's sender.
		transfers: slices.Contains(cfg.Modules, sglang.TraceModuleKV),
	}
	for i := range t.levels {
		t.levels[i].Store(int32(cfg.Level))
	}
	return t, nil
}

// newUUIDs never fails to read.
func newUUIDs(rng *rand.Rand) *rand.ChaCha8 {
	var seed [32]byte
	binary.BigEndian.PutUint64(seed[:], rng.Uint64())
	return rand.NewChaCha8(seed)
}

// SetLevel is POST /set_trace_level: it reaches one tokenizer worker, and holds for
// requests that begin afterwards.
func (t *Tracer) SetLevel(level int) error {
	if level < 0 {
		return fmt.Errorf("level must not be negative (got %d)", level)
	}
	worker := (t.next.Add(1) - 1) % uint32(len(t.levels))
	t.levels[worker].Store(int32(min(level, 1<<30)))
	return nil
}

// Level is that of the first tokenizer worker.
func (t *Tracer) Level() int { return int(t.levels[0].Load()) }

// Set puts the processes that match into a condition, those too that are not there
// yet. The last call that matches holds.
func (t *Tracer) Set(match func(Process) bool, c Condition) {
	c.Delay = max(-maxDelay, min(c.Delay, maxDelay))
	t.rules = append(t.rules, rule{match, c})
	for id, p := range t.procs {
		if match(id) {
			p.suffer(c, t.offset(id), t.cfg.Loop.Now())
		}
	}
}

func (p *proc) suffer(c Condition, offset, now time.Duration) {
	p.lag.set(offset+c.Delay, now)
	for _, e := range []*exporter{p.roots, p.slices} {
		e.cost = c.ExportTime
		e.mute(c.Silent)
	}
}

// Stats are the counts of every process that had spans.
func (t *Tracer) Stats() map[Process]Stats {
	t.mu.Lock()
	defer t.mu.Unlock()
	all := make(map[Process]Stats, len(t.exporters))
	for id, e := range t.exporters {
		all[id] = e.stats()
	}
	return all
}

// Shutdown sends what is queued and closes the connections; what ctx leaves no time
// for counts as dropped.
func (t *Tracer) Shutdown(ctx context.Context) error {
	t.mu.Lock()
	open := slices.Collect(maps.Values(t.exporters))
	t.mu.Unlock()
	errs := make([]error, len(open))
	var wg sync.WaitGroup
	for i, e := range open {
		wg.Go(func() { errs[i] = e.shutdown(ctx) })
	}
	wg.Wait()
	return errors.Join(errs...)
}

// process returns the process of that name, made if need be.
func (t *Tracer) process(id Process) *proc {
	if p := t.procs[id]; p != nil {
		return p
	}
	p := &proc{
		id: id, ranks: id.Ranks, host: t.cfg.HostID, pid: t.pid(),
		epoch: t.cfg.Loop.Wall(0).UnixNano(), seed: hash(t.cfg.Seed, id.key()),
	}
	p.label = t.cfg.label(id, p.pid)
	p.name = p.threadName()
	p.lag = lag{seed: p.seed, to: t.offset(id)}
	if id.Kind == sglang.ProcessScheduler {
		p.lag.jitter = t.cfg.StepJitter
	}
	p.roots = t.exporter(id)
	p.slices = p.roots
	if t.cfg.Async {
		id.Daemon = true
		p.slices = t.exporter(id)
	}
	p.lag.from = p.lag.to
	for _, r := range t.rules {
		if r.match(p.id) {
			p.suffer(r.Condition, t.offset(p.id), 0)
		}
	}
	t.procs[p.id] = p
	return p
}

func (t *Tracer) pid() int64 {
	t.pids++
	return t.pids
}

// offset is the error of a process's wall clock.
func (t *Tracer) offset(id Process) time.Duration {
	if t.cfg.ClockOffset == 0 {
		return 0
	}
	most := int64(t.cfg.ClockOffset)
	return time.Duration(int64(hash(t.cfg.Seed+1, id.key())%uint64(2*most+1)) - most)
}

func (t *Tracer) exporter(id Process) *exporter {
	out, err := t.cfg.Sink.Open(id)
	if err != nil {
		out = broken{err}
	}
	e := &exporter{
		loop: t.cfg.Loop, out: out, delay: t.cfg.BatchDelay, batchSpans: t.cfg.BatchSpans,
		queue: queue{limit: t.cfg.QueueSpans}, resource: t.resource(),
		// Processes start at different times, and so do their delays.
		due: time.Duration(t.rng.Int64N(int64(t.cfg.BatchDelay))),
	}
	e.start()
	t.mu.Lock()
	t.exporters[id] = e
	t.mu.Unlock()
	return e
}

func (t *Tracer) resource() pcommon.Resource {
	instance := t.cfg.InstanceID
	if instance == "" {
		instance = uuid.Must(uuid.NewRandomFromReader(t.uuids)).String()
	}
	res := pcommon.NewResource()
	m := res.Attributes()
	m.PutStr(sglang.AttrSDKLanguage, sglang.SDKLanguage)
	m.PutStr(sglang.AttrSDKName, sglang.SDKName)
	m.PutStr(sglang.AttrSDKVersion, sglang.SDKVersion)
	m.PutStr(sglang.AttrServiceInstanceID, instance)
	for _, key := range slices.Sorted(maps.Keys(t.cfg.Resource)) {
		m.PutStr(key, t.cfg.Resource[key])
	}
	m.PutStr(sglang.AttrServiceName, t.cfg.ServiceName)
	return res
}

// spanID is never zero.
func (t *Tracer) spanID() (id pcommon.SpanID) {
	binary.BigEndian.PutUint64(id[:], max(1, t.rng.Uint64()))
	return id
}

// traceID has 64 random bits, as the engine's id generator gives.
func (t *Tracer) traceID() (id pcommon.TraceID) {
	binary.BigEndian.PutUint64(id[8:], max(1, t.rng.Uint64()))
	return id
}
