// Copyright The otelcol-sglang Authors
// SPDX-License-Identifier: Apache-2.0

package genaiprocessor

import (
	"context"
	"slices"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"go.opentelemetry.io/collector/component/componenttest"
	"go.opentelemetry.io/collector/consumer/consumertest"
	"go.opentelemetry.io/collector/pdata/pcommon"
	"go.opentelemetry.io/collector/pdata/pmetric"
	"go.opentelemetry.io/collector/pdata/ptrace"
	"go.opentelemetry.io/collector/processor"
	"go.opentelemetry.io/otel/sdk/metric/metricdata"

	"github.com/otelcol-sglang/otelcol-sglang/internal/sglang"
	"github.com/otelcol-sglang/otelcol-sglang/processor/genaiprocessor/internal/metadatatest"
	"github.com/otelcol-sglang/otelcol-sglang/processor/genaiprocessor/internal/presence"
)

// twoPipelines are the instances that the Collector makes of one genai for a
// traces and a metrics pipeline.
type twoPipelines struct {
	t       *testing.T
	traces  processor.Traces
	metrics processor.Metrics
	sink    *consumertest.MetricsSink
	tel     *componenttest.Telemetry
}

func newTwoPipelines(t *testing.T) *twoPipelines {
	t.Helper()
	ctx, factory := context.Background(), NewFactory()
	p := &twoPipelines{t: t, sink: new(consumertest.MetricsSink), tel: componenttest.NewTelemetry()}
	cfg := factory.CreateDefaultConfig()
	var err error
	p.traces, err = factory.CreateTraces(ctx, metadatatest.NewSettings(p.tel), cfg, consumertest.NewNop())
	require.NoError(t, err)
	p.metrics, err = factory.CreateMetrics(ctx, metadatatest.NewSettings(p.tel), cfg, p.sink)
	require.NoError(t, err)
	require.NoError(t, p.traces.Start(ctx, componenttest.NewNopHost()))
	require.NoError(t, p.metrics.Start(ctx, componenttest.NewNopHost()))
	return p
}

func (p *twoPipelines) close() {
	require.NoError(p.t, p.traces.Shutdown(context.Background()))
	require.NoError(p.t, p.metrics.Shutdown(context.Background()))
}

// requests runs one request in each engine and reads each page, every ten seconds
// for two minutes.
func (p *twoPipelines) requests(engines []ptrace.Traces, pages []pmetric.Metrics) {
	for i := range 13 {
		for _, td := range engines {
			fresh := ptrace.NewTraces()
			td.CopyTo(fresh)
			restamp(fresh, uint64(i))
			require.NoError(p.t, p.traces.ConsumeTraces(context.Background(), fresh))
		}
		for _, md := range pages {
			finish(md, float64(i))
			require.NoError(p.t, p.metrics.ConsumeMetrics(context.Background(), md))
		}
		time.Sleep(10 * time.Second)
	}
}

// gauge are a gauge's points as the values of the keys, and the value.
func (p *twoPipelines) gauge(name string, keys ...string) map[[3]string]int64 {
	out := map[[3]string]int64{}
	m, err := p.tel.GetMetric("otelcol_processor_genai_" + name)
	if err != nil {
		return out
	}
	for _, dp := range m.Data.(metricdata.Gauge[int64]).DataPoints {
		var key [3]string
		for _, kv := range dp.Attributes.ToSlice() {
			key[slices.Index(keys, string(kv.Key))] = kv.Value.AsString()
		}
		out[key] = dp.Value
	}
	return out
}

func (p *twoPipelines) states() map[[3]string]int64 {
	return p.gauge("engines", "engine", "page", "state")
}

