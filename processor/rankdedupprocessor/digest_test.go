// Copyright The otelcol-sglang Authors
// SPDX-License-Identifier: Apache-2.0

package rankdedupprocessor

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"go.opentelemetry.io/collector/pdata/pcommon"
	"go.opentelemetry.io/collector/pdata/ptrace"
	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/sdk/metric/metricdata"
	"go.opentelemetry.io/otel/sdk/metric/metricdata/metricdatatest"

	"github.com/otelcol-sglang/otelcol-sglang/internal/capture"
	"github.com/otelcol-sglang/otelcol-sglang/internal/sglang"
	"github.com/otelcol-sglang/otelcol-sglang/processor/rankdedupprocessor/internal/metadatatest"
)

const (
	// straggle is by how much the slow rank's steps end later.
	straggle = 40 * time.Millisecond
	// noise is how far the clocks of one host's processes may differ.
	noise = 3 * time.Millisecond
	// stagger is by how much each rank's spans end after those of the rank below.
	stagger = time.Microsecond
)

// serveSlowly sends a request whose steps end late on one rank. to is the
// processor that a source exports to.
func (s *story) serveSlowly(m *engineModel, slow int, to func(source) *tracesProcessor) {
	s.Helper()
	s.serveLate(m, slow, straggle, to)
}

// serveLate is serveSlowly by the given time.
func (s *story) serveLate(m *engineModel, slow int, by time.Duration, to func(source) *tracesProcessor) {
	s.Helper()
	ends := map[source]time.Duration{}
	for rank := range m.tp {
		ends[m.fromRank(rank)] = time.Duration(rank) * stagger
	}
	began := time.Now()
	for _, p := range m.serve(0) {
		td := p.batch()
		for _, span := range treeOf([]ptrace.Traces{td}).spans {
			span.SetStartTimestamp(pcommon.NewTimestampFromTime(began))
			end := began.Add(5*time.Millisecond + ends[p.from])
			if p.from == m.fromRank(slow) && span.Name() == "decode_loop" {
				end = end.Add(by)
			}
			span.SetEndTimestamp(pcommon.NewTimestampFromTime(end))
		}
		require.NoError(s, to(p.from).ConsumeTraces(context.Background(), td))
	}
}

// digest returns what the kept scheduler thread says of the ranks.
func (s *story) digest() map[string]any {
	s.Helper()
	for _, span := range treeOf(s.sink.AllTraces()).spans {
		if sglang.ThreadOf(span.Attributes()).Label != "Scheduler" {
			continue
		}
		out := map[string]any{}
		for key, v := range span.Attributes().All() {
			if strings.HasPrefix(key, "sglang.ranks.") {
				out[key] = v.AsRaw()
			}
		}
		return out
	}
	s.Fatal("no scheduler thread left")
	return nil
}

func TestStoriesOfSkew(t *testing.T) {
	tell(t, "one rank is slow in its steps", func(s *story) {
		m := newEngineModel("7", 3)
		m.tokens = 6
		s.send(m.serve(0)...)
		s.rest()
		s.check()
		s.serveSlowly(m, 1, func(source) *tracesProcessor { return s.p })
		s.rest()
		// Of ten spans rank 1 ended six steps last, rank 2 the others.
		assert.Equal(s, map[string]any{
			sglang.AttrRanksCount: int64(3), sglang.AttrRanksExpected: int64(3),
			sglang.AttrRanksSlowest: int64(1), sglang.AttrRanksSlowestShare: 0.6,
			sglang.AttrRanksSkew:                           (straggle + stagger).Seconds(),
			sglang.AttrRanksSkewPrefix + "decode_loop":     (straggle + stagger).Seconds(),
			sglang.AttrRanksSkewPrefix + "decode_forward":  (2 * stagger).Seconds(),
			sglang.AttrRanksSkewPrefix + "prefill_forward": (2 * stagger).Seconds(),
			sglang.AttrRanksSkewPrefix + "prefill_waiting": (2 * stagger).Seconds(),
			sglang.AttrRanksSkewPrefix + "request_process": (2 * stagger).Seconds(),
		}, s.digest())
	})
	for by, slowest := range map[time.Duration]any{noise - stagger: nil, noise: int64(1)} {
		tell(t, fmt.Sprintf("clocks differ by up to %v, a rank is late by %v", noise, by), func(s *story) {
			m := newEngineModel("7", 3)
			s.send(m.serve(0)...)
			s.rest()
			s.check()
			s.serveLate(m, 1, by, func(source) *tracesProcessor { return s.p })
			s.rest()
			got := s.digest()
			assert.Equal(s, slowest, got[sglang.AttrRanksSlowest])
			assert.Equal(s, slowest != nil, got[sglang.AttrRanksSlowestShare] != nil)
			assert.InDelta(s, (by + stagger).Seconds(), got[sglang.AttrRanksSkew], 1e-12, "the number is told all the same")
		})
	}
	tell(t, "one rank alone compares nothing", func(s *story) {
		m := newEngineModel("7", 1)
		s.serveSlowly(m, 0, func(source) *tracesProcessor { return s.p })
		s.rest()
		assert.Equal(s, map[string]any{sglang.AttrRanksCount: int64(1), sglang.AttrRanksExpected: int64(1)}, s.digest())
	})
}

