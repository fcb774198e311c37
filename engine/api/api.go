// Copyright The otelcol-sglang Authors
// SPDX-License-Identifier: Apache-2.0

// Package api is the engine's HTTP service: the OpenAI endpoints, SGLang's own, and
// the pages that operators read. What it says follows release 0.5.23
// (srt/entrypoints).
package api // import "github.com/otelcol-sglang/otelcol-sglang/engine/api"

import (
	"context"
	"crypto/subtle"
	"encoding/json"
	"net/http"
	"strings"
	"sync/atomic"
	"time"

	"github.com/otelcol-sglang/otelcol-sglang/engine/args"
	"github.com/otelcol-sglang/otelcol-sglang/engine/clock"
	"github.com/otelcol-sglang/otelcol-sglang/engine/front"
	"github.com/otelcol-sglang/otelcol-sglang/engine/ledger"
	"github.com/otelcol-sglang/otelcol-sglang/engine/page"
)

// Version is the release of SGLang that the engine behaves like.
const Version = "0.5.23"

// maxBody bounds a request's body in bytes.
const maxBody = 32 << 20

// Engine is what the service needs of the engine behind it. Its functions are
// called on the loop's goroutine.
type Engine struct {
	Args *args.Args
	Loop *clock.Loop
	// Front is the one that runs: a restarted engine has another.
	Front func() *front.Front
	Book  ledger.TokenizerCollector
	// Metrics is the page; nil without --enable-metrics. It is called on the
	// request's goroutine.
	Metrics http.Handler
	// SetTraceLevel and Flush do what the endpoints of those names say; Flush is false
	// while requests run or wait.
	SetTraceLevel func(level int)
	Flush         func() bool
	// Settle brings up to date what grows with time, before the page is read.
	Settle func()
	// Loads are the schedulers', in the order of their DP rank.
	Loads func() []page.Load
	// Info is added to /server_info.
	Info func() map[string]any
	// APIKey protects all endpoints but health and metrics; "" for none.
	APIKey string
	// LaunchCommand is how the engine was started.
	LaunchCommand string
}

// Service answers HTTP.
type Service struct {
	Engine
	mux     *http.ServeMux
	started time.Time
	closing atomic.Bool
	// pageFault, if set, may answer in the place of the page, and pageWait is how long
	// the page takes, in ns (faults).
	pageFault atomic.Pointer[PageFault]
	pageWait  atomic.Int64
	// down: connections are closed without an answer (a crash).
	down atomic.Bool
}

// New makes a service.
func New(e Engine) *Service {
	s := &Service{Engine: e, mux: http.NewServeMux(), started: time.Now()}
	for pattern, h := range s.routes() {
		s.mux.HandleFunc(pattern, h)
	}
	return s
}

func (s *Service) routes() map[string]http.HandlerFunc {
	m := map[string]http.HandlerFunc{
		"POST /v1/chat/completions": s.chat, "POST /v1/completions": s.completions,
		"POST /v1/embeddings": s.embeddings,
		"POST /generate":      s.generate, "PUT /generate": s.generate,
		"GET /v1/models": s.models, "GET /v1/models/{model...}": s.model,
		"GET /health": s.health, "GET /health_generate": s.health, "GET /ready": s.ready,
		"GET /server_info": s.serverInfo, "GET /get_server_info": s.serverInfo,
		"GET /model_info": s.modelInfo, "GET /get_model_info": s.modelInfo,
		"GET /v1/loads":        s.loads,
		"GET /set_trace_level": s.setTraceLevel, "POST /set_trace_level": s.setTraceLevel,
		"GET /flush_cache": s.flushCache, "POST /flush_cache": s.flushCache,
		"POST /abort_request": s.abortRequest,
	}
	if s.Metrics != nil {
		// The engine mounts the page at all that begins so; only a proxy redirects.
		m["GET "+pathMetrics], m["GET "+pathMetrics+"/{$}"] = s.page, s.page
	}
	return m
}

// Close lets probes fail, so that no client comes any more.
func (s *Service) Close() { s.closing.Store(true) }

const pathMetrics = "/metrics"

// PageFault answers in the place of the metrics page, or leaves the request to it: then
// it is false.
type PageFault func(w http.ResponseWriter, r *http.Request) bool

// FaultPage puts f before the metrics page; nil ends that.
func (s *Service) FaultPage(f PageFault) {
	if f == nil {
		s.pageFault.Store(nil)
		return
	}
	s.pageFault.Store(&f)
}

