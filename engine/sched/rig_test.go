// Copyright The otelcol-sglang Authors
// SPDX-License-Identifier: Apache-2.0

package sched

import (
	"fmt"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/otelcol-sglang/otelcol-sglang/engine/args"
	"github.com/otelcol-sglang/otelcol-sglang/engine/clock"
	"github.com/otelcol-sglang/otelcol-sglang/engine/cost"
	"github.com/otelcol-sglang/otelcol-sglang/engine/ledger"
	"github.com/otelcol-sglang/otelcol-sglang/engine/memory"
	"github.com/otelcol-sglang/otelcol-sglang/engine/spec"
	"github.com/otelcol-sglang/otelcol-sglang/internal/sglang"
)

// event is what a tracer was told of a request's first pipeline stage.
type event struct {
	what     string // slice, open, close, schedule, retract, end
	stage    sglang.Stage
	from, to time.Duration
	ct       int
	batch    ledger.Batch
	auto     bool
}

func (e event) String() string {
	switch e.what {
	case "slice":
		if e.ct != ledger.NoDecodeCT {
			return fmt.Sprintf("%s %d", e.stage, e.ct)
		}
		return e.stage.String()
	case "open":
		return "+" + e.stage.String()
	case "close":
		return "-" + e.stage.String()
	case "schedule":
		return fmt.Sprintf("%s of %d", e.batch.Mode, e.batch.Size)
	}
	return e.what
}

// recorder is a tracer and a book that remember.
type recorder struct {
	ledger.NopTracer
	ledger.NopScheduler
	events map[*ledger.Request][]event
	// errs are violations of what any tracer may rely on.
	errs []error

	quiet     bool
	reports   []*ledger.Snapshot
	waits     []time.Duration
	stages    map[sglang.Stage]int
	retracted [3]int
	tokens    map[string]int
	effective map[string]int
	passes    map[string]int
	loop      map[string]time.Duration
	idle      time.Duration
	steps     []ledger.DPStep
	groups    map[int]int
	transfers []ledger.Transfer
	failures  map[string]int
	released  map[string]int
	flops     float64
	balance   []float64
	constants *ledger.Constants
}

func newRecorder() *recorder {
	return &recorder{
		events: map[*ledger.Request][]event{}, stages: map[sglang.Stage]int{}, tokens: map[string]int{},
		effective: map[string]int{}, passes: map[string]int{}, loop: map[string]time.Duration{},
		groups: map[int]int{}, failures: map[string]int{}, released: map[string]int{},
	}
}

func (rec *recorder) note(r *ledger.Request, p *ledger.Place, e event) {
	if rec.quiet {
		return
	}
	if e.to < e.from {
		rec.errs = append(rec.errs, fmt.Errorf("%s: %s ends %v before it starts", r.ID, e, e.from-e.to))
	}
	if p.PPRank == 0 {
		rec.events[r] = append(rec.events[r], e)
	}
}

func (rec *recorder) Slice(r *ledger.Request, p *ledger.Place, s sglang.Stage, from, to ledger.Reading, ct int) {
	rec.note(r, p, event{what: "slice", stage: s, from: from.At, to: to.At, ct: ct})
}

func (rec *recorder) Open(r *ledger.Request, p *ledger.Place, s sglang.Stage, from ledger.Reading) {
	rec.note(r, p, event{what: "open", stage: s, from: from.At, to: from.At})
}

func (rec *recorder) Close(r *ledger.Request, p *ledger.Place, s sglang.Stage, to ledger.Reading) {
	rec.note(r, p, event{what: "close", stage: s, from: to.At, to: to.At})
}

func (rec *recorder) Schedule(r *ledger.Request, p *ledger.Place, b *ledger.Batch, at ledger.Reading) {
	rec.note(r, p, event{what: "schedule", batch: *b, from: at.At, to: at.At})
}

func (rec *recorder) Retract(r *ledger.Request, p *ledger.Place, at ledger.Reading) {
	rec.note(r, p, event{what: "retract", from: at.At, to: at.At})
}

