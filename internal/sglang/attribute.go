// Copyright The otelcol-sglang Authors
// SPDX-License-Identifier: Apache-2.0

package sglang // import "github.com/otelcol-sglang/otelcol-sglang/internal/sglang"

// Attributes that the engine writes on spans (srt/observability/trace.py,
// req_time_stats.py, managers/tokenizer_manager.py).
const (
	// AttrModule is on request roots: ModuleRequest or ModuleMooncake.
	AttrModule = "module"
	// AttrRID is on request roots: what follows the last "_" of the request id.
	// It is not unique; AttrRequestID is the whole id.
	AttrRID = "rid"
	// AttrBootstrapRoom is on request roots under PD disaggregation: a string
	// "0x.." (0.5.12 and newer), an int or "None" (older). Room 0 is no pair.
	AttrBootstrapRoom = "bootstrap_room"

	AttrThreadLabel = "thread_label"
	AttrHostID      = "host_id"
	// AttrPID is the native thread id, not the process id.
	AttrPID    = "pid"
	AttrTPRank = "tp_rank"
	AttrPPRank = "pp_rank"
	AttrDPRank = "dp_rank"

	// AttrDecodeCT numbers decode iterations (not tokens); it counts up across retractions.
	AttrDecodeCT = "decode_ct"
	AttrPPMBID   = "pp_mb_id"

	// On thread spans of requests that were aborted or refused: one of
	// AttrAbortReason, or the finish reason's fields as top-level keys.
	AttrAbortReason     = "reason"
	AttrAbortType       = "type"
	AttrAbortMessage    = "message"
	AttrAbortStatusCode = "status_code"
	AttrAbortErrType    = "err_type"

	AttrPromptTokens     = "gen_ai.usage.prompt_tokens"
	AttrCachedTokens     = "gen_ai.usage.cached_tokens"
	AttrCompletionTokens = "gen_ai.usage.completion_tokens"
	AttrRequestID        = "gen_ai.request.id"
	AttrResponseModel    = "gen_ai.response.model"
	// AttrFinishReasons is JSON text from the engine (`["stop"]`), an array by
	// the semantic conventions.
	AttrFinishReasons = "gen_ai.response.finish_reasons"

	// Latencies on roots, in seconds.
	AttrLatencyTTFT        = "gen_ai.latency.time_to_first_token"
	AttrLatencyE2E         = "gen_ai.latency.e2e"
	AttrLatencyInQueue     = "gen_ai.latency.time_in_queue"
	AttrLatencyInPrefill   = "gen_ai.latency.time_in_model_prefill"
	AttrLatencyInDecode    = "gen_ai.latency.time_in_model_decode"
	AttrLatencyInInference = "gen_ai.latency.time_in_model_inference"

	// EventSchedule carries EventAttrBatchID, EventAttrBatchSize, EventAttrForwardMode.
	EventSchedule = "schedule"
	// EventRetract stands on thread spans, one per retraction, without attributes.
	EventRetract = "retract"
	// EventAttrBatchID is random per rank: one batch has another id on each.
	EventAttrBatchID     = "bid"
	EventAttrBatchSize   = "batch_size"
	EventAttrForwardMode = "forward_mode"

	// AutoClosedReason is AttrAbortReason of a thread span that was closed when
	// the engine's request object was garbage-collected: its end time means nothing.
	AutoClosedReason = "have unclosed span, auto closed"
)

// Values of AttrModule.
const (
	ModuleRequest  = "sglang::request"
	ModuleMooncake = "sglang::mooncake"
)

// Attributes that this distribution writes.
const (
	// AttrExporterPeer is on the resource of spans from the receiver until ranks
	// are known: the collector's instance and the sender's ip:port.
	AttrExporterPeer = "sglang.exporter.peer"

	// On resources once the sender's rank is known.
	AttrResourceTPRank = "sglang.tp_rank"
	AttrResourcePPRank = "sglang.pp_rank"
	AttrResourceDPRank = "sglang.dp_rank"
	// AttrEngineID names one running engine; spans carry none of their own.
	AttrEngineID = "sglang.engine.id"

	// On resources of scraped metrics, from the engine's /server_info.
	AttrServerVersion    = "sglang.version"
	AttrServerModel      = "sglang.model"
	AttrServerTPSize     = "sglang.tp_size"
	AttrServerDPSize     = "sglang.dp_size"
	AttrServerPPSize     = "sglang.pp_size"
	AttrServerEPSize     = "sglang.ep_size"
	AttrServerDPAttn     = "sglang.dp_attention"
	AttrServerDisaggMode = "sglang.disaggregation_mode"

	// On kept thread spans: what the folded copies of the other ranks knew.
	AttrRanksCount    = "sglang.ranks.count"
	AttrRanksExpected = "sglang.ranks.expected"
	AttrRanksSlowest  = "sglang.ranks.slowest"
	// AttrRanksSkew is the largest spread of a stage's end over the ranks, in seconds.
	AttrRanksSkew = "sglang.ranks.skew"
	// AttrRanksSlowestShare is the share of steps in which the slowest rank was last, 0 to 1.
	AttrRanksSlowestShare = "sglang.ranks.slowest_share"
	// AttrRanksSkewPrefix + stage is the spread of that stage's end, in seconds.
	AttrRanksSkewPrefix = "sglang.ranks.skew."
	// AttrThreadSpans is the number of slices that left for this thread span: a
	// reader that has seen as many has seen them all.
	AttrThreadSpans = "sglang.thread.slices"

	// On request roots (docs: processor/genaiprocessor/README.md).
	AttrOutTPOT               = "gen_ai.latency.time_per_output_token"
	AttrTTFTSource            = "sglang.latency.ttft_source"
	AttrTTFTLag               = "sglang.latency.ttft_lag"
	AttrFirstTokenAtScheduler = "sglang.latency.first_token_at_scheduler"
	AttrPrefillCompute        = "sglang.latency.prefill_compute"
	AttrDecodeCompute         = "sglang.latency.decode_compute"
	AttrKVTransfer            = "sglang.latency.kv_transfer"
	AttrBootstrap             = "sglang.latency.bootstrap"
	AttrLatencyInvalid        = "sglang.latency.invalid"
	AttrRetractions           = "sglang.request.retractions"
	AttrChunks                = "sglang.request.chunks"
	AttrPDRole                = "sglang.pd.role"
	AttrPDPeerTraceID         = "sglang.pd.peer_trace_id"
	AttrPDJoined              = "sglang.pd.joined"
	AttrBudgetPrefix          = "sglang.budget."
	AttrOriginalName          = "sglang.span.name"
)
