// Copyright The otelcol-sglang Authors
// SPDX-License-Identifier: Apache-2.0

package rankdedupprocessor

import (
	"context"
	"errors"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"go.opentelemetry.io/collector/component/componenttest"
	"go.opentelemetry.io/collector/consumer/consumererror"
	"go.opentelemetry.io/collector/consumer/consumertest"
	"go.opentelemetry.io/collector/processor/processortest"
	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/sdk/metric/metricdata"
	"go.opentelemetry.io/otel/sdk/metric/metricdata/metricdatatest"

	"github.com/otelcol-sglang/otelcol-sglang/internal/sglang"
	"github.com/otelcol-sglang/otelcol-sglang/processor/rankdedupprocessor/internal/metadata"
	"github.com/otelcol-sglang/otelcol-sglang/processor/rankdedupprocessor/internal/metadatatest"
)

var anyTime = metricdatatest.IgnoreTimestamp()

// points is one point with the value; labels are a key and its value, or nothing.
func points(n int, labels ...string) []metricdata.DataPoint[int64] {
	p := metricdata.DataPoint[int64]{Value: int64(n)}
	if len(labels) == 2 {
		p.Attributes = attribute.NewSet(attribute.String(labels[0], labels[1]))
	}
	return []metricdata.DataPoint[int64]{p}
}

// drop returns the parcels without those for which gone is true.
func drop(parcels []parcel, gone func(parcel) bool) []parcel {
	return slices.DeleteFunc(slices.Clone(parcels), gone)
}

func (p parcel) is(name string) bool { return p.facts[0].name == name }

// known returns an engine whose ranks the story's processor knows.
func (s *story) known(tp int) *engineModel {
	s.Helper()
	m := newEngineModel("7", tp)
	s.send(m.serve(0)...)
	s.rest()
	s.check()
	return m
}

// TestOwnTelemetryOfLosses: what goes wrong is counted, and by how much.
func TestOwnTelemetryOfLosses(t *testing.T) {
	tell(t, "copies stand in for a step and a slice", func(s *story) {
		m := s.known(2)
		s.send(drop(m.serve(0), func(p parcel) bool {
			return p.from == m.fromRank(0) && (p.is("prefill_forward") || p.facts[0].attrs[sglang.AttrDecodeCT] == 2)
		})...)
		s.rest()
		out := treeOf(s.sink.AllTraces())
		assert.Empty(s, out.twice)
		assert.Empty(s, out.dangling())
		assert.Len(s, out.spans, 3+1+3+m.tokens+1+1)
		metadatatest.AssertEqualProcessorRankdedupSpansFilled(s.T, s.tel, points(2), anyTime)
	})
	tell(t, "a rank comes after its request left", func(s *story) {
		m := s.known(2)
		all := m.serve(0)
		late := func(p parcel) bool { return p.from == m.fromRank(1) }
		s.send(drop(all, func(p parcel) bool { return late(p) || p.facts[0].attrs[sglang.AttrDecodeCT] == 2 })...)
		time.Sleep(5 * time.Second)
		synctest.Wait()
		after := drop(all, func(p parcel) bool { return !late(p) })
		s.send(after...)
		s.rest()
		metadatatest.AssertEqualProcessorRankdedupSpansLate(s.T, s.tel, append(
			points(len(after)-1, "reason", "folded"), points(1, "reason", "passed")...), anyTime)
	})
	tell(t, "the kept rank dies", func(s *story) {
		m := s.known(3)
		for range 4 {
			s.send(drop(m.serve(0), func(p parcel) bool { return p.from == m.fromRank(0) })...)
			s.rest()
		}
		metadatatest.AssertEqualProcessorRankdedupFailovers(s.T, s.tel, points(1), anyTime)
	})
	tell(t, "after the end", func(s *story) {
		require.NoError(s, s.p.Shutdown(context.Background()))
		td := newEngineModel("7", 1).serve(0)[0].batch()
		want := td.SpanCount()
		require.ErrorIs(s, s.p.ConsumeTraces(context.Background(), td), errFull)
		metadatatest.AssertEqualProcessorRankdedupSpansRefused(s.T, s.tel, points(want), anyTime)
	})
	tell(t, "a span waits", func(s *story) {
		m := s.known(1)
		all := m.serve(0)
		s.send(all[len(all)-1]) // the root
		metadatatest.AssertEqualProcessorRankdedupHeldSpans(s.T, s.tel, points(1), anyTime)
		metadatatest.AssertEqualProcessorRankdedupTraces(s.T, s.tel, points(1), anyTime)
		metadatatest.AssertEqualProcessorRankdedupHeldBytes(s.T, s.tel, points(int(s.p.bytes.Load())), anyTime)
		assert.Positive(s, s.p.bytes.Load())
	})
	tell(t, "spans that left unfolded are named", func(s *story) {
		m := newEngineModel("7", 2)
		all := m.serve(0)
		step := func(p parcel) bool { return p.is("decode_loop") }
		s.send(drop(all, func(p parcel) bool { return !step(p) })...)
		s.rest()
		s.send(drop(all, step)...)
		s.rest()
		out := treeOf(s.sink.AllTraces())
		assert.Empty(s, out.twice)
		assert.Empty(s, out.dangling())
		metadatatest.AssertEqualProcessorRankdedupSpansEarlyRelease(s.T, s.tel, points(2*m.tokens, "reason", "learn_wait"), anyTime)
		// The other rank's decode_forward: its steps name it.
		metadatatest.AssertEqualProcessorRankdedupSpansUnfolded(s.T, s.tel, points(1), anyTime)
	})
	tell(t, "steps of which of two requests", func(s *story) {
		m := s.known(2)
		trace := m.id()
		// Of rank 1 only steps come, and nothing tells of which request each is.
		blurred := func(all []parcel) []parcel {
			return drop(all, func(p parcel) bool { return p.from == m.fromRank(1) && !p.is("decode_loop") })
		}
		one, other := blurred(m.serve(trace)), blurred(m.serve(trace))
		s.send(interleave(one, other)...)
		s.rest()
		metadatatest.AssertEqualProcessorRankdedupSpansEarlyRelease(s.T, s.tel, append(
			points(2*m.tokens, "reason", "unplaced"), points(2*2, "reason", "thread_missing")...), anyTime)
		out := treeOf(s.sink.AllTraces())
		assert.Empty(s, out.twice)
		assert.Len(s, out.spans, 2*(3+1+3+m.tokens+1+1)+2*m.tokens, "both requests, and copies that could not be placed")
	})
}

