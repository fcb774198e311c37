// Copyright The otelcol-sglang Authors
// SPDX-License-Identifier: Apache-2.0

package genaiprocessor // import "github.com/otelcol-sglang/otelcol-sglang/processor/genaiprocessor"

import (
	"encoding/binary"
	"math"
	"strings"

	"go.opentelemetry.io/collector/pdata/pcommon"
	"go.opentelemetry.io/collector/pdata/ptrace"

	"github.com/otelcol-sglang/otelcol-sglang/internal/sglang"
	"github.com/otelcol-sglang/otelcol-sglang/processor/genaiprocessor/internal/assembly"
	"github.com/otelcol-sglang/otelcol-sglang/processor/genaiprocessor/internal/budget"
	"github.com/otelcol-sglang/otelcol-sglang/processor/genaiprocessor/internal/latency"
)

// vllmResult is what one llm_request span adds to the counters.
type vllmResult struct{ refused []latency.Refusal }

// deriveVLLM judges and completes vLLM's one span per request in place: all its
// numbers are on it, there is nothing to wait for.
func (p *genaiProcessor) deriveVLLM(td ptrace.Traces) []vllmResult {
	var out []vllmResult
	for _, rs := range td.ResourceSpans().All() {
		for _, ss := range rs.ScopeSpans().All() {
			if !strings.HasPrefix(ss.Scope().Name(), sglang.VLLMScopePrefix) {
				continue
			}
			for _, span := range ss.Spans().All() {
				if span.Name() == sglang.VLLMRequestSpan {
					out = p.completeVLLM(span, out)
				}
			}
		}
	}
	return out
}

func (p *genaiProcessor) completeVLLM(span ptrace.Span, out []vllmResult) []vllmResult {
	root := readRoot(span)
	if root.completeness != "" {
		return out
	}
	q := &assembly.Request{Completeness: sglang.CompletenessComplete, Level: assembly.Unknown}
	q.Timeline = latency.Timeline{Start: int64(span.StartTimestamp()), End: int64(span.EndTimestamp()), Complete: true}
	facts := root.facts(q)
	facts.Embedding = false
	q.Timeline.Facts = facts
	result := latency.Derive(&q.Timeline, root.reported)
	budgetOfVLLM(&result)
	span.Attributes().EnsureCapacity(span.Attributes().Len() + rootAttributes)
	p.writeAttributes(span.Attributes(), root, q, facts, &result, sglang.ProviderVLLM)
	return append(out, vllmResult{refused: result.Refused})
}

// budgetOfVLLM: vLLM's queue, prefill and decode do not overlap.
func budgetOfVLLM(r *latency.Result) {
	if !r.Queue.Known || !r.Prefill.Known || !r.Decode.Known {
		return
	}
	b := budget.Budget{
		budget.Queue: nanos(r.Queue), budget.Prefill: nanos(r.Prefill), budget.Decode: nanos(r.Decode),
	}
	if rest := nanos(r.E2E) - b.Total(); rest >= 0 {
		b[budget.Unattributed] = rest
		r.Budget = b
	}
}

func nanos(v latency.Value) int64 { return int64(math.Round(v.Seconds * 1e9)) }

func (p *genaiProcessor) countVLLM(results []vllmResult) {
	for _, r := range results {
		p.tel.roots.addAll(values{sglang.CompletenessComplete}, 1)
		for _, refusal := range r.refused {
			p.tel.refusal(refusal)
		}
	}
}

func putSpanID(to *pcommon.SpanID, id uint64) { binary.BigEndian.PutUint64(to[:], id) }
