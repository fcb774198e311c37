// Copyright The otelcol-sglang Authors
// SPDX-License-Identifier: Apache-2.0

package e2e

import (
	"context"
	"encoding/binary"
	"math/rand/v2"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"go.opentelemetry.io/collector/pdata/pcommon"
	"go.opentelemetry.io/collector/pdata/ptrace"
	"go.opentelemetry.io/collector/pdata/ptrace/ptraceotlp"
	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials/insecure"

	"github.com/otelcol-sglang/otelcol-sglang/internal/sglang"
	"github.com/otelcol-sglang/otelcol-sglang/test/internal/collector"
	"github.com/otelcol-sglang/otelcol-sglang/test/internal/sink"
	"github.com/otelcol-sglang/otelcol-sglang/test/internal/spans"
	"github.com/otelcol-sglang/otelcol-sglang/test/internal/tool"
)

// The waits of config/tail-sampling.yaml at a sixtieth: a request of five minutes
// takes five seconds.
const (
	samplingOverlay = `
processors:
  rankdedup: {wait: 200ms, learn_wait: 300ms}
  genai: {wait: 500ms}
  tail_sampling: {decision_wait: 15s, decision_wait_after_root_received: 1s}
exporters:
  otlp_grpc: {sending_queue: {batch: {flush_timeout: 100ms}}}
`
	fiveMinutes     = 5 * time.Second
	pastAllDecision = 19 * time.Second
)

// sampled is one request; times are milliseconds from its start.
type sampled struct {
	trace        pcommon.TraceID
	parent       pcommon.SpanID
	root, thread pcommon.SpanID
	at           time.Time
	ids          *rand.Rand
	wait, first  float64
	abort        bool
	retract      bool
	skew         float64
}

func newSampled(ids *rand.Rand) *sampled {
	s := &sampled{at: time.Now(), ids: ids, wait: 10, first: 50}
	binary.BigEndian.PutUint64(s.trace[8:], ids.Uint64())
	s.root, s.thread = s.id(), s.id()
	return s
}

func (s *sampled) id() (id pcommon.SpanID) {
	binary.BigEndian.PutUint64(id[:], s.ids.Uint64())
	return id
}

// external puts the request below a caller's span.
func (s *sampled) external() *sampled {
	binary.BigEndian.PutUint64(s.trace[:8], s.ids.Uint64())
	s.parent = s.id()
	return s
}

func (s *sampled) span(to ptrace.SpanSlice, id, parent pcommon.SpanID, name string, from, until float64) ptrace.Span {
	stamp := func(ms float64) pcommon.Timestamp {
		return pcommon.NewTimestampFromTime(s.at.Add(time.Duration(ms * 1e6)))
	}
	span := to.AppendEmpty()
	span.SetTraceID(s.trace)
	span.SetSpanID(id)
	span.SetParentSpanID(parent)
	span.SetName(name)
	span.SetStartTimestamp(stamp(from))
	span.SetEndTimestamp(stamp(until))
	return span
}

func process(td ptrace.Traces, instance string) ptrace.SpanSlice {
	rs := td.ResourceSpans().AppendEmpty()
	rs.Resource().Attributes().PutStr("service.instance.id", instance)
	ss := rs.ScopeSpans().AppendEmpty()
	ss.Scope().SetName(sglang.ScopeName)
	return ss.Spans()
}

// begin are the spans that leave the engine while the request runs.
func (s *sampled) begin() ptrace.Traces {
	td := ptrace.NewTraces()
	front := process(td, "tokenizer")
	tokenizer := s.id()
	dispatch := s.span(front, s.id(), tokenizer, "api_server_dispatch", 1, 2)
	s.span(front, tokenizer, s.root, "Tokenizer", 0, 2).Attributes().PutStr(sglang.AttrThreadLabel, "Tokenizer")
	sched := process(td, "scheduler")
	waiting := s.span(sched, s.id(), s.thread, "prefill_waiting", 3, 3+s.wait)
	link := waiting.Links().AppendEmpty()
	link.SetTraceID(s.trace)
	link.SetSpanID(dispatch.SpanID())
	s.span(sched, s.id(), s.thread, "prefill_forward", 3+s.wait, s.first)
	return td
}

