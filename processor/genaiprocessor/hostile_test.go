// Copyright The otelcol-sglang Authors
// SPDX-License-Identifier: Apache-2.0

package genaiprocessor

import (
	"context"
	"math"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"go.opentelemetry.io/collector/component/componenttest"
	"go.opentelemetry.io/collector/consumer/consumererror"
	"go.opentelemetry.io/collector/pdata/pcommon"
	"go.opentelemetry.io/collector/pdata/ptrace"

	"github.com/otelcol-sglang/otelcol-sglang/internal/sglang"
	"github.com/otelcol-sglang/otelcol-sglang/processor/genaiprocessor/internal/metadatatest"
)

// TestHostileTrace: one trace of 100 000 spans that fit nowhere. Work that grew
// with the square of it would not end within the test's time.
func TestHostileTrace(t *testing.T) {
	const n = 100_000
	external := pcommon.TraceID{1, 15: 1}
	odd := func(s *story, i int) ptrace.Span { return s.span(newID(), "prefill_forward", float64(i), float64(i+n)) }
	for name, tt := range map[string]struct {
		trace pcommon.TraceID
		spans func(*story, int)
	}{
		"distinct parents": {pcommon.TraceID{15: 1}, func(s *story, i int) { odd(s, i) }},
		"distinct parents, external": {external, func(s *story, i int) {
			odd(s, i)
		}},
		"distinct links": {pcommon.TraceID{15: 1}, func(s *story, i int) {
			l := odd(s, i).Links().AppendEmpty()
			l.SetTraceID(pcommon.TraceID{15: 1})
			l.SetSpanID(newID())
		}},
		"a chain of parents": {pcommon.TraceID{15: 1}, func(s *story, _ int) {
			span := s.span(s.links["last"], "prefill_forward", 1, 2)
			s.links["last"] = span.SpanID()
			l := span.Links().AppendEmpty()
			l.SetTraceID(pcommon.TraceID{15: 1})
			l.SetSpanID(s.root)
		}},
		"slices of one thread": {pcommon.TraceID{15: 1}, func(s *story, i int) {
			s.span(s.links["thread"], "chunked_prefill", float64(i), float64(i+n))
		}},
		"steps far apart": {pcommon.TraceID{15: 1}, func(s *story, _ int) {
			s.span(newID(), "decode_loop", 1, 2).Attributes().PutInt(sglang.AttrDecodeCT, 1<<17-1)
		}},
		"roots without end": {external, func(s *story, _ int) {
			root := s.span(newID(), " Req 1", 0, 10)
			root.Attributes().PutStr(sglang.AttrRID, "1")
			root.Attributes().PutStr(sglang.AttrModule, sglang.ModuleRequest)
		}},
	} {
		run(t, name, func(t *testing.T) {
			r := newRig(t, nil, func(c *Config) { c.MaxHeldMiB = 4096 })
			s := newStory(1000, finished(10))
			s.trace = tt.trace
			s.parent = pcommon.SpanID{1}
			s.scheduler(stage{"request_process", 1, 2})
			s.links["thread"] = newID()
			r.send(s.end()) // a root that waits
			for sent := 0; sent < n; sent += 64 {
				s.td = ptrace.NewTraces()
				s.process()
				for i := range 64 {
					tt.spans(s, sent+i)
				}
				r.send(s.td)
			}
			assert.Less(t, r.p.heldBytes.Load(), int64(n*2500), "in proportion to what came")
			time.Sleep(3 * time.Hour)
			assert.NotEmpty(t, r.roots())
			assert.Zero(t, r.p.heldBytes.Load(), "all is forgotten")
			for i := range r.p.shards {
				assert.Zero(t, r.p.shards[i].table.Traces())
			}
			r.close()
		})
	}
}

// TestLongTexts: memory is bounded in bytes, whatever they are made of.
func TestLongTexts(t *testing.T) {
	run(t, "roots of a mebibyte", func(t *testing.T) {
		r := newRig(t, nil, func(c *Config) { c.MaxHeldMiB = 16 })
		text := strings.Repeat("x", 1<<20)
		for range 100 {
			s := newStory(1000, finished(10, "note", text)).frontEnd()
			s.engine = text
			r.send(s.end())
			assert.Less(t, r.p.heldBytes.Load(), int64(16<<20))
			r.roots()
		}
		assert.Positive(t, r.total("early_releases", "limit"))
		r.close()
		assert.Len(t, r.roots(), 100)
		assert.Contains(t, r.p.engines, "", "a text is no engine's id")
		assert.Len(t, r.p.engines, 1)
	})
	run(t, "halves that wait", func(t *testing.T) {
		r := newRig(t, nil, func(c *Config) { c.MaxHeldMiB = 1; c.PDWait = 10 * time.Minute })
		for i := range 600 {
			s := half(i%2 == 0, "", finished(1, "note", strings.Repeat("x", 1000)))
			s.attrs[sglang.AttrBootstrapRoom] = 1000 + i
			r.send(s.end())
			r.roots()
			assert.LessOrEqual(t, r.p.heldBytes.Load(), int64(1<<20))
		}
		assert.Positive(t, r.total("early_releases", "limit"))
		r.close()
		assert.Len(t, r.roots(), 600)
		assert.Zero(t, r.p.heldBytes.Load())
	})
}

