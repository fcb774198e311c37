// Copyright The otelcol-sglang Authors
// SPDX-License-Identifier: Apache-2.0

package genaiprocessor // import "github.com/otelcol-sglang/otelcol-sglang/processor/genaiprocessor"

import (
	"bytes"

	"go.opentelemetry.io/collector/pdata/pcommon"
	"go.opentelemetry.io/collector/pdata/ptrace"

	"github.com/otelcol-sglang/otelcol-sglang/internal/sglang"
	"github.com/otelcol-sglang/otelcol-sglang/processor/genaiprocessor/internal/steps"
)

// writeSteps puts the summary of a decode on its span; with drop, only how many
// steps there were, which a tier behind needs to know that all have come. output
// is the number of tokens of the whole request, below 2 if unknown or without a decode.
func (p *genaiProcessor) writeSteps(span ptrace.Span, sum *steps.Sum, output int64) {
	if sum.Count() == 0 || p.decodeLoop == decodeLoopKeep {
		return
	}
	attrs := span.Attributes()
	attrs.EnsureCapacity(attrs.Len() + 9)
	attrs.PutInt(sglang.AttrStepsCount, int64(sum.Count()))
	if p.decodeLoop == decodeLoopDrop {
		return
	}
	s := sum.Summary()
	putSeconds(attrs, sglang.AttrStepsSum, s.Sum)
	putSeconds(attrs, sglang.AttrStepsMin, s.Min)
	putSeconds(attrs, sglang.AttrStepsP50, s.P50)
	putSeconds(attrs, sglang.AttrStepsP95, s.P95)
	putSeconds(attrs, sglang.AttrStepsP99, s.P99)
	putSeconds(attrs, sglang.AttrStepsMax, s.Max)
	// The prefill, or the prefill half, gave the first token.
	if decoded := output - 1; decoded > 0 {
		attrs.PutDouble(sglang.AttrStepsTokens, float64(decoded)/float64(s.Count))
		attrs.PutDouble(sglang.AttrITL, float64(s.Sum)/1e9/float64(decoded))
	}
	span.Events().EnsureCapacity(span.Events().Len() + len(s.Worst))
	for _, step := range s.Worst {
		writeWorst(span.Events().AppendEmpty(), step)
	}
}

func putSeconds(attrs pcommon.Map, key string, ns int64) { attrs.PutDouble(key, float64(ns)/1e9) }

func writeWorst(event ptrace.SpanEvent, step steps.Step) {
	event.SetName(sglang.EventSlowStep)
	event.SetTimestamp(pcommon.Timestamp(step.Start))
	attrs := event.Attributes()
	attrs.EnsureCapacity(4)
	putSeconds(attrs, sglang.EventAttrStepDuration, step.Duration())
	if step.Number >= 0 {
		attrs.PutInt(sglang.EventAttrStepNumber, step.Number)
	}
	if id := bytes.TrimRight(step.BatchID[:], "\x00"); len(id) > 0 {
		attrs.PutStr(sglang.EventAttrBatchID, string(id))
	}
	if step.BatchSize > 0 {
		attrs.PutInt(sglang.EventAttrBatchSize, int64(step.BatchSize))
	}
}
