// Copyright The otelcol-sglang Authors
// SPDX-License-Identifier: Apache-2.0

package genaimetricsconnector

import (
	"context"
	"errors"
	"fmt"
	"math"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"go.opentelemetry.io/collector/connector/connectortest"
	"go.opentelemetry.io/collector/consumer"
	"go.opentelemetry.io/collector/consumer/consumertest"
	"go.opentelemetry.io/collector/pdata/pcommon"
	"go.opentelemetry.io/collector/pdata/pmetric"
	"go.opentelemetry.io/collector/pdata/ptrace"
	"pgregory.net/rapid"

	"github.com/otelcol-sglang/otelcol-sglang/connector/genaimetricsconnector/internal/metadata"
	"github.com/otelcol-sglang/otelcol-sglang/internal/sglang"
)

func TestOneRequest(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t, nil, nil)
		defer r.close()
		begin := time.Now()
		r.send(root(1, nil))
		md := r.flushed()

		p := one(t, md, sglang.MetricRequestDuration)
		assert.Equal(t, map[string]any{"service.name": "sglang"}, p.resource)
		assert.Equal(t, map[string]any{
			sglang.AttrOperationName: "chat", sglang.AttrProviderName: "sglang",
			sglang.AttrRequestModel: "meta-llama/Llama-3.1-8B-Instruct",
		}, p.attrs)
		assert.Equal(t, begin.UTC(), p.start)
		assert.Equal(t, begin.Add(5*time.Second).UTC(), p.at)
		assert.Equal(t, uint64(1), p.count)
		assert.InDelta(t, 1.25, p.sum, 0)
		assert.Equal(t, 1, p.exemplars)

		assert.InDelta(t, 0.25, one(t, md, sglang.MetricTTFT).sum, 0)
		assert.InDelta(t, 0.01, one(t, md, sglang.MetricTPOT).sum, 0)
		assert.Zero(t, one(t, md, sglang.MetricRetractions).sum)
		assert.Empty(t, pointsOf(md, sglang.MetricSpanRanksSkew))
		stages := make(map[any]float64)
		for _, p := range pointsOf(md, sglang.MetricStageDuration) {
			stages[p.attrs[sglang.AttrStage]] = p.sum
		}
		assert.Equal(t, map[any]float64{
			"tokenize": 0.0625, "dispatch": 0.03125, "intake": 0.015625, "queue": 0.125, "prefill": 0.015625, "decode": 0.9375, "finish": 0.0625,
		}, stages)
		tokens := make(map[any]float64)
		for _, p := range pointsOf(md, sglang.MetricTokens) {
			tokens[p.attrs[sglang.AttrTokenType]] = p.sum
		}
		assert.Equal(t, map[any]float64{"input": 300, "cached": 64, "output": 101}, tokens)
		assert.Equal(t, int64(1), r.total("roots", "counted"))
		assert.Equal(t, int64(14), r.total("series", ""))
		assert.Equal(t, int64(1), r.total("remembered_spans", ""))
	})
}

func TestExemplarsNameTheSpan(t *testing.T) {
	for _, kind := range []string{histogramExplicit, histogramExponential} {
		run(t, kind, func(t *testing.T) {
			r := newRig(t, nil, func(c *Config) { c.Histogram = kind })
			defer r.close()
			r.send(root(7, nil))
			var e pmetric.Exemplar
			for _, m := range r.flushed().ResourceMetrics().At(0).ScopeMetrics().At(0).Metrics().All() {
				switch {
				case m.Name() != sglang.MetricTTFT:
				case kind == histogramExplicit:
					e = m.Histogram().DataPoints().At(0).Exemplars().At(0)
				default:
					e = m.ExponentialHistogram().DataPoints().At(0).Exemplars().At(0)
				}
			}
			assert.Equal(t, spanOf(root(7, nil)).TraceID(), e.TraceID())
			assert.Equal(t, spanOf(root(7, nil)).SpanID(), e.SpanID())
			assert.InDelta(t, 0.25, e.DoubleValue(), 0)
			assert.NotZero(t, e.Timestamp())
		})
	}
	run(t, "off", func(t *testing.T) {
		r := newRig(t, nil, func(c *Config) { c.Exemplars = false })
		defer r.close()
		r.send(root(7, nil))
		assert.Zero(t, one(t, r.flushed(), sglang.MetricTTFT).exemplars)
	})
}

