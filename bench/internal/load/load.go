// Copyright The otelcol-sglang Authors
// SPDX-License-Identifier: Apache-2.0

// Package load makes what the processes of one engine export for some requests:
// span for span in the shape of testdata/captures/traces (SGLang at trace level 3),
// encoded beforehand, each batch with the time at which it is due.
package load // import "github.com/otelcol-sglang/otelcol-sglang/bench/internal/load"

import (
	"math/rand/v2"
	"time"
)

// Shape says what the engine does.
type Shape struct {
	// TP is the number of tensor-parallel ranks, each a process beside the API server.
	TP int
	// Slots is how many requests decode at a time; the next one starts where one ends.
	Slots int
	// Requests is how many are served, MinTokens to MaxTokens decode steps each.
	Requests, MinTokens, MaxTokens int
	// Step is the time of one decode step, in which each rank ends one span per slot.
	Step time.Duration
	// BatchSpans and Delay close a process's batch: so many spans, or so old.
	BatchSpans int
	Delay      time.Duration
	// Seed makes trace and span ids.
	Seed uint64
}

// Batch is one request of OTLP.
type Batch struct {
	// Due is the time since the load's start.
	Due   time.Duration
	Spans int
	// Body is an ExportTraceServiceRequest.
	Body []byte
}

// Load is what the processes export: the API server's batches first, then each rank's.
type Load struct {
	Processes              [][]Batch
	Requests, Spans, Bytes int
}

// Make makes the load; its spans' times begin at start.
func Make(s Shape, start time.Time) (Load, error) {
	e := &engine{shape: s, start: start, rand: rand.New(rand.NewPCG(s.Seed, 0)), writers: make([]*writer, s.TP+1)}
	for i := range e.writers {
		e.writers[i] = newWriter(s, e.rand.Uint64())
	}
	e.serve()
	l := Load{Requests: s.Requests}
	for _, w := range e.writers {
		if err := w.close(); err != nil {
			return Load{}, err
		}
		l.Processes = append(l.Processes, w.done)
		for _, b := range w.done {
			l.Spans += b.Spans
			l.Bytes += len(b.Body)
		}
	}
	return l, nil
}

// Duration is the time at which the last batch is due.
func (l Load) Duration() time.Duration {
	var last time.Duration
	for _, batches := range l.Processes {
		if n := len(batches); n > 0 {
			last = max(last, batches[n-1].Due)
		}
	}
	return last
}
