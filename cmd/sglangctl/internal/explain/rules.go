// Copyright The otelcol-sglang Authors
// SPDX-License-Identifier: Apache-2.0

package explain // import "github.com/otelcol-sglang/otelcol-sglang/cmd/sglangctl/internal/explain"

import (
	"strings"

	"github.com/otelcol-sglang/otelcol-sglang/internal/sglang"
)

// rule is how one attribute comes about.
type rule struct {
	// key is the attribute; one that ends with a dot stands for all that begin so.
	key string
	// text is the rule in a sentence or two.
	text string
	// compute does it once more; nil where the value is a fact to be believed.
	compute func(*View, string) answer
}

// answer is a value computed once more.
type answer struct {
	value float64
	known bool
	// word is a value that is no number.
	word string
	// why there is no value, or what can't be told.
	why    string
	inputs []Input
	// unsure: it can't be computed from the spans at hand.
	unsure bool
}

// onRoot are the attributes of request roots, in the order in which they print.
var onRoot = []rule{
	{sglang.AttrLatencyE2E, "The root's end less its start. Of a disaggregated request whose halves ran one after the other (20 ms or more apart): from the prefill root's start.", computeE2E},
	{
		sglang.AttrLatencyTTFT,
		"What the engine reports if it can be true, else when the scheduler had the first token. Refused are values that are 0, negative, longer than the request, " +
			"equal to it with more than one output token, or that fall on the arrival of token 50 (so an engine without --enable-metrics reports requests that don't stream). " +
			"A late one is not refused: a flooded front end makes it true. None for embeddings, encoders, prefill halves and what was aborted before a token.",
		computeTTFT,
	},
	{sglang.AttrTTFTSource, "Whose time to first token stands on the root: the engine's front end's, or the scheduler's.", computeSource},
	{sglang.AttrTTFTLag, "The engine's time to first token less the scheduler's: the way back through the front end. Healthy below 10 ms.", computeLag},
	{
		sglang.AttrFirstTokenAtScheduler,
		"The end of the kept rank's first prefill_forward less the root's start; on a decode half the end of fake_output, else the start of decode_forward.",
		computeFirstToken,
	},
	{
		sglang.AttrOutTPOT,
		"(end - first token) / (output tokens - 1): time per token after the first, without queue and prefill. It has the waits after retractions in it; " +
			"sglang.decode.inter_token_latency has only the steps. Benchmarks that call the mean gap between chunks of a stream ITL get more per gap where a step gives several tokens.",
		computeTPOT,
	},
	{
		sglang.AttrLatencyInQueue,
		"Every stay in a waiting queue: prefill_waiting (on a decode half decode_waiting), and from each retraction to the prefill that follows. " +
			"A joined decode half adds its prefill half's. A request that was aborted while it queued was there to its end. Unknown, never 0, without the scheduler's spans.",
		computeQueue,
	},
	{
		sglang.AttrLatencyInPrefill,
		"As the engine means it: from the end of the dispatch to the first token, the queue included. The engine's value if it and the first token are believed, else from the spans.",
		computePrefill,
	},
	{sglang.AttrLatencyInDecode, "As the engine means it: from the first token to the end. The engine's value if it and the first token are believed, else E2E less TTFT.", computeDecode},
	{sglang.AttrLatencyInInference, "As the engine means it: from the end of the dispatch (api_server_dispatch, level 2) to the end.", computeInference},
	{sglang.AttrPrefillCompute, "Time inside the kept rank's first prefill_forward, within the root's time.", computePrefillCompute},
	{sglang.AttrDecodeCompute, "decode_forward without the waits after retractions and the prefills done again.", computeDecodeCompute},
	{sglang.AttrBootstrap, "A half's own bootstrap span; of a joined pair the budget's bootstrap.", computeBootstrap},
	{sglang.AttrKVTransfer, "A half's own transfer span; of a joined pair the budget's kv_transfer.", computeTransfer},
	{
		sglang.AttrBudgetPrefix,
		"The request's time cut into stages that add up to E2E: each instant belongs to one span's stage. Where two cover it the later stage has it, " +
			"and of a pair the prefill half's work goes before the decode half's waiting for it. finish is from the scheduler's last to the root's end; what no span covers is unattributed.",
		computeBudget,
	},
	{sglang.AttrRetractions, "The number of retract events on the kept rank's thread span.", computeRetractions},
	{sglang.AttrChunks, "The number of chunked_prefill slices of the kept rank (trace level 3).", computeChunks},
	{
		sglang.AttrLatencyInvalid,
		"Values that the engine reported and that can't be true, as attribute:reason. They were taken off and, where spans tell, replaced.", nil,
	},
	{
		sglang.AttrCompleteness,
		"complete: front end and scheduler have come, and every span that another one names or that a thread span counts (sglang.thread.slices). Else what is missing.", nil,
	},
	{sglang.AttrTraceLevel, "The highest SGLANG_TRACE_LEVEL that any of the request's spans needs. At a lower one some values can't be known.", computeLevel},
	{sglang.AttrPDRole, "Which half of a disaggregated request this is, by the engine's name for the root.", nil},
	{sglang.AttrPDJoined, "Whether the other half was found: by bootstrap_room, or by a trace id that a caller gave.", nil},
	{sglang.AttrPDPeerTraceID, "The other half's trace.", nil},
	{sglang.AttrPDPeerSpanID, "The other half's root.", nil},
	{sglang.AttrHealthCheck, "The request id begins with " + sglang.HealthCheckPrefix + ": the engine's own probe.", nil},
	{sglang.AttrEncoder, "The root of a multimodal encoder's work: it names neither model nor tokens, and an encoder's thread is below it.", nil},
	{sglang.AttrErrorType, "The kind of abort: by finish_reasons, by the thread span's err_type, or because the root reports its length and no end.", nil},
	{sglang.AttrOperationName, "embeddings without output tokens; chat or text_completion if a caller's request id says so; else generate_content, which claims no more than is known.", nil},
	{sglang.AttrProviderName, "The engine, by the spans' scope.", nil},
	{sglang.AttrRequestModel, "gen_ai.response.model: the engine names one model.", copyOf(sglang.AttrResponseModel)},
	{sglang.AttrResponseID, "gen_ai.request.id under the conventions' name.", copyOf(sglang.AttrRequestID)},
	{sglang.AttrFinishReasons, "The engine's JSON text as the conventions' array.", nil},
	{sglang.AttrInputTokens, "gen_ai.usage.prompt_tokens under the conventions' name.", copyOf(sglang.AttrPromptTokens)},
	{sglang.AttrOutputTokens, "gen_ai.usage.completion_tokens under the conventions' name.", copyOf(sglang.AttrCompletionTokens)},
	{sglang.AttrCacheReadInputTokens, "gen_ai.usage.cached_tokens under the conventions' name.", copyOf(sglang.AttrCachedTokens)},
	{sglang.AttrOriginalName, "The name that the engine gave; it differs per request and host, so that it can't be a dimension.", nil},
}

