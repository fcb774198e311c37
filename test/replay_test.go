// Copyright The otelcol-sglang Authors
// SPDX-License-Identifier: Apache-2.0

package e2e

import (
	"fmt"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/otelcol-sglang/otelcol-sglang/internal/capture"
	"github.com/otelcol-sglang/otelcol-sglang/internal/sglang"
	"github.com/otelcol-sglang/otelcol-sglang/test/internal/sender"
	"github.com/otelcol-sglang/otelcol-sglang/test/internal/sink"
	"github.com/otelcol-sglang/otelcol-sglang/test/internal/spans"
)

// TestReplay sends every capture twice on the same connections: the first time
// nothing is known of its processes, the second time all is.
func TestReplay(t *testing.T) {
	for _, protocol := range []string{grpcProtocol, httpProtocol} {
		t.Run(protocol, func(t *testing.T) {
			t.Parallel()
			testReplay(t, protocol)
		})
	}
}

// played is one capture that was sent.
type played struct {
	name       string
	cold, warm *spans.Tree
}

func testReplay(t *testing.T, protocol string) {
	names, err := capture.Names(sender.Captures())
	require.NoError(t, err)
	require.NotEmpty(t, names)
	backend := sink.Start(t)
	c := agent(t, backend, keepSteps)
	var all []played
	kept := 0
	for i, name := range names {
		const repeat = 2
		p := played{name: name}
		p.cold, p.warm = replayed(t, name, i+1, repeat)
		replay(t, protocol, endpoint(c, protocol), name, i+1, repeat)
		kept += len(p.cold.Kept().Spans) + len(p.warm.Kept().Spans)
		all = append(all, p)
	}
	out, own := await(t, c, backend, kept)
	checkOwnTelemetry(t, own)
	var table strings.Builder
	fmt.Fprintf(&table, "%-36s %8s %8s %8s %8s %8s\n", "capture over "+protocol, "requests", "cold in", "out", "warm in", "out")
	for _, p := range all {
		cold, warm := out.Of(p.cold), out.Of(p.warm)
		fmt.Fprintf(&table, "%-36s %8d %8d %8d %8d %8d\n", p.name, len(warm.Roots()),
			len(p.cold.Spans), len(cold.Spans), len(p.warm.Spans), len(warm.Spans))
		t.Run(p.name+"/cold", func(t *testing.T) { checkCapture(t, p.name, p.cold, cold) })
		t.Run(p.name+"/warm", func(t *testing.T) { checkCapture(t, p.name, p.warm, warm) })
	}
	t.Log("spans in and out\n" + table.String())
}

func checkCapture(t *testing.T, name string, in, out *spans.Tree) {
	spans.CheckKept(t, in, out)
	spans.CheckShape(t, in, out)
	checkRanks(t, out)
	checkLatencies(t, in, out)
	switch {
	case name == "traces-dp-attention-tp4-dp2":
		assert.Len(t, rankSets(out), len(in.Roots()))
		for _, ranks := range rankSets(out) {
			assert.Contains(t, [][]int32{{0}, {2}}, ranks)
		}
	case name == "traces-nonstream-tp2-metrics-off":
		checkSchedulersTTFT(t, in, out)
	case strings.HasPrefix(name, "traces-embeddings"):
		for _, root := range out.Roots() {
			_, ok := root.Attributes().Get(sglang.AttrLatencyTTFT)
			assert.False(t, ok, "TTFT of an embedding")
		}
	}
}

// checkSchedulersTTFT: where the engine reports the whole request, the time of
// the kept rank's prefill is told.
func checkSchedulersTTFT(t *testing.T, in, out *spans.Tree) {
	const near = 5e-3
	for _, root := range out.Roots() {
		ttft, ok := spans.Seconds(root, sglang.AttrLatencyTTFT)
		require.True(t, ok)
		want, ok := in.Kept().FirstToken(in.Spans[root.ID()])
		require.True(t, ok)
		assert.InDelta(t, want, ttft, near)
		assert.Less(t, ttft, spans.E2E(root)-near)
	}
}
