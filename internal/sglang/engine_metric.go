// Copyright The otelcol-sglang Authors
// SPDX-License-Identifier: Apache-2.0

package sglang // import "github.com/otelcol-sglang/otelcol-sglang/internal/sglang"

import "strconv"

// FamilyName is the canonical name of a family of the catalogue.
type FamilyName string

// Family is what the catalogue knows of it; nil for a name that it doesn't have.
func (n FamilyName) Family() *Family { return familyIndex[string(n)] }

// Families of the scheduler.
const (
	FamilyNumRunningReqs                            FamilyName = MetricPrefix + "num_running_reqs"
	FamilyNumQueueReqs                              FamilyName = MetricPrefix + "num_queue_reqs"
	FamilyNumGrammarQueueReqs                       FamilyName = MetricPrefix + "num_grammar_queue_reqs"
	FamilyGenThroughput                             FamilyName = MetricPrefix + "gen_throughput"
	FamilyCacheHitRate                              FamilyName = MetricPrefix + "cache_hit_rate"
	FamilyDecodeSumSeqLens                          FamilyName = MetricPrefix + "decode_sum_seq_lens"
	FamilyTokenUsage                                FamilyName = MetricPrefix + "token_usage"
	FamilyFullTokenUsage                            FamilyName = MetricPrefix + "full_token_usage"
	FamilySWATokenUsage                             FamilyName = MetricPrefix + "swa_token_usage"
	FamilyMambaUsage                                FamilyName = MetricPrefix + "mamba_usage"
	FamilyNumUsedTokens                             FamilyName = MetricPrefix + "num_used_tokens"
	FamilyKVAvailableTokens                         FamilyName = MetricPrefix + "kv_available_tokens"
	FamilyKVEvictableTokens                         FamilyName = MetricPrefix + "kv_evictable_tokens"
	FamilyKVUsedTokens                              FamilyName = MetricPrefix + "kv_used_tokens"
	FamilySWAAvailableTokens                        FamilyName = MetricPrefix + "swa_available_tokens"
	FamilySWAEvictableTokens                        FamilyName = MetricPrefix + "swa_evictable_tokens"
	FamilySWAUsedTokens                             FamilyName = MetricPrefix + "swa_used_tokens"
	FamilyMambaAvailableTokens                      FamilyName = MetricPrefix + "mamba_available_tokens"
	FamilyMambaEvictableTokens                      FamilyName = MetricPrefix + "mamba_evictable_tokens"
	FamilyMambaUsedTokens                           FamilyName = MetricPrefix + "mamba_used_tokens"
	FamilyWeightLoadDurationSeconds                 FamilyName = MetricPrefix + "weight_load_duration_seconds"
	FamilySpecAcceptLength                          FamilyName = MetricPrefix + "spec_accept_length"
	FamilySpecAcceptRate                            FamilyName = MetricPrefix + "spec_accept_rate"
	FamilySpecCapLength                             FamilyName = MetricPrefix + "spec_cap_length"
	FamilySpecBlockAcceptLength                     FamilyName = MetricPrefix + "spec_block_accept_length"
	FamilySpecNumSteps                              FamilyName = MetricPrefix + "spec_num_steps"
	FamilySpecNumDraftTokens                        FamilyName = MetricPrefix + "spec_num_draft_tokens"
	FamilyNumRetractedReqs                          FamilyName = MetricPrefix + "num_retracted_reqs"
	FamilyNumRetractedRequestsTotal                 FamilyName = MetricPrefix + "num_retracted_requests_total"
	FamilyNumRetractedInputTokensTotal              FamilyName = MetricPrefix + "num_retracted_input_tokens_total"
	FamilyNumRetractedOutputTokensTotal             FamilyName = MetricPrefix + "num_retracted_output_tokens_total"
	FamilyNumPausedReqs                             FamilyName = MetricPrefix + "num_paused_reqs"
	FamilyNumPrefillBootstrapQueueReqs              FamilyName = MetricPrefix + "num_prefill_bootstrap_queue_reqs"
	FamilyNumPrefillInflightQueueReqs               FamilyName = MetricPrefix + "num_prefill_inflight_queue_reqs"
	FamilyNumDecodePreallocQueueReqs                FamilyName = MetricPrefix + "num_decode_prealloc_queue_reqs"
	FamilyNumDecodeTransferQueueReqs                FamilyName = MetricPrefix + "num_decode_transfer_queue_reqs"
	FamilyNumDecodeHostReceiveQueueReqs             FamilyName = MetricPrefix + "num_decode_host_receive_queue_reqs"
	FamilyNumDecodeHostReceiveReqsTotal             FamilyName = MetricPrefix + "num_decode_host_receive_reqs_total"
	FamilyNumDecodeDeferredKVReleaseReqs            FamilyName = MetricPrefix + "num_decode_deferred_kv_release_reqs"
	FamilyDecodeDeferredKVReleaseSeconds            FamilyName = MetricPrefix + "decode_deferred_kv_release_seconds"
	FamilyDecodeDeferredKVReleaseTotal              FamilyName = MetricPrefix + "decode_deferred_kv_release_total"
	FamilyKVTransferSpeedGBS                        FamilyName = MetricPrefix + "kv_transfer_speed_gb_s"
	FamilyKVTransferLatencyMS                       FamilyName = MetricPrefix + "kv_transfer_latency_ms"
	FamilyPendingPreallocTokenUsage                 FamilyName = MetricPrefix + "pending_prealloc_token_usage"
	FamilyPreallocFullTokenUsage                    FamilyName = MetricPrefix + "prealloc_full_token_usage"
	FamilyPreallocSWATokenUsage                     FamilyName = MetricPrefix + "prealloc_swa_token_usage"
	FamilyNumBootstrapFailedReqsTotal               FamilyName = MetricPrefix + "num_bootstrap_failed_reqs_total"
	FamilyNumTransferFailedReqsTotal                FamilyName = MetricPrefix + "num_transfer_failed_reqs_total"
	FamilyNumPrefillRetriesTotal                    FamilyName = MetricPrefix + "num_prefill_retries_total"
	FamilyKVTransferBootstrapMS                     FamilyName = MetricPrefix + "kv_transfer_bootstrap_ms"
	FamilyKVTransferAllocMS                         FamilyName = MetricPrefix + "kv_transfer_alloc_ms"
	FamilyKVTransferTotalMB                         FamilyName = MetricPrefix + "kv_transfer_total_mb"
	FamilyUtilization                               FamilyName = MetricPrefix + "utilization"
	FamilyFwdOccupancy                              FamilyName = MetricPrefix + "fwd_occupancy"
	FamilyNewTokenRatio                             FamilyName = MetricPrefix + "new_token_ratio"
	FamilyIsCUDAGraph                               FamilyName = MetricPrefix + "is_cuda_graph"
	FamilyCUDAGraphPassesTotal                      FamilyName = MetricPrefix + "cuda_graph_passes_total"
	FamilyLoRAPoolSlotsUsed                         FamilyName = MetricPrefix + "lora_pool_slots_used"
	FamilyLoRAPoolSlotsTotal                        FamilyName = MetricPrefix + "lora_pool_slots_total"
	FamilyLoRAPoolUtilization                       FamilyName = MetricPrefix + "lora_pool_utilization"
	FamilyHiCacheHostUsedTokens                     FamilyName = MetricPrefix + "hicache_host_used_tokens"
	FamilyHiCacheHostTotalTokens                    FamilyName = MetricPrefix + "hicache_host_total_tokens"
	FamilyHiCacheHostMambaUsedStates                FamilyName = MetricPrefix + "hicache_host_mamba_used_states"
	FamilyHiCacheHostMambaTotalStates               FamilyName = MetricPrefix + "hicache_host_mamba_total_states"
	FamilyNumStreamingSessions                      FamilyName = MetricPrefix + "num_streaming_sessions"
	FamilyStreamingSessionHeldTokens                FamilyName = MetricPrefix + "streaming_session_held_tokens"
	FamilyNumUniqueRunningRoutingKeys               FamilyName = MetricPrefix + "num_unique_running_routing_keys"
	FamilyRoutingKeyRunningReqCount                 FamilyName = MetricPrefix + "routing_key_running_req_count"
	FamilyRoutingKeyAllReqCount                     FamilyName = MetricPrefix + "routing_key_all_req_count"
	FamilyQueueTimeSeconds                          FamilyName = MetricPrefix + "queue_time_seconds"
	FamilyPerStageReqLatencySeconds                 FamilyName = MetricPrefix + "per_stage_req_latency_seconds"
	FamilyGrammarCompilationTimeSeconds             FamilyName = MetricPrefix + "grammar_compilation_time_seconds"
	FamilyNumGrammarCacheHitTotal                   FamilyName = MetricPrefix + "num_grammar_cache_hit_total"
	FamilyNumGrammarAbortedTotal                    FamilyName = MetricPrefix + "num_grammar_aborted_total"
	FamilyNumGrammarTimeoutTotal                    FamilyName = MetricPrefix + "num_grammar_timeout_total"
	FamilyNumGrammarTotal                           FamilyName = MetricPrefix + "num_grammar_total"
	FamilyGrammarSchemaCount                        FamilyName = MetricPrefix + "grammar_schema_count"
	FamilyGrammarEBNFSize                           FamilyName = MetricPrefix + "grammar_ebnf_size"
	FamilyGrammarTreeTraversalTimeAvg               FamilyName = MetricPrefix + "grammar_tree_traversal_time_avg"
	FamilyGrammarTreeTraversalTimeMax               FamilyName = MetricPrefix + "grammar_tree_traversal_time_max"
	FamilyEPLBBalancedness                          FamilyName = MetricPrefix + "eplb_balancedness"
	FamilyRealtimeTokensTotal                       FamilyName = MetricPrefix + "realtime_tokens_total"
	FamilyPrefillEffectiveTokensTotal               FamilyName = MetricPrefix + "prefill_effective_tokens_total"
	FamilyForwardExecutionSecondsTotal              FamilyName = MetricPrefix + "forward_execution_seconds_total"
	FamilySchedulerIdleSecondsTotal                 FamilyName = MetricPrefix + "scheduler_idle_seconds_total"
	FamilySchedulerProcessCPUSecondsTotal           FamilyName = MetricPrefix + "scheduler_process_cpu_seconds_total"
	FamilySchedulerStageSecondsTotal                FamilyName = MetricPrefix + "scheduler_stage_seconds_total"
	FamilyEstimatedFlopsPerGPUTotal                 FamilyName = MetricPrefix + "estimated_flops_per_gpu_total"
	FamilyEstimatedReadBytesPerGPUTotal             FamilyName = MetricPrefix + "estimated_read_bytes_per_gpu_total"
	FamilyEstimatedWriteBytesPerGPUTotal            FamilyName = MetricPrefix + "estimated_write_bytes_per_gpu_total"
	FamilyDPCooperationRealtimeTokensTotal          FamilyName = MetricPrefix + "dp_cooperation_realtime_tokens_total"
	FamilyDPCooperationForwardExecutionSecondsTotal FamilyName = MetricPrefix + "dp_cooperation_forward_execution_seconds_total"
	FamilyDPAttentionTokensTotal                    FamilyName = MetricPrefix + "dp_attention_tokens_total"
	FamilyDPAttentionStepsTotal                     FamilyName = MetricPrefix + "dp_attention_steps_total"
	FamilyDPAttentionPairsTotal                     FamilyName = MetricPrefix + "dp_attention_pairs_total"
	FamilyDPAttentionTokenImbalanceRatio            FamilyName = MetricPrefix + "dp_attention_token_imbalance_ratio"
	FamilyDPAttentionSyncWaitSeconds                FamilyName = MetricPrefix + "dp_attention_sync_wait_seconds"
	FamilyPrefillDelayerWaitForwardPasses           FamilyName = MetricPrefix + "prefill_delayer_wait_forward_passes"
	FamilyPrefillDelayerWaitSeconds                 FamilyName = MetricPrefix + "prefill_delayer_wait_seconds"
	FamilyPrefillDelayerOutcomesTotal               FamilyName = MetricPrefix + "prefill_delayer_outcomes_total"
	FamilyMaxTotalNumTokens                         FamilyName = MetricPrefix + "max_total_num_tokens"
	FamilyMaxTotalNumTokensSWA                      FamilyName = MetricPrefix + "max_total_num_tokens_swa"
	FamilyWeightMemoryUsageGB                       FamilyName = MetricPrefix + "weight_memory_usage_gb"
	FamilyKVCacheMemoryUsageGB                      FamilyName = MetricPrefix + "kv_cache_memory_usage_gb"
	FamilyGraphMemoryUsageGB                        FamilyName = MetricPrefix + "graph_memory_usage_gb"
	FamilyMaxRunningRequestsUnderSLO                FamilyName = MetricPrefix + "max_running_requests_under_SLO"
	FamilyPageSize                                  FamilyName = MetricPrefix + "page_size"
	FamilyNumPages                                  FamilyName = MetricPrefix + "num_pages"
	FamilyContextLen                                FamilyName = MetricPrefix + "context_len"
	FamilyStartupAvailableGPUMemoryGB               FamilyName = MetricPrefix + "startup_available_gpu_memory_gb"
)

