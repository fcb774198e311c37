// Copyright The otelcol-sglang Authors
// SPDX-License-Identifier: Apache-2.0

package rankdedupprocessor // import "github.com/otelcol-sglang/otelcol-sglang/processor/rankdedupprocessor"

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"go.opentelemetry.io/collector/component/componenttest"
	"go.opentelemetry.io/collector/confmap"
	"go.opentelemetry.io/collector/consumer"
	"go.opentelemetry.io/collector/consumer/consumertest"
	"go.opentelemetry.io/collector/pdata/pcommon"
	"go.opentelemetry.io/collector/pdata/pmetric"
	"go.opentelemetry.io/collector/processor"
	"go.opentelemetry.io/collector/processor/processortest"
	"go.opentelemetry.io/otel/sdk/metric/metricdata"

	"github.com/otelcol-sglang/otelcol-sglang/processor/rankdedupprocessor/internal/metadata"
)

// cpuSeconds is a scrape of a family that is summed: one value per rank.
func cpuSeconds(second int, values ...float64) pmetric.Metrics {
	md := pmetric.NewMetrics()
	m := md.ResourceMetrics().AppendEmpty().ScopeMetrics().AppendEmpty().Metrics().AppendEmpty()
	m.SetName("sglang:scheduler_process_cpu_seconds_total")
	s := m.SetEmptySum()
	s.SetIsMonotonic(true)
	s.SetAggregationTemporality(pmetric.AggregationTemporalityCumulative)
	for tp, v := range values {
		dp := s.DataPoints().AppendEmpty()
		dp.Attributes().PutInt("tp_rank", int64(tp))
		dp.SetTimestamp(pcommon.Timestamp(second * int(time.Second)))
		dp.SetDoubleValue(v)
	}
	return md
}

func newMetricsUnderTest(t *testing.T, set processor.Settings, next consumer.Metrics) processor.Metrics {
	cfg := defaultMetricsConfig()
	p, err := newMetricsProcessor(set, &cfg, next)
	require.NoError(t, err)
	require.NoError(t, p.Start(context.Background(), componenttest.NewNopHost()))
	t.Cleanup(func() { require.NoError(t, p.Shutdown(context.Background())) })
	return p
}

func onlyNumber(md pmetric.Metrics) pmetric.NumberDataPoint {
	return md.ResourceMetrics().At(0).ScopeMetrics().At(0).Metrics().At(0).Sum().DataPoints().At(0)
}

func TestMetricsRefusedAndSentAgain(t *testing.T) {
	refusal := errors.New("full")
	var refuse error
	sink := new(consumertest.MetricsSink)
	next, err := consumer.NewMetrics(func(ctx context.Context, md pmetric.Metrics) error {
		if refuse != nil {
			return refuse
		}
		return sink.ConsumeMetrics(ctx, md)
	})
	require.NoError(t, err)
	p := newMetricsUnderTest(t, processortest.NewNopSettings(metadata.Type), next)
	assert.True(t, p.Capabilities().MutatesData)
	require.NoError(t, p.ConsumeMetrics(t.Context(), cpuSeconds(1, 10, 20)))
	refuse = refusal
	require.ErrorIs(t, p.ConsumeMetrics(t.Context(), cpuSeconds(2, 3, 21)), refusal)
	refuse = nil
	require.NoError(t, p.ConsumeMetrics(t.Context(), cpuSeconds(2, 3, 21)))
	require.Len(t, sink.AllMetrics(), 2)
	assert.Equal(t, 34.0, onlyNumber(sink.AllMetrics()[1]).DoubleValue())
}

