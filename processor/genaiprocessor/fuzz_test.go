// Copyright The otelcol-sglang Authors
// SPDX-License-Identifier: Apache-2.0

package genaiprocessor

import (
	"context"
	"math"
	"testing"

	"github.com/stretchr/testify/require"
	"go.opentelemetry.io/collector/component/componenttest"
	"go.opentelemetry.io/collector/consumer/consumertest"
	"go.opentelemetry.io/collector/pdata/pcommon"
	"go.opentelemetry.io/collector/pdata/ptrace"

	"github.com/otelcol-sglang/otelcol-sglang/internal/sglang"
	"github.com/otelcol-sglang/otelcol-sglang/processor/genaiprocessor/internal/metadatatest"
)

// FuzzConsume takes any traces in, odd attribute types and broken trees
// included: no panic, no root lost, no number that is none.
func FuzzConsume(f *testing.F) {
	for _, name := range []string{"traces-abort-tp2", "traces-retraction-tp2", "traces-pd-prefill-tp2-decode-tp2"} {
		data, err := new(ptrace.ProtoMarshaler).MarshalTraces(mergeAll(loadCapture(f, name)))
		require.NoError(f, err)
		f.Add(data)
	}
	for _, odd := range []any{"0.2", true, math.NaN(), math.Inf(1), -1, 1 << 60} {
		attrs := map[string]any{}
		for _, key := range []string{
			sglang.AttrLatencyTTFT, sglang.AttrLatencyE2E, sglang.AttrCompletionTokens, sglang.AttrPromptTokens,
			sglang.AttrFinishReasons, sglang.AttrBootstrapRoom, sglang.AttrRequestID, sglang.AttrCompleteness, sglang.AttrPDJoined,
		} {
			attrs[key] = odd
		}
		s := plainStory(attrs)
		s.name = "decode Req 1"
		s.steps(3, 200, 50)
		data, err := new(ptrace.ProtoMarshaler).MarshalTraces(s.end())
		require.NoError(f, err)
		f.Add(data)
	}
	f.Fuzz(func(t *testing.T, data []byte) {
		td, err := new(ptrace.ProtoUnmarshaler).UnmarshalTraces(data)
		if err != nil || td.SpanCount() > 5000 {
			return
		}
		want, given := distinctRoots(td), rootKeys(td)
		sink := new(consumertest.TracesSink)
		p, err := newProcessor(metadatatest.NewSettings(componenttest.NewTelemetry()), createDefaultConfig().(*Config), sink)
		require.NoError(t, err)
		require.NoError(t, p.Start(context.Background(), componenttest.NewNopHost()))
		require.NoError(t, p.ConsumeTraces(context.Background(), td))
		require.NoError(t, p.Shutdown(context.Background()))
		require.Zero(t, p.heldBytes.Load())
		got := 0
		for _, root := range rootsOf(sink.AllTraces()) {
			got++
			checkFinite(t, root, given)
		}
		require.GreaterOrEqual(t, got, want)
	})
}

// distinctRoots is how many roots must leave at least: copies count once, and
// an id that two kinds of spans share may be either.
func distinctRoots(td ptrace.Traces) int {
	type key struct {
		trace pcommon.TraceID
		span  pcommon.SpanID
	}
	roots, others := map[key]bool{}, map[key]bool{}
	eachSpan([]ptrace.Traces{td}, func(_ ptrace.ResourceSpans, ss ptrace.ScopeSpans, s ptrace.Span) {
		k := key{s.TraceID(), s.SpanID()}
		if ss.Scope().Name() != sglang.ScopeName {
			return
		}
		if sglang.KindOf(s) == sglang.KindRoot && sglang.StageOf(s.Name()) != sglang.StageDecodeLoop {
			roots[k] = true
		} else {
			others[k] = true
		}
	})
	n := 0
	for k := range roots {
		if !others[k] {
			n++
		}
	}
	return n
}

// rootKeys are the keys that came on roots; the others are written here.
func rootKeys(td ptrace.Traces) map[string]bool {
	out := map[string]bool{}
	for _, root := range rootsOf([]ptrace.Traces{td}) {
		for key := range root.Attributes().All() {
			out[key] = true
		}
	}
	return out
}

func checkFinite(t *testing.T, root ptrace.Span, given map[string]bool) {
	t.Helper()
	for key, v := range root.Attributes().All() {
		if !given[key] && v.Type() == pcommon.ValueTypeDouble {
			require.False(t, math.IsNaN(v.Double()) || math.IsInf(v.Double(), 0), key)
		}
	}
}
