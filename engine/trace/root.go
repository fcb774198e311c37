// Copyright The otelcol-sglang Authors
// SPDX-License-Identifier: Apache-2.0

package trace // import "github.com/otelcol-sglang/otelcol-sglang/engine/trace"

import (
	"strconv"

	"github.com/otelcol-sglang/otelcol-sglang/engine/ledger"
	"github.com/otelcol-sglang/otelcol-sglang/internal/sglang"
)

// autoClosed is the state of a thread whose object was garbage-collected.
var autoClosed = []attr{textAttr(sglang.AttrAbortReason, sglang.AutoClosedReason)}

// rootAttributes are those of a request's root
// (tokenizer_manager.convert_to_span_attrs, convert_to_gen_ai_span_attrs).
func (t *Tracer) rootAttributes(r *ledger.Request, rid string) []attr {
	out := make([]attr, 0, 20)
	out = append(out, textAttr(sglang.AttrRID, rid), textAttr(sglang.AttrModule, sglang.ModuleRequest))
	if r.BootstrapRoom != 0 {
		out = append(out, textAttr(sglang.AttrBootstrapRoom, roomText(r.BootstrapRoom)))
	}
	if passedOutput(r) {
		out = t.appendUsage(out, r)
	}
	return appendLatencies(out, &r.Front)
}

// passedOutput tells whether the request came back from a scheduler: refused ones,
// and those aborted while they queued, only have the front end's times.
func passedOutput(r *ledger.Request) bool {
	switch r.Finish {
	case "":
		return false
	case ledger.FinishAbort:
		return r.Front.FirstToken != ledger.Unset
	}
	return true
}

func (t *Tracer) appendUsage(out []attr, r *ledger.Request) []attr {
	ints := func(key string, v int, zero bool) {
		if v != 0 || zero {
			out = append(out, intAttr(key, int64(v)))
		}
	}
	if r.Kind != ledger.KindEmbedding {
		ints(sglang.AttrCompletionTokens, len(r.Output), true)
	}
	ints(sglang.AttrPromptTokens, len(r.Prompt), true)
	ints(sglang.AttrCachedTokens, r.Cached.Total(), true)
	out = append(out, textAttr(sglang.AttrRequestID, r.ID))
	ints(sglang.AttrMaxTokens, r.MaxTokens, false)
	out = appendSampling(out, sglang.AttrTopP, r.TopP, r.IntegerTopP)
	ints(sglang.AttrTopK, r.TopK, false)
	out = appendSampling(out, sglang.AttrTemperature, r.Temperature, r.IntegerTemperature)
	if r.N > 1 {
		ints(sglang.AttrN, r.N, false)
	}
	return append(out, textAttr(sglang.AttrResponseModel, t.cfg.Model),
		textAttr(sglang.AttrFinishReasons, `["`+string(r.Finish)+`"]`))
}

// appendSampling leaves out 0, as the engine does, and keeps the type of the
// client's JSON.
func appendSampling(out []attr, key string, v *float64, integer bool) []attr {
	switch {
	case v == nil || *v == 0:
		return out
	case integer:
		return append(out, intAttr(key, int64(*v)))
	}
	return append(out, floatAttr(key, *v))
}

// appendLatencies adds those whose two readings were taken, in seconds. The first
// token is the front end's reading, which may be late or the finish itself.
func appendLatencies(out []attr, f *ledger.FrontTimes) []attr {
	for _, l := range []struct {
		key      string
		from, to int64
	}{
		{sglang.AttrLatencyTTFT, int64(f.Created), int64(f.FirstToken)},
		{sglang.AttrLatencyE2E, int64(f.Created), int64(f.Finished)},
		{sglang.AttrLatencyInDecode, int64(f.FirstToken), int64(f.Finished)},
		{sglang.AttrLatencyInInference, int64(f.DispatchFinish), int64(f.Finished)},
		{sglang.AttrLatencyInPrefill, int64(f.DispatchFinish), int64(f.FirstToken)},
	} {
		if l.from != int64(ledger.Unset) && l.to != int64(ledger.Unset) {
			out = append(out, floatAttr(l.key, float64(l.to-l.from)/1e9))
		}
	}
	return out
}

// failure is how a thread span says that the scheduler refused the request or
// threw it out of a queue; nil if its thread just ends. A request that was aborted
// after that, or whose transfer failed, ends as any other.
func failure(r *ledger.Request) []attr {
	if r.Finish != ledger.FinishAbort || r.AbortMessage == "" || r.Sched.FirstForward != ledger.Unset ||
		r.Sched.BootstrapStart != ledger.Unset {
		return nil
	}
	if r.AbortStatus == 0 {
		return []attr{textAttr(sglang.AttrAbortReason, r.AbortMessage)}
	}
	return []attr{
		textAttr(sglang.AttrAbortType, string(ledger.FinishAbort)),
		intAttr(sglang.AttrAbortStatusCode, int64(r.AbortStatus)),
		textAttr(sglang.AttrAbortMessage, r.AbortMessage),
	}
}

func roomText(room uint64) string { return "0x" + strconv.FormatUint(room, 16) }
