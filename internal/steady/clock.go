// Copyright The otelcol-sglang Authors
// SPDX-License-Identifier: Apache-2.0

// Package steady tells time that does not jump when the host's clock is set. What
// waits, or is remembered for a time, must be measured by it as soon as times are kept
// as numbers, without Go's monotonic reading.
package steady // import "github.com/otelcol-sglang/otelcol-sglang/internal/steady"

import "time"

// Clock is one that goes on from the time at which it was made.
type Clock struct{ start time.Time }

// NewClock returns a clock that shows the host's time now.
func NewClock() Clock { return Clock{time.Now()} }

// Now is the host's time, as if its clock had not been set since the clock was made.
// It is no timestamp for others.
func (c Clock) Now() time.Time { return c.start.Add(time.Since(c.start)) }