// Families of the tokenizer.
const (
	FamilyStartupTimeSeconds               FamilyName = MetricPrefix + "startup_time_seconds"
	FamilyStartupCUDAGraphTimeSeconds      FamilyName = MetricPrefix + "startup_cuda_graph_time_seconds"
	FamilyPromptTokensTotal                FamilyName = MetricPrefix + "prompt_tokens_total"
	FamilyGenerationTokensTotal            FamilyName = MetricPrefix + "generation_tokens_total"
	FamilySpecVerifyCallsTotal             FamilyName = MetricPrefix + "spec_verify_calls_total"
	FamilyPromptTokensHistogram            FamilyName = MetricPrefix + "prompt_tokens_histogram"
	FamilyUncachedPromptTokensHistogram    FamilyName = MetricPrefix + "uncached_prompt_tokens_histogram"
	FamilyGenerationTokensHistogram        FamilyName = MetricPrefix + "generation_tokens_histogram"
	FamilyCachedTokensTotal                FamilyName = MetricPrefix + "cached_tokens_total"
	FamilyNumRequestsTotal                 FamilyName = MetricPrefix + "num_requests_total"
	FamilyGetLoadsDurationSeconds          FamilyName = MetricPrefix + "get_loads_duration_seconds"
	FamilyNumSORequestsTotal               FamilyName = MetricPrefix + "num_so_requests_total"
	FamilyNumAbortedRequestsTotal          FamilyName = MetricPrefix + "num_aborted_requests_total"
	FamilyTimeToFirstTokenSeconds          FamilyName = MetricPrefix + "time_to_first_token_seconds"
	FamilyInterTokenLatencySeconds         FamilyName = MetricPrefix + "inter_token_latency_seconds"
	FamilyRequestTimePerOutputTokenSeconds FamilyName = MetricPrefix + "request_time_per_output_token_seconds"
	FamilyE2ERequestLatencySeconds         FamilyName = MetricPrefix + "e2e_request_latency_seconds"
)

