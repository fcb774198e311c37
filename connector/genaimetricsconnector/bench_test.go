// Copyright The otelcol-sglang Authors
// SPDX-License-Identifier: Apache-2.0

package genaimetricsconnector

import (
	"context"
	"encoding/binary"
	"fmt"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"go.opentelemetry.io/collector/connector/connectortest"
	"go.opentelemetry.io/collector/consumer/consumertest"
	"go.opentelemetry.io/collector/pdata/ptrace"

	"github.com/otelcol-sglang/otelcol-sglang/connector/genaimetricsconnector/internal/metadata"
)

func benchConnector(b testing.TB, change func(*Config)) *metricsConnector {
	cfg := createDefaultConfig().(*Config)
	cfg.Interval = 10 * time.Minute
	if change != nil {
		change(cfg)
	}
	c, err := newConnector(connectortest.NewNopSettings(metadata.Type), cfg, consumertest.NewNop())
	require.NoError(b, err)
	return c
}

// renumber makes a span that was not seen.
func renumber(span ptrace.Span, n *uint64) {
	*n++
	var id [8]byte
	binary.BigEndian.PutUint64(id[:], *n)
	span.SetSpanID(id)
}

// BenchmarkRequest is the cost of one finished request, a root with 7 stages, in
// batches of some.
func BenchmarkRequest(b *testing.B) {
	for _, kind := range []string{histogramExplicit, histogramExponential} {
		for _, size := range []int{1, 16, 64} {
			b.Run(fmt.Sprintf("%s/%d_roots", kind, size), func(b *testing.B) {
				benchRoots(b, size, func(c *Config) { c.Histogram = kind })
			})
		}
	}
	b.Run("overflowing/16_roots", func(b *testing.B) { benchRoots(b, 16, func(c *Config) { c.MaxSeries = 1 }) })
}

func benchRoots(b *testing.B, size int, change func(*Config)) {
	c, n := benchConnector(b, change), uint64(0)
	td := root(1, nil)
	spans := td.ResourceSpans().At(0).ScopeSpans().At(0).Spans()
	for range size - 1 {
		spans.At(0).CopyTo(spans.AppendEmpty())
	}
	b.ReportAllocs()
	for b.Loop() {
		for i := range size {
			renumber(spans.At(i), &n)
		}
		_ = c.ConsumeTraces(context.Background(), td)
	}
	b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(b.N*size), "ns/request")
}

// BenchmarkOtherSpan is a span that is none of the connector's business.
func BenchmarkOtherSpan(b *testing.B) {
	c := benchConnector(b, nil)
	td := root(1, func(s ptrace.Span) {
		s.SetName("decode_forward")
		s.Attributes().Clear()
		s.Attributes().PutInt("sglang.decode.steps", 100)
		s.Attributes().PutDouble("sglang.decode.step.sum", 1)
	})
	ss := td.ResourceSpans().At(0).ScopeSpans().At(0).Spans()
	for range 63 {
		ss.At(0).CopyTo(ss.AppendEmpty())
	}
	b.ReportAllocs()
	for b.Loop() {
		_ = c.ConsumeTraces(context.Background(), td)
	}
	b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(b.N)/64, "ns/span")
}

// BenchmarkFlush is what one flush costs with so many series.
func BenchmarkFlush(b *testing.B) {
	for _, requests := range []int{10, 150} {
		b.Run(fmt.Sprintf("%d_models", requests), func(b *testing.B) {
			c := benchConnector(b, func(c *Config) { c.MaxSeries = 3000 })
			for n := range requests {
				td := root(n, func(s ptrace.Span) { s.Attributes().PutStr("gen_ai.request.model", fmt.Sprint(n)) })
				_ = c.ConsumeTraces(context.Background(), td)
			}
			b.ReportAllocs()
			for b.Loop() {
				c.flush(context.Background())
			}
		})
	}
}

func TestRequestAllocatesNothing(t *testing.T) {
	c, n := benchConnector(t, func(c *Config) { c.MaxRemembered = 1000 }), uint64(0)
	td := root(1, nil)
	for range 5000 {
		renumber(spanOf(td), &n)
		_ = c.ConsumeTraces(context.Background(), td)
	}
	// A pool may lose its entry to the garbage collector.
	require.Less(t, testing.AllocsPerRun(2000, func() {
		renumber(spanOf(td), &n)
		_ = c.ConsumeTraces(context.Background(), td)
	}), 3.0)
}
