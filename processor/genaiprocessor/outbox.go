// Copyright The otelcol-sglang Authors
// SPDX-License-Identifier: Apache-2.0

package genaiprocessor // import "github.com/otelcol-sglang/otelcol-sglang/processor/genaiprocessor"

import (
	"context"
	"sync"
	"time"

	"go.opentelemetry.io/collector/consumer"
	"go.opentelemetry.io/collector/consumer/consumererror"
	"go.opentelemetry.io/collector/pdata/ptrace"
)

// outbox hands finished spans on, on a goroutine of its own. Senders were
// acknowledged long ago, so a retryable error keeps the spans.
type outbox struct {
	next  consumer.Traces
	limit int
	tel   *telemetry

	mu    sync.Mutex
	items []*held // guarded by mu
	bytes int     // guarded by mu; what is being sent counts until it is taken

	wake chan struct{}
}

const (
	maxSend      = 512 // spans in one call
	linger       = 5 * time.Millisecond
	firstBackoff = 50 * time.Millisecond
	lastBackoff  = 5 * time.Second
)

func newOutbox(next consumer.Traces, limit int, tel *telemetry) *outbox {
	return &outbox{next: next, limit: limit, tel: tel, wake: make(chan struct{}, 1)}
}

// put takes spans over; it never blocks. Who fills it asks full before.
func (o *outbox) put(items ...*held) {
	if len(items) == 0 {
		return
	}
	o.mu.Lock()
	o.items = append(o.items, items...)
	for _, h := range items {
		o.bytes += h.bytes
	}
	o.mu.Unlock()
	select {
	case o.wake <- struct{}{}:
	default:
	}
}

func (o *outbox) full() bool { return o.held() > o.limit }

func (o *outbox) held() int {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.bytes
}

func (o *outbox) len() int {
	o.mu.Lock()
	defer o.mu.Unlock()
	return len(o.items)
}

func (o *outbox) take() []*held {
	o.mu.Lock()
	defer o.mu.Unlock()
	n := min(len(o.items), maxSend)
	items := o.items[:n:n]
	if o.items = o.items[n:]; len(o.items) == 0 {
		o.items = nil
	}
	return items
}

// run sends until ctx ends; what is left then is flush's. It lingers after it was
// woken: to wake it for each root costs more than to make one, and the next
// component likes fewer calls.
func (o *outbox) run(ctx context.Context) {
	for {
		select {
		case <-ctx.Done():
			return
		case <-o.wake:
		}
		select {
		case <-ctx.Done():
			return
		case <-time.After(linger):
			o.flush(ctx)
		}
	}
}

// flush sends all there is; spans that were not taken when ctx ends stay.
func (o *outbox) flush(ctx context.Context) {
	for items := o.take(); len(items) > 0; items = o.take() {
		all := merge(items)
		sent := o.send(ctx, all.traces)
		o.mu.Lock()
		if sent {
			o.bytes -= all.bytes
		} else {
			o.items = append([]*held{all}, o.items...)
		}
		o.mu.Unlock()
		if !sent {
			return
		}
	}
}

// send reports false if ctx ended before the spans were taken or lost for good.
func (o *outbox) send(ctx context.Context, td ptrace.Traces) bool {
	spans := int64(td.SpanCount())
	for backoff := firstBackoff; ; backoff = min(2*backoff, lastBackoff) {
		err := o.next.ConsumeTraces(ctx, o.attempt(td))
		switch {
		case err == nil:
			return true
		case consumererror.IsPermanent(err):
			o.tel.lostSpans.add("permanent_error", spans)
			return true
		}
		o.tel.retries.add(1)
		select {
		case <-ctx.Done():
			return false
		case <-time.After(backoff):
		}
	}
}

// attempt is what one attempt gives away: a copy to a consumer that changes
// what it gets, for it may do so and fail.
func (o *outbox) attempt(td ptrace.Traces) ptrace.Traces {
	if !o.next.Capabilities().MutatesData {
		return td
	}
	out := ptrace.NewTraces()
	td.CopyTo(out)
	return out
}

// discard counts what could not be handed on.
func (o *outbox) discard() {
	o.mu.Lock()
	defer o.mu.Unlock()
	for _, h := range o.items {
		o.tel.lostSpans.add("shutdown", int64(h.traces.SpanCount()))
	}
	o.items, o.bytes = nil, 0
}

// merge moves all into the first.
func merge(items []*held) *held {
	all := items[0]
	for _, h := range items[1:] {
		h.traces.ResourceSpans().MoveAndAppendTo(all.traces.ResourceSpans())
		all.bytes += h.bytes
	}
	return all
}
