// Copyright The otelcol-sglang Authors
// SPDX-License-Identifier: Apache-2.0

package sched // import "github.com/otelcol-sglang/otelcol-sglang/engine/sched"

import (
	"time"

	"github.com/otelcol-sglang/otelcol-sglang/engine/dp"
	"github.com/otelcol-sglang/otelcol-sglang/engine/ledger"
)

// Policies are the values of --schedule-policy.
var Policies = []string{"fcfs", "lpm", "lof", "random", "dfs-weight"}

// Scheduler belongs to the loop's goroutine.
type Scheduler struct {
	Config
}

// New checks the configuration.
func New(c Config) (*Scheduler, error) {
	if err := c.validate(); err != nil {
		return nil, err
	}
	return &Scheduler{Config: c}, nil
}

// Receive takes a request that arrived on the scheduler's socket; the scheduler
// reads it when its loop comes by.
func (s *Scheduler) Receive(r *ledger.Request) {}

// Abort ends a request, wherever it is: its end comes through the hooks. Unknown
// ones are ignored.
func (s *Scheduler) Abort(r *ledger.Request) {}

// Flush empties the cache. False: requests run or wait, and nothing happened.
func (s *Scheduler) Flush() bool { return false }

// Idle tells whether nothing runs or waits.
func (s *Scheduler) Idle() bool { return true }

// Load is for the DP controller.
func (s *Scheduler) Load() dp.Load { return dp.Load{} }

// Loads is for /v1/loads.
func (s *Scheduler) Loads() Loads { return Loads{} }

// Snapshot is the present state, as a report of no reporter.
func (s *Scheduler) Snapshot() *ledger.Snapshot { return nil }

// Settle brings what grows with time (idle seconds) up to date, as before a scrape.
func (s *Scheduler) Settle() {}

// Check is nil while every invariant holds.
func (s *Scheduler) Check() error { return nil }

// SetPaused stops the scheduler before its next batch, or lets it go on.
func (s *Scheduler) SetPaused(on bool) {}

// SetStall makes each iteration of the loop take d longer on the CPU ("scheduler
// stall"); 0 heals.
func (s *Scheduler) SetStall(d time.Duration) {}

// SetPressure keeps n tokens of the pool from requests ("KV pressure"), as far as
// they can be had; 0 heals.
func (s *Scheduler) SetPressure(n int) {}

// SetTransfer makes KV transfers slower by a factor and fail with the given chance
// ("slow KV transfer"); 1 and 0 heal. PD prefill nodes only.
func (s *Scheduler) SetTransfer(slower, failing float64) {}
