// Copyright The otelcol-sglang Authors
// SPDX-License-Identifier: Apache-2.0

package engine // import "github.com/otelcol-sglang/otelcol-sglang/engine"

import (
	"time"

	"github.com/otelcol-sglang/otelcol-sglang/engine/args"
	"github.com/otelcol-sglang/otelcol-sglang/engine/page"
	"github.com/otelcol-sglang/otelcol-sglang/engine/sched"
)

// loadOf is scheduler i's entry of /v1/loads.
func (e *Engine) loadOf(i int, s sched.Loads) page.Load {
	l := page.Load{
		DPRank: i, Timestamp: float64(e.Loop.Wall(s.At).UnixNano()) / float64(time.Second),
		NumRunningReqs: s.Running, NumWaitingReqs: s.Waiting, NumWaitingUncachedTokens: s.WaitingUncachedTokens,
		NumUsedTokens: s.UsedTokens, NumTotalTokens: s.TotalTokens, NumActiveTokens: s.ActiveTokens,
		NumPreallocReady: s.PreallocReadyTokens, MaxTotalNumTokens: s.CapacityTokens, MaxRunningRequests: s.MaxRunning,
		TokenUsage: s.TokenUsage, GenThroughput: s.GenThroughput, CacheHitRate: s.CacheHitRate, Utilization: s.Utilization,
		PrefillUncachedTokens: s.PrefillUncachedTokens, PrefillBusyUS: s.PrefillBusy.Microseconds(),
		Queues: &page.QueuesLoad{Waiting: s.Waiting, Paused: s.Paused, Retracted: s.Retracted},
		Disagg: &page.DisaggLoad{
			Mode:                      e.Args.DisaggregationMode,
			PrefillBootstrapQueueReqs: s.PD.Bootstrap.Total, PrefillInflightQueueReqs: s.PD.Inflight.Total,
			DecodePreallocQueueReqs: s.PD.Prealloc.Total, DecodeTransferQueueReqs: s.PD.Transfer.Total,
		},
	}
	m := e.Schedulers[i].Cost
	full, swa, mamba := e.Memories[i].Books()
	l.Memory = &page.MemoryLoad{
		WeightGB: m.WeightGB(), KVCacheGB: float64(m.PoolBytes(full.Capacity, swa.Capacity, mamba.Capacity)) / 1e9,
		TokenCapacity: full.Capacity,
	}
	if e.Args.Speculative() {
		l.Spec = &page.SpecLoad{AcceptLength: s.AcceptLength, AcceptRate: s.AcceptRate}
	}
	if s.LoRA.Total > 0 {
		l.LoRA = &page.LoRALoad{SlotsUsed: s.LoRA.Used, SlotsTotal: s.LoRA.Total, Utilization: float64(s.LoRA.Used) / float64(s.LoRA.Total)}
	}
	if e.Args.DisaggregationMode == args.Unified {
		l.Disagg = nil
	}
	return l
}
