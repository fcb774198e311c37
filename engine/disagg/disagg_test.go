// Copyright The otelcol-sglang Authors
// SPDX-License-Identifier: Apache-2.0

package disagg

import (
	"context"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"

	"github.com/otelcol-sglang/otelcol-sglang/engine/clock"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// runLoop runs a loop in real time until the test ends.
func runLoop(t *testing.T) *clock.Loop {
	l := clock.NewReal(1)
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan struct{})
	go func() {
		defer close(done)
		assert.NoError(t, l.Run(ctx))
	}()
	t.Cleanup(func() { cancel(); <-done })
	return l
}

// inbox hands what a link receives to the test.
func inbox(l *clock.Loop, link Link) <-chan Message {
	c := make(chan Message, 10)
	ready := make(chan struct{})
	l.Post(func() { link.OnReceive(func(m Message) { c <- m }); close(ready) })
	<-ready
	return c
}

func receive(t *testing.T, c <-chan Message) Message {
	select {
	case m := <-c:
		return m
	case <-time.After(10 * time.Second):
		require.Fail(t, "nothing came")
		return Message{}
	}
}

func TestTCP(t *testing.T) {
	pl, dl, el := runLoop(t), runLoop(t), runLoop(t)
	s, err := Listen(t.Context(), pl, "127.0.0.1:0")
	require.NoError(t, err)
	addr := s.Addr().String()
	d, err := Dial(t.Context(), dl, addr)
	require.NoError(t, err)
	e, err := Dial(t.Context(), el, addr)
	require.NoError(t, err)
	prefill, decode, other := inbox(pl, s), inbox(dl, d), inbox(el, e)

	const room = 0x8cd936901eb56bff // more than a float holds
	sent := Message{Kind: Metadata, Room: room, Tokens: 640}
	dl.Post(func() { d.Send(sent) })
	assert.Equal(t, sent, receive(t, prefill))
	answer := Message{Kind: KVSent, Room: room, Tokens: 640, FirstToken: 7, Cached: 12}
	pl.Post(func() { s.Send(answer) })
	assert.Equal(t, answer, receive(t, decode))
	assert.Empty(t, other, "another decode engine's room")

	el.Post(func() { e.Send(Message{Kind: Metadata, Room: 5}) })
	receive(t, prefill)
	require.NoError(t, e.Close())
	assert.Equal(t, Message{Kind: Failed, Room: 5, Reason: "connection lost"}, receive(t, prefill))
	require.NoError(t, d.Close())
	require.NoError(t, s.Close())
}

// A decode engine may start first, and outlives its prefill engine.
func TestTCPReconnects(t *testing.T) {
	pl, dl := runLoop(t), runLoop(t)
	s, err := Listen(t.Context(), pl, "127.0.0.1:0")
	require.NoError(t, err)
	addr := s.Addr().String()
	require.NoError(t, s.Close())

	d, err := Dial(t.Context(), dl, addr)
	require.NoError(t, err)
	defer func() { require.NoError(t, d.Close()) }()
	dl.Post(func() { d.Send(Message{Kind: Metadata, Room: 1}) })
	s, err = Listen(t.Context(), pl, addr)
	require.NoError(t, err)
	defer func() { require.NoError(t, s.Close()) }()
	assert.EqualValues(t, 1, receive(t, inbox(pl, s)).Room)
}

func TestHubKeepsWhatComesEarly(t *testing.T) {
	loop := clock.NewVirtual(time.Unix(0, 0))
	a, b := Pair(loop, time.Millisecond)
	h := NewHub(loop, b)
	a.Send(Message{Kind: Metadata, Room: 1})
	a.Send(Message{Kind: KVSent, Room: 2})
	a.Send(Message{Kind: Failed, Room: 1})
	a.Send(Message{Kind: Metadata, Room: 3})
	var got []MessageKind
	loop.At(time.Second, func() { h.Join(1, func(m Message) { got = append(got, m.Kind) }) })
	loop.RunUntil(2 * time.Second)
	assert.Equal(t, []MessageKind{Metadata, Failed}, got)
	assert.Equal(t, 1, h.Lost, "nobody waits for KV of a room that was never opened")
	loop.RunUntil(2 * earlyWait)
	assert.Equal(t, 2, h.Lost)
	h.Join(3, func(Message) { assert.Fail(t, "too late") })
	loop.RunUntil(3 * earlyWait)
}

// A peer that repeats itself does not fill the memory.
func TestHubBoundsARoom(t *testing.T) {
	loop := clock.NewVirtual(time.Unix(0, 0))
	a, b := Pair(loop, time.Millisecond)
	h := NewHub(loop, b)
	for range 2 * maxEarlyEach {
		a.Send(Message{Kind: Metadata, Room: 1})
	}
	got := 0
	loop.At(time.Second, func() { h.Join(1, func(Message) { got++ }) })
	loop.RunUntil(2 * time.Second)
	assert.Equal(t, maxEarlyEach, got)
	assert.Equal(t, maxEarlyEach, h.Lost)
}

func TestPairClosed(t *testing.T) {
	loop := clock.NewVirtual(time.Unix(0, 0))
	a, b := Pair(loop, time.Millisecond)
	b.OnReceive(func(Message) { assert.Fail(t, "closed") })
	a.Send(Message{Kind: Metadata, Room: 1})
	require.NoError(t, b.Close())
	loop.RunUntil(time.Second)
}

func TestDialNowhere(t *testing.T) {
	_, err := Dial(t.Context(), nil, "no-port")
	assert.ErrorContains(t, err, "missing port")
}
