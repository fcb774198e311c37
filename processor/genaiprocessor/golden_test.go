// Copyright The otelcol-sglang Authors
// SPDX-License-Identifier: Apache-2.0

package genaiprocessor

import (
	"bytes"
	"flag"
	"math"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/open-telemetry/opentelemetry-collector-contrib/pkg/pdatatest/ptracetest"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"go.opentelemetry.io/collector/pdata/pcommon"
	"go.opentelemetry.io/collector/pdata/ptrace"

	"github.com/otelcol-sglang/otelcol-sglang/internal/capture"
	"github.com/otelcol-sglang/otelcol-sglang/internal/sglang"
)

var update = flag.Bool("update", false, "write the golden files anew")

// written collects the spans that the processor completes, in a fixed order.
func written(batches []ptrace.Traces) ptrace.Traces {
	var found []ptrace.Traces
	eachSpan(batches, func(rs ptrace.ResourceSpans, ss ptrace.ScopeSpans, s ptrace.Span) {
		if sglang.KindOf(s) != sglang.KindRoot && sglang.StageOf(s.Name()) != sglang.StageDecodeForward {
			return
		}
		td := ptrace.NewTraces()
		to := td.ResourceSpans().AppendEmpty()
		rs.Resource().CopyTo(to.Resource())
		scope := to.ScopeSpans().AppendEmpty()
		ss.Scope().CopyTo(scope.Scope())
		s.CopyTo(scope.Spans().AppendEmpty())
		found = append(found, td)
	})
	key := func(td ptrace.Traces) string {
		s := td.ResourceSpans().At(0).ScopeSpans().At(0).Spans().At(0)
		return s.TraceID().String() + s.SpanID().String()
	}
	slices.SortFunc(found, func(a, b ptrace.Traces) int { return strings.Compare(key(a), key(b)) })
	out := ptrace.NewTraces()
	for _, td := range found {
		td.ResourceSpans().At(0).CopyTo(out.ResourceSpans().AppendEmpty())
	}
	return out
}

func golden(t *testing.T, name string, got ptrace.Traces) {
	t.Helper()
	path := filepath.Join("testdata", "golden", name+".jsonl")
	if *update {
		writeGolden(t, path, got)
	}
	f, err := os.Open(path)
	require.NoError(t, err)
	defer f.Close()
	want := ptrace.NewTraces()
	require.NoError(t, capture.ReadTraces(f, func(td ptrace.Traces) error {
		td.ResourceSpans().MoveAndAppendTo(want.ResourceSpans())
		return nil
	}))
	assert.NoError(t, ptracetest.CompareTraces(want, got, ptracetest.IgnoreResourceSpansOrder()))
}

func writeGolden(t *testing.T, path string, got ptrace.Traces) {
	t.Helper()
	var lines bytes.Buffer
	for _, rs := range got.ResourceSpans().All() {
		one := ptrace.NewTraces()
		rs.CopyTo(one.ResourceSpans().AppendEmpty())
		line, err := new(ptrace.JSONMarshaler).MarshalTraces(one)
		require.NoError(t, err)
		lines.Write(append(line, '\n'))
	}
	require.NoError(t, os.MkdirAll(filepath.Dir(path), 0o755))
	require.NoError(t, os.WriteFile(path, lines.Bytes(), 0o644))
}

// TestCaptures runs each capture behind a rank folding tier: every root leaves
// complete with the numbers of its golden file, everything else passes.
func TestCaptures(t *testing.T) {
	for _, name := range captureNames(t) {
		run(t, name, func(t *testing.T) {
			in := reduceRanks(loadCapture(t, name))
			before := clone(in)
			r := newRig(t, nil, nil)
			r.send(in...)
			assert.Len(t, r.roots(), len(rootsOf(before)), "every root leaves when its spans have passed")
			assert.Zero(t, r.total("early_releases", ""))
			assert.Zero(t, r.total("late_spans", ""))
			checkPassed(t, before, r.sink.AllTraces())
			golden(t, name, written(r.sink.AllTraces()))
			for _, root := range r.roots() {
				checkBudget(t, root)
			}
			r.close()
		})
	}
}