// onDecode are the attributes of a decode_forward whose steps were folded.
var onDecode = []rule{
	{sglang.AttrStepsCount, "The number of decode_loop spans that were folded in.", computeSteps},
	{sglang.AttrStepsSum, "The sum of their lengths.", computeSteps},
	{sglang.AttrStepsMin, "The shortest.", computeSteps},
	{sglang.AttrStepsP50, "The median, by nearest rank.", computeSteps},
	{sglang.AttrStepsP95, "The 95th percentile, by nearest rank.", computeSteps},
	{sglang.AttrStepsP99, "The 99th percentile, by nearest rank.", computeSteps},
	{sglang.AttrStepsMax, "The longest.", computeSteps},
	{sglang.AttrStepsTokens, "(output tokens - 1) / steps: above 1 under speculation.", computeSteps},
	{
		sglang.AttrITL,
		"Step time / (output tokens - 1): the engine's time per token. With speculation a step gives several, so it is shorter than a step.", computeSteps,
	},
}

// onThread are the attributes of kept thread spans: what rankdedup left of the
// other ranks' copies.
var onThread = []rule{
	{sglang.AttrRanksCount, "The number of ranks that showed a copy of this thread.", computeRanks},
	{sglang.AttrRanksExpected, "The number of ranks of the group that are known and alive.", nil},
	{sglang.AttrRanksSlowest, "The rank that ended last most often over the compared spans.", nil},
	{sglang.AttrRanksSlowestShare, "Its share of the compared spans, 0 to 1; near 1/ranks it says nothing.", nil},
	{sglang.AttrRanksSkew, "The largest spread of a span's end over the ranks. Clocks of one host's processes differ by some milliseconds.", nil},
	{sglang.AttrRanksSkewPrefix, "The largest spread of this stage's end over the ranks.", nil},
	{sglang.AttrThreadSpans, "The number of slices that left below this thread span.", nil},
	{sglang.AttrOriginalName, "The name that the engine gave; it differs per request and host.", nil},
}

// find returns the rule for an attribute.
func find(rules []rule, key string) (rule, bool) {
	for _, r := range rules {
		if r.key == key || strings.HasSuffix(r.key, ".") && strings.HasPrefix(key, r.key) {
			return r, true
		}
	}
	return rule{}, false
}

// Reasons says why a reported value is refused, by the words in sglang.latency.invalid.
var Reasons = map[string]string{
	"type":        "it is no number",
	"not_finite":  "it is not finite",
	"negative":    "it is negative",
	"zero":        "it is 0",
	"unit":        "it is 100 times the request's length or more: not in seconds",
	"exceeds_e2e": "it is longer than the request",
	"equals_e2e":  "it falls on the very end of a request with several tokens: a request that doesn't stream, on an engine without --enable-metrics",
	"token_50":    "it falls on token 50: of a request that doesn't stream the front end hears first then, on an engine without --enable-metrics",
	"first_token": "it hangs on a first token that was refused",
	"abort":       "the request was aborted before its first token",
	"differs":     "it is more than 1 % and 10 ms shorter than the root",
	"timestamp":   "its times can't be",
}

// cutLast parts "attribute:reason".
func cutLast(s string) (before, after string, found bool) {
	i := strings.LastIndexByte(s, ':')
	if i < 0 {
		return s, "", false
	}
	return s[:i], s[i+1:], true
}