// Families of the storage tier.
const (
	FamilyPrefetchedTokensTotal                    FamilyName = MetricPrefix + "prefetched_tokens_total"
	FamilyBackupedTokensTotal                      FamilyName = MetricPrefix + "backuped_tokens_total"
	FamilyStoragePrefetchHitTokensTotal            FamilyName = MetricPrefix + "storage_prefetch_hit_tokens_total"
	FamilyStoragePrefetchUnfulfilledTokensTotal    FamilyName = MetricPrefix + "storage_prefetch_unfulfilled_tokens_total"
	FamilyStoragePrefetchDeferredTokensTotal       FamilyName = MetricPrefix + "storage_prefetch_deferred_tokens_total"
	FamilyHiCacheBackupDroppedTokensTotal          FamilyName = MetricPrefix + "hicache_backup_dropped_tokens_total"
	FamilyHiCachePrefetchAuxAllocFailedTokensTotal FamilyName = MetricPrefix + "hicache_prefetch_aux_alloc_failed_tokens_total"
	FamilyPrefetchPages                            FamilyName = MetricPrefix + "prefetch_pgs"
	FamilyBackupPages                              FamilyName = MetricPrefix + "backup_pgs"
	FamilyPrefetchBandwidth                        FamilyName = MetricPrefix + "prefetch_bandwidth"
	FamilyBackupBandwidth                          FamilyName = MetricPrefix + "backup_bandwidth"
)

