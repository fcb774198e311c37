// Copyright The otelcol-sglang Authors
// SPDX-License-Identifier: Apache-2.0

package sglang // import "github.com/otelcol-sglang/otelcol-sglang/internal/sglang"

// Pools beside PoolKV, as the label `pool` of the radix cache's families names them.
const (
	PoolSWA   = "swa"
	PoolMamba = "mamba"
)

// Reasons of hicache_dropped_tokens_total, whose pool is always kv: KV that was
// destroyed on the device without a copy on the host (HELP text of 0.5.23).
const (
	// DropHostPressure: write_back found no room on the host.
	DropHostPressure = "host_pressure"
	// DropUnbackedEviction: write_through had not backed it up when it was evicted.
	DropUnbackedEviction = "write_through_unbacked_eviction"
)

// Reasons of storage_prefetch_unfulfilled_tokens_total: hits in storage that gave
// nothing. The names are captured; the moments are the simulator's reading of them.
const (
	UnfulfilledBelowThreshold     = "below_threshold"
	UnfulfilledHostCapacity       = "host_capacity"
	UnfulfilledDeviceCapacity     = "device_capacity"
	UnfulfilledDeviceCovered      = "device_covered"
	UnfulfilledStorageTransfer    = "storage_transfer"
	UnfulfilledDeadline           = "deadline"
	UnfulfilledAnchorLost         = "anchor_lost"
	UnfulfilledAuxWindowTrim      = "aux_window_trim"
	UnfulfilledDeviceOverlap      = "device_overlap"
	UnfulfilledAdmissionShortfall = "cache_admission_shortfall"
	UnfulfilledDropped            = "dropped"
)

// Reasons of storage_prefetch_deferred_tokens_total: a prefetch that waits for room.
const (
	DeferredHostCapacity   = "host_capacity"
	DeferredDeviceCapacity = "device_capacity"
)

// Values of --hicache-write-policy.
const (
	WriteThrough          = "write_through"
	WriteThroughSelective = "write_through_selective"
	WriteBack             = "write_back"
)

// Values of --hicache-storage-prefetch-policy.
const (
	PrefetchBestEffort   = "best_effort"
	PrefetchWaitComplete = "wait_complete"
	PrefetchTimeout      = "timeout"
)
