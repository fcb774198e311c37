// Copyright The otelcol-sglang Authors
// SPDX-License-Identifier: Apache-2.0

package rankdedupprocessor

import (
	"context"
	"encoding/binary"
	"errors"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"go.opentelemetry.io/collector/consumer"
	"go.opentelemetry.io/collector/pdata/ptrace"

	"github.com/otelcol-sglang/otelcol-sglang/internal/sglang"
)

// left returns the spans that left, in order.
func (s *story) left() (spans []ptrace.Span) {
	for _, td := range s.sink.AllTraces() {
		eachSpan(td, func(_ ptrace.ResourceSpans, span ptrace.Span) { spans = append(spans, span) })
	}
	return spans
}

// TestStoriesOfLeaving: what leaves, in which order, and whose it says it is.
func TestStoriesOfLeaving(t *testing.T) {
	tell(t, "fills, then thread spans, the root last; a fill keeps its rank's resource", func(s *story) {
		m := s.known(3)
		lost := func(p parcel) bool { return p.is("prefill_forward") || p.facts[0].attrs[sglang.AttrDecodeCT] == 2 }
		all := m.serve(0)
		s.send(drop(all, func(p parcel) bool { return p.from == m.fromRank(0) && lost(p) })...)
		s.rest()
		out := treeOf(s.sink.AllTraces())
		assert.Empty(s, out.dangling())
		filled := 0
		for id, span := range out.spans {
			ct, _ := span.Attributes().Get(sglang.AttrDecodeCT)
			instance, _ := out.res[id].Attributes().Get(attrInstanceID)
			switch rank := keyOf(out.res[id].Attributes()).Ranks.TP; {
			case span.Name() == "prefill_forward", span.Name() == "decode_loop" && ct.Int() == 2:
				filled++
				assert.Positive(s, rank, span.Name())
				assert.Equal(s, m.fromRank(int(rank)).instance, instance.Str(), span.Name())
			default:
				assert.LessOrEqual(s, rank, int32(0), span.Name())
			}
		}
		assert.Equal(s, 2, filled)
		order := s.left()
		names := make([]string, len(order))
		for i, span := range order {
			names[i] = span.Name()
		}
		assert.Equal(s, []string{"Scheduler", " Req 0815"}, names[len(names)-2:])
	})
	tell(t, "a thread span that stands in keeps its rank's resource", func(s *story) {
		m := s.known(2)
		s.send(drop(m.serve(0), func(p parcel) bool { return p.from == m.fromRank(0) && p.is("Scheduler") })...)
		s.rest()
		out := treeOf(s.sink.AllTraces())
		assert.Empty(s, out.dangling())
		for id, span := range out.spans {
			if span.Name() == "Scheduler" {
				assert.EqualValues(s, 1, keyOf(out.res[id].Attributes()).Ranks.TP)
			}
		}
		assert.Equal(s, " Req 0815", s.left()[len(s.left())-1].Name())
	})
	tell(t, "no rank has a link's target: the stage before it stands in", func(s *story) {
		m := s.known(2)
		s.send(drop(m.serve(0), func(p parcel) bool { return p.is("prefill_waiting") })...)
		s.rest()
		out := treeOf(s.sink.AllTraces())
		assert.Empty(s, out.dangling())
		for _, span := range out.spans {
			if span.Name() == "prefill_forward" {
				assert.Equal(s, "request_process", out.spans[span.Links().At(0).SpanID()].Name())
			}
		}
	})
	tell(t, "a root waits for ranks that are being learned, and from then on", func(s *story) {
		m := newEngineModel("7", 2)
		all := m.serve(0)
		threads := func(p parcel) bool { return p.is("Scheduler") }
		s.send(drop(all, threads)...)
		wait := createDefaultConfig().(*Config).Wait
		time.Sleep(4 * wait)
		synctest.Wait()
		assert.False(s, treeOf(s.sink.AllTraces()).has(" Req 0815"))
		s.send(drop(all, func(p parcel) bool { return !threads(p) })...)
		s.rest()
		assert.Equal(s, " Req 0815", s.left()[len(s.left())-1].Name())
		s.check()
		assert.Zero(s, s.early())
	})
	tell(t, "two traces with equal low halves of their ids are two", func(s *story) {
		m := s.known(2)
		all := m.serve(0)
		for high := range uint64(2) {
			s.alter = func(td ptrace.Traces) {
				eachSpan(td, func(_ ptrace.ResourceSpans, span ptrace.Span) {
					id := span.TraceID()
					binary.BigEndian.PutUint64(id[:8], high+1)
					span.SetTraceID(id)
					for _, l := range span.Links().All() {
						l.SetTraceID(id)
					}
				})
			}
			// The span ids are the same too: of one trace these were resends.
			s.send(all...)
			synctest.Wait() // while the other one is remembered
			s.check()
		}
		assert.Zero(s, value(s.T, s.tel, "spans_resent", ""))
		assert.Zero(s, s.early())
	})
	tell(t, "slices of a later release are told apart by their names", func(s *story) {
		m := newEngineModel("7", 3)
		m.first = []string{"request_process", "new stage", "prefill_waiting", "newer stage", "prefill_forward"}
		for range 3 {
			s.send(m.serve(0)...)
			s.rest()
			s.check()
		}
		assert.Zero(s, s.early())
	})
	tell(t, "schema and scope of what was held", func(s *story) {
		s.alter = func(td ptrace.Traces) {
			rs := td.ResourceSpans().At(0)
			rs.SetSchemaUrl("resource schema")
			rs.ScopeSpans().At(0).SetSchemaUrl("scope schema")
			rs.ScopeSpans().At(0).Scope().SetVersion("1.2")
			rs.ScopeSpans().At(0).Scope().Attributes().PutStr("own", "x")
		}
		s.send(newEngineModel("7", 2).serve(0)...)
		s.rest()
		for _, td := range s.sink.AllTraces() {
			for _, rs := range td.ResourceSpans().All() {
				assert.Equal(s, "resource schema", rs.SchemaUrl())
				for _, ss := range rs.ScopeSpans().All() {
					assert.Equal(s, "scope schema", ss.SchemaUrl())
					assert.Equal(s, "1.2", ss.Scope().Version())
					assert.Equal(s, map[string]any{"own": "x"}, ss.Scope().Attributes().AsRaw())
				}
			}
		}
		s.check()
	})
	tell(t, "traces are spread over the shards by the low half of their ids", func(s *story) {
		m := s.known(1)
		for range 200 {
			all := m.serve(0)
			s.send(all[len(all)-1])
		}
		used := 0
		for i := range s.p.shards {
			sh := &s.p.shards[i]
			sh.mu.Lock()
			if sh.Levels().Traces > 0 {
				used++
			}
			sh.mu.Unlock()
		}
		assert.Equal(s, shardCount/2, used, "ids of the story are odd")
		s.rest()
	})
	tell(t, "a transfer's own thread compares with no other rank", func(s *story) {
		m := s.known(2)
		s.send(mooncake(m, 1)...)
		s.rest()
		for _, span := range s.left() {
			if span.Name() == "Prefill Scheduler" {
				expected, _ := span.Attributes().Get(sglang.AttrRanksExpected)
				assert.EqualValues(s, 1, expected.Int())
			}
		}
	})
}

