// Copyright The otelcol-sglang Authors
// SPDX-License-Identifier: Apache-2.0

// Package spec is speculative decoding: how many of a request's draft tokens a
// verify step accepts, drawn from a seeded process, and the two books of it (what
// the user feels, and how good the drafts are).
package spec // import "github.com/otelcol-sglang/otelcol-sglang/engine/spec"

import (
	"fmt"
	"math/rand/v2"
	"slices"

	"github.com/otelcol-sglang/otelcol-sglang/engine/args"
)

// Algorithms are the values of --speculative-algorithm.
var Algorithms = []string{"EAGLE", "EAGLE3", "NEXTN", "STANDALONE", "NGRAM"}

const ngram = "NGRAM"

// Drafter proposes and verifies. Not safe for concurrent use.
type Drafter struct {
	algorithm string
	steps     int
	drafts    int
	// accept[i] is the chance that draft i is accepted when those before it were.
	accept  []float64
	quality float64
	rng     *rand.Rand
	// limit is the most draft tokens that are verified, 0 for all (DSpark).
	limit int

	Window, Lifetime Book
}

// Book counts verify steps of requests.
type Book struct{ Verifies, Proposed, Accepted, Capped int64 }

// AcceptLength is tokens per verify step of a request: accepted drafts + bonus; 0
// before the first.
func (b *Book) AcceptLength() float64 {
	if b.Verifies == 0 {
		return 0
	}
	return float64(b.Accepted+b.Verifies) / float64(b.Verifies)
}

// AcceptRate is accepted / proposed drafts, without the bonus token.
func (b *Book) AcceptRate() float64 {
	if b.Proposed == 0 {
		return 0
	}
	return float64(b.Accepted) / float64(b.Proposed)
}

// CapLength is the mean length of verify windows that a cap shortened; 0 without one.
func (b *Book) CapLength() float64 {
	if b.Verifies == 0 {
		return 0
	}
	return float64(b.Capped) / float64(b.Verifies)
}

func (b *Book) add(proposed, accepted, capped int) {
	b.Verifies++
	b.Capped += int64(capped)
	b.Proposed += int64(proposed)
	b.Accepted += int64(accepted)
}

// New returns nil without speculation.
func New(a *args.Args, seed uint64) (*Drafter, error) {
	if !a.Speculative() {
		return nil, nil
	}
	if !slices.Contains(Algorithms, a.SpeculativeAlgorithm) {
		return nil, fmt.Errorf("speculative_algorithm must be one of %v (got %q)", Algorithms, a.SpeculativeAlgorithm)
	}
	if a.SpeculativeNumDraftTokens < 2 {
		return nil, fmt.Errorf("speculative_num_draft_tokens must be above 1 (got %d)", a.SpeculativeNumDraftTokens)
	}
	d := &Drafter{
		algorithm: a.SpeculativeAlgorithm,
		steps:     a.SpeculativeNumSteps,
		drafts:    a.SpeculativeNumDraftTokens,
		quality:   1,
		rng:       rand.New(rand.NewPCG(seed, 0x5bec)),
	}
	d.accept = chances(d.algorithm, d.Proposed())
	return d, nil
}

// chances fall from draft to draft: each rests on those before it.
func chances(algorithm string, n int) []float64 {
	first, decay := 0.78, 0.93
	if algorithm == ngram {
		first, decay = 0.55, 0.97
	}
	p := make([]float64, n)
	for i := range p {
		p[i] = first
		first *= decay
	}
	return p
}

// SetQuality scales every draft's chance; 1 heals ("drafts getting worse").
func (d *Drafter) SetQuality(q float64) { d.quality = max(0, q) }

// SetChances replaces the chances, one per draft.
func (d *Drafter) SetChances(p []float64) { d.accept = slices.Clone(p) }

// SetCap limits the draft tokens that one step verifies, as DSpark does; 0 lifts it.
func (d *Drafter) SetCap(n int) { d.limit = max(0, n) }

// SetSteps changes the draft steps and tokens of a running engine.
func (d *Drafter) SetSteps(steps, drafts int) {
	d.steps, d.drafts = max(1, steps), max(2, drafts)
	d.accept = chances(d.algorithm, d.Proposed())
}

// NGram drafts come from the request's own tokens, on the CPU: no overlap, and a
// span of its own.
func (d *Drafter) NGram() bool { return d.algorithm == ngram }

// Proposed drafts per verify step; the first of the draft tokens is the one that
// is already certain.
func (d *Drafter) Proposed() int { return d.drafts - 1 }

// DraftTokens are verified per request and step.
func (d *Drafter) DraftTokens() int { return d.drafts }

// Steps of the draft model.
func (d *Drafter) Steps() int { return d.steps }

// Verify draws one request's verify step and gives the tokens it makes: accepted
// drafts + bonus, at least 1. What exceeds the limit (the request ends) is cut from
// the result, though the drafts were accepted.
func (d *Drafter) Verify(limit int) int {
	accepted, capped := 0, 0
	drafts := d.accept
	if d.limit > 0 {
		capped = min(d.limit, d.drafts)
		drafts = drafts[:min(len(drafts), capped-1)]
	}
	for _, p := range drafts {
		if d.rng.Float64() >= p*d.quality {
			break
		}
		accepted++
	}
	d.Window.add(len(drafts), accepted, capped)
	d.Lifetime.add(len(drafts), accepted, capped)
	return max(1, min(accepted+1, limit))
}

// TakeWindow returns the window's book and begins the next.
func (d *Drafter) TakeWindow() Book {
	b := d.Window
	d.Window = Book{}
	return b
}
