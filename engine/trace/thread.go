// Copyright The otelcol-sglang Authors
// SPDX-License-Identifier: Apache-2.0

package trace // import "github.com/otelcol-sglang/otelcol-sglang/engine/trace"

import (
	"slices"

	"go.opentelemetry.io/collector/pdata/pcommon"

	"github.com/otelcol-sglang/otelcol-sglang/internal/sglang"
)

// tree is what the threads of one trace share.
type tree struct {
	trace pcommon.TraceID
	root  pcommon.SpanID
	// level of the request; 0 makes no spans.
	level int
}

// thread is one process at work on one request: its thread span, the stages that
// are open, and what the next stage links to. The zero thread has not begun.
type thread struct {
	p     *proc
	tree  *tree
	id    pcommon.SpanID
	start int64
	flags uint32
	state threadState
	prev  link
	// open are the stages that began and have not ended, the innermost last.
	open  [maxOpen]slice
	depth int
	// events wait for the first slice to end that they fall into.
	events []event
	// prefilled is set once the first prefill is over. again is another one, after a
	// retraction.
	prefilled bool
	again     struct {
		open, chunked bool
		start         int64
	}
}

type threadState uint8

const (
	threadNone threadState = iota
	threadOpen
	threadEnded
)

// maxOpen is more than the engine opens at once: what nests is told when it is over.
const maxOpen = 2

// slice is one stage: open, or with an end.
type slice struct {
	id         pcommon.SpanID
	stage      sglang.Stage
	start, end int64
	link       link
	numberKey  string
	number     int64
}

// begin opens the thread span; prev is what the first stage links to.
func (h *thread) begin(t *Tracer, p *proc, tr *tree, start int64, flags uint32, prev link) {
	*h = thread{p: p, tree: tr, id: t.spanID(), start: start, flags: flags, state: threadOpen, prev: prev}
}

// traces tells whether the stage makes a span now.
func (h *thread) traces(s sglang.Stage) bool {
	return h.state == threadOpen && s.Info().Level <= h.tree.level
}

// add is a stage that is over.
func (h *thread) add(s slice) {
	if !h.traces(s.stage) {
		return
	}
	if h.depth == 0 {
		s.link = h.prev
		h.prev = link{s.id, flagsLocal}
	}
	h.put(&s, true)
}

// push opens a stage that others may nest in.
func (h *thread) push(s slice) {
	if !h.traces(s.stage) || h.depth == maxOpen {
		return
	}
	if h.depth == 0 {
		s.link = h.prev
	}
	h.open[h.depth] = s
	h.depth++
}

// pop ends the innermost stage if it is s.
func (h *thread) pop(s sglang.Stage, end int64) {
	if h.state != threadOpen || h.depth == 0 || h.open[h.depth-1].stage != s {
		return
	}
	h.depth--
	top := h.open[h.depth]
	top.end = end
	if h.depth == 0 {
		h.prev = link{top.id, flagsLocal}
	}
	h.put(&top, true)
}

// isOpen tells whether stage s is open.
func (h *thread) isOpen(s sglang.Stage) bool {
	return slices.ContainsFunc(h.open[:h.depth], func(o slice) bool { return o.stage == s })
}

// put emits a stage under what is open. Only a stage that ends in the ordinary way
// takes events: what abort ends leaves them to the thread span.
func (h *thread) put(s *slice, takes bool) {
	out := span{
		trace: h.tree.trace, id: s.id, parent: h.id, flags: flagsLocal, name: s.stage.String(),
		start: s.start, end: max(s.start, s.end), link: s.link, numberKey: s.numberKey, number: s.number,
	}
	if h.depth > 0 {
		out.parent = h.open[h.depth-1].id
	}
	if takes {
		out.events = h.take(out.start, out.end)
	}
	h.p.slices.put(&out)
}

// take removes the events of [start, end) from those that wait.
func (h *thread) take(start, end int64) (taken []event) {
	left := h.events[:0]
	for _, e := range h.events {
		if e.at >= start && e.at < end {
			taken = append(taken, e)
		} else {
			left = append(left, e)
		}
	}
	h.events = left
	return taken
}

// finish ends all that is open, and the thread, at one time.
func (h *thread) finish(end int64, failure []attr) {
	if h.state != threadOpen {
		return
	}
	for h.depth > 0 {
		h.depth--
		s := h.open[h.depth]
		s.end = end
		h.put(&s, false)
	}
	h.state = threadEnded
	h.p.slices.put(&span{
		trace: h.tree.trace, id: h.id, parent: h.tree.root, flags: h.flags, name: h.p.name,
		start: h.start, end: max(h.start, end), events: h.events,
		thread: h.p, attrs: failure, failed: failure != nil,
	})
	h.events = nil
}
