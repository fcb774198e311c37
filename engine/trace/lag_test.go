// Copyright The otelcol-sglang Authors
// SPDX-License-Identifier: Apache-2.0

package trace

import (
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"github.com/otelcol-sglang/otelcol-sglang/engine/ledger"
	"github.com/otelcol-sglang/otelcol-sglang/internal/sglang"
)

// TestLagGoesForward: whatever ails a rank, its clock never goes back, and stays
// within jitter of engine time and delay.
func TestLagGoesForward(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		l := lag{
			seed:   rapid.Uint64().Draw(t, "seed"),
			jitter: time.Duration(rapid.Int64Range(0, int64(5*time.Millisecond)).Draw(t, "jitter")),
		}
		var now, last time.Duration
		last = l.at(0)
		t.Repeat(map[string]func(*rapid.T){
			"pass": func(t *rapid.T) {
				now += time.Duration(rapid.Int64Range(0, int64(20*time.Millisecond)).Draw(t, "d"))
				read := now + l.at(now)
				require.GreaterOrEqual(t, read, last)
				require.Equal(t, read, now+l.at(now))
				last = read
			},
			"delay": func(t *rapid.T) {
				d := time.Duration(rapid.Int64Range(-int64(time.Second), int64(time.Second)).Draw(t, "delay"))
				l.set(d, now)
			},
			"": func(t *rapid.T) {
				low, high := min(l.from, l.to), max(l.from, l.to)
				require.GreaterOrEqual(t, l.at(now), low)
				require.LessOrEqual(t, l.at(now), high+l.jitter)
			},
		})
	})
}

// TestLagSpreads: delays of ranks and moments are told apart and fill the range.
func TestLagSpreads(t *testing.T) {
	const jitter = 200 * time.Microsecond
	var sum time.Duration
	different := 0
	for i := range 1000 {
		a, b := lag{seed: 1, jitter: jitter}, lag{seed: 2, jitter: jitter}
		now := time.Duration(i) * 10 * time.Millisecond
		sum += a.at(now)
		if (a.at(now) - b.at(now)).Abs() > jitter/100 {
			different++
		}
	}
	assert.InDelta(t, 0.5, float64(sum)/1000/float64(jitter), 0.05)
	assert.Greater(t, different, 950)
}

// TestSlowRank: a slow rank ends each step after the others, whenever it gets slow,
// and no span of it has a negative length.
func TestSlowRank(t *testing.T) {
	b := newBench(t, func(c *Config) { c.ClockOffset = time.Nanosecond })
	p := &ledger.Place{DPRank: -1, TPRanks: []int{0, 1, 2, 3}}
	slow := func(p Process) bool { return p.Kind == sglang.ProcessScheduler && p.TP == 2 }
	b.loop.At(at(300), func() { b.Set(slow, Condition{Delay: 3 * time.Millisecond}) })
	b.loop.At(at(600), func() { b.Set(slow, Condition{}) })
	r := newRequest("a")
	b.Start(r, 0)
	for i := range 100 {
		b.loop.At(at(float64(i+1)*10), func() {
			now := b.loop.Now()
			b.Slice(r, p, sglang.StageDecodeLoop, ledger.Reading{At: now - 10*time.Millisecond}, ledger.Reading{At: now}, i)
		})
	}
	b.loop.At(at(1001), func() { b.EndThread(r, p, ledger.Reading{At: b.loop.Now()}, false) })
	last := map[int64]int32{}
	ends := map[int64]int64{}
	for _, e := range func() []Export { b.out(); return b.to.Exports() }() {
		for _, s := range spansOf(e.Traces) {
			require.GreaterOrEqual(t, s.EndTimestamp(), s.StartTimestamp())
			ct, ok := s.Attributes().Get(sglang.AttrDecodeCT)
			if ok && int64(s.EndTimestamp()) > ends[ct.Int()] {
				last[ct.Int()], ends[ct.Int()] = e.From.TP, int64(s.EndTimestamp())
			}
		}
	}
	for ct := int64(31); ct < 58; ct++ {
		assert.EqualValues(t, 2, last[ct], "step %d", ct)
	}
	others := 0
	for ct := int64(62); ct < 100; ct++ {
		if last[ct] != 2 {
			others++
		}
	}
	assert.Greater(t, others, 15)
}
