// Copyright The otelcol-sglang Authors
// SPDX-License-Identifier: Apache-2.0

package e2e

import (
	"math/rand/v2"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"go.opentelemetry.io/collector/pdata/pcommon"
	"go.opentelemetry.io/collector/pdata/ptrace"

	"github.com/otelcol-sglang/otelcol-sglang/internal/sglang"
	"github.com/otelcol-sglang/otelcol-sglang/test/internal/collector"
	"github.com/otelcol-sglang/otelcol-sglang/test/internal/kafka"
	"github.com/otelcol-sglang/otelcol-sglang/test/internal/sender"
	"github.com/otelcol-sglang/otelcol-sglang/test/internal/sink"
	"github.com/otelcol-sglang/otelcol-sglang/test/internal/spans"
)

// TestKafka is run by make e2e-kafka: one broker, and for each test a topic and a
// consumer group.
func TestKafka(t *testing.T) {
	broker := kafka.Start(t)
	for name, test := range map[string]func(*testing.T, kafka.Topic){
		"gateways": testGateways, "rebalance": testRebalance, "marking": testMarking,
		"redelivery": testRedelivery, "large": testLargeTrace,
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			test(t, broker.Topic(name))
		})
	}
}

// kafkaAgent starts config/agent-kafka.yaml.
func kafkaAgent(t *testing.T, topic kafka.Topic, overlay string) *collector.Collector {
	t.Helper()
	return collector.Start(t, collector.Options{Config: "agent-kafka.yaml", Overlay: overlay, Env: topic.Env()})
}

// kafkaGateway starts config/gateway-kafka.yaml in front of a sink.
func kafkaGateway(t *testing.T, topic kafka.Topic, to *sink.Sink, overlay string) *collector.Collector {
	t.Helper()
	return collector.Start(t, collector.Options{
		Config: "gateway-kafka.yaml", Overlay: overlay, Env: append(to.Env(), topic.Env()...),
	})
}

// arrived waits until a tree's kept spans are at the sinks, as this or that copy,
// and returns what is there.
func arrived(t *testing.T, in *spans.Tree, sinks ...*sink.Sink) *spans.Tree {
	t.Helper()
	out := &spans.Tree{}
	until(func() bool {
		out = &spans.Tree{Spans: map[spans.ID]spans.Span{}}
		for _, s := range sinks {
			out.Add(spans.TreeOf(s.Traces()...))
		}
		return len(spans.Lost(in, in, out)) == 0
	})
	spans.CheckNoLoss(t, in, out)
	return out
}

// testGateways: two agents, a broker, two gateways. Each trace leaves at one of
// them, folded once, though its ranks came through both agents.
func testGateways(t *testing.T, topic kafka.Topic) {
	n := &nodes{t: t, near: kafkaAgent(t, topic, ""), far: kafkaAgent(t, topic, "")}
	n.engine = onTwoNodes(t, "traces-unified-tp4-level3", n.near, n.far)
	// What is there before the first gateway is read as well.
	cold := n.play(5)
	backends := []*sink.Sink{sink.Start(t), sink.Start(t)}
	gateways := []*collector.Collector{kafkaGateway(t, topic, backends[0], ""), kafkaGateway(t, topic, backends[1], "")}
	arrived(t, cold, backends...)
	for _, g := range gateways {
		g.Settle(outLimit)
	}
	warm := n.play(6)
	arrived(t, warm, backends...)
	all, traces := &spans.Tree{Spans: map[spans.ID]spans.Span{}}, []map[pcommon.TraceID]bool{{}, {}}
	for i, g := range gateways {
		own := g.Settle(outLimit)
		assert.Empty(t, own.Losses())
		assert.Zero(t, own["kafka_receiver_unmarshal_failed_spans"])
		out := spans.TreeOf(backends[i].Traces()...).Of(warm)
		all.Add(out)
		for id := range out.Spans {
			traces[i][id.Trace] = true
		}
		assert.NotEmpty(t, traces[i], "gateway %d has nothing to do", i)
	}
	spans.CheckLogical(t, warm, all)
	spans.CheckShape(t, warm, all)
	assert.EqualValues(t, 4, fewestRanks(all), "ranks in a digest")
	for id := range traces[0] {
		assert.False(t, traces[1][id], "trace %s is at both gateways", id)
	}
	t.Logf("%d spans of %d traces; %d left, of %d traces at one gateway and %d at the other", len(warm.Spans),
		len(warm.Roots()), len(all.Spans), len(traces[0]), len(traces[1]))
}

// twice counts the requests whose root left more than once, of those in a tree.
func twice(in *spans.Tree, sinks ...*sink.Sink) int {
	roots := map[spans.ID]int{}
	for _, s := range sinks {
		for _, td := range s.Traces() {
			for span := range spans.All(td) {
				if span.Kind == sglang.KindRoot {
					roots[span.ID()]++
				}
			}
		}
	}
	count := 0
	for _, root := range in.Roots() {
		if roots[root.ID()] > 1 {
			count++
		}
	}
	return count
}

