// Copyright The otelcol-sglang Authors
// SPDX-License-Identifier: Apache-2.0

package trace

import (
	"cmp"
	"context"
	"encoding/json"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"go.opentelemetry.io/collector/pdata/pcommon"
	"go.opentelemetry.io/collector/pdata/ptrace"

	"github.com/otelcol-sglang/otelcol-sglang/engine/args"
	"github.com/otelcol-sglang/otelcol-sglang/engine/clock"
	"github.com/otelcol-sglang/otelcol-sglang/engine/ledger"
	"github.com/otelcol-sglang/otelcol-sglang/internal/capture"
	"github.com/otelcol-sglang/otelcol-sglang/internal/sglang"
)

const capturesDir = "../../testdata/captures/traces"

// replay tells tracers what happened in a capture: each call of [ledger.Tracer] at
// the time at which the engine that was captured made it. Every rank is a place of
// its own, as it has its own times.
type replay struct {
	t       *testing.T
	loop    *clock.Loop
	epoch   int64
	to      *Recorder
	level   int
	first   pcommon.Map
	tracers map[string]*Tracer
	steps   []step
}

// step is a call; at one time stages that end come before those that begin.
type step struct {
	at   time.Duration
	rank int
	do   func()
}

const (
	ranksEnd = iota
	ranksOpen
	ranksEvent
	ranksThread
	ranksRoot
)

// group is one root with its threads; the root may be missing.
type group struct {
	root    ptrace.Span
	threads []ptrace.Span
	req     *ledger.Request
	tracer  *Tracer
}

type groupKey struct {
	trace pcommon.TraceID
	root  pcommon.SpanID
}

func replayed(t *testing.T, name string, exports []capture.Export) []Export {
	t.Helper()
	var all []ptrace.Span
	first := pcommon.NewMap()
	children := map[pcommon.SpanID][]ptrace.Span{}
	for _, e := range exports {
		for _, rs := range e.Traces.ResourceSpans().All() {
			rs.Resource().Attributes().CopyTo(first)
			for _, ss := range rs.ScopeSpans().All() {
				for _, s := range ss.Spans().All() {
					all = append(all, s)
					children[s.ParentSpanID()] = append(children[s.ParentSpanID()], s)
				}
			}
		}
	}
	start := slices.MinFunc(all, func(a, b ptrace.Span) int { return cmp.Compare(a.StartTimestamp(), b.StartTimestamp()) })
	p := &replay{
		t: t, epoch: int64(start.StartTimestamp()) - int64(time.Second), to: NewRecorder(),
		level: levelOf(name), first: first, tracers: map[string]*Tracer{},
	}
	p.loop = clock.NewVirtual(time.Unix(0, p.epoch))
	for _, g := range groups(all) {
		p.group(g, children)
	}
	slices.SortStableFunc(p.steps, func(a, b step) int { return cmp.Or(cmp.Compare(a.at, b.at), cmp.Compare(a.rank, b.rank)) })
	for _, s := range p.steps {
		p.loop.At(s.at, s.do)
	}
	require.NoError(t, p.loop.Run(context.Background()))
	for _, tr := range p.tracers {
		require.NoError(t, tr.Shutdown(context.Background()))
	}
	return p.to.Exports()
}

func levelOf(name string) int {
	if i := strings.LastIndex(name, "level"); i >= 0 {
		level, _ := strconv.Atoi(name[i+len("level"):])
		return level
	}
	return sglang.DefaultTraceLevel
}

func groups(all []ptrace.Span) map[groupKey]*group {
	by := map[groupKey]*group{}
	of := func(k groupKey) *group {
		if by[k] == nil {
			by[k] = &group{root: ptrace.NewSpan()}
		}
		return by[k]
	}
	for _, s := range all {
		switch sglang.KindOf(s) {
		case sglang.KindRoot:
			of(groupKey{s.TraceID(), s.SpanID()}).root = s
		case sglang.KindThread:
			g := of(groupKey{s.TraceID(), s.ParentSpanID()})
			g.threads = append(g.threads, s)
		}
	}
	return by
}

func (p *replay) when(ts pcommon.Timestamp) time.Duration { return time.Duration(int64(ts) - p.epoch) }

func (p *replay) at(ts pcommon.Timestamp, rank int, do func()) {
	p.steps = append(p.steps, step{p.when(ts), rank, do})
}

func (p *replay) reading(ts pcommon.Timestamp) ledger.Reading { return ledger.Reading{At: p.when(ts)} }

