// Copyright The otelcol-sglang Authors
// SPDX-License-Identifier: Apache-2.0

package disagg // import "github.com/otelcol-sglang/otelcol-sglang/engine/disagg"

import (
	"time"

	"github.com/otelcol-sglang/otelcol-sglang/engine/clock"
	"github.com/otelcol-sglang/otelcol-sglang/engine/ledger"
	"github.com/otelcol-sglang/otelcol-sglang/internal/sglang"
)

// DecodeConfig makes a decode node's queues. The callbacks are called on the loop's
// goroutine, each at most once per request.
type DecodeConfig struct {
	Loop     *clock.Loop
	Hub      *Hub
	Memory   ledger.Memory
	PageSize int
	// Handshake is what it takes to learn the prefill node's sizes.
	Handshake time.Duration
	// WaitTimeout is SGLANG_DISAGGREGATION_WAITING_TIMEOUT, for the KV.
	WaitTimeout time.Duration
	// ReleaseTimeout is how long memory is kept that the peer may still write to.
	ReleaseTimeout time.Duration

	// Known is called when the handshake is done: there may be room.
	Known func(r *ledger.Request)
	// Allocated: room is reserved and the peer knows.
	Allocated func(r *ledger.Request)
	// Arrived: the KV is there, with the first token and the peer's cache hits.
	Arrived func(r *ledger.Request, first int32, cached int)
	Failed  func(r *ledger.Request, p Phase)
	// Released tells how a deferred release ended; outcomes as on the family's label.
	Released func(outcome string, held time.Duration)
}

// Decode are a decode node's prealloc queue, its transfers, and memory that can't be
// let go yet.
type Decode struct {
	DecodeConfig
	prealloc, transfer []*half
	deferred           []*half
	reserved           int // by transfers and deferred releases
}

// half is the decode node's half of a room.
type half struct {
	r       *ledger.Request
	room    uint64
	known   bool
	tokens  int // reserved, whole pages
	dropped time.Duration
}

// NewDecode returns empty queues.
func NewDecode(c DecodeConfig) *Decode { return &Decode{DecodeConfig: c} }

// Queues are the requests in each, and the number of deferred releases.
func (d *Decode) Queues() (prealloc, transfer []*ledger.Request, deferred int) {
	return requests(d.prealloc), requests(d.transfer), len(d.deferred)
}

// Lengths are those of the queues.
func (d *Decode) Lengths() (prealloc, transfer, deferred int) {
	return len(d.prealloc), len(d.transfer), len(d.deferred)
}

// Reserved tokens, of transfers and of releases that wait.
func (d *Decode) Reserved() int { return d.reserved }

func requests(hs []*half) []*ledger.Request {
	if len(hs) == 0 {
		return nil
	}
	rs := make([]*ledger.Request, len(hs))
	for i, h := range hs {
		rs[i] = h.r
	}
	return rs
}

// Add begins the handshake.
func (d *Decode) Add(r *ledger.Request) {
	h := &half{r: r, room: r.BootstrapRoom}
	d.prealloc = append(d.prealloc, h)
	if h.room == 0 {
		h.known = true
		return
	}
	d.Hub.Join(h.room, func(m Message) { d.receive(h, m) })
	d.Loop.After(d.Handshake, func() {
		if h.known = has(d.prealloc, h); h.known {
			d.Known(r)
		}
	})
}

// Waiting tells whether the first of the queue waits only for room.
func (d *Decode) Waiting() bool { return len(d.prealloc) > 0 && d.prealloc[0].known }

// Allocate reserves room for requests in their order, as long as admit says yes to
// the tokens of the next; those whose handshake runs are passed over.
func (d *Decode) Allocate(admit func(tokens int) bool) {
	for i := 0; i < len(d.prealloc); {
		h := d.prealloc[i]
		if !h.known {
			i++
			continue
		}
		n := d.pages(len(h.r.Prompt))
		if !admit(n) || !d.Memory.Reserve(n) {
			return
		}
		remove(&d.prealloc, h)
		h.tokens = n
		d.reserved += n
		d.transfer = append(d.transfer, h)
		d.ask(h)
	}
}

