// Copyright The otelcol-sglang Authors
// SPDX-License-Identifier: Apache-2.0

// Package sched is the scheduler of one group of ranks: the waiting queue, the
// admission of prefills, chunks, decode batches, retraction, and the loop that runs
// forward passes one after the other or overlapped. It follows SGLang 0.5.23's
// managers/{scheduler,schedule_policy,schedule_batch}.py.
package sched // import "github.com/otelcol-sglang/otelcol-sglang/engine/sched"

import (
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/otelcol-sglang/otelcol-sglang/engine/args"
	"github.com/otelcol-sglang/otelcol-sglang/engine/clock"
	"github.com/otelcol-sglang/otelcol-sglang/engine/cost"
	"github.com/otelcol-sglang/otelcol-sglang/engine/disagg"
	"github.com/otelcol-sglang/otelcol-sglang/engine/dp"
	"github.com/otelcol-sglang/otelcol-sglang/engine/ledger"
	"github.com/otelcol-sglang/otelcol-sglang/engine/lora"
	"github.com/otelcol-sglang/otelcol-sglang/engine/moe"
	"github.com/otelcol-sglang/otelcol-sglang/engine/spec"
)

// Config is what a scheduler works with. All but Drafter, Sync, LoRA, Experts, Hub
// and the hooks must be set.
type Config struct {
	Args *args.Args
	// Places are where the scheduler runs: one, or one per pipeline stage.
	// Collectors are their books.
	Places     []ledger.Place
	Collectors []ledger.SchedulerCollector
	Loop       *clock.Loop
	Memory     ledger.Memory
	Cost       *cost.Model
	Tracer     ledger.Tracer
	// Drafter speculates.
	Drafter *spec.Drafter
	// Sync is where the groups of attention DP meet; this group is Places[0].DPRank.
	Sync *dp.Sync
	// LoRA has the adapters' slots; Experts spreads tokens over a MoE's experts (with
	// Sync, [dp.Sync.Balance] does, and Experts is not used).
	LoRA    *lora.Pool
	Experts *moe.Dispatch
	// Hub is the link to the other half under PD disaggregation.
	Hub *disagg.Hub

	// Output is called after each step in which a request got tokens or ended: new
	// tokens are at the end of r.Output. Dropped is called for a request that ended
	// without running: aborted in a queue, or refused.
	Output, Dropped func(r *ledger.Request)
}

func (c *Config) validate() error {
	a := c.Args
	if a == nil || c.Loop == nil || c.Memory == nil || c.Cost == nil || c.Tracer == nil {
		return errors.New("args, loop, memory, cost and tracer must be set")
	}
	var errs []error
	if len(c.Places) == 0 || len(c.Places) != len(c.Collectors) {
		errs = append(errs, fmt.Errorf("collectors must be one per place (got %d for %d)", len(c.Collectors), len(c.Places)))
	}
	if !slices.Contains(Policies, a.SchedulePolicy) {
		errs = append(errs, fmt.Errorf("schedule_policy must be one of %v (got %q)", Policies, a.SchedulePolicy))
	}
	if c.runningLimit() < 1 {
		errs = append(errs, fmt.Errorf("max_running_requests must leave one for each DP group and micro-batch (got %d)", a.MaxRunningRequests))
	}
	if a.MaxPrefillTokens < 1 || a.ChunkedPrefillSize == 0 {
		errs = append(errs, fmt.Errorf("max_prefill_tokens must be positive, chunked_prefill_size not 0 (got %d, %d)", a.MaxPrefillTokens, a.ChunkedPrefillSize))
	}
	if a.DecodeLogInterval < 1 {
		errs = append(errs, fmt.Errorf("decode_log_interval must be positive (got %d)", a.DecodeLogInterval))
	}
	if a.DisaggregationMode != args.Unified && c.Hub == nil {
		errs = append(errs, fmt.Errorf("a link must be set (disaggregation_mode is %q)", a.DisaggregationMode))
	}
	return errors.Join(errs...)
}

// runningLimit is of one micro-batch.
func (c *Config) runningLimit() int {
	n := c.Args.MaxRunningRequests
	if c.Args.EnableDPAttention {
		n /= max(c.Args.DPSize, 1)
	}
	return n / max(len(c.Places), 1)
}

// Loads is what /v1/loads shows of a scheduler.
type Loads struct {
	At                         time.Duration
	DPRank                     int
	Running, Waiting           int
	WaitingUncachedTokens      int
	UsedTokens, CapacityTokens int
	// TotalTokens are used and waiting ones; ActiveTokens those of running requests.
	TotalTokens, ActiveTokens int
	PreallocReadyTokens       int
	MaxRunning                int
	TokenUsage                float64
	GenThroughput             float64
	CacheHitRate              float64
	Utilization               float64
	PrefillUncachedTokens     int64 // since start
	PrefillBusy               time.Duration
	AcceptLength, AcceptRate  float64 // since start
	LoRA                      ledger.LoRASlots
	Retracted, Paused         int
	PD                        ledger.PDQueues
}
