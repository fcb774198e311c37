// Copyright The otelcol-sglang Authors
// SPDX-License-Identifier: Apache-2.0

package genaiprocessor

import (
	"context"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"
	"go.opentelemetry.io/collector/component/componenttest"
	"go.opentelemetry.io/collector/consumer"
	"go.opentelemetry.io/collector/consumer/consumertest"
	"go.opentelemetry.io/collector/pdata/ptrace"
	"go.opentelemetry.io/otel/sdk/metric/metricdata"

	"github.com/otelcol-sglang/otelcol-sglang/internal/sglang"
	"github.com/otelcol-sglang/otelcol-sglang/processor/genaiprocessor/internal/metadatatest"
)

// rig is a started processor; it must be used inside a synctest bubble.
type rig struct {
	t    testing.TB
	p    *genaiProcessor
	sink *consumertest.TracesSink
	tel  *componenttest.Telemetry
}

func newRig(t testing.TB, next consumer.Traces, change func(*Config)) *rig {
	t.Helper()
	r := &rig{t: t, sink: new(consumertest.TracesSink), tel: componenttest.NewTelemetry()}
	cfg := createDefaultConfig().(*Config)
	if change != nil {
		change(cfg)
	}
	require.NoError(t, cfg.Validate())
	if next == nil {
		next = r.sink
	}
	p, err := newProcessor(metadatatest.NewSettings(r.tel), cfg, next)
	require.NoError(t, err)
	require.NoError(t, p.Start(context.Background(), componenttest.NewNopHost()))
	r.p = p
	return r
}

func (r *rig) send(batches ...ptrace.Traces) {
	r.t.Helper()
	for _, td := range batches {
		require.NoError(r.t, r.p.ConsumeTraces(context.Background(), td))
	}
}

// idle waits until the outbox has sent what it has.
func idle() {
	time.Sleep(2 * linger)
	synctest.Wait()
}

// roots waits until everything is idle and returns the roots that left so far.
func (r *rig) roots() []ptrace.Span {
	idle()
	return rootsOf(r.sink.AllTraces())
}

func (r *rig) spans() []ptrace.Span {
	idle()
	var out []ptrace.Span
	eachSpan(r.sink.AllTraces(), func(_ ptrace.ResourceSpans, _ ptrace.ScopeSpans, s ptrace.Span) {
		out = append(out, s)
	})
	return out
}

func rootsOf(batches []ptrace.Traces) []ptrace.Span {
	var out []ptrace.Span
	eachSpan(batches, func(_ ptrace.ResourceSpans, _ ptrace.ScopeSpans, s ptrace.Span) {
		if sglang.KindOf(s) == sglang.KindRoot {
			out = append(out, s)
		}
	})
	return out
}

func (r *rig) close() {
	r.t.Helper()
	require.NoError(r.t, r.p.Shutdown(context.Background()))
}

// total is the sum of one of the processor's own counters, over all attributes
// or those with the value.
func (r *rig) total(name, value string) int64 {
	m, err := r.tel.GetMetric("otelcol_processor_genai_" + name)
	if err != nil {
		return 0
	}
	return sumOf(m, value)
}

func run(t *testing.T, name string, do func(*testing.T)) {
	t.Run(name, func(t *testing.T) { synctest.Test(t, do) })
}

func sumOf(m metricdata.Metrics, value string) int64 {
	data, ok := m.Data.(metricdata.Sum[int64])
	if !ok {
		return 0
	}
	var sum int64
	for _, dp := range data.DataPoints {
		match := value == ""
		for _, kv := range dp.Attributes.ToSlice() {
			match = match || kv.Value.AsString() == value
		}
		if match {
			sum += dp.Value
		}
	}
	return sum
}
