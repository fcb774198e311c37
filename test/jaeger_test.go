// Copyright The otelcol-sglang Authors
// SPDX-License-Identifier: Apache-2.0

package e2e

import (
	"fmt"
	"math/rand/v2"
	"net/url"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/otelcol-sglang/otelcol-sglang/internal/sglang"
	"github.com/otelcol-sglang/otelcol-sglang/test/internal/collector"
	"github.com/otelcol-sglang/otelcol-sglang/test/internal/jaeger"
	"github.com/otelcol-sglang/otelcol-sglang/test/internal/sdk"
	"github.com/otelcol-sglang/otelcol-sglang/test/internal/spans"
)

// tp4Tree is what a user of Jaeger sees of a request of an engine with four ranks.
const tp4Tree = `
sglang: request
  sglang: Tokenizer
    sglang: tokenize
    sglang: api_server_dispatch
  sglang: Scheduler
    sglang: request_process
    sglang: prefill_waiting
    sglang: prefill_forward
    sglang: decode_forward
`

// TestJaeger is run by make e2e-jaeger: engine processes with the real SDK, the
// agent as shipped, Jaeger, and what its user interface shows.
func TestJaeger(t *testing.T) {
	const tp4, pd = "traces-unified-tp4-level3", "traces-pd-prefill-tp2-decode-tp2"
	server := jaeger.Start(t)
	c := collector.Start(t, collector.Options{Config: "agent.yaml", Env: server.Env()})
	salts := []uint64{rand.Uint64() >> 1, rand.Uint64() >> 1}
	engines := map[string]*sdk.Engine{}
	for _, name := range []string{tp4, pd} {
		engines[name] = sdk.Start(t, sdk.Options{Capture: name, Protocol: grpcProtocol, Endpoint: c.GRPC, Salts: salts})
	}
	for range salts {
		for _, e := range engines {
			e.Ready()
			e.Play(time.Now())
		}
	}
	for _, e := range engines {
		e.Wait()
	}
	assert.Empty(t, c.Settle(outLimit).Losses())
	assert.Contains(t, server.Services(), "sglang")
	for name := range engines {
		for _, salt := range salts {
			in := salted(t, name, salt)
			t.Run(name, func(t *testing.T) { checkWaterfalls(t, server, in) })
		}
	}
	for _, root := range salted(t, tp4, salts[1]).Roots() {
		trace, ok := server.Trace(root.TraceID().String())
		require.True(t, ok)
		assert.Equal(t, strings.TrimLeft(tp4Tree, "\n"), trace.Tree())
	}
	t.Run("search", func(t *testing.T) { checkSearch(t, server, salted(t, tp4, salts[0])) })
}

// checkWaterfalls: each trace is whole, and Jaeger finds nothing wrong with it but
// that the caller's span, whose traceparent the request had, is not there.
func checkWaterfalls(t *testing.T, server *jaeger.Server, in *spans.Tree) {
	want := map[string]int{}
	for id := range withoutSteps(in).Kept().Spans {
		want[id.Trace.String()]++
	}
	for id, count := range want {
		trace, ok := server.Trace(id)
		require.True(t, ok, "trace %s", id)
		assert.Len(t, trace.Spans, count, "spans of %s:\n%s", id, trace.Tree())
		have := map[string]bool{}
		for _, s := range trace.Spans {
			have[s.SpanID] = true
		}
		for _, s := range trace.Spans {
			if s.OperationName == sglang.SpanNameRequest && s.Parent() != "" {
				continue
			}
			assert.Empty(t, s.Warnings, s.OperationName)
			for _, r := range s.References {
				assert.True(t, r.TraceID != trace.TraceID || have[r.SpanID], "%s of %s leads nowhere", r.RefType, s.OperationName)
			}
		}
	}
}

// checkSearch: requests are found by what the search form offers, and say their latency.
func checkSearch(t *testing.T, server *jaeger.Server, in *spans.Tree) {
	found := server.Search(url.Values{
		"service": {"sglang"}, "operation": {"request"}, "limit": {"100"}, "lookback": {"1h"},
		"tags": {`{"sglang.request.completeness":"complete"}`},
	})
	ids := map[string]jaeger.Trace{}
	for _, trace := range found {
		ids[fmt.Sprintf("%032s", trace.TraceID)] = trace // the engine's ids begin with zeros, which Jaeger leaves out
	}
	for _, root := range in.Roots() {
		trace, ok := ids[root.TraceID().String()]
		require.True(t, ok, "%s is not found", root.TraceID())
		for _, s := range trace.Spans {
			if s.Parent() == "" {
				assert.Positive(t, s.Tag(sglang.AttrLatencyTTFT), "TTFT of %s", trace.TraceID)
			}
		}
	}
}