// pageOf is a scraped page; attrs are of its resource.
func pageOf(attrs map[string]any) pmetric.Metrics {
	md := pmetric.NewMetrics()
	rm := md.ResourceMetrics().AppendEmpty()
	_ = rm.Resource().Attributes().FromRaw(attrs)
	metrics := rm.ScopeMetrics().AppendEmpty().Metrics()
	running := metrics.AppendEmpty()
	running.SetName(string(sglang.FamilyNumRunningReqs))
	dp := running.SetEmptyGauge().DataPoints().AppendEmpty()
	dp.SetDoubleValue(1)
	dp.Attributes().PutStr(sglang.LabelDPRank, "0")
	requests := metrics.AppendEmpty()
	requests.SetName(string(sglang.FamilyNumRequestsTotal))
	requests.SetEmptySum().DataPoints().AppendEmpty()
	return md
}

func finish(md pmetric.Metrics, n float64) {
	metrics := md.ResourceMetrics().At(0).ScopeMetrics().At(0).Metrics()
	metrics.At(metrics.Len() - 1).Sum().DataPoints().At(0).SetDoubleValue(n)
}

// spansOf are those of one request of an engine.
func spansOf(engine string, attrs map[string]any) ptrace.Traces {
	td := plainStory(finished(3)).end()
	for _, rs := range td.ResourceSpans().All() {
		rs.Resource().Attributes().PutStr(attrServiceInstance, "0b8a1a4e-1f5c-4a55-9c1d-0c6b0c3f2a11")
		if engine != "" {
			rs.Resource().Attributes().PutStr(sglang.AttrEngineID, engine)
		}
		for key, v := range attrs {
			_ = rs.Resource().Attributes().PutEmpty(key).FromRaw(v)
		}
	}
	return td
}

func TestEngines(t *testing.T) {
	address := map[string]any{attrServiceInstance: "localhost:30000"}
	other := map[string]any{attrServiceInstance: "other:30000", "k8s.pod.name": "b"}
	pod := map[string]any{attrServiceInstance: "localhost:30000", "k8s.pod.name": "a"}
	for name, tt := range map[string]struct {
		spans []ptrace.Traces
		pages []pmetric.Metrics
		want  map[[3]string]int64
	}{
		"an agent beside its engine": {
			[]ptrace.Traces{spansOf("e", nil)},
			[]pmetric.Metrics{pageOf(address)},
			map[[3]string]int64{{"e", "localhost:30000", "both"}: 1},
		},
		"no spans at all": {
			nil,
			[]pmetric.Metrics{pageOf(address)},
			map[[3]string]int64{{"", "localhost:30000", "page_only"}: 1},
		},
		"no page": {
			[]ptrace.Traces{spansOf("e", nil)},
			nil,
			map[[3]string]int64{{"e", "", "spans_only"}: 1},
		},
		"two engines, one without spans": {
			[]ptrace.Traces{spansOf("e", map[string]any{"k8s.pod.name": "a"})},
			[]pmetric.Metrics{pageOf(pod), pageOf(other)},
			map[[3]string]int64{{"e", "localhost:30000", "both"}: 1, {"", "other:30000", "page_only"}: 1},
		},
		"two engines without names": {
			[]ptrace.Traces{spansOf("e", nil), spansOf("f", nil)},
			[]pmetric.Metrics{pageOf(pod)},
			map[[3]string]int64{
				{"e", "", "ambiguous"}: 1, {"f", "", "ambiguous"}: 1, {"", "localhost:30000", "ambiguous"}: 1,
			},
		},
	} {
		run(t, name, func(t *testing.T) {
			p := newTwoPipelines(t)
			defer p.close()
			p.requests(tt.spans, tt.pages)
			assert.Equal(t, tt.want, p.states())
		})
	}
}

