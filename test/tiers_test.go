// Copyright The otelcol-sglang Authors
// SPDX-License-Identifier: Apache-2.0

package e2e

import (
	"context"
	"math"
	"math/rand/v2"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/otelcol-sglang/otelcol-sglang/internal/sglang"
	"github.com/otelcol-sglang/otelcol-sglang/test/internal/collector"
	"github.com/otelcol-sglang/otelcol-sglang/test/internal/sender"
	"github.com/otelcol-sglang/otelcol-sglang/test/internal/sink"
	"github.com/otelcol-sglang/otelcol-sglang/test/internal/spans"
)

// gateway starts config/gateway.yaml in front of a sink.
func gateway(t *testing.T, to *sink.Sink, overlay string) *collector.Collector {
	t.Helper()
	return collector.Start(t, collector.Options{Config: "gateway.yaml", Overlay: overlay, Env: to.Env()})
}

// agentFor starts config/agent-gateway.yaml in front of a gateway.
func agentFor(t *testing.T, to *collector.Collector, overlay string) *collector.Collector {
	t.Helper()
	return collector.Start(t, collector.Options{Config: "agent-gateway.yaml", Overlay: overlay, Env: []string{
		"OTLP_ENDPOINT=" + to.GRPC, "OTLP_INSECURE=true",
	}})
}

// ranksOf are the tensor-parallel ranks of a capture's processes; those of the API server
// have none.
func ranksOf(t *testing.T, name string) map[string]int32 {
	t.Helper()
	ranks := map[string]int32{}
	for _, x := range sender.Load(t, name) {
		for s := range spans.All(x.Traces) {
			if s.Kind == sglang.KindThread && sglang.ProcessOf(s.Thread().Label) == sglang.ProcessScheduler {
				ranks[x.Peer] = s.Thread().Ranks.TP
			}
		}
	}
	return ranks
}

// onTwoNodes connects an engine's processes to two agents: the lower half of the
// ranks and the API server to near, the others to far.
func onTwoNodes(t *testing.T, name string, near, far *collector.Collector) *sender.Engine {
	t.Helper()
	ranks := ranksOf(t, name)
	return sender.NewSpread(t, name, func(peer string) string {
		if rank, ok := ranks[peer]; ok && int(rank) >= len(ranks)/2 {
			return far.GRPC
		}
		return near.GRPC
	})
}

func play(t *testing.T, e *sender.Engine, runs int) {
	t.Helper()
	for range runs {
		require.Zero(t, e.Play(context.Background(), rand.Uint64()>>1), "exports that were not taken")
	}
}

// nodes is an engine whose ranks come through two agents.
type nodes struct {
	t         *testing.T
	engine    *sender.Engine
	near, far *collector.Collector
}

// play plays runs and waits until both agents have handed on all. It returns what
// the engine made in them, but for the decode steps, which the agents fold.
func (n *nodes) play(runs int) *spans.Tree {
	n.t.Helper()
	before := n.engine.Made()
	play(n.t, n.engine, runs)
	n.near.Settle(outLimit)
	n.far.Settle(outLimit)
	in := withoutSteps(n.engine.Made())
	for id := range before.Spans {
		delete(in.Spans, id)
	}
	return in
}

