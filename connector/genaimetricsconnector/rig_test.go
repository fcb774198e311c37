// Copyright The otelcol-sglang Authors
// SPDX-License-Identifier: Apache-2.0

package genaimetricsconnector

import (
	"context"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"
	"go.opentelemetry.io/collector/component/componenttest"
	"go.opentelemetry.io/collector/consumer"
	"go.opentelemetry.io/collector/consumer/consumertest"
	"go.opentelemetry.io/collector/pdata/pcommon"
	"go.opentelemetry.io/collector/pdata/pmetric"
	"go.opentelemetry.io/collector/pdata/ptrace"
	"go.opentelemetry.io/otel/sdk/metric/metricdata"

	"github.com/otelcol-sglang/otelcol-sglang/connector/genaimetricsconnector/internal/metadatatest"
	"github.com/otelcol-sglang/otelcol-sglang/internal/sglang"
)

// rig is a started connector; it must be used inside a synctest bubble.
type rig struct {
	t    testing.TB
	c    *metricsConnector
	sink *consumertest.MetricsSink
	tel  *componenttest.Telemetry
}

func newRig(t testing.TB, next consumer.Metrics, change func(*Config)) *rig {
	t.Helper()
	r := &rig{t: t, sink: new(consumertest.MetricsSink), tel: componenttest.NewTelemetry()}
	cfg := createDefaultConfig().(*Config)
	if change != nil {
		change(cfg)
	}
	require.NoError(t, cfg.Validate())
	if next == nil {
		next = r.sink
	}
	c, err := newConnector(metadatatest.NewSettings(r.tel), cfg, next)
	require.NoError(t, err)
	require.NoError(t, c.Start(context.Background(), componenttest.NewNopHost()))
	r.c = c
	return r
}

func (r *rig) send(batches ...ptrace.Traces) {
	r.t.Helper()
	for _, td := range batches {
		require.NoError(r.t, r.c.ConsumeTraces(context.Background(), td))
	}
}

func (r *rig) close() {
	r.t.Helper()
	require.NoError(r.t, r.c.Shutdown(context.Background()))
	require.NoError(r.t, r.tel.Shutdown(context.Background()))
}

// flushed waits for the next flush and returns what left.
func (r *rig) flushed() pmetric.Metrics {
	r.t.Helper()
	synctest.Wait() // a flush of this very moment
	r.sink.Reset()
	<-time.After(r.c.interval)
	synctest.Wait()
	require.Len(r.t, r.sink.AllMetrics(), 1)
	return r.sink.AllMetrics()[0]
}

// total is the sum of one of the connector's own metrics, over all attributes or
// those with the value.
func (r *rig) total(name, value string) int64 {
	m, err := r.tel.GetMetric("otelcol_connector_genaimetrics_" + name)
	if err != nil {
		return 0
	}
	var points []metricdata.DataPoint[int64]
	switch data := m.Data.(type) {
	case metricdata.Sum[int64]:
		points = data.DataPoints
	case metricdata.Gauge[int64]:
		points = data.DataPoints
	}
	var sum int64
	for _, dp := range points {
		match := value == ""
		for _, kv := range dp.Attributes.ToSlice() {
			match = match || kv.Value.AsString() == value
		}
		if match {
			sum += dp.Value
		}
	}
	return sum
}

// point is one data point of any kind.
type point struct {
	resource, attrs map[string]any
	start, at       time.Time
	count           uint64
	sum             float64
	buckets         []uint64
	exemplars       int
}

func pointsOf(md pmetric.Metrics, name string) []point {
	var out []point
	for _, rm := range md.ResourceMetrics().All() {
		for _, sm := range rm.ScopeMetrics().All() {
			for _, m := range sm.Metrics().All() {
				if m.Name() == name {
					out = append(out, metricPoints(rm.Resource().Attributes().AsRaw(), m)...)
				}
			}
		}
	}
	return out
}

func metricPoints(resource map[string]any, m pmetric.Metric) []point {
	var out []point
	add := func(attrs pcommon.Map, start, at pcommon.Timestamp) *point {
		out = append(out, point{resource: resource, attrs: attrs.AsRaw(), start: start.AsTime(), at: at.AsTime()})
		return &out[len(out)-1]
	}
	switch m.Type() {
	case pmetric.MetricTypeSum:
		for _, dp := range m.Sum().DataPoints().All() {
			add(dp.Attributes(), dp.StartTimestamp(), dp.Timestamp()).sum = float64(dp.IntValue())
		}
	case pmetric.MetricTypeHistogram:
		for _, dp := range m.Histogram().DataPoints().All() {
			p := add(dp.Attributes(), dp.StartTimestamp(), dp.Timestamp())
			p.count, p.sum, p.buckets, p.exemplars = dp.Count(), dp.Sum(), dp.BucketCounts().AsRaw(), dp.Exemplars().Len()
		}
	case pmetric.MetricTypeExponentialHistogram:
		for _, dp := range m.ExponentialHistogram().DataPoints().All() {
			p := add(dp.Attributes(), dp.StartTimestamp(), dp.Timestamp())
			p.count, p.sum, p.buckets, p.exemplars = dp.Count(), dp.Sum(), dp.Positive().BucketCounts().AsRaw(), dp.Exemplars().Len()
		}
	}
	return out
}

