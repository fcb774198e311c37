// Copyright The otelcol-sglang Authors
// SPDX-License-Identifier: Apache-2.0

package ledger // import "github.com/otelcol-sglang/otelcol-sglang/engine/ledger"

import (
	"time"

	"github.com/otelcol-sglang/otelcol-sglang/internal/sglang"
)

// Tracers tells several tracers of everything, in their order. Only one of them may
// use [Request.Trace].
type Tracers []Tracer

var _ Tracer = Tracers(nil)

// Start implements [Tracer].
func (ts Tracers) Start(r *Request, at time.Duration) {
	for _, t := range ts {
		t.Start(r, at)
	}
}

// FrontEnd implements [Tracer].
func (ts Tracers) FrontEnd(r *Request, s sglang.Stage, from, to time.Duration) {
	for _, t := range ts {
		t.FrontEnd(r, s, from, to)
	}
}

// Finish implements [Tracer].
func (ts Tracers) Finish(r *Request, at time.Duration) {
	for _, t := range ts {
		t.Finish(r, at)
	}
}

// Forget implements [Tracer].
func (ts Tracers) Forget(r *Request) {
	for _, t := range ts {
		t.Forget(r)
	}
}

// Dispatch implements [Tracer].
func (ts Tracers) Dispatch(r *Request, from, to time.Duration) {
	for _, t := range ts {
		t.Dispatch(r, from, to)
	}
}

// Slice implements [Tracer].
func (ts Tracers) Slice(r *Request, p *Place, s sglang.Stage, from, to Reading, ct int) {
	for _, t := range ts {
		t.Slice(r, p, s, from, to, ct)
	}
}

// Open implements [Tracer].
func (ts Tracers) Open(r *Request, p *Place, s sglang.Stage, from Reading) {
	for _, t := range ts {
		t.Open(r, p, s, from)
	}
}

// Close implements [Tracer].
func (ts Tracers) Close(r *Request, p *Place, s sglang.Stage, to Reading) {
	for _, t := range ts {
		t.Close(r, p, s, to)
	}
}

// Schedule implements [Tracer].
func (ts Tracers) Schedule(r *Request, p *Place, b *Batch, at Reading) {
	for _, t := range ts {
		t.Schedule(r, p, b, at)
	}
}

// Retract implements [Tracer].
func (ts Tracers) Retract(r *Request, p *Place, at Reading) {
	for _, t := range ts {
		t.Retract(r, p, at)
	}
}

// EndThread implements [Tracer].
func (ts Tracers) EndThread(r *Request, p *Place, at Reading, autoClosed bool) {
	for _, t := range ts {
		t.EndThread(r, p, at, autoClosed)
	}
}
