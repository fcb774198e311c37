// Copyright The otelcol-sglang Authors
// SPDX-License-Identifier: Apache-2.0

package trace // import "github.com/otelcol-sglang/otelcol-sglang/engine/trace"

import (
	"context"
	"sync"
	"sync/atomic"
	"time"

	"go.opentelemetry.io/collector/pdata/pcommon"
	"go.opentelemetry.io/collector/pdata/ptrace"

	"github.com/otelcol-sglang/otelcol-sglang/engine/clock"
	"github.com/otelcol-sglang/otelcol-sglang/internal/sglang"
)

// Stats count one process's spans since its start.
type Stats struct {
	// Exported and Failed spans left in requests that the sink took, and refused.
	Exported, Failed uint64
	// Dropped spans found the queue full, Silenced ones a process that is mute.
	Dropped, Silenced uint64
	Requests          uint64
	// LastError is of the last failed request, nil if none failed.
	LastError error
}

// exporter is a process's batch processor, as in OpenTelemetry's Python SDK: a
// full batch leaves at once, the rest when the delay has passed; while a request is
// under way nothing else leaves, and a full queue drops its oldest span. All but
// stats and work belong to the loop's goroutine, and to Shutdown afterwards.
type exporter struct {
	loop       *clock.Loop
	resource   pcommon.Resource
	out        Exporter
	delay      time.Duration
	batchSpans int

	queue queue
	// batch is the request under way.
	batch []span
	// cost is how long a request takes beyond what the sink takes.
	cost   time.Duration
	silent bool
	busy   bool
	closed bool
	// rounds counts the requests since the processor woke up.
	rounds int
	timed  bool
	armed  bool
	// due is when the processor wakes up next if no batch gets full.
	due time.Duration

	// work takes a batch to the goroutine that exports; nil on a virtual clock,
	// where time stands still while the sink works.
	work chan []span
	done sync.WaitGroup
	// ctx ends the request under way.
	ctx    context.Context
	cancel context.CancelFunc

	exported, failed, dropped, silenced, requests atomic.Uint64
	lastError                                     atomic.Pointer[error]
}

func (e *exporter) start() {
	e.ctx, e.cancel = context.WithCancel(context.Background())
	if e.loop.Virtual() {
		return
	}
	e.work = make(chan []span, 1)
	e.done.Go(func() {
		for batch := range e.work {
			e.send(e.ctx, batch)
			e.loop.Post(e.sent)
		}
	})
}

// put queues an ended span.
func (e *exporter) put(s *span) {
	if e.silent || e.closed {
		e.silenced.Add(1)
		return
	}
	if e.queue.push(s) {
		e.dropped.Add(1)
	}
	switch {
	case e.busy:
	case e.queue.n >= e.batchSpans:
		e.wake(false)
	default:
		e.arm()
	}
}

// arm makes sure that what is queued leaves when it is due.
func (e *exporter) arm() {
	if e.armed {
		return
	}
	e.armed = true
	now := e.loop.Now()
	if e.due < now {
		// The processor woke up for nothing meanwhile.
		e.due += (now - e.due + e.delay - 1) / e.delay * e.delay
	}
	e.loop.At(e.due, func() {
		e.armed = false
		switch {
		case e.closed || e.busy || e.queue.n == 0:
		case e.loop.Now() < e.due:
			e.arm()
		default:
			e.wake(true)
		}
	})
}

// wake exports full batches; a timed wake-up also exports one that is not full.
func (e *exporter) wake(timed bool) {
	e.busy, e.timed, e.rounds = true, timed, 0
	e.export()
}

func (e *exporter) export() {
	if e.closed {
		return
	}
	for e.queue.n >= e.batchSpans || e.queue.n > 0 && e.timed && e.rounds == 0 {
		e.rounds++
		e.batch = e.queue.take(e.batch[:0], e.batchSpans)
		if e.work != nil {
			e.work <- e.batch
			return
		}
		e.send(e.ctx, e.batch)
		if e.cost > 0 {
			e.loop.After(e.cost, e.export)
			return
		}
	}
	e.busy = false
	e.due = e.loop.Now() + e.delay
	if e.queue.n > 0 {
		e.arm()
	}
}

// sent goes on after a request in real time.
func (e *exporter) sent() {
	if e.cost > 0 {
		e.loop.After(e.cost, e.export)
		return
	}
	e.export()
}

// mute loses what is queued and all that comes, until it is told otherwise.
func (e *exporter) mute(on bool) {
	e.silent = on
	if on {
		e.silenced.Add(e.queue.clear())
	}
}

// send makes one request.
func (e *exporter) send(ctx context.Context, batch []span) {
	ctx, cancel := context.WithTimeout(ctx, sglang.ExportTimeoutSec*time.Second)
	defer cancel()
	n := uint64(len(batch))
	e.requests.Add(1)
	if err := e.out.Export(ctx, e.traces(batch)); err != nil {
		e.failed.Add(n)
		e.lastError.Store(&err)
		return
	}
	e.exported.Add(n)
}

func (e *exporter) traces(batch []span) ptrace.Traces {
	td := ptrace.NewTraces()
	rs := td.ResourceSpans().AppendEmpty()
	e.resource.CopyTo(rs.Resource())
	ss := rs.ScopeSpans().AppendEmpty()
	ss.Scope().SetName(sglang.ScopeName)
	spans := ss.Spans()
	spans.EnsureCapacity(len(batch))
	for i := range batch {
		batch[i].write(spans.AppendEmpty())
	}
	return td
}

// shutdown sends what is queued, unless ctx ends first. The loop stands still.
func (e *exporter) shutdown(ctx context.Context) error {
	if e.closed {
		return nil
	}
	e.closed = true
	defer e.cancel()
	defer context.AfterFunc(ctx, e.cancel)()
	if e.work != nil {
		close(e.work)
		e.done.Wait()
	}
	for e.queue.n > 0 && ctx.Err() == nil {
		e.batch = e.queue.take(e.batch[:0], e.batchSpans)
		e.send(ctx, e.batch)
	}
	e.dropped.Add(e.queue.clear())
	return e.out.Close()
}

func (e *exporter) stats() Stats {
	s := Stats{
		Exported: e.exported.Load(), Failed: e.failed.Load(), Requests: e.requests.Load(),
		Dropped: e.dropped.Load(), Silenced: e.silenced.Load(),
	}
	if err := e.lastError.Load(); err != nil {
		s.LastError = *err
	}
	return s
}
