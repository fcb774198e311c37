// Copyright The otelcol-sglang Authors
// SPDX-License-Identifier: Apache-2.0

package request

import (
	"flag"
	"math"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"go.opentelemetry.io/collector/pdata/pcommon"
	"go.opentelemetry.io/collector/pdata/ptrace"

	"github.com/otelcol-sglang/otelcol-sglang/internal/capture"
	"github.com/otelcol-sglang/otelcol-sglang/internal/sglang"
)

var update = flag.Bool("update", false, "write testdata/*.txt")

const testCaptures = "../../../../testdata/captures/traces"

func load(t *testing.T, name string) []ptrace.Traces {
	exports, err := capture.Load(testCaptures, name)
	require.NoError(t, err)
	all := make([]ptrace.Traces, len(exports))
	for i, x := range exports {
		all[i] = x.Traces
	}
	return all
}

func indexOf(batches []ptrace.Traces) *Index {
	x := &Index{}
	for _, b := range batches {
		x.Add(b)
	}
	return x
}

func printed(t *testing.T, p Printer, batches []ptrace.Traces, id string) string {
	found, err := indexOf(batches).Find(id)
	require.NoError(t, err)
	tree := NewTree(found[0].TraceID)
	for _, b := range batches {
		tree.Add(b)
	}
	var out strings.Builder
	p.W, p.Location = &out, time.UTC
	p.Print(tree, found)
	return out.String()
}

func golden(t *testing.T, name, got string) {
	path := filepath.Join("testdata", name+".txt")
	if *update {
		require.NoError(t, os.WriteFile(path, []byte(got), 0o600))
	}
	want, err := os.ReadFile(path)
	require.NoError(t, err)
	assert.Equal(t, string(want), got)
}

func TestPrint(t *testing.T) {
	for _, tc := range []struct {
		name, capture, id string
		printer           Printer
	}{
		{"retraction", "traces-retraction-tp2", Slowest, Printer{Events: true}},
		{"long_run_cut", "traces-nonstream-tp2-metrics-off", Slowest, Printer{}},
		{"abort", "traces-abort-tp2", "567f4887", Printer{}},
		{"two_halves_in_one_trace", "traces-pd-prefill-tp2-decode-tp2", "49b4ad76b7ffe528", Printer{}},
		{"dp_attention", "traces-dp-attention-tp4-dp2", Last, Printer{All: true}},
	} {
		t.Run(tc.name, func(t *testing.T) {
			golden(t, tc.name, printed(t, tc.printer, load(t, tc.capture), tc.id))
		})
	}
}

// complete is a request as it leaves the pipeline: ranks folded, latencies derived.
func complete() ptrace.Traces {
	const ms = int64(time.Millisecond)
	traces := ptrace.NewTraces()
	spans := traces.ResourceSpans().AppendEmpty().ScopeSpans().AppendEmpty().Spans()
	start := time.Date(2026, 11, 29, 12, 0, 0, 0, time.UTC).UnixNano()
	add := func(id, parent byte, name string, from, to int64) ptrace.Span {
		s := spans.AppendEmpty()
		s.SetTraceID(pcommon.TraceID{15: 1})
		s.SetSpanID(pcommon.SpanID{7: id})
		s.SetParentSpanID(pcommon.SpanID{7: parent})
		s.SetName(name)
		s.SetStartTimestamp(pcommon.Timestamp(start + from*ms))
		s.SetEndTimestamp(pcommon.Timestamp(start + to*ms))
		return s
	}
	root := add(1, 0, "request", 0, 2500).Attributes()
	for key, v := range map[string]any{
		sglang.AttrModule: sglang.ModuleRequest, sglang.AttrRID: "42", sglang.AttrResponseID: "chatcmpl_user_42",
		sglang.AttrRequestModel: "llama", sglang.AttrInputTokens: 12000, sglang.AttrCacheReadInputTokens: 4000,
		sglang.AttrOutputTokens: 50, sglang.AttrFinishReasons: []any{"stop"}, sglang.AttrChunks: 3, sglang.AttrRetractions: 1,
		sglang.AttrLatencyTTFT: 2.1, sglang.AttrTTFTSource: sglang.TTFTSourceScheduler, sglang.AttrOutTPOT: 0.008,
		sglang.AttrLatencyInQueue: 1.9, sglang.AttrPrefillCompute: 0.195, sglang.AttrDecodeCompute: 0.4,
		sglang.AttrLatencyInvalid: []any{"time_to_first_token: equals_e2e"}, sglang.AttrCompleteness: sglang.CompletenessMissingSpans,
		sglang.AttrBudgetPrefix + "tokenize": 0.005, sglang.AttrBudgetPrefix + "queue": 1.9,
		sglang.AttrBudgetPrefix + "prefill": 0.195, sglang.AttrBudgetPrefix + "decode": 0.4, sglang.AttrBudgetPrefix + "finish": 0.0,
	} {
		if err := root.PutEmpty(key).FromRaw(v); err != nil {
			panic(err)
		}
	}
	thread := add(2, 1, "Scheduler", 5, 2500).Attributes()
	for key, v := range map[string]any{
		sglang.AttrThreadLabel: "Scheduler", sglang.AttrTPRank: 0, sglang.AttrDPRank: 1, sglang.AttrRanksCount: 3,
		sglang.AttrRanksExpected: 4, sglang.AttrRanksSkew: 0.012, sglang.AttrRanksSlowest: 3, sglang.AttrRanksSlowestShare: 0.87,
	} {
		if err := thread.PutEmpty(key).FromRaw(v); err != nil {
			panic(err)
		}
	}
	add(3, 2, "prefill_waiting", 5, 1905)
	add(4, 2, "prefill_forward", 1905, 2100)
	decode := add(5, 2, "decode_forward", 2100, 2500).Attributes()
	decode.PutInt(sglang.AttrStepsCount, 25)
	decode.PutDouble(sglang.AttrStepsP50, 0.016)
	decode.PutDouble(sglang.AttrStepsMax, 0.031)
	decode.PutDouble(sglang.AttrStepsTokens, 1.96)
	add(9, 8, "decode_loop", 2600, 2610)
	return traces
}

