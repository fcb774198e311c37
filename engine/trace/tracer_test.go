// Copyright The otelcol-sglang Authors
// SPDX-License-Identifier: Apache-2.0

package trace

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"go.opentelemetry.io/collector/pdata/pcommon"
	"go.opentelemetry.io/collector/pdata/ptrace"
	"go.uber.org/goleak"

	"github.com/otelcol-sglang/otelcol-sglang/engine/args"
	"github.com/otelcol-sglang/otelcol-sglang/engine/clock"
	"github.com/otelcol-sglang/otelcol-sglang/engine/internal/spanshape"
	"github.com/otelcol-sglang/otelcol-sglang/engine/ledger"
	"github.com/otelcol-sglang/otelcol-sglang/internal/sglang"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// bench is a tracer on a virtual clock that records.
type bench struct {
	*Tracer
	t    *testing.T
	loop *clock.Loop
	to   *Recorder
}

func newBench(t *testing.T, change ...func(*Config)) *bench {
	t.Helper()
	b := &bench{t: t, loop: clock.NewVirtual(time.Unix(1_700_000_000, 0)), to: NewRecorder()}
	cfg := Config{Loop: b.loop, Sink: b.to, Model: "m", Level: 3, Seed: 1, StepJitter: 200 * time.Microsecond}
	for _, c := range change {
		c(&cfg)
	}
	tr, err := New(cfg)
	require.NoError(t, err)
	b.Tracer = tr
	return b
}

// out ends the run and returns all that was exported.
func (b *bench) out() []ptrace.Traces {
	b.t.Helper()
	require.NoError(b.t, b.loop.Run(context.Background()))
	require.NoError(b.t, b.Shutdown(context.Background()))
	var tds []ptrace.Traces
	for _, e := range b.to.Exports() {
		tds = append(tds, e.Traces)
	}
	return tds
}

func spansOf(tds ...ptrace.Traces) (all []ptrace.Span) {
	for _, td := range tds {
		for _, rs := range td.ResourceSpans().All() {
			for _, ss := range rs.ScopeSpans().All() {
				for _, s := range ss.Spans().All() {
					all = append(all, s)
				}
			}
		}
	}
	return all
}

// names are the spans' names without hosts and pids, sorted.
func names(tds ...ptrace.Traces) (out []string) {
	for _, s := range spansOf(tds...) {
		name, _, _ := strings.Cut(s.Name(), "(host")
		out = append(out, name)
	}
	slices.Sort(out)
	return out
}

func find(t *testing.T, prefix string, tds ...ptrace.Traces) ptrace.Span {
	t.Helper()
	for _, s := range spansOf(tds...) {
		if strings.HasPrefix(s.Name(), prefix) {
			return s
		}
	}
	t.Fatalf("no span %q in %v", prefix, names(tds...))
	return ptrace.Span{}
}

func at(ms float64) time.Duration { return time.Duration(ms * float64(time.Millisecond)) }

func read(ms float64) ledger.Reading { return ledger.Reading{At: at(ms)} }

var alone = &ledger.Place{DPRank: -1, TPRanks: []int{0}}

func newRequest(id string) *ledger.Request {
	return ledger.NewRequest(id, ledger.KindGenerate)
}

// front is a request's way through the front end.
func (b *bench) front(r *ledger.Request, from, to float64) {
	b.Start(r, at(from))
	r.Front.Created, r.Front.DispatchFinish = at(from), at(from+1)
	b.FrontEnd(r, sglang.StageTokenize, at(from), at(from+0.5))
	b.FrontEnd(r, sglang.StageAPIServerDispatch, at(from+0.6), at(from+1))
	r.Front.Finished = at(to)
	b.Finish(r, at(to))
}

