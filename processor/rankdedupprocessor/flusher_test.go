// Copyright The otelcol-sglang Authors
// SPDX-License-Identifier: Apache-2.0

package rankdedupprocessor

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"go.opentelemetry.io/collector/consumer"
	"go.opentelemetry.io/collector/consumer/consumertest"
	"go.opentelemetry.io/collector/pdata/ptrace"

	"github.com/otelcol-sglang/otelcol-sglang/internal/sglang"
)

// TestSpoiledBatchIsMadeAgain: a consumer that fails may have changed what it was
// given; what is held is handed on again as it was.
func TestSpoiledBatchIsMadeAgain(t *testing.T) {
	serve := func(t *testing.T, failures int) *consumertest.TracesSink {
		t.Helper()
		sink := &consumertest.TracesSink{}
		next, err := consumer.NewTraces(func(ctx context.Context, td ptrace.Traces) error {
			held := false
			eachSpan(td, func(_ ptrace.ResourceSpans, s ptrace.Span) { held = held || sglang.KindOf(s) == sglang.KindRoot })
			if held && failures > 0 {
				failures--
				td.ResourceSpans().RemoveIf(func(ptrace.ResourceSpans) bool { return true })
				return errors.New("down")
			}
			return sink.ConsumeTraces(ctx, td)
		})
		require.NoError(t, err)
		p, tel := startWith(t, createDefaultConfig().(*Config), next)
		l := &load{tp: 2, level: 1}
		l.serve(5)
		for _, batches := range l.batches {
			consumeAll(t, p, batches...)
		}
		time.Sleep(time.Minute)
		synctest.Wait()
		assert.Zero(t, failures)
		assert.Zero(t, value(t, tel, "spans_lost", ""))
		return sink
	}
	synctest.Test(t, func(t *testing.T) {
		whole, again := treeOf(serve(t, 0).AllTraces()), treeOf(serve(t, 3).AllTraces())
		require.NotEmpty(t, whole.spans)
		assert.Empty(t, again.twice)
		require.Equal(t, len(whole.spans), len(again.spans)) //nolint:testifylint // Len prints the map
		for id, s := range whole.spans {
			require.Contains(t, again.spans, id)
			assert.Equal(t, s.Attributes().AsRaw(), again.spans[id].Attributes().AsRaw(), s.Name())
			assert.Equal(t, whole.res[id].Attributes().AsRaw(), again.res[id].Attributes().AsRaw(), s.Name())
		}
	})
}