func TestBuckets(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t, nil, func(c *Config) {
			c.Buckets = map[string][]float64{sglang.MetricTTFT: {0.25, 1}}
		})
		defer r.close()
		r.send(root(1, nil), root(2, func(s ptrace.Span) { s.Attributes().PutDouble(sglang.AttrLatencyTTFT, 399) }))
		md := r.flushed()
		assert.Equal(t, []uint64{1, 0, 1}, one(t, md, sglang.MetricTTFT).buckets)
		assert.Len(t, one(t, md, sglang.MetricTPOT).buckets, 17)
	})
}

// TestOutcomes: what counts and what does not.
func TestOutcomes(t *testing.T) {
	set := func(key, value string) func(ptrace.Span) {
		return func(s ptrace.Span) { s.Attributes().PutStr(key, value) }
	}
	for _, tt := range []struct {
		name, outcome string
		change        func(ptrace.Span)
		counts        bool
	}{
		{"unified", "counted", nil, true},
		{"decode half, joined or not", "counted", set(sglang.AttrPDRole, "decode"), true},
		{"prefill half", "pd_prefill", set(sglang.AttrPDRole, "prefill"), false},
		{"health probe", "health_check", func(s ptrace.Span) { s.Attributes().PutBool(sglang.AttrHealthCheck, true) }, false},
		{"Mooncake sender", "sender", func(s ptrace.Span) {
			s.Attributes().Clear()
			s.Attributes().PutStr(sglang.AttrModule, sglang.ModuleMooncake)
			s.Attributes().PutStr(sglang.AttrPDRole, "sender")
		}, false},
		{"Mooncake sender without genai", "sender", func(s ptrace.Span) {
			s.Attributes().Clear()
			s.Attributes().PutStr(sglang.AttrModule, sglang.ModuleMooncake)
		}, false},
		{"encoder", "encoder", func(s ptrace.Span) { s.Attributes().PutBool(sglang.AttrEncoder, true) }, false},
		{"refused TTFT", "counted", func(s ptrace.Span) {
			s.Attributes().PutEmptySlice(sglang.AttrLatencyInvalid).AppendEmpty().SetStr("time_to_first_token:equals_e2e")
		}, true},
		{"no genai in front", "not_judged", func(s ptrace.Span) {
			s.Attributes().RemoveIf(func(key string, _ pcommon.Value) bool {
				return key == sglang.AttrCompleteness || strings.HasPrefix(key, sglang.AttrBudgetPrefix)
			})
		}, false},
		{"engine's attributes removed", "counted", func(s ptrace.Span) {
			s.Attributes().Remove(sglang.AttrModule)
			s.Attributes().Remove(sglang.AttrRID)
			s.SetName("inference")
		}, true},
		{"mark of genai removed, budget left", "counted", func(s ptrace.Span) { s.Attributes().Remove(sglang.AttrCompleteness) }, true},
	} {
		run(t, tt.name, func(t *testing.T) {
			r := newRig(t, nil, nil)
			defer r.close()
			r.send(root(1, tt.change))
			assert.Equal(t, int64(1), r.total("roots", ""))
			assert.Equal(t, int64(1), r.total("roots", tt.outcome))
			assert.Equal(t, tt.counts, r.total("series", "") > 0)
		})
	}
}

// TestForeignSpans: spans of clients and gateways have gen_ai attributes too.
func TestForeignSpans(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t, nil, nil)
		defer r.close()
		td := root(1, func(s ptrace.Span) {
			s.Attributes().RemoveIf(func(key string, _ pcommon.Value) bool { return strings.HasPrefix(key, "sglang.") })
		})
		td.ResourceSpans().At(0).ScopeSpans().At(0).Scope().SetName("openai")
		r.send(td)
		assert.Zero(t, r.total("roots", ""))
		assert.Zero(t, r.total("series", ""))
	})
}

