// Copyright The otelcol-sglang Authors
// SPDX-License-Identifier: Apache-2.0

package sched // import "github.com/otelcol-sglang/otelcol-sglang/engine/sched"

import (
	"time"

	"github.com/otelcol-sglang/otelcol-sglang/engine/ledger"
	"github.com/otelcol-sglang/otelcol-sglang/internal/sglang"
)

// stageLag is how much later the next pipeline stage does what the first did.
const stageLag = 350 * time.Microsecond

func (s *Scheduler) lag(i int, at ledger.Reading) ledger.Reading {
	at.At += time.Duration(i) * stageLag
	return at
}

func (s *Scheduler) slice(r *ledger.Request, st sglang.Stage, from, to ledger.Reading) {
	s.slice2(r, st, from, to, ledger.NoDecodeCT)
}

func (s *Scheduler) slice2(r *ledger.Request, st sglang.Stage, from, to ledger.Reading, ct int) {
	for i := range s.Places {
		s.Tracer.Slice(r, &s.Places[i], st, s.lag(i, from), s.lag(i, to), ct)
	}
}

func (s *Scheduler) open(r *ledger.Request, st sglang.Stage, at ledger.Reading) {
	for i := range s.Places {
		s.Tracer.Open(r, &s.Places[i], st, s.lag(i, at))
	}
}

func (s *Scheduler) close(r *ledger.Request, st sglang.Stage, at ledger.Reading) {
	for i := range s.Places {
		s.Tracer.Close(r, &s.Places[i], st, s.lag(i, at))
	}
}

func (s *Scheduler) schedule(r *ledger.Request, b *ledger.Batch, at ledger.Reading) {
	for i := range s.Places {
		s.Tracer.Schedule(r, &s.Places[i], b, s.lag(i, at))
	}
}

func (s *Scheduler) retract(r *ledger.Request, at ledger.Reading) {
	for i := range s.Places {
		s.Tracer.Retract(r, &s.Places[i], s.lag(i, at))
	}
}

func (s *Scheduler) endThread(r *ledger.Request, at ledger.Reading, collected bool) {
	for i := range s.Places {
		s.Tracer.EndThread(r, &s.Places[i], s.lag(i, at), collected)
	}
}

// runBatchCPU is of pipeline parallelism only: the CPU's part of a launch, with the
// micro-batch as number.
func (s *Scheduler) runBatchCPU(w *work, b *batch) {
	if len(s.Places) == 1 {
		return
	}
	to := b.launched
	to.At += costLaunch
	s.slice2(w.r, sglang.StageRunBatchCPU, b.launched, to, b.slot)
}

func (s *Scheduler) stageLatency(st sglang.Stage, from, to ledger.Reading) {
	d := max(0, to.At-from.At)
	for _, c := range s.Collectors {
		c.StageLatency(st, d)
	}
}
