// Copyright The otelcol-sglang Authors
// SPDX-License-Identifier: Apache-2.0

package dp // import "github.com/otelcol-sglang/otelcol-sglang/engine/dp"

import (
	"errors"
	"time"

	"github.com/otelcol-sglang/otelcol-sglang/engine/clock"
	"github.com/otelcol-sglang/otelcol-sglang/engine/cost"
	"github.com/otelcol-sglang/otelcol-sglang/engine/ledger"
)

// Member is an attention group's scheduler.
type Member interface {
	// Join makes an idle scheduler go to its next synchronised step; one that is
	// busy gets there by itself.
	Join()
}

// Offer is what one group brings to a step; Work.Tokens 0 is an idle batch.
type Offer struct {
	Work    cost.Work
	Prefill bool
	// Free is when the group's GPUs can start.
	Free time.Duration
}

// Outcome is a resolved step. None: no group had a batch, nothing runs.
type Outcome struct {
	None  bool
	Start time.Duration
	Took  time.Duration
	// Padded is this group's work as it was priced: padded to the longest.
	Padded cost.Work
	Step   ledger.DPStep
}

var (
	// ErrNoTokens is a step that no rank has tokens for: it is no step, not a
	// balanced one.
	ErrNoTokens = errors.New("a synchronised step in which no rank has tokens")
	// ErrNoPairs is a rank with tokens that attend to nothing.
	ErrNoPairs = errors.New("a rank with tokens and without attention pairs")
)

// Sync is the all-gather at which the groups of attention DP meet before each step.
type Sync struct {
	loop    *clock.Loop
	model   *cost.Model
	members []Member
	offers  []Offer
	arrived []time.Duration
	resume  []func(Outcome)
	waiting int

	// Balance, if set, spreads the tokens of a step over the experts and gives
	// [cost.Work.Balance].
	Balance func(tokens int) float64

	// Errors counts steps that were refused, by ErrNoTokens and ErrNoPairs.
	Errors int
	Steps  int
}

// NewSync is for n groups, which then [Sync.Add] themselves.
func NewSync(loop *clock.Loop, model *cost.Model, n int) *Sync {
	return &Sync{
		loop: loop, model: model, members: make([]Member, n),
		offers: make([]Offer, n), arrived: make([]time.Duration, n), resume: make([]func(Outcome), n),
	}
}

// Add makes m the scheduler of the group.
func (s *Sync) Add(group int, m Member) { s.members[group] = m }

// Arrive brings a group's offer; resume is called, on the loop, when all have
// arrived. The first to arrive fetches those that idle.
func (s *Sync) Arrive(group int, o Offer, resume func(Outcome)) {
	s.offers[group], s.arrived[group], s.resume[group] = o, s.loop.Now(), resume
	s.waiting++
	if s.waiting == len(s.members) {
		s.resolve()
		return
	}
	if s.waiting == 1 {
		for i, m := range s.members {
			if i != group {
				m.Join()
			}
		}
	}
}

// Describe gives each group's view of one step, or why it is none.
func Describe(offers []Offer) ([]ledger.DPStep, error) {
	var all ledger.DPStep
	all.Groups = len(offers)
	for i := range offers {
		w := &offers[i].Work
		if w.Tokens > 0 && w.Pairs == 0 {
			return nil, ErrNoPairs
		}
		all.MaxTokens = max(all.MaxTokens, w.Tokens)
		all.SumTokens += w.Tokens
		all.MaxPairs = max(all.MaxPairs, w.Pairs)
		if offers[i].Prefill {
			all.PrefillGroups++
		}
	}
	if all.SumTokens == 0 {
		return nil, ErrNoTokens
	}
	steps := make([]ledger.DPStep, len(offers))
	for i := range steps {
		steps[i] = all
		steps[i].Tokens, steps[i].Pairs = offers[i].Work.Tokens, offers[i].Work.Pairs
	}
	return steps, nil
}

// gather is what the all-gather itself takes.
const gather = 100 * time.Microsecond

func (s *Sync) resolve() {
	s.waiting = 0
	now := s.loop.Now() + gather
	out := Outcome{None: true}
	steps, err := Describe(s.offers)
	switch {
	case err == nil:
		s.Steps++
		out = s.price(now)
	case !errors.Is(err, ErrNoTokens) || s.hasBatch():
		s.Errors++
	}
	for i, f := range s.resume {
		o := out
		if !o.None {
			o.Step = steps[i]
			o.Step.SyncWait = now - s.arrived[i]
		}
		s.resume[i] = nil
		s.loop.At(now, func() { f(o) })
	}
}

// hasBatch: a group that says it prefills brings a batch, whatever its tokens.
func (s *Sync) hasBatch() bool {
	for i := range s.offers {
		if s.offers[i].Prefill || s.offers[i].Work.Requests > 0 {
			return true
		}
	}
	return false
}

func sumTokens(offers []Offer) int {
	n := 0
	for i := range offers {
		n += offers[i].Work.Tokens
	}
	return n
}

// price: the MLP pays for every group at the longest one's tokens, attention waits
// for the most pairs, and none starts before all can.
func (s *Sync) price(now time.Duration) Outcome {
	w := cost.Work{Groups: len(s.offers), Graph: true}
	start := now
	for i := range s.offers {
		o := &s.offers[i]
		w.Requests = max(w.Requests, o.Work.Requests)
		w.Tokens = max(w.Tokens, o.Work.Tokens)
		w.Pairs = max(w.Pairs, o.Work.Pairs)
		w.KVTokens = max(w.KVTokens, o.Work.KVTokens)
		w.Graph = w.Graph && (o.Work.Graph || o.Work.Tokens == 0)
		start = max(start, o.Free)
	}
	if s.Balance != nil {
		w.Balance = s.Balance(sumTokens(s.offers))
	}
	return Outcome{Start: start, Took: s.model.Pass(w), Padded: w}
}
