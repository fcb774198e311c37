// Copyright The otelcol-sglang Authors
// SPDX-License-Identifier: Apache-2.0

package e2e

import (
	"context"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"go.opentelemetry.io/collector/pdata/pcommon"
	"go.opentelemetry.io/collector/pdata/ptrace"
	"go.opentelemetry.io/collector/pdata/ptrace/ptraceotlp"
	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials/insecure"

	"github.com/otelcol-sglang/otelcol-sglang/internal/sglang"
	"github.com/otelcol-sglang/otelcol-sglang/test/internal/collector"
	"github.com/otelcol-sglang/otelcol-sglang/test/internal/sink"
	"github.com/otelcol-sglang/otelcol-sglang/test/internal/spans"
	"github.com/otelcol-sglang/otelcol-sglang/test/internal/tool"
)

const (
	grpcProtocol = "grpc"
	httpProtocol = "http"

	// outLimit is how long the last span may take to the sink: more than
	// rankdedup's learn_wait and genai's wait.
	outLimit = 60 * time.Second
)

// keepSteps lets decode_loop spans leave, so that spans can be compared one by one.
const keepSteps = "processors: {genai: {decode_loop: keep}}\n"

// agent starts config/agent.yaml in front of a sink.
func agent(t *testing.T, to *sink.Sink, overlay string) *collector.Collector {
	t.Helper()
	return collector.Start(t, collector.Options{Config: "agent.yaml", Overlay: overlay, Env: to.Env()})
}

func endpoint(c *collector.Collector, protocol string) string {
	if protocol == httpProtocol {
		return c.HTTP
	}
	return c.GRPC
}

// replay runs sglangctl replay to its end.
func replay(t *testing.T, protocol, endpoint, capture string, seed, repeat int, more ...string) {
	t.Helper()
	args := append([]string{
		"replay", "--captures-dir", filepath.Join(tool.Root(), "testdata", "captures"), "--metrics", "",
		"--captures", capture, "--protocol", protocol, "--endpoint", endpoint,
		"--seed", strconv.Itoa(seed), "--repeat", strconv.Itoa(repeat),
	}, more...)
	out, err := exec.Command(tool.Binary(t, "sglangctl"), args...).CombinedOutput()
	require.NoError(t, err, "sglangctl %v: %s", args, out)
}

// replayed is what a replay with a seed sends: the cold first repetition, the
// warm others.
func replayed(t *testing.T, capture string, seed, repeat int) (cold, warm *spans.Tree) {
	t.Helper()
	once, all := sink.Start(t), sink.Start(t)
	replay(t, grpcProtocol, once.Address, capture, seed, 1, "--speed", "1000")
	replay(t, grpcProtocol, all.Address, capture, seed, repeat, "--speed", "1000")
	cold, warm = spans.TreeOf(once.Traces()...), spans.TreeOf(all.Traces()...)
	for id := range cold.Spans {
		delete(warm.Spans, id)
	}
	return cold, warm
}

// await waits until a sink has so many spans and the collector holds none.
func await(t *testing.T, c *collector.Collector, s *sink.Sink, count int) (*spans.Tree, collector.Own) {
	t.Helper()
	tool.Until(outLimit, func() bool { return s.Count() >= count })
	own := c.Settle(outLimit)
	return spans.TreeOf(s.Traces()...), own
}

// send exports one batch.
func send(t *testing.T, endpoint string, td ptrace.Traces) {
	t.Helper()
	conn, err := grpc.NewClient(endpoint, grpc.WithTransportCredentials(insecure.NewCredentials()), grpc.WithNoProxy())
	require.NoError(t, err)
	defer conn.Close()
	_, err = ptraceotlp.NewGRPCClient(conn).Export(context.Background(), ptraceotlp.NewExportRequestFromTraces(td))
	require.NoError(t, err)
}

// until waits as long as the last span may take.
func until(done func() bool) bool { return tool.Until(outLimit, done) }

// checkRanks: ranks are on the resources, in place of the senders' marks.
func checkRanks(t *testing.T, out *spans.Tree) {
	t.Helper()
	for _, s := range out.Spans {
		thread, ok := out.ThreadOf(s)
		if !ok || thread.Thread().Ranks.TP == sglang.NoRank {
			continue
		}
		rank, _ := s.Resource.Attributes().Get(sglang.AttrResourceTPRank)
		assert.Equal(t, pcommon.NewValueInt(int64(thread.Thread().Ranks.TP)), rank, "tp rank of %s", s.Name())
		_, marked := s.Resource.Attributes().Get(sglang.AttrExporterPeer)
		assert.False(t, marked, "%s still says who sent it", s.Name())
		engine, _ := s.Resource.Attributes().Get(sglang.AttrEngineID)
		assert.NotEmpty(t, engine.AsString(), "engine of %s", s.Name())
	}
}

// checkLatencies: roots carry what their requests have, and nothing else.
func checkLatencies(t *testing.T, in, out *spans.Tree) {
	t.Helper()
	for _, root := range out.Roots() {
		sent := in.Spans[root.ID()]
		if sglang.RoleOf(sent.Name()) == sglang.RoleSender {
			continue // no request of a user
		}
		e2e, ok := spans.Seconds(root, sglang.AttrLatencyE2E)
		assert.True(t, ok, "E2E of %s", root.ID())
		assert.InDelta(t, spans.E2E(sent), e2e, 1e-3)
		ttft, ok := spans.Seconds(root, sglang.AttrLatencyTTFT)
		if ok {
			assert.True(t, spans.MayHaveTTFT(sent), "TTFT of %s %v", root.Name(), root.Attributes().AsRaw())
			assert.Positive(t, ttft)
		} else {
			assert.False(t, spans.WantsTTFT(sent), "no TTFT of %s %v", root.Name(), root.Attributes().AsRaw())
		}
		_, ok = spans.Seconds(root, sglang.AttrOutTPOT)
		assert.Equal(t, ttft > 0 && spans.OutputTokens(sent) > 1, ok, "TPOT of %s %v", root.Name(), root.Attributes().AsRaw())
	}
}

// rankSets are the tensor-parallel ranks whose scheduler threads left, by request.
func rankSets(out *spans.Tree) [][]int32 {
	ranks := map[spans.ID][]int32{}
	for _, s := range out.Threads() {
		if th := s.Thread(); sglang.ProcessOf(th.Label) == sglang.ProcessScheduler {
			ranks[s.Parent()] = append(ranks[s.Parent()], th.Ranks.TP)
		}
	}
	var sets [][]int32
	for _, set := range ranks {
		slices.Sort(set)
		sets = append(sets, set)
	}
	return sets
}