// TestStoriesOfMergedDigests: each node's agent folds its ranks, the gateway adds
// their digests up.
func TestStoriesOfMergedDigests(t *testing.T) {
	twoTiers := func(what func(s *story, m *engineModel, to func(source) *tracesProcessor)) func(*story) {
		return func(s *story) {
			slow := createDefaultConfig().(*Config)
			slow.Wait = 6 * time.Second
			s.p, s.tel = startWith(s.T, slow, s.sink)
			near, _ := startWith(s.T, createDefaultConfig().(*Config), s.p)
			far, _ := startWith(s.T, createDefaultConfig().(*Config), s.p)
			m := newEngineModel("7", 4)
			what(s, m, func(from source) *tracesProcessor {
				if from == m.fromRank(2) || from == m.fromRank(3) {
					return far
				}
				return near
			})
		}
	}
	tell(t, "the slow rank is folded far away", twoTiers(func(s *story, m *engineModel, to func(source) *tracesProcessor) {
		for range 3 {
			s.sink.reset()
			s.serveSlowly(m, 3, to)
			s.rest()
		}
		got := s.digest()
		assert.EqualValues(s, 4, got[sglang.AttrRanksCount])
		assert.EqualValues(s, 4, got[sglang.AttrRanksExpected])
		assert.EqualValues(s, 3, got[sglang.AttrRanksSlowest], "the gateway saw no copy of it")
		assert.InDelta(s, 0.5, got[sglang.AttrRanksSlowestShare], 0)
		assert.InDelta(s, (straggle + stagger).Seconds(), got[sglang.AttrRanksSkew], 1e-12)
		assert.InDelta(s, (straggle + stagger).Seconds(), got[sglang.AttrRanksSkewPrefix+"decode_loop"], 1e-12)
		assert.InDelta(s, (2 * stagger).Seconds(), got[sglang.AttrRanksSkewPrefix+"decode_forward"], 1e-12)
	}))
	tell(t, "a rank is missed far away", twoTiers(func(s *story, m *engineModel, to func(source) *tracesProcessor) {
		for range 3 {
			s.serveSlowly(m, 0, to)
			s.rest()
		}
		s.sink.reset()
		m.tp = 3
		s.serveSlowly(m, 0, to)
		s.rest()
		got := s.digest()
		assert.EqualValues(s, 3, got[sglang.AttrRanksCount])
		assert.EqualValues(s, 4, got[sglang.AttrRanksExpected])
	}))
}

