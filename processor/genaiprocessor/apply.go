// Copyright The otelcol-sglang Authors
// SPDX-License-Identifier: Apache-2.0

package genaiprocessor // import "github.com/otelcol-sglang/otelcol-sglang/processor/genaiprocessor"

import (
	"sync/atomic"
	"time"

	"github.com/otelcol-sglang/otelcol-sglang/internal/sglang"
	"github.com/otelcol-sglang/otelcol-sglang/processor/genaiprocessor/internal/assembly"
)

// pin decides which decode steps fold: those whose summary has not left. Their
// traces stay until the batch was taken.
func (p *genaiProcessor) pin(b *batch, now time.Time) {
	var last *assembly.Record
	p.eachShard(b, func(s *shard, r *assembly.Record) {
		if r.Kind != sglang.KindSlice || r.Stage != sglang.StageDecodeLoop {
			return
		}
		if last != nil && last.Parent == r.Parent && last.Trace == r.Trace {
			r.Folded = s.table.PinLike(r, last)
		} else {
			r.Folded = s.table.Pin(r, now)
		}
		r.TooLate = !r.Folded
		last = r
	})
}

// cancel takes the pins back: the batch was not taken.
func (p *genaiProcessor) cancel(b *batch, now time.Time) {
	p.eachShard(b, func(s *shard, r *assembly.Record) {
		s.table.Cancel(r)
	})
	p.settle(b, now)
}

// eachShard calls do for each record under the lock of its shard, each taken once.
func (p *genaiProcessor) eachShard(b *batch, do func(*shard, *assembly.Record)) {
	for k := range b.heads {
		if b.heads[k] < 0 {
			continue
		}
		s := &p.shards[k]
		s.mu.Lock()
		before := s.table.Bytes()
		for i := b.heads[k]; i >= 0; i = b.next[i] {
			do(s, &b.records[i])
		}
		p.heldBytes.Add(int64(s.table.Bytes() - before))
		s.mu.Unlock()
	}
}

// counts are what one batch adds to the counters.
type counts struct {
	folded, dropped int64
	late, duplicate [4]int64
}

var kindNames = [4]string{"root", "thread", "slice", "step"}

func kindIndex(r *assembly.Record) int {
	switch {
	case r.Kind == sglang.KindRoot:
		return 0
	case r.Kind == sglang.KindThread:
		return 1
	case r.Stage == sglang.StageDecodeLoop:
		return 3
	}
	return 2
}

// apply records a batch that was taken, and lets complete requests leave.
func (p *genaiProcessor) apply(b *batch, now time.Time) {
	var c counts
	p.eachShard(b, func(s *shard, r *assembly.Record) {
		if r.Kind == sglang.KindForeign || r.Kind == sglang.KindRoom {
			return
		}
		p.applyOne(s, r, now, &c)
	})
	p.settle(b, now)
	p.tel.folded.add(c.folded)
	p.tel.dropped.add(c.dropped)
	for i, kind := range kindNames {
		p.tel.late.add(kind, c.late[i])
		p.tel.duplicates.add(kind, c.duplicate[i])
	}
}

func (p *genaiProcessor) applyOne(s *shard, r *assembly.Record, now time.Time, c *counts) {
	kind := kindIndex(r)
	if kind == 3 && p.decodeLoop == decodeLoopDrop {
		c.dropped++
	}
	if r.TooLate {
		c.late[kind]++
		return
	}
	switch s.table.Apply(r, now) {
	case assembly.Duplicate:
		c.duplicate[kind]++
	case assembly.Late:
		c.late[kind]++
		p.passLate(r)
	case assembly.LateQuiet:
		p.passLate(r)
	case assembly.Taken:
		if r.Folded && p.decodeLoop == decodeLoopFold {
			c.folded++
		}
	}
}

// passLate sends a decode_forward on whose request has left while it was taken
// out, with the steps that waited for it.
func (p *genaiProcessor) passLate(r *assembly.Record) {
	h, ok := r.Payload.(*held)
	if !ok {
		p.tel.lostSteps.add("no_decode_forward", int64(r.LateSum.Count()))
		return
	}
	p.writeSteps(h.span(), r.LateSum, assembly.Unknown)
	p.out.put(h)
}

const maxEngines = 1000

// noteEngine remembers that an engine exists, so that its gauge can show 0.
func (p *genaiProcessor) noteEngine(engine string, at time.Time) {
	now := at.Unix()
	p.enginesMu.RLock()
	last := p.engines[engine]
	p.enginesMu.RUnlock()
	if last != nil {
		last.Store(now)
		return
	}
	p.enginesMu.Lock()
	defer p.enginesMu.Unlock()
	if len(p.engines) < maxEngines {
		last = new(atomic.Int64)
		last.Store(now)
		p.engines[engine] = last
	}
}

// engineLabel keeps the values of the dimension few.
func (p *genaiProcessor) engineLabel(engine string) string {
	p.enginesMu.RLock()
	defer p.enginesMu.RUnlock()
	if _, known := p.engines[engine]; !known {
		return "other"
	}
	return engine
}

// settle lets the requests of a batch's traces leave that are complete, and the
// oldest ones where too much is held.
func (p *genaiProcessor) settle(b *batch, now time.Time) {
	for k, head := range b.heads {
		if head < 0 {
			continue
		}
		p.withTable(k, func(t *assembly.Table) {
			var last assembly.TraceID
			for i := head; i >= 0; i = b.next[i] {
				if r := &b.records[i]; i == head || r.Trace != last {
					t.Settle(r.Trace, now, b.take)
					last = r.Trace
				}
			}
			p.evict(t, now, b.take)
		})
	}
	b.out = p.leave(b.left, now, b.out[:0])
}

// maxEvict bounds how many traces one batch makes leave early.
const maxEvict = 64

func (p *genaiProcessor) evict(t *assembly.Table, now time.Time, take func(assembly.Left)) {
	before := t.Bytes()
	for range maxEvict {
		held := p.heldBytes.Load() + int64(t.Bytes()-before)
		if held <= p.maxBytes && t.Traces() <= p.maxTraces || !t.Evict(assembly.WhyLimit, now, take) {
			return
		}
	}
}

// expire lets leave what has waited long enough.
func (p *genaiProcessor) expire(now time.Time) {
	p.letGo(now, (*assembly.Table).Expire)
	p.expireHalves(now, false)
}

// releaseAll lets everything leave.
func (p *genaiProcessor) releaseAll(now time.Time) {
	p.letGo(now, func(t *assembly.Table, now time.Time, take func(assembly.Left)) {
		for t.Evict(assembly.WhyShutdown, now, take) {
		}
	})
	p.expireHalves(now, true)
}

// letGo completes what a call on each table lets leave.
func (p *genaiProcessor) letGo(now time.Time, do func(*assembly.Table, time.Time, func(assembly.Left))) {
	for i := range p.shards {
		var left []assembly.Left
		p.withTable(i, func(t *assembly.Table) {
			do(t, now, func(l assembly.Left) { left = append(left, l) })
		})
		p.leave(left, now, nil)
	}
}

// withTable calls do under the lock of a shard.
func (p *genaiProcessor) withTable(i int, do func(*assembly.Table)) {
	s := &p.shards[i]
	s.mu.Lock()
	defer s.mu.Unlock()
	before := s.table.Bytes()
	do(s.table)
	p.heldBytes.Add(int64(s.table.Bytes() - before))
}