// TestEngineOnTwoNodes: the ranks of one engine come through two agents. The
// gateway folds them once, and its digest knows all of them.
func TestEngineOnTwoNodes(t *testing.T) {
	const ranks = 4
	for name, c := range map[string]struct {
		overlay string
		all     bool
	}{
		"as shipped": {"", true},
		// Why a gateway's waits are long: a shorter one lets go of a request before the
		// other node's agent has handed on its ranks. Nothing is lost or left twice, but
		// the digest lacks ranks.
		"waits too short": {"processors: {rankdedup: {wait: 500ms}, genai: {wait: 1s}}\n", false},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			backend := sink.Start(t)
			gw := gateway(t, backend, c.overlay)
			n := &nodes{t: t, near: agentFor(t, gw, ""), far: agentFor(t, gw, "")}
			n.engine = onTwoNodes(t, "traces-unified-tp4-level3", n.near, n.far)
			// Before its first requests nothing says that both nodes' ranks are one engine's.
			cold := n.play(1)
			gw.Settle(outLimit)
			warm := n.play(3)
			own := gw.Settle(outLimit)
			out := spans.TreeOf(backend.Traces()...)
			spans.CheckNoLoss(t, cold, out.Of(cold))
			spans.CheckLogical(t, warm, out.Of(warm))
			spans.CheckShape(t, warm, out.Of(warm))
			least := fewestRanks(out.Of(warm))
			if c.all {
				assert.EqualValues(t, ranks, least)
			} else {
				assert.Less(t, least, int64(ranks))
			}
			assert.Empty(t, own.Losses())
			t.Logf("%d spans of 4 ranks, without their decode steps; %d left", len(warm.Spans), len(out.Of(warm).Spans))
		})
	}
}

// fewestRanks is the least number of ranks that a digest knows.
func fewestRanks(out *spans.Tree) int64 {
	least := int64(math.MaxInt64)
	for _, s := range out.Threads() {
		if sglang.ProcessOf(s.Thread().Label) == sglang.ProcessScheduler {
			count, _ := s.Attributes().Get(sglang.AttrRanksCount)
			least = min(least, count.Int())
		}
	}
	return least
}

// TestDigestOfTwoTiers compares what the gateway says of the ranks of two nodes with
// what one collector says that has them all. An agent hands on one rank's span and the
// spread of its node, so the gateway's skew is the largest of both nodes' spreads and of
// the distance between their kept spans: never more than the true one, and a third
// of it at least. Decode steps are folded at the agents, so they are compared within a
// node.
func TestDigestOfTwoTiers(t *testing.T) {
	t.Parallel()
	const name = "traces-unified-tp4-level3"
	one, two := sink.Start(t), sink.Start(t)
	alone := agent(t, one, "")
	gw := gateway(t, two, "")
	n := &nodes{t: t, near: agentFor(t, gw, ""), far: agentFor(t, gw, "")}
	n.engine = onTwoNodes(t, name, n.near, n.far)
	single := sender.New(t, alone.GRPC, name)
	salts := []uint64{rand.Uint64() >> 1, rand.Uint64() >> 1}
	for _, salt := range salts {
		require.Zero(t, single.Play(context.Background(), salt))
		require.Zero(t, n.engine.Play(context.Background(), salt))
		alone.Settle(outLimit)
		n.near.Settle(outLimit)
		n.far.Settle(outLimit)
		gw.Settle(outLimit)
	}
	warm := salted(t, name, salts[1])
	want, got := spans.TreeOf(one.Traces()...).Of(warm), spans.TreeOf(two.Traces()...)
	const rounding = 1e-9
	compared, sum := 0, 0.0
	for _, thread := range want.Threads() {
		if sglang.ProcessOf(thread.Thread().Label) != sglang.ProcessScheduler {
			continue
		}
		for key, v := range thread.Attributes().All() {
			stage, ok := strings.CutPrefix(key, sglang.AttrRanksSkewPrefix)
			if !ok || stage == sglang.StageDecodeLoop.String() {
				continue
			}
			merged, ok := got.Spans[thread.ID()].Attributes().Get(key)
			require.True(t, ok, "%s of %s", key, thread.ID())
			assert.LessOrEqual(t, merged.Double(), v.Double()+rounding, key)
			assert.GreaterOrEqual(t, merged.Double(), v.Double()/3-rounding, key)
			compared++
			sum += merged.Double() / v.Double()
		}
	}
	assert.Positive(t, compared)
	t.Logf("%d skews, on average %.2f of the true one", compared, sum/float64(compared))
}