func TestRootAttributes(t *testing.T) {
	one, half, zero := 1.0, 0.5, 0.0
	latencies := map[string]any{
		sglang.AttrLatencyTTFT: 0.002, sglang.AttrLatencyE2E: 0.01, sglang.AttrLatencyInDecode: 0.008,
		sglang.AttrLatencyInInference: 0.009, sglang.AttrLatencyInPrefill: 0.001,
	}
	usage := map[string]any{
		sglang.AttrPromptTokens: int64(3), sglang.AttrCachedTokens: int64(2), sglang.AttrCompletionTokens: int64(4),
		sglang.AttrRequestID: "chat_user_42", sglang.AttrResponseModel: "m", sglang.AttrFinishReasons: `["stop"]`,
	}
	always := map[string]any{sglang.AttrRID: "42", sglang.AttrModule: sglang.ModuleRequest}
	without := func(m map[string]any, keys ...string) map[string]any {
		out := map[string]any{}
		for k, v := range m {
			if !slices.Contains(keys, k) {
				out[k] = v
			}
		}
		return out
	}
	for name, tc := range map[string]struct {
		change func(*ledger.Request)
		want   []map[string]any
	}{
		"plain": {func(*ledger.Request) {}, []map[string]any{latencies, usage}},
		"sampling as JSON has it": {func(r *ledger.Request) {
			r.Temperature, r.IntegerTemperature, r.TopP, r.TopK, r.N, r.MaxTokens = &one, true, &half, 7, 2, 9
		}, []map[string]any{latencies, usage, {
			sglang.AttrTemperature: int64(1), sglang.AttrTopP: 0.5, sglang.AttrTopK: int64(7), sglang.AttrN: int64(2),
			sglang.AttrMaxTokens: int64(9),
		}}},
		"1 is no integer by itself": {
			func(r *ledger.Request) { r.Temperature = &one },
			[]map[string]any{latencies, usage, {sglang.AttrTemperature: 1.0}},
		},
		"0 is left out": {func(r *ledger.Request) { r.Temperature, r.TopP = &zero, &zero }, []map[string]any{latencies, usage}},
		"embedding": {
			func(r *ledger.Request) { r.Kind = ledger.KindEmbedding },
			[]map[string]any{latencies, without(usage, sglang.AttrCompletionTokens)},
		},
		"room": {
			func(r *ledger.Request) { r.BootstrapRoom = 0xc343604096dddad },
			[]map[string]any{latencies, usage, {sglang.AttrBootstrapRoom: "0xc343604096dddad"}},
		},
		"aborted while running": {
			func(r *ledger.Request) { r.Finish = ledger.FinishAbort },
			[]map[string]any{latencies, usage, {sglang.AttrFinishReasons: `["abort"]`}},
		},
		"aborted in a queue": {
			func(r *ledger.Request) { r.Finish, r.Front.FirstToken = ledger.FinishAbort, ledger.Unset },
			[]map[string]any{without(latencies, sglang.AttrLatencyTTFT, sglang.AttrLatencyInDecode, sglang.AttrLatencyInPrefill)},
		},
		"never dispatched": {func(r *ledger.Request) {
			r.Finish, r.Front.FirstToken, r.Front.DispatchFinish = ledger.FinishAbort, ledger.Unset, ledger.Unset
		}, []map[string]any{{sglang.AttrLatencyE2E: 0.01}}},
	} {
		t.Run(name, func(t *testing.T) {
			b := newBench(t)
			r := newRequest("chat_user_42")
			r.Prompt, r.Output, r.Cached = make([]int32, 3), make([]int32, 4), ledger.CachedTokens{Device: 1, Host: 1}
			r.Finish, r.N = ledger.FinishStop, 1
			b.Start(r, at(5))
			r.Front.Created, r.Front.DispatchFinish, r.Front.FirstToken, r.Front.Finished = at(5), at(6), at(7), at(15)
			tc.change(r)
			b.Finish(r, at(15))
			root := find(t, " Req 42", b.out()...)
			want := without(always)
			for _, m := range tc.want {
				for k, v := range m {
					want[k] = v
				}
			}
			assert.Equal(t, want, root.Attributes().AsRaw())
			assert.Equal(t, ptrace.StatusCodeUnset, root.Status().Code())
			assert.Zero(t, root.StartTimestamp()%256)
			assert.Zero(t, root.EndTimestamp()%256)
		})
	}
}

