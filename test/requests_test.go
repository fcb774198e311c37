// Copyright The otelcol-sglang Authors
// SPDX-License-Identifier: Apache-2.0

package e2e

import (
	"fmt"
	"math/rand/v2"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"go.opentelemetry.io/collector/pdata/pcommon"
	"go.opentelemetry.io/collector/pdata/ptrace"

	"github.com/otelcol-sglang/otelcol-sglang/internal/sglang"
	"github.com/otelcol-sglang/otelcol-sglang/test/internal/engine"
	"github.com/otelcol-sglang/otelcol-sglang/test/internal/prometheus"
	"github.com/otelcol-sglang/otelcol-sglang/test/internal/sink"
	"github.com/otelcol-sglang/otelcol-sglang/test/internal/spans"
	"github.com/otelcol-sglang/otelcol-sglang/test/internal/tool"
)

// ranked is a request of an engine with several ranks, which take steps of each
// between 4 and 6 ms.
type ranked struct {
	*sampled
	tp, steps int
	dispatch  pcommon.SpanID
	// sum is what the steps of rank 0 take, in milliseconds.
	sum float64
}

func (r *ranked) frontEnd() ptrace.Traces {
	td := ptrace.NewTraces()
	front, tokenizer := process(td, "tokenizer"), r.id()
	r.dispatch = r.id()
	r.span(front, r.dispatch, tokenizer, "api_server_dispatch", 1, 2)
	r.span(front, tokenizer, r.root, "Tokenizer", 0, 2).Attributes().PutStr(sglang.AttrThreadLabel, "Tokenizer")
	return td
}

// rank are the exports of one rank, of 64 spans each as the engine's are.
func (r *ranked) rank(tp int) []ptrace.Traces {
	const batch = 64
	var out []ptrace.Traces
	to := func() ptrace.SpanSlice {
		td := ptrace.NewTraces()
		out = append(out, td)
		return process(td, fmt.Sprint("scheduler-", tp))
	}
	thread, decode := r.id(), r.id()
	spans := to()
	waiting := r.span(spans, r.id(), thread, "prefill_waiting", 3, 10)
	link := waiting.Links().AppendEmpty()
	link.SetTraceID(r.trace)
	link.SetSpanID(r.dispatch)
	r.span(spans, r.id(), thread, "prefill_forward", 10, 50)
	at := 50.0
	for i := range r.steps {
		if spans.Len() == batch {
			spans = to()
		}
		length := 4 + 2*r.ids.Float64()
		step := r.span(spans, r.id(), decode, "decode_loop", at, at+length)
		step.Attributes().PutInt(sglang.AttrDecodeCT, int64(i))
		at += length
	}
	if tp == 0 {
		r.sum = at - 50
	}
	spans = to()
	r.span(spans, decode, thread, "decode_forward", 50, at)
	end := r.span(spans, thread, r.root, fmt.Sprintf("Scheduler [TP %d]  [PP 0] ", tp), 3, at)
	end.Attributes().PutStr(sglang.AttrThreadLabel, "Scheduler")
	end.Attributes().PutInt(sglang.AttrTPRank, int64(tp))
	end.Attributes().PutInt(sglang.AttrPPRank, 0)
	return out
}

func (r *ranked) finish(tokens int) ptrace.Traces {
	td := ptrace.NewTraces()
	a := r.span(process(td, "tokenizer"), r.root, pcommon.SpanID{}, " Req 1", 0, 51+max(r.sum, 1)).Attributes()
	a.PutStr(sglang.AttrRID, "1")
	a.PutStr(sglang.AttrModule, sglang.ModuleRequest)
	a.PutInt(sglang.AttrCompletionTokens, int64(tokens))
	a.PutStr(sglang.AttrFinishReasons, `["length"]`)
	return td
}

// send hands on all exports, those of the ranks in turns.
func (r *ranked) send(rig *samplingRig) {
	rig.send(r.frontEnd())
	ranks := make([][]ptrace.Traces, r.tp)
	for tp := range ranks {
		ranks[tp] = r.rank(tp)
	}
	for i := range ranks[0] {
		for _, exports := range ranks {
			rig.send(exports[i])
		}
	}
	rig.send(r.finish(r.steps + 1))
}

// TestManySteps: of 2 000 decode steps on eight ranks, 16 000 spans, forty or less
// leave, and they say how long the steps took.
func TestManySteps(t *testing.T) {
	t.Parallel()
	backend := sink.Start(t)
	c := agent(t, backend, "")
	rig, ids := sending(t, c, backend), rand.New(rand.NewPCG(8, 2000))
	warm := &ranked{sampled: newSampled(ids), tp: 8, steps: 1} // makes the ranks known
	warm.send(rig)
	long := &ranked{sampled: newSampled(ids), tp: 8, steps: 2000}
	long.send(rig)
	require.True(t, tool.Until(outLimit, func() bool { return rig.spanOf(long.trace.String(), long.root.String()) }))
	c.Settle(outLimit)

	assert.LessOrEqual(t, rig.kept(long.sampled), 40)
	decodes := 0
	for _, td := range backend.Traces() {
		for s := range spans.All(td) {
			if s.TraceID() != long.trace || s.Name() != "decode_forward" {
				continue
			}
			decodes++
			count, _ := s.Attributes().Get(sglang.AttrStepsCount)
			sum, _ := s.Attributes().Get(sglang.AttrStepsSum)
			assert.EqualValues(t, 2000, count.Int())
			assert.InEpsilon(t, long.sum/1e3, sum.Double(), 0.01)
		}
	}
	assert.Equal(t, 1, decodes)
}

// TestAcceptedLessFinished: requests that the engine's server accepted and whose
// roots never came show in the difference that genaimetrics' README tells of.
func TestAcceptedLessFinished(t *testing.T) {
	t.Parallel()
	page := func(n int) string {
		return fmt.Sprintf("# TYPE sglang:http_requests_total counter\n"+
			"sglang:http_requests_total{endpoint=\"/generate\",method=\"POST\"} %d\n"+
			"sglang:http_requests_total{endpoint=\"/health\",method=\"GET\"} 100\n", n)
	}
	e := engine.Start(t, page(0))
	backend := sink.Start(t)
	c := agent(t, backend, "receivers: {sglang: {collection_interval: 500ms, engines: [{endpoint: 'http://"+e.Address+"'}]}}\n"+
		"connectors: {genaimetrics: {interval: 500ms}}\n")
	p := prometheus.Start(t, c.Metrics)
	rig, ids := sending(t, c, backend), rand.New(rand.NewPCG(24, 940))
	const accepted, finished = 100, 94
	for range finished {
		rig.request(newSampled(ids))
	}
	e.Show(page(accepted))
	const query = `sum(sglang:http_requests_total{endpoint=~"/generate|/v1/.*"}) - sum(gen_ai_server_request_duration_count)`
	got, ok := p.Await(pageLimit+30*time.Second, query, func(s []prometheus.Sample) bool {
		return len(s) == 1 && s[0].Value == accepted-finished
	})
	assert.True(t, ok, "%v", got)
}
