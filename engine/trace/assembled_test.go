// Copyright The otelcol-sglang Authors
// SPDX-License-Identifier: Apache-2.0

package trace_test

import (
	"context"
	"fmt"
	"hash/crc32"
	"maps"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"go.opentelemetry.io/collector/pdata/ptrace"

	"github.com/otelcol-sglang/otelcol-sglang/engine"
	"github.com/otelcol-sglang/otelcol-sglang/engine/args"
	"github.com/otelcol-sglang/otelcol-sglang/engine/clock"
	"github.com/otelcol-sglang/otelcol-sglang/engine/disagg"
	"github.com/otelcol-sglang/otelcol-sglang/engine/front"
	"github.com/otelcol-sglang/otelcol-sglang/engine/internal/spanshape"
	"github.com/otelcol-sglang/otelcol-sglang/engine/ledger"
	"github.com/otelcol-sglang/otelcol-sglang/engine/trace"
	"github.com/otelcol-sglang/otelcol-sglang/internal/capture"
	"github.com/otelcol-sglang/otelcol-sglang/internal/sglang"
)

const captures = "../../testdata/captures/traces"

// whole is an engine on a virtual clock that records its spans.
type whole struct {
	*engine.Engine
	t *testing.T
}

func assemble(t *testing.T, loop *clock.Loop, to *trace.Recorder, link disagg.Link, change func(*args.Args)) *whole {
	t.Helper()
	a := args.Default()
	a.EnableTrace = true
	change(&a)
	e, err := engine.New(context.Background(), a, engine.Options{Loop: loop, Spans: to, Link: link})
	require.NoError(t, err)
	return &whole{Engine: e, t: t}
}

// ask makes a request as the captures' client does.
func ask(id string, prompt, output int, change ...func(*ledger.Request)) *ledger.Request {
	r := ledger.NewRequest(id, ledger.KindGenerate)
	temperature, topP := 0.7, 0.95
	r.Temperature, r.TopP, r.Stream = &temperature, &topP, true
	r.OutputLen, r.MaxTokens = output, output
	first := crc32.ChecksumIEEE([]byte(id)) % (1 << 28)
	for i := range prompt {
		r.Prompt = append(r.Prompt, int32(first)+int32(i))
	}
	for _, c := range change {
		c(r)
	}
	return r
}

// at submits a request, and may hang up after a while.
func (w *whole) at(ms int, r *ledger.Request, hangUp ...time.Duration) {
	w.Loop.At(time.Duration(ms)*time.Millisecond, func() {
		cancel, err := w.Front.Submit(r, func(front.Output) {})
		require.NoError(w.t, err)
		for _, after := range hangUp {
			w.Loop.After(after, cancel)
		}
	})
}

// scenario is a capture, and what makes an engine do the same.
type scenario struct {
	name string
	args func(*args.Args)
	work func(*whole)
	// lacks and adds are kinds that the engine does not make, or makes in addition:
	// parts of their lines, with the reason.
	lacks, adds map[string]string
}

func some(w *whole) {
	w.at(0, ask("a", 300, 12))
	w.at(40, ask("b", 900, 14))
	w.at(90, ask("c", 64, 16))
}

func tp(n int) func(*args.Args) { return func(a *args.Args) { a.TPSize = n } }

func level(n, tp int) func(*args.Args) {
	return func(a *args.Args) { a.TraceLevel, a.TPSize = n, tp }
}

// noOverlap: SGLang turns the overlap schedule off where there are pipeline stages;
// the loop that was captured left it on.
const noOverlap = "pipeline stages run without overlap"

