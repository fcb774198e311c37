// Copyright The otelcol-sglang Authors
// SPDX-License-Identifier: Apache-2.0

package rankdedupprocessor // import "github.com/otelcol-sglang/otelcol-sglang/processor/rankdedupprocessor"

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"
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

const cpuFamily = "sglang:scheduler_process_cpu_seconds_total"

// cpuSeconds is a scrape of a family that is summed: one value per rank.
func cpuSeconds(second int, values ...float64) pmetric.Metrics {
	md := pmetric.NewMetrics()
	m := md.ResourceMetrics().AppendEmpty().ScopeMetrics().AppendEmpty().Metrics().AppendEmpty()
	m.SetName(cpuFamily)
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

// TestMetricsSettings: each setting reaches what it is about, by the factory.
func TestMetricsSettings(t *testing.T) {
	for name, tc := range map[string]struct {
		change func(*MetricsConfig)
		// what is left of two scrapes of ranks 0 and 1 with 10, 20 and 12, 21
		points  []float64
		labels  map[string]any
		metrics int
		refused int64
	}{
		"defaults":         {func(*MetricsConfig) {}, []float64{33}, map[string]any{}, 1, 0},
		"overrides":        {func(c *MetricsConfig) { c.Overrides = map[string]string{cpuFamily: "keep"} }, []float64{12, 21}, map[string]any{"tp_rank": int64(0)}, 1, 0},
		"keep_rank_labels": {func(c *MetricsConfig) { c.KeepRankLabels = true }, []float64{33}, map[string]any{"tp_rank": int64(0)}, 1, 0},
		"skew":             {func(c *MetricsConfig) { c.Skew = true }, []float64{33}, map[string]any{}, 3, 0},
		"max_series":       {func(c *MetricsConfig) { c.MaxSeries = 1 }, []float64{33}, map[string]any{}, 1, 2},
	} {
		t.Run(name, func(t *testing.T) {
			tel := componenttest.NewTelemetry()
			t.Cleanup(func() { require.NoError(t, tel.Shutdown(context.Background())) })
			set := processortest.NewNopSettings(metadata.Type)
			set.TelemetrySettings = tel.NewTelemetrySettings()
			cfg := createDefaultConfig().(*Config)
			tc.change(&cfg.Metrics)
			sink := new(consumertest.MetricsSink)
			p, err := NewFactory().CreateMetrics(t.Context(), set, cfg, sink)
			require.NoError(t, err)
			t.Cleanup(func() { require.NoError(t, p.Shutdown(context.Background())) })
			require.NoError(t, p.ConsumeMetrics(t.Context(), cpuSeconds(1, 10, 20)))
			require.NoError(t, p.ConsumeMetrics(t.Context(), cpuSeconds(2, 12, 21)))
			out := sink.AllMetrics()[1]
			assert.Equal(t, tc.metrics, out.MetricCount())
			dps := out.ResourceMetrics().At(0).ScopeMetrics().At(0).Metrics().At(0).Sum().DataPoints()
			var got []float64
			for _, dp := range dps.All() {
				got = append(got, dp.DoubleValue())
			}
			assert.Equal(t, tc.points, got)
			assert.Equal(t, tc.labels, dps.At(0).Attributes().AsRaw())
			assert.Equal(t, tc.refused, value(t, tel, "points_refused", "untracked"))
		})
	}
}

// TestMetricsIdleExpiry: what no scrape shows for that long is forgotten.
func TestMetricsIdleExpiry(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		cfg := createDefaultConfig().(*Config)
		cfg.Metrics.IdleExpiry = time.Minute
		sink := new(consumertest.MetricsSink)
		p, err := NewFactory().CreateMetrics(t.Context(), processortest.NewNopSettings(metadata.Type), cfg, sink)
		require.NoError(t, err)
		defer func() { require.NoError(t, p.Shutdown(context.Background())) }()
		for scrape, want := range []float64{30, 33, 2} {
			// Rank 0 begins anew each time, rank 1 only when all was forgotten.
			require.NoError(t, p.ConsumeMetrics(t.Context(), cpuSeconds(scrape+1, [][]float64{{10, 20}, {3, 20}, {1, 1}}[scrape]...)))
			assert.Equal(t, want, onlyNumber(sink.AllMetrics()[scrape]).DoubleValue())
			if scrape == 1 {
				time.Sleep(2 * time.Minute)
			} else {
				time.Sleep(20 * time.Second)
			}
		}
		assert.EqualValues(t, 2, p.(*metricsProcessor).store.Tracked())
		assert.Zero(t, p.(*metricsProcessor).store.Engines()-1)
	})
}