// testRebalance: gateways come and go under load. Nothing is lost; a request
// that was in flight may leave in parts or twice, later ones are folded once.
func testRebalance(t *testing.T, topic kafka.Topic) {
	a := kafkaAgent(t, topic, "")
	startTraffic(t, a.GRPC).until(t, 500).finish()
	a.Settle(outLimit)
	backends := []*sink.Sink{sink.Start(t), sink.Start(t)}
	first := kafkaGateway(t, topic, backends[0], "")

	// One joins.
	joining := startTraffic(t, a.GRPC).until(t, 3000)
	second := kafkaGateway(t, topic, backends[1], "")
	joining.until(t, 6000).finish()
	checkRebalanced(t, "a gateway joins", joining, a, backends, first, second)

	// One leaves as an operator stops it.
	leaving := startTraffic(t, a.GRPC).until(t, 3000)
	first.Stop()
	leaving.until(t, 6000).finish()
	checkRebalanced(t, "a gateway leaves", leaving, a, backends, second)

	// One is killed. What it held of requests in flight is lost, and what it had read in
	// the last second and not committed is read again.
	first.Run()
	steady(t, a, backends, first, second)
	killed := startTraffic(t, a.GRPC).until(t, 3000)
	second.Kill()
	killed.until(t, 6000).finish()
	steady(t, a, backends, first)
	second.Run() // what is in its queue leaves
	steady(t, a, backends, first, second)
	checkKilled(t, killed, backends)
}

// checkKilled: of what a killed gateway had taken only roots and thread spans can
// be lost, which wait for the rest of their requests.
func checkKilled(t *testing.T, tr *traffic, backends []*sink.Sink) {
	t.Helper()
	out := &spans.Tree{Spans: map[spans.ID]spans.Span{}}
	for _, s := range backends {
		out.Add(spans.TreeOf(s.Traces()...))
	}
	lost, again, requests := 0, 0, 0
	for _, e := range tr.engines {
		in := withoutSteps(e.Made())
		logical := in.Logical()
		gone := map[string]bool{}
		for _, name := range spans.Lost(in, in, out) {
			gone[name] = true
		}
		for id, s := range in.Spans {
			if gone[logical[id]] {
				assert.Contains(t, []sglang.SpanKind{sglang.KindRoot, sglang.KindThread}, s.Kind, "%s is lost", s.Name())
			}
		}
		lost += len(gone)
		again += len(out.Of(in).Twice)
		requests += len(in.Roots())
	}
	t.Logf("a gateway is killed: %d requests, %d roots and thread spans lost, %d spans left twice", requests, lost, again)
}

func checkRebalanced(t *testing.T, what string, tr *traffic, a *collector.Collector, backends []*sink.Sink, gateways ...*collector.Collector) {
	t.Helper()
	a.Settle(outLimit)
	left, again, requests := 0, 0, 0
	for _, e := range tr.engines {
		made := withoutSteps(e.Made())
		left += len(arrived(t, made, backends...).Of(made).Twice)
		again += twice(made, backends...)
		requests += len(made.Roots())
	}
	for _, g := range gateways {
		g.Settle(outLimit)
	}
	t.Logf("%s: %d requests, %d of them left twice, %d spans in all", what, requests, again, left)
}

// steady: once the group has settled requests leave once, at one gateway.
func steady(t *testing.T, a *collector.Collector, backends []*sink.Sink, gateways ...*collector.Collector) {
	t.Helper()
	const name = "traces-unified-tp4-level3"
	e := sender.New(t, a.GRPC, name)
	play(t, e, 4) // both gateways get to know the engine
	a.Settle(outLimit)
	arrived(t, withoutSteps(e.Made()), backends...)
	before := e.Made()
	play(t, e, 4)
	a.Settle(outLimit)
	in := withoutSteps(e.Made())
	for id := range before.Spans {
		delete(in.Spans, id)
	}
	arrived(t, in, backends...)
	for _, g := range gateways {
		g.Settle(outLimit)
	}
	out := arrived(t, in, backends...).Of(in)
	spans.CheckLogical(t, in, out)
	assert.Empty(t, out.Twice)
	assert.Zero(t, twice(in, backends...))
}

