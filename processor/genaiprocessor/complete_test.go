// Copyright The otelcol-sglang Authors
// SPDX-License-Identifier: Apache-2.0

package genaiprocessor

import (
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/sdk/metric/metricdata"
	"go.opentelemetry.io/otel/sdk/metric/metricdata/metricdatatest"

	"github.com/otelcol-sglang/otelcol-sglang/internal/sglang"
	"github.com/otelcol-sglang/otelcol-sglang/processor/genaiprocessor/internal/metadatatest"
)

// TestUnknownHasAReason: what a request should have and has not is counted per
// engine, with why.
func TestUnknownHasAReason(t *testing.T) {
	unknown := func(n int64, name, reason, engine string) metricdata.DataPoint[int64] {
		return metricdata.DataPoint[int64]{Value: n, Attributes: attribute.NewSet(
			attribute.String("attribute", name), attribute.String("reason", reason), attribute.String("engine", engine))}
	}
	run(t, "per engine", func(t *testing.T) {
		r := newRig(t, nil, nil)
		add := func(engine string, s *story) { s.engine = engine; r.send(s.end()) }
		bare := func(attrs map[string]any) *story { // several tokenizer workers
			s := newStory(1000, attrs)
			s.engine = "lost"
			return s.frontEnd()
		}
		add("lost", bare(finished(10, sglang.AttrLatencyTTFT, 0.25)))
		add("lost", bare(finished(10)))
		low := newStory(1000, finished(10))
		low.engine = "level1"
		low.process()
		low.thread("Tokenizer", -1, "", stage{"tokenize", 0, 2})
		low.process()
		low.thread("Scheduler", 0, "tokenize", stage{"prefill_waiting", 5, 105},
			stage{"prefill_forward", 105, 200}, stage{"decode_forward", 200, 999})
		r.send(low.end())
		time.Sleep(7 * time.Second)
		assert.Len(t, r.roots(), 3)
		metadatatest.AssertEqualProcessorGenaiUnknownValues(t, r.tel, []metricdata.DataPoint[int64]{
			unknown(2, "time_in_queue", sglang.CompletenessNoScheduler, "lost"),
			unknown(1, "time_to_first_token", sglang.CompletenessNoScheduler, "lost"),
			unknown(2, "decode_steps", sglang.CompletenessNoScheduler, "lost"),
			unknown(1, "decode_steps", "trace_level", "level1"),
			unknown(1, "time_in_model_inference", "trace_level", "level1"),
		}, metricdatatest.IgnoreTimestamp())
		r.close()
	})
	run(t, "nothing is missed that is not there by nature", func(t *testing.T) {
		for _, name := range []string{"traces-embeddings-tp1", "traces-epd-encoder", "traces-single-token-and-health"} {
			r := newRig(t, nil, nil)
			r.send(reduceRanks(loadCapture(t, name))...)
			assert.NotEmpty(t, r.roots())
			assert.Zero(t, r.total("unknown_values", ""), name)
			assert.Zero(t, r.total("invalid_values", ""), name)
			r.close()
		}
	})
	aborted := func() map[string]any {
		attrs := finished(0, sglang.AttrFinishReasons, `["abort"]`)
		delete(attrs, sglang.AttrCompletionTokens)
		return attrs
	}
	run(t, "aborted in the queue", func(t *testing.T) {
		r := newRig(t, nil, nil)
		s := newStory(1000, aborted()).frontEnd()
		s.scheduler(stage{"request_process", 4, 5})
		r.send(s.end())
		require.Len(t, r.roots(), 1)
		assert.InDelta(t, 0.995, seconds(r.roots()[0], sglang.AttrLatencyInQueue), 1e-9)
		assert.Zero(t, r.total("unknown_values", ""), "there was no token and no step")
		r.close()
	})
	run(t, "aborted in the queue, level 1", func(t *testing.T) {
		r := newRig(t, nil, nil)
		s := newStory(1000, aborted())
		s.process()
		s.thread("Tokenizer", -1, "", stage{"tokenize", 0, 2})
		s.scheduler()
		r.send(s.end())
		require.Len(t, r.roots(), 1)
		assert.EqualValues(t, 1, r.total("unknown_values", "time_in_queue"))
		assert.Equal(t, r.total("unknown_values", ""), r.total("unknown_values", "trace_level"))
		r.close()
	})
	run(t, "refused", func(t *testing.T) {
		r := newRig(t, nil, nil)
		s := newStory(1000, finished(10))
		s.frontEnd().scheduler(stage{"prefill_waiting", -90_000, 105}, stage{"prefill_forward", 105, 200},
			stage{"decode_forward", 200, 999})
		s.steps(1, 200, 5)
		r.send(s.end())
		assert.Len(t, r.roots(), 1)
		assert.EqualValues(t, 1, r.total("unknown_values", "refused"))
		r.close()
	})
}

// TestMissingRanks: what is derived holds for the ranks that sent spans only.
func TestMissingRanks(t *testing.T) {
	run(t, "three of four", func(t *testing.T) {
		r := newRig(t, nil, nil)
		for _, count := range []int64{3, 4} {
			s := newStory(1000, finished(1))
			s.engine = "a"
			s.frontEnd()
			th := s.scheduler(stage{"prefill_waiting", 5, 105}, stage{"prefill_forward", 105, 990})
			th.Attributes().PutInt(sglang.AttrRanksCount, count)
			th.Attributes().PutInt(sglang.AttrRanksExpected, 4)
			r.send(s.end())
		}
		assert.Len(t, r.roots(), 2)
		metadatatest.AssertEqualProcessorGenaiRequestsWithoutRanks(t, r.tel, []metricdata.DataPoint[int64]{
			{Value: 1, Attributes: attribute.NewSet(attribute.String("engine", "a"))},
		}, metricdatatest.IgnoreTimestamp())
		r.close()
	})
}

// TestPrefillHalfRefusesNothing: what a prefill half reports of a first token is
// no error of the engine's, so that a healthy one has no invalid values.
func TestPrefillHalfRefusesNothing(t *testing.T) {
	run(t, "capture", func(t *testing.T) {
		r := newRig(t, nil, nil)
		r.send(reduceRanks(loadCapture(t, "traces-pd-prefill-tp2-decode-tp2"))...)
		halves := 0
		for _, root := range r.roots() {
			if text(root, sglang.AttrPDRole) == "prefill" && text(root, sglang.AttrErrorType) == "" {
				halves++
				assert.NotContains(t, root.Attributes().AsRaw(), sglang.AttrLatencyInvalid)
				assert.NotContains(t, root.Attributes().AsRaw(), sglang.AttrLatencyInDecode)
			}
		}
		assert.Equal(t, 5, halves)
		r.close()
	})
}
