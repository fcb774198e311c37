// Copyright The otelcol-sglang Authors
// SPDX-License-Identifier: Apache-2.0

package doctor // import "github.com/otelcol-sglang/otelcol-sglang/cmd/sglangctl/internal/doctor"

import (
	"context"
	"math"
	"slices"
	"strconv"
	"strings"
	"time"

	"go.opentelemetry.io/collector/pdata/pcommon"
	"go.opentelemetry.io/collector/pdata/ptrace"

	"github.com/otelcol-sglang/otelcol-sglang/cmd/sglangctl/internal/sink"
	"github.com/otelcol-sglang/otelcol-sglang/internal/sglang"
)

// recent is how much of a file of traces counts, back from its last span.
const recent = 2 * time.Minute

// Traces is what the quickstart's file of traces shows of its last minutes.
type Traces struct {
	Path string
	Err  error
	// Requests is the number of roots.
	Requests int
	// Levels are the requests by trace level; 0 where none is known.
	Levels map[int64]int
	// Ranks are the scheduler processes that the last request of each group of ranks
	// showed, by engine.
	Ranks map[string]int
	// Missing is the number of groups of ranks of which one or more did not come.
	Missing int
	// Lead is how much a scheduler began before the front end had the request, at
	// most; a positive one shows that their clocks differ.
	Lead time.Duration
	// Skew is the smallest spread of the ranks over the stages of a request, and of
	// all requests the median: what slowness of a rank does not explain.
	Skew      time.Duration
	SkewKnown bool
}

// seenThread is a kept thread span of a scheduler.
type seenThread struct {
	parent          pcommon.SpanID
	start           time.Time
	count, expected int64
	group           string
	engine          string
	skew            float64
	skewed          bool
}

type traceReader struct {
	roots   map[pcommon.SpanID]seenRoot
	threads []seenThread
	last    time.Time
}

type seenRoot struct {
	start, end time.Time
	level      int64
}

// readTraces returns nil where no file was named or none is there.
func readTraces(ctx context.Context, s sink.Sink) *Traces {
	if s.Path == "" {
		return nil
	}
	if _, err := s.Files(); err != nil {
		return nil
	}
	r := traceReader{roots: map[pcommon.SpanID]seenRoot{}}
	_, err := s.Each(ctx, r.add)
	t := r.sum()
	t.Path, t.Err = s.Path, err
	return t
}

func (r *traceReader) add(td ptrace.Traces) {
	for _, rs := range td.ResourceSpans().All() {
		engine, _ := rs.Resource().Attributes().Get(sglang.AttrEngineID)
		for _, ss := range rs.ScopeSpans().All() {
			for _, span := range ss.Spans().All() {
				r.span(span, engine.AsString())
			}
		}
	}
}

func (r *traceReader) span(span ptrace.Span, engine string) {
	switch sglang.KindOf(span) {
	case sglang.KindRoot:
		root := seenRoot{start: span.StartTimestamp().AsTime(), end: span.EndTimestamp().AsTime()}
		root.level = integer(span.Attributes(), sglang.AttrTraceLevel)
		r.roots[span.SpanID()] = root
		if root.end.After(r.last) {
			r.last = root.end
		}
	case sglang.KindThread:
		if t := sglang.ThreadOf(span.Attributes()); sglang.ProcessOf(t.Label) == sglang.ProcessScheduler {
			r.threads = append(r.threads, readThread(span, t, engine))
		}
	}
}

func readThread(span ptrace.Span, t sglang.Thread, engine string) seenThread {
	s := seenThread{parent: span.ParentSpanID(), start: span.StartTimestamp().AsTime(), engine: engine, skew: math.Inf(1)}
	s.group = strings.Join([]string{engine, t.Label, rank(t.Ranks.PP), rank(t.Ranks.DP)}, "/")
	s.count = integer(span.Attributes(), sglang.AttrRanksCount)
	s.expected = integer(span.Attributes(), sglang.AttrRanksExpected)
	for key, v := range span.Attributes().All() {
		if strings.HasPrefix(key, sglang.AttrRanksSkewPrefix) {
			s.skew, s.skewed = min(s.skew, v.Double()), true
		}
	}
	return s
}

func rank(n int32) string {
	if n == sglang.NoRank {
		return "-"
	}
	return strconv.Itoa(int(n))
}

// integer is an attribute's value, 0 if there is none.
func integer(attrs pcommon.Map, key string) int64 {
	if v, ok := attrs.Get(key); ok && v.Type() == pcommon.ValueTypeInt {
		return v.Int()
	}
	return 0
}

// sum looks at the last minutes only: the file may hold what was repaired since.
func (r *traceReader) sum() *Traces {
	t := &Traces{Levels: map[int64]int{}, Ranks: map[string]int{}}
	from := r.last.Add(-recent)
	for _, root := range r.roots {
		if root.end.After(from) {
			t.Requests++
			t.Levels[root.level]++
		}
	}
	groups := map[string]seenThread{}
	var skews []float64
	for _, s := range r.threads {
		root, ok := r.roots[s.parent]
		if !ok || !root.end.After(from) {
			continue
		}
		if latest, there := groups[s.group]; !there || s.start.After(latest.start) {
			groups[s.group] = s
		}
		if s.expected > s.count {
			t.Missing++
		}
		t.Lead = max(t.Lead, root.start.Sub(s.start))
		if s.skewed {
			skews = append(skews, s.skew)
		}
	}
	for _, s := range groups {
		t.Ranks[s.engine] += int(max(s.count, 1))
	}
	if len(skews) > 0 {
		slices.Sort(skews)
		t.SkewKnown = true
		t.Skew = time.Duration(skews[len(skews)/2] * float64(time.Second))
	}
	return t
}