// TestPageRanks: under DP attention a page shows one rank of four, the spans all.
func TestPageRanks(t *testing.T) {
	run(t, "", func(t *testing.T) {
		p := newTwoPipelines(t)
		defer p.close()
		var spans []ptrace.Traces
		for rank := range 4 {
			spans = append(spans, spansOf("e", map[string]any{sglang.AttrResourceDPRank: rank}))
		}
		p.requests(spans, []pmetric.Metrics{pageOf(map[string]any{attrServiceInstance: "h:1", sglang.AttrServerDPSize: 4})})
		assert.Equal(t, map[[3]string]int64{
			{"e", "h:1", "spans"}: 4, {"e", "h:1", "page"}: 1, {"e", "h:1", "settings"}: 4,
		}, p.gauge("dp_ranks", "engine", "page", "source"))
	})
}

// TestPagesPass: metrics pass as they are, whatever they are; what is no page of an
// engine, or one that has just gone, is none.
func TestPagesPass(t *testing.T) {
	run(t, "", func(t *testing.T) {
		p := newTwoPipelines(t)
		defer p.close()
		foreign, gone := pageOf(nil), pageOf(nil)
		for _, m := range foreign.ResourceMetrics().At(0).ScopeMetrics().At(0).Metrics().All() {
			m.SetName("vllm:" + m.Name())
		}
		metrics := gone.ResourceMetrics().At(0).ScopeMetrics().At(0).Metrics()
		metrics.At(0).Gauge().DataPoints().At(0).SetFlags(pmetric.DefaultDataPointFlags.WithNoRecordedValue(true))
		metrics.At(1).Sum().DataPoints().At(0).SetFlags(pmetric.DefaultDataPointFlags.WithNoRecordedValue(true))
		metrics.AppendEmpty().SetName(sglang.MetricPrefix + "empty")
		histogram := metrics.AppendEmpty()
		histogram.SetName(sglang.MetricPrefix + "seconds")
		histogram.SetEmptyHistogram().DataPoints().AppendEmpty()
		metrics.AppendEmpty().SetEmptySum().DataPoints().AppendEmpty() // what requests() counts up
		want := pmetric.NewMetrics()
		gone.CopyTo(want)
		finish(want, 12)
		p.requests(nil, []pmetric.Metrics{foreign, gone})
		assert.Empty(t, p.states())
		all := p.sink.AllMetrics()
		assert.Equal(t, want, all[len(all)-1])
	})
}

// TestSharedByConfig: two configurations share nothing, and nothing stays behind.
func TestSharedByConfig(t *testing.T) {
	run(t, "", func(t *testing.T) {
		before := len(shared)
		a, b := newTwoPipelines(t), newTwoPipelines(t)
		assert.Len(t, shared, before+2)
		a.requests([]ptrace.Traces{spansOf("e", nil)}, nil)
		assert.Len(t, a.states(), 1)
		assert.Empty(t, b.states())
		a.close()
		b.close()
		a.close() // twice is no harm
		assert.Len(t, shared, before)
	})
}

// TestUnwatched: without a metrics pipeline nothing is known of pages, and so
// nothing is said.
func TestUnwatched(t *testing.T) {
	run(t, "", func(t *testing.T) {
		r := newRig(t, nil, nil)
		r.send(spansOf("e", nil))
		assert.Empty(t, r.p.presence.Matches(time.Now().Add(presence.Patience)))
		r.close()
	})
}

func TestNames(t *testing.T) {
	for text, want := range map[string]string{
		"engine-0":                             "engine-0",
		"0b8a1a4e-1f5c-4a55-9c1d-0c6b0c3f2a11": "",
		"0b8a1a4e1f5c4a559c1d0c6b0c3f2a11":     "0b8a1a4e1f5c4a559c1d0c6b0c3f2a11",
		string(make([]byte, maxText+1)):        "",
	} {
		assert.Equal(t, want, nameOf(attrServiceInstance, pcommon.NewValueStr(text)), text)
	}
	const uid = "0b8a1a4e-1f5c-4a55-9c1d-0c6b0c3f2a11"
	assert.Equal(t, uid, nameOf("k8s.pod.uid", pcommon.NewValueStr(uid)))
}
