// Copyright The otelcol-sglang Authors
// SPDX-License-Identifier: Apache-2.0

package e2e

import (
	"context"
	"math/rand/v2"
	"os"
	"path/filepath"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"go.opentelemetry.io/collector/pdata/ptrace"

	"github.com/otelcol-sglang/otelcol-sglang/internal/capture"
	"github.com/otelcol-sglang/otelcol-sglang/internal/sglang"
	"github.com/otelcol-sglang/otelcol-sglang/test/internal/collector"
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
	over    atomic.Bool
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
			for !tr.over.Load() && e.Play(ctx, rand.Uint64()) == 0 {
				continue
			}
		})
	}
	t.Cleanup(tr.cut)
	return tr
}

// finish lets the engines finish the requests that are under way.
func (tr *traffic) finish() {
	tr.over.Store(true)
	tr.done.Wait()
}

// cut ends the engines at once, in the middle of requests and exports.
func (tr *traffic) cut() {
	tr.over.Store(true)
	tr.cancel()
	tr.done.Wait()
}

// lost is what was acknowledged and has not left.
func (tr *traffic) lost(out *spans.Tree) []string {
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

// until waits until so many spans were acknowledged.
func (tr *traffic) until(t *testing.T, count int) *traffic {
	t.Helper()
	require.True(t, tool.Until(outLimit, func() bool { return tr.acknowledged() >= count }))
	return tr
}

// TestTerminate: what was acknowledged before SIGTERM has left after the end, to
// the file of quickstart.yaml, or waits on disk, in the queue of agent.yaml.
func TestTerminate(t *testing.T) {
	const enough = 5000
	t.Run("quickstart", func(t *testing.T) {
		t.Parallel()
		c := collector.Start(t, collector.Options{Config: "quickstart.yaml", Overlay: keepSteps})
		tr := startTraffic(t, c.GRPC).until(t, enough)
		c.Stop()
		tr.finish()
		out := spans.TreeOf(written(t, c)...)
		assert.Empty(t, tr.lost(out), "%d spans were acknowledged, %d left", tr.acknowledged(), len(out.Spans))
	})
	t.Run("agent", func(t *testing.T) {
		t.Parallel()
		backend := sink.Start(t)
		c := agent(t, backend, keepSteps)
		tr := startTraffic(t, c.GRPC).until(t, enough)
		c.Stop()
		tr.finish()
		c.Run()
		c.Settle(outLimit)
		out := spans.TreeOf(backend.Traces()...)
		assert.Empty(t, tr.lost(out), "%d spans were acknowledged, %d left", tr.acknowledged(), len(out.Spans))
	})
}

// written reads what quickstart.yaml's file exporter wrote.
func written(t *testing.T, c *collector.Collector) []ptrace.Traces {
	t.Helper()
	files, err := filepath.Glob(filepath.Join(c.Dir, "traces*.jsonl"))
	require.NoError(t, err)
	var all []ptrace.Traces
	for _, name := range files {
		f, err := os.Open(name)
		require.NoError(t, err)
		defer f.Close()
		require.NoError(t, capture.ReadTraces(f, func(td ptrace.Traces) error {
			all = append(all, td)
			return nil
		}))
	}
	return all
}

// TestOutage: the backend is away for a while, in which the collector is
// restarted and, once its parts have handed on what they held, killed.
func TestOutage(t *testing.T) {
	t.Parallel()
	const enough = 2000
	backend := sink.New(t)
	c := agent(t, backend, keepSteps)
	first := startTraffic(t, c.GRPC).until(t, enough)
	c.Stop()
	first.finish()
	c.Run()
	second := startTraffic(t, c.GRPC).until(t, enough)
	second.finish()
	c.Drain(outLimit)
	c.Kill()
	require.Zero(t, backend.Count())
	c.Run()
	backend.Start()
	third := startTraffic(t, c.GRPC).until(t, enough)
	third.finish()
	c.Settle(outLimit)
	out := spans.TreeOf(backend.Traces()...)
	assert.Empty(t, first.lost(out), "before the restart")
	assert.Empty(t, second.lost(out), "before the kill")
	assert.Empty(t, third.lost(out), "after")
}

// TestCutOff: engines end in the middle of requests. What they had sent leaves
// within the processors' waits, and nothing stays behind.
func TestCutOff(t *testing.T) {
	t.Parallel()
	const times, enough = 5, 1000
	backend := sink.Start(t)
	c := agent(t, backend, keepSteps)
	var all []*traffic
	for range times {
		tr := startTraffic(t, c.GRPC).until(t, enough)
		tr.cut()
		all = append(all, tr)
	}
	own := c.Settle(outLimit)
	assert.Empty(t, own.Losses())
	out := spans.TreeOf(backend.Traces()...)
	for _, tr := range all {
		assert.Empty(t, tr.lost(out))
	}
}

// TestVanished: all of an engine's processes end before the rank whose copies
// are kept has sent anything of a request. What the others had sent leaves.
func TestVanished(t *testing.T) {
	t.Parallel()
	const name = "traces-unified-tp4-level3"
	backend := sink.Start(t)
	c := agent(t, backend, keepSteps)
	e := sender.New(t, c.GRPC, name)
	require.Zero(t, e.Play(context.Background(), rand.Uint64()))
	kept := lowestRank(t, name)
	require.Zero(t, e.PlaySome(context.Background(), rand.Uint64(), func(peer string, s spans.Span) bool {
		return peer != kept && s.Kind == sglang.KindSlice
	}))
	own := c.Settle(outLimit)
	assert.Empty(t, own.Losses())
	assert.Empty(t, spans.Lost(e.Made(), e.Acknowledged(), spans.TreeOf(backend.Traces()...)))
}