// testMarking: a gateway whose backend and queue take nothing is killed. What
// it had not taken was not marked as read, so its successor reads it again; lost
// is at most what it had taken, into its processors or its queue (which is in
// memory here).
func testMarking(t *testing.T, topic kafka.Topic) {
	const name, runs = "traces-unified-tp4-level3", 20
	a := kafkaAgent(t, topic, keepSteps)
	e := sender.New(t, a.GRPC, name)
	play(t, e, runs)
	a.Settle(outLimit)
	full := kafkaGateway(t, topic, sink.New(t), keepSteps+`
exporters:
  otlp_grpc: {sending_queue: {storage: null, queue_size: 20000, batch: {min_size: 0, max_size: 0}}}
`)
	taken := stuck(t, full)
	full.Kill()

	backend := sink.Start(t)
	next := kafkaGateway(t, topic, backend, keepSteps)
	require.True(t, until(func() bool {
		own, err := next.Telemetry()
		return err == nil && own["receiver_accepted_spans"] > 0
	}))
	after := next.Settle(outLimit)
	made := e.Made()
	lost := spans.Lost(made, made, spans.TreeOf(backend.Traces()...))
	t.Logf("%d spans made; the killed gateway took %d; its successor %.0f; lost %d",
		len(made.Spans), taken, after["receiver_accepted_spans"], len(lost))
	assert.LessOrEqual(t, len(lost), taken)
}

// stuck waits until a gateway refuses and takes nothing more, and returns how many
// spans it took.
func stuck(t *testing.T, c *collector.Collector) int {
	t.Helper()
	const enough = 20
	taken, looks := -1.0, 0
	require.True(t, until(func() bool {
		own, err := c.Telemetry()
		if err != nil || own["exporter_enqueue_failed_spans"] == 0 || own["receiver_accepted_spans"] != taken {
			taken, looks = own["receiver_accepted_spans"], 0
			return false
		}
		looks++
		return looks >= enough
	}), "the gateway does not refuse")
	return int(taken)
}

// testRedelivery: a gateway is killed that has read and handed on requests but not
// committed that it has, as in the second before a commit. Its successor hands them on
// again, and folds later ones once.
func testRedelivery(t *testing.T, topic kafka.Topic) {
	const name, runs = "traces-unified-tp4-level3", 3
	a := kafkaAgent(t, topic, "")
	e := sender.New(t, a.GRPC, name)
	play(t, e, runs)
	a.Settle(outLimit)
	again := withoutSteps(e.Made())
	backend := sink.Start(t)
	first := kafkaGateway(t, topic, backend, "receivers: {kafka: {autocommit: {interval: 1h}}}\n")
	arrived(t, again, backend)
	first.Settle(outLimit)
	require.Zero(t, twice(again, backend))
	first.Kill()
	second := kafkaGateway(t, topic, backend, "")
	require.True(t, until(func() bool { return twice(again, backend) == len(again.Roots()) }), "%d twice", twice(again, backend))
	second.Settle(outLimit)
	play(t, e, runs)
	a.Settle(outLimit)
	later := withoutSteps(e.Made())
	for id := range again.Spans {
		delete(later.Spans, id)
	}
	arrived(t, later, backend)
	second.Settle(outLimit)
	out := spans.TreeOf(backend.Traces()...).Of(later)
	spans.CheckLogical(t, later, out)
	assert.Empty(t, out.Twice)
	t.Logf("%d requests that were not committed left twice, %d later ones once", len(again.Roots()), len(later.Roots()))
}

// testLargeTrace: a trace larger than a message may be leaves in several; a
// span that is larger than that by itself is lost, which the log says, and nothing
// else with it.
func testLargeTrace(t *testing.T, topic kafka.Topic) {
	const count, size = 40, 100_000
	backend := sink.Start(t)
	a := kafkaAgent(t, topic, "")
	send(t, a.GRPC, largeTrace(count, size))
	own := a.Settle(outLimit)
	assert.Empty(t, own.Losses())
	gw := kafkaGateway(t, topic, backend, "")
	require.True(t, until(func() bool { return backend.Count() == count }), "%d of %d spans", backend.Count(), count)

	send(t, a.GRPC, largeTrace(1, 1_200_000))
	send(t, a.GRPC, largeTrace(5, size))
	require.True(t, until(func() bool { return backend.Count() == count+5 }), "%d spans", backend.Count())
	// No counter of the Collector's knows it; the log does, at the level that ships.
	assert.Contains(t, a.Log(), "dropping items: 1")
	a.Settle(outLimit)
	gw.Settle(outLimit)
}

// largeTrace is one trace of spans of a foreign scope, each with so many bytes.
func largeTrace(count, size int) ptrace.Traces {
	td := ptrace.NewTraces()
	ss := td.ResourceSpans().AppendEmpty().ScopeSpans().AppendEmpty()
	trace := pcommon.TraceID{15: byte(rand.IntN(255) + 1), 14: byte(rand.IntN(255))}
	for i := range count {
		s := ss.Spans().AppendEmpty()
		s.SetTraceID(trace)
		s.SetSpanID(pcommon.SpanID{byte(i + 1), byte(rand.IntN(256)), byte(rand.IntN(256))})
		s.SetName("large")
		s.Attributes().PutStr("payload", strings.Repeat("x", size))
	}
	return td
}