// TestVLLM: genai judges vLLM's llm_request span; that counts too.
func TestVLLM(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t, nil, nil)
		defer r.close()
		td := root(1, func(s ptrace.Span) {
			s.SetName(sglang.VLLMRequestSpan)
			s.Attributes().Remove(sglang.AttrModule)
			s.Attributes().Remove(sglang.AttrRID)
			s.Attributes().PutStr(sglang.AttrProviderName, sglang.ProviderVLLM)
		})
		td.ResourceSpans().At(0).ScopeSpans().At(0).Scope().SetName("vllm.llm_engine")
		r.send(td)
		assert.Equal(t, "vllm", one(t, r.flushed(), sglang.MetricTTFT).attrs[sglang.AttrProviderName])
	})
}

// TestAbsent: what a root does not say observes nothing, least of all 0 (cases 1 and 18).
func TestAbsent(t *testing.T) {
	for _, tt := range []struct{ attr, metric string }{
		{sglang.AttrLatencyE2E, sglang.MetricRequestDuration},
		{sglang.AttrLatencyTTFT, sglang.MetricTTFT},
		{sglang.AttrOutTPOT, sglang.MetricTPOT},
		{sglang.AttrRetractions, sglang.MetricRetractions},
	} {
		run(t, tt.attr, func(t *testing.T) {
			r := newRig(t, nil, nil)
			defer r.close()
			r.send(root(1, func(s ptrace.Span) { s.Attributes().Remove(tt.attr) }))
			assert.Empty(t, pointsOf(r.flushed(), tt.metric))
			assert.Zero(t, r.total("refused_values", ""))
		})
	}
	run(t, "no scheduler spans", func(t *testing.T) {
		r := newRig(t, nil, nil)
		defer r.close()
		r.send(root(1, func(s ptrace.Span) {
			s.Attributes().PutStr(sglang.AttrCompleteness, sglang.CompletenessNoScheduler)
			s.Attributes().RemoveIf(func(key string, _ pcommon.Value) bool { return strings.HasPrefix(key, sglang.AttrBudgetPrefix) })
			s.Attributes().PutDouble(sglang.AttrBudgetPrefix+"unattributed", 1.25)
		}))
		assert.Equal(t, "unattributed", one(t, r.flushed(), sglang.MetricStageDuration).attrs[sglang.AttrStage])
	})
}

func TestRefused(t *testing.T) {
	for _, tt := range []struct {
		name, attr, metric, reason string
		change                     func(ptrace.Span)
	}{
		{"negative (case 32)", sglang.AttrLatencyTTFT, sglang.MetricTTFT, "negative", double(-1.7e9)},
		{"NaN", sglang.AttrLatencyTTFT, sglang.MetricTTFT, "not_a_number", double(math.NaN())},
		{"endless", sglang.AttrLatencyTTFT, sglang.MetricTTFT, "too_large", double(math.Inf(1))},
		{"nanoseconds", sglang.AttrLatencyTTFT, sglang.MetricTTFT, "too_large", double(2.5e8)},
		{"zero (case 18)", sglang.AttrLatencyTTFT, sglang.MetricTTFT, "zero", double(0)},
		{"text", sglang.AttrLatencyTTFT, sglang.MetricTTFT, "type", func(s ptrace.Span) {
			s.Attributes().PutStr(sglang.AttrLatencyTTFT, "0.2")
		}},
		{"retractions", sglang.AttrRetractions, sglang.MetricRetractions, "negative", func(s ptrace.Span) {
			s.Attributes().PutInt(sglang.AttrRetractions, -1)
		}},
		{"many retractions", sglang.AttrRetractions, sglang.MetricRetractions, "too_large", func(s ptrace.Span) {
			s.Attributes().PutInt(sglang.AttrRetractions, math.MaxInt64)
		}},
		{"half a retraction", sglang.AttrRetractions, sglang.MetricRetractions, "type", func(s ptrace.Span) {
			s.Attributes().PutDouble(sglang.AttrRetractions, 0.5)
		}},
	} {
		run(t, tt.name, func(t *testing.T) {
			r := newRig(t, nil, nil)
			defer r.close()
			r.send(root(1, tt.change))
			md := r.flushed()
			assert.Empty(t, pointsOf(md, tt.metric))
			assert.Equal(t, uint64(1), one(t, md, sglang.MetricRequestDuration).count)
			assert.Equal(t, int64(1), r.total("refused_values", ""))
			assert.Equal(t, int64(1), r.total("refused_values", tt.reason))
			assert.Equal(t, int64(1), r.total("refused_values", tt.attr))
		})
	}
	run(t, "stages count under one name", func(t *testing.T) {
		r := newRig(t, nil, nil)
		defer r.close()
		r.send(root(1, func(s ptrace.Span) {
			s.Attributes().PutDouble(sglang.AttrBudgetPrefix+"queue", -1)
			s.Attributes().PutDouble(sglang.AttrBudgetPrefix+"xyz", math.NaN())
		}))
		assert.Equal(t, int64(2), r.total("refused_values", "sglang.budget.*"))
		assert.Len(t, pointsOf(r.flushed(), sglang.MetricStageDuration), 6)
	})
	run(t, "skew", func(t *testing.T) {
		r := newRig(t, nil, nil)
		defer r.close()
		r.send(thread(1, -1))
		assert.Equal(t, int64(1), r.total("refused_values", sglang.AttrRanksSkew))
		assert.Zero(t, r.total("series", ""))
	})
}