// SlowPage lets the metrics page wait before it answers; 0 heals.
func (s *Service) SlowPage(d time.Duration) { s.pageWait.Store(int64(d)) }

// SetDown closes connections without an answer, as if nobody listened.
func (s *Service) SetDown(down bool) { s.down.Store(down) }

// ServeHTTP implements [http.Handler].
func (s *Service) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	if s.down.Load() {
		panic(http.ErrAbortHandler)
	}
	if !s.allowed(r) {
		writeJSON(w, http.StatusUnauthorized, map[string]string{"error": "Unauthorized"})
		return
	}
	handler, pattern := s.mux.Handler(r)
	book := &booked{ResponseWriter: w, loop: s.Loop}
	book.begin(func() *front.Door { return s.Front().Door }, template(pattern, r), r.Method, r.Header.Get(headerRoutingKey))
	defer book.end(r.Context())
	switch {
	case pattern != "":
		r.Body = http.MaxBytesReader(book, r.Body, maxBody)
		s.mux.ServeHTTP(book, r)
	case otherMethod(handler, r):
		writeJSON(book, http.StatusMethodNotAllowed, map[string]string{"detail": "Method Not Allowed"})
	default:
		writeJSON(book, http.StatusNotFound, map[string]string{"detail": "Not Found"})
	}
}

const headerRoutingKey = "x-smg-routing-key"

// otherMethod tells whether the path is served, by another method.
func otherMethod(h http.Handler, r *http.Request) bool {
	p := &probe{header: http.Header{}}
	h.ServeHTTP(p, r)
	return p.status == http.StatusMethodNotAllowed
}

// probe is a writer that only wants to know the status.
type probe struct {
	header http.Header
	status int
}

func (p *probe) Header() http.Header         { return p.header }
func (p *probe) Write(b []byte) (int, error) { return len(b), nil }
func (p *probe) WriteHeader(status int)      { p.status = status }

// template is the route as the engine's framework writes it; the path where no
// route is.
func template(pattern string, r *http.Request) string {
	_, path, ok := strings.Cut(pattern, " ")
	if !ok {
		return r.URL.Path
	}
	return strings.Replace(strings.TrimSuffix(path, "/{$}"), "...}", ":path}", 1)
}

func (s *Service) allowed(r *http.Request) bool {
	path := r.URL.Path
	for _, open := range []string{"/health", "/ready", "/metrics"} {
		if strings.HasPrefix(path, open) {
			return true
		}
	}
	if s.APIKey == "" {
		return true
	}
	scheme, token, ok := strings.Cut(r.Header.Get("Authorization"), " ")
	return ok && strings.EqualFold(scheme, "bearer") && subtle.ConstantTimeCompare([]byte(token), []byte(s.APIKey)) == 1
}

// booked books a request.
type booked struct {
	http.ResponseWriter
	loop  *clock.Loop
	visit *front.Visit // of the loop's goroutine
	begun bool
}

// begin asks for the door on the loop.
func (b *booked) begin(door func() *front.Door, endpoint, method, key string) {
	b.loop.Post(func() { b.visit = door().Open(endpoint, method, key) })
}

// WriteHeader implements [http.ResponseWriter].
func (b *booked) WriteHeader(status int) {
	b.answered(status)
	b.ResponseWriter.WriteHeader(status)
}

// Write implements [http.ResponseWriter].
func (b *booked) Write(p []byte) (int, error) {
	b.answered(http.StatusOK)
	return b.ResponseWriter.Write(p)
}

// Unwrap lets [http.ResponseController] flush.
func (b *booked) Unwrap() http.ResponseWriter { return b.ResponseWriter }

func (b *booked) answered(status int) {
	if !b.begun {
		b.begun = true
		b.loop.Post(func() { b.visit.Answered(status) })
	}
}

// end is for a handler that wrote nothing: its client is gone, or gets an empty 200.
func (b *booked) end(ctx context.Context) {
	if ctx.Err() == nil {
		b.answered(http.StatusOK)
		return
	}
	b.loop.Post(func() { b.visit.Gone() })
}

// do runs f on the loop and waits; false if the client went first.
func (s *Service) do(ctx context.Context, f func()) bool {
	done := make(chan struct{})
	s.Loop.Post(func() {
		f()
		close(done)
	})
	select {
	case <-done:
		return true
	case <-ctx.Done():
		return false
	}
}

func writeJSON(w http.ResponseWriter, status int, v any) {
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(status)
	// The client may be gone; nobody else would want to know.
	_ = json.NewEncoder(w).Encode(v)
}
