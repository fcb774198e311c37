// Copyright The otelcol-sglang Authors
// SPDX-License-Identifier: Apache-2.0

package page // import "github.com/otelcol-sglang/otelcol-sglang/engine/page"

import (
	"strconv"
	"time"

	"github.com/otelcol-sglang/otelcol-sglang/internal/sglang"
)

// httpServer is the book of one server process.
type httpServer struct {
	page                *Page
	requests, responses *vec[Counter]
	active, keys        *vec[Gauge]
	endpoints           map[string]struct{}
}

func newHTTP(r *role) *httpServer {
	h := &httpServer{
		page:      r.page,
		requests:  r.counter(sglang.FamilyHTTPRequestsTotal),
		responses: r.counter(sglang.FamilyHTTPResponsesTotal),
		active:    r.gauge(sglang.FamilyHTTPRequestsActive),
		keys:      r.gauge(sglang.FamilyRoutingKeysActive),
		endpoints: map[string]struct{}{},
	}
	// Without labels it is there from the start.
	set(h.keys.with(), 0)
	return h
}

// template bounds the endpoints: they are templates, so few; a caller's mistake
// must not fill the page.
func (h *httpServer) template(endpoint string) string {
	if _, ok := h.endpoints[endpoint]; ok {
		return endpoint
	}
	if len(h.endpoints) >= h.page.limit {
		return Overflow
	}
	h.endpoints[endpoint] = struct{}{}
	return endpoint
}

// Request implements [ledger.HTTPCollector].
func (h *httpServer) Request(endpoint, method string) {
	add(h.requests.with(h.template(endpoint), method), 1)
}

// Response implements [ledger.HTTPCollector].
func (h *httpServer) Response(endpoint, method string, status int) {
	add(h.responses.with(h.template(endpoint), strconv.Itoa(status), method), 1)
}

// Active implements [ledger.HTTPCollector].
func (h *httpServer) Active(endpoint, method string, delta int) {
	for _, g := range h.active.with(h.template(endpoint), method) {
		g.instrument.Add(float64(delta))
	}
}

// RoutingKeys implements [ledger.HTTPCollector].
func (h *httpServer) RoutingKeys(active int) { set(h.keys.with(), float64(active)) }

// experts is the book of the expert dispatch.
type experts struct{ perGPU *vec[Histogram] }

func newExperts(r *role) experts { return experts{r.histogram(sglang.FamilyEPLBGPUPhysicalCount)} }

// Dispatched implements [ledger.ExpertCollector].
func (e experts) Dispatched(layer int, perGPU []int) {
	h := e.perGPU.with(strconv.Itoa(layer))
	for _, n := range perGPU {
		observe(h, float64(n), 1)
	}
}

// processes is the book of processes' CPU time.
type processes struct{ cpu *vec[Counter] }

// ProcessCPU implements [ledger.ProcessCollector].
func (p processes) ProcessCPU(component string, d time.Duration) {
	add(p.cpu.with(component), d.Seconds())
}
