// Copyright The otelcol-sglang Authors
// SPDX-License-Identifier: Apache-2.0

package sglang // import "github.com/otelcol-sglang/otelcol-sglang/internal/sglang"

import "iter"

// LoadsName is the name of a family of `/v1/loads?format=prometheus`.
type LoadsName string

// Families of the loads page.
const (
	LoadsTimestamp                       LoadsName = metricPrefixUnderscore + "timestamp"
	LoadsNumRunningReqs                  LoadsName = metricPrefixUnderscore + "num_running_reqs"
	LoadsNumWaitingReqs                  LoadsName = metricPrefixUnderscore + "num_waiting_reqs"
	LoadsNumWaitingUncachedTokens        LoadsName = metricPrefixUnderscore + "num_waiting_uncached_tokens"
	LoadsNumUsedTokens                   LoadsName = metricPrefixUnderscore + "num_used_tokens"
	LoadsNumTotalTokens                  LoadsName = metricPrefixUnderscore + "num_total_tokens"
	LoadsNumActiveTokens                 LoadsName = metricPrefixUnderscore + "num_active_tokens"
	LoadsNumPreallocReadyTokens          LoadsName = metricPrefixUnderscore + "num_prealloc_ready_tokens"
	LoadsMaxTotalNumTokens               LoadsName = metricPrefixUnderscore + "max_total_num_tokens"
	LoadsMaxRunningRequests              LoadsName = metricPrefixUnderscore + "max_running_requests"
	LoadsTokenUsage                      LoadsName = metricPrefixUnderscore + "token_usage"
	LoadsGenThroughput                   LoadsName = metricPrefixUnderscore + "gen_throughput"
	LoadsCacheHitRate                    LoadsName = metricPrefixUnderscore + "cache_hit_rate"
	LoadsUtilization                     LoadsName = metricPrefixUnderscore + "utilization"
	LoadsTotalPrefillUncachedTokens      LoadsName = metricPrefixUnderscore + "total_prefill_uncached_tokens"
	LoadsTotalPrefillBusyUS              LoadsName = metricPrefixUnderscore + "total_prefill_busy_us"
	LoadsMemoryWeightGB                  LoadsName = metricPrefixUnderscore + "memory_weight_gb"
	LoadsMemoryKVCacheGB                 LoadsName = metricPrefixUnderscore + "memory_kv_cache_gb"
	LoadsMemoryGraphGB                   LoadsName = metricPrefixUnderscore + "memory_graph_gb"
	LoadsMemoryTokenCapacity             LoadsName = metricPrefixUnderscore + "memory_token_capacity"
	LoadsSpecAcceptLength                LoadsName = metricPrefixUnderscore + "spec_accept_length"
	LoadsSpecAcceptRate                  LoadsName = metricPrefixUnderscore + "spec_accept_rate"
	LoadsLoRASlotsUsed                   LoadsName = metricPrefixUnderscore + "lora_slots_used"
	LoadsLoRASlotsTotal                  LoadsName = metricPrefixUnderscore + "lora_slots_total"
	LoadsLoRAUtilization                 LoadsName = metricPrefixUnderscore + "lora_utilization"
	LoadsDisaggPrefillBootstrapQueueReqs LoadsName = metricPrefixUnderscore + "disagg_prefill_bootstrap_queue_reqs"
	LoadsDisaggPrefillInflightQueueReqs  LoadsName = metricPrefixUnderscore + "disagg_prefill_inflight_queue_reqs"
	LoadsDisaggDecodePreallocQueueReqs   LoadsName = metricPrefixUnderscore + "disagg_decode_prealloc_queue_reqs"
	LoadsDisaggDecodeTransferQueueReqs   LoadsName = metricPrefixUnderscore + "disagg_decode_transfer_queue_reqs"
	LoadsDisaggDecodeRetractedQueueReqs  LoadsName = metricPrefixUnderscore + "disagg_decode_retracted_queue_reqs"
	LoadsDisaggKVTransferSpeedGBS        LoadsName = metricPrefixUnderscore + "disagg_kv_transfer_speed_gb_s"
	LoadsDisaggKVTransferLatencyMS       LoadsName = metricPrefixUnderscore + "disagg_kv_transfer_latency_ms"
	LoadsQueuesWaiting                   LoadsName = metricPrefixUnderscore + "queues_waiting"
	LoadsQueuesGrammar                   LoadsName = metricPrefixUnderscore + "queues_grammar"
	LoadsQueuesPaused                    LoadsName = metricPrefixUnderscore + "queues_paused"
	LoadsQueuesRetracted                 LoadsName = metricPrefixUnderscore + "queues_retracted"
	LoadsQueuesPreallocReady             LoadsName = metricPrefixUnderscore + "queues_prealloc_ready"
)

// LoadsFamilies yields the names of all families of the loads page.
func LoadsFamilies() iter.Seq[LoadsName] {
	return func(yield func(LoadsName) bool) {
		for i := range loadsFamilies {
			if !yield(LoadsName(loadsFamilies[i].Name)) {
				return
			}
		}
	}
}