// tracer is that of a PD role.
func (p *replay) tracer(mode string, modules ...string) *Tracer {
	if p.tracers[mode] == nil {
		res := map[string]string{}
		for k, v := range p.first.All() {
			if !strings.HasPrefix(k, "telemetry.") && !strings.HasPrefix(k, "service.") {
				res[k] = v.Str()
			}
		}
		service, _ := p.first.Get(sglang.AttrServiceName)
		tr, err := New(Config{
			Loop: p.loop, Sink: p.to, Mode: mode, Model: "meta-llama/Llama-3.1-8B-Instruct", Level: p.level,
			Modules: modules, ServiceName: service.Str(), Resource: res, ClockOffset: 1, Seed: uint64(len(p.tracers)),
		})
		require.NoError(p.t, err)
		p.tracers[mode] = tr
	}
	return p.tracers[mode]
}

func (p *replay) group(g *group, children map[pcommon.SpanID][]ptrace.Span) {
	attrs := g.root.Attributes()
	g.req = ledger.NewRequest(text(attrs, sglang.AttrRID), ledger.KindGenerate)
	if id := text(attrs, sglang.AttrRequestID); id != "" {
		g.req.ID = id
	}
	g.req.BootstrapRoom, _ = sglang.BootstrapRoom(attrs)
	if text(attrs, sglang.AttrModule) == sglang.ModuleMooncake {
		g.tracer = p.tracer(args.Prefill, sglang.TraceModuleKV)
	} else {
		mode := cmp.Or(sglang.RoleOf(g.root.Name()).String(), args.Unified)
		g.tracer = p.tracer(mode)
	}
	p.root(g)
	for _, h := range g.threads {
		p.thread(g, h, children)
	}
}

// root begins and ends the request; without a root the request is forgotten.
func (p *replay) root(g *group) {
	r, tr := g.req, g.tracer
	start := g.root.StartTimestamp()
	if g.root.SpanID().IsEmpty() {
		start = g.threads[0].StartTimestamp()
		p.at(g.threads[0].EndTimestamp()+1e9, ranksRoot, func() { tr.Forget(r) })
	}
	if !g.root.ParentSpanID().IsEmpty() {
		r.TraceParent = "00-" + g.root.TraceID().String() + "-" + g.root.ParentSpanID().String() + "-01"
	}
	p.steps = append(p.steps, step{at: p.when(start), rank: -1, do: func() { tr.Start(r, p.when(start)) }})
	if g.root.SpanID().IsEmpty() {
		return
	}
	p.at(g.root.EndTimestamp(), ranksRoot, func() {
		p.finished(g)
		tr.Finish(r, p.when(g.root.EndTimestamp()))
	})
}

// finished fills in what the root's attributes tell.
func (p *replay) finished(g *group) {
	r, m := g.req, g.root.Attributes()
	created := p.when(g.root.StartTimestamp())
	reading := func(key string, from time.Duration) time.Duration {
		if v, ok := m.Get(key); ok && from != ledger.Unset {
			return from + time.Duration(v.Double()*1e9+0.5)
		}
		return ledger.Unset
	}
	r.Front.Created = created
	r.Front.FirstToken = reading(sglang.AttrLatencyTTFT, created)
	r.Front.Finished = reading(sglang.AttrLatencyE2E, created)
	if v, ok := m.Get(sglang.AttrLatencyInInference); ok {
		r.Front.DispatchFinish = r.Front.Finished - time.Duration(v.Double()*1e9+0.5)
	}
	r.Finish = ""
	if reasons := text(m, sglang.AttrFinishReasons); reasons != "" {
		var list []string
		require.NoError(p.t, json.Unmarshal([]byte(reasons), &list))
		r.Finish = ledger.FinishReason(list[0])
	}
	r.Prompt = make([]int32, number(m, sglang.AttrPromptTokens))
	r.Output = make([]int32, number(m, sglang.AttrCompletionTokens))
	r.Cached.Device = number(m, sglang.AttrCachedTokens)
	r.MaxTokens = number(m, sglang.AttrMaxTokens)
	for key, to := range map[string]**float64{sglang.AttrTopP: &r.TopP, sglang.AttrTemperature: &r.Temperature} {
		if v, ok := m.Get(key); ok {
			*to = new(float64)
			**to = v.Double()
		}
	}
	if _, ok := m.Get(sglang.AttrCompletionTokens); !ok && r.Finish != "" {
		r.Kind = ledger.KindEmbedding
	}
}

