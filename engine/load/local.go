// Copyright The otelcol-sglang Authors
// SPDX-License-Identifier: Apache-2.0

package load // import "github.com/otelcol-sglang/otelcol-sglang/engine/load"

import (
	"net/http"

	"github.com/otelcol-sglang/otelcol-sglang/engine/front"
	"github.com/otelcol-sglang/otelcol-sglang/engine/ledger"
)

// Local is an engine in this process, on the driver's loop.
type Local struct {
	Front *front.Front
	// Prefill is the other half of a PD pair, whose answer nobody waits for; nil
	// otherwise.
	Prefill *front.Front
}

var _ Target = (*Local)(nil)

// endpoints by kind.
var endpoints = [...]string{
	ledger.KindGenerate: "/generate", ledger.KindCompletion: "/v1/completions", ledger.KindChat: "/v1/chat/completions",
	ledger.KindEmbedding: "/v1/embeddings",
}

// Do implements [Target].
func (l *Local) Do(c *Call, events func(Event)) (hangUp func()) {
	if l.Prefill != nil {
		do(l.Prefill, c, func(Event) {})
	}
	return do(l.Front, c, events)
}

func do(f *front.Front, c *Call, events func(Event)) (hangUp func()) {
	r := c.request(f)
	visit := f.Door.Open(endpoints[c.Kind], http.MethodPost, c.RoutingKey)
	if err := front.Check(f.Args, r); err != nil {
		return fail(f, visit, err, events)
	}
	left := c.N
	cancel, err := f.Submit(r, func(o front.Output) {
		if left == 0 { // a sample was refused, and with it the call
			return
		}
		if o.Done {
			left--
		}
		e, status := eventOf(o)
		if e.Failed != nil {
			left = 0
		}
		e.Done = left == 0
		if e.Done || c.Stream {
			visit.Answered(status)
		}
		events(e)
	})
	if err != nil {
		return fail(f, visit, err, events)
	}
	return cancel
}

func fail(f *front.Front, visit *front.Visit, err error, events func(Event)) (hangUp func()) {
	visit.Answered(http.StatusBadRequest)
	f.Loop.After(0, func() { events(Event{At: f.Loop.Now(), Done: true, Failed: err}) })
	return func() {}
}

func eventOf(o front.Output) (e Event, status int) {
	r := o.Request
	e = Event{At: o.At, Tokens: o.Tokens, Done: o.Done}
	if !o.Done || r.Finish != ledger.FinishAbort {
		return e, http.StatusOK
	}
	if r.AbortStatus == 0 {
		e.Aborted = true
		return e, http.StatusOK
	}
	e.Failed = &ErrRefused{Status: r.AbortStatus, Message: r.AbortMessage}
	if r.Stream { // the answer has begun
		return e, http.StatusOK
	}
	return e, r.AbortStatus
}

func (c *Call) request(f *front.Front) *ledger.Request {
	id := c.ID
	if id == "" {
		id = f.NewID()
	}
	r := ledger.NewRequest(id, c.Kind)
	r.Prompt, r.OutputLen, r.MaxTokens = c.Prompt, c.Output, c.maxTokens()
	r.Stream, r.N, r.Priority = c.Stream, c.N, c.Priority
	r.LoRA, r.RoutingKey, r.BootstrapRoom = c.LoRA, c.RoutingKey, c.Room
	t := temperature
	r.Temperature = &t
	if c.Kind == ledger.KindEmbedding {
		r.MaxTokens, r.OutputLen, r.Temperature = 0, 0, nil
	}
	return r
}

const temperature = 0.7

// maxTokens is what a client asks for, who does not know where the model stops: it
// is a round number above, and met now and then.
func (c *Call) maxTokens() int {
	const step = 128
	return max(1, (c.Output+step-1)/step*step)
}
