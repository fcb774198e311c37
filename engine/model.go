// Copyright The otelcol-sglang Authors
// SPDX-License-Identifier: Apache-2.0

package engine // import "github.com/otelcol-sglang/otelcol-sglang/engine"

import (
	"github.com/otelcol-sglang/otelcol-sglang/engine/cost"
	"github.com/otelcol-sglang/otelcol-sglang/engine/dp"
	"github.com/otelcol-sglang/otelcol-sglang/engine/ledger"
	"github.com/otelcol-sglang/otelcol-sglang/engine/lora"
	"github.com/otelcol-sglang/otelcol-sglang/engine/moe"
)

const (
	// adapterShare is an adapter's size, in weights of the model: rank 64 or so.
	adapterShare = 0.01
	// adapterSpeed is that of copying it to a GPU, in bytes per second.
	adapterSpeed = 20e9
	// expertSkew of popularity, as an exponent over the experts' ranks.
	expertSkew = 0.5
)

// adapters are a scheduler's slots; nil without --enable-lora.
func (e *Engine) adapters(m *cost.Model) *lora.Pool {
	if !e.Args.EnableLoRA {
		return nil
	}
	return lora.New(e.Args.MaxLoRAsPerBatch, int64(m.WeightGB()*1e9*adapterShare), adapterSpeed)
}

// experts spread the tokens of each pass, where that is asked for and the model has
// any; else nil.
func (e *Engine) experts(m *cost.Model) (*moe.Dispatch, error) {
	a, p := e.Args, &m.Profile
	if p.Experts == 0 || !a.EnableEPLB && !a.EnableExpertDistributionMetrics {
		return nil, nil
	}
	var book ledger.ExpertCollector = ledger.NopExpert{}
	if a.EnableMetrics {
		book = e.Page.Experts()
	}
	d, err := moe.New(moe.Config{
		Layers: p.Layers, Experts: p.Experts, TopK: p.TopK, GPUs: max(a.EPSize, a.TPSize),
		Skew: expertSkew, Balanced: a.EnableEPLB, Seed: e.seed(),
	}, book)
	if err != nil {
		return nil, err
	}
	e.Experts = append(e.Experts, d)
	return d, nil
}

// shareExperts: the groups of attention DP send their tokens through one MLP.
func (e *Engine) shareExperts(sync *dp.Sync, m *cost.Model) error {
	d, err := e.experts(m)
	if d != nil {
		sync.Balance = d.Balance
	}
	return err
}
