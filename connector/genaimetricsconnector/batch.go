// Copyright The otelcol-sglang Authors
// SPDX-License-Identifier: Apache-2.0

package genaimetricsconnector // import "github.com/otelcol-sglang/otelcol-sglang/connector/genaimetricsconnector"

import (
	"math"
	"time"

	"go.opentelemetry.io/collector/pdata/pcommon"
	"go.opentelemetry.io/collector/pdata/ptrace"

	"github.com/otelcol-sglang/otelcol-sglang/connector/genaimetricsconnector/internal/histogram"
	"github.com/otelcol-sglang/otelcol-sglang/connector/genaimetricsconnector/internal/seen"
	"github.com/otelcol-sglang/otelcol-sglang/connector/genaimetricsconnector/internal/series"
	"github.com/otelcol-sglang/otelcol-sglang/internal/sglang"
)

// batch counts the spans of one call. It is used by one goroutine at a time and
// holds the connector's lock only while it counts one span.
type batch struct {
	c     *metricsConnector
	now   time.Time
	tally tally

	// from is the resource of the spans at hand, who what it says, once asked.
	from  pcommon.Map
	who   series.Resource
	known bool

	reading reading
	attrs   []series.Attr
}

func (b *batch) begin(c *metricsConnector, now time.Time) {
	b.c, b.now = c, now
	b.tally = tally{refused: b.tally.refused[:0]}
}

// end lets go of what belongs to the caller.
func (b *batch) end() {
	b.from = pcommon.Map{}
	b.who = series.Resource{}
	b.reading.reset()
	clear(b.attrs[:cap(b.attrs)])
	clear(b.reading.stages[:cap(b.reading.stages)])
}

func (b *batch) resource(rs ptrace.ResourceSpans) {
	b.from, b.known = rs.Resource().Attributes(), false
}

func (b *batch) span(span ptrace.Span, scope string) {
	r := &b.reading
	r.read(span.Attributes())
	switch {
	case r.thread:
		if !math.IsNaN(r.skew) || len(r.refused) > 0 {
			b.thread(span)
		}
	case r.judged || r.sender || isUnjudged(r, scope):
		b.root(span)
	}
}

func (b *batch) thread(span ptrace.Span) {
	b.identify()
	b.attrs = b.extra(b.attrs[:0], span)
	b.c.mu.Lock()
	defer b.c.mu.Unlock()
	if !b.fresh(span) {
		b.tally.resentThreads++
		return
	}
	b.tally.refused = append(b.tally.refused, b.reading.refused...)
	o := b.observer(span)
	o.seconds(series.Slot{Metric: series.RanksSkew}, b.reading.skew)
	b.after()
}

func (b *batch) root(span ptrace.Span) {
	r := &b.reading
	out := r.outcomeOf()
	if out == outcomeSender || out == outcomeNotJudged {
		b.tally.outcomes[out]++
		return
	}
	b.identify()
	b.attrs = b.extra(append(b.attrs[:0],
		series.Attr{Key: sglang.AttrOperationName, Value: r.operation},
		series.Attr{Key: sglang.AttrProviderName, Value: r.provider},
		series.Attr{Key: sglang.AttrRequestModel, Value: r.model},
	), span)
	b.c.mu.Lock()
	defer b.c.mu.Unlock()
	if !b.fresh(span) {
		out = outcomeResent
	}
	b.tally.outcomes[out]++
	if out == outcomeCounted {
		b.tally.refused = append(b.tally.refused, r.refused...)
		b.request(b.observer(span))
	}
	b.after()
}

// request counts a root; the lock is held.
func (b *batch) request(o observer) {
	r := &b.reading
	o.seconds(series.Slot{Metric: series.RequestDuration, Variant: r.errorType}, r.duration)
	o.seconds(series.Slot{Metric: series.TTFT}, r.ttft)
	o.seconds(series.Slot{Metric: series.TPOT}, r.tpot)
	for i := range r.stages {
		o.seconds(series.Slot{Metric: series.StageDuration, Variant: r.stages[i].name, Role: r.role}, r.stages[i].seconds)
	}
	o.add(series.Slot{Metric: series.Tokens, Variant: sglang.TokenInput}, r.input)
	o.add(series.Slot{Metric: series.Tokens, Variant: sglang.TokenCached}, r.cached)
	o.add(series.Slot{Metric: series.Tokens, Variant: sglang.TokenOutput}, r.output)
	o.add(series.Slot{Metric: series.Retractions}, r.retractions)
}

func (b *batch) identify() {
	if !b.known {
		b.who, b.known = b.c.resource.read(b.from), true
	}
}

// extra appends the further dimensions.
func (b *batch) extra(attrs []series.Attr, span ptrace.Span) []series.Attr {
	for _, key := range b.c.dimensions {
		value := textOf(span.Attributes(), key)
		if value == "" {
			value = textOf(b.from, key)
		}
		attrs = append(attrs, series.Attr{Key: key, Value: value})
	}
	return attrs
}

// fresh tells whether the span came for the first time; the lock is held.
func (b *batch) fresh(span ptrace.Span) bool {
	return b.c.seen.Add(seen.Key{Trace: span.TraceID(), Span: span.SpanID()}, b.now)
}

// after collects what the store and the memory have to tell; the lock is held.
func (b *batch) after() {
	b.tally.early += b.c.seen.TakeForgottenEarly()
	for m, n := range b.c.store.TakeSpilled() {
		b.tally.spilled[m] += n
	}
}

// observer counts the values of one span.
type observer struct {
	store    *series.Store
	profile  *series.Profile
	at       time.Time
	exemplar histogram.Exemplar
}

func (b *batch) observer(span ptrace.Span) observer {
	return observer{
		store:   b.c.store,
		profile: b.c.store.Profile(b.who, b.attrs),
		at:      b.now,
		exemplar: histogram.Exemplar{
			At: b.now.UnixNano(), Trace: span.TraceID(), Span: span.SpanID(),
		},
	}
}

// seconds counts a duration; NaN is none.
func (o *observer) seconds(slot series.Slot, v float64) {
	if math.IsNaN(v) {
		return
	}
	o.exemplar.Value = v
	o.store.Observe(o.profile, slot, o.at, o.exemplar)
}

// add counts n; a negative one is none.
func (o *observer) add(slot series.Slot, n int64) {
	if n >= 0 {
		o.store.Add(o.profile, slot, o.at, n)
	}
}