// checkPassed: what is not folded leaves once, with its ids, times, parent,
// links and events as they came.
func checkPassed(t *testing.T, before, after []ptrace.Traces) {
	t.Helper()
	got := map[pcommon.SpanID]ptrace.Span{}
	eachSpan(after, func(_ ptrace.ResourceSpans, _ ptrace.ScopeSpans, s ptrace.Span) {
		assert.NotContains(t, got, s.SpanID(), "once")
		got[s.SpanID()] = s
	})
	eachSpan(before, func(_ ptrace.ResourceSpans, _ ptrace.ScopeSpans, want ptrace.Span) {
		s, ok := got[want.SpanID()]
		if sglang.StageOf(want.Name()) == sglang.StageDecodeLoop {
			assert.False(t, ok)
			return
		}
		require.True(t, ok, want.Name())
		assert.Equal(t, want.StartTimestamp(), s.StartTimestamp())
		assert.Equal(t, want.EndTimestamp(), s.EndTimestamp())
		assert.Equal(t, want.ParentSpanID(), s.ParentSpanID())
		for i := range want.Links().Len() {
			assert.Equal(t, want.Links().At(i).SpanID(), s.Links().At(i).SpanID())
		}
		if sglang.KindOf(want) == sglang.KindSlice && sglang.StageOf(want.Name()) != sglang.StageDecodeForward {
			assert.Equal(t, want.Attributes().AsRaw(), s.Attributes().AsRaw())
			assert.Equal(t, want.Name(), s.Name())
		}
	})
}

func checkBudget(t *testing.T, root ptrace.Span) {
	t.Helper()
	sum, stages := 0.0, 0
	for key, v := range root.Attributes().All() {
		if strings.HasPrefix(key, sglang.AttrBudgetPrefix) {
			assert.Positive(t, v.Double(), key)
			sum += v.Double()
			stages++
		}
	}
	if stages > 0 {
		assert.InDelta(t, seconds(root, sglang.AttrLatencyE2E), sum, 1e-6)
	}
}

func seconds(s ptrace.Span, key string) float64 {
	v, ok := s.Attributes().Get(key)
	if !ok || v.Type() != pcommon.ValueTypeDouble {
		return math.NaN()
	}
	return v.Double()
}

func text(s ptrace.Span, key string) string {
	v, ok := s.Attributes().Get(key)
	if !ok {
		return ""
	}
	return v.AsString()
}

// TestCapturesRaw: a single-rank engine needs no rank folding; threads do not
// say how many slices left under them. The numbers are the same.
func TestCapturesRaw(t *testing.T) {
	for _, name := range captureNames(t) {
		if !strings.Contains(name, "tp1") {
			continue
		}
		run(t, name, func(t *testing.T) {
			r := newRig(t, nil, nil)
			r.send(loadCapture(t, name)...)
			got := written(func() []ptrace.Traces { r.roots(); return r.sink.AllTraces() }())
			assert.Zero(t, r.total("early_releases", ""))
			golden(t, name, got)
			r.close()
		})
	}
}

// TestCapturesUnfolded: with several copies of a rank, the numbers are those of
// the lowest TP rank of the lowest PP stage.
func TestCapturesUnfolded(t *testing.T) {
	for _, name := range captureNames(t) {
		run(t, name, func(t *testing.T) {
			folded, raw := newRig(t, nil, nil), newRig(t, nil, nil)
			folded.send(reduceRanks(loadCapture(t, name))...)
			want := byID(folded.roots())
			raw.send(mergeAll(loadCapture(t, name)))
			for id, s := range byID(raw.roots()) {
				assert.Equal(t, want[id].Attributes().AsRaw(), s.Attributes().AsRaw())
			}
			assert.Len(t, raw.roots(), len(want))
			folded.close()
			raw.close()
		})
	}
}

func byID(spans []ptrace.Span) map[pcommon.SpanID]ptrace.Span {
	out := make(map[pcommon.SpanID]ptrace.Span, len(spans))
	for _, s := range spans {
		out[s.SpanID()] = s
	}
	return out
}

func mergeAll(batches []ptrace.Traces) ptrace.Traces {
	out := ptrace.NewTraces()
	for _, td := range batches {
		td.ResourceSpans().MoveAndAppendTo(out.ResourceSpans())
	}
	return out
}

