// Copyright The otelcol-sglang Authors
// SPDX-License-Identifier: Apache-2.0

// Package series makes one series of the copies that an engine's tensor-parallel
// ranks report, without knowing pdata.
//
// A [Store] holds one [Engine] per metrics page. A caller locks an engine with
// [Store.Acquire], adds the points of a scrape to a [Batch], folds, and reads each
// point's [Verdict].
//
// What "really reports" means: a rank reports a series once that series has shown
// a value other than zero, NaN or the family's sentinel. The mark stays while the
// series is remembered. Pre-seeded zeros of ranks that never
// report so lose against any rank that does; where no rank reports, all values
// are zeros and the lowest rank stands for them (a zero goes before a sentinel).
//
// Cumulative series: each rank's value is made monotonic by adding what it had
// before each of its resets. "sum" and "max" reduce these over every rank ever
// seen, so a vanished rank's share stands. "first" stays with its rank while that
// one reports and continues with the next rank's increase when it goes. When some
// rank's counters fall and no process of the page goes on, the engine has
// restarted: all series of the page begin anew, with a new start time.
package series // import "github.com/otelcol-sglang/otelcol-sglang/processor/rankdedupprocessor/internal/series"