// TestOwnTelemetryOfTheEnd: spans that were acknowledged and go nowhere.
func TestOwnTelemetryOfTheEnd(t *testing.T) {
	for reason, refusal := range map[string]error{
		"refused":  consumererror.NewPermanent(errors.New("no")),
		"shutdown": errors.New("down"),
	} {
		t.Run(reason, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				next := &flaky{refuse: func(int) error { return refusal }}
				p, tel := startWith(t, createDefaultConfig().(*Config), next)
				all := newEngineModel("7", 1).serve(0)
				require.NoError(t, p.ConsumeTraces(context.Background(), all[len(all)-1].batch()))
				time.Sleep(time.Minute)
				require.NoError(t, p.Shutdown(context.Background()))
				metadatatest.AssertEqualProcessorRankdedupSpansLost(t, tel, points(1, "reason", reason), anyTime)
			})
		})
	}
}

// TestOwnTelemetryByRule: points of a scrape of two ranks, by their family's rule.
func TestOwnTelemetryByRule(t *testing.T) {
	tel := componenttest.NewTelemetry()
	t.Cleanup(func() { require.NoError(t, tel.Shutdown(context.Background())) })
	set := processortest.NewNopSettings(metadata.Type)
	set.TelemetrySettings = tel.NewTelemetrySettings()
	p := newMetricsUnderTest(t, set, consumertest.NewNop())
	md := cpuSeconds(1, 10, 20)
	metrics := md.ResourceMetrics().At(0).ScopeMetrics().At(0).Metrics()
	add := func(name string) {
		m := metrics.AppendEmpty()
		m.SetName(name)
		m.SetEmptyGauge()
		for rank := range int64(2) {
			dp := m.Gauge().DataPoints().AppendEmpty()
			dp.Attributes().PutInt("tp_rank", rank)
			dp.SetDoubleValue(1)
		}
	}
	for _, family := range []string{"sglang:num_running_reqs", "sglang:token_usage", "sglang:weight_load_duration_seconds", "vllm:other"} {
		add(family)
	}
	keep := metrics.AppendEmpty()
	metrics.At(0).CopyTo(keep)
	keep.SetName("sglang:scheduler_idle_seconds_total")
	require.NoError(t, p.ConsumeMetrics(t.Context(), md))
	byRule := func(counts map[string]int) (all []metricdata.DataPoint[int64]) {
		for rule, n := range counts {
			all = append(all, points(n, "rule", rule)...)
		}
		return all
	}
	metadatatest.AssertEqualProcessorRankdedupPointsIn(t, tel, byRule(map[string]int{"first": 4, "max": 2, "sum": 2, "keep": 2, "pass": 2}), anyTime)
	metadatatest.AssertEqualProcessorRankdedupPointsOut(t, tel, byRule(map[string]int{"first": 2, "max": 1, "sum": 1, "keep": 2, "pass": 2}), anyTime)
}

// TestSilentRank: one of three ranks sends nothing any more. Each request says so, and
// so does the collector, until it is back.
func TestSilentRank(t *testing.T) {
	tell(t, "a rank that is not the kept one", func(s *story) {
		m := s.known(3)
		serve := func(without int) {
			s.sink.reset()
			for range 3 {
				s.send(drop(m.serve(0), func(p parcel) bool { return p.from == m.fromRank(without) })...)
				s.rest()
			}
		}
		serve(2)
		metadatatest.AssertEqualProcessorRankdedupSilentRanks(s.T, s.tel, points(1), anyTime)
		s.sink.reset()
		serve(2)
		assert.EqualValues(s, 2, s.digest()[sglang.AttrRanksCount])
		assert.EqualValues(s, 3, s.digest()[sglang.AttrRanksExpected])
		serve(99)
		assert.EqualValues(s, 3, s.digest()[sglang.AttrRanksCount])
		metadatatest.AssertEqualProcessorRankdedupSilentRanks(s.T, s.tel, points(0), anyTime)
	})
}
