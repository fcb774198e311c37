// Copyright The otelcol-sglang Authors
// SPDX-License-Identifier: Apache-2.0

package disagg // import "github.com/otelcol-sglang/otelcol-sglang/engine/disagg"

import (
	"math/rand/v2"
	"slices"
	"time"

	"github.com/otelcol-sglang/otelcol-sglang/engine/clock"
	"github.com/otelcol-sglang/otelcol-sglang/engine/ledger"
)

// Phase is where a room failed.
type Phase uint8

const (
	PhaseBootstrap Phase = iota
	PhaseTransfer
	// PhasePeer: the other half gave the room up.
	PhasePeer
)

// PrefillConfig makes a prefill node's queues. The callbacks are called on the
// loop's goroutine, each at most once per request after its Add or Send.
type PrefillConfig struct {
	Loop *clock.Loop
	Hub  *Hub
	// Bandwidth of one rank's connection, bytes per second; Latency of a transfer.
	Bandwidth float64
	Latency   time.Duration
	// BootstrapTimeout is SGLANG_DISAGGREGATION_BOOTSTRAP_TIMEOUT.
	BootstrapTimeout time.Duration
	Seed             uint64

	Ready func(r *ledger.Request)
	// Moved: a part of the KV that was handed over at from had the connection for so long
	// until now. It may have failed, and the request may have ended meanwhile.
	Moved func(r *ledger.Request, from, moving time.Duration)
	// Sent: all of it is there.
	Sent   func(r *ledger.Request)
	Failed func(r *ledger.Request, p Phase)
}

// Prefill are a prefill node's bootstrap queue and its transfers in flight.
type Prefill struct {
	PrefillConfig
	bootstrap, inflight []*ledger.Request
	// free is when the connection is done with what was given to it.
	free            time.Duration
	slower, failing float64
	rng             *rand.Rand
}

// NewPrefill returns empty queues.
func NewPrefill(c PrefillConfig) *Prefill {
	return &Prefill{PrefillConfig: c, slower: 1, rng: rand.New(rand.NewPCG(c.Seed, 0xd15a))}
}

// SetTransfer makes transfers slower by a factor and fail with the given chance.
func (p *Prefill) SetTransfer(slower, failing float64) {
	p.slower, p.failing = max(slower, 1e-3), failing
}

// Queues are the requests in each.
func (p *Prefill) Queues() (bootstrap, inflight []*ledger.Request) { return p.bootstrap, p.inflight }

// Add waits for the decode node's half of the room. A request without a room (a
// probe) has no other half.
func (p *Prefill) Add(r *ledger.Request) {
	p.bootstrap = append(p.bootstrap, r)
	if r.BootstrapRoom == 0 {
		p.Loop.After(0, func() { p.ready(r) })
		return
	}
	p.Hub.Join(r.BootstrapRoom, func(m Message) { p.receive(r, m) })
	p.Loop.After(p.BootstrapTimeout, func() { p.fail(&p.bootstrap, r, PhaseBootstrap) })
}

func (p *Prefill) receive(r *ledger.Request, m Message) {
	switch m.Kind {
	case Metadata:
		p.ready(r)
	case Failed:
		p.Hub.Send(Message{Kind: Released, Room: r.BootstrapRoom})
		p.Hub.Leave(r.BootstrapRoom)
		take(&p.bootstrap, r)
		take(&p.inflight, r)
		p.Failed(r, PhasePeer)
	}
}

func (p *Prefill) ready(r *ledger.Request) {
	if take(&p.bootstrap, r) {
		p.Ready(r)
	}
}

// SendPart moves the KV of a chunk, bytes of one rank, while the rest of the prompt is
// computed.
func (p *Prefill) SendPart(r *ledger.Request, bytes int64) { p.move(r, bytes, func() {}) }

// move gives a part the connection: all ranks at the same time, one part after the
// other. A request without a peer moves nothing.
func (p *Prefill) move(r *ledger.Request, bytes int64, then func()) {
	from := p.Loop.Now()
	if r.BootstrapRoom == 0 {
		p.Loop.At(from, then)
		return
	}
	took := p.Latency + time.Duration(float64(bytes)/p.Bandwidth*float64(time.Second))
	moving := time.Duration(float64(took) * p.slower)
	p.free = max(from, p.free) + moving
	p.Loop.At(p.free, func() {
		p.Moved(r, from, moving)
		then()
	})
}

// Send moves what is left of a request's KV, and then the request is the peer's.
func (p *Prefill) Send(r *ledger.Request, bytes int64, tokens int, first int32) {
	p.inflight = append(p.inflight, r)
	failed := p.rng.Float64() < p.failing
	p.move(r, bytes, func() {
		if failed {
			p.fail(&p.inflight, r, PhaseTransfer)
			return
		}
		if !take(&p.inflight, r) {
			return
		}
		if r.BootstrapRoom != 0 {
			p.Hub.Leave(r.BootstrapRoom)
			p.Hub.Send(Message{
				Kind: KVSent, Room: r.BootstrapRoom, Tokens: tokens, FirstToken: first, Cached: r.Cached.Total(),
			})
		}
		p.Sent(r)
	})
}

// Drop gives up a request in whatever state, and tells the peer.
func (p *Prefill) Drop(r *ledger.Request) {
	take(&p.bootstrap, r)
	take(&p.inflight, r)
	p.giveUp(r)
}

func (p *Prefill) giveUp(r *ledger.Request) {
	if r.BootstrapRoom == 0 {
		return
	}
	p.Hub.Leave(r.BootstrapRoom)
	p.Hub.Send(Message{Kind: Failed, Room: r.BootstrapRoom})
}

func (p *Prefill) fail(queue *[]*ledger.Request, r *ledger.Request, phase Phase) {
	if !take(queue, r) {
		return
	}
	p.giveUp(r)
	p.Failed(r, phase)
}

// take removes r, and tells whether it was there.
func take(queue *[]*ledger.Request, r *ledger.Request) bool {
	i := slices.Index(*queue, r)
	if i < 0 {
		return false
	}
	*queue = slices.Delete(*queue, i, i+1)
	return true
}
