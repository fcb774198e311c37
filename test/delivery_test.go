// Copyright The otelcol-sglang Authors
// SPDX-License-Identifier: Apache-2.0

package e2e

import (
	"context"
	"io/fs"
	"math/rand/v2"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/otelcol-sglang/otelcol-sglang/internal/sglang"
	"github.com/otelcol-sglang/otelcol-sglang/test/internal/collector"
	"github.com/otelcol-sglang/otelcol-sglang/test/internal/sender"
	"github.com/otelcol-sglang/otelcol-sglang/test/internal/sink"
	"github.com/otelcol-sglang/otelcol-sglang/test/internal/spans"
)

// The sentences of docs/delivery.md are these tests and those of robust_test.go and
// kafka_test.go.

// TestTerminateTiers: agent and gateway end by SIGTERM under load, each is started
// again, and nothing that an engine's exporter was told is safe is lost.
func TestTerminateTiers(t *testing.T) {
	t.Parallel()
	const enough = 4000
	backend := sink.Start(t)
	gw := gateway(t, backend, keepSteps)
	a := agentFor(t, gw, keepSteps)

	first := startTraffic(t, a.GRPC).until(t, enough)
	gw.Stop()
	first.until(t, 2*enough) // the agent's queue takes what the gateway doesn't
	gw.Run()
	first.finish()
	second := startTraffic(t, a.GRPC).until(t, enough)
	a.Stop()
	second.finish()
	a.Run()
	a.Settle(outLimit)
	gw.Settle(outLimit)
	out := spans.TreeOf(backend.Traces()...)
	assert.Empty(t, first.lost(out), "the gateway's end")
	assert.Empty(t, second.lost(out), "the agent's end")
	t.Logf("%d spans acknowledged while a gateway ended, %d while an agent did; lost: 0",
		first.acknowledged(), second.acknowledged())
}

// TestKill: a collector is killed that holds roots and thread spans of requests
// in flight. Lost is at most what it says that it holds, and nothing of what came
// before.
func TestKill(t *testing.T) {
	// Long enough for what is held to stay so while the queue empties.
	const overlay = "processors: {rankdedup: {wait: 25s}, genai: {decode_loop: keep, wait: 30s}}\n"
	for _, config := range []string{"agent.yaml", "agent-gateway.yaml", "gateway.yaml"} {
		t.Run(config, func(t *testing.T) {
			t.Parallel()
			backend := sink.Start(t)
			c := collector.Start(t, collector.Options{Config: config, Overlay: overlay, Env: backend.Env()})
			testKill(t, c, backend)
		})
	}
}

func testKill(t *testing.T, c *collector.Collector, backend *sink.Sink) {
	const name, runs = "traces-unified-tp4-level3", 5
	e := sender.New(t, c.GRPC, name)
	play(t, e, 2)
	c.Settle(outLimit)
	before := e.Made()
	// Requests in flight: one rank still computes, and no root has ended.
	kept := lowestRank(t, name)
	for range runs {
		require.Zero(t, e.PlaySome(context.Background(), rand.Uint64()>>1, func(peer string, s spans.Span) bool {
			return s.Kind != sglang.KindRoot && (peer != kept || s.Kind != sglang.KindThread)
		}))
	}
	own := c.Queued(outLimit)
	held := int(own["processor_rankdedup_held_spans"] + own["processor_genai_held_roots"])
	require.Positive(t, held)
	c.Kill()
	c.Run()
	c.Settle(outLimit)
	out, made := spans.TreeOf(backend.Traces()...), e.Made()
	assert.Empty(t, spans.Lost(made, before, out), "what had left")
	lost := spans.Lost(made, e.Acknowledged(), out)
	t.Logf("%d spans of %d requests in flight acknowledged, %d held, %d lost",
		len(e.Acknowledged().Spans)-len(before.Spans), runs*len(before.Roots())/2, held, len(lost))
	assert.NotEmpty(t, lost, "what is held is in memory only")
	assert.LessOrEqual(t, len(lost), held)
}

// TestQueueBound: the backend is away until the queue on disk is full. From then on
// spans are refused, so their senders know; what was acknowledged leaves when the
// backend is back.
func TestQueueBound(t *testing.T) {
	t.Parallel()
	const bound = 2_000_000 // bytes, in place of 256 MiB
	backend := sink.New(t)
	c := agent(t, backend, keepSteps+"exporters: {otlp_grpc: {sending_queue: {queue_size: 2000000}}}\n")
	tr := startTraffic(t, c.GRPC)
	tr.done.Wait() // an engine ends when an export of its was refused
	own, err := c.Telemetry()
	require.NoError(t, err)
	assert.LessOrEqual(t, own["exporter_queue_size"], float64(bound))
	refused := 0
	for _, e := range tr.engines {
		refused += len(e.Made().Spans) - len(e.Acknowledged().Spans)
	}
	assert.Positive(t, refused)
	disk := folder(t, c.Dir)
	backend.Start()
	c.Settle(outLimit)
	out := spans.TreeOf(backend.Traces()...)
	assert.Empty(t, tr.lost(out))
	t.Logf("queue of %d bytes: %.0f used, %d bytes on disk; %d spans acknowledged, %d refused, 0 lost",
		bound, own["exporter_queue_size"], disk, tr.acknowledged(), refused)
}

// folder is the size of all its files, in bytes.
func folder(t *testing.T, dir string) int64 {
	t.Helper()
	var size int64
	require.NoError(t, filepath.WalkDir(dir, func(_ string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() {
			return err
		}
		info, err := d.Info()
		if err == nil {
			size += info.Size()
		}
		return err
	}))
	return size
}
