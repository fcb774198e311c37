// Copyright The otelcol-sglang Authors
// SPDX-License-Identifier: Apache-2.0

package sglang // import "github.com/otelcol-sglang/otelcol-sglang/internal/sglang"

// What the engine writes on its spans and resources and nobody here reads: the
// simulated engine needs it.

// Labels of threads (AttrThreadLabel), after the prefix of the engine's role.
const (
	LabelTokenizer    = "Tokenizer"
	LabelScheduler    = "Scheduler"
	LabelDPController = "DP Controller"
	LabelEncoder      = "Encoder"
	LabelPrefill      = "Prefill"
	LabelDecode       = "Decode"
)

// What the client asked for, on request roots (AttrRequestID has the id). Each is
// absent when it is zero; temperature and top-p are ints if the client's JSON had
// an int.
const (
	AttrMaxTokens   = "gen_ai.request.max_tokens"
	AttrTopK        = "gen_ai.request.top_k"
	AttrTopP        = "gen_ai.request.top_p"
	AttrTemperature = "gen_ai.request.temperature"
	AttrN           = "gen_ai.request.n"
)

// Values of EventAttrForwardMode.
const (
	ForwardPrefill  = "prefill"
	ForwardDecode   = "decode"
	ForwardPrebuilt = "prebuilt"
)

// Modules of --trace-modules; ModuleRequest and ModuleMooncake name them on roots.
const (
	TraceModuleRequest = "request"
	TraceModuleKV      = "mooncake"
)

// The resource of the engine's processes.
const (
	AttrSDKLanguage       = "telemetry.sdk.language"
	AttrSDKName           = "telemetry.sdk.name"
	AttrSDKVersion        = "telemetry.sdk.version"
	AttrServiceName       = "service.name"
	AttrServiceInstanceID = "service.instance.id"
	SDKLanguage           = "python"
	SDKName               = "opentelemetry"
	// SDKVersion is that of the captures.
	SDKVersion = "1.45.2"
)

// RootNameSender begins the names of the roots that Mooncake's module makes.
const RootNameSender = "Sender"

// Limits of the engine's exporters (SGLANG_OTLP_EXPORTER_*, OpenTelemetry defaults).
const (
	ExportBatchSpans = 64
	ExportQueueSpans = 2048
	ExportDelayMS    = 500
	ExportTimeoutSec = 10
)

// DefaultTraceLevel is SGLANG_TRACE_LEVEL's.
const DefaultTraceLevel = 3
