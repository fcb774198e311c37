// Copyright The otelcol-sglang Authors
// SPDX-License-Identifier: Apache-2.0

package spans // import "github.com/otelcol-sglang/otelcol-sglang/test/internal/spans"

import (
	"strings"

	"go.opentelemetry.io/collector/pdata/pcommon"

	"github.com/otelcol-sglang/otelcol-sglang/internal/sglang"
)

// Seconds is a latency on a root.
func Seconds(root Span, key string) (float64, bool) {
	v, ok := root.Attributes().Get(key)
	return v.Double(), ok && v.Type() == pcommon.ValueTypeDouble
}

// E2E is how long a root lasted, in seconds.
func E2E(root Span) float64 { return between(root.StartTimestamp(), root.EndTimestamp()) }

func between(from, to pcommon.Timestamp) float64 { return to.AsTime().Sub(from.AsTime()).Seconds() }

// FirstToken is the time from a root's start to the end of the first prefill
// below it, in seconds.
func (t *Tree) FirstToken(root Span) (float64, bool) {
	var first Span
	for _, s := range t.Spans {
		thread, ok := t.ThreadOf(s)
		if !ok || s.Name() != sglang.StagePrefillForward.String() || thread.Parent() != root.ID() {
			continue
		}
		if first.Kind == sglang.KindForeign || s.StartTimestamp() < first.StartTimestamp() {
			first = s
		}
	}
	if first.Kind == sglang.KindForeign {
		return 0, false
	}
	return between(root.StartTimestamp(), first.EndTimestamp()), true
}

// OutputTokens is what the engine reports; 0 where it does not.
func OutputTokens(root Span) int64 {
	v, _ := root.Attributes().Get(sglang.AttrCompletionTokens)
	return v.Int()
}

// WantsTTFT tells whether a request had a first token that its user saw.
func WantsTTFT(root Span) bool {
	role := sglang.RoleOf(root.Name())
	return OutputTokens(root) > 0 && role != sglang.RolePrefill && role != sglang.RoleSender && !aborted(root)
}

// MayHaveTTFT leaves out those that had none for sure.
func MayHaveTTFT(root Span) bool {
	role := sglang.RoleOf(root.Name())
	return OutputTokens(root) > 0 && role != sglang.RolePrefill && role != sglang.RoleSender
}

func aborted(root Span) bool {
	v, _ := root.Attributes().Get(sglang.AttrFinishReasons)
	return strings.Contains(v.AsString(), sglang.FinishReasonAbort)
}