func TestLevels(t *testing.T) {
	run := func(level int) []ptrace.Traces {
		b := newBench(t, func(c *Config) { c.Level = level })
		r := newRequest("a")
		story(b.Tracer, r, alone, 0, 1)
		b.Slice(newRequest("never started"), alone, sglang.StageDecodeLoop, read(1), read(2), 0)
		return b.out()
	}
	deep := func(level int) []ptrace.Traces {
		b := newBench(t, func(c *Config) { c.Level = level })
		r := newRequest("a")
		b.Start(r, 0)
		b.Open(r, alone, sglang.StagePrefillForward, read(1))
		b.Slice(r, alone, sglang.StageRunBatchCPU, read(1), read(2), 3)
		b.Close(r, alone, sglang.StagePrefillForward, read(4))
		return b.out()
	}
	threads := []string{" Req a", "Scheduler [TP 0]  [PP 0] ", "Tokenizer"}
	one := append([]string{"decode_forward", "prefill_forward", "prefill_waiting", "tokenize"}, threads...)
	two := append([]string{"api_server_dispatch", "request_process"}, one...)
	three := append([]string{"decode_loop"}, two...)
	for level, want := range [][]string{nil, one, two, three, three} {
		slices.Sort(want)
		out := run(level)
		assert.Equal(t, want, names(out...), "level %d", level)
		events := 0
		for _, s := range spansOf(out...) {
			events += s.Events().Len()
		}
		assert.Equal(t, map[bool]int{true: 2}[level >= 3], events, "level %d", level)
	}
	assert.Equal(t, []string{"prefill_forward"}, names(deep(3)...))
	cpu := find(t, "run_batch_cpu", deep(4)...)
	assert.Equal(t, map[string]any{sglang.AttrPPMBID: int64(3)}, cpu.Attributes().AsRaw())
}

// TestLevelChange: a level holds for requests that begin afterwards, and reaches one
// tokenizer worker.
func TestLevelChange(t *testing.T) {
	b := newBench(t)
	early, late := newRequest("early"), newRequest("late")
	b.Start(early, 0)
	require.NoError(t, b.SetLevel(1))
	require.Error(t, b.SetLevel(-1))
	assert.Equal(t, 1, b.Level())
	b.Start(late, at(1))
	for _, r := range []*ledger.Request{early, late} {
		b.FrontEnd(r, sglang.StageTokenize, at(1), at(2))
		b.FrontEnd(r, sglang.StageAPIServerDispatch, at(2), at(3))
		b.Finish(r, at(4))
	}
	assert.Equal(t, []string{" Req early", " Req late", "Tokenizer", "Tokenizer", "api_server_dispatch", "tokenize", "tokenize"},
		names(b.out()...))

	b = newBench(t, func(c *Config) { c.Workers = 4 })
	require.NoError(t, b.SetLevel(0))
	for i := range 64 {
		b.front(newRequest(fmt.Sprintf("r%d", i)), 0, 5)
	}
	roots := 0
	pids := map[int64]bool{}
	for _, s := range spansOf(b.out()...) {
		switch sglang.KindOf(s) {
		case sglang.KindRoot:
			roots++
		case sglang.KindThread:
			pid, _ := s.Attributes().Get(sglang.AttrPID)
			pids[pid.Int()] = true
			assert.Equal(t, fmt.Sprintf("MultiTokenizer-%d", pid.Int()), sglang.ThreadOf(s.Attributes()).Label)
		}
	}
	assert.Greater(t, roots, 30)
	assert.Less(t, roots, 64)
	assert.Len(t, pids, 3)
}

