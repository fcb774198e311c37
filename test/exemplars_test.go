// Copyright The otelcol-sglang Authors
// SPDX-License-Identifier: Apache-2.0

package e2e

import (
	"io"
	"math/rand/v2"
	"net/http"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"go.opentelemetry.io/collector/pdata/ptrace/ptraceotlp"
	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials/insecure"

	"github.com/otelcol-sglang/otelcol-sglang/internal/sglang"
	"github.com/otelcol-sglang/otelcol-sglang/test/internal/collector"
	"github.com/otelcol-sglang/otelcol-sglang/test/internal/engine"
	"github.com/otelcol-sglang/otelcol-sglang/test/internal/prometheus"
	"github.com/otelcol-sglang/otelcol-sglang/test/internal/sink"
	"github.com/otelcol-sglang/otelcol-sglang/test/internal/spans"
	"github.com/otelcol-sglang/otelcol-sglang/test/internal/tool"
)

// sending is a rig whose collector is an agent.
func sending(t *testing.T, c *collector.Collector, backend *sink.Sink) *samplingRig {
	t.Helper()
	conn, err := grpc.NewClient(c.GRPC, grpc.WithTransportCredentials(insecure.NewCredentials()), grpc.WithNoProxy())
	require.NoError(t, err)
	t.Cleanup(func() { _ = conn.Close() })
	return &samplingRig{t: t, to: ptraceotlp.NewGRPCClient(conn), sink: backend}
}

// request sends a whole request.
func (r *samplingRig) request(s *sampled) {
	r.t.Helper()
	r.send(s.begin())
	r.send(s.end())
}

// TestExemplars: from a bucket of a slow percentile in Prometheus to the request
// that fell into it, which is in the backend.
func TestExemplars(t *testing.T) {
	t.Parallel()
	backend := sink.Start(t)
	c := agent(t, backend, "connectors: {genaimetrics: {interval: 500ms}}\n")
	p := prometheus.Start(t, c.Metrics)
	r, ids := sending(t, c, backend), rand.New(rand.NewPCG(3, 5))
	for range 20 {
		r.request(newSampled(ids))
	}
	slow, retracted := newSampled(ids), newSampled(ids).external()
	slow.wait, slow.first, slow.skew = 2000, 2345, 0.7
	retracted.first, retracted.retract = 30_000, true
	r.request(slow)
	r.request(retracted)

	for _, want := range []struct {
		name, le, stage string
		of              *sampled
		value           float64
	}{
		{sglang.MetricTTFT, "2.5", "", slow, 2.345},
		{sglang.MetricTTFT, "40", "", retracted, 30},
		{sglang.MetricRequestDuration, "5.12", "", slow, 2.796},
		{sglang.MetricRequestDuration, "40.96", "", retracted, 30.451},
		{sglang.MetricTPOT, "0.075", "", nil, 0.451 / 9},
		{sglang.MetricStageDuration, "2.5", "queue", slow, 2},
		{sglang.MetricSpanRanksSkew, "1", "", slow, 0.7},
	} {
		name := promName(want.name) + "_bucket"
		var found *prometheus.Exemplar
		ok := tool.Until(pageLimit, func() bool {
			found = exemplarOf(p.Exemplars(name), want.le, want.stage)
			return found != nil
		})
		if !assert.True(t, ok, "no exemplar of %s in %v", name, p.Exemplars(name)) {
			continue
		}
		assert.InDelta(t, want.value, found.Value, 1e-6, name)
		if want.of != nil {
			assert.Equal(t, want.of.trace.String(), found.Labels["trace_id"], name)
		}
		root := r.spanOf(found.Labels["trace_id"], found.Labels["span_id"])
		assert.True(t, root, "the span of %v is not in the backend", found)
	}
}

// promName is a metric's name on the exporter's page.
func promName(name string) string { return strings.ReplaceAll(name, ".", "_") }

func exemplarOf(all []prometheus.Exemplar, le, stage string) *prometheus.Exemplar {
	want, _ := strconv.ParseFloat(le, 64)
	for i := range all {
		bound, err := strconv.ParseFloat(all[i].Series["le"], 64)
		if err == nil && bound == want && all[i].Series["stage"] == stage {
			return &all[i]
		}
	}
	return nil
}

// spanOf waits until a span is in the backend.
func (r *samplingRig) spanOf(trace, span string) bool {
	return tool.Until(10*time.Second, func() bool {
		for _, td := range r.sink.Traces() {
			for s := range spans.All(td) {
				if s.TraceID().String() == trace && s.SpanID().String() == span {
					return true
				}
			}
		}
		return false
	})
}

// TestSpansAndPage: a page that counts requests without any span is told of, and
// no longer once the spans come.
func TestSpansAndPage(t *testing.T) {
	t.Parallel()
	const page = "metrics-unified-tp1"
	e := engine.Start(t, engine.Page(t, page+".t0"))
	backend := sink.Start(t)
	c := agent(t, backend, "receivers: {sglang: {collection_interval: 500ms, engines: [{endpoint: 'http://"+e.Address+"'}]}}\n")
	require.True(t, tool.Until(pageLimit, func() bool { return e.Scrapes() >= 3 }), "the engine is not scraped")
	e.Show(engine.Page(t, page+".t2"))

	const patience = 60 * time.Second
	assert.True(t, tool.Until(patience+pageLimit, func() bool { return engineState(t, c, "page_only", e.Address) }), "a page without spans")
	r := sending(t, c, backend)
	r.request(newSampled(rand.New(rand.NewPCG(1, 2))))
	assert.True(t, tool.Until(outLimit, func() bool { return engineState(t, c, "both", e.Address) }), "a page with spans")
	assert.False(t, engineState(t, c, "page_only", e.Address))
}

// engineState: the collector's own telemetry says so of the page.
func engineState(t *testing.T, c *collector.Collector, state, page string) bool {
	t.Helper()
	resp, err := http.Get("http://" + c.Own + "/metrics")
	require.NoError(t, err)
	defer resp.Body.Close()
	body, err := io.ReadAll(resp.Body)
	require.NoError(t, err)
	for _, m := range engine.Families(t, string(body))["otelcol_processor_genai_engines"].GetMetric() {
		if labels := labelsOf(m); labels["state"] == state && labels["page"] == page {
			return m.GetGauge().GetValue() == 1
		}
	}
	return false
}
