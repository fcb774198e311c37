// Copyright The otelcol-sglang Authors
// SPDX-License-Identifier: Apache-2.0

package e2e

import (
	"context"
	"math/rand/v2"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/otelcol-sglang/otelcol-sglang/internal/sglang"
	"github.com/otelcol-sglang/otelcol-sglang/test/internal/sdk"
	"github.com/otelcol-sglang/otelcol-sglang/test/internal/sender"
	"github.com/otelcol-sglang/otelcol-sglang/test/internal/sink"
	"github.com/otelcol-sglang/otelcol-sglang/test/internal/spans"
	"github.com/otelcol-sglang/otelcol-sglang/test/internal/tool"
)

// lowestRank is the process of a capture that is tensor-parallel rank 0.
func lowestRank(t *testing.T, name string) string {
	t.Helper()
	for _, x := range sender.Load(t, name) {
		for s := range spans.All(x.Traces) {
			if s.Kind == sglang.KindThread && s.Thread().Ranks.TP == 0 {
				return x.Peer
			}
		}
	}
	t.Fatalf("%s has no rank 0", name)
	return ""
}

// TestKilledSender kills the rank whose copies are kept while it exports.
func TestKilledSender(t *testing.T) {
	t.Parallel()
	const known, unknown = "traces-unified-tp4-level3", "traces-unified-tp2-no-overlap"
	backend := sink.Start(t)
	c := agent(t, backend, keepSteps)
	salts := []uint64{rand.Uint64() >> 1, rand.Uint64() >> 1}
	// One engine's ranks are known by then, the other's are not.
	warm := sdk.Start(t, sdk.Options{
		Capture: known, Protocol: grpcProtocol, Endpoint: c.GRPC, Salts: salts,
		DieAfter: map[string]int{lowestRank(t, known): 30},
	})
	cold := sdk.Start(t, sdk.Options{
		Capture: unknown, Protocol: grpcProtocol, Endpoint: c.GRPC, Salts: salts[1:],
		DieAfter: map[string]int{lowestRank(t, unknown): 20},
	})
	for range salts {
		warm.Ready()
		warm.Play(time.Now())
	}
	cold.Ready()
	cold.Play(time.Now())
	warm.Wait()
	cold.Wait()

	before, killed, stranger := salted(t, known, salts[0]), salted(t, known, salts[1]), salted(t, unknown, salts[1])
	out, own := await(t, c, backend, len(before.Kept().Spans)+len(killed.Kept().Spans)+len(stranger.Kept().Spans))
	assert.Empty(t, own.Losses())
	t.Run("before", func(t *testing.T) { spans.CheckKept(t, before, out.Of(before)) })
	t.Run("known", func(t *testing.T) {
		out := out.Of(killed)
		spans.CheckLogical(t, killed, out)
		spans.CheckShape(t, killed, out)
		assert.Empty(t, out.Dangling())
		checkLatencies(t, killed, out)
	})
	t.Run("unknown", func(t *testing.T) {
		out := out.Of(stranger)
		spans.CheckNoLoss(t, stranger, out)
		assert.Len(t, out.Roots(), len(stranger.Roots()))
		checkLatencies(t, stranger, out)
	})
}

// traffic is engines that send until they are told to stop.
type traffic struct {
	engines []*sender.Engine
	cancel  context.CancelFunc
	done    sync.WaitGroup
}

var trafficCaptures = []string{
	"traces-unified-tp4-level3", "traces-dp-attention-tp4-dp2", "traces-unified-tp1-level3", "traces-pd-prefill-tp2-decode-tp2",
}

func startTraffic(t *testing.T, endpoint string) *traffic {
	t.Helper()
	ctx, cancel := context.WithCancel(context.Background())
	tr := &traffic{cancel: cancel}
	for _, name := range trafficCaptures {
		e := sender.New(t, endpoint, name)
		tr.engines = append(tr.engines, e)
		tr.done.Go(func() {
			for ctx.Err() == nil {
				if e.Play(ctx, rand.Uint64()) > 0 {
					return
				}
			}
		})
	}
	t.Cleanup(tr.stop)
	return tr
}

func (tr *traffic) stop() {
	tr.cancel()
	tr.done.Wait()
}

// lost is what was acknowledged and is not at the sink.
func (tr *traffic) lost(backend *sink.Sink) []string {
	out := spans.TreeOf(backend.Traces()...)
	var lost []string
	for _, e := range tr.engines {
		lost = append(lost, spans.Lost(e.Made(), e.Acknowledged(), out)...)
	}
	return lost
}

func (tr *traffic) acknowledged() int {
	count := 0
	for _, e := range tr.engines {
		count += len(e.Acknowledged().Spans)
	}
	return count
}

// TestTerminate: what was acknowledged before the end has left after it.
func TestTerminate(t *testing.T) {
	t.Parallel()
	backend := sink.Start(t)
	c := agent(t, backend, keepSteps)
	tr := startTraffic(t, c.GRPC)
	const enough = 5000
	require.True(t, tool.Until(outLimit, func() bool { return backend.Count() >= enough }))
	c.Terminate()
	start := time.Now()
	c.WaitStopped()
	took := time.Since(start)
	tr.stop()
	assert.Empty(t, tr.lost(backend))
	t.Logf("%d spans acknowledged, %d left; the end took %s", tr.acknowledged(), backend.Count(), took)
}

// TestOutage: the backend is away for a while, in which the collector is
// restarted and, once its parts have handed on what they held, killed.
func TestOutage(t *testing.T) {
	t.Parallel()
	backend := sink.New(t)
	c := agent(t, backend, keepSteps)
	send := func() *traffic {
		tr := startTraffic(t, c.GRPC)
		require.True(t, tool.Until(outLimit, func() bool { return tr.acknowledged() > 2000 }))
		return tr
	}
	first := send()
	c.Stop()
	first.stop()
	require.Zero(t, backend.Count())
	c.Run()
	second := send()
	second.stop()
	c.Drain(outLimit)
	c.Kill()
	c.Run()
	backend.Start()
	third := send()
	third.stop()
	c.Settle(outLimit)
	assert.Empty(t, first.lost(backend), "before the restart")
	assert.Empty(t, second.lost(backend), "before the kill")
	assert.Empty(t, third.lost(backend), "after")
	t.Logf("%d + %d + %d spans acknowledged, %d left", first.acknowledged(), second.acknowledged(), third.acknowledged(), backend.Count())
}