func TestTraceParent(t *testing.T) {
	const trace, parent = "4bf92f3577b34da6a3ce929d0e0e4736", "00f067aa0ba902b7"
	for name, tc := range map[string]struct {
		header  string
		joins   bool
		nothing bool
	}{
		"none":           {header: ""},
		"valid":          {header: "00-" + trace + "-" + parent + "-01", joins: true},
		"not sampled":    {header: "00-" + trace + "-" + parent + "-00", nothing: true},
		"cut":            {header: "00-" + trace + "-" + parent[:8] + "-01"},
		"zero trace":     {header: "00-" + strings.Repeat("0", 32) + "-" + parent + "-01"},
		"no traceparent": {header: "garbage"},
	} {
		t.Run(name, func(t *testing.T) {
			b := newBench(t)
			r := newRequest("a")
			r.TraceParent = tc.header
			story(b.Tracer, r, alone, 0, 2)
			out := b.out()
			if tc.nothing {
				assert.Empty(t, out)
				return
			}
			root := find(t, " Req", out...)
			for _, s := range spansOf(out...) {
				assert.Equal(t, root.TraceID(), s.TraceID())
			}
			if tc.joins {
				assert.Equal(t, trace, root.TraceID().String())
				assert.Equal(t, parent, root.ParentSpanID().String())
				assert.EqualValues(t, 768, root.Flags())
				return
			}
			assert.True(t, strings.HasPrefix(root.TraceID().String(), strings.Repeat("0", 16)))
			assert.True(t, root.ParentSpanID().IsEmpty())
			assert.EqualValues(t, 256, root.Flags())
		})
	}
}

func TestLabels(t *testing.T) {
	for name, tc := range map[string]struct {
		mode      string
		engineAPI bool
		root      string
		want      []string
	}{
		"unified":           {args.Unified, false, " Req a", []string{"DP Controller", "Scheduler [TP 2]  [PP 0]  [DP 1] ", "Tokenizer"}},
		"prefill":           {args.Prefill, false, "prefill Req a", []string{"Prefill DP Controller", "Prefill Scheduler [TP 2]  [PP 0]  [DP 1] ", "PrefillTokenizer"}},
		"decode":            {args.Decode, false, "decode Req a", []string{"Decode DP Controller", "Decode Scheduler [TP 2]  [PP 0]  [DP 1] ", "DecodeTokenizer"}},
		"decode engine API": {args.Decode, true, "decode Req a", []string{"Decode DP Controller", "Decode Scheduler [TP 2]  [PP 0]  [DP 1] ", "Decode Tokenizer"}},
	} {
		t.Run(name, func(t *testing.T) {
			b := newBench(t, func(c *Config) { c.Mode, c.EngineAPI = tc.mode, tc.engineAPI })
			r := newRequest("a")
			b.Start(r, 0)
			b.Dispatch(r, at(1), at(2))
			p := &ledger.Place{DPRank: 1, TPRanks: []int{2}}
			b.Slice(r, p, sglang.StageDecodeWaiting, read(3), read(4), ledger.NoDecodeCT)
			b.EndThread(r, p, read(5), false)
			b.Finish(r, at(6))
			out := b.out()
			var threads []string
			for _, n := range names(out...) {
				if strings.Contains(n, "okenizer") || strings.Contains(n, "Scheduler") || strings.Contains(n, "Controller") {
					threads = append(threads, n)
				}
			}
			assert.Equal(t, tc.want, threads)
			find(t, tc.root, out...)
		})
	}
}

