// Copyright The otelcol-sglang Authors
// SPDX-License-Identifier: Apache-2.0

package rankdedupprocessor // import "github.com/otelcol-sglang/otelcol-sglang/processor/rankdedupprocessor"

import (
	"encoding/binary"
	"slices"
	"time"

	"go.opentelemetry.io/collector/pdata/pcommon"
	"go.opentelemetry.io/collector/pdata/ptrace"

	"github.com/otelcol-sglang/otelcol-sglang/internal/sglang"
	"github.com/otelcol-sglang/otelcol-sglang/processor/rankdedupprocessor/internal/fold"
	"github.com/otelcol-sglang/otelcol-sglang/processor/rankdedupprocessor/internal/identity"
)

// batch is the scratch of one Consume call; pooled, so that a span that only
// passes allocates nothing.
type batch struct {
	entries []entry
	homes   []home
	threads []thread
	heads   [shardCount]int32 // 1 + index of the shard's first entry, 0 for none
	tails   [shardCount]int32
	commits []fold.Commit
	parents []uint64
	stats   stats
	changed bool             // what is known of senders changed
	passed  [shardCount]bool // shards that let spans pass
	atOnce  int64
}

// home is where spans of a batch come from.
type home struct {
	resource ptrace.ResourceSpans
	scope    ptrace.ScopeSpans
	origin   fold.Origin
	envelope *envelope // nil until a span is held
}

// thread is what only thread spans have.
type thread struct {
	sglang.Thread
	proc *identity.Proc
}

// entry is one span of the engine; small, since there is one per span.
type entry struct {
	span    ptrace.Span
	data    fold.Span
	home    int32 // index
	thread  int32 // 1 + index, 0 for none
	next    int32 // 1 + index of the shard's next entry
	verdict fold.Verdict
}

// origin is who sent the span. The process of a thread span is its own.
func (b *batch) origin(e *entry) fold.Origin {
	o := b.homes[e.home].origin
	if e.thread != 0 {
		o.Proc = b.threads[e.thread-1].proc
	}
	return o
}

func (b *batch) reset() {
	clear(b.entries)
	b.entries = b.entries[:0]
	clear(b.homes)
	b.homes = b.homes[:0]
	clear(b.threads)
	b.threads = b.threads[:0]
	clear(b.commits)
	b.commits = b.commits[:0]
	b.heads, b.tails = [shardCount]int32{}, [shardCount]int32{}
	b.passed = [shardCount]bool{}
	b.stats, b.changed, b.atOnce = stats{}, false, 0
}

// read finds the engine's spans and who sent them; false if there are none.
func (p *tracesProcessor) read(b *batch, td ptrace.Traces, now time.Time) bool {
	for _, rs := range td.ResourceSpans().All() {
		first, firstHome := len(b.entries), len(b.homes)
		for _, ss := range rs.ScopeSpans().All() {
			if ss.Scope().Name() == sglang.ScopeName {
				b.readScope(rs, ss)
			}
		}
		if len(b.entries) > first {
			origin := p.identify(b, b.entries[first:], rs.Resource(), now)
			for i := range b.homes[firstHome:] {
				b.homes[firstHome+i].origin = origin
			}
		}
	}
	return len(b.entries) > 0
}

func (b *batch) readScope(rs ptrace.ResourceSpans, ss ptrace.ScopeSpans) {
	at := int32(len(b.homes))
	b.homes = append(b.homes, home{resource: rs, scope: ss})
	b.entries = slices.Grow(b.entries, ss.Spans().Len())
	for _, span := range ss.Spans().All() {
		b.entries = append(b.entries, entry{span: span, home: at})
		e := &b.entries[len(b.entries)-1]
		b.readSpan(e)
		shard := e.data.Trace.Lo % shardCount
		at := int32(len(b.entries))
		if b.heads[shard] == 0 {
			b.heads[shard] = at
		} else {
			b.entries[b.tails[shard]-1].next = at
		}
		b.tails[shard] = at
	}
}

func (b *batch) readSpan(e *entry) {
	trace := e.span.TraceID()
	d := &e.data
	d.Trace = fold.TraceID{Hi: binary.BigEndian.Uint64(trace[:8]), Lo: binary.BigEndian.Uint64(trace[8:])}
	d.ID, d.Parent = idOf(e.span.SpanID()), idOf(e.span.ParentSpanID())
	if d.Trace == (fold.TraceID{}) || d.ID == 0 {
		return // not a span that others can refer to
	}
	d.Kind = sglang.KindOf(e.span)
	d.Start, d.End = int64(e.span.StartTimestamp()), int64(e.span.EndTimestamp())
	d.Ordinal = fold.NoOrdinal
	switch d.Kind {
	case sglang.KindRoot:
		module, ok := e.span.Attributes().Get(sglang.AttrModule)
		d.Own = ok && module.Str() == sglang.ModuleMooncake
	case sglang.KindThread:
		b.threads = append(b.threads, thread{Thread: sglang.ThreadOf(e.span.Attributes())})
		e.thread = int32(len(b.threads))
		d.Prior = priorDigest(e.span.Attributes())
	case sglang.KindSlice:
		e.readSlice()
	}
}

func (e *entry) readSlice() {
	d := &e.data
	d.Stage = sglang.StageOf(e.span.Name())
	if d.Stage == sglang.StageUnknown {
		d.Name = e.span.Name()
	}
	if d.Stage == sglang.StageDecodeLoop {
		if v, ok := e.span.Attributes().Get(sglang.AttrDecodeCT); ok && v.Type() == pcommon.ValueTypeInt {
			d.Ordinal = v.Int()
		}
	}
	if links := e.span.Links(); links.Len() > 0 && links.At(0).TraceID() == e.span.TraceID() {
		d.Link = idOf(links.At(0).SpanID())
	}
}

