// Copyright The otelcol-sglang Authors
// SPDX-License-Identifier: Apache-2.0

package api // import "github.com/otelcol-sglang/otelcol-sglang/engine/api"

import (
	"context"
	"errors"
	"net/http"
	"sync"
	"time"

	"github.com/otelcol-sglang/otelcol-sglang/engine/front"
	"github.com/otelcol-sglang/otelcol-sglang/engine/ledger"
)

// part is one output as a handler needs it: taken on the loop, read elsewhere.
type part struct {
	id    string
	index int
	// tokens are new, total is their number so far.
	tokens         []int32
	total          int
	done           bool
	prompt, cached int
	retractions    int
	verifyCalls    int
	finish         ledger.FinishReason
	abortMessage   string
	abortStatus    int
	e2e, queued    time.Duration
}

func partOf(o front.Output) part {
	r := o.Request
	p := part{
		id: r.ID, index: o.Index, tokens: o.Tokens, total: o.Total, done: o.Done,
		prompt: len(r.Prompt), cached: r.Cached.Total(), retractions: r.Retractions,
	}
	if o.Done {
		p.finish, p.abortMessage, p.abortStatus = r.Finish, r.AbortMessage, r.AbortStatus
		p.e2e, p.queued, p.verifyCalls = o.At-r.Front.Created, r.Sched.Queued, r.VerifyCalls
	}
	return p
}

// failed tells whether the request was ended with an error that has a status.
func (p *part) failed() bool {
	return p.finish == ledger.FinishAbort && p.abortStatus >= http.StatusBadRequest
}

// refuse answers with the error; false if there was none.
func (p *part) refuse(w http.ResponseWriter) bool {
	if p.failed() {
		writeJSON(w, p.abortStatus, openAIError(p.abortStatus, kindOfStatus(p.abortStatus), p.abortMessage))
	}
	return p.failed()
}

// pipe brings a request's parts from the loop to its handler. A slow client holds
// nobody up; what waits is bounded by the request's own tokens.
type pipe struct {
	mu    sync.Mutex
	parts []part // guarded by mu
	wake  chan struct{}
	// left is the number of samples that have not ended; of the handler.
	left   int
	cancel func()
	loop   interface{ Post(func()) }
}

func (p *pipe) put(o front.Output) {
	p.mu.Lock()
	p.parts = append(p.parts, partOf(o))
	p.mu.Unlock()
	select {
	case p.wake <- struct{}{}:
	default:
	}
}

var errGone = errors.New("the client is gone")

// next waits for parts; it is empty at the end. Where the client goes first, the
// request is aborted.
func (p *pipe) next(ctx context.Context) ([]part, error) {
	for p.left > 0 {
		p.mu.Lock()
		parts := p.parts
		p.parts = nil
		p.mu.Unlock()
		if len(parts) > 0 {
			p.ended(parts)
			return parts, nil
		}
		select {
		case <-p.wake:
		case <-ctx.Done():
			p.loop.Post(p.cancel)
			return nil, errGone
		}
	}
	return nil, nil
}

func (p *pipe) ended(parts []part) {
	for i := range parts {
		if parts[i].done {
			p.left--
		}
		if parts[i].failed() {
			p.left = 0 // of n samples, none follows one that was refused
		}
	}
}

// submit hands requests to the front end.
func (s *Service) submit(ctx context.Context, requests ...*ledger.Request) (*pipe, error) {
	p := &pipe{wake: make(chan struct{}, 1), loop: s.Loop, cancel: func() {}}
	var failed error
	if !s.do(ctx, func() { failed = s.submitAll(p, requests) }) {
		s.Loop.Post(func() { p.cancel() })
		return nil, errGone
	}
	return p, failed
}

// submitAll runs on the loop. Samples are numbered through all prompts.
func (s *Service) submitAll(p *pipe, requests []*ledger.Request) error {
	for _, r := range requests {
		if r.ID == "" {
			r.ID = s.Front().NewID()
		}
		first := p.left
		p.left += r.N
		cancel, err := s.Front().Submit(r, func(o front.Output) {
			o.Index += first
			p.put(o)
		})
		if err != nil {
			p.cancel()
			return err
		}
		before := p.cancel
		p.cancel = func() {
			before()
			cancel()
		}
	}
	return nil
}

// collect waits for the end of all samples and gives one part for each, with all of
// its tokens.
func (p *pipe) collect(ctx context.Context) ([]part, error) {
	whole := make([]part, p.left)
	for {
		parts, err := p.next(ctx)
		if err != nil {
			return nil, err
		}
		if len(parts) == 0 {
			return whole, nil
		}
		for _, x := range parts {
			x.tokens = append(whole[x.index].tokens, x.tokens...)
			whole[x.index] = x
			if x.failed() {
				return []part{x}, nil
			}
		}
	}
}

// events writes server-sent events.
type events struct {
	w http.ResponseWriter
	c *http.ResponseController
}

// startEvents sends the answer's header.
func startEvents(w http.ResponseWriter) events {
	w.Header().Set("Content-Type", "text/event-stream; charset=utf-8")
	w.Header().Set("Cache-Control", "no-cache")
	w.WriteHeader(http.StatusOK)
	return events{w, http.NewResponseController(w)}
}

const (
	eventPrefix = "data: "
	eventEnd    = "\n\n"
	eventDone   = "[DONE]"
)

// send writes one event at once; an error means that the client is gone, which the
// request's context says too.
func (e events) send(data []byte) {
	_, _ = e.w.Write([]byte(eventPrefix))
	_, _ = e.w.Write(data)
	_, _ = e.w.Write([]byte(eventEnd))
}

func (e events) flush() { _ = e.c.Flush() }

func (e events) done() {
	e.send([]byte(eventDone))
	e.flush()
}
