// Copyright The otelcol-sglang Authors
// SPDX-License-Identifier: Apache-2.0

package trace

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"go.opentelemetry.io/collector/pdata/pcommon"
	"go.opentelemetry.io/collector/pdata/ptrace"

	"github.com/otelcol-sglang/otelcol-sglang/engine/internal/spanshape"
	"github.com/otelcol-sglang/otelcol-sglang/internal/capture"
	"github.com/otelcol-sglang/otelcol-sglang/internal/sglang"
)

// processes are those of scenarios whose capture has another number, with the
// reason why.
var processes = map[string]struct {
	n   int
	why string
}{
	"traces-epd-encoder": {2, "the capture ran front end and encoder in one process"},
}

// TestCaptures: told what happened in a capture, the tracer exports what the engine
// did: every span, attribute, flag, link and event, and the times to the engine's
// resolution.
func TestCaptures(t *testing.T) {
	names, err := capture.Names(capturesDir)
	require.NoError(t, err)
	require.NotEmpty(t, names)
	for _, name := range names {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			exports, err := capture.Load(capturesDir, name)
			require.NoError(t, err)
			var captured, simulated []ptrace.Traces
			peers := map[string]bool{}
			for _, e := range exports {
				captured = append(captured, e.Traces)
				peers[e.Peer] = true
			}
			senders := map[string]bool{}
			out := replayed(t, name, exports)
			for _, e := range out {
				simulated = append(simulated, e.Traces)
				senders[text(e.Traces.ResourceSpans().At(0).Resource().Attributes(), sglang.AttrServiceInstanceID)] = true
				assert.LessOrEqual(t, e.Traces.SpanCount(), sglang.ExportBatchSpans)
			}
			sameTrees(t, spanshape.Trees(captured...), spanshape.Trees(simulated...))
			assert.Empty(t, spanshape.Missing(spanshape.Kinds(captured...), spanshape.Kinds(simulated...)))
			want := len(peers)
			if p, other := processes[name]; other {
				want = p.n
			}
			assert.Len(t, senders, want, "processes")
			sameResources(t, captured, simulated)
		})
	}
}

func sameTrees(t *testing.T, want, got []spanshape.Tree) {
	t.Helper()
	require.Len(t, got, len(want))
	for i := range want {
		require.Equal(t, want[i].String(), got[i].String())
		for n := range want[i] {
			sameSpan(t, want[i][n].Span, got[i][n].Span)
		}
	}
}

// sameSpan compares times and values. Where the engine reads its clock once more
// (the start of a thread, the end of an unfinished one) only a range is known.
func sameSpan(t *testing.T, want, got ptrace.Span) {
	t.Helper()
	what := fmt.Sprintf("%s of %s", want.Name(), want.TraceID())
	closed := text(want.Attributes(), sglang.AttrAbortReason) == sglang.AutoClosedReason
	switch {
	case sglang.KindOf(want) == sglang.KindThread || text(want.Attributes(), sglang.AttrModule) == sglang.ModuleMooncake:
		near(t, want.StartTimestamp(), got.StartTimestamp(), 10*time.Millisecond, what+" start")
		near(t, want.EndTimestamp(), got.EndTimestamp(), map[bool]time.Duration{false: 150 * time.Microsecond, true: 10 * time.Millisecond}[closed], what+" end")
	default:
		near(t, want.StartTimestamp(), got.StartTimestamp(), 1, what+" start")
		near(t, want.EndTimestamp(), got.EndTimestamp(), 50*time.Microsecond, what+" end")
	}
	for k, v := range want.Attributes().All() {
		w, _ := got.Attributes().Get(k)
		switch {
		case k == sglang.AttrPID:
		case v.Type() == pcommon.ValueTypeDouble:
			assert.InDelta(t, v.Double(), w.Double(), 2e-9, "%s: %s", what, k)
		case strings.HasPrefix(k, sglang.AttrThreadLabel):
			assert.Equal(t, v.AsString(), w.AsString(), what)
		default:
			assert.Equal(t, v.AsRaw(), w.AsRaw(), "%s: %s", what, k)
		}
	}
	for i := range want.Events().Len() {
		assert.Equal(t, want.Events().At(i).Timestamp(), got.Events().At(i).Timestamp(), what)
	}
}

func near(t *testing.T, want, got pcommon.Timestamp, most time.Duration, what string) {
	t.Helper()
	off := time.Duration(int64(got) - int64(want)).Abs()
	assert.LessOrEqual(t, off, most, what)
}

// sameResources: same attributes in the same order, and an instance per process.
func sameResources(t *testing.T, want, got []ptrace.Traces) {
	t.Helper()
	assert.Equal(t, resources(want), resources(got))
}

func resources(tds []ptrace.Traces) map[string]bool {
	seen := map[string]bool{}
	for _, td := range tds {
		for _, rs := range td.ResourceSpans().All() {
			var b strings.Builder
			for k, v := range rs.Resource().Attributes().All() {
				if k == sglang.AttrServiceInstanceID {
					v = pcommon.NewValueInt(int64(len(v.Str())))
				}
				fmt.Fprintf(&b, "%s=%s ", k, v.AsString())
			}
			for _, ss := range rs.ScopeSpans().All() {
				fmt.Fprintf(&b, "| %s %s %s", ss.Scope().Name(), ss.Scope().Version(), ss.SchemaUrl())
			}
			seen[b.String()] = true
		}
	}
	return seen
}
