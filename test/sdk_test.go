// Copyright The otelcol-sglang Authors
// SPDX-License-Identifier: Apache-2.0

package e2e

import (
	"maps"
	"math/rand/v2"
	"slices"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"go.opentelemetry.io/collector/pdata/pcommon"
	"go.opentelemetry.io/collector/pdata/ptrace"

	"github.com/otelcol-sglang/otelcol-sglang/internal/sglang"
	"github.com/otelcol-sglang/otelcol-sglang/test/internal/sdk"
	"github.com/otelcol-sglang/otelcol-sglang/test/internal/sender"
	"github.com/otelcol-sglang/otelcol-sglang/test/internal/sink"
	"github.com/otelcol-sglang/otelcol-sglang/test/internal/spans"
)

// sdkCaptures are engines that differ in how their ranks relate.
var sdkCaptures = []string{
	"traces-unified-tp4-level3", "traces-dp-attention-tp4-dp2", "traces-pd-prefill-tp2-decode-tp2",
	"traces-unified-tp2-pp2", "traces-retraction-tp2", "traces-nonstream-tp2-metrics-off",
}

// TestSDK runs engines side by side, each of their processes with an
// OpenTelemetry SDK of its own, in front of the settings that ship.
func TestSDK(t *testing.T) {
	for _, protocol := range []string{grpcProtocol, httpProtocol} {
		t.Run(protocol, func(t *testing.T) { testSDK(t, protocol) })
	}
}

func testSDK(t *testing.T, protocol string) {
	backend := sink.Start(t)
	c := agent(t, backend, "")
	salts := []uint64{rand.Uint64() >> 1, rand.Uint64() >> 1}
	var engines []*sdk.Engine
	count := 0
	for _, name := range sdkCaptures {
		engines = append(engines, sdk.Start(t, sdk.Options{
			Capture: name, Protocol: protocol, Endpoint: endpoint(c, protocol), Salts: salts,
		}))
		for _, salt := range salts {
			count += len(withoutSteps(salted(t, name, salt).Kept()).Spans)
		}
	}
	for range salts {
		for _, e := range engines {
			e.Ready()
		}
		for _, e := range engines {
			e.Play(time.Now())
		}
	}
	for _, e := range engines {
		e.Wait()
	}
	out, own := await(t, c, backend, count)
	checkOwnTelemetry(t, own)
	for _, name := range sdkCaptures {
		for i, run := range []string{"cold", "warm"} {
			t.Run(name+"/"+run, func(t *testing.T) {
				in := salted(t, name, salts[i])
				checkSDK(t, in, out.Of(in))
			})
		}
	}
	checkInstances(t, out)
}

func checkSDK(t *testing.T, in, out *spans.Tree) {
	spans.CheckKept(t, withoutSteps(in), out)
	spans.CheckShape(t, in, out)
	checkRanks(t, out)
	checkLatencies(t, in, out)
	checkSteps(t, in.Kept(), out)
}

// salted is what a capture's processes send.
func salted(t *testing.T, name string, salt uint64) *spans.Tree {
	t.Helper()
	var all []ptrace.Traces
	for _, x := range sender.Load(t, name) {
		all = append(all, sender.Salted(x.Traces, salt))
	}
	return spans.TreeOf(all...)
}

// withoutSteps leaves out what genai folds by default.
func withoutSteps(tree *spans.Tree) *spans.Tree {
	kept := &spans.Tree{Spans: maps.Clone(tree.Spans)}
	maps.DeleteFunc(kept.Spans, func(_ spans.ID, s spans.Span) bool {
		return s.Name() == sglang.StageDecodeLoop.String()
	})
	return kept
}

// checkSteps: each decode_forward knows how many steps it had.
func checkSteps(t *testing.T, in, out *spans.Tree) {
	t.Helper()
	steps := map[spans.ID]int64{}
	for _, s := range in.Spans {
		if s.Name() == sglang.StageDecodeLoop.String() {
			steps[s.Parent()]++
		}
	}
	for id, n := range steps {
		got, _ := out.Spans[id].Attributes().Get(sglang.AttrStepsCount)
		assert.Equal(t, pcommon.NewValueInt(n), got, "steps of %s", id)
	}
}

// checkInstances: the SDKs named their processes, and the names leave.
func checkInstances(t *testing.T, out *spans.Tree) {
	t.Helper()
	ranks := map[string][]int64{}
	for _, s := range out.Spans {
		id, ok := s.Resource.Attributes().Get("service.instance.id")
		assert.True(t, ok && id.Str() != "", "instance of %s", s.Name())
		if rank, ok := s.Resource.Attributes().Get(sglang.AttrResourceTPRank); ok {
			ranks[id.Str()] = append(ranks[id.Str()], rank.Int())
		}
	}
	for id, seen := range ranks {
		slices.Sort(seen)
		assert.Len(t, slices.Compact(seen), 1, "ranks of process %s", id)
	}
}
