// Copyright The otelcol-sglang Authors
// SPDX-License-Identifier: Apache-2.0

package sched // import "github.com/otelcol-sglang/otelcol-sglang/engine/sched"

import (
	"time"

	"github.com/otelcol-sglang/otelcol-sglang/engine/cost"
	"github.com/otelcol-sglang/otelcol-sglang/engine/ledger"
)

type state uint8

// Where a request is. Each is in one place.
const (
	stateInbox   state = iota // arrived, not read
	stateGrammar              // its grammar is being compiled
	stateQueued
	statePD      // in a queue of the PD node
	stateChunked // between chunks, or its last pass is in flight
	stateRunning
	stateEnded

	stateCount
)

// work is a request on its way through the scheduler ([ledger.Request.Work]).
type work struct {
	r     *ledger.Request
	state state
	// epoch changes when the request loses its KV or ends: results of passes that
	// were launched before do not count.
	epoch uint32
	// ids are the prompt's and the output's tokens; r.Output is their end.
	ids []int32
	// seed makes the output.
	seed uint64
	// limit is the number of output tokens at which it ends; 0: it only prefills.
	limit int
	// maxTokens is what the scheduler reckons with: the client's max_tokens.
	maxTokens int
	// priority: smaller goes first, whatever the flag says.
	priority int64
	seq      uint64

	received ledger.Reading
	// queued is when it entered the waiting queue this time.
	queued ledger.Reading

	prefix  ledger.Prefix
	holding ledger.Holding
	// filled tokens have their KV scheduled, slots have room; target is what the
	// present prefill fills.
	filled, slots, target int
	slot                  int

	chunked  bool
	aborted  bool
	ran      bool // its first pass was launched
	prebuilt bool // PD decode: KV comes from elsewhere
	reserved bool // PD decode: memory is promised to it
	adapter  bool // its LoRA adapter is locked
	deferred bool // lpm: another one of the queue makes KV that it can use
	// decodes are passes in flight that decode it.
	decodes int

	prefillOpen, decodeOpen, waits bool

	// Beginnings of the stages that are under way.
	forwardFrom, chunkFrom, waitFrom, loopFrom ledger.Reading

	pdFrom ledger.Reading
	// PD prefill: the KV of so many tokens was handed over chunk by chunk, from sendFrom
	// on; 0 is not yet.
	parts      int
	sendFrom   time.Duration
	firstToken int32
	// parted: the other node needs to hear no more of it.
	parted bool
}

func (w *work) prompt() int { return len(w.r.Prompt) }

func (w *work) outputs() int { return len(w.ids) - len(w.r.Prompt) }

// maxNew is what it may still generate, for all that the scheduler knows.
func (w *work) maxNew() int { return max(0, w.maxTokens-w.outputs()) }

// append adds generated tokens, made up from the request and their place.
func (w *work) append(n int) {
	for range n {
		w.ids = append(w.ids, tokenAt(w.seed, w.outputs()))
	}
	w.r.Output = w.ids[w.prompt():len(w.ids):len(w.ids)]
}

// seedOf hashes a request's id (FNV-1a).
func seedOf(id string) uint64 {
	h := uint64(14695981039346656037)
	for i := range len(id) {
		h = (h ^ uint64(id[i])) * 1099511628211
	}
	return h
}

// Token ids above those of templates and below a vocabulary of 128 k.
const (
	firstToken = 256
	tokenRange = 128000
)

func tokenAt(seed uint64, i int) int32 {
	x := seed + uint64(i)*0x9e3779b97f4a7c15
	x = (x ^ x>>30) * 0xbf58476d1ce4e5b9
	x = (x ^ x>>27) * 0x94d049bb133111eb
	return int32(firstToken + (x^x>>31)%tokenRange)
}

func (s *Scheduler) move(w *work, to state) {
	s.counts[w.state]--
	s.counts[to]++
	w.state = to
}

type mode uint8

const (
	modePrefill mode = iota
	modeDecode
	modePrebuilt
	modeIdle // steps along with other DP groups
)

// entry is one request's part of a pass: prompt tokens [from, from+n), or a step of
// its decoding.
type entry struct {
	w      *work
	epoch  uint32
	from   int
	n      int
	last   bool // of the prompt
	decode bool
}

func (e *entry) stale() bool { return e.w.epoch != e.epoch }

// batch is one forward pass.
type batch struct {
	ledger.Batch
	mode    mode
	slot    int
	entries []entry
	pass    cost.Work

	launched    ledger.Reading
	start, done time.Duration
	// groups that prefill in this step, -1 without attention DP.
	groups int
	tally  tally
}

// tally is what a prefill batch's report says.
type tally struct {
	compute, hit int // tokens, all of them
	// Without tokens that are processed again after a retraction.
	input, device, host, storage int
}

func (s *Scheduler) newBatch(m mode, slot int) *batch {
	var b *batch
	if n := len(s.spare); n > 0 {
		b, s.spare = s.spare[n-1], s.spare[:n-1]
		*b = batch{entries: b.entries[:0]}
	} else {
		b = &batch{}
	}
	b.mode, b.slot, b.groups = m, slot, -1
	b.ID = s.rng.Uint64()
	return b
}

func (s *Scheduler) recycle(b *batch) {
	clear(b.entries)
	s.spare = append(s.spare, b)
}