// TestOwnTelemetry: each metric of the traces pipeline, after a capture of known
// ranks with a resend.
func TestOwnTelemetry(t *testing.T) {
	exports, err := capture.Load(capturesDir, "traces-unified-tp4-level3")
	require.NoError(t, err)
	synctest.Test(t, func(t *testing.T) {
		sink := newCallSink()
		p, tel := startWith(t, createDefaultConfig().(*Config), sink)
		r := &running{t: t, p: p, sink: sink}
		r.replay(exports, 0, byPeer)
		r.replay(exports, 1, byPeer)
		front := exports[slices.IndexFunc(exports, func(e capture.Export) bool { return inputTree([]capture.Export{e}, 0).has("tokenize") })]
		td := fresh(front.Traces, 1)
		stamp(td, front.Peer)
		again := int64(td.SpanCount())
		r.consume(td)
		time.Sleep(15 * time.Minute)
		synctest.Wait()

		const spans, out = 228, 66
		one := func(n int64) []metricdata.DataPoint[int64] { return []metricdata.DataPoint[int64]{{Value: n}} }
		state := func(name string, n int64) metricdata.DataPoint[int64] {
			return metricdata.DataPoint[int64]{Value: n, Attributes: attribute.NewSet(attribute.String("state", name))}
		}
		same := metricdatatest.IgnoreTimestamp()
		metadatatest.AssertEqualProcessorRankdedupSpansIn(t, tel, one(2*spans+again), same)
		metadatatest.AssertEqualProcessorRankdedupSpansFolded(t, tel, one(2*(spans-out)), same)
		metadatatest.AssertEqualProcessorRankdedupSpansResent(t, tel, one(again), same)
		metadatatest.AssertEqualProcessorRankdedupSpansAtOnce(t, tel, one(47+60), same)
		metadatatest.AssertEqualProcessorRankdedupSpansReleased(t, tel, one(out-47+out-60), same)
		metadatatest.AssertEqualProcessorRankdedupHeldSpans(t, tel, one(0), same)
		metadatatest.AssertEqualProcessorRankdedupHeldBytes(t, tel, one(0), same)
		metadatatest.AssertEqualProcessorRankdedupTraces(t, tel, one(0), same)
		metadatatest.AssertEqualProcessorRankdedupEngines(t, tel, one(1), same)
		metadatatest.AssertEqualProcessorRankdedupSenders(t, tel, []metricdata.DataPoint[int64]{state("known", 4), state("unknown", 1), state("ambiguous", 0)}, same)
	})
}

func (tr *tree) has(name string) bool {
	for _, span := range tr.spans {
		if span.Name() == name {
			return true
		}
	}
	return false
}

func TestStoriesOfEarlyReleases(t *testing.T) {
	// without returns a request's parcels but for the spans of the names.
	without := func(m *engineModel, names ...string) (out []parcel) {
		for _, p := range m.serve(0) {
			kept := parcel{from: p.from, facts: slices.DeleteFunc(p.facts, func(f fact) bool { return slices.Contains(names, f.name) })}
			if len(kept.facts) > 0 {
				out = append(out, kept)
			}
		}
		return out
	}
	for reason, lost := range map[string][]string{
		"root_missing":   {" Req 0815"},
		"thread_missing": {"Scheduler"},
	} {
		tell(t, reason, func(s *story) {
			m := newEngineModel("7", 2)
			for range 2 {
				s.send(m.serve(0)...)
				s.rest()
				s.check()
			}
			s.send(without(m, lost...)...)
			time.Sleep(time.Hour)
			synctest.Wait()
			assert.Positive(s, value(s.T, s.tel, "spans_early_release", reason))
			assert.Equal(s, s.early(), value(s.T, s.tel, "spans_early_release", reason), "other reasons")
			out := treeOf(s.sink.AllTraces())
			assert.Empty(s, out.twice)
			assert.Len(s, out.spans, 3+3+4+1+2-len(lost))
			assert.Zero(s, s.p.level(heldSpans))
		})
	}
	tell(t, "shutdown", func(s *story) {
		m := newEngineModel("7", 2)
		s.send(m.serve(0)...)
		s.rest()
		s.check()
		s.send(without(m, "Scheduler")...)
		require.NoError(s, s.p.Shutdown(context.Background()))
		assert.EqualValues(s, 1, value(s.T, s.tel, "spans_early_release", "shutdown"))
		assert.Len(s, treeOf(s.sink.AllTraces()).spans, 3+3+4+1+2-1)
	})
}