// Families of the expert dispatch.
const (
	FamilyEPLBGPUPhysicalCount FamilyName = MetricPrefix + "eplb_gpu_physical_count"
)

// Families of the prefix tree.
const (
	FamilyEvictionDurationSeconds      FamilyName = MetricPrefix + "eviction_duration_seconds"
	FamilyEvictedTokensTotal           FamilyName = MetricPrefix + "evicted_tokens_total"
	FamilyLoadBackDurationSeconds      FamilyName = MetricPrefix + "load_back_duration_seconds"
	FamilyLoadBackTokensTotal          FamilyName = MetricPrefix + "load_back_tokens_total"
	FamilyHiCacheBackupDurationSeconds FamilyName = MetricPrefix + "hicache_backup_duration_seconds"
	FamilyHiCacheBackupBytesTotal      FamilyName = MetricPrefix + "hicache_backup_bytes_total"
	FamilyLoadBackBytesTotal           FamilyName = MetricPrefix + "load_back_bytes_total"
	FamilyHiCacheBackupTokensTotal     FamilyName = MetricPrefix + "hicache_backup_tokens_total"
	FamilyHiCacheDroppedTokensTotal    FamilyName = MetricPrefix + "hicache_dropped_tokens_total"
)

// Families of the multimodal encoder.
const (
	FamilyEncoderCacheEvictionsTotal      FamilyName = MetricPrefix + "encoder_cache_evictions_total"
	FamilyEncoderCacheSizeMB              FamilyName = MetricPrefix + "encoder_cache_size_mb"
	FamilyEncoderCacheEntries             FamilyName = MetricPrefix + "encoder_cache_entries"
	FamilyEncoderCacheHitTokensTotal      FamilyName = MetricPrefix + "encoder_cache_hit_tokens_total"
	FamilyEncoderCacheTotalTokensTotal    FamilyName = MetricPrefix + "encoder_cache_total_tokens_total"
	FamilyEncoderCacheHitFilesTotal       FamilyName = MetricPrefix + "encoder_cache_hit_files_total"
	FamilyEncoderCacheTotalFilesTotal     FamilyName = MetricPrefix + "encoder_cache_total_files_total"
	FamilyEncoderRequestsTotal            FamilyName = MetricPrefix + "encoder_requests_total"
	FamilyEncoderRequestsReceivedTotal    FamilyName = MetricPrefix + "encoder_requests_received_total"
	FamilyEncoderMMItemsPerBatch          FamilyName = MetricPrefix + "encoder_mm_items_per_batch"
	FamilyEncoderMMItemsPerRequest        FamilyName = MetricPrefix + "encoder_mm_items_per_request"
	FamilyEncoderRequestE2ELatencySeconds FamilyName = MetricPrefix + "encoder_request_e2e_latency_seconds"
	FamilyEncoderQueueWaitSeconds         FamilyName = MetricPrefix + "encoder_queue_wait_seconds"
	FamilyEncoderPreprocessSeconds        FamilyName = MetricPrefix + "encoder_preprocess_seconds"
	FamilyEncoderModelForwardSeconds      FamilyName = MetricPrefix + "encoder_model_forward_seconds"
	FamilyEncoderTransferSeconds          FamilyName = MetricPrefix + "encoder_transfer_seconds"
	FamilyEncoderDPPendingRequests        FamilyName = MetricPrefix + "encoder_dp_pending_requests"
)