var scenarios = []scenario{
	{name: "unified-tp1-level1", args: level(1, 1), work: some},
	{name: "unified-tp1-level2", args: level(2, 1), work: some},
	{name: "unified-tp1-level3", args: level(3, 1), work: some},
	{name: "unified-tp4-level1", args: level(1, 4), work: some},
	{name: "unified-tp4-level2", args: level(2, 4), work: some},
	{name: "unified-tp4-level3", args: level(3, 4), work: some},
	{name: "unified-tp2-no-overlap", args: func(a *args.Args) { a.TPSize, a.DisableOverlapSchedule = 2, true }, work: some},
	{
		name: "unified-tp2-pp2", args: func(a *args.Args) { a.TPSize, a.PPSize = 2, 2 }, work: some,
		lacks: map[string]string{
			"decode_forward\" flags=256 internal unset {} link(prefill_forward": noOverlap,
			"prefill_forward event schedule":                                    noOverlap,
		},
		adds: map[string]string{"decode_waiting": noOverlap},
	},
	{name: "external-traceparent-tp2", args: tp(2), work: func(w *whole) {
		w.at(0, ask("ext", 220, 6, func(r *ledger.Request) {
			r.TraceParent = "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01"
		}))
		some(w)
	}},
	{name: "dp-attention-tp4-dp2", args: func(a *args.Args) { a.TPSize, a.DPSize, a.EnableDPAttention = 4, 2, true }, work: some},
	{name: "dp2-tp2", args: func(a *args.Args) { a.TPSize, a.DPSize = 2, 2 }, work: some},
	{name: "spec-eagle-tp1", args: func(a *args.Args) { a.SpeculativeAlgorithm = "EAGLE" }, work: some},
	{name: "spec-ngram-tp2", args: func(a *args.Args) { a.TPSize, a.SpeculativeAlgorithm = 2, "NGRAM" }, work: some},
	{name: "nonstream-tp2-metrics-off", args: tp(2), work: func(w *whole) {
		w.at(0, ask("a", 300, 30, func(r *ledger.Request) { r.Stream = false }))
	}},
	{name: "chunked-prefill-tp2", args: func(a *args.Args) { a.TPSize, a.ChunkedPrefillSize = 2, 1024 }, work: func(w *whole) {
		w.at(0, ask("long", 4000, 6))
		w.at(2, ask("short", 300, 8))
		w.at(4, ask("longer", 2500, 4))
		some(w)
	}},
	{name: "single-token-and-health", args: tp(2), work: func(w *whole) {
		w.at(0, ask("a", 300, 1))
		w.at(100, ask("b", 500, 20))
		w.Loop.At(150*time.Millisecond, func() { w.Front.Health(func(bool) {}) })
	}},
	{name: "nonstream-tp2-metrics-on", args: func(a *args.Args) { a.TPSize, a.EnableMetrics = 2, true }, work: func(w *whole) {
		for i := range 6 {
			w.at(3*i, ask(fmt.Sprint(i), 3000, 30, func(r *ledger.Request) { r.Stream = false }))
		}
	}},
	{name: "retraction-tp2", args: func(a *args.Args) {
		a.TPSize, a.MaxTotalTokens, a.ScheduleConservativeness = 2, 730, 0.1
	}, work: func(w *whole) {
		w.at(0, ask("a", 400, 40))
		w.at(20, ask("b", 300, 20))
	}},
	{name: "abort-tp2", args: func(a *args.Args) { a.TPSize, a.AbortOnPriorityWhenDisabled, a.MaxRunningRequests = 2, true, 2 }, work: func(w *whole) {
		priority := 1
		w.at(0, ask("running", 300, 400), 200*time.Millisecond)
		w.at(10, ask("other", 200, 24))
		w.at(24, ask("queued", 200, 24), 60*time.Millisecond)
		w.at(32, ask("refused", 100, 24, func(r *ledger.Request) { r.Priority = &priority }))
	}},
	{name: "embeddings-tp1", args: tp(1), work: func(w *whole) {
		w.at(0, ask("a", 120, 0, func(r *ledger.Request) {
			r.Kind, r.Stream, r.Temperature, r.TopP = ledger.KindEmbedding, false, nil, nil
		}))
	}},
}

func TestAssembled(t *testing.T) {
	for i := range scenarios {
		sc := &scenarios[i]
		t.Run(sc.name, func(t *testing.T) {
			t.Parallel()
			loop, to := clock.NewVirtual(time.Unix(1_800_000_000, 0)), trace.NewRecorder()
			w := assemble(t, loop, to, nil, sc.args)
			sc.work(w)
			loop.RunUntil(time.Minute)
			require.NoError(t, w.Check())
			require.NoError(t, w.Shutdown(context.Background()))
			compare(t, sc, captured(t, sc.name), to)
			assert.Len(t, senders(to), peers(t, sc.name), "processes")
		})
	}
}

const (
	pair      = "pd-prefill-tp2-decode-tp2"
	transfers = "pd-mooncake-module"
)

// pairOf is what a prefill and a decode engine do with three requests.
func pairOf(t *testing.T, change func(*args.Args)) *trace.Recorder {
	t.Helper()
	loop, to := clock.NewVirtual(time.Unix(1_800_000_000, 0)), trace.NewRecorder()
	toDecode, toPrefill := disagg.Pair(loop, 200*time.Microsecond)
	role := func(mode string) func(*args.Args) {
		return func(a *args.Args) {
			a.DisaggregationMode = mode
			change(a)
		}
	}
	prefill := assemble(t, loop, to, toDecode, role(args.Prefill))
	decode := assemble(t, loop, to, toPrefill, role(args.Decode))
	for i, output := range []int{14, 8, 1} {
		half := func(w *whole, id string) {
			w.at(60*i, ask(id, 600, output, func(r *ledger.Request) {
				r.BootstrapRoom = uint64(i) + 0x4cd936901eb56bf
				if i == 0 {
					r.TraceParent = "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01"
				}
			}))
		}
		half(prefill, fmt.Sprintf("p%d", i))
		half(decode, fmt.Sprintf("d%d", i))
	}
	loop.RunUntil(time.Minute)
	for _, w := range []*whole{prefill, decode} {
		require.NoError(t, w.Check())
		require.NoError(t, w.Shutdown(context.Background()))
	}
	return to
}

