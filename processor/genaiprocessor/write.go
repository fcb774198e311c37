// Copyright The otelcol-sglang Authors
// SPDX-License-Identifier: Apache-2.0

package genaiprocessor // import "github.com/otelcol-sglang/otelcol-sglang/processor/genaiprocessor"

import (
	"math"
	"strings"

	"go.opentelemetry.io/collector/pdata/pcommon"

	"github.com/otelcol-sglang/otelcol-sglang/internal/sglang"
	"github.com/otelcol-sglang/otelcol-sglang/processor/genaiprocessor/internal/assembly"
	"github.com/otelcol-sglang/otelcol-sglang/processor/genaiprocessor/internal/budget"
	"github.com/otelcol-sglang/otelcol-sglang/processor/genaiprocessor/internal/latency"
)

var budgetKeys = func() (keys [budget.Count]string) {
	for s := range budget.Count {
		keys[s] = sglang.AttrBudgetPrefix + s.String()
	}
	return keys
}()

// rootAttributes is about how many attributes a root gets.
const rootAttributes = 30

// rootWriter puts what was derived on a root.
type rootWriter struct {
	attrs  pcommon.Map
	root   *rootSpan
	result latency.Result // a pointer would put each on the heap
	// trusted: values on the root were judged by a tier before and stay.
	trusted bool
}

func (p *genaiProcessor) writeRoot(root *rootSpan, q *assembly.Request, f latency.Facts, res *latency.Result) {
	p.writeAttributes(root.span().Attributes(), root, q, f, res, sglang.ProviderSGLang)
}

func (p *genaiProcessor) writeAttributes(
	attrs pcommon.Map, root *rootSpan, q *assembly.Request, f latency.Facts, res *latency.Result, provider string,
) {
	w := rootWriter{attrs: attrs, root: root, result: *res, trusted: root.reported.Trusted}
	if p.replace || w.anyRefused() {
		w.attrs.RemoveIf(func(key string, _ pcommon.Value) bool {
			return w.refused(key) || p.replace && isEngineName(key)
		})
	}
	w.latencies()
	w.details()
	w.budget(false)
	w.str(sglang.AttrProviderName, provider)
	w.semconv(f)
	if f.Encoder {
		w.attrs.PutBool(sglang.AttrEncoder, true)
	}
	if f.Aborted || q.Failed && f.Encoder {
		w.str(sglang.AttrErrorType, orDefault(q.ErrorType, sglang.ErrorTypeAbort))
	}
	w.refusals()
	if root.completeness != sglang.CompletenessComplete {
		w.attrs.PutStr(sglang.AttrCompleteness, q.Completeness)
	}
	w.count(sglang.AttrTraceLevel, q.Level)
}

func orDefault(s, fallback string) string {
	if s == "" {
		return fallback
	}
	return s
}

// anyRefused says whether there is anything to look for: mostly there is not.
func (w *rootWriter) anyRefused() bool {
	r, reported := &w.result, &w.root.reported
	return reported.TTFT.Given && !r.TTFT.Known || reported.E2E.Given && !r.E2E.Known ||
		reported.Queue.Given && !r.Queue.Known || reported.Prefill.Given && !r.Prefill.Known ||
		reported.Decode.Given && !r.Decode.Known || reported.Inference.Given && !r.Inference.Known
}

// refused: a reported latency that no value was derived for must not stay.
func (w *rootWriter) refused(key string) bool {
	if !strings.HasPrefix(key, latencyPrefix) {
		return false
	}
	switch key[len(latencyPrefix):] {
	case latency.NameTTFT:
		return !w.result.TTFT.Known
	case latency.NameE2E:
		return !w.result.E2E.Known
	case latency.NameQueue:
		return !w.result.Queue.Known
	case latency.NamePrefill:
		return !w.result.Prefill.Known
	case latency.NameDecode:
		return !w.result.Decode.Known
	case latency.NameInference:
		return !w.result.Inference.Known
	}
	return false
}

// isEngineName: a convention's name says the same.
func isEngineName(key string) bool {
	switch key {
	case sglang.AttrPromptTokens, sglang.AttrCompletionTokens, sglang.AttrCachedTokens, sglang.AttrRequestID:
		return true
	}
	return false
}

func (w *rootWriter) has(key string) bool {
	_, ok := w.attrs.Get(key)
	return ok
}

func isNumber(v pcommon.Value) bool {
	return v.Type() == pcommon.ValueTypeDouble && !math.IsNaN(v.Double()) && !math.IsInf(v.Double(), 0)
}

// seconds leaves alone what is there already: most of the engine's own values stay.
func (w *rootWriter) seconds(key string, value latency.Value) {
	if !value.Known {
		return
	}
	v, there := w.attrs.GetOrPutEmpty(key)
	if there && isNumber(v) && (w.trusted || v.Double() == value.Seconds) {
		return
	}
	v.SetDouble(value.Seconds)
}