// Families of the HTTP server and of single processes.
const (
	FamilyHTTPRequestsTotal                 FamilyName = MetricPrefix + "http_requests_total"
	FamilyHTTPResponsesTotal                FamilyName = MetricPrefix + "http_responses_total"
	FamilyHTTPRequestsActive                FamilyName = MetricPrefix + "http_requests_active"
	FamilyRoutingKeysActive                 FamilyName = MetricPrefix + "routing_keys_active"
	FamilyFuncLatencySeconds                FamilyName = MetricPrefix + "func_latency_seconds"
	FamilyStartupLatencyBreakdownSecondsMax FamilyName = MetricPrefix + "startup_latency_breakdown_seconds_max"
	FamilyProcessCPUSecondsTotal            FamilyName = MetricPrefix + "process_cpu_seconds_total"
	FamilyFailedSessionRecoveriesTotal      FamilyName = MetricPrefix + "failed_session_recoveries_total"
)

// Families of the diffusion server.
const (
	FamilyDiffusionNumQueueReqs            FamilyName = MetricPrefix + "diffusion_num_queue_reqs"
	FamilyDiffusionNumRunningReqs          FamilyName = MetricPrefix + "diffusion_num_running_reqs"
	FamilyDiffusionRequestsTotal           FamilyName = MetricPrefix + "diffusion_requests_total"
	FamilyDiffusionRequestLatencySeconds   FamilyName = MetricPrefix + "diffusion_request_latency_seconds"
	FamilyDiffusionQueueTimeSeconds        FamilyName = MetricPrefix + "diffusion_queue_time_seconds"
	FamilyDiffusionGenerationBatchSize     FamilyName = MetricPrefix + "diffusion_generation_batch_size"
	FamilyDiffusionStageHostLatencySeconds FamilyName = MetricPrefix + "diffusion_stage_host_latency_seconds"
	FamilyDiffusionLoRALoadedAdapters      FamilyName = MetricPrefix + "diffusion_lora_loaded_adapters"
	FamilyDiffusionLoRAActiveModules       FamilyName = MetricPrefix + "diffusion_lora_active_modules"
	FamilyDiffusionLoRAActiveAdapters      FamilyName = MetricPrefix + "diffusion_lora_active_adapters"
	FamilyDiffusionLoRAModuleActive        FamilyName = MetricPrefix + "diffusion_lora_module_active"
)

