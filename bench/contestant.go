// Copyright The otelcol-sglang Authors
// SPDX-License-Identifier: Apache-2.0

package main // import "github.com/otelcol-sglang/otelcol-sglang/bench"

import (
	"fmt"
	"time"

	"github.com/otelcol-sglang/otelcol-sglang/bench/internal/load"
	"github.com/otelcol-sglang/otelcol-sglang/bench/internal/report"
	"github.com/otelcol-sglang/otelcol-sglang/bench/internal/sink"
)

// perRequest are the spans that leave of a request: root, API server's thread with
// two slices, one scheduler thread with four.
const perRequest = 9

// mostLost: c may lose one span of so many, and is still compared.
const mostLost = 50

// contestant is a pipeline.
type contestant struct {
	key, name, binary, config string
	// metric is on its Prometheus page, checked at the end; empty: there is none.
	metric string
	check  func(outcome) error
	// quiet without a span at the sink means that all has been handed on: longer
	// than the pipeline's waits, its exporter's batching and its metrics' interval.
	quiet time.Duration
	runs  []report.Run
}

// outcome is what a pipeline made of the load.
type outcome struct {
	in, warm load.Load
	out      sink.Counts
	// counted is the metric's sum, of warm-up and load.
	counted float64
}

func contestants(binary, peer string) []contestant {
	return []contestant{{
		key: "a", name: "a: sglang → rankdedup → genai → otlp, genaimetrics → prometheus",
		binary: binary, config: "config/sglang.yaml",
		metric: "gen_ai_server_request_duration_count", check: outcome.folded, quiet: 9 * time.Second,
	}, {
		key: "b", name: "b: otlp → otlp, the same binary",
		binary: binary, config: "config/plain.yaml", check: outcome.passed, quiet: 4 * time.Second,
	}, {
		key: "c", name: "c: otlp → groupbytrace → transform → otlp, span_metrics → prometheus",
		binary: peer, config: "config/peer.yaml",
		metric: "traces_span_metrics_calls", check: outcome.transformed, quiet: 14 * time.Second,
	}}
}

// folded: one copy of each span, steps summed up, all roots derived and counted.
func (o outcome) folded() error {
	n := o.in.Requests
	want := sink.Counts{Spans: n * perRequest, Roots: n, Timed: n, Budgets: n}
	return o.differs(want, n+o.warm.Requests)
}

func (o outcome) passed() error {
	return o.differs(sink.Counts{Spans: o.in.Spans, Roots: o.in.Requests}, 0)
}

// transformed: what groupbytrace lets pass is passed and counted. It loses spans that
// come while their trace is released; the table shows how many left.
func (o outcome) transformed() error {
	n, lost := o.in.Requests, o.in.Spans-o.out.Spans
	if lost < 0 || lost > o.in.Spans/mostLost {
		return fmt.Errorf("%d of %d spans are lost", lost, o.in.Spans)
	}
	return o.differs(sink.Counts{Spans: o.out.Spans, Roots: n, Timed: n}, o.out.Spans+o.warm.Spans)
}

func (o outcome) differs(want sink.Counts, counted int) error {
	got := o.out
	got.Calls, got.Bytes = 0, 0
	if got == want && o.counted == float64(counted) {
		return nil
	}
	return fmt.Errorf("the sink got %+v and the metrics page counts %.0f; expected %+v and %d", got, o.counted, want, counted)
}
