// Copyright The otelcol-sglang Authors
// SPDX-License-Identifier: Apache-2.0

package pdjoin

import (
	"math/rand/v2"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

var (
	t0     = time.Unix(1000, 0)
	limits = Limits{Wait: 10 * time.Second, Keep: time.Minute, Halves: 1000, Bytes: 1 << 20}
)

func half(decode bool, trace byte, room uint64, external bool) *Half {
	return &Half{Decode: decode, Trace: [16]byte{trace}, Room: room, External: external}
}

func offer(t *testing.T, table *Table, h *Half, pair *Half) {
	t.Helper()
	got, _ := table.Offer(h, t0)
	assert.Same(t, pair, got)
}

func TestJoin(t *testing.T) {
	for name, tt := range map[string]struct {
		first, second *Half
		want          bool
	}{
		"same room, two traces":                {half(false, 1, 7, false), half(true, 2, 7, false), true},
		"same room, decode first":              {half(true, 1, 7, false), half(false, 2, 7, false), true},
		"same trace and room":                  {half(false, 1, 7, true), half(true, 1, 7, true), true},
		"same trace, no rooms":                 {half(false, 1, 0, true), half(true, 1, 0, true), true},
		"same trace, one names a room":         {half(false, 1, 7, true), half(true, 1, 0, true), true},
		"same trace, other room: a retry":      {half(false, 1, 7, true), half(true, 1, 8, true), false},
		"two prefill halves":                   {half(false, 1, 7, true), half(false, 1, 7, true), false},
		"no room, trace of the engine's own":   {half(false, 1, 0, false), half(true, 1, 0, false), false},
		"other trace, other room":              {half(false, 1, 7, false), half(true, 2, 8, false), false},
		"no rooms, other traces of the caller": {half(false, 1, 0, true), half(true, 2, 0, true), false},
	} {
		t.Run(name, func(t *testing.T) {
			table := New(limits)
			offer(t, table, tt.first, nil)
			pair, _ := table.Offer(tt.second, t0)
			assert.Equal(t, tt.want, pair == tt.first)
		})
	}
}

func TestOneRoomIsOnePair(t *testing.T) {
	table := New(limits)
	first := half(false, 1, 7, false)
	offer(t, table, first, nil)
	offer(t, table, half(true, 2, 7, false), first)
	_, kept := table.Offer(half(false, 3, 7, false), t0)
	assert.False(t, kept)
	table.Expire(t0.Add(2*time.Minute), false, func(*Half) { t.Error("nothing is held") })
	_, kept = table.Offer(half(false, 3, 7, false), t0)
	assert.True(t, kept, "a room may come again after a while")
}

func TestAmbiguousTraceJoinsNothing(t *testing.T) {
	table := New(limits)
	offer(t, table, half(false, 1, 0, true), nil)
	offer(t, table, half(false, 1, 0, true), nil)
	offer(t, table, half(true, 1, 0, true), nil)
}

func TestNumbersStayAfterTheRootLeft(t *testing.T) {
	table := New(limits)
	prefill := half(false, 1, 7, false)
	offer(t, table, prefill, nil)
	var left []*Half
	table.Expire(t0.Add(9*time.Second), false, func(h *Half) { left = append(left, h) })
	assert.Empty(t, left)
	table.Expire(t0.Add(10*time.Second), false, func(h *Half) { left = append(left, h) })
	require.Equal(t, []*Half{prefill}, left)
	pair, _ := table.Offer(half(true, 2, 7, false), t0.Add(30*time.Second))
	assert.Same(t, prefill, pair)
	assert.False(t, pair.Held)
	held, kept := table.Len()
	assert.Zero(t, held+kept)
}

func TestBounded(t *testing.T) {
	table := New(Limits{Wait: time.Second, Keep: time.Hour, Halves: 10, Bytes: 1 << 20})
	for i := range uint64(100) {
		table.Offer(half(false, 1, i+1, true), t0)
		table.Offer(half(false, 2, i+1000, false), t0)
		table.Offer(half(true, 3, i+1000, false), t0)
	}
	table.Expire(t0.Add(time.Second), false, func(*Half) {})
	held, kept := table.Len()
	assert.Zero(t, held)
	assert.Equal(t, 10, kept)
	assert.LessOrEqual(t, len(table.used), 10)
	table.Expire(t0.Add(2*time.Hour), false, func(*Half) {})
	_, kept = table.Len()
	assert.Zero(t, kept)
	assert.Empty(t, table.byTrace[0])
	assert.Empty(t, table.byRoom[0])
	assert.Empty(t, table.used)
}

// TestLateJoinsGiveRoomBack: numbers that met their other half count no longer.
func TestLateJoinsGiveRoomBack(t *testing.T) {
	const size = 1 << 10
	table := New(Limits{Wait: time.Second, Keep: time.Hour, Halves: 1000, Bytes: 4 * size})
	for room := uint64(1); room <= 100; room++ {
		prefill, decode := half(false, 1, room, false), half(true, 2, room, false)
		prefill.Bytes, decode.Bytes = size, size
		offer(t, table, prefill, nil)
		table.Expire(t0.Add(time.Second), false, func(*Half) {})
		offer(t, table, decode, prefill)
	}
	assert.Zero(t, table.keptBytes)
}

func TestEvict(t *testing.T) {
	table := New(limits)
	h := half(false, 1, 7, false)
	offer(t, table, h, nil)
	assert.True(t, table.Evict(t0, func(got *Half) { assert.Same(t, h, got) }))
	assert.False(t, table.Evict(t0, func(*Half) { t.Error("nothing is held") }))
}

// Many pairs in flight, in any order, a third behind one traceparent: each half
// meets its own.
func TestManyPairs(t *testing.T) {
	rng := rand.New(rand.NewPCG(3, 4))
	const pairs = 3000
	var halves []*Half
	for i := range uint64(pairs) {
		external := i%3 == 0
		for _, decode := range []bool{false, true} {
			h := half(decode, 0, i+1, external)
			if !external {
				h.Trace = [16]byte{1, byte(i), byte(i >> 8), byte(side(decode))}
			}
			halves = append(halves, h)
		}
	}
	rng.Shuffle(len(halves), func(i, j int) { halves[i], halves[j] = halves[j], halves[i] })
	table, joined := New(limits), 0
	for _, h := range halves {
		if pair, _ := table.Offer(h, t0); pair != nil {
			assert.Equal(t, h.Room, pair.Room)
			joined++
		}
	}
	assert.Equal(t, pairs, joined)
}
