// Copyright The otelcol-sglang Authors
// SPDX-License-Identifier: Apache-2.0

// Package cost says how long a forward pass takes and what it moves, from the
// tokens, attention pairs and requests in it, by a roofline of the model and the
// GPU: the larger of arithmetic and memory traffic, plus all-reduces and launch.
package cost // import "github.com/otelcol-sglang/otelcol-sglang/engine/cost"

import (
	"fmt"
	"math"
	"slices"
	"time"
)

// Work is what one forward pass of one attention group does.
type Work struct {
	// Requests of the batch; Tokens are new ones, padding included.
	Requests, Tokens int
	// Pairs are query-key pairs of attention, summed over the requests.
	Pairs int64
	// KVTokens are cached tokens that attention reads.
	KVTokens int64
	// Groups share the MLP of this pass (DP attention), each with Tokens; 0 is 1.
	Groups int
	// Balance of the experts' work over the GPUs, mean / max; 0 is even.
	Balance float64
	// Graph passes replay a captured CUDA graph instead of launching kernels.
	Graph bool
}

// Traffic is what one GPU does in a pass.
type Traffic struct{ Flops, ReadBytes, WriteBytes float64 }

// Model prices passes for one model on ranks that work in lockstep.
type Model struct {
	Profile Profile
	// tp is the number of GPUs that hold the weights, attn those that share one
	// request's attention.
	tp, attn, pp int
	// slow is each rank's factor; the pass takes as long as the slowest.
	slow    []float64
	slowest float64
}

// New returns the model of a profile. With attention DP, attnTP is smaller than tp.
func New(profile string, tp, attnTP, pp int) (*Model, error) {
	i := slices.IndexFunc(profiles, func(p Profile) bool { return p.Name == profile })
	if i < 0 {
		return nil, fmt.Errorf("model profile must be one of %v (got %q)", Names(), profile)
	}
	if min(tp, attnTP, pp) < 1 {
		return nil, fmt.Errorf("parallel sizes must be positive (got tp %d, attention tp %d, pp %d)", tp, attnTP, pp)
	}
	m := &Model{Profile: profiles[i], tp: tp, attn: attnTP, pp: pp, slow: make([]float64, tp), slowest: 1}
	for r := range m.slow {
		m.slow[r] = 1
	}
	return m, nil
}

// SetSlow makes one rank take factor times as long; 1 heals it. The others wait
// for it at each all-reduce, so that all take as long.
func (m *Model) SetSlow(tpRank int, factor float64) {
	if tpRank < 0 || tpRank >= len(m.slow) || factor <= 0 {
		return
	}
	m.slow[tpRank] = factor
	m.slowest = slices.Max(m.slow)
}

// Slowness is a rank's factor.
func (m *Model) Slowness(tpRank int) float64 {
	if tpRank < 0 || tpRank >= len(m.slow) {
		return 1
	}
	return m.slow[tpRank]
}

// Pass is the time of one forward pass through all pipeline stages.
func (m *Model) Pass(w Work) time.Duration {
	if w.Tokens == 0 {
		return 0
	}
	p := &m.Profile
	t := m.traffic(w)
	busy := max(t.Flops/(p.Flops*p.Efficiency), (t.ReadBytes+t.WriteBytes)/p.MemBandwidth)
	if p.Experts > 0 && w.Balance > 0 {
		busy *= p.DenseShare + (1-p.DenseShare)/w.Balance // all wait for the fullest
	}
	s := (busy+m.launch(w))*m.slowest + m.communicate(w)
	return time.Duration(s * float64(time.Second))
}

// Stage is one pipeline stage's part of a pass.
func (m *Model) Stage(pass time.Duration) time.Duration { return pass / time.Duration(m.pp) }

// Draft is the time of proposing n draft tokens for each request.
func (m *Model) Draft(requests, n int) time.Duration {
	s := float64(n) * (m.Profile.DraftSeconds + 2e-8*float64(requests))
	return time.Duration(s * m.slowest * float64(time.Second))
}

// Traffic is what one GPU computes and moves in a pass, for the MFU estimate.
func (m *Model) Traffic(w Work) Traffic { return m.traffic(w) }

func (m *Model) traffic(w Work) Traffic {
	p := &m.Profile
	tokens := float64(w.Tokens * max(w.Groups, 1))
	linear := 2 * p.ActiveParams * tokens / float64(m.tp)
	attention := 4 * float64(p.Layers) * float64(p.Hidden) * float64(w.Pairs) / float64(m.attn)
	kv := p.KVBytesPerToken() / float64(m.attn)
	return Traffic{
		Flops:      linear + attention,
		ReadBytes:  m.weightsRead(tokens) + kv*float64(w.KVTokens),
		WriteBytes: kv * float64(w.Tokens),
	}
}

// weightsRead: each pass reads every weight once; of a MoE only those of experts
// that some token chose.
func (m *Model) weightsRead(tokens float64) float64 {
	p := &m.Profile
	share := 1.0
	if p.Experts > 0 {
		dense := p.DenseShare
		hit := 1 - math.Pow(1-float64(p.TopK)/float64(p.Experts), tokens)
		share = dense + (1-dense)*hit
	}
	return p.Params * p.WeightBytes * share / float64(m.tp)
}

// communicate: two all-reduces per layer over NVLink.
func (m *Model) communicate(w Work) float64 {
	if m.tp == 1 {
		return 0
	}
	p := &m.Profile
	bytes := float64(w.Tokens*max(w.Groups, 1)*p.Hidden) * 2
	ring := 2 * float64(m.tp-1) / float64(m.tp)
	return 2 * float64(p.Layers) * (p.AllReduceSeconds + bytes*ring/p.LinkBandwidth)
}

func (m *Model) launch(w Work) float64 {
	if w.Graph {
		return m.Profile.GraphSeconds
	}
	return float64(m.Profile.Layers) * m.Profile.LayerLaunchSeconds
}

// KVBytes is what n tokens take in the pools of one rank.
func (m *Model) KVBytes(n int) int64 {
	return int64(m.Profile.KVBytesPerToken() / float64(m.attn) / float64(m.pp) * float64(n))
}

// WeightGB is what the weights take of one GPU's memory.
func (m *Model) WeightGB() float64 {
	return m.Profile.Params * m.Profile.WeightBytes / float64(m.tp*m.pp) / 1e9
}

// MaxTotalTokens is the KV capacity that is left of a GPU's memory when the static
// fraction of it holds weights and pools; 0 if the weights don't fit.
func (m *Model) MaxTotalTokens(memFractionStatic float64) int {
	free := m.Profile.GPUMemory*memFractionStatic - m.WeightGB()*1e9
	return max(0, int(free/(m.Profile.KVBytesPerToken()/float64(m.attn*m.pp))))
}