// Labels of the engine's metrics, beside those that name a rank.
const (
	LabelModelName      = "model_name"
	LabelEngineType     = "engine_type"
	LabelMode           = "mode"
	LabelCategory       = "category"
	LabelKind           = "kind"
	LabelRankState      = "rank_state"
	LabelGT             = "gt"
	LabelLE             = "le"
	LabelIsStreaming    = "is_streaming"
	LabelCacheSource    = "cache_source"
	LabelCacheType      = "cache_type"
	LabelStorageBackend = "storage_backend"
	LabelPPSize         = "pp_size"
	LabelAttnCPRank     = "attn_cp_rank"
	LabelAttnCPSize     = "attn_cp_size"
	LabelEndpoint       = "endpoint"
)

const (
	// CacheTypeUnified is the LabelCacheType of the engine's prefix tree.
	CacheTypeUnified = "UnifiedRadixCache"
	// PriorityNone is the LabelPriority of a scheduler's requests without priority.
	PriorityNone = "None"
	// MultiprocessLiveSum is the mode of gauges that living processes share out.
	MultiprocessLiveSum = "livesum"
)

// Values of LabelEngineType.
const (
	EngineUnified = "unified"
	EnginePrefill = "prefill"
	EngineDecode  = "decode"
)

// Values of LabelMode on FamilyRealtimeTokensTotal.
const (
	ModePrefillCompute = "prefill_compute"
	ModePrefillCache   = "prefill_cache"
	ModeDecode         = "decode"
)

// Values of LabelMode on FamilyPrefillEffectiveTokensTotal.
const (
	EffectiveInput      = "input"
	EffectiveDeviceHit  = "device_hit"
	EffectiveHostHit    = "host_hit"
	EffectiveStorageHit = "storage_hit"
)

// EffectiveModes are pre-seeded.
var EffectiveModes = [...]string{EffectiveInput, EffectiveDeviceHit, EffectiveHostHit, EffectiveStorageHit}

