// Copyright The otelcol-sglang Authors
// SPDX-License-Identifier: Apache-2.0

package sglang // import "github.com/otelcol-sglang/otelcol-sglang/internal/sglang"

// Names of the OpenTelemetry conventions for generative AI, where the engine
// uses names of its own.
const (
	AttrOperationName         = "gen_ai.operation.name"
	AttrProviderName          = "gen_ai.provider.name"
	AttrRequestModel          = "gen_ai.request.model"
	AttrInputTokens           = "gen_ai.usage.input_tokens"
	AttrOutputTokens          = "gen_ai.usage.output_tokens"
	AttrCacheReadInputTokens  = "gen_ai.usage.cache_read.input_tokens"
	AttrResponseID            = "gen_ai.response.id"
	AttrErrorType             = "error.type"
	OperationTextCompletion   = "text_completion"
	OperationChat             = "chat"
	OperationEmbeddings       = "embeddings"
	OperationGenerateContent  = "generate_content"
	ProviderSGLang            = "sglang"
	ProviderVLLM              = "vllm"
	FinishReasonAbort         = "abort"
	ChatRequestIDPrefix       = "chatcmpl"
	CompletionRequestIDPrefix = "cmpl"
	TTFTSourceEngine          = "engine"
	TTFTSourceScheduler       = "scheduler"
	ErrorTypeAbort            = "abort"
	ErrorTypeOther            = "_OTHER"
	VLLMScopePrefix           = "vllm"
	VLLMRequestSpan           = "llm_request"
	SpanNameRequest           = "request"
	SpanNameSender            = "kv_sender"
	SpanNameRoom              = "Bootstrap Room"
	MultiTokenizerLabelInfix  = "MultiTokenizer"
	TransferWorkerLabelPrefix = "mooncake transfer worker"
)

// Attributes that genai writes on request roots beyond those in attribute.go.
const (
	// AttrCompleteness marks a root whose latencies this distribution derived:
	// CompletenessComplete, or why a value may be missing. A root that carries it
	// is never judged again.
	AttrCompleteness = "sglang.request.completeness"
	// AttrTraceLevel is the highest level (SGLANG_TRACE_LEVEL) of any span of the
	// request: at a lower one some values cannot be known.
	AttrTraceLevel = "sglang.trace.level"
	// AttrHealthCheck is true on roots of the engine's own probes.
	AttrHealthCheck = "sglang.request.health_check"
	// AttrPDPeerSpanID is the span id of the other half's root; the span link
	// says the same to a trace viewer.
	AttrPDPeerSpanID = "sglang.pd.peer_span_id"
)

// Values of AttrCompleteness.
const (
	CompletenessComplete     = "complete"
	CompletenessNoScheduler  = "no_scheduler_spans"
	CompletenessNoFrontEnd   = "no_front_end_spans"
	CompletenessNoThread     = "thread_span_missing"
	CompletenessMissingSpans = "spans_missing"
)

// Attributes of a folded decode: what the decode_loop spans of one
// decode_forward said. Times in seconds.
const (
	// AttrStepsCount is the number of decode_loop spans that were folded in.
	AttrStepsCount = "sglang.decode.steps"
	AttrStepsSum   = "sglang.decode.step.sum"
	AttrStepsMin   = "sglang.decode.step.min"
	AttrStepsP50   = "sglang.decode.step.p50"
	AttrStepsP95   = "sglang.decode.step.p95"
	AttrStepsP99   = "sglang.decode.step.p99"
	AttrStepsMax   = "sglang.decode.step.max"
	// AttrStepsTokens is the number of tokens per step; above 1 under speculation.
	AttrStepsTokens = "sglang.decode.tokens_per_step"
	// AttrITL is the mean time between tokens: step time over decoded tokens.
	AttrITL = "sglang.decode.inter_token_latency"

	// EventSlowStep marks one of the slowest steps, at the step's start.
	EventSlowStep         = "sglang.decode.slow_step"
	EventAttrStepNumber   = "decode_ct"
	EventAttrStepDuration = "duration"
)