// TestStoriesOfSettings: a setting other than its default is what counts.
func TestStoriesOfSettings(t *testing.T) {
	with := func(change func(*Config), what func(*story, *Config)) func(*story) {
		return func(s *story) {
			cfg := createDefaultConfig().(*Config)
			change(cfg)
			s.p, s.tel = startWith(s.T, cfg, s.sink)
			what(s, cfg)
		}
	}
	tell(t, "learn_wait", with(func(c *Config) { c.LearnWait = 5 * time.Second }, func(s *story, c *Config) {
		s.send(newEngineModel("7", 1).serve(0)[1]) // a scheduler's slice alone
		time.Sleep(c.LearnWait - time.Second)
		synctest.Wait()
		assert.Zero(s, s.sink.SpanCount())
		time.Sleep(2 * time.Second)
		synctest.Wait()
		assert.Equal(s, 1, s.sink.SpanCount())
	}))
	tell(t, "wait", with(func(c *Config) { c.Wait = 8 * time.Second }, func(s *story, c *Config) {
		m := newEngineModel("7", 2)
		s.send(m.serve(0)...)
		s.rest()
		s.check()
		s.send(drop(m.serve(0), func(p parcel) bool { return p.is("Scheduler") && p.from == m.fromRank(1) })...)
		time.Sleep(c.Wait - time.Second)
		synctest.Wait()
		assert.EqualValues(s, 2, s.p.level(heldSpans), "a thread span and the root wait for the other rank's")
		time.Sleep(2 * time.Second)
		synctest.Wait()
		assert.Zero(s, s.p.level(heldSpans))
		assert.EqualValues(s, 2, s.early(), "they left")
	}))
	tell(t, "forget_after", with(func(c *Config) { c.ForgetAfter = 2 * time.Minute }, func(s *story, c *Config) {
		m := newEngineModel("7", 2)
		for range 2 { // the second time anew
			s.send(m.serve(0)...)
			time.Sleep(c.ForgetAfter - 5*time.Second)
			synctest.Wait()
			assert.EqualValues(s, 2, s.p.registry.Count().Known)
			s.check()
			time.Sleep(10 * time.Second)
			synctest.Wait()
			assert.Zero(s, s.p.registry.Count())
		}
		time.Sleep(time.Hour)
		assert.Zero(s, s.p.bytes.Load())
		assert.Zero(s, s.early())
	}))
}

