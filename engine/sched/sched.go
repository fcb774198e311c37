// Copyright The otelcol-sglang Authors
// SPDX-License-Identifier: Apache-2.0

package sched // import "github.com/otelcol-sglang/otelcol-sglang/engine/sched"

import (
	"math/rand/v2"
	"time"

	"github.com/otelcol-sglang/otelcol-sglang/engine/args"
	"github.com/otelcol-sglang/otelcol-sglang/engine/dp"
	"github.com/otelcol-sglang/otelcol-sglang/engine/ledger"
)

// Policies are the values of --schedule-policy.
var Policies = []string{policyFCFS, policyLPM, policyLOF, policyRandom, policyDFS}

const (
	policyFCFS   = "fcfs"
	policyLPM    = "lpm"
	policyLOF    = "lof"
	policyRandom = "random"
	policyDFS    = "dfs-weight"
)

// Scheduler belongs to the loop's goroutine.
//
// Its loop goes round: receive, choose a batch, launch it, process the result of
// the oldest batch in flight. Without overlap no batch is in flight after that,
// with overlap one is, with pipeline stages all but one of the micro-batches are.
type Scheduler struct {
	Config
	rng *rand.Rand

	step uint64
	// depth is how many batches stay in flight when the loop goes on.
	depth    int
	inflight []*batch
	// free is when the GPUs (the first stage's) can start the next pass.
	free time.Duration
	// spare are batches for reuse.
	spare []*batch

	slots   []slot
	current int

	inbox   []*work
	signals []signal
	grammar []*work
	queue   []*work
	seq     uint64

	idle      bool
	waking    bool
	paused    bool
	killed    bool
	idleSince time.Duration
	poll      time.Duration

	ratio, initRatio, minRatio, ratioDecay float64

	pd       pdNode
	counts   [stateCount]int
	received int
	ended    int

	// maxLen is the most tokens that a request can have.
	maxLen   int
	pressure int
	// loading is what adapters take that the next pass waits for.
	loading time.Duration
	stall   time.Duration

	reports reporter
}

// slot is one micro-batch: requests that decode together, and the one whose prompt
// is being cut into chunks.
type slot struct {
	running []*work
	// full: no use in looking for a prefill before a decode request ends.
	full    bool
	chunked *work
	// last is how many passes of the slot are in flight.
	last int
}

// New checks the configuration and returns an idle scheduler.
func New(c Config) (*Scheduler, error) {
	if err := c.validate(); err != nil {
		return nil, err
	}
	p := c.Places[0]
	seed := c.Args.Seed*0x9e3779b97f4a7c15 + uint64(p.DPRank+1)
	s := &Scheduler{
		Config: c, rng: rand.New(rand.NewPCG(seed, 0x5c4ed)),
		depth: depthOf(&c), slots: make([]slot, len(c.Places)),
		idle: true, idleSince: c.Loop.Now(),
	}
	s.setRatios()
	s.maxLen = min(c.Args.ContextLength, poolLength(c.Memory)) - 1
	if c.Drafter != nil {
		s.maxLen -= 2 * c.Drafter.DraftTokens() // of the last steps
	}
	s.reports.init(s)
	s.pd = newPD(s)
	if c.Sync != nil {
		c.Sync.Add(p.DPRank, s)
	}
	return s, nil
}

// poolLength is the longest request that the pools could hold: admission wants room
// for all of it in each, though the sliding window's gets free again.
func poolLength(m ledger.Memory) int {
	full, swa, _ := m.Books()
	n := full.Capacity - full.Reserved
	if swa.Capacity > 0 {
		n = min(n, swa.Capacity-swa.Reserved)
	}
	return n
}

// depthOf: drafts from n-grams need the tokens of the step before, so nothing overlaps.
func depthOf(c *Config) int {
	switch {
	case len(c.Places) > 1:
		return len(c.Places) - 1
	case c.Args.DisableOverlapSchedule || c.Drafter != nil && c.Drafter.NGram():
		return 0
	}
	return 1
}

// Defaults of SGLANG_INIT_NEW_TOKEN_RATIO, .._MIN_NEW_TOKEN_RATIO_FACTOR and
// .._NEW_TOKEN_RATIO_DECAY_STEPS.
const (
	initNewTokenRatio  = 0.7
	minNewTokenFactor  = 0.14
	newTokenDecaySteps = 600
)

func (s *Scheduler) setRatios() {
	s.initRatio = min(initNewTokenRatio*s.Args.ScheduleConservativeness, 1)
	s.minRatio = min(s.initRatio*minNewTokenFactor, 1)
	s.ratioDecay = (s.initRatio - s.minRatio) / newTokenDecaySteps
	s.ratio = s.initRatio
}

// Idle tells whether nothing runs or waits.
func (s *Scheduler) Idle() bool { return s.received == s.ended }

// Flush empties the cache. False: requests run or wait, and nothing happened.
func (s *Scheduler) Flush() bool {
	if !s.Idle() {
		return false
	}
	s.Memory.Flush()
	return true
}

// Load is for the DP controller.
func (s *Scheduler) Load() dp.Load {
	l := dp.Load{Requests: s.received - s.ended}
	for _, w := range s.inbox {
		l.Tokens += len(w.ids)
	}
	for _, w := range s.queue {
		l.Tokens += len(w.ids)
	}
	full, _, _ := s.Memory.Books()
	l.Tokens += full.Used + full.Reserved
	return l
}

// SetPaused stops the scheduler before its next batch, or lets it go on.
func (s *Scheduler) SetPaused(on bool) {
	if s.killed {
		return
	}
	s.paused = on
	if on {
		s.reports.still(s)
		return
	}
	s.wake()
}

// Kill stops the scheduler for good, as a crash does.
func (s *Scheduler) Kill() {
	s.SetPaused(true)
	s.killed = true
}

// SetStall makes each iteration of the loop take d longer on the CPU ("scheduler
// stall"); 0 heals.
func (s *Scheduler) SetStall(d time.Duration) { s.stall = max(0, d) }

// SetPressure keeps n tokens of the pool from requests ("KV pressure"), as far as
// they can be had; 0 heals. It tells how many it keeps.
func (s *Scheduler) SetPressure(n int) int {
	if s.pressure > 0 {
		s.Memory.Unreserve(s.pressure)
		s.pressure = 0
	}
	page := max(s.Args.PageSize, 1)
	for n = min(n, s.Memory.Room()) / page * page; n > 0; n = n / 2 / page * page {
		if s.Memory.Reserve(n) {
			s.pressure = n
			break
		}
	}
	s.wake()
	return s.pressure
}

// SetTransfer makes KV transfers slower by a factor and fail with the given chance
// ("slow KV transfer"); 1 and 0 heal. PD prefill nodes only.
func (s *Scheduler) SetTransfer(slower, failing float64) {
	if s.pd.prefill != nil {
		s.pd.prefill.SetTransfer(slower, failing)
	}
}

func (s *Scheduler) prefillNode() bool { return s.Args.DisaggregationMode == args.Prefill }

func (s *Scheduler) decodeNode() bool { return s.Args.DisaggregationMode == args.Decode }

func (s *Scheduler) reading(at time.Duration) ledger.Reading {
	return ledger.Reading{At: at, Step: s.step}
}
