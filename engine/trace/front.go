// Copyright The otelcol-sglang Authors
// SPDX-License-Identifier: Apache-2.0

package trace // import "github.com/otelcol-sglang/otelcol-sglang/engine/trace"

import (
	"context"
	"hash/fnv"
	"strings"
	"time"

	"go.opentelemetry.io/collector/pdata/pcommon"
	"go.opentelemetry.io/otel/propagation"
	"go.opentelemetry.io/otel/trace"

	"github.com/otelcol-sglang/otelcol-sglang/engine/args"
	"github.com/otelcol-sglang/otelcol-sglang/engine/ledger"
	"github.com/otelcol-sglang/otelcol-sglang/internal/sglang"
)

// request is the tracer's state of a request ([ledger.Request.Trace]).
type request struct {
	tree
	parent pcommon.SpanID
	start  int64
	over   bool

	front, controller thread
	// tokenize and dispatch are given beforehand, as other processes link to them
	// before they end. carry is what the next process links to.
	tokenize, dispatch, carry pcommon.SpanID

	places []place
}

// place is a scheduler that had to do with the request, with a lane per rank; tp is
// its first.
type place struct {
	dp, pp, tp int
	lanes      []lane
}

// lane is what one rank traces of one request.
type lane struct {
	thread
	sender *sender
}

func stateOf(r *ledger.Request) *request {
	q, _ := r.Trace.(*request)
	return q
}

// Start implements [ledger.Tracer].
func (t *Tracer) Start(r *ledger.Request, at time.Duration) {
	worker := t.workerOf(r)
	q := &request{}
	q.level = int(t.levels[worker].Load())
	if !t.requests {
		q.level = 0
	}
	r.Trace = q
	if q.level == 0 {
		return
	}
	q.trace = t.traceID()
	if r.TraceParent != "" && !q.join(r.TraceParent) {
		q.level = 0
		return
	}
	p := t.process(FrontEnd(worker))
	q.root, q.tokenize, q.dispatch = t.spanID(), t.spanID(), t.spanID()
	q.carry = q.tokenize
	if sglang.StageAPIServerDispatch.Info().Level <= q.level {
		q.carry = q.dispatch
	}
	q.start = p.float(at)
	q.front.begin(t, p, &q.tree, q.start, flagsLocal, link{})
}

// join makes the caller's span the root's parent; false if the caller does not
// sample. A header that is no W3C traceparent changes nothing.
func (q *request) join(header string) (sampled bool) {
	ctx := propagation.TraceContext{}.Extract(context.Background(), propagation.MapCarrier{"traceparent": header})
	caller := trace.SpanContextFromContext(ctx)
	if !caller.IsValid() {
		return true
	}
	q.trace, q.parent = pcommon.TraceID(caller.TraceID()), pcommon.SpanID(caller.SpanID())
	return caller.IsSampled()
}

func (t *Tracer) workerOf(r *ledger.Request) int {
	if len(t.levels) == 1 {
		return 0
	}
	h := fnv.New32a()
	h.Write([]byte(r.ID))
	return int(h.Sum32() % uint32(len(t.levels)))
}

// FrontEnd implements [ledger.Tracer].
func (t *Tracer) FrontEnd(r *ledger.Request, s sglang.Stage, from, to time.Duration) {
	q := stateOf(r)
	if q == nil || q.front.state != threadOpen {
		return
	}
	p := q.front.p
	out := slice{stage: s, start: p.float(from), end: p.float(to)}
	switch s {
	case sglang.StageTokenize:
		out.id = q.tokenize
	case sglang.StageAPIServerDispatch:
		out.id = q.dispatch
	default:
		out.id = t.spanID()
	}
	ends := s == sglang.StageAPIServerDispatch && q.front.traces(s)
	q.front.add(out)
	if ends {
		q.front.finish(out.end, nil)
	}
}

// Dispatch implements [ledger.Tracer].
func (t *Tracer) Dispatch(r *ledger.Request, from, to time.Duration) {
	q := stateOf(r)
	if q == nil || q.level == 0 {
		return
	}
	p := t.process(dpController)
	h := &q.controller
	h.begin(t, p, &q.tree, p.wall(from)-t.between(100, 300), flagsRemote, link{q.carry, flagsRemote})
	s := slice{id: t.spanID(), stage: sglang.StageDPCDispatch, start: p.float(from), end: p.float(to)}
	if !h.traces(s.stage) {
		// Nothing ends the thread but the end of the object.
		h.finish(p.wall(to)+t.between(20, 200), autoClosed)
		return
	}
	h.add(s)
	h.finish(s.end, nil)
	q.carry = s.id
}

// Forget implements [ledger.Tracer].
func (t *Tracer) Forget(r *ledger.Request) {
	q := stateOf(r)
	if q == nil || q.over {
		return
	}
	q.over = true
	if p := q.front.p; p != nil {
		q.front.finish(p.wall(t.cfg.Loop.Now())+t.between(20, 200), autoClosed)
	}
}

// Finish implements [ledger.Tracer].
func (t *Tracer) Finish(r *ledger.Request, at time.Duration) {
	q := stateOf(r)
	if q == nil || q.over || q.level == 0 {
		return
	}
	q.over = true
	p := q.front.p
	// What has not ended the thread (level 1 has no dispatch) ends it here, by a
	// reading of the clock after the root's.
	q.front.finish(p.wall(at)+t.between(30, 120), nil)
	rid := truncated(r.ID)
	out := span{
		trace: q.trace, id: q.root, parent: q.parent, flags: flagsLocal, name: t.roleName() + " Req " + prefix(rid, 8),
		start: q.start, end: max(q.start, p.float(at)), attrs: t.rootAttributes(r, rid),
	}
	if !q.parent.IsEmpty() {
		out.flags = flagsRemote
	}
	p.roots.put(&out)
}

// roleName begins a root's name; nothing does for unified engines, and the name
// then begins with a blank.
func (t *Tracer) roleName() string {
	if t.cfg.Mode == args.Unified {
		return ""
	}
	return t.cfg.Mode
}

// truncated is what the engine shows of a request id: the part after the last "_",
// since multi-tokenizer workers mark ids so.
func truncated(id string) string { return id[strings.LastIndexByte(id, '_')+1:] }

// prefix is the first n characters of s.
func prefix(s string, n int) string {
	for i := range s {
		if n == 0 {
			return s[:i]
		}
		n--
	}
	return s
}

// between is a random time from low to high µs, in ns.
func (t *Tracer) between(low, high int64) int64 { return 1000*low + t.rng.Int64N(1000*(high-low)) }