// TestControllerAtLevelOne: nothing ends the DP controller's thread but the
// collection of the object, and schedulers link past it.
func TestControllerAtLevelOne(t *testing.T) {
	b := newBench(t, func(c *Config) { c.Level = 1 })
	r := newRequest("a")
	b.Start(r, 0)
	b.FrontEnd(r, sglang.StageTokenize, 0, at(1))
	b.Dispatch(r, at(1), at(2))
	b.Slice(r, alone, sglang.StagePrefillWaiting, read(3), read(4), ledger.NoDecodeCT)
	out := b.out()
	dpc := find(t, "DP Controller", out...)
	assert.Equal(t, ptrace.StatusCodeError, dpc.Status().Code())
	assert.Equal(t, sglang.AutoClosedReason, text(dpc.Attributes(), sglang.AttrAbortReason))
	wait := find(t, "prefill_waiting", out...)
	require.Equal(t, 1, wait.Links().Len())
	assert.Equal(t, find(t, "tokenize", out...).SpanID(), wait.Links().At(0).SpanID())
	assert.EqualValues(t, 768, wait.Links().At(0).Flags())
}

// TestReprefill: after a retraction the prompt's spans are inside decode_forward,
// and the last chunk stands for the prefill.
func TestReprefill(t *testing.T) {
	for name, tc := range map[string]struct {
		chunks int
		want   []string
	}{
		"whole":   {0, []string{"decode_loop", "prefill_forward"}},
		"chunked": {2, []string{"chunked_prefill", "chunked_prefill", "decode_loop"}},
	} {
		t.Run(name, func(t *testing.T) {
			b := newBench(t)
			r := newRequest("a")
			b.Start(r, 0)
			b.Open(r, alone, sglang.StagePrefillForward, read(1))
			b.Close(r, alone, sglang.StagePrefillForward, read(2))
			b.Open(r, alone, sglang.StageDecodeForward, read(2))
			b.Slice(r, alone, sglang.StageDecodeLoop, read(2), read(3), 0)
			b.Retract(r, alone, read(3))
			b.Open(r, alone, sglang.StagePrefillForward, read(5))
			for i := range tc.chunks {
				b.Slice(r, alone, sglang.StageChunkedPrefill, read(5+float64(i)), read(6+float64(i)), ledger.NoDecodeCT)
			}
			b.Close(r, alone, sglang.StagePrefillForward, read(7))
			b.Open(r, alone, sglang.StageDecodeForward, read(7))
			b.Close(r, alone, sglang.StageDecodeForward, read(8))
			b.EndThread(r, alone, read(8), false)
			b.Slice(r, alone, sglang.StageDecodeLoop, read(8), read(9), 1)
			out := b.out()
			decode, thread := find(t, "decode_forward", out...), find(t, "Scheduler", out...)
			var inside []string
			for _, s := range spansOf(out...) {
				if s.ParentSpanID() == decode.SpanID() {
					inside = append(inside, s.Name())
					assert.Zero(t, s.Links().Len())
				}
			}
			slices.Sort(inside)
			assert.Equal(t, tc.want, inside)
			assert.Equal(t, decode.EndTimestamp(), thread.EndTimestamp())
			require.Equal(t, 1, thread.Events().Len())
			assert.Equal(t, sglang.EventRetract, thread.Events().At(0).Name())
		})
	}
}

// TestReprefillBeforeDecode: who loses its KV while it waits for its first decode has
// both prefills side by side.
func TestReprefillBeforeDecode(t *testing.T) {
	b := newBench(t)
	r := newRequest("a")
	b.Start(r, 0)
	for i := range 2 {
		from := float64(10 * i)
		b.Open(r, alone, sglang.StagePrefillForward, read(from+1))
		b.Slice(r, alone, sglang.StageChunkedPrefill, read(from+1), read(from+2), ledger.NoDecodeCT)
		if i == 0 {
			b.Close(r, alone, sglang.StagePrefillForward, read(from+2))
			b.Retract(r, alone, read(5))
			continue
		}
		b.EndThread(r, alone, read(from+3), false)
	}
	out := b.out()
	thread := find(t, "Scheduler", out...)
	forward := find(t, "prefill_forward", out...)
	links := map[pcommon.SpanID]int{}
	for _, s := range spansOf(out...) {
		if s.Name() == "chunked_prefill" {
			links[s.ParentSpanID()] += s.Links().Len()
		}
	}
	assert.Equal(t, map[pcommon.SpanID]int{forward.SpanID(): 0, thread.SpanID(): 1}, links)
}