// Values of LabelMode on FamilyCUDAGraphPassesTotal.
const (
	PassDecodeGraph  = "decode_cuda_graph"
	PassDecodeNone   = "decode_none"
	PassPrefillGraph = "prefill_cuda_graph"
	PassPrefillNone  = "prefill_none"
)

// Values of LabelCategory on FamilySchedulerStageSecondsTotal.
const (
	LoopOther                = "other"
	LoopRecvRequests         = "recv_requests"
	LoopProcessInputRequests = "process_input_requests"
	LoopGetNextBatch         = "get_next_batch_to_run"
	LoopProcessQueue         = "process_queue"
	LoopRunBatch             = "run_batch"
	LoopProcessBatchResult   = "process_batch_result"
	LoopSanityCheckCache     = "sanity_check_cache"
	LoopIdle                 = "idle"
)

// LoopCategories are pre-seeded with OverlapNone.
var LoopCategories = [...]string{
	LoopOther, LoopRecvRequests, LoopProcessInputRequests, LoopGetNextBatch, LoopProcessQueue,
	LoopRunBatch, LoopProcessBatchResult, LoopSanityCheckCache, LoopIdle,
}

// Values of the label forward_overlap.
const (
	OverlapNone = "none"
	// OverlapPartial: a forward pass ran at one end of the time only.
	OverlapPartial = "partial"
	OverlapFull    = "full"
)

// Values of LabelKind on the families of DP attention.
const (
	KindScheduled = "scheduled"
	KindImbalance = "imbalance"
)

// Values of LabelRankState.
const (
	RankActive = "active"
	RankIdle   = "idle"
)

// Values of LabelCacheSource. CacheSourceTotal is of requests without a breakdown.
const (
	CacheSourceDevice  = "device"
	CacheSourceHost    = "host"
	CacheSourceStorage = "storage"
	CacheSourceTotal   = "total"
)

// PoolKV is the only pool of FamilyHiCacheDroppedTokensTotal.
const PoolKV = "kv"

// Values of the label phase on FamilyStartupTimeSeconds.
const (
	PhaseLoadWeight   = "load_weight"
	PhaseKVCache      = "kv_cache_allocation"
	PhaseSchedulerE2E = "scheduler_e2e"
	PhaseTokenizerE2E = "tokenizer_e2e"
)

// Values of the label phase on the families of device graphs.
const (
	PhaseGraphDecode  = "decode"
	PhaseGraphPrefill = "prefill"
)

// Values of the label component.
const (
	ComponentTokenizer    = "tokenizer"
	ComponentDetokenizer  = "detokenizer"
	ComponentDPController = "data_parallel_controller"
)

// UnfulfilledReasons are the pre-seeded reasons of
// FamilyStoragePrefetchUnfulfilledTokensTotal, DeferredReasons those of
// FamilyStoragePrefetchDeferredTokensTotal.
var (
	UnfulfilledReasons = [...]string{
		UnfulfilledBelowThreshold, UnfulfilledHostCapacity, UnfulfilledDeviceCapacity, UnfulfilledDeviceCovered,
		UnfulfilledStorageTransfer, UnfulfilledDeadline, UnfulfilledAnchorLost, UnfulfilledAuxWindowTrim,
		UnfulfilledDeviceOverlap, UnfulfilledAdmissionShortfall, UnfulfilledDropped,
	}
	DeferredReasons = [...]string{DeferredHostCapacity, DeferredDeviceCapacity}
)

// RoutingKeyBounds are the upper bounds of the routing key gauges, whose last
// class is open.
var RoutingKeyBounds = [...]int{1, 2, 3, 5, 7, 10, 20, 50, 100, 200}

// RoutingKeyClass gives the values of LabelGT and LabelLE of the i-th class of
// the routing key gauges; there is one more than bounds.
func RoutingKeyClass(i int) (gt, le string) {
	gt, le = "0", "+Inf"
	if i > 0 {
		gt = strconv.Itoa(RoutingKeyBounds[i-1])
	}
	if i < len(RoutingKeyBounds) {
		le = strconv.Itoa(RoutingKeyBounds[i])
	}
	return gt, le
}