func (p *replay) thread(g *group, h ptrace.Span, children map[pcommon.SpanID][]ptrace.Span) {
	r, tr := g.req, g.tracer
	who := sglang.ThreadOf(h.Attributes())
	below := children[h.SpanID()]
	switch sglang.ProcessOf(who.Label) {
	case sglang.ProcessFrontEnd:
		for _, s := range below {
			p.at(s.EndTimestamp(), ranksEnd, func() {
				tr.FrontEnd(r, sglang.StageOf(s.Name()), p.when(s.StartTimestamp()), p.when(s.EndTimestamp()))
			})
		}
	case sglang.ProcessDPController:
		for _, s := range below {
			p.at(s.StartTimestamp(), ranksEnd, func() { tr.Dispatch(r, p.when(s.StartTimestamp()), p.when(s.EndTimestamp())) })
		}
	case sglang.ProcessEncoder:
		p.aborted(g, h, func() {
			for _, s := range below {
				tr.Slice(r, nil, sglang.StageOf(s.Name()), p.reading(s.StartTimestamp()), p.reading(s.EndTimestamp()), ledger.NoDecodeCT)
			}
		})
	default:
		where := &ledger.Place{DPRank: int(who.Ranks.DP), PPRank: max(0, int(who.Ranks.PP)), TPRanks: []int{int(who.Ranks.TP)}}
		if sglang.ProcessOf(who.Label) == sglang.ProcessTransfer {
			where.DPRank = sglang.NoRank
		}
		for _, s := range below {
			p.stage(g, where, s, children)
		}
		p.events(g, where, h)
		if sglang.ProcessOf(who.Label) == sglang.ProcessScheduler {
			p.end(g, where, h)
		}
	}
}

// end ends a scheduler's thread.
func (p *replay) end(g *group, where *ledger.Place, h ptrace.Span) {
	if text(h.Attributes(), sglang.AttrAbortReason) == sglang.AutoClosedReason {
		p.at(h.EndTimestamp(), ranksThread, func() {
			g.tracer.EndThread(g.req, where, p.reading(h.EndTimestamp()), true)
		})
		return
	}
	end := h.EndTimestamp()
	if !g.root.SpanID().IsEmpty() && text(g.root.Attributes(), sglang.AttrModule) == sglang.ModuleMooncake {
		end = g.root.EndTimestamp()
	}
	p.aborted(g, h, func() { g.tracer.EndThread(g.req, where, p.reading(end), false) })
}

// aborted runs do at a thread's end, with the abort that the thread tells of.
func (p *replay) aborted(g *group, h ptrace.Span, do func()) {
	p.at(h.EndTimestamp(), ranksThread, func() {
		m := h.Attributes()
		if h.Status().Code() == ptrace.StatusCodeError {
			g.req.Finish = ledger.FinishAbort
			g.req.AbortStatus = number(m, sglang.AttrAbortStatusCode)
			g.req.AbortMessage = cmp.Or(text(m, sglang.AttrAbortMessage), text(m, sglang.AttrAbortReason))
			if g.req.AbortStatus != 0 {
				g.req.Sched.Received = p.when(h.StartTimestamp())
			}
		}
		do()
	})
}

func (p *replay) events(g *group, where *ledger.Place, s ptrace.Span) {
	for _, e := range s.Events().All() {
		at := p.reading(e.Timestamp())
		p.at(e.Timestamp(), ranksEvent, func() {
			if e.Name() == sglang.EventRetract {
				g.tracer.Retract(g.req, where, at)
				return
			}
			m := e.Attributes()
			id, err := strconv.ParseUint(text(m, sglang.EventAttrBatchID), 16, 64)
			require.NoError(p.t, err)
			g.tracer.Schedule(g.req, where, &ledger.Batch{
				ID: id, Size: number(m, sglang.EventAttrBatchSize), Mode: text(m, sglang.EventAttrForwardMode),
			}, at)
		})
	}
}

// stage tells of a slice and of those below it: the engine opens the stages that
// others nest in, and tells of others when they are over.
func (p *replay) stage(g *group, where *ledger.Place, s ptrace.Span, children map[pcommon.SpanID][]ptrace.Span) {
	r, tr, stage := g.req, g.tracer, sglang.StageOf(s.Name())
	below := children[s.SpanID()]
	for _, c := range below {
		p.stage(g, where, c, children)
	}
	p.events(g, where, s)
	opens := len(below) > 0 || stage == sglang.StagePrefillForward || stage == sglang.StageDecodeForward
	from, to := p.reading(s.StartTimestamp()), p.reading(s.EndTimestamp())
	if opens {
		p.at(s.StartTimestamp(), ranksOpen, func() { tr.Open(r, where, stage, from) })
		p.at(s.EndTimestamp(), ranksEnd, func() { tr.Close(r, where, stage, to) })
		return
	}
	ct := ledger.NoDecodeCT
	if v, ok := s.Attributes().Get(sglang.AttrDecodeCT); ok {
		ct = int(v.Int())
	}
	p.at(s.EndTimestamp(), ranksEnd, func() { tr.Slice(r, where, stage, from, to, ct) })
}

func text(m pcommon.Map, key string) string {
	v, ok := m.Get(key)
	if !ok {
		return ""
	}
	return v.AsString()
}

func number(m pcommon.Map, key string) int {
	v, ok := m.Get(key)
	if !ok {
		return 0
	}
	return int(v.Int())
}