func (rec *recorder) EndThread(r *ledger.Request, p *ledger.Place, at ledger.Reading, auto bool) {
	rec.note(r, p, event{what: "end", from: at.At, to: at.At, auto: auto})
}

func (rec *recorder) Constants(c *ledger.Constants)                { rec.constants = c }
func (rec *recorder) QueueTime(d time.Duration)                    { rec.waits = append(rec.waits, d) }
func (rec *recorder) StageLatency(s sglang.Stage, _ time.Duration) { rec.stages[s]++ }
func (rec *recorder) EffectiveTokens(mode string, n int)           { rec.effective[mode] += n }
func (rec *recorder) Pass(mode string)                             { rec.passes[mode]++ }
func (rec *recorder) LoopTime(c, overlap string, d time.Duration)  { rec.loop[c+" "+overlap] += d }
func (rec *recorder) Idle(d time.Duration)                         { rec.idle += d }
func (rec *recorder) DPStep(s *ledger.DPStep)                      { rec.steps = append(rec.steps, *s) }

func (rec *recorder) KVTransfer(t *ledger.Transfer) { rec.transfers = append(rec.transfers, *t) }

func (rec *recorder) BootstrapFailed()                                { rec.failures["bootstrap"]++ }
func (rec *recorder) TransferFailed()                                 { rec.failures["transfer"]++ }
func (rec *recorder) DeferredRelease(outcome string, _ time.Duration) { rec.released[outcome]++ }
func (rec *recorder) MFU(flops, _, _ float64)                         { rec.flops += flops }

func (rec *recorder) Balancedness(_ string, v float64) { rec.balance = append(rec.balance, v) }

func (rec *recorder) Report(s *ledger.Snapshot) {
	if !rec.quiet {
		rec.reports = append(rec.reports, s)
	}
}

func (rec *recorder) Retracted(requests, in, out int) {
	rec.retracted[0] += requests
	rec.retracted[1] += in
	rec.retracted[2] += out
}

func (rec *recorder) RealtimeTokens(mode string, n, groups int) {
	rec.tokens[mode] += n
	rec.groups[groups] += n
}

// tb is a testing.TB or a rapid.T.
type tb interface {
	require.TestingT
	Helper()
}

// rig is a scheduler with real memory on a virtual clock.
type rig struct {
	*Scheduler
	t    tb
	loop *clock.Loop
	rec  *recorder
	mem  *memory.Memory
	// flaky is around mem, if set.
	flaky *flakyMemory
	a     args.Args

	sent    []*ledger.Request
	ends    map[*ledger.Request]int
	dropped map[*ledger.Request]bool
	got     map[*ledger.Request]int
	arrived map[*ledger.Request]time.Duration
	// tokenAt are the times of a request's outputs.
	tokenAt map[*ledger.Request][]time.Duration
}

// flakyMemory refuses to extend when it is told to, as a memory does whose other
// pools are short.
type flakyMemory struct {
	*memory.Memory
	refuse int
}

func (m *flakyMemory) Extend(h ledger.Holding, n int) bool {
	if m.refuse > 0 {
		m.refuse--
		return false
	}
	return m.Memory.Extend(h, n)
}

type option func(*args.Args, *Config)

func with(f func(*args.Args)) option { return func(a *args.Args, _ *Config) { f(a) } }

const testPool = 20000

// newRig makes an engine of one scheduler; the pool has a.MaxTotalTokens.
func newRig(t tb, opts ...option) *rig {
	return newRigOn(t, clock.NewVirtual(time.Unix(1000, 0)), opts...)
}