func double(v float64) func(ptrace.Span) {
	return func(s ptrace.Span) { s.Attributes().PutDouble(sglang.AttrLatencyTTFT, v) }
}

// TestErrors: error.type splits durations and nothing else.
func TestErrors(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t, nil, nil)
		defer r.close()
		r.send(root(1, nil), root(2, func(s ptrace.Span) { s.Attributes().PutStr(sglang.AttrErrorType, "abort") }))
		md := r.flushed()
		points := pointsOf(md, sglang.MetricRequestDuration)
		require.Len(t, points, 2)
		assert.NotContains(t, points[0].attrs, sglang.AttrErrorType)
		assert.Equal(t, "abort", points[1].attrs[sglang.AttrErrorType])
		assert.Equal(t, uint64(2), one(t, md, sglang.MetricTTFT).count)
	})
}

func TestRolesSplitStages(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t, nil, nil)
		defer r.close()
		r.send(root(1, nil), root(2, func(s ptrace.Span) { s.Attributes().PutStr(sglang.AttrPDRole, "decode") }))
		md := r.flushed()
		assert.Equal(t, uint64(2), one(t, md, sglang.MetricRequestDuration).count)
		roles := make(map[any]int)
		for _, p := range pointsOf(md, sglang.MetricStageDuration) {
			roles[p.attrs[sglang.AttrPDRole]]++
		}
		assert.Equal(t, map[any]int{nil: 7, "decode": 7}, roles)
	})
}

func TestSkew(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t, nil, func(c *Config) { c.Dimensions = []string{"sglang.ranks.slowest"} })
		defer r.close()
		r.send(thread(1, 0.003), thread(2, 0), thread(2, 0))
		p := one(t, r.flushed(), sglang.MetricSpanRanksSkew)
		assert.Equal(t, uint64(2), p.count)
		assert.InDelta(t, 0.003, p.sum, 0)
		assert.Equal(t, map[string]any{"sglang.ranks.slowest": "3"}, p.attrs)
		assert.Equal(t, int64(1), r.total("resent_threads", ""))
		assert.Zero(t, r.total("roots", ""))
	})
}

// TestResent: a span that comes again within the window counts once; rid says
// nothing (case 5: two traces, one rid).
func TestResent(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t, nil, nil)
		defer r.close()
		r.send(root(1, nil), root(2, nil), root(1, nil))
		<-time.After(9 * time.Minute)
		r.send(root(2, nil))
		assert.Equal(t, uint64(2), one(t, r.flushed(), sglang.MetricTTFT).count)
		assert.Equal(t, int64(2), r.total("roots", "resent"))
		assert.Equal(t, int64(2), r.total("roots", "counted"))
	})
}

