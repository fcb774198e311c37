// Copyright The otelcol-sglang Authors
// SPDX-License-Identifier: Apache-2.0

package rankdedupprocessor

import (
	"context"
	"fmt"
	"math"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"go.opentelemetry.io/collector/component/componenttest"
	"go.opentelemetry.io/collector/consumer/consumertest"
	"go.opentelemetry.io/collector/pdata/pcommon"
	"go.opentelemetry.io/collector/pdata/ptrace"
	"go.opentelemetry.io/collector/processor/processortest"

	"github.com/otelcol-sglang/otelcol-sglang/internal/capture"
	"github.com/otelcol-sglang/otelcol-sglang/internal/sglang"
	"github.com/otelcol-sglang/otelcol-sglang/processor/rankdedupprocessor/internal/fold"
	"github.com/otelcol-sglang/otelcol-sglang/processor/rankdedupprocessor/internal/metadata"
)

// account checks that every span left, was folded or is a resend, whatever it was.
type account struct {
	t    *testing.T
	p    *tracesProcessor
	tel  *componenttest.Telemetry
	sink *consumertest.TracesSink
	in   int64
}

func newAccount(t *testing.T) *account {
	t.Helper()
	a := &account{t: t, sink: &consumertest.TracesSink{}, tel: componenttest.NewTelemetry()}
	set := processortest.NewNopSettings(metadata.Type)
	set.TelemetrySettings = a.tel.NewTelemetrySettings()
	var err error
	a.p, err = newTracesProcessor(set, createDefaultConfig().(*Config), a.sink)
	require.NoError(t, err)
	t.Cleanup(func() {
		require.NoError(t, a.p.Shutdown(context.Background()))
		require.NoError(t, a.tel.Shutdown(context.Background()))
	})
	return a
}

func (a *account) consume(td ptrace.Traces) {
	a.in += int64(td.SpanCount())
	require.NoError(a.t, a.p.ConsumeTraces(context.Background(), td))
}

// pass lets time pass for what waits.
func (a *account) pass(by time.Duration) {
	now := time.Now().Add(by)
	a.p.registry.Settle(now)
	a.each(func(s *fold.Shard) { s.Learned(now); s.Expire(now) })
}

func (a *account) each(do func(*fold.Shard)) {
	a.p.flusher.each(time.Now(), func(s *fold.Shard, _ time.Time) { do(s) })
}

func (a *account) settle() {
	for _, by := range []time.Duration{3 * time.Second, 40 * time.Second, time.Hour, 2 * time.Hour} {
		a.pass(by)
	}
	a.p.registry.Forget(time.Now().Add(2 * time.Hour))
	a.each(func(s *fold.Shard) { s.FlushAll(time.Now()) })
	if held, bytes := a.p.level(heldSpans), a.p.bytes.Load(); held != 0 || bytes != 0 {
		a.t.Fatalf("%d spans, %d bytes are still counted", held, bytes)
	}
	left := int64(a.sink.SpanCount() + len(a.p.flusher.queue))
	gone := value(a.t, a.tel, "spans_folded", "") + value(a.t, a.tel, "spans_resent", "")
	if a.in != left+gone {
		a.t.Fatalf("%d spans came, %d left, %d were folded or resent", a.in, left, gone)
	}
}

// FuzzConsume takes any export, twice.
func FuzzConsume(f *testing.F) {
	names, err := capture.Names(capturesDir)
	require.NoError(f, err)
	for _, name := range names {
		exports, err := capture.Load(capturesDir, name)
		require.NoError(f, err)
		for _, e := range exports[:min(4, len(exports))] {
			data, err := (&ptrace.ProtoMarshaler{}).MarshalTraces(e.Traces)
			require.NoError(f, err)
			f.Add(data)
		}
	}
	f.Fuzz(func(t *testing.T, data []byte) {
		a := newAccount(t)
		for range 2 {
			td, err := (&ptrace.ProtoUnmarshaler{}).UnmarshalTraces(data)
			if err != nil {
				return
			}
			a.consume(td)
		}
		a.settle()
	})
}

// FuzzShapes makes spans whose ids, names, ranks and senders meet in every way.
func FuzzShapes(f *testing.F) {
	f.Add([]byte("0123456789abcdefghijklmnopqrstuvwxyz"))
	f.Add([]byte{1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15, 16, 17, 18, 19, 20})
	f.Fuzz(func(t *testing.T, data []byte) {
		a := newAccount(t)
		for len(data) >= 7 {
			if data[0] == 255 {
				a.pass(time.Duration(data[1]) * time.Second)
			}
			a.consume(shape(data))
			data = data[7:]
		}
		a.settle()
	})
}

var shapeNames = []string{
	"tokenize", "api_server_dispatch", "request_process", "prefill_waiting", "prefill_forward", "chunked_prefill",
	"decode_forward", "decode_loop", "decode_loop", "mooncake_send", "mooncake_worker_send", "mm_encode", "own name", "Bootstrap Room 0x0",
	"thread", "thread", "thread", "root", "root",
}

var shapeOrdinals = []int64{0, 1, 2, 3, 4095, 5000, 1 << 40, math.MaxInt64, math.MinInt64, -1}

// shape makes a span of seven bytes.
func shape(b []byte) ptrace.Traces {
	f := fact{trace: uint64(b[1] % 3), id: uint64(b[2] % 16), parent: uint64(b[3] % 16), link: uint64(b[4] % 16), attrs: map[string]any{}}
	f.name = shapeNames[int(b[0])%len(shapeNames)]
	ordinal := shapeOrdinals[int(b[5])%len(shapeOrdinals)]
	switch f.name {
	case "decode_loop":
		f.attrs[sglang.AttrDecodeCT] = ordinal
	case "root":
		f.attrs[sglang.AttrRID] = "x"
		if b[5]%4 == 0 {
			f.attrs[sglang.AttrModule] = sglang.ModuleMooncake
		}
	case "thread":
		f.attrs[sglang.AttrThreadLabel] = []string{"Scheduler", "Tokenizer", "Prefill Scheduler", "mooncake transfer worker 1", "other"}[b[5]%5]
		f.attrs[sglang.AttrTPRank], f.attrs[sglang.AttrPPRank] = int64(b[6]%4), int64(b[6]>>2%2)
		if b[6]>>3%2 == 1 {
			f.attrs[sglang.AttrDPRank] = int64(b[6] >> 4 % 2)
		}
		if b[5]%7 == 0 {
			f.attrs[sglang.AttrRanksCount], f.attrs[sglang.AttrRanksSkew] = ordinal, math.NaN()
			f.attrs[sglang.AttrRanksExpected] = ordinal
		}
	}
	td := parcel{source{[]string{"", "a", "b"}[b[6]%3], fmt.Sprint(b[6] >> 5 % 4)}, []fact{f}}.batch()
	if b[4]%5 == 0 {
		s := td.ResourceSpans().At(0).ScopeSpans().At(0).Spans().At(0)
		s.SetStartTimestamp([]pcommon.Timestamp{0, math.MaxUint64, 1 << 63}[b[5]%3])
	}
	return td
}