// one is the metric's only point.
func one(t testing.TB, md pmetric.Metrics, name string) point {
	t.Helper()
	points := pointsOf(md, name)
	require.Len(t, points, 1, name)
	return points[0]
}

func totals(md pmetric.Metrics, name string) (count uint64, sum float64) {
	for _, p := range pointsOf(md, name) {
		count += p.count
		sum += p.sum
	}
	return count, sum
}

// root is a request's root as genai leaves it; change alters it.
func root(n int, change func(ptrace.Span)) ptrace.Traces {
	td := ptrace.NewTraces()
	rs := td.ResourceSpans().AppendEmpty()
	rs.Resource().Attributes().PutStr("service.name", "sglang")
	rs.Resource().Attributes().PutStr("service.instance.id", "6d9c4d8b-8494-4720-b24b-9eff05d8d034")
	ss := rs.ScopeSpans().AppendEmpty()
	ss.Scope().SetName(sglang.ScopeName)
	span := ss.Spans().AppendEmpty()
	span.SetName("request")
	span.SetTraceID([16]byte{8: 1, 12: byte(n >> 24), 13: byte(n >> 16), 14: byte(n >> 8), 15: byte(n)})
	span.SetSpanID([8]byte{0: 1, 4: byte(n >> 24), 5: byte(n >> 16), 6: byte(n >> 8), 7: byte(n)})
	a := span.Attributes()
	a.PutStr("rid", "1")
	a.PutStr("module", sglang.ModuleRequest)
	a.PutStr(sglang.AttrRequestID, "chatcmpl-48ec6ace5a1d4f0fa52fcf4f60e6b2f1")
	a.PutStr(sglang.AttrResponseModel, "meta-llama/Llama-3.1-8B-Instruct")
	a.PutInt(sglang.AttrPromptTokens, 300)
	a.PutInt(sglang.AttrCompletionTokens, 101)
	a.PutInt(sglang.AttrCachedTokens, 64)
	a.PutDouble(sglang.AttrLatencyTTFT, 0.25)
	a.PutDouble(sglang.AttrLatencyE2E, 1.25)
	a.PutDouble(sglang.AttrLatencyInDecode, 1)
	a.PutDouble(sglang.AttrLatencyInPrefill, 0.24)
	a.PutDouble(sglang.AttrLatencyInInference, 1.24)
	a.PutStr(sglang.AttrOriginalName, " Req 48ec6ace")
	a.PutDouble(sglang.AttrOutTPOT, 0.01)
	a.PutDouble(sglang.AttrLatencyInQueue, 0.125)
	a.PutStr(sglang.AttrTTFTSource, sglang.TTFTSourceEngine)
	a.PutInt(sglang.AttrRetractions, 0)
	for stage, seconds := range map[string]float64{
		"tokenize": 0.0625, "dispatch": 0.03125, "intake": 0.015625, "queue": 0.125, "prefill": 0.015625, "decode": 0.9375, "finish": 0.0625,
	} {
		a.PutDouble(sglang.AttrBudgetPrefix+stage, seconds)
	}
	a.PutStr(sglang.AttrProviderName, sglang.ProviderSGLang)
	a.PutStr(sglang.AttrOperationName, sglang.OperationChat)
	a.PutStr(sglang.AttrRequestModel, "meta-llama/Llama-3.1-8B-Instruct")
	a.PutInt(sglang.AttrInputTokens, 300)
	a.PutInt(sglang.AttrOutputTokens, 101)
	a.PutInt(sglang.AttrCacheReadInputTokens, 64)
	a.PutStr(sglang.AttrCompleteness, sglang.CompletenessComplete)
	a.PutInt(sglang.AttrTraceLevel, 3)
	if change != nil {
		change(span)
	}
	return td
}

func resourceOf(td ptrace.Traces) pcommon.Map {
	return td.ResourceSpans().At(0).Resource().Attributes()
}

func spanOf(td ptrace.Traces) ptrace.Span {
	return td.ResourceSpans().At(0).ScopeSpans().At(0).Spans().At(0)
}

// thread is a kept thread span as rankdedup leaves it.
func thread(n int, skew float64) ptrace.Traces {
	return root(1<<30+n, func(span ptrace.Span) {
		a := span.Attributes()
		a.Clear()
		a.PutStr(sglang.AttrThreadLabel, "Scheduler")
		a.PutInt(sglang.AttrTPRank, 0)
		a.PutInt(sglang.AttrRanksCount, 8)
		a.PutInt(sglang.AttrRanksSlowest, 3)
		a.PutDouble(sglang.AttrRanksSkew, skew)
	})
}

func run(t *testing.T, name string, do func(*testing.T)) {
	t.Run(name, func(t *testing.T) { synctest.Test(t, do) })
}