func TestForgottenEarly(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t, nil, func(c *Config) { c.MaxRemembered = 100 })
		defer r.close()
		for n := range 151 {
			r.send(root(n, nil))
		}
		assert.Equal(t, int64(100), r.total("forgotten_early", ""))
		assert.LessOrEqual(t, r.total("remembered_spans", ""), int64(100))
	})
}

// TestResource: who an engine is must outlive its processes.
func TestResource(t *testing.T) {
	for _, tt := range []struct {
		name string
		set  map[string]string
		from []string
		want map[string]any
	}{
		{"random instance", nil, nil, map[string]any{"service.name": "sglang"}},
		{"named instance", map[string]string{"service.instance.id": "engine-0"}, nil, map[string]any{"service.name": "sglang", "service.instance.id": "engine-0"}},
		{"pod", map[string]string{"k8s.pod.name": "sglang-0", "service.namespace": "prod"}, nil, map[string]any{"service.name": "sglang", "service.namespace": "prod", "service.instance.id": "sglang-0"}},
		{"chosen", map[string]string{"node": "n1", "k8s.pod.name": "sglang-0"}, []string{"node"}, map[string]any{"service.name": "sglang", "service.instance.id": "n1"}},
		{"none", map[string]string{"service.instance.id": "engine-0"}, []string{}, map[string]any{"service.name": "sglang"}},
		{"ranks and engine id", map[string]string{"sglang.engine.id": "x", "sglang.tp_rank": "1", "host.name": "h"}, nil, map[string]any{"service.name": "sglang"}},
	} {
		run(t, tt.name, func(t *testing.T) {
			r := newRig(t, nil, func(c *Config) {
				if tt.from != nil {
					c.InstanceFrom = tt.from
				}
			})
			defer r.close()
			td := root(1, nil)
			for k, v := range tt.set {
				resourceOf(td).PutStr(k, v)
			}
			r.send(td)
			assert.Equal(t, tt.want, one(t, r.flushed(), sglang.MetricTTFT).resource)
		})
	}
}

// TestRestartsAndEnginesShareSeries: resources that differ only in what a
// Prometheus exporter drops must not become two series of one name and labels (case 57).
func TestRestartsAndEnginesShareSeries(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t, nil, nil)
		defer r.close()
		for n := range 100 {
			td := root(n, nil)
			resourceOf(td).PutStr("service.instance.id", fmt.Sprintf("6d9c4d8b-8494-4720-b24b-9eff05d8d%03x", n))
			resourceOf(td).PutStr("sglang.engine.id", fmt.Sprint(n))
			resourceOf(td).PutStr("telemetry.sdk.version", fmt.Sprint(n))
			r.send(td)
		}
		md := r.flushed()
		assert.Equal(t, 1, md.ResourceMetrics().Len())
		assert.Equal(t, uint64(100), one(t, md, sglang.MetricTTFT).count)
		assert.Equal(t, int64(14), r.total("series", ""))
	})
}

func TestDimensions(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t, nil, func(c *Config) { c.Dimensions = []string{"priority", "k8s.namespace.name"} })
		defer r.close()
		for n := range 4 {
			td := root(n, func(s ptrace.Span) { s.Attributes().PutInt("priority", int64(n%2)) })
			resourceOf(td).PutStr("k8s.namespace.name", "prod")
			r.send(td)
		}
		points := pointsOf(r.flushed(), sglang.MetricTTFT)
		require.Len(t, points, 2)
		for i, p := range points {
			assert.Equal(t, uint64(2), p.count)
			assert.Equal(t, fmt.Sprint(i), p.attrs["priority"])
			assert.Equal(t, "prod", p.attrs["k8s.namespace.name"])
		}
	})
}