func TestMetricsOwnTelemetry(t *testing.T) {
	tel := componenttest.NewTelemetry()
	t.Cleanup(func() { require.NoError(t, tel.Shutdown(context.Background())) })
	set := processortest.NewNopSettings(metadata.Type)
	set.TelemetrySettings = tel.NewTelemetrySettings()
	sink := new(consumertest.MetricsSink)
	p := newMetricsUnderTest(t, set, sink)

	require.NoError(t, p.ConsumeMetrics(t.Context(), cpuSeconds(1, 10, 20)))
	require.NoError(t, p.ConsumeMetrics(t.Context(), cpuSeconds(2, 3, 21)))
	require.NoError(t, p.ConsumeMetrics(t.Context(), cpuSeconds(1, 10, 20))) // late: nothing is left
	require.NoError(t, p.ConsumeMetrics(t.Context(), cpuSeconds(3, 1, 1)))
	assert.Len(t, sink.AllMetrics(), 3)
	other := pmetric.NewMetrics()
	m := other.ResourceMetrics().AppendEmpty().ScopeMetrics().AppendEmpty().Metrics().AppendEmpty()
	m.SetName("up")
	m.SetEmptyGauge().DataPoints().AppendEmpty()
	require.NoError(t, p.ConsumeMetrics(t.Context(), other))

	assert.Equal(t, map[string]int64{"sum": 8, "pass": 1}, telemetryByLabel(t, tel, "points_in", "rule"))
	assert.Equal(t, map[string]int64{"sum": 3, "pass": 1}, telemetryByLabel(t, tel, "points_out", "rule"))
	assert.Equal(t, map[string]int64{"late": 2}, telemetryByLabel(t, tel, "points_refused", "reason"))
	assert.Equal(t, map[string]int64{"": 1}, telemetryByLabel(t, tel, "rank_resets", ""))
	assert.Equal(t, map[string]int64{"": 1}, telemetryByLabel(t, tel, "engine_restarts", ""))
	assert.Equal(t, map[string]int64{"": 2}, telemetryByLabel(t, tel, "series", ""))
	assert.Equal(t, map[string]int64{"": 1}, telemetryByLabel(t, tel, "pages", ""))
}

func telemetryByLabel(t *testing.T, tel *componenttest.Telemetry, name, label string) map[string]int64 {
	m, err := tel.GetMetric("otelcol_processor_rankdedup_" + name)
	require.NoError(t, err)
	var points []metricdata.DataPoint[int64]
	switch d := m.Data.(type) {
	case metricdata.Sum[int64]:
		points = d.DataPoints
	case metricdata.Gauge[int64]:
		points = d.DataPoints
	}
	out := map[string]int64{}
	for _, p := range points {
		v, _ := p.Attributes.Value("rule")
		if label == "reason" {
			v, _ = p.Attributes.Value("reason")
		}
		out[v.AsString()] = p.Value
	}
	return out
}

func TestMetricsConfig(t *testing.T) {
	cfg := defaultMetricsConfig()
	require.NoError(t, cfg.Validate())
	assert.False(t, cfg.Skew, "off by default")
	require.NoError(t, confmap.NewFromStringMap(map[string]any{
		"overrides":   map[string]any{"sglang:num_running_reqs": "max", "vllm:kv_cache_usage_perc": "first"},
		"skew":        true,
		"idle_expiry": "1h",
	}).Unmarshal(&cfg))
	require.NoError(t, cfg.Validate())
	assert.Equal(t, MetricsConfig{
		Overrides:  map[string]string{"sglang:num_running_reqs": "max", "vllm:kv_cache_usage_perc": "first"},
		Skew:       true,
		MaxSeries:  50_000,
		IdleExpiry: time.Hour,
	}, cfg)

	cfg = MetricsConfig{
		Overrides: map[string]string{
			"": "sum", "sglang:a": "mean", "sglang:queue_time_seconds": "max", "sglang:eplb_balancedness": "sum",
			"sglang:per_stage_req_latency_seconds": "sum",
		},
		MaxSeries: 1,
	}
	assert.EqualError(t, cfg.Validate(), `max_series must be from 100 to 10000000 (got 1)
idle_expiry must be from 1m0s to 168h0m0s (got 0s)
overrides: the name of a family must not be empty (got "": "sum")
overrides: sglang:a must be first, max, sum or keep (got "mean")
overrides: sglang:eplb_balancedness must be first or keep, being a summary (got "sum")
overrides: sglang:queue_time_seconds must be first, sum or keep, being a histogram (got "max")`)
}
