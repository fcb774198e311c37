// Copyright The otelcol-sglang Authors
// SPDX-License-Identifier: Apache-2.0

package trace // import "github.com/otelcol-sglang/otelcol-sglang/engine/trace"

import (
	"context"
	"sync"

	"go.opentelemetry.io/collector/pdata/ptrace"
)

// Sink is where the processes' exports go.
type Sink interface {
	// Open makes a process's own connection.
	Open(p Process) (Exporter, error)
}

// Exporter is one process's connection. Calls do not overlap.
type Exporter interface {
	// Export sends one request; the traces are the exporter's from there on.
	Export(ctx context.Context, td ptrace.Traces) error
	Close() error
}

// Recorder keeps exports in memory, in the order in which they were made.
type Recorder struct {
	mu sync.Mutex
	// exports is guarded by mu.
	exports []Export
}

// Export is one export request.
type Export struct {
	From   Process
	Traces ptrace.Traces
}

// NewRecorder returns an empty recorder.
func NewRecorder() *Recorder { return &Recorder{} }

var _ Sink = (*Recorder)(nil)

// Open implements [Sink].
func (r *Recorder) Open(p Process) (Exporter, error) { return &recording{to: r, from: p}, nil }

// Exports are all requests so far.
func (r *Recorder) Exports() []Export {
	r.mu.Lock()
	defer r.mu.Unlock()
	return append([]Export(nil), r.exports...)
}

type recording struct {
	to   *Recorder
	from Process
}

func (e *recording) Export(_ context.Context, td ptrace.Traces) error {
	e.to.mu.Lock()
	defer e.to.mu.Unlock()
	e.to.exports = append(e.to.exports, Export{From: e.from, Traces: td})
	return nil
}

func (*recording) Close() error { return nil }
