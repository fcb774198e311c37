// Copyright The otelcol-sglang Authors
// SPDX-License-Identifier: Apache-2.0

package ledger // import "github.com/otelcol-sglang/otelcol-sglang/engine/ledger"

import (
	"time"

	"github.com/otelcol-sglang/otelcol-sglang/internal/sglang"
)

// SchedulerCollector is one scheduler's book: queues, pools, throughput, cache
// hits, acceptance, PD queues, DP balance. One scheduler speaks for all ranks of
// its group; the collector knows which rank shows what (rank gates).
type SchedulerCollector interface {
	Constants(c *Constants)
	Report(s *Snapshot)

	QueueTime(d time.Duration)
	// StageLatency is for stages that the engine observes per stage.
	StageLatency(s sglang.Stage, d time.Duration)
	Retracted(requests, inputTokens, outputTokens int)

	// RealtimeTokens: prefill_compute, prefill_cache, decode; with the number of
	// DP groups that prefill in this step, -1 where DP is off.
	RealtimeTokens(mode string, n, prefillGroups int)
	// EffectiveTokens leaves out what is re-processed after a retraction; modes as
	// on prefill_effective_tokens_total.
	EffectiveTokens(mode string, n int)
	// Pass is a forward pass; mode as on cuda_graph_passes_total.
	Pass(mode string)
	// Forward is device time by forward mode (device timer only).
	Forward(category string, d time.Duration, prefillGroups int)
	// LoopTime is wall time of the scheduler's loop by category and overlap.
	LoopTime(category, overlap string, d time.Duration)
	Idle(d time.Duration)
	CPU(d time.Duration)
	// MFU is the estimate for one GPU (--enable-mfu-metrics).
	MFU(flops, readBytes, writeBytes float64)

	DPStep(s *DPStep)

	KVTransfer(t *Transfer)
	BootstrapFailed()
	TransferFailed()
	PrefillRetry()
	HostReceive(requests int)
	DeferredRelease(outcome string, held time.Duration)
	// PrefillDelayed: labels as on prefill_delayer_outcomes_total.
	PrefillDelayed(passes int, d time.Duration, input, allow, reason, actual string)
	WeightsUpdated(source string, d time.Duration)
	// Balancedness of the experts in one pass (mean / max load), by forward mode.
	Balancedness(mode string, v float64)
}

// TokenizerCollector is the front end's book: requests, tokens, latencies.
type TokenizerCollector interface {
	// Finished is called once per finished request with its readings set.
	Finished(r *Request)
	// FirstToken is TTFT, once per request; never for aborts, embeddings, and on a
	// PD prefill node.
	FirstToken(r *Request, ttft time.Duration)
	// InterToken is one output batch: the interval since the last, and its tokens.
	InterToken(r *Request, interval time.Duration, tokens int)
	Aborted(r *Request)
	LoadsQueried(d time.Duration)
}

// RadixCollector is the prefix tree's book. Bytes are one rank's shard. A transfer
// that moves several pools is told once per pool; its time goes with the first, the
// others' is Unset. Drops need no time.
type RadixCollector interface {
	Evicted(tokens int, d time.Duration)
	LoadedBack(pool string, tokens int, bytes int64, d time.Duration)
	BackedUp(pool string, tokens int, bytes int64, d time.Duration)
	Dropped(reason, pool string, tokens int)
}

// StorageCollector is the storage tier's book.
type StorageCollector interface {
	// Prefetched is one operation that brought tokens from storage to the host.
	Prefetched(tokens, pages int, bytes int64, d time.Duration)
	BackedUp(tokens, pages int, bytes int64, d time.Duration)
	Hit(tokens int)
	Unfulfilled(reason string, tokens int)
	Deferred(reason string, tokens int)
	BackupDropped(tokens int)
	AuxAllocFailed(tokens int)
}

// ExpertCollector is the expert dispatch's book.
type ExpertCollector interface {
	// Dispatched: selected physical experts per GPU in one layer.
	Dispatched(layer int, perGPU []int)
}

// HTTPCollector is the HTTP middleware's book; endpoint is a route template.
type HTTPCollector interface {
	Request(endpoint, method string)
	Response(endpoint, method string, status int)
	Active(endpoint, method string, delta int)
	RoutingKeys(active int)
}

// ProcessCollector counts CPU time by component: tokenizer, detokenizer, ...
type ProcessCollector interface {
	ProcessCPU(component string, d time.Duration)
}