func newRigOn(t tb, loop *clock.Loop, opts ...option) *rig {
	a := args.Default()
	a.MaxTotalTokens = testPool
	c := Config{Args: &a, Loop: loop}
	for _, o := range opts {
		o(&a, &c)
	}
	flaky, _ := c.Memory.(*flakyMemory)
	g := &rig{
		flaky: flaky, t: t, loop: loop, rec: newRecorder(), a: a, ends: map[*ledger.Request]int{},
		dropped: map[*ledger.Request]bool{}, arrived: map[*ledger.Request]time.Duration{}, got: map[*ledger.Request]int{}, tokenAt: map[*ledger.Request][]time.Duration{},
	}
	c.Args = &g.a
	var err error
	g.mem, err = memory.New(&g.a, memory.Sizes{Tokens: a.MaxTotalTokens, BytesPerToken: 1024}, loop, ledger.NopRadix{}, ledger.NopStorage{})
	require.NoError(t, err)
	if c.Memory = g.mem; g.flaky != nil {
		g.flaky.Memory = g.mem
		c.Memory = g.flaky
	}
	if c.Cost == nil {
		c.Cost, err = cost.New(a.ModelProfile, a.TPSize, a.AttentionTPSize(), a.PPSize)
		require.NoError(t, err)
	}
	if c.Drafter == nil {
		c.Drafter, err = spec.New(&g.a, a.Seed)
		require.NoError(t, err)
	}
	c.Tracer = g.rec
	if len(c.Places) == 0 {
		for p := range a.PPSize {
			c.Places = append(c.Places, ledger.Place{DPRank: -1, PPRank: p, TPRanks: []int{0}})
		}
	}
	for range c.Places {
		c.Collectors = append(c.Collectors, g.rec)
	}
	c.Output, c.Dropped = g.output, g.drop
	g.Scheduler, err = New(c)
	require.NoError(t, err)
	return g
}

func (g *rig) output(r *ledger.Request) {
	if g.ends[r] > 0 {
		g.t.Errorf("%s: output after its end", r.ID)
	}
	for len(g.tokenAt[r]) < len(r.Output) {
		g.tokenAt[r] = append(g.tokenAt[r], g.loop.Now())
	}
	if r.Finish != "" {
		g.ends[r]++
	}
}

func (g *rig) drop(r *ledger.Request) {
	g.ends[r]++
	g.dropped[r] = true
}

func tokens(seed, n int) []int32 {
	ids := make([]int32, n)
	for i := range ids {
		ids[i] = tokenAt(uint64(seed), i)
	}
	return ids
}

// request has a prompt of its own and stops after out tokens.
func (g *rig) request(prompt, out int) *ledger.Request {
	r := ledger.NewRequest(fmt.Sprintf("r%d", len(g.sent)), ledger.KindGenerate)
	r.Prompt = tokens(1000+len(g.sent), prompt)
	r.OutputLen, r.MaxTokens = out, out
	g.sent = append(g.sent, r)
	return r
}

// at sends r at engine time t.
func (g *rig) at(t time.Duration, r *ledger.Request) *ledger.Request {
	g.loop.At(t, func() { g.arrived[r] = g.loop.Now(); g.Receive(r) })
	return r
}

// run works until nothing is left to do, or for a minute of engine time, and checks
// the books after each event.
func (g *rig) run() {
	g.runFor(time.Minute)
	g.settled()
}

// checkEvery is the time between checks at first; later they are farther apart.
const checkEvery = 3 * time.Millisecond

func (g *rig) runFor(d time.Duration) {
	g.t.Helper()
	end := g.loop.Now() + d
	for g.loop.Now() < end && g.received-g.ended+g.future() > 0 {
		g.loop.RunUntil(min(end, g.loop.Now()+checkEvery+g.loop.Now()/20))
		require.NoError(g.t, g.Check(), "at %v", g.loop.Now())
	}
}

// future is the number of requests that were not received yet.
func (g *rig) future() int { return len(g.sent) - g.received }

// settled: all ended once, and nothing is held.
func (g *rig) settled() {
	g.t.Helper()
	g.loop.RunUntil(g.loop.Now() + time.Second)
	require.NoError(g.t, g.Check())
	require.Empty(g.t, g.rec.errs)
	for _, r := range g.sent {
		require.Equal(g.t, 1, g.ends[r], "%s ends once; %d live, %d wait, idle %t, %+v", r.ID, g.received-g.ended, len(g.queue), g.idle, g.counts)
	}
	full, _, _ := g.mem.Books()
	require.Zero(g.t, full.Used, "%+v", full)
}

func (g *rig) story(r *ledger.Request) []string {
	out := make([]string, len(g.rec.events[r]))
	for i, e := range g.rec.events[r] {
		out[i] = e.String()
	}
	return out
}