// TestEndlessModels: 20 000 names of models: series are bounded, totals are right
// (case 55), and no text breaks an exporter's page.
func TestEndlessModels(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t, nil, func(c *Config) { c.MaxSeries, c.CollectorID = 100, "gw-0" })
		defer r.close()
		begin := time.Now()
		const requests = 20_000
		for n := range requests {
			r.send(root(n, func(s ptrace.Span) {
				s.Attributes().PutStr(sglang.AttrRequestModel, fmt.Sprintf("\xff%d%s", n, strings.Repeat("x", 1000)))
			}))
		}
		md := r.flushed()
		count, sum := totals(md, sglang.MetricRequestDuration)
		assert.Equal(t, uint64(requests), count)
		assert.InDelta(t, 1.25*requests, sum, 0)
		_, tokens := totals(md, sglang.MetricTokens)
		assert.InDelta(t, (300+64+101)*requests, tokens, 0)
		assert.Equal(t, int64(100), r.total("series", ""))
		assert.LessOrEqual(t, md.DataPointCount(), 107)

		points := pointsOf(md, sglang.MetricRequestDuration)
		last := points[len(points)-1]
		assert.Equal(t, map[string]any{sglang.AttrOverflow: true, sglang.AttrCollectorID: "gw-0"}, last.attrs)
		assert.Empty(t, last.resource)
		assert.Equal(t, begin.UTC(), last.start)
		assert.Equal(t, int64(last.count), r.total("overflowed", sglang.MetricRequestDuration))
		assert.LessOrEqual(t, len(points[0].attrs[sglang.AttrRequestModel].(string)), 256)
	})
}

func TestExpiry(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t, nil, func(c *Config) { c.SeriesExpiry = time.Minute })
		defer r.close()
		r.send(root(1, nil))
		<-time.After(57 * time.Second)
		r.send(root(2, func(s ptrace.Span) { s.Attributes().Remove(sglang.AttrOutTPOT) }))
		md := r.flushed()
		assert.Empty(t, pointsOf(md, sglang.MetricTPOT))
		assert.Equal(t, uint64(2), one(t, md, sglang.MetricTTFT).count)
		assert.Equal(t, int64(1), r.total("series_expired", ""))
		assert.Equal(t, int64(13), r.total("series", ""))

		before := time.Now()
		<-time.After(time.Second)
		r.send(root(3, nil))
		p := one(t, r.flushed(), sglang.MetricTPOT)
		assert.Equal(t, uint64(1), p.count)
		assert.True(t, p.start.After(before), "a series that begins anew has a new start")
	})
}

func TestCumulative(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t, nil, nil)
		defer r.close()
		r.send(root(1, nil))
		first := one(t, r.flushed(), sglang.MetricTTFT)
		r.send(root(2, nil), root(3, func(s ptrace.Span) { s.Attributes().PutStr(sglang.AttrRequestModel, "b") }))
		points := pointsOf(r.flushed(), sglang.MetricTTFT)
		require.Len(t, points, 2)
		assert.Equal(t, uint64(2), points[0].count)
		assert.Equal(t, first.start, points[0].start)
		assert.Equal(t, first.at, points[1].start, "a series starts with its first request")
		assert.Equal(t, first.at.Add(5*time.Second), points[1].at)
	})
}

func TestNothingSeenNothingSent(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t, nil, nil)
		<-time.After(time.Minute)
		r.close()
		assert.Empty(t, r.sink.AllMetrics())
	})
}

func TestShutdownFlushes(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t, nil, nil)
		r.send(root(1, nil))
		require.NoError(t, r.c.Shutdown(t.Context()))
		require.Len(t, r.sink.AllMetrics(), 1)
		require.NoError(t, r.c.Shutdown(t.Context()), "idempotent")
		assert.Len(t, r.sink.AllMetrics(), 1)
	})
}

// refusing is a consumer that fails or blocks until it is told otherwise.
type refusing struct {
	consumer.Metrics
	fail  atomic.Bool
	block bool
}

func (r *refusing) ConsumeMetrics(ctx context.Context, md pmetric.Metrics) error {
	if r.block {
		<-ctx.Done()
		return ctx.Err()
	}
	if r.fail.Load() {
		return errors.New("full")
	}
	return r.Metrics.ConsumeMetrics(ctx, md)
}