// end are the spans that end with it.
func (s *sampled) end() ptrace.Traces {
	td := ptrace.NewTraces()
	until := s.first + 450
	sched := process(td, "scheduler")
	s.span(sched, s.id(), s.thread, "decode_forward", s.first, until)
	thread := s.span(sched, s.thread, s.root, "Scheduler [TP 0]", 3, until)
	thread.Attributes().PutStr(sglang.AttrThreadLabel, "Scheduler")
	thread.Attributes().PutInt(sglang.AttrTPRank, 0)
	thread.Attributes().PutInt(sglang.AttrPPRank, 0)
	if s.retract {
		event := thread.Events().AppendEmpty()
		event.SetName(sglang.EventRetract)
		event.SetTimestamp(thread.EndTimestamp() - 1e6)
	}
	if s.skew > 0 {
		thread.Attributes().PutInt(sglang.AttrRanksCount, 2)
		thread.Attributes().PutInt(sglang.AttrRanksSlowest, 1)
		thread.Attributes().PutDouble(sglang.AttrRanksSkew, s.skew)
		thread.Attributes().PutDouble(sglang.AttrRanksSkewPrefix+sglang.StageDecodeForward.String(), s.skew)
	}
	root := s.span(process(td, "tokenizer"), s.root, s.parent, " Req 1", 0, until+1)
	a := root.Attributes()
	a.PutStr(sglang.AttrRID, "1")
	a.PutStr(sglang.AttrModule, sglang.ModuleRequest)
	a.PutInt(sglang.AttrPromptTokens, 10)
	a.PutInt(sglang.AttrCompletionTokens, 10)
	reason := `["stop"]`
	if s.abort {
		reason = `["abort"]`
	}
	a.PutStr(sglang.AttrFinishReasons, reason)
	return td
}

type samplingRig struct {
	t    *testing.T
	to   ptraceotlp.GRPCClient
	sink *sink.Sink
}

func (r *samplingRig) send(td ptrace.Traces) {
	r.t.Helper()
	_, err := r.to.Export(context.Background(), ptraceotlp.NewExportRequestFromTraces(td))
	require.NoError(r.t, err)
}

// kept is how many spans of a request came out.
func (r *samplingRig) kept(s *sampled) int {
	n := 0
	for _, td := range r.sink.Traces() {
		for span := range spans.All(td) {
			if span.TraceID() == s.trace {
				n++
			}
		}
	}
	return n
}

const spansEach = 7

// TestTailSampling: config/tail-sampling.yaml keeps what is worth it, whole, and a
// share of the rest, however long a request takes and whoever began its trace.
func TestTailSampling(t *testing.T) {
	t.Parallel()
	backend := sink.Start(t)
	c := collector.Start(t, collector.Options{Config: "tail-sampling.yaml", Overlay: samplingOverlay, Env: backend.Env()})
	conn, err := grpc.NewClient(c.GRPC, grpc.WithTransportCredentials(insecure.NewCredentials()))
	require.NoError(t, err)
	defer conn.Close()
	r := &samplingRig{t: t, to: ptraceotlp.NewGRPCClient(conn), sink: backend}
	ids := rand.New(rand.NewPCG(7, 11))

	plain, foreign := make([]*sampled, 400), make([]*sampled, 100)
	for i := range plain {
		plain[i] = newSampled(ids)
		r.send(plain[i].begin())
		r.send(plain[i].end())
	}
	for i := range foreign {
		foreign[i] = newSampled(ids).external()
		r.send(foreign[i].begin())
		r.send(foreign[i].end())
	}
	wanted := map[string]*sampled{}
	for name, change := range map[string]func(*sampled){
		"slow first token": func(s *sampled) { s.first = 2500 },
		"waits":            func(s *sampled) { s.wait, s.first = 900, 950 },
		"aborted":          func(s *sampled) { s.abort = true },
		"retracted":        func(s *sampled) { s.retract = true },
		"ranks apart":      func(s *sampled) { s.skew = 0.2 },
	} {
		wanted[name], wanted[name+", external"] = newSampled(ids), newSampled(ids).external()
		change(wanted[name])
		change(wanted[name+", external"])
	}
	long, longForeign, late := newSampled(ids), newSampled(ids).external(), newSampled(ids)
	for _, s := range []*sampled{long, longForeign, late} {
		s.first = 250_000
		r.send(s.begin())
	}
	begun := time.Now()
	for _, s := range wanted {
		r.send(s.begin())
		r.send(s.end())
	}
	time.Sleep(time.Until(begun.Add(fiveMinutes)))
	r.send(long.end())
	r.send(longForeign.end())
	time.Sleep(time.Until(begun.Add(pastAllDecision)))
	r.send(late.end())

	for name, s := range wanted {
		assert.True(t, tool.Until(10*time.Second, func() bool { return r.kept(s) == spansEach }), "%s: %d spans", name, r.kept(s))
	}
	assert.True(t, tool.Until(10*time.Second, func() bool { return r.kept(long) == spansEach }), "five minutes: %d spans", r.kept(long))
	assert.True(t, tool.Until(10*time.Second, func() bool { return r.kept(longForeign) == spansEach }), "external: %d spans", r.kept(longForeign))
	assert.True(t, tool.Until(10*time.Second, func() bool { return r.kept(late) > 0 }), "the root of a longer request")
	assert.Less(t, r.kept(late), spansEach, "its first spans waited too long")
	share(t, r, plain, 5, 45)
	share(t, r, foreign, 0, 20)
}

// share: of the rest some are kept, each whole.
func share(t *testing.T, r *samplingRig, all []*sampled, least, most int) {
	t.Helper()
	kept := 0
	for _, s := range all {
		if n := r.kept(s); n > 0 {
			kept++
			assert.Equal(t, spansEach, n)
		}
	}
	t.Logf("%d of %d kept", kept, len(all))
	assert.GreaterOrEqual(t, kept, least)
	assert.LessOrEqual(t, kept, most)
}
