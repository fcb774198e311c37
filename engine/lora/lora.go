// Copyright The otelcol-sglang Authors
// SPDX-License-Identifier: Apache-2.0

// Package lora is the pool of LoRA adapters on the device: as many as a batch may
// mix, loaded when a request needs one, the least recently used of the idle ones
// giving way.
package lora // import "github.com/otelcol-sglang/otelcol-sglang/engine/lora"

import (
	"fmt"
	"time"

	"github.com/otelcol-sglang/otelcol-sglang/engine/ledger"
)

// Pool is one scheduler's adapters. The base model needs no slot.
type Pool struct {
	slots int
	load  time.Duration // of one adapter
	byID  map[string]*adapter
	// idle are adapters that no request uses, least recently used first.
	idle []string

	loads, evictions int
}

type adapter struct{ users int }

// New returns a pool of slots, into which an adapter of so many bytes is copied at
// a speed in bytes per second.
func New(slots int, adapterBytes int64, perSecond float64) *Pool {
	load := time.Duration(float64(adapterBytes) / perSecond * float64(time.Second))
	return &Pool{slots: slots, load: load, byID: make(map[string]*adapter)}
}

// Fits tells whether a request with this adapter could join those that run.
func (p *Pool) Fits(id string) bool {
	return id == "" || p.byID[id] != nil || len(p.byID) < p.slots || len(p.idle) > 0
}

// Acquire gives a request its adapter and returns how long loading it takes, 0 if it
// is there. False: running requests use all slots.
func (p *Pool) Acquire(id string) (time.Duration, bool) {
	if !p.Fits(id) {
		return 0, false
	}
	if id == "" {
		return 0, true
	}
	a, took := p.byID[id], time.Duration(0)
	if a == nil {
		a, took = p.fetch(id), p.load
	} else if a.users == 0 {
		p.wake(id)
	}
	a.users++
	return took, true
}

func (p *Pool) fetch(id string) *adapter {
	if len(p.byID) == p.slots {
		delete(p.byID, p.idle[0])
		p.idle = p.idle[1:]
		p.evictions++
	}
	a := &adapter{}
	p.byID[id] = a
	p.loads++
	return a
}

func (p *Pool) wake(id string) {
	for i, other := range p.idle {
		if other == id {
			p.idle = append(p.idle[:i], p.idle[i+1:]...)
			return
		}
	}
}

// Release says that a request with this adapter runs no more.
func (p *Pool) Release(id string) {
	a := p.byID[id]
	if a == nil {
		return
	}
	a.users--
	if a.users == 0 {
		p.idle = append(p.idle, id)
	}
}

// Loaded tells whether an adapter is on the device.
func (p *Pool) Loaded(id string) bool { return p.byID[id] != nil }

// Moves are the adapters loaded and evicted so far.
func (p *Pool) Moves() (loads, evictions int) { return p.loads, p.evictions }

// Slots counts the adapters that running requests use.
func (p *Pool) Slots() ledger.LoRASlots {
	return ledger.LoRASlots{Used: len(p.byID) - len(p.idle), Total: p.slots}
}

// Check is nil while no more are loaded than there are slots, and exactly those
// without users are idle.
func (p *Pool) Check() error {
	if len(p.byID) > p.slots || p.loads-p.evictions != len(p.byID) {
		return fmt.Errorf("%d adapters in %d slots after %d loads and %d evictions", len(p.byID), p.slots, p.loads, p.evictions)
	}
	idle := make(map[string]bool)
	for _, id := range p.idle {
		idle[id] = true
	}
	for id, a := range p.byID {
		if a.users < 0 || idle[id] != (a.users == 0) {
			return fmt.Errorf("adapter %s has %d users, idle: %v", id, a.users, idle[id])
		}
	}
	if len(idle) != len(p.idle) {
		return fmt.Errorf("an adapter is idle twice: %v", p.idle)
	}
	return nil
}