// TestThreadEnds: how a scheduler's thread says why it ended.
func TestThreadEnds(t *testing.T) {
	refused := func(r *ledger.Request) {
		r.Finish, r.AbortMessage, r.AbortStatus = ledger.FinishAbort, "full", 503
	}
	for name, tc := range map[string]struct {
		change func(*ledger.Request)
		auto   bool
		want   map[string]any
	}{
		"well":               {change: func(r *ledger.Request) { r.Finish = ledger.FinishStop }},
		"aborted, running":   {change: func(r *ledger.Request) { refused(r); r.Sched.FirstForward = at(1) }},
		"bootstrap failed":   {change: func(r *ledger.Request) { refused(r); r.Sched.BootstrapStart = at(1) }},
		"refused":            {change: refused, want: map[string]any{"type": "abort", "status_code": int64(503), "message": "full"}},
		"refused, no status": {change: func(r *ledger.Request) { refused(r); r.AbortStatus = 0 }, want: map[string]any{"reason": "full"}},
		"given up":           {change: func(r *ledger.Request) { r.Finish = ledger.FinishAbort }, auto: true, want: map[string]any{"reason": sglang.AutoClosedReason}},
	} {
		t.Run(name, func(t *testing.T) {
			b := newBench(t)
			r := newRequest("a")
			b.Start(r, 0)
			r.Sched.Received = at(2)
			tc.change(r)
			b.EndThread(r, alone, read(5), tc.auto)
			h := find(t, "Scheduler", b.out()...)
			got := h.Attributes().AsRaw()
			for _, k := range []string{"host_id", "pid", "thread_label", "tp_rank", "pp_rank"} {
				assert.Contains(t, got, k)
				delete(got, k)
			}
			if tc.want == nil {
				assert.Empty(t, got)
				assert.Equal(t, ptrace.StatusCodeUnset, h.Status().Code())
				return
			}
			assert.Equal(t, tc.want, got)
			assert.Equal(t, ptrace.StatusCodeError, h.Status().Code())
			assert.Empty(t, h.Status().Message())
		})
	}
}

// TestForgotten: a probe that was given up leaves the front end's thread without a
// root, whole or as it was.
func TestForgotten(t *testing.T) {
	b := newBench(t)
	r, cut := newRequest("HEALTH_CHECK_1"), newRequest("HEALTH_CHECK_2")
	b.Start(r, 0)
	b.FrontEnd(r, sglang.StageTokenize, 0, at(1))
	b.FrontEnd(r, sglang.StageAPIServerDispatch, at(1), at(2))
	b.Forget(r)
	b.Finish(r, at(3))
	b.Start(cut, at(3))
	b.Forget(cut)
	out := b.out()
	assert.Equal(t, []string{"Tokenizer", "Tokenizer", "api_server_dispatch", "tokenize"}, names(out...))
	failed := 0
	for _, s := range spansOf(out...) {
		if s.Status().Code() == ptrace.StatusCodeError {
			failed++
		}
	}
	assert.Equal(t, 1, failed)
}

