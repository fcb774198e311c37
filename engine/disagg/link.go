// Copyright The otelcol-sglang Authors
// SPDX-License-Identifier: Apache-2.0

// Package disagg is PD disaggregation: the queues of a prefill and of a decode
// node, and the link over which they agree and say that KV was sent.
//
// As with Mooncake, the decode node speaks first: it asks for the prefill node's
// parallel sizes, reserves room for the prompt's KV and says where it is. Only then
// has the prefill node bootstrapped the room; after the forward pass it writes the
// KV and tells the decode node.
package disagg // import "github.com/otelcol-sglang/otelcol-sglang/engine/disagg"

import (
	"time"

	"github.com/otelcol-sglang/otelcol-sglang/engine/clock"
)

// MessageKind is what a message says.
type MessageKind string

const (
	// Metadata (decode to prefill): room is reserved, send here.
	Metadata MessageKind = "metadata"
	// KVSent (prefill to decode): the KV is there.
	KVSent MessageKind = "kv_sent"
	// Failed (either way): the room is given up.
	Failed MessageKind = "failed"
	// Released (prefill to decode, after Failed): nothing writes to the room's memory
	// any more.
	Released MessageKind = "released"
)

// Message is about one room. It is one JSON line over TCP.
type Message struct {
	Kind MessageKind `json:"kind"`
	Room uint64      `json:"room,string"`
	// Tokens that were reserved or sent; FirstToken is the one that prefill made.
	Tokens     int    `json:"tokens,omitempty"`
	FirstToken int32  `json:"first_token,omitempty"`
	Cached     int    `json:"cached,omitempty"`
	Reason     string `json:"reason,omitempty"`
}

// Link carries messages to the peer, in order. What is received is handed over on
// the loop's goroutine.
type Link interface {
	Send(m Message)
	OnReceive(f func(m Message))
	Close() error
}

// Pair links two engines on one loop; a message takes the given time.
func Pair(loop *clock.Loop, delay time.Duration) (prefill, decode Link) {
	a := &memLink{loop: loop, delay: delay}
	b := &memLink{loop: loop, delay: delay, peer: a}
	a.peer = b
	return a, b
}

type memLink struct {
	loop    *clock.Loop
	delay   time.Duration
	peer    *memLink
	receive func(Message)
	closed  bool
}

func (l *memLink) Send(m Message) {
	l.loop.After(l.delay, func() {
		if p := l.peer; !l.closed && !p.closed && p.receive != nil {
			p.receive(m)
		}
	})
}

func (l *memLink) OnReceive(f func(Message)) { l.receive = f }

func (l *memLink) Close() error {
	l.closed = true
	return nil
}