// TestBackOff: a next consumer that takes nothing is asked ever more seldom, and
// what it did not take leaves when it does.
func TestBackOff(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var open atomic.Bool
		next := &flaky{refuse: func(int) error {
			if open.Load() {
				return nil
			}
			return errors.New("down")
		}}
		p, _ := startWith(t, createDefaultConfig().(*Config), next)
		all := newEngineModel("7", 1).serve(0)
		require.NoError(t, p.ConsumeTraces(context.Background(), all[len(all)-1].batch()))
		time.Sleep(2 * time.Minute)
		synctest.Wait()
		calls := next.calls.Load()
		assert.Greater(t, calls, int64(10))
		assert.Less(t, calls, int64(2*time.Minute/lastRetry)+10)
		open.Store(true)
		time.Sleep(2 * lastRetry)
		synctest.Wait()
		assert.Equal(t, 1, next.SpanCount())
		assert.Zero(t, p.level(heldSpans))
		assert.Zero(t, p.flusher.queued())
	})
}

// TestNoLockAcrossTheNext: the next consumer may take as long as it likes, or ask
// the processor itself.
func TestNoLockAcrossTheNext(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var p *tracesProcessor
		calls := 0
		next, err := consumer.NewTraces(func(context.Context, ptrace.Traces) error {
			calls++
			for i := range p.shards {
				p.shards[i].mu.Lock()
				p.shards[i].mu.Unlock() //nolint:staticcheck // only whether it can be had
			}
			p.registry.Count()
			return nil
		})
		require.NoError(t, err)
		p, _ = startWith(t, createDefaultConfig().(*Config), next)
		for _, parcel := range newEngineModel("7", 2).serve(0) {
			require.NoError(t, p.ConsumeTraces(context.Background(), parcel.batch()))
		}
		time.Sleep(time.Minute)
		synctest.Wait()
		assert.Greater(t, calls, 1)
	})
}