// TestExporters: every process has its own resource, roots and threads with
// SGLANG_TRACE_ASYNC too, and one id for all where that is set.
func TestExporters(t *testing.T) {
	group := &ledger.Place{DPRank: 1, TPRanks: []int{2, 3}}
	run := func(change func(*Config)) (exports []Export, ids map[string]bool, shape []string) {
		b := newBench(t, change)
		r := newRequest("a")
		story(b.Tracer, r, group, 0, 3)
		tds := b.out()
		ids = map[string]bool{}
		for _, td := range tds {
			ids[text(td.ResourceSpans().At(0).Resource().Attributes(), sglang.AttrServiceInstanceID)] = true
		}
		for _, tree := range spanshape.Trees(tds...) {
			shape = append(shape, tree.String())
		}
		return b.to.Exports(), ids, shape
	}
	exports, ids, plain := run(func(c *Config) { c.Resource = map[string]string{"k8s.pod.name": "p"} })
	assert.Len(t, ids, 3)
	assert.Equal(t, map[string]any{
		"telemetry.sdk.language": "python", "telemetry.sdk.name": "opentelemetry", "telemetry.sdk.version": "1.45.2",
		"service.name": "sglang", "k8s.pod.name": "p",
	}, withoutInstance(exports[0].Traces.ResourceSpans().At(0).Resource().Attributes()))

	exports, ids, async := run(func(c *Config) { c.Async = true })
	assert.Len(t, ids, 4)
	assert.Equal(t, plain, async)
	for _, e := range exports {
		for _, s := range spansOf(e.Traces) {
			assert.Equal(t, sglang.KindOf(s) != sglang.KindRoot, e.From.Daemon, s.Name())
		}
	}

	_, ids, _ = run(func(c *Config) { c.InstanceID = "me" })
	assert.Equal(t, map[string]bool{"me": true}, ids)
}

func withoutInstance(m pcommon.Map) map[string]any {
	raw := m.AsRaw()
	delete(raw, sglang.AttrServiceInstanceID)
	return raw
}

// TestBatchIDs: requests of one batch have one id on a rank, and another on each.
func TestBatchIDs(t *testing.T) {
	b := newBench(t)
	p := &ledger.Place{DPRank: -1, TPRanks: []int{0, 1}}
	for _, id := range []string{"a", "b"} {
		r := newRequest(id)
		b.Start(r, 0)
		b.Schedule(r, p, &ledger.Batch{ID: 9, Size: 2, Mode: sglang.ForwardPrefill}, read(2))
		b.Slice(r, p, sglang.StageChunkedPrefill, read(1), read(3), ledger.NoDecodeCT)
	}
	ids := map[string]int{}
	for _, s := range spansOf(b.out()...) {
		for _, e := range s.Events().All() {
			bid := text(e.Attributes(), sglang.EventAttrBatchID)
			assert.Regexp(t, "^[0-9a-f]{8}$", bid)
			ids[bid]++
		}
	}
	require.Len(t, ids, 2)
	for _, n := range ids {
		assert.Equal(t, 2, n)
	}
}

// TestSameSeed: one seed, one run; another seed or engine, other ids.
func TestSameSeed(t *testing.T) {
	run := func(seed uint64, name string) (ids []string) {
		b := newBench(t, func(c *Config) { c.Seed, c.Name = seed, name })
		story(b.Tracer, newRequest("a"), alone, 0, 5)
		for _, s := range spansOf(b.out()...) {
			ids = append(ids, s.TraceID().String(), s.SpanID().String(), fmt.Sprint(s.SpanID(), s.EndTimestamp()))
		}
		return ids
	}
	first := run(1, "")
	assert.Equal(t, first, run(1, ""))
	for _, other := range [][]string{run(2, ""), run(1, "another engine")} {
		for _, id := range first {
			assert.NotContains(t, other, id)
		}
	}
}

func TestConfig(t *testing.T) {
	_, err := New(Config{Mode: "x", Level: -1, Workers: -1, BatchSpans: 3, QueueSpans: 2, StepJitter: -1, BatchDelay: -1})
	for _, part := range []string{
		"loop must be set", "sink must be set", "level must not be negative (got -1)", `(got "x")`,
		"workers must be positive (got -1)", "batch must be of 1 to 2 spans", "step jitter must be from 0", "batch delay must be positive",
	} {
		require.ErrorContains(t, err, part)
	}
	a := args.Default()
	loop := clock.NewVirtual(time.Unix(0, 0))
	tr, err := New(FromArgs(&a, loop, NewRecorder()))
	require.NoError(t, err)
	assert.Equal(t, sglang.DefaultTraceLevel, tr.Level())
}
