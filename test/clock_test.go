// Copyright The otelcol-sglang Authors
// SPDX-License-Identifier: Apache-2.0

package e2e

import (
	"context"
	"math/rand/v2"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/otelcol-sglang/otelcol-sglang/internal/sglang"
	"github.com/otelcol-sglang/otelcol-sglang/test/internal/collector"
	"github.com/otelcol-sglang/otelcol-sglang/test/internal/sender"
	"github.com/otelcol-sglang/otelcol-sglang/test/internal/sink"
	"github.com/otelcol-sglang/otelcol-sglang/test/internal/spans"
)

// TestOwnClockJump: the clock of the collector's own host jumps by an hour, forwards and
// back, in the middle of requests, while some spans are held. They leave within the
// processors' waits, not an hour later, none is lost, and requests have their latencies.
// The collector is one of scripts/build-clock-jump.sh.
func TestOwnClockJump(t *testing.T) {
	const capture, runs = "traces-unified-tp4-level3", 8
	for name, by := range map[string]string{"forwards": "3600", "back": "-3600"} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			backend := sink.Start(t)
			c := collector.Start(t, collector.Options{
				Config: "agent.yaml", Binary: "otelcol-sglang-clock",
				// What is held at the start is so when the clock jumps.
				Overlay: "processors: {rankdedup: {wait: 25s}, genai: {decode_loop: keep, wait: 30s}}\n",
				Env:     append(backend.Env(), "CLOCK_JUMP_AFTER=20", "CLOCK_JUMP_BY="+by),
			})
			s := &stubborn{t: t, endpoint: c.GRPC, paced: 3 * time.Second}
			s.run(capture, runs, onTime)
			// Requests of which one rank's thread span never comes wait for it.
			e, kept := sender.New(t, c.GRPC, capture), lowestRank(t, capture)
			require.Zero(t, e.PlaySome(context.Background(), rand.Uint64()>>1, func(peer string, s spans.Span) bool {
				return peer != kept || s.Kind != sglang.KindThread
			}))
			s.done.Wait()
			assert.Empty(t, c.Settle(outLimit).Losses())
			s.checkAll(t, backend)
			out := spans.TreeOf(backend.Traces()...)
			assert.Empty(t, spans.Lost(e.Made(), e.Acknowledged(), out))
			whole := 0
			for _, root := range out.Roots() {
				whole += checkPlausible(t, root)
			}
			assert.Equal(t, len(out.Roots()), whole, "the engine's clock is right")
			assert.Len(t, out.Roots(), len(s.tree().Roots())+len(e.Acknowledged().Roots()))
		})
	}
}