// TestOddValues: whatever stands where a number should, no number comes of it
// that is none, negative or longer than the request.
func TestOddValues(t *testing.T) {
	keys := []string{
		sglang.AttrLatencyTTFT, sglang.AttrLatencyE2E, sglang.AttrLatencyInQueue, sglang.AttrLatencyInPrefill,
		sglang.AttrLatencyInDecode, sglang.AttrLatencyInInference, sglang.AttrCompletionTokens, sglang.AttrPromptTokens,
	}
	for name, odd := range map[string]any{
		"not a number": math.NaN(), "infinite": math.Inf(1), "negative": -1e9, "huge": 1e9, "text": "0.1", "bool": true,
		"a negative count": math.MinInt64, "a huge count": math.MaxInt64,
	} {
		run(t, name, func(t *testing.T) {
			r := newRig(t, nil, nil)
			attrs := finished(10)
			for _, key := range keys {
				attrs[key] = odd
			}
			r.send(plainStory(attrs).end())
			root := r.roots()[0]
			for key, v := range root.Attributes().All() {
				if strings.HasPrefix(key, latencyPrefix) {
					require.Equal(t, pcommon.ValueTypeDouble, v.Type(), key)
				}
				if v.Type() == pcommon.ValueTypeDouble && !isEngineName(key) {
					assert.True(t, v.Double() >= 0 && v.Double() <= 1, "%s is %v", key, v.Double())
				}
			}
			assert.InDelta(t, 0.2, seconds(root, sglang.AttrLatencyTTFT), 1e-9)
			checkBudget(t, root)
			r.close()
		})
	}
	run(t, "times", func(t *testing.T) {
		for _, at := range []pcommon.Timestamp{0, 1, math.MaxUint64, math.MaxInt64} {
			r := newRig(t, nil, nil)
			s := plainStory(finished(10))
			eachSpan([]ptrace.Traces{s.td}, func(_ ptrace.ResourceSpans, _ ptrace.ScopeSpans, span ptrace.Span) {
				span.SetEndTimestamp(at)
			})
			r.send(s.end())
			root := r.roots()[0]
			for key, v := range root.Attributes().All() {
				if v.Type() == pcommon.ValueTypeDouble {
					assert.True(t, v.Double() >= 0 && v.Double() <= 1, "%s is %v", key, v.Double())
				}
			}
			r.close()
		}
	})
}

// TestShutdownEnds: a dead back end does not keep the Collector from stopping.
func TestShutdownEnds(t *testing.T) {
	run(t, "without a deadline", func(t *testing.T) {
		next := new(failing)
		r := newRig(t, next, nil)
		batches := split(plainStory(finished(20)).end())
		r.send(batches[:len(batches)-1]...)
		next.set(errDown)
		r.send(batches[len(batches)-1])
		begin := time.Now()
		r.close()
		assert.LessOrEqual(t, time.Since(begin), shutdownTime)
		assert.EqualValues(t, 2, r.total("lost_spans", "shutdown"))
		assert.ErrorIs(t, r.p.ConsumeTraces(context.Background(), plainStory(finished(1)).end()), errClosed)
	})
}

// TestShutdownWithoutRequest: a span of a caller's trace that belongs to no request
// is nothing to wait for.
func TestShutdownWithoutRequest(t *testing.T) {
	for _, name := range []string{"decode_loop", "spec_draft"} {
		run(t, name, func(t *testing.T) {
			r := newRig(t, nil, func(c *Config) { c.DecodeLoop = decodeLoopKeep })
			s := newStory(1, nil)
			s.trace = pcommon.TraceID{1, 15: 1}
			s.process()
			s.span(pcommon.SpanID{}, name, 0, 1)
			r.send(s.td)
			assert.Zero(t, r.p.heldBytes.Load())
			r.close()
			assert.Len(t, r.spans(), 1)
		})
	}
}

// TestShutdownInTraffic: what was acknowledged leaves, whatever fails meanwhile.
func TestShutdownInTraffic(t *testing.T) {
	next := new(failing)
	tel := componenttest.NewTelemetry()
	p, err := newProcessor(metadatatest.NewSettings(tel), createDefaultConfig().(*Config), next)
	require.NoError(t, err)
	require.NoError(t, p.Start(context.Background(), componenttest.NewNopHost()))
	stories := make([][]ptrace.Traces, 400)
	for i := range stories {
		s := plainStory(finished(10))
		s.steps(9, 200, 50)
		stories[i] = split(s.end())
	}
	var roots atomic.Int64
	var wg sync.WaitGroup
	for w := range 4 {
		wg.Go(func() {
			for i := w; i < len(stories); i += 4 {
				switch i % 40 {
				case w:
					next.set(errDown)
				case 20 + w:
					next.set(consumererror.NewPermanent(errDown))
				default:
					next.set(nil)
				}
				for k, td := range stories[i] {
					if p.ConsumeTraces(context.Background(), td) == nil && k == len(stories[i])-1 {
						roots.Add(1)
					}
				}
				if i == 200 {
					wg.Go(func() {
						next.set(nil)
						assert.NoError(t, p.Shutdown(context.Background()))
					})
				}
			}
		})
	}
	wg.Wait()
	next.set(nil)
	lost := (&rig{tel: tel}).total("lost_spans", "")
	left := int64(len(rootsOf(next.AllTraces())))
	assert.LessOrEqual(t, roots.Load(), left+lost, "each root that was acknowledged left or was counted")
	assert.Zero(t, p.heldBytes.Load())
	assert.Zero(t, p.out.held())
}
