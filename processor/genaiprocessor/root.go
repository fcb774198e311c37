// Copyright The otelcol-sglang Authors
// SPDX-License-Identifier: Apache-2.0

package genaiprocessor // import "github.com/otelcol-sglang/otelcol-sglang/processor/genaiprocessor"

import (
	"encoding/json"
	"slices"
	"strings"

	"go.opentelemetry.io/collector/pdata/pcommon"
	"go.opentelemetry.io/collector/pdata/ptrace"

	"github.com/otelcol-sglang/otelcol-sglang/internal/sglang"
	"github.com/otelcol-sglang/otelcol-sglang/processor/genaiprocessor/internal/assembly"
	"github.com/otelcol-sglang/otelcol-sglang/processor/genaiprocessor/internal/latency"
)

// rootSpan is a held root and what its attributes say.
type rootSpan struct {
	held

	role     sglang.Role
	reported latency.Reported
	// input, output and cached are tokens, latency.Unknown if not given.
	input, output, cached int64
	model, requestID      string
	finish                []string
	// oneReason is room for the usual one.
	oneReason [1]string
	module    string
	// room is the bootstrap room; noRoom says that the root names room 0.
	room   uint64
	noRoom bool
	// completeness is what a tier before found out, joined whether it joined the halves.
	completeness string
	joined       bool
	external     bool
	// known is what the assembly must know of it.
	known assembly.Root
}

var _ assembly.Payload = (*rootSpan)(nil)

func readRoot(span ptrace.Span) *rootSpan {
	id := assembly.TraceID(span.TraceID())
	r := &rootSpan{
		role: sglang.RoleOf(rootName(span)), external: id.External(),
		input: latency.Unknown, output: latency.Unknown, cached: latency.Unknown,
	}
	for key, v := range span.Attributes().All() {
		if strings.HasPrefix(key, latencyPrefix) {
			r.readLatency(key[len(latencyPrefix):], v)
		} else {
			r.readFact(key, v)
		}
	}
	if !r.noRoom {
		r.room, _ = sglang.BootstrapRoom(span.Attributes())
	}
	r.reported.Trusted = r.completeness != ""
	r.known = assembly.Root{Role: r.role, EncoderLike: r.encoderLike(), Done: r.done()}
	return r
}

// rootName is the name the engine gave.
func rootName(span ptrace.Span) string {
	if v, ok := span.Attributes().Get(sglang.AttrOriginalName); ok {
		return v.Str()
	}
	return span.Name()
}

const latencyPrefix = "gen_ai.latency."

func (r *rootSpan) readLatency(name string, v pcommon.Value) {
	switch name {
	case latency.NameTTFT:
		r.reported.TTFT = number(v)
	case latency.NameE2E:
		r.reported.E2E = number(v)
	case latency.NameQueue:
		r.reported.Queue = number(v)
	case latency.NamePrefill:
		r.reported.Prefill = number(v)
	case latency.NameDecode:
		r.reported.Decode = number(v)
	case latency.NameInference:
		r.reported.Inference = number(v)
	}
}

func number(v pcommon.Value) latency.Number {
	switch v.Type() {
	case pcommon.ValueTypeDouble:
		return latency.Number{Given: true, Value: v.Double()}
	case pcommon.ValueTypeInt:
		return latency.Number{Given: true, Value: float64(v.Int())}
	}
	return latency.Number{Given: true, Odd: true}
}

func (r *rootSpan) readFact(key string, v pcommon.Value) {
	switch key {
	case sglang.AttrPromptTokens, sglang.AttrInputTokens:
		r.input = count(v)
	case sglang.AttrCompletionTokens, sglang.AttrOutputTokens:
		r.output = count(v)
	case sglang.AttrCachedTokens, sglang.AttrCacheReadInputTokens:
		r.cached = count(v)
	case sglang.AttrRequestID, sglang.AttrResponseID:
		r.requestID = v.AsString()
	case sglang.AttrResponseModel:
		r.model = v.AsString()
	case sglang.AttrFinishReasons:
		r.finish = finishReasons(v, r.oneReason[:0])
	case sglang.AttrModule:
		r.module = v.AsString()
	case sglang.AttrBootstrapRoom:
		r.noRoom = isRoomZero(v)
	case sglang.AttrCompleteness:
		r.completeness = v.AsString()
	case sglang.AttrPDJoined:
		r.joined = v.Type() == pcommon.ValueTypeBool && v.Bool()
	}
}

func count(v pcommon.Value) int64 {
	if v.Type() != pcommon.ValueTypeInt || v.Int() < 0 {
		return latency.Unknown
	}
	return v.Int()
}

// isRoomZero: health probes and requests without a pair. "None" is no room at all.
func isRoomZero(v pcommon.Value) bool {
	return v.Type() == pcommon.ValueTypeInt && v.Int() == 0 ||
		v.Type() == pcommon.ValueTypeStr && strings.Trim(v.Str(), "0x") == "" && v.Str() != ""
}

// finishReasons reads an array, or the engine's JSON text of one.
func finishReasons(v pcommon.Value, out []string) []string {
	if v.Type() == pcommon.ValueTypeSlice {
		for _, item := range v.Slice().All() {
			out = append(out, item.AsString())
		}
		return out
	}
	text := v.AsString()
	// The engine's own form, without a JSON parser.
	if inner, ok := strings.CutPrefix(text, `["`); ok {
		if inner, ok = strings.CutSuffix(inner, `"]`); ok && !strings.ContainsAny(inner, `"\`) {
			return append(out, inner)
		}
	}
	var list []string
	if json.Unmarshal([]byte(text), &list) == nil || text == "" {
		return list
	}
	return append(out, text)
}

// encoderLike: the root of an encoder's work names neither model nor tokens.
func (r *rootSpan) encoderLike() bool {
	return r.model == "" && r.output == latency.Unknown && r.input == latency.Unknown
}

func (r *rootSpan) health() bool {
	return strings.HasPrefix(r.requestID, sglang.HealthCheckPrefix)
}

// done: nothing is left to find out. The Mooncake module's roots are no requests.
func (r *rootSpan) done() bool {
	if r.role == sglang.RoleSender || r.module == sglang.ModuleMooncake {
		return true
	}
	half := r.role == sglang.RolePrefill || r.role == sglang.RoleDecode
	return r.completeness == sglang.CompletenessComplete && (!half || r.joined || !r.joinable())
}

func (r *rootSpan) joinable() bool {
	return !r.health() && !r.noRoom && (r.room != 0 || r.external)
}

func (r *rootSpan) markSender(span ptrace.Span) {
	if r.role == sglang.RoleSender {
		span.Attributes().PutStr(sglang.AttrPDRole, r.role.String())
	}
}

// facts: a root that reports its length but no end had no output: it was aborted
// in a queue. Releases before 0.5.9 report nothing of either.
func (r *rootSpan) facts(q *assembly.Request) latency.Facts {
	f := latency.Facts{OutputTokens: r.output}
	f.Encoder = q.EncoderSeen && !q.Timeline.SchedulerSeen && r.encoderLike()
	ended := len(r.finish) > 0
	silent := !ended && r.reported.E2E.Given && r.output == latency.Unknown && !f.Encoder
	f.Aborted = slices.Contains(r.finish, sglang.FinishReasonAbort) || silent || q.Failed && !ended
	f.Embedding = ended && !f.Aborted && r.output == latency.Unknown && r.input != latency.Unknown
	return f
}