// identify finds the sender of a resource and its process: from what is known,
// from a thread span of the same resource, or from the parents that its spans
// share with earlier resources.
func (p *tracesProcessor) identify(b *batch, entries []entry, res pcommon.Resource, now time.Time) (origin fold.Origin) {
	sender := p.registry.Sender(keyOf(res.Attributes()), now)
	if sender == nil {
		b.stats.refusedSenders++
		return origin
	}
	told := p.learn(b, entries, sender, now)
	origin = fold.Origin{Sender: sender, Proc: sender.Proc()}
	if origin.Proc == nil {
		origin.Proc = told
	}
	if sender.Proc() == nil {
		origin.Strand = p.strand(b, entries, sender, told, now)
		if origin.Proc == nil && origin.Strand != nil {
			origin.Proc = origin.Strand.Proc()
		}
	}
	if origin.Proc != nil {
		p.registry.Alive(origin.Proc, now)
	}
	return origin
}

// learn takes the resource's thread spans and roots; the process of the last
// thread span with ranks is the resource's.
func (p *tracesProcessor) learn(b *batch, entries []entry, sender *identity.Sender, now time.Time) (told *identity.Proc) {
	for i := range entries {
		e := &entries[i]
		switch e.data.Kind {
		case sglang.KindSlice:
			p.registry.Saw(sender, e.data.Stage.Info().Process, now)
		case sglang.KindRoot:
			changed := p.registry.Join(sender, identity.Root{TraceLow: e.data.Trace.Lo, Span: e.data.ID}, now)
			b.changed = b.changed || changed
		case sglang.KindThread:
			root := identity.Root{TraceLow: e.data.Trace.Lo, Span: e.data.Parent}
			th := &b.threads[e.thread-1]
			proc, changed := p.registry.Learn(sender, th.Thread, root, now)
			th.proc = proc
			b.changed = b.changed || changed
			if proc != nil {
				told = proc
			}
		}
	}
	return told
}

// strand finds the run of resources that this one of an unknown or ambiguous
// sender belongs to, nil if it has no slices of a scheduler.
func (p *tracesProcessor) strand(b *batch, entries []entry, sender *identity.Sender, told *identity.Proc, now time.Time) *identity.Strand {
	b.parents = b.parents[:0]
	for i := range entries {
		d := &entries[i].data
		switch {
		case d.Kind == sglang.KindThread && b.threads[entries[i].thread-1].proc != nil:
			b.parents = append(b.parents, d.ID)
		case d.Kind == sglang.KindSlice && d.Stage.Info().Process == sglang.ProcessScheduler:
			b.parents = append(b.parents, d.Parent)
			if d.Stage == sglang.StageDecodeForward || d.Stage == sglang.StagePrefillForward {
				b.parents = append(b.parents, d.ID)
			}
			if d.Link != 0 && !sender.Ambiguous() {
				p.registry.First(sender, d.Stage, d.Link, d.Parent, now)
			}
		}
	}
	if len(b.parents) == 0 {
		return nil
	}
	b.changed = b.changed || told != nil
	return p.registry.Strand(b.parents, told)
}

// take asks the shard for one span; the shard's lock is held.
func (b *batch) take(s *fold.Shard, e *entry, now time.Time) {
	data := e.data
	var th sglang.Thread
	if e.thread != 0 {
		th = b.threads[e.thread-1].Thread
	}
	verdict, item := s.Take(now, &data, b.origin(e), th)
	e.verdict = verdict
	switch verdict {
	case fold.Pass:
		b.atOnce++
		rewrite(e.span, &e.data, &data)
	case fold.Hold:
		held := newHeld(b, e)
		s.Keep(item, held, held.bytes)
	}
}

// strip takes out what does not pass and writes ranks where they are known.
func (b *batch) strip(td ptrace.Traces) {
	at := 0
	td.ResourceSpans().RemoveIf(func(rs ptrace.ResourceSpans) bool {
		var origin fold.Origin
		removed := false
		rs.ScopeSpans().RemoveIf(func(ss ptrace.ScopeSpans) bool {
			if ss.Scope().Name() != sglang.ScopeName {
				return false
			}
			before := ss.Spans().Len()
			ss.Spans().RemoveIf(func(ptrace.Span) bool {
				e := &b.entries[at]
				at++
				if origin.Proc == nil {
					origin = b.origin(e)
				}
				return e.verdict != fold.Pass
			})
			removed = removed || ss.Spans().Len() < before
			return before > 0 && ss.Spans().Len() == 0
		})
		if removed && rs.ScopeSpans().Len() == 0 {
			return true
		}
		writeOrigin(rs.Resource(), origin)
		return false
	})
}

func idOf(id pcommon.SpanID) uint64 { return binary.BigEndian.Uint64(id[:]) }

func spanID(id uint64) (out pcommon.SpanID) {
	binary.BigEndian.PutUint64(out[:], id)
	return out
}

// rewrite puts the ids into the span that differ from what it came with.
func rewrite(span ptrace.Span, from, to *fold.Span) {
	if to.ID != from.ID {
		span.SetSpanID(spanID(to.ID))
	}
	if to.Parent != from.Parent {
		span.SetParentSpanID(spanID(to.Parent))
	}
	if to.Link != from.Link && span.Links().Len() > 0 {
		span.Links().At(0).SetSpanID(spanID(to.Link))
	}
}