func (w *rootWriter) count(key string, n int64) {
	if n >= 0 && (!w.trusted || !w.has(key)) {
		w.attrs.PutInt(key, n)
	}
}

func (w *rootWriter) str(key, s string) {
	if s != "" && (!w.trusted || !w.has(key)) {
		w.attrs.PutStr(key, s)
	}
}

func (w *rootWriter) latencies() {
	r := &w.result
	w.seconds(sglang.AttrLatencyTTFT, r.TTFT)
	w.seconds(sglang.AttrOutTPOT, r.TPOT)
	w.seconds(sglang.AttrLatencyE2E, r.E2E)
	w.seconds(sglang.AttrLatencyInQueue, r.Queue)
	w.seconds(sglang.AttrLatencyInPrefill, r.Prefill)
	w.seconds(sglang.AttrLatencyInDecode, r.Decode)
	w.seconds(sglang.AttrLatencyInInference, r.Inference)
	w.str(sglang.AttrTTFTSource, r.TTFTSource)
	w.seconds(sglang.AttrTTFTLag, r.TTFTLag)
	w.seconds(sglang.AttrFirstTokenAtScheduler, r.FirstTokenAtScheduler)
}

func (w *rootWriter) details() {
	r := &w.result
	w.seconds(sglang.AttrPrefillCompute, r.PrefillCompute)
	w.seconds(sglang.AttrDecodeCompute, r.DecodeCompute)
	w.count(sglang.AttrRetractions, r.Retractions)
	w.count(sglang.AttrChunks, r.Chunks)
	w.seconds(sglang.AttrKVTransfer, r.KVTransfer)
	w.seconds(sglang.AttrBootstrap, r.Bootstrap)
	w.str(sglang.AttrPDRole, r.Role.String())
	if w.root.health() {
		w.attrs.PutBool(sglang.AttrHealthCheck, true)
	}
}

// budget writes the stages that took time; the others took none that is known.
func (w *rootWriter) budget(again bool) {
	if !again && w.trusted && (w.hasBudget() || w.explainsNoMore()) {
		return
	}
	for s, ns := range w.result.Budget {
		switch {
		case ns > 0:
			w.attrs.PutDouble(budgetKeys[s], float64(ns)/1e9)
		case again || w.trusted:
			w.attrs.Remove(budgetKeys[s])
		}
	}
}

// hasBudget: a tier before cut it, and knew more than that time passed.
func (w *rootWriter) hasBudget() bool {
	return w.has(budgetKeys[budget.Finish]) || w.has(budgetKeys[budget.Prefill]) || w.has(budgetKeys[budget.Queue])
}

// explainsNoMore: of the budget that a tier before cut no less time is unattributed.
func (w *rootWriter) explainsNoMore() bool {
	v, ok := w.attrs.Get(budgetKeys[budget.Unattributed])
	return ok && isNumber(v) && float64(w.result.Budget[budget.Unattributed])/1e9 >= v.Double()
}

func (w *rootWriter) semconv(f latency.Facts) {
	r := w.root
	w.str(sglang.AttrOperationName, r.operation(f))
	w.str(sglang.AttrRequestModel, r.model)
	w.str(sglang.AttrResponseID, r.requestID)
	w.count(sglang.AttrInputTokens, r.input)
	w.count(sglang.AttrOutputTokens, r.output)
	w.count(sglang.AttrCacheReadInputTokens, r.cached)
	if len(r.finish) == 0 {
		return
	}
	list := w.attrs.PutEmptySlice(sglang.AttrFinishReasons)
	for _, reason := range r.finish {
		list.AppendEmpty().SetStr(reason)
	}
}

// operation: the root does not tell a chat from a completion; the request id may,
// if a caller gave one. Else all that is known is that something was generated: of
// the conventions' values only generate_content does not claim more.
func (r *rootSpan) operation(f latency.Facts) string {
	switch {
	case f.Embedding:
		return sglang.OperationEmbeddings
	case f.Encoder:
		return ""
	case strings.HasPrefix(r.requestID, sglang.ChatRequestIDPrefix):
		return sglang.OperationChat
	case strings.HasPrefix(r.requestID, sglang.CompletionRequestIDPrefix):
		return sglang.OperationTextCompletion
	}
	return sglang.OperationGenerateContent
}

func (w *rootWriter) refusals() {
	if len(w.result.Refused) == 0 {
		return
	}
	v, ok := w.attrs.Get(sglang.AttrLatencyInvalid)
	if !ok || v.Type() != pcommon.ValueTypeSlice {
		w.attrs.PutEmptySlice(sglang.AttrLatencyInvalid)
		v, _ = w.attrs.Get(sglang.AttrLatencyInvalid)
	}
	for _, r := range w.result.Refused {
		v.Slice().AppendEmpty().SetStr(r.String())
	}
}
