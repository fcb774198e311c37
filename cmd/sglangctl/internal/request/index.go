// Copyright The otelcol-sglang Authors
// SPDX-License-Identifier: Apache-2.0

package request // import "github.com/otelcol-sglang/otelcol-sglang/cmd/sglangctl/internal/request"

import (
	"cmp"
	"errors"
	"fmt"
	"math"
	"slices"
	"strings"
	"time"

	"go.opentelemetry.io/collector/pdata/pcommon"
	"go.opentelemetry.io/collector/pdata/ptrace"

	"github.com/otelcol-sglang/otelcol-sglang/internal/sglang"
)

// Request is what a request's root says of it.
type Request struct {
	TraceID    pcommon.TraceID
	SpanID     pcommon.SpanID
	Start, End time.Time
	// Attrs are the root's attributes.
	Attrs pcommon.Map
	Name  string
}

// Index collects the requests of a sink, each once.
type Index struct {
	seen     map[pcommon.SpanID]bool
	Requests []Request
	Spans    int
}

// Add takes one batch.
func (x *Index) Add(traces ptrace.Traces) {
	if x.seen == nil {
		x.seen = map[pcommon.SpanID]bool{}
	}
	for _, rs := range traces.ResourceSpans().All() {
		for _, ss := range rs.ScopeSpans().All() {
			for _, span := range ss.Spans().All() {
				x.add(span)
			}
		}
	}
}

func (x *Index) add(span ptrace.Span) {
	x.Spans++
	if sglang.KindOf(span) != sglang.KindRoot || x.seen[span.SpanID()] {
		return
	}
	x.seen[span.SpanID()] = true
	r := Request{
		TraceID: span.TraceID(), SpanID: span.SpanID(), Name: span.Name(), Attrs: pcommon.NewMap(),
		Start: span.StartTimestamp().AsTime(), End: span.EndTimestamp().AsTime(),
	}
	span.Attributes().CopyTo(r.Attrs)
	x.Requests = append(x.Requests, r)
}

// ID is the request's id as a client knows it, else what the engine shows of it.
func (r Request) ID() string {
	return text(r.Attrs, sglang.AttrRequestID, sglang.AttrResponseID, sglang.AttrRID)
}

// E2E is from the root's start to its end.
func (r Request) E2E() time.Duration { return r.End.Sub(r.Start) }

// Recent returns the n requests that ended last, the latest first.
func (x *Index) Recent(n int) []Request {
	sorted := slices.Clone(x.Requests)
	slices.SortStableFunc(sorted, func(a, b Request) int { return b.End.Compare(a.End) })
	return sorted[:min(n, len(sorted))]
}

// Slowest returns the n requests that took longest, the slowest first.
func (x *Index) Slowest(n int) []Request {
	sorted := slices.Clone(x.Requests)
	slices.SortStableFunc(sorted, func(a, b Request) int { return cmp.Compare(b.E2E(), a.E2E()) })
	return sorted[:min(n, len(sorted))]
}

// Words that Find takes in place of an id.
const (
	Last    = "last"
	Slowest = "slowest"
)

// minPrefix keeps a typing mistake from matching everything.
const minPrefix = 4

// ErrNone says that a file has no request.
var ErrNone = errors.New("no request has ended yet: a request's root is the last of its spans")

// Find returns the requests that an id means: a trace id (all its requests), a
// request id, or the beginning of one, with or without the leading zeros of the
// engine's trace ids; or Last, or Slowest.
func (x *Index) Find(id string) ([]Request, error) {
	if len(x.Requests) == 0 {
		return nil, ErrNone
	}
	switch id {
	case Last:
		return x.Recent(1), nil
	case Slowest:
		return x.Slowest(1), nil
	}
	if len(id) < minPrefix {
		return nil, fmt.Errorf("id must have at least %d characters, or be %q or %q (got %q)", minPrefix, Last, Slowest, id)
	}
	found := x.matching(id)
	return found, unambiguous(id, found)
}

func (x *Index) matching(id string) []Request {
	var found []Request
	lower := strings.ToLower(id)
	for _, r := range x.Requests {
		trace := r.TraceID.String()
		switch {
		case r.ID() == id:
			return []Request{r}
		case strings.HasPrefix(trace, lower), strings.HasPrefix(strings.TrimLeft(trace, "0"), lower),
			strings.HasPrefix(r.ID(), id), strings.HasPrefix(text(r.Attrs, sglang.AttrRID), id):
			found = append(found, r)
		}
	}
	return found
}

// unambiguous refuses nothing and several traces; several requests of one are fine.
func unambiguous(id string, found []Request) error {
	if len(found) == 0 {
		return fmt.Errorf("no request with id %q; `sglangctl traces` lists those that there are", id)
	}
	var names []string
	for _, r := range found {
		if r.TraceID != found[0].TraceID {
			names = append(names, r.ID())
		}
	}
	if len(names) == 0 {
		return nil
	}
	const shown = 5
	more := ""
	if len(names) >= shown {
		more = ", ..."
	}
	names = append([]string{found[0].ID()}, names[:min(len(names), shown-1)]...)
	return fmt.Errorf("id %q means several requests: %s%s", id, strings.Join(names, ", "), more)
}

// text returns the first of the attributes that is there, or "".
func text(attrs pcommon.Map, keys ...string) string {
	for _, key := range keys {
		if v, ok := attrs.Get(key); ok {
			return v.AsString()
		}
	}
	return ""
}

// number returns an attribute's value, if it is a finite number; absent is not zero.
func number(attrs pcommon.Map, key string) (float64, bool) {
	v, ok := attrs.Get(key)
	if !ok {
		return 0, false
	}
	switch v.Type() {
	case pcommon.ValueTypeDouble:
		d := v.Double()
		return d, !math.IsNaN(d) && !math.IsInf(d, 0)
	case pcommon.ValueTypeInt:
		return float64(v.Int()), true
	}
	return 0, false
}
