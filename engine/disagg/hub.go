// Copyright The otelcol-sglang Authors
// SPDX-License-Identifier: Apache-2.0

package disagg // import "github.com/otelcol-sglang/otelcol-sglang/engine/disagg"

import (
	"time"

	"github.com/otelcol-sglang/otelcol-sglang/engine/clock"
)

// Hub hands one engine's messages to the scheduler that has the room. What opens a
// room that nobody has yet, or gives it up, waits for a while: a decode node may be
// faster than the prefill node's front end, or the other way round.
type Hub struct {
	loop  *clock.Loop
	link  Link
	rooms map[uint64]func(Message)
	early map[uint64][]Message

	// Lost counts messages for rooms that nobody took in time.
	Lost int
}

const (
	earlyWait = 60 * time.Second
	// Rooms that wait, and messages of each: there are no more to send before an answer.
	maxEarly     = 65536
	maxEarlyEach = 4
)

// NewHub takes over the link's messages.
func NewHub(loop *clock.Loop, link Link) *Hub {
	h := &Hub{loop: loop, link: link, rooms: map[uint64]func(Message){}, early: map[uint64][]Message{}}
	link.OnReceive(h.receive)
	return h
}

// Join gets the room's messages to f, those that came early at once.
func (h *Hub) Join(room uint64, f func(Message)) {
	h.rooms[room] = f
	early := h.early[room]
	delete(h.early, room)
	for _, m := range early {
		h.loop.After(0, func() { h.deliver(m) })
	}
}

// Leave ends what [Hub.Join] began.
func (h *Hub) Leave(room uint64) { delete(h.rooms, room) }

// Send sends to the peer.
func (h *Hub) Send(m Message) { h.link.Send(m) }

// Close closes the link.
func (h *Hub) Close() error { return h.link.Close() }

func (h *Hub) deliver(m Message) {
	if f, ok := h.rooms[m.Room]; ok {
		f(m)
	}
}

func (h *Hub) receive(m Message) {
	if f, ok := h.rooms[m.Room]; ok {
		f(m)
		return
	}
	if m.Kind != Metadata && m.Kind != Failed || len(h.early) >= maxEarly || len(h.early[m.Room]) >= maxEarlyEach {
		h.Lost++
		return
	}
	h.early[m.Room] = append(h.early[m.Room], m)
	if len(h.early[m.Room]) > 1 {
		return
	}
	h.loop.After(earlyWait, func() {
		h.Lost += len(h.early[m.Room])
		delete(h.early, m.Room)
	})
}
