// Copyright The otelcol-sglang Authors
// SPDX-License-Identifier: Apache-2.0

package sglang // import "github.com/otelcol-sglang/otelcol-sglang/internal/sglang"

import "strings"

// KnownAttribute tells whether a span of the engine, or an event of it, carries the
// attribute as SGLang ships or because this distribution writes it. None of them is
// text of a prompt or of an answer, or names a user; a request's id is what the caller
// chose. It does not allocate.
func KnownAttribute(key string) bool {
	switch key {
	case EventAttrBatchID, EventAttrBatchSize, EventAttrForwardMode, AttrDecodeCT, AttrPPMBID, EventAttrStepDuration:
	case AttrModule, AttrRID, AttrBootstrapRoom, AttrThreadLabel, AttrHostID, AttrPID, AttrTPRank, AttrPPRank, AttrDPRank:
	case AttrAbortReason, AttrAbortType, AttrAbortMessage, AttrAbortStatusCode, AttrAbortErrType:
	case AttrRequestID, AttrResponseModel, AttrFinishReasons, AttrPriority:
	case AttrMaxTokens, AttrTopK, AttrTopP, AttrTemperature, AttrN:
	case AttrOperationName, AttrProviderName, AttrRequestModel, AttrResponseID, AttrErrorType:
	default:
		return strings.HasPrefix(key, ownPrefix) && ownAttribute(key) ||
			strings.HasPrefix(key, usagePrefix) || strings.HasPrefix(key, latencyPrefix)
	}
	return true
}

const (
	// ownPrefix begins the names of what this distribution writes beyond conventions.
	ownPrefix = "sglang."
	// usagePrefix and latencyPrefix begin the names of numbers.
	usagePrefix   = "gen_ai.usage."
	latencyPrefix = "gen_ai.latency."
)

// AttrPriority is on roots of engines that say what priority a request has.
const AttrPriority = "priority"

func ownAttribute(key string) bool {
	switch key {
	case AttrRanksCount, AttrRanksExpected, AttrRanksSlowest, AttrRanksSkew, AttrRanksSlowestShare, AttrThreadSpans:
	case AttrTTFTSource, AttrTTFTLag, AttrFirstTokenAtScheduler, AttrPrefillCompute, AttrDecodeCompute,
		AttrKVTransfer, AttrBootstrap, AttrLatencyInvalid, AttrRetractions, AttrChunks, AttrOriginalName:
	case AttrCompleteness, AttrTraceLevel, AttrHealthCheck, AttrEncoder:
	case AttrPDRole, AttrPDPeerTraceID, AttrPDPeerSpanID, AttrPDJoined:
	case AttrStepsCount, AttrStepsSum, AttrStepsMin, AttrStepsP50, AttrStepsP95, AttrStepsP99, AttrStepsMax,
		AttrStepsTokens, AttrITL:
	default:
		return strings.HasPrefix(key, AttrBudgetPrefix) || strings.HasPrefix(key, AttrRanksSkewPrefix)
	}
	return true
}

// content are attributes in which libraries put what a user wrote or was answered, who
// the user is, and secrets: each stands for itself and for all below it (content.0.role).
var content = [...]string{
	// OpenTelemetry conventions for generative AI, and their earlier forms.
	"gen_ai.prompt", "gen_ai.completion", "gen_ai.input.messages", "gen_ai.output.messages",
	"gen_ai.system_instructions", "gen_ai.tool.definitions", "gen_ai.tool.call.arguments", "gen_ai.tool.call.result",
	"gen_ai.retrieval.documents", "gen_ai.retrieval.query", "gen_ai.event.content", "gen_ai.request.user",
	"gen_ai.openai.request.user",
	// OpenLLMetry, OpenInference, Vercel AI SDK, Langfuse.
	"llm.prompts", "llm.completions", "llm.user", "llm.input_messages", "llm.output_messages", "llm.prompt_template",
	"traceloop.entity.input", "traceloop.entity.output", "input.value", "output.value", "ai.prompt", "ai.response.text",
	"ai.response.object", "ai.response.toolCalls", "langfuse.user", "langfuse.trace.input", "langfuse.trace.output",
	"langfuse.observation.input", "langfuse.observation.output",
	// Who it is, and what HTTP says of it.
	"user", "user_id", "enduser", "http.request.header", "http.response.header", "http.request.body.content",
	"http.response.body.content",
	// An engine's arguments have its API key.
	"process.command", "process.command_args", "process.command_line",
}

// ContentAttribute tells whether an attribute, of a span of anyone, of its events or of
// its resource, is one in which content, users or secrets are put. It does not allocate.
func ContentAttribute(key string) bool {
	for _, name := range content {
		if strings.HasPrefix(key, name) && (len(key) == len(name) || key[len(name)] == '.') {
			return true
		}
	}
	return false
}

// ContentEventPrefix begins the names of events that carry messages as attributes:
// gen_ai.user.message, gen_ai.choice, gen_ai.content.prompt.
const ContentEventPrefix = "gen_ai."
