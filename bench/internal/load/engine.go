// Copyright The otelcol-sglang Authors
// SPDX-License-Identifier: Apache-2.0

package load // import "github.com/otelcol-sglang/otelcol-sglang/bench/internal/load"

import (
	"fmt"
	"math/rand/v2"
	"time"

	"go.opentelemetry.io/collector/pdata/pcommon"
	"go.opentelemetry.io/collector/pdata/ptrace"

	"github.com/otelcol-sglang/otelcol-sglang/internal/sglang"
)

const (
	host  = "0f0f0f0f0f0f0f0f0f0f0f0f0f0f0f0f"
	model = "meta-llama/Llama-3.1-8B-Instruct"
	// lag is how much later than the rank before a rank ends its spans.
	lag = 20 * time.Microsecond
)

// engine serves requests step by step.
type engine struct {
	shape   Shape
	start   time.Time
	rand    *rand.Rand
	writers []*writer
	slots   []*request
	admit   int
}

// request is one that decodes. Ids are by rank where there is one per rank.
type request struct {
	trace          pcommon.TraceID
	root, dispatch pcommon.SpanID
	began, decodes time.Duration
	tokens, steps  int
	ranks          []copyIDs
}

type copyIDs struct{ thread, prefill, decode pcommon.SpanID }

func (e *engine) serve() {
	e.slots = make([]*request, e.shape.Slots)
	for step := 0; ; step++ {
		began := time.Duration(step) * e.shape.Step
		active := 0
		for i, r := range e.slots {
			if r == nil {
				if r = e.arrive(began); r == nil {
					continue
				}
				e.slots[i] = r
			}
			active++
			if e.step(r, began) {
				e.slots[i] = nil
			}
		}
		if active == 0 {
			return
		}
	}
}

// arrive starts the next request, with the spans up to its first token; nil: none left.
func (e *engine) arrive(t time.Duration) *request {
	if e.admit == e.shape.Requests {
		return nil
	}
	e.admit++
	r := &request{
		root: e.spanID(), dispatch: e.spanID(), began: t,
		tokens: e.shape.MinTokens + e.rand.IntN(e.shape.MaxTokens-e.shape.MinTokens+1),
	}
	id := e.spanID()
	copy(r.trace[8:], id[:]) // the engine's trace ids have 64 bits
	ms := e.shape.Step / 10
	thread, tokenize := e.spanID(), e.spanID()
	e.add(0, r, "tokenize", tokenize, thread, t, t+ms)
	link(e.add(0, r, "api_server_dispatch", r.dispatch, thread, t+ms, t+2*ms), r, tokenize)
	label(e.add(0, r, threadName("Tokenizer", 100), thread, r.root, t, t+2*ms), "Tokenizer", 100)
	r.decodes = t + e.shape.Step
	for rank := range e.shape.TP {
		r.ranks = append(r.ranks, e.prefill(r, rank, t+2*ms, ms))
	}
	return r
}

func (e *engine) prefill(r *request, rank int, t, ms time.Duration) copyIDs {
	ids := copyIDs{thread: e.spanID(), prefill: e.spanID(), decode: e.spanID()}
	process, waiting := e.spanID(), e.spanID()
	late := time.Duration(rank) * lag
	link(e.add(rank+1, r, "request_process", process, ids.thread, t+late, t+ms+late), r, r.dispatch)
	link(e.add(rank+1, r, "prefill_waiting", waiting, ids.thread, t+ms+late, t+2*ms+late), r, process)
	prefill := e.add(rank+1, r, "prefill_forward", ids.prefill, ids.thread, t+2*ms+late, r.decodes+late)
	link(prefill, r, waiting)
	e.schedule(prefill, t+2*ms+late, "prefill")
	return ids
}

// step decodes one token and tells whether it was the last.
func (e *engine) step(r *request, t time.Duration) (last bool) {
	begin, end := t+e.shape.Step, t+2*e.shape.Step
	for rank, ids := range r.ranks {
		late := time.Duration(rank)*lag + time.Duration(e.rand.IntN(int(lag)))
		s := e.add(rank+1, r, "decode_loop", e.spanID(), ids.decode, begin+late, end+late)
		s.Attributes().PutInt(sglang.AttrDecodeCT, int64(r.steps))
		e.schedule(s, begin+late, "decode")
	}
	r.steps++
	if r.steps < r.tokens {
		return false
	}
	for rank, ids := range r.ranks {
		late := time.Duration(rank+1) * lag
		link(e.add(rank+1, r, "decode_forward", ids.decode, ids.thread, r.decodes+late, end+late), r, ids.prefill)
		name := fmt.Sprintf("Scheduler [TP %d]  [PP 0] (host:%.8s | pid:%d)", rank, host, 101+rank)
		s := e.add(rank+1, r, name, ids.thread, r.root, r.began+late, end+late)
		s.Attributes().PutInt(sglang.AttrTPRank, int64(rank))
		s.Attributes().PutInt(sglang.AttrPPRank, 0)
		label(s, "Scheduler", 101+rank)
	}
	e.finish(r, end+time.Millisecond)
	return true
}

