// Copyright The otelcol-sglang Authors
// SPDX-License-Identifier: Apache-2.0

package genaiprocessor // import "github.com/otelcol-sglang/otelcol-sglang/processor/genaiprocessor"

import (
	"github.com/otelcol-sglang/otelcol-sglang/internal/sglang"
	"github.com/otelcol-sglang/otelcol-sglang/processor/genaiprocessor/internal/assembly"
	"github.com/otelcol-sglang/otelcol-sglang/processor/genaiprocessor/internal/latency"
)

// Reasons for an unknown value, beside those of a root's completeness.
const (
	unknownLevel   = "trace_level"
	unknownRefused = "refused"
	unknownNotTold = "not_told"
)

const nameSteps = "decode_steps"

// countRoot counts a root by its engine, and what is unknown of it that a request
// of its kind has: what by nature is not there is not missed.
func (p *genaiProcessor) countRoot(root *rootSpan, q *assembly.Request, f latency.Facts, res *latency.Result) {
	engine := p.engineLabel(q.Engine)
	p.tel.roots.addAll(values{q.Completeness, engine}, 1)
	if q.WithoutRanks {
		p.tel.withoutRanks.add(engine, 1)
	}
	if f.Encoder {
		return
	}
	missed := func(known bool, name string, level int64) {
		if !known {
			p.tel.unknown.addAll(values{name, reasonUnknown(q, res, name, level), engine}, 1)
		}
	}
	aborted := f.Aborted && f.OutputTokens <= 0
	if root.role != sglang.RolePrefill && !f.Embedding && !aborted {
		missed(res.TTFT.Known, latency.NameTTFT, levelOf(sglang.StagePrefillForward))
		steps := levelOf(sglang.StageDecodeLoop)
		missed(f.OutputTokens <= 1 || q.Level >= steps, nameSteps, steps)
	}
	queue := levelOf(sglang.StagePrefillWaiting)
	if aborted {
		queue = levelOf(sglang.StageRequestProcess)
	}
	missed(res.Queue.Known, latency.NameQueue, queue)
	missed(res.Inference.Known, latency.NameInference, levelOf(sglang.StageAPIServerDispatch))
}

func levelOf(s sglang.Stage) int64 { return int64(s.Info().Level) }

// reasonUnknown: spans that did not come explain most; a span that the engine
// does not write at its trace level explains the rest.
func reasonUnknown(q *assembly.Request, res *latency.Result, name string, level int64) string {
	switch {
	case q.Completeness != sglang.CompletenessComplete:
		return q.Completeness
	case q.Level < level:
		return unknownLevel
	}
	for _, r := range res.Refused {
		if r.Attribute == name || r.Attribute == latency.NameSlice {
			return unknownRefused
		}
	}
	return unknownNotTold
}