func (d *Decode) ask(h *half) {
	d.Allocated(h.r)
	if h.room == 0 {
		d.Loop.After(0, func() { d.arrived(h, Message{}) })
		return
	}
	d.Hub.Send(Message{Kind: Metadata, Room: h.room, Tokens: h.tokens})
	d.Loop.After(d.WaitTimeout, func() {
		if has(d.transfer, h) {
			d.abandon(h)
			d.Failed(h.r, PhaseTransfer)
		}
	})
}

func (d *Decode) receive(h *half, m Message) {
	switch m.Kind {
	case KVSent:
		if !has(d.transfer, h) {
			d.release(h, sglang.ReleaseDrained)
			return
		}
		d.Hub.Leave(h.room)
		d.arrived(h, m)
	case Released:
		d.release(h, sglang.ReleaseDrained)
	case Failed:
		d.peerFailed(h)
	}
}

func (d *Decode) arrived(h *half, m Message) {
	if remove(&d.transfer, h) {
		d.Arrived(h.r, m.FirstToken, m.Cached)
	}
}

// peerFailed: the peer writes no more, so that the memory is free at once.
func (d *Decode) peerFailed(h *half) {
	d.Hub.Leave(h.room)
	switch {
	case remove(&d.prealloc, h):
		d.Failed(h.r, PhaseBootstrap)
	case remove(&d.transfer, h):
		d.free(h)
		d.Failed(h.r, PhaseTransfer)
	default:
		d.release(h, sglang.ReleaseDrained)
	}
}

// Claim takes over the reservation of a request that arrived: the caller allocates
// in its place at once.
func (d *Decode) Claim(r *ledger.Request) {
	n := d.pages(len(r.Prompt))
	d.reserved -= n
	d.Memory.Unreserve(n)
}

// Unclaim undoes [Decode.Claim] when the caller could not allocate; false: the
// reservation is lost.
func (d *Decode) Unclaim(r *ledger.Request) bool {
	n := d.pages(len(r.Prompt))
	if !d.Memory.Reserve(n) {
		return false
	}
	d.reserved += n
	return true
}

func (d *Decode) pages(tokens int) int {
	return (tokens + d.PageSize - 1) / d.PageSize * d.PageSize
}

// Drop gives up a request in a queue and tells the peer. Memory that is promised to
// a transfer is kept until the peer is known to write no more.
func (d *Decode) Drop(r *ledger.Request) {
	for _, h := range d.prealloc {
		if h.r == r {
			remove(&d.prealloc, h)
			d.Hub.Leave(h.room)
			d.Hub.Send(Message{Kind: Failed, Room: h.room})
			return
		}
	}
	for _, h := range d.transfer {
		if h.r == r {
			d.abandon(h)
			return
		}
	}
}

func (d *Decode) abandon(h *half) {
	remove(&d.transfer, h)
	if h.room == 0 {
		d.free(h)
		return
	}
	h.dropped = d.Loop.Now()
	d.deferred = append(d.deferred, h)
	d.Hub.Send(Message{Kind: Failed, Room: h.room})
	d.Loop.After(d.ReleaseTimeout, func() { d.release(h, sglang.ReleaseTimeout) })
}

func (d *Decode) release(h *half, outcome string) {
	if !remove(&d.deferred, h) {
		return
	}
	d.Hub.Leave(h.room)
	d.free(h)
	d.Released(outcome, d.Loop.Now()-h.dropped)
}

func (d *Decode) free(h *half) {
	d.reserved -= h.tokens
	d.Memory.Unreserve(h.tokens)
}

func has(hs []*half, h *half) bool {
	for _, v := range hs {
		if v == h {
			return true
		}
	}
	return false
}

func remove(hs *[]*half, h *half) bool {
	for i, v := range *hs {
		if v == h {
			*hs = append((*hs)[:i], (*hs)[i+1:]...)
			return true
		}
	}
	return false
}