// finish ends the root, with the numbers that the engine reports of a streaming request.
func (e *engine) finish(r *request, end time.Duration) {
	rid := fmt.Sprintf("%x%x", r.root, r.dispatch)
	a := e.add(0, r, " Req "+rid[:8], r.root, pcommon.SpanID{}, r.began, end).Attributes()
	a.PutStr(sglang.AttrRID, rid)
	a.PutStr(sglang.AttrModule, sglang.ModuleRequest)
	a.PutInt(sglang.AttrCompletionTokens, int64(r.tokens+1))
	a.PutInt(sglang.AttrPromptTokens, 220)
	a.PutInt(sglang.AttrCachedTokens, 0)
	a.PutStr(sglang.AttrRequestID, rid)
	a.PutInt("gen_ai.request.max_tokens", int64(r.tokens+1))
	a.PutDouble("gen_ai.request.top_p", 0.95)
	a.PutDouble("gen_ai.request.temperature", 0.7)
	a.PutStr(sglang.AttrResponseModel, model)
	a.PutStr(sglang.AttrFinishReasons, `["length"]`)
	ttft := r.decodes - r.began + time.Millisecond/2
	a.PutDouble(sglang.AttrLatencyTTFT, ttft.Seconds())
	a.PutDouble(sglang.AttrLatencyE2E, (end - r.began).Seconds())
	a.PutDouble(sglang.AttrLatencyInDecode, (end - r.began - ttft).Seconds())
	a.PutDouble(sglang.AttrLatencyInInference, (end - r.began - e.shape.Step/2).Seconds())
	a.PutDouble(sglang.AttrLatencyInPrefill, (e.shape.Step / 2).Seconds())
}

func (e *engine) add(process int, r *request, name string, id, parent pcommon.SpanID, begin, end time.Duration) ptrace.Span {
	s := e.writers[process].span(end)
	s.SetTraceID(r.trace)
	s.SetSpanID(id)
	s.SetParentSpanID(parent)
	s.SetName(name)
	s.SetKind(ptrace.SpanKindInternal)
	s.SetFlags(256)
	s.SetStartTimestamp(e.at(begin))
	s.SetEndTimestamp(e.at(end))
	return s
}

// schedule is the event of a batch's start; each rank has its own batch id.
func (e *engine) schedule(s ptrace.Span, t time.Duration, mode string) {
	ev := s.Events().AppendEmpty()
	ev.SetName(sglang.EventSchedule)
	ev.SetTimestamp(e.at(t))
	ev.Attributes().PutStr(sglang.EventAttrBatchID, fmt.Sprintf("%08x", e.rand.Uint32()))
	ev.Attributes().PutInt(sglang.EventAttrBatchSize, int64(e.shape.Slots))
	ev.Attributes().PutStr(sglang.EventAttrForwardMode, mode)
}

func (e *engine) at(t time.Duration) pcommon.Timestamp {
	return pcommon.NewTimestampFromTime(e.start.Add(t))
}

func (e *engine) spanID() pcommon.SpanID {
	var id pcommon.SpanID
	v := e.rand.Uint64() | 1
	for i := range id {
		id[i] = byte(v >> (8 * i))
	}
	return id
}

func link(s ptrace.Span, r *request, to pcommon.SpanID) {
	l := s.Links().AppendEmpty()
	l.SetTraceID(r.trace)
	l.SetSpanID(to)
	l.SetFlags(256)
}

func label(s ptrace.Span, thread string, pid int) {
	s.Attributes().PutStr("host_id", host)
	s.Attributes().PutInt("pid", int64(pid))
	s.Attributes().PutStr(sglang.AttrThreadLabel, thread)
}

func threadName(thread string, pid int) string {
	return fmt.Sprintf("%s(host:%.8s | pid:%d)", thread, host, pid)
}