func TestPrintComplete(t *testing.T) {
	golden(t, "complete", printed(t, Printer{}, []ptrace.Traces{complete()}, "chatcmpl_user_42"))
}

func TestList(t *testing.T) {
	batches := append(load(t, "traces-pd-prefill-tp2-decode-tp2"), complete())
	batches = append(batches, load(t, "traces-embeddings-tp1")...)
	var out strings.Builder
	require.NoError(t, Printer{W: &out, Location: time.UTC}.List(indexOf(batches).Slowest(6)))
	golden(t, "list", out.String())
}

func TestFind(t *testing.T) {
	x := indexOf(append(load(t, "traces-retraction-tp2"), load(t, "traces-pd-prefill-tp2-decode-tp2")...))
	for _, tc := range []struct {
		name, id string
		found    int
		err      string
	}{
		{"request id", "48ec6aced3982fd90d3027db8cc8b432", 1, ""},
		{"its beginning", "48ec", 1, ""},
		{"trace id", "00000000000000006298fda550affbbb", 1, ""},
		{"trace id without zeros", "6298FDA5", 1, ""},
		{"trace of two requests", "49b4ad76b7ffe5282f12f9cb40ef3b1d", 2, ""},
		{"last", Last, 1, ""},
		{"slowest", Slowest, 1, ""},
		{"unknown", "ffffffff", 0, `no request with id "ffffffff"`},
		{"too short", "48e", 0, "at least 4 characters"},
		{"ambiguous", "0000", 0, `id "0000" means several requests: `},
	} {
		t.Run(tc.name, func(t *testing.T) {
			found, err := x.Find(tc.id)
			if tc.err != "" {
				require.ErrorContains(t, err, tc.err)
				return
			}
			require.NoError(t, err)
			assert.Len(t, found, tc.found)
		})
	}
	_, err := (&Index{}).Find(Last)
	require.ErrorContains(t, err, "no request has ended yet")
}

func TestSpansThatComeTwiceCountOnce(t *testing.T) {
	batches := []ptrace.Traces{complete(), complete()}
	assert.Len(t, indexOf(batches).Requests, 1)
	assert.Equal(t, printed(t, Printer{}, batches[:1], Last), printed(t, Printer{}, batches, Last))
}

// A parent that is its own descendant must not hang the printer.
func TestCycle(t *testing.T) {
	traces := complete()
	spans := traces.ResourceSpans().At(0).ScopeSpans().At(0).Spans()
	spans.At(0).SetParentSpanID(pcommon.SpanID{7: 5})
	assert.NotEmpty(t, printed(t, Printer{}, []ptrace.Traces{traces}, Last))
}

func TestDuration(t *testing.T) {
	for d, want := range map[time.Duration]string{
		0: "0", 900: "1 µs", 250 * time.Microsecond: "250 µs", 1500 * time.Microsecond: "1.5 ms", -2 * time.Millisecond: "-2.0 ms",
		250 * time.Millisecond: "250 ms", 1234 * time.Millisecond: "1.23 s", 61 * time.Second: "61.0 s",
	} {
		assert.Equal(t, want, Duration(d))
	}
}

func TestCount(t *testing.T) {
	for n, want := range map[int64]string{0: "0", 999: "999", 1000: "1 000", 3700: "3 700", -12345678: "-12 345 678"} {
		assert.Equal(t, want, Count(n))
	}
}

func TestBar(t *testing.T) {
	for _, tc := range []struct {
		from, to float64
		want     string
	}{
		{0, 1, "████"},
		{0, 0, "█   "},
		{0.5, 0.75, "  █ "},
		{1, 1, "   █"},
		{-3, 9, "████"},
		{0.9, 0.1, "   █"},
	} {
		assert.Equal(t, tc.want, bar(tc.from, tc.to, 4))
	}
}

// What is no finite number is absent.
func TestNoNumber(t *testing.T) {
	td := ptrace.NewTraces()
	span := td.ResourceSpans().AppendEmpty().ScopeSpans().AppendEmpty().Spans().AppendEmpty()
	span.SetTraceID([16]byte{1})
	span.SetSpanID([8]byte{1})
	span.SetEndTimestamp(1e9)
	span.Attributes().PutStr(sglang.AttrRID, "abcdef")
	span.Attributes().PutDouble(sglang.AttrBudgetPrefix+"queue", math.NaN())
	span.Attributes().PutDouble(sglang.AttrBudgetPrefix+"prefill", math.Inf(1))
	span.Attributes().PutDouble(sglang.AttrLatencyTTFT, math.NaN())
	out := printed(t, Printer{}, []ptrace.Traces{td}, Last)
	assert.NotContains(t, out, "where the time went")
	assert.NotContains(t, out, "TTFT")
}
