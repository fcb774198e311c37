// Copyright The otelcol-sglang Authors
// SPDX-License-Identifier: Apache-2.0

package trace // import "github.com/otelcol-sglang/otelcol-sglang/engine/trace"

import (
	"math/rand/v2"
	"time"
)

// lag is what a process's clock shows beyond engine time. It is a function of
// engine time alone, so that one reading is the same wherever it is used, and never
// falls as fast as time grows, so that no duration gets negative.
type lag struct {
	seed   uint64
	jitter time.Duration
	// The constant part goes from one value to the next over a while: a step back
	// would turn time around.
	from, to time.Duration
	since    time.Duration
}

// at is the lag at engine time t.
func (l *lag) at(t time.Duration) time.Duration { return l.constant(t) + l.noise(t) }

func (l *lag) constant(t time.Duration) time.Duration {
	ramp := 2 * (l.to - l.from).Abs()
	passed := t - l.since
	if passed >= ramp {
		return l.to
	}
	if passed <= 0 {
		return l.from
	}
	return l.from + time.Duration(float64(l.to-l.from)*float64(passed)/float64(ramp))
}

// set makes to the constant part from engine time now on.
func (l *lag) set(to, now time.Duration) {
	*l = lag{seed: l.seed, jitter: l.jitter, from: l.constant(now), to: to, since: now}
}

// noise goes straight from one random delay to the next.
func (l *lag) noise(t time.Duration) time.Duration {
	if l.jitter == 0 {
		return 0
	}
	// At four times the jitter the slope is at least -1/4; at a millisecond two
	// steps of a scheduler see delays of their own.
	grid := max(time.Millisecond, 4*l.jitter)
	n, into := t/grid, t%grid
	a, b := l.delay(n), l.delay(n+1)
	return a + time.Duration(float64(b-a)*float64(into)/float64(grid))
}

func (l *lag) delay(n time.Duration) time.Duration {
	return time.Duration(hash(l.seed, uint64(n)) % uint64(l.jitter+1))
}

// hash is a random number that belongs to its arguments.
func hash(seed, n uint64) uint64 {
	var p rand.PCG
	p.Seed(seed, n)
	return p.Uint64()
}