// TestAssembledTransfers is the capture of Mooncake's module: prompts in two chunks.
func TestAssembledTransfers(t *testing.T) {
	to := pairOf(t, func(a *args.Args) {
		a.ChunkedPrefillSize, a.TraceModules = 512, []string{sglang.TraceModuleKV}
	})
	assert.Len(t, senders(to), peers(t, transfers), "processes")
	compare(t, &scenario{}, captured(t, transfers), to)
	sends := map[string]int{}
	for _, e := range to.Exports() {
		for _, rs := range e.Traces.ResourceSpans().All() {
			for _, ss := range rs.ScopeSpans().All() {
				for _, s := range ss.Spans().All() {
					sends[s.Name()]++
				}
			}
		}
	}
	for _, s := range []sglang.Stage{sglang.StageMooncakeSend, sglang.StageMooncakeWorkerSend, sglang.StageMooncakeWorkerSendSession} {
		assert.Equal(t, 3*2, sends[s.String()], "%s: one for each chunk", s)
	}
}

// TestAssembledPair is the capture of prefill and decode engine.
func TestAssembledPair(t *testing.T) {
	to := pairOf(t, tp(2))
	assert.Len(t, senders(to), peers(t, pair), "processes")
	compare(t, &scenario{adds: map[string]string{
		"fake_output event schedule {batch_size:int bid:str forward_mode:str} decode": "a decode step may begin before the prebuilt result is looked at; " +
			"in the capture that befell a request of one token only, which takes no part in the step",
	}}, captured(t, pair), to)
}

func captured(t *testing.T, name string) map[string]int {
	t.Helper()
	kinds, err := kindsOf("traces-" + name)
	require.NoError(t, err)
	return kinds
}

func kindsOf(name string) (map[string]int, error) {
	exports, err := capture.Load(captures, name)
	var tds []ptrace.Traces
	for _, e := range exports {
		tds = append(tds, e.Traces)
	}
	return spanshape.Kinds(tds...), err
}

func compare(t *testing.T, sc *scenario, want map[string]int, to *trace.Recorder) {
	t.Helper()
	var tds []ptrace.Traces
	for _, e := range to.Exports() {
		tds = append(tds, e.Traces)
		assert.LessOrEqual(t, e.Traces.SpanCount(), sglang.ExportBatchSpans)
	}
	got := spanshape.Kinds(tds...)
	all, err := seen()
	require.NoError(t, err)
	for _, k := range unexplained(spanshape.Missing(want, got), sc.lacks) {
		t.Errorf("lacks: %s", k)
	}
	for _, k := range unexplained(spanshape.Missing(got, all), sc.adds) {
		t.Errorf("adds: %s", k)
	}
}

// peers is the number of processes in a capture.
func peers(t *testing.T, name string) int {
	t.Helper()
	exports, err := capture.Load(captures, "traces-"+name)
	require.NoError(t, err)
	all := map[string]bool{}
	for _, e := range exports {
		all[e.Peer] = true
	}
	return len(all)
}

// senders are the instance ids of what was exported.
func senders(to *trace.Recorder) map[string]bool {
	all := map[string]bool{}
	for _, e := range to.Exports() {
		id, _ := e.Traces.ResourceSpans().At(0).Resource().Attributes().Get(sglang.AttrServiceInstanceID)
		all[id.Str()] = true
	}
	return all
}

// seen are the kinds of all captures: which of them a scenario shows is a matter of
// load.
var seen = sync.OnceValues(func() (map[string]int, error) {
	names, err := capture.Names(captures)
	if err != nil {
		return nil, err
	}
	all := map[string]int{}
	for _, n := range names {
		kinds, err := kindsOf(n)
		if err != nil {
			return nil, err
		}
		maps.Copy(all, kinds)
	}
	return all, nil
})

func unexplained(kinds []string, reasons map[string]string) (left []string) {
	for _, k := range kinds {
		known := false
		for part := range reasons {
			known = known || strings.Contains(k, part)
		}
		if !known {
			left = append(left, k)
		}
	}
	return left
}
