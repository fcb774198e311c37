// Copyright The otelcol-sglang Authors
// SPDX-License-Identifier: Apache-2.0

package engine // import "github.com/otelcol-sglang/otelcol-sglang/engine"

import (
	"hash/fnv"
	"math"
	"slices"
	"time"

	"github.com/otelcol-sglang/otelcol-sglang/engine/front"
	"github.com/otelcol-sglang/otelcol-sglang/engine/ledger"
	"github.com/otelcol-sglang/otelcol-sglang/engine/load"
	"github.com/otelcol-sglang/otelcol-sglang/internal/sglang"
)

var _ front.Backend = (*Engine)(nil)

// Submit implements [front.Backend].
func (e *Engine) Submit(r *ledger.Request) {
	if e.Controller == nil {
		e.Schedulers[0].Receive(r)
		return
	}
	if e.byLength.on {
		r.DPRank = e.byLength.rank(len(r.Prompt), len(e.Schedulers))
	}
	e.Controller.Dispatch(r)
}

// Abort implements [front.Backend].
func (e *Engine) Abort(r *ledger.Request) {
	if e.Controller == nil {
		e.Schedulers[0].Abort(r)
		return
	}
	s := e.Schedulers[r.DPRank]
	e.Loop.After(reaches, func() { s.Abort(r) })
}

// Idle implements [front.Backend].
func (e *Engine) Idle() bool {
	for _, s := range e.Schedulers {
		if !s.Idle() {
			return false
		}
	}
	return true
}

// output and dropped come from schedulers; those of a crashed engine say nothing to
// its successor, whose front end does not know their requests.
func (e *Engine) output(r *ledger.Request)  { e.Front.Output(r) }
func (e *Engine) dropped(r *ledger.Request) { e.Front.Dropped(r) }

// Target is the engine for clients in this process.
func (e *Engine) Target() load.Target { return target{e} }

type target struct{ *Engine }

// Do implements [load.Target].
func (t target) Do(c *load.Call, events func(load.Event)) (hangUp func()) {
	if !t.up {
		loop := t.Loop
		loop.After(0, func() {
			events(load.Event{At: loop.Now(), Done: true, Failed: &load.ErrRefused{Status: front.StatusGone, Message: "connection refused"}})
		})
		return func() {}
	}
	return (&load.Local{Front: t.Front}).Do(c, events)
}

// PairTarget is a PD pair for clients in this process: both halves get each call.
func PairTarget(prefill, decode *Engine) load.Target {
	return &load.Local{Front: decode.Front, Prefill: prefill.Front}
}

// hiding is a tracer that leaves out the scheduler's spans of a share of requests.
type hiding struct {
	ledger.Tracer
	below uint32
}

func (h *hiding) set(share float64) { h.below = uint32(share * math.MaxUint32) }

func (h *hiding) hides(r *ledger.Request) bool {
	if h.below == 0 {
		return false
	}
	f := fnv.New32a()
	_, _ = f.Write([]byte(r.ID))
	return f.Sum32() <= h.below
}

func (h *hiding) Dispatch(r *ledger.Request, from, to time.Duration) {
	if !h.hides(r) {
		h.Tracer.Dispatch(r, from, to)
	}
}

func (h *hiding) Slice(r *ledger.Request, p *ledger.Place, s sglang.Stage, from, to ledger.Reading, ct int) {
	if !h.hides(r) {
		h.Tracer.Slice(r, p, s, from, to, ct)
	}
}

func (h *hiding) Open(r *ledger.Request, p *ledger.Place, s sglang.Stage, from ledger.Reading) {
	if !h.hides(r) {
		h.Tracer.Open(r, p, s, from)
	}
}

func (h *hiding) Close(r *ledger.Request, p *ledger.Place, s sglang.Stage, to ledger.Reading) {
	if !h.hides(r) {
		h.Tracer.Close(r, p, s, to)
	}
}

func (h *hiding) Schedule(r *ledger.Request, p *ledger.Place, b *ledger.Batch, at ledger.Reading) {
	if !h.hides(r) {
		h.Tracer.Schedule(r, p, b, at)
	}
}

func (h *hiding) Retract(r *ledger.Request, p *ledger.Place, at ledger.Reading) {
	if !h.hides(r) {
		h.Tracer.Retract(r, p, at)
	}
}

func (h *hiding) EndThread(r *ledger.Request, p *ledger.Place, at ledger.Reading, autoClosed bool) {
	if !h.hides(r) {
		h.Tracer.EndThread(r, p, at, autoClosed)
	}
}

// lengths sends long prompts to low DP ranks and short ones to high ranks, as many to
// each: bounds are the quantiles of what came lately.
type lengths struct {
	on     bool
	recent []int
	next   int
}

const recentPrompts = 256

func (l *lengths) set(on bool) { l.on = on }

func (l *lengths) rank(n, ranks int) int {
	if len(l.recent) < recentPrompts {
		l.recent = append(l.recent, n)
	} else {
		l.recent[l.next] = n
		l.next = (l.next + 1) % recentPrompts
	}
	sorted := slices.Sorted(slices.Values(l.recent))
	longer := len(sorted) - 1 - slices.Index(sorted, n)
	return longer * ranks / len(sorted)
}
