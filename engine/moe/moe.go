// Copyright The otelcol-sglang Authors
// SPDX-License-Identifier: Apache-2.0

// Package moe is the expert dispatch of a mixture-of-experts model: which experts
// the router picks for the tokens of a pass, and on which GPUs they are. Each layer
// has its favourites, so that GPUs get unequal work; all wait for the busiest.
package moe // import "github.com/otelcol-sglang/otelcol-sglang/engine/moe"

import (
	"cmp"
	"errors"
	"fmt"
	"math"
	"math/rand/v2"
	"slices"

	"github.com/otelcol-sglang/otelcol-sglang/engine/ledger"
)

// Config is a model's experts and how they are spread.
type Config struct {
	Layers, Experts, TopK, GPUs int
	// Skew is the exponent of the experts' popularity by rank: 0 for all alike, 1 for
	// Zipf's law.
	Skew float64
	// Balanced places experts by popularity, as EPLB does, instead of in their order.
	Balanced bool
	Seed     uint64
}

// Validate says what is wrong.
func (c *Config) Validate() error {
	var errs []error
	if min(c.Layers, c.Experts, c.TopK, c.GPUs) < 1 {
		errs = append(errs, fmt.Errorf("layers, experts, top_k and gpus must be at least 1 (got %d, %d, %d, %d)", c.Layers, c.Experts, c.TopK, c.GPUs))
	}
	if c.TopK > c.Experts {
		errs = append(errs, fmt.Errorf("top_k must be at most the %d experts (got %d)", c.Experts, c.TopK))
	}
	if c.GPUs > 0 && c.Experts%c.GPUs != 0 {
		errs = append(errs, fmt.Errorf("experts must be a multiple of the %d gpus (got %d)", c.GPUs, c.Experts))
	}
	if c.Skew < 0 {
		errs = append(errs, fmt.Errorf("skew must not be negative (got %v)", c.Skew))
	}
	return errors.Join(errs...)
}

// Dispatch counts the experts' work on each GPU. One goroutine's.
type Dispatch struct {
	Config
	gpus   [][]int     // by layer and expert: where it is
	shares [][]float64 // by layer and GPU: of the router's choices
	// placed are the shares for which the experts were placed.
	placed [][]float64
	counts []int
	rng    *rand.Rand
	to     ledger.ExpertCollector
}

// New places the experts.
func New(c Config, to ledger.ExpertCollector) (*Dispatch, error) {
	if err := c.Validate(); err != nil {
		return nil, err
	}
	d := &Dispatch{Config: c, counts: make([]int, c.GPUs), to: to, rng: rand.New(rand.NewPCG(c.Seed, 0x6d6f65))}
	for range c.Layers {
		popularity := d.popularity(c.Skew)
		gpus := c.place(popularity)
		d.gpus = append(d.gpus, gpus)
		d.placed = append(d.placed, c.share(popularity, gpus))
	}
	d.shares = d.placed
	return d, nil
}

// Shift gives each layer other favourites, with another skew, while the experts stay
// where they are: what is asked for has changed.
func (d *Dispatch) Shift(skew float64) {
	d.shares = make([][]float64, d.Layers)
	for layer := range d.shares {
		d.shares[layer] = d.share(d.popularity(max(0, skew)), d.gpus[layer])
	}
}

// Restore brings back what the experts were placed for.
func (d *Dispatch) Restore() { d.shares = d.placed }

// popularity is each expert's share of the choices in one layer, which has its own
// favourites.
func (d *Dispatch) popularity(skew float64) []float64 {
	p := make([]float64, d.Experts)
	sum := 0.0
	for rank, expert := range d.rng.Perm(d.Experts) {
		p[expert] = math.Pow(float64(rank+1), -skew)
		sum += p[expert]
	}
	for i := range p {
		p[i] /= sum
	}
	return p
}

// place gives each GPU as many experts as the next.
func (c *Config) place(popularity []float64) (gpus []int) {
	each := c.Experts / c.GPUs
	gpus = make([]int, c.Experts)
	if !c.Balanced {
		for expert := range gpus {
			gpus[expert] = expert / each
		}
		return gpus
	}
	order := make([]int, c.Experts)
	for expert := range order {
		order[expert] = expert
	}
	slices.SortStableFunc(order, func(a, b int) int { return cmp.Compare(popularity[b], popularity[a]) })
	have, shares := make([]int, c.GPUs), make([]float64, c.GPUs)
	for _, expert := range order {
		g := idlest(shares, have, each)
		gpus[expert] = g
		shares[g] += popularity[expert]
		have[g]++
	}
	return gpus
}

// share is each GPU's part of the choices.
func (c *Config) share(popularity []float64, gpus []int) []float64 {
	shares := make([]float64, c.GPUs)
	for expert, g := range gpus {
		shares[g] += popularity[expert]
	}
	return shares
}

// idlest is the GPU with the smallest share that has room for an expert.
func idlest(shares []float64, have []int, each int) int {
	best := -1
	for g, s := range shares {
		if have[g] < each && (best < 0 || s < shares[best]) {
			best = g
		}
	}
	return best
}

// Pass sends the tokens of one forward pass through all layers, tells the collector,
// and returns the balancedness: mean / max load of the GPUs, as a mean over layers.
// A pass without tokens has none.
func (d *Dispatch) Pass(tokens int) (balancedness float64, ok bool) {
	if tokens <= 0 {
		return 0, false
	}
	for layer, shares := range d.shares {
		d.draw(tokens*d.TopK, shares)
		d.to.Dispatched(layer, d.counts)
		mean := float64(tokens*d.TopK) / float64(len(d.counts))
		balancedness += mean / float64(slices.Max(d.counts))
	}
	return balancedness / float64(len(d.shares)), true
}

// Balance is Pass for who only wants the balancedness; 0 of a pass without tokens.
func (d *Dispatch) Balance(tokens int) float64 {
	v, _ := d.Pass(tokens)
	return v
}

// draw spreads n choices over the GPUs, each choice by the shares.
func (d *Dispatch) draw(n int, shares []float64) {
	rest := 1.0
	for g, s := range shares {
		if g == len(shares)-1 {
			d.counts[g] = n
			break
		}
		d.counts[g] = binomial(d.rng, n, min(1, s/rest))
		n -= d.counts[g]
		rest -= s
	}
}

// manyChoices is the variance from which a binomial count is drawn as a normal one.
const manyChoices = 50

// binomial draws how many of n choices fall on something of probability p.
func binomial(rng *rand.Rand, n int, p float64) int {
	if n == 0 || p <= 0 {
		return 0
	}
	if p > 0.5 {
		return n - binomial(rng, n, 1-p)
	}
	mean := float64(n) * p
	if variance := mean * (1 - p); variance > manyChoices {
		x := math.Round(mean + rng.NormFloat64()*math.Sqrt(variance))
		return max(0, min(n, int(x)))
	}
	// Waiting times between hits are geometric.
	hits, scale := 0, 1/math.Log1p(-p)
	for at := math.Log(1-rng.Float64()) * scale; at < float64(n); hits++ {
		at = math.Floor(at) + 1 + math.Log(1-rng.Float64())*scale
	}
	return hits
}