// TestFailingConsumer: nothing is lost, the next flush carries it.
func TestFailingConsumer(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		sink := new(consumertest.MetricsSink)
		next := &refusing{Metrics: sink}
		next.fail.Store(true)
		r := newRig(t, next, nil)
		defer r.close()
		r.sink = sink
		r.send(root(1, nil))
		<-time.After(11 * time.Second)
		synctest.Wait()
		assert.Equal(t, int64(2), r.total("flush_failures", ""))
		next.fail.Store(false)
		assert.Equal(t, uint64(1), one(t, r.flushed(), sglang.MetricTTFT).count)
	})
}

// TestBlockedConsumer: spans are taken all the same, and a shutdown ends.
func TestBlockedConsumer(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t, &refusing{block: true}, nil)
		r.send(root(1, nil))
		<-time.After(time.Minute)
		r.send(root(2, nil))
		assert.Equal(t, int64(2), r.total("roots", "counted"))
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		require.NoError(t, r.c.Shutdown(ctx))
		require.NoError(t, r.tel.Shutdown(t.Context()))
	})
}

func TestSpansAreOnlyRead(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t, nil, nil)
		defer r.close()
		td := root(1, nil)
		td.MarkReadOnly()
		r.send(td)
		assert.False(t, r.c.Capabilities().MutatesData)
	})
}

// TestAnyOrder: requests, resent ones and threads in any order and any batches give
// the same totals, and the stages add up to the durations.
func TestAnyOrder(t *testing.T) {
	rapid.Check(t, func(rt *rapid.T) {
		limit := rapid.IntRange(1, 60).Draw(rt, "max_series")
		r := newRig(t, nil, func(c *Config) { c.MaxSeries, c.Interval = limit, 10*time.Minute })
		defer r.close()
		requests := rapid.IntRange(1, 12).Draw(rt, "requests")
		var spans []int
		for n := range requests {
			spans = append(spans, n, n)
		}
		counted := make(map[int]bool)
		for _, n := range rapid.Permutation(spans).Draw(rt, "order") {
			if rapid.Bool().Draw(rt, "lost") {
				continue
			}
			counted[n] = true
			r.send(root(n, func(s ptrace.Span) {
				s.Attributes().PutStr(sglang.AttrRequestModel, fmt.Sprint("model ", n%3))
			}))
		}
		if len(counted) == 0 {
			return
		}
		r.c.flush(t.Context())
		md := r.sink.AllMetrics()[0]
		count, duration := totals(md, sglang.MetricRequestDuration)
		require.Equal(rt, uint64(len(counted)), count)
		_, stages := totals(md, sglang.MetricStageDuration)
		require.InDelta(rt, duration, stages, 1e-9)
		_, tokens := totals(md, sglang.MetricTokens)
		require.InDelta(rt, 465*len(counted), tokens, 0)
		require.LessOrEqual(rt, md.DataPointCount(), limit+7)
	})
}

func TestConcurrentUse(t *testing.T) {
	r := newRig(t, nil, func(c *Config) { c.Interval, c.MaxSeries = 100*time.Millisecond, 30 })
	done := make(chan struct{})
	for g := range 4 {
		go func() {
			defer func() { done <- struct{}{} }()
			for n := range 200 {
				_ = r.c.ConsumeTraces(context.Background(), root(g*1000+n, nil))
				_ = r.c.ConsumeTraces(context.Background(), thread(n, 0.1))
				r.c.flush(context.Background())
			}
		}()
	}
	for range 4 {
		<-done
	}
	assert.Equal(t, int64(800), r.total("roots", "counted"))
	assert.Equal(t, int64(600), r.total("resent_threads", ""))
	r.close()
}

func TestStartIsOptional(t *testing.T) {
	c, err := newConnector(connectortest.NewNopSettings(metadata.Type), createDefaultConfig().(*Config), consumertest.NewNop())
	require.NoError(t, err)
	require.NoError(t, c.Shutdown(t.Context()))
}