// TestNonStreamingWithoutMetrics: the engine reports the arrival of its first
// message as first token; ours is within 5 ms of the end of the kept rank's prefill.
func TestNonStreamingWithoutMetrics(t *testing.T) {
	run(t, "metrics off", func(t *testing.T) {
		in := reduceRanks(loadCapture(t, "traces-nonstream-tp2-metrics-off"))
		ends := prefillEnds(in)
		r := newRig(t, nil, nil)
		r.send(in...)
		roots := r.roots()
		require.Len(t, roots, 4)
		for _, root := range roots {
			ttft := seconds(root, sglang.AttrLatencyTTFT)
			end := float64(ends[root.TraceID()]-root.StartTimestamp()) / 1e9
			assert.InDelta(t, end, ttft, 0.005)
			assert.Less(t, ttft, seconds(root, sglang.AttrLatencyE2E)-0.01, "never E2E")
		}
		assert.EqualValues(t, 2, r.total("invalid_values", "equals_e2e"))
		assert.EqualValues(t, 1, r.total("invalid_values", "token_50"))
		r.close()
	})
}

func prefillEnds(batches []ptrace.Traces) map[pcommon.TraceID]pcommon.Timestamp {
	out := map[pcommon.TraceID]pcommon.Timestamp{}
	eachSpan(batches, func(_ ptrace.ResourceSpans, _ ptrace.ScopeSpans, s ptrace.Span) {
		if s.Name() == "prefill_forward" {
			out[s.TraceID()] = s.EndTimestamp()
		}
	})
	return out
}

// TestNoFirstToken: aborts before a token, embeddings, encoders and prefill
// halves have none.
func TestNoFirstToken(t *testing.T) {
	none := func(name string, wanted func(ptrace.Span) bool, n int) {
		run(t, name, func(t *testing.T) {
			r := newRig(t, nil, nil)
			r.send(reduceRanks(loadCapture(t, name))...)
			found := 0
			for _, root := range r.roots() {
				if wanted(root) {
					found++
					assert.NotContains(t, root.Attributes().AsRaw(), sglang.AttrLatencyTTFT)
					assert.NotContains(t, root.Attributes().AsRaw(), sglang.AttrOutTPOT)
					assert.NotContains(t, root.Attributes().AsRaw(), sglang.AttrTTFTSource)
				}
			}
			assert.Equal(t, n, found)
			r.close()
		})
	}
	every := func(ptrace.Span) bool { return true }
	none("traces-embeddings-tp1", every, 3)
	none("traces-epd-encoder", every, 2)
	none("traces-abort-tp2", func(s ptrace.Span) bool { return text(s, "error.type") != "" && text(s, sglang.AttrOutputTokens) == "" }, 2)
	none("traces-pd-prefill-tp2-decode-tp2", func(s ptrace.Span) bool { return text(s, sglang.AttrPDRole) == "prefill" }, 5)
}

// TestAgainstTheEngine compares what the scheduler's spans give with what the
// engine says of requests that it measures rightly.
func TestAgainstTheEngine(t *testing.T) {
	worst := map[string]float64{}
	for _, name := range captureNames(t) {
		run(t, name, func(t *testing.T) {
			in := reduceRanks(loadCapture(t, name))
			said := byID(rootsOf(clone(in)))
			r := newRig(t, nil, nil)
			r.send(in...)
			for _, root := range r.roots() {
				if text(root, sglang.AttrTTFTSource) != sglang.TTFTSourceEngine || text(root, sglang.AttrPDRole) != "" {
					continue
				}
				engine := said[root.SpanID()]
				note := func(what string, derived, reported float64) {
					worst[what] = max(worst[what], math.Abs(derived-reported))
				}
				note("ttft", seconds(root, sglang.AttrFirstTokenAtScheduler), seconds(engine, sglang.AttrLatencyTTFT))
				note("e2e", seconds(root, sglang.AttrLatencyE2E), seconds(engine, sglang.AttrLatencyE2E))
			}
			r.close()
		})
	}
	require.Contains(t, worst, "ttft")
	t.Logf("largest difference from the engine's own values: ttft %.3f ms, e2e %.6f ms", 1e3*worst["ttft"], 1e3*worst["e2e"])
	assert.Less(t, worst["ttft"], 0.010, "healthy front ends lag by less")
	assert.Less(t, worst["e2e"], 1e-6)
}
