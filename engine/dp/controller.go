// Copyright The otelcol-sglang Authors
// SPDX-License-Identifier: Apache-2.0

// Package dp is data parallelism: the controller that spreads requests over
// replicas or attention groups, and the synchronised step of attention DP.
package dp // import "github.com/otelcol-sglang/otelcol-sglang/engine/dp"

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"time"

	"github.com/otelcol-sglang/otelcol-sglang/engine/clock"
	"github.com/otelcol-sglang/otelcol-sglang/engine/ledger"
)

// Values of --load-balance-method.
const (
	RoundRobin    = "round_robin"
	ShortestQueue = "shortest_queue"
	MinimumTokens = "minimum_tokens"
	// FollowBootstrapRoom sends a room to rank room % size, so that a decode engine
	// knows the rank (PD prefill).
	FollowBootstrapRoom = "follow_bootstrap_room"
)

// Methods are all of them.
var Methods = []string{RoundRobin, ShortestQueue, MinimumTokens, FollowBootstrapRoom}

// Load is what a scheduler has to do: requests running or queued, and their tokens.
type Load struct{ Requests, Tokens int }

// Replica is a scheduler as the controller sees it.
type Replica interface {
	Receive(r *ledger.Request)
	Load() Load
}

// ControllerConfig makes a controller.
type ControllerConfig struct {
	Method   string
	Replicas []Replica
	Loop     *clock.Loop
	Tracer   ledger.Tracer
	Seed     uint64
}

// Controller sends each request to one replica, in its own process.
type Controller struct {
	ControllerConfig
	next int
	// sent is what is on its way and not in the replicas' loads yet.
	sent []Load
	rng  *rand.Rand

	skewTo    int
	skewShare float64
}

const (
	// handling and transit are the controller's own time per request and the socket's.
	handling = 400 * time.Microsecond
	transit  = 300 * time.Microsecond
)

// NewController checks the method.
func NewController(c ControllerConfig) (*Controller, error) {
	if !slices.Contains(Methods, c.Method) {
		return nil, fmt.Errorf("load_balance_method must be one of %v (got %q)", Methods, c.Method)
	}
	if len(c.Replicas) == 0 {
		return nil, fmt.Errorf("replicas must not be empty (got %d)", len(c.Replicas))
	}
	return &Controller{
		ControllerConfig: c,
		sent:             make([]Load, len(c.Replicas)),
		rng:              rand.New(rand.NewPCG(c.Seed, 0xd9)),
	}, nil
}

// SetSkew sends the given share of the requests to one rank, whatever the method
// says; 0 heals ("DP skew by routing").
func (c *Controller) SetSkew(rank int, share float64) { c.skewTo, c.skewShare = rank, share }

// Dispatch sends the request on its way. A rank that is set already is kept.
func (c *Controller) Dispatch(r *ledger.Request) {
	from := c.Loop.Now()
	if r.DPRank < 0 || r.DPRank >= len(c.Replicas) {
		r.DPRank = c.choose(r)
	}
	l := Load{Requests: 1, Tokens: len(r.Prompt)}
	c.sent[r.DPRank].add(l, 1)
	to := from + handling
	c.Loop.At(to, func() { c.Tracer.Dispatch(r, from, to) })
	c.Loop.At(to+transit, func() {
		c.sent[r.DPRank].add(l, -1)
		c.Replicas[r.DPRank].Receive(r)
	})
}

func (l *Load) add(o Load, sign int) {
	l.Requests += sign * o.Requests
	l.Tokens += sign * o.Tokens
}

func (c *Controller) choose(r *ledger.Request) int {
	if c.skewShare > 0 && c.rng.Float64() < c.skewShare {
		return min(max(c.skewTo, 0), len(c.Replicas)-1)
	}
	switch c.Method {
	case ShortestQueue:
		return c.least(func(l Load) int { return l.Requests })
	case MinimumTokens:
		return c.least(func(l Load) int { return l.Tokens })
	case FollowBootstrapRoom:
		if r.BootstrapRoom != 0 {
			return int(r.BootstrapRoom % uint64(len(c.Replicas)))
		}
	}
	i := c.next
	c.next = (c.next + 1) % len(c.Replicas)
	return i
}

// least finds the rank with the smallest load; the lowest of equals.
func (c *Controller) least(of func(Load) int) int {
	best, rank := 0, -1
	for i, rep := range c.Replicas {
		l := rep.Load()
		l.add(c.sent[i], 1)
		if v := of(l); rank < 0 || v < best {
			best, rank = v, i
		}
	}
	return rank
}
