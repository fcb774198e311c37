// Copyright The otelcol-sglang Authors
// SPDX-License-Identifier: Apache-2.0

package ledger // import "github.com/otelcol-sglang/otelcol-sglang/engine/ledger"

import "time"

// Pool is the book of one pool of KV slots (or Mamba states):
// Capacity = Available + Evictable + Used + Reserved at every moment.
type Pool struct {
	Capacity  int
	Available int // free now
	Evictable int // held by the prefix tree alone
	Used      int // locked by running requests
	Reserved  int // promised to transfers under way, or held by session slots between turns
}

// Usage is Used / Capacity, 0 for a pool that is not there.
func (p Pool) Usage() float64 {
	if p.Capacity == 0 {
		return 0
	}
	return float64(p.Used) / float64(p.Capacity)
}

// Balanced tells whether the identity holds and no part is negative.
func (p Pool) Balanced() bool {
	return min(p.Available, p.Evictable, p.Used, p.Reserved) >= 0 &&
		p.Available+p.Evictable+p.Used+p.Reserved == p.Capacity
}

// QueueCount counts a queue in one pass: in all, and per priority ("None" for
// requests without one). ByPriority is nil unless priorities are on.
type QueueCount struct {
	Total      int
	ByPriority map[string]int
}

// Snapshot is filled at a report and pushed as a whole, so that its fields belong
// to one moment. A pointer that is nil belongs to the other reporter, or to a part
// that is off: the recorder leaves what it showed before.
type Snapshot struct {
	At time.Duration

	Running, Queued, Grammar QueueCount
	Paused                   int
	Full, SWA, Mamba         Pool
	TokenUsage               float64 // the largest usage of the pools, unrounded
	UsedTokens               int     // the larger of the full and the sliding-window pool's

	// Retracted since the previous report.
	Retracted int
	// Utilization is max(running / limit, usage / 0.9); -1 on a PD prefill node.
	Utilization float64
	// FwdOccupancy is the share of wall time in forward; NaN without device timer.
	FwdOccupancy float64

	Prefill *PrefillReport
	Decode  *DecodeReport
	PD      *PDQueues
	LoRA    *LoRASlots
	Host    *HostPool
	Session *Sessions
	Routing *RoutingKeys
}

// PrefillReport is what a prefill batch's report owns.
type PrefillReport struct {
	CacheHitRate  float64 // of that batch alone, without re-processed tokens
	NewTokenRatio float64
}

// DecodeReport is what the report of every decode_log_interval steps owns.
type DecodeReport struct {
	GenThroughput float64 // tokens per second
	SumSeqLens    int
	Spec          *SpecReport
}

// SpecReport is of the window since the previous decode report.
type SpecReport struct {
	AcceptLength     float64 // accepted drafts + bonus, per verify step
	AcceptRate       float64 // accepted / proposed drafts
	CapLength        float64
	Steps, DraftToks int
}

// PDQueues are the queues of a prefill node (first two) or a decode node.
type PDQueues struct {
	Bootstrap, Inflight             QueueCount
	Prealloc, Transfer, HostReceive QueueCount
	DeferredRelease                 int
	PreallocUsage, PreallocSWAUsage float64
}

// LoRASlots are the adapters of the running batch.
type LoRASlots struct{ Used, Total int }

// HostPool is the host tier's; Mamba parts are nil on other models.
type HostPool struct {
	Used, Total           int
	MambaUsed, MambaTotal *int
}

// Sessions are streaming sessions.
type Sessions struct{ Open, HeldTokens int }

// RoutingKeys counts requests per key; computed only when all running requests
// have a key.
type RoutingKeys struct {
	Unique       int
	Running, All []int // requests of each key
}

// DPStep is one synchronised step of attention DP as one rank sees it. Tokens and
// pairs are what that rank scheduled; the maxima and sums are over all groups.
type DPStep struct {
	Tokens, MaxTokens, SumTokens int
	Pairs, MaxPairs              int64
	Groups                       int
	PrefillGroups                int
	SyncWait                     time.Duration
}

// Transfer is one request's way from a prefill node to a decode node; parts that
// did not happen are Unset.
type Transfer struct {
	Bootstrap, Alloc, Latency time.Duration
	Bytes                     int64 // of one rank's shard
}

// Constants are written once, at start.
type Constants struct {
	MaxTotalTokens, MaxTotalTokensSWA   int
	PageSize, Pages, ContextLen         int
	WeightGB, KVCacheGB, AvailableGB    float64
	GraphGB                             map[string]float64 // by phase
	StartupSeconds, GraphStartupSeconds map[string]float64 // by phase
}
