// Copyright The otelcol-sglang Authors
// SPDX-License-Identifier: Apache-2.0

package session

import (
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
)

func TestTurns(t *testing.T) {
	tb := NewTable[string]()
	s, _, was := tb.Start("a")
	assert.False(t, was)
	assert.True(t, tb.Busy("a"))
	assert.Nil(t, tb.Continues("a", []int32{1, 2, 3}), "a turn runs")
	assert.True(t, tb.End("a", s, []int32{1, 2}, "kv", time.Second))

	assert.Nil(t, tb.Continues("a", []int32{1, 2}), "nothing to compute")
	assert.Nil(t, tb.Continues("a", []int32{1, 9, 3}), "another history")
	assert.Same(t, s, tb.Continues("a", []int32{1, 2, 3}))
	var held []string
	tb.Held(func(h string) { held = append(held, h) })
	assert.Equal(t, []string{"kv"}, held)

	_, kv, was := tb.Start("a")
	assert.True(t, was)
	assert.Equal(t, "kv", kv)
	assert.Equal(t, 1, tb.Open())
	tb.Held(func(string) { t.Error("a running turn has it") })
}

func TestCloseDuringATurn(t *testing.T) {
	tb := NewTable[string]()
	old, _, _ := tb.Start("a")
	_, was := tb.Close("a")
	assert.False(t, was, "the turn has what the slot had")
	next, _, _ := tb.Start("a")
	assert.False(t, tb.End("a", old, []int32{1}, "old", 0), "its session is gone")
	tb.Drop("a", old)
	assert.True(t, tb.End("a", next, []int32{1}, "next", 0))
	held, was := tb.Close("a")
	assert.True(t, was)
	assert.Equal(t, "next", held)
	_, was = tb.Close("a")
	assert.False(t, was)
}

func TestFailedTurnEndsItsSession(t *testing.T) {
	tb := NewTable[string]()
	s, _, _ := tb.Start("a")
	tb.Drop("a", s)
	assert.Zero(t, tb.Open())
}

func TestStale(t *testing.T) {
	tb := NewTable[string]()
	for i, id := range []string{"c", "a", "b"} {
		s, _, _ := tb.Start(id)
		tb.End(id, s, nil, id, time.Duration(i)*time.Second)
	}
	tb.Start("d")
	assert.Equal(t, []string{"a", "c"}, tb.Stale(time.Second), "in order, without those that run")
}
