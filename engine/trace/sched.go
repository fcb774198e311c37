// Copyright The otelcol-sglang Authors
// SPDX-License-Identifier: Apache-2.0

package trace // import "github.com/otelcol-sglang/otelcol-sglang/engine/trace"

import (
	"time"

	"github.com/otelcol-sglang/otelcol-sglang/engine/ledger"
	"github.com/otelcol-sglang/otelcol-sglang/internal/sglang"
)

// eachLane calls do for every rank of a place.
func (t *Tracer) eachLane(r *ledger.Request, p *ledger.Place, do func(*request, *lane)) {
	q := stateOf(r)
	if q == nil || p == nil || q.level == 0 && !t.transfers {
		return
	}
	lanes := q.lanesOf(t, p)
	for i := range lanes {
		do(q, &lanes[i])
	}
}

func (q *request) lanesOf(t *Tracer, p *ledger.Place) []lane {
	if len(p.TPRanks) == 0 {
		return nil
	}
	for i := range q.places {
		if o := &q.places[i]; o.dp == p.DPRank && o.pp == p.PPRank && o.tp == p.TPRanks[0] {
			return o.lanes
		}
	}
	lanes := make([]lane, len(p.TPRanks))
	for i, tp := range p.TPRanks {
		lanes[i].p = t.process(Scheduler(tp, p.PPRank, p.DPRank))
	}
	q.places = append(q.places, place{p.DPRank, p.PPRank, p.TPRanks[0], lanes})
	return lanes
}

// began makes sure that the rank's thread has begun: the engine opens it when the
// request arrives, just before its first stage.
func (q *request) began(t *Tracer, l *lane, at time.Duration) bool {
	if l.state == threadNone && q.level > 0 {
		l.begin(t, l.p, &q.tree, l.p.wall(at)-t.between(80, 250), flagsRemote, link{q.carry, flagsRemote})
	}
	return l.state == threadOpen
}

// Slice implements [ledger.Tracer]. The stages of Mooncake's workers are told as
// Open(mooncake_worker_send), Slice(mooncake_worker_send_session) per session and
// Close. p is nil for an encoder's stage.
func (t *Tracer) Slice(r *ledger.Request, p *ledger.Place, s sglang.Stage, from, to ledger.Reading, ct int) {
	if s == sglang.StageMMEncode {
		t.encode(r, from.At, to.At)
		return
	}
	t.eachLane(r, p, func(q *request, l *lane) {
		if isTransfer(s) {
			t.sendSlice(r, l, s, from.At, to.At)
			return
		}
		if !q.began(t, l, from.At) {
			return
		}
		out := slice{stage: s, start: l.p.float(from.At), end: l.p.float(to.At)}
		if !l.traces(s) {
			return
		}
		out.id = t.spanID()
		if ct != ledger.NoDecodeCT {
			out.numberKey, out.number = numberKey(s), int64(ct)
		}
		if s == sglang.StageChunkedPrefill {
			l.again.chunked = l.again.open
		}
		l.add(out)
	})
}

func numberKey(s sglang.Stage) string {
	switch s {
	case sglang.StageDecodeLoop:
		return sglang.AttrDecodeCT
	case sglang.StageRunBatchCPU:
		return sglang.AttrPPMBID
	}
	return ""
}

// Open implements [ledger.Tracer].
func (t *Tracer) Open(r *ledger.Request, p *ledger.Place, s sglang.Stage, from ledger.Reading) {
	t.eachLane(r, p, func(q *request, l *lane) {
		if isTransfer(s) {
			t.sendOpen(r, l, s, from.At)
			return
		}
		if !q.began(t, l, from.At) || l.isOpen(s) {
			return
		}
		start := l.p.float(from.At)
		// Re-prefill after a retraction nests nothing: it becomes a span when it ends.
		if s == sglang.StagePrefillForward && l.prefilled {
			l.again.open, l.again.chunked, l.again.start = true, false, start
			return
		}
		l.push(slice{id: t.spanID(), stage: s, start: start})
	})
}

// Close implements [ledger.Tracer].
func (t *Tracer) Close(r *ledger.Request, p *ledger.Place, s sglang.Stage, to ledger.Reading) {
	t.eachLane(r, p, func(_ *request, l *lane) {
		switch {
		case isTransfer(s):
			t.sendClose(l, s, to.At)
		case s == sglang.StageDecodeForward:
			// It stays open, across retractions too, until the thread ends.
		case s == sglang.StagePrefillForward && l.again.open:
			l.again.open = false
			// The last chunk's span stands for it.
			if !l.again.chunked {
				l.add(slice{id: t.spanID(), stage: s, start: l.again.start, end: l.p.float(to.At)})
			}
		default:
			l.pop(s, l.p.float(to.At))
			l.prefilled = l.prefilled || s == sglang.StagePrefillForward
		}
	})
}

// Schedule implements [ledger.Tracer].
func (t *Tracer) Schedule(r *ledger.Request, p *ledger.Place, b *ledger.Batch, at ledger.Reading) {
	t.eachLane(r, p, func(q *request, l *lane) {
		if q.level < levelSchedule || !q.began(t, l, at.At) {
			return
		}
		l.events = append(l.events, event{
			name: sglang.EventSchedule, at: l.p.float(at.At),
			bid: uint32(hash(l.p.seed, b.ID)), size: b.Size, mode: b.Mode,
		})
	})
}

// Levels of events.
const (
	levelRetract  = 1
	levelSchedule = 3
)

// Retract implements [ledger.Tracer].
func (t *Tracer) Retract(r *ledger.Request, p *ledger.Place, at ledger.Reading) {
	t.eachLane(r, p, func(q *request, l *lane) {
		if q.level < levelRetract || l.state != threadOpen {
			return
		}
		l.again.open = false
		l.events = append(l.events, event{name: sglang.EventRetract, at: l.p.float(at.At)})
	})
}

// EndThread implements [ledger.Tracer].
func (t *Tracer) EndThread(r *ledger.Request, p *ledger.Place, at ledger.Reading, autoClose bool) {
	fail := failure(r)
	t.eachLane(r, p, func(q *request, l *lane) {
		t.sendEnd(r, l, at.At)
		if !q.began(t, l, received(r, at.At)) {
			return
		}
		if autoClose {
			// Each rank collects its garbage when it comes to it.
			end := at.At + time.Duration(t.between(0, 10_000))
			t.cfg.Loop.At(end, func() { l.finish(l.p.wall(end), autoClosed) })
			return
		}
		l.finish(l.p.wall(at.At)+t.between(1, 40), fail)
	})
}

// received is when a request without any stage came to its scheduler.
func received(r *ledger.Request, at time.Duration) time.Duration {
	if r.Sched.Received == ledger.Unset {
		return at
	}
	return min(r.Sched.Received, at)
}

// encode is a multimodal encoder's work: a thread in a process of its own.
func (t *Tracer) encode(r *ledger.Request, from, to time.Duration) {
	q := stateOf(r)
	if q == nil || q.level == 0 {
		return
	}
	p := t.process(encoder)
	var h thread
	h.begin(t, p, &q.tree, p.wall(from)+t.between(5, 15), flagsRemote, link{q.tokenize, flagsRemote})
	s := slice{id: t.spanID(), stage: sglang.StageMMEncode, start: p.float(from), end: p.float(to)}
	if fail := failure(r); fail != nil {
		// The stage is still open when the failure ends all, by the wall clock.
		h.push(s)
		h.finish(p.wall(to), fail)
		return
	}
	h.add(s)
	h.finish(s.end, nil)
}
