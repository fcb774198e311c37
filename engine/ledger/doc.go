// Copyright The otelcol-sglang Authors
// SPDX-License-Identifier: Apache-2.0

// Package ledger is what the parts of the simulated engine say to each other and
// to those who look on: the request, the readings of the clock that are taken of
// it, the scheduler's snapshot, and one interface per role for those who record.
// The parts that do the work (scheduler, pools, caches, queues) call these
// interfaces and do not know where the numbers go; the recorders (trace, metrics,
// truth) implement them and never change what happens.
//
// A number belongs to one role, one moment and one book. A recorder projects
// state that exists; it keeps none of its own but what a counter needs.
package ledger // import "github.com/otelcol-sglang/otelcol-sglang/engine/ledger"
