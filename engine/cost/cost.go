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
	pairs := float64(p.fullLayers())*float64(w.Pairs) + float64(p.WindowLayers)*float64(min(w.Pairs, int64(w.Tokens*p.Window)))
	attention := 4 * float64(p.Hidden) * pairs / float64(m.attn)
	kv, window := p.KVBytesPerToken(), p.WindowBytesPerToken()
	states := p.StateBytes * float64(w.Requests) // read and written in each pass
	cached := kv*float64(w.KVTokens) + window*float64(min(w.KVTokens, int64(w.Requests*p.Window))) + states
	return Traffic{
		Flops:      linear + attention,
		ReadBytes:  m.weightsRead(tokens) + cached/float64(m.attn),
		WriteBytes: ((kv+window)*float64(w.Tokens) + states) / float64(m.attn),
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

// KVBytes is what n tokens take in the full-attention pool of one rank.
func (m *Model) KVBytes(n int) int64 { return m.shard(m.Profile.KVBytesPerToken() * float64(n)) }

// WindowBytes is what n tokens take in the pool of the sliding-window layers.
func (m *Model) WindowBytes(n int) int64 {
	return m.shard(m.Profile.WindowBytesPerToken() * float64(n))
}

// StateBytes is what n recurrent states take.
func (m *Model) StateBytes(n int) int64 { return m.shard(m.Profile.StateBytes * float64(n)) }

// RequestBytes is all that one rank keeps of a request of n tokens.
func (m *Model) RequestBytes(n int) int64 {
	return m.KVBytes(n) + m.WindowBytes(min(n, m.Profile.Window)) + m.StateBytes(1)
}

// PoolBytes is what pools of these capacities take on one rank.
func (m *Model) PoolBytes(tokens, windowTokens, states int) int64 {
	return m.KVBytes(tokens) + m.WindowBytes(windowTokens) + m.StateBytes(states)
}

// shard is one rank's part of what all layers keep.
func (m *Model) shard(bytes float64) int64 { return int64(bytes / float64(m.attn*m.pp)) }

// WeightGB is what the weights take of one GPU's memory.
func (m *Model) WeightGB() float64 {
	return m.Profile.Params * m.Profile.WeightBytes / float64(m.tp*m.pp) / 1e9
}

// Pools shares out what weights leave of the static fraction of a GPU's memory: to
// states stateRatio times what KV gets, and a sliding-window pool of windowRatio
// times the tokens of the full one. All are 0 if the weights don't fit.
func (m *Model) Pools(memFractionStatic, windowRatio, stateRatio float64) (tokens, windowTokens, states int) {
	p := &m.Profile
	free := max(0, p.GPUMemory*memFractionStatic-m.WeightGB()*1e9) * float64(m.attn*m.pp)
	if p.StateBytes > 0 {
		share := free * stateRatio / (1 + stateRatio)
		states = int(share / p.StateBytes)
		free -= share
	}
	tokens = int(free / (p.KVBytesPerToken() + windowRatio*p.WindowBytesPerToken()))
	if p.WindowLayers > 0 {
		windowTokens = int(float64(tokens) * windowRatio)
	}
	return tokens, windowTokens, states
}
