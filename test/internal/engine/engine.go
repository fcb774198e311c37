// Copyright The otelcol-sglang Authors
// SPDX-License-Identifier: Apache-2.0

// Package engine serves recorded metrics pages as an engine does.
package engine // import "github.com/otelcol-sglang/otelcol-sglang/test/internal/engine"

import (
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"

	dto "github.com/prometheus/client_model/go"
	"github.com/prometheus/common/expfmt"
	"github.com/prometheus/common/model"
	"github.com/stretchr/testify/require"

	"github.com/otelcol-sglang/otelcol-sglang/test/internal/tool"
)

// contentType is prometheus_client's.
const contentType = "text/plain; version=0.0.4; charset=utf-8"

// serverInfo is a part of the engine's answer, with something that must not leave.
const serverInfo = `{"version":"0.5.23","tp_size":4,"served_model_name":"sim","api_key":"secret-key"}`

// Engine is a server of one page at a time.
type Engine struct {
	t testing.TB
	// Address is its host:port.
	Address string
	page    atomic.Pointer[string]
	scrapes atomic.Int64
	server  *http.Server
}

// Page reads a recorded page, such as metrics-priority.t1.
func Page(t testing.TB, name string) string {
	t.Helper()
	raw, err := os.ReadFile(filepath.Join(tool.Root(), "testdata", "captures", "metrics", name+".prom"))
	require.NoError(t, err)
	return string(raw)
}

// Start serves until the test's end or Stop.
func Start(t testing.TB, page string) *Engine {
	t.Helper()
	e := &Engine{t: t, Address: tool.Address(tool.FreePort(t))}
	e.Show(page)
	mux := http.NewServeMux()
	mux.HandleFunc("GET /metrics", func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", contentType)
		_, _ = fmt.Fprint(w, *e.page.Load())
		e.scrapes.Add(1)
	})
	mux.HandleFunc("GET /server_info", func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", "application/json")
		_, _ = fmt.Fprint(w, serverInfo)
	})
	l := tool.Listen(t, e.Address)
	e.server = &http.Server{Handler: mux}
	go func() { _ = e.server.Serve(l) }()
	t.Cleanup(e.Stop)
	return e
}

// Show serves another page.
func (e *Engine) Show(page string) { e.page.Store(&page) }

// Stop ends the engine and its connections.
func (e *Engine) Stop() { _ = e.server.Close() }

// Scrapes is how often the page was read.
func (e *Engine) Scrapes() int64 { return e.scrapes.Load() }

// Families parses a page.
func Families(t testing.TB, page string) map[string]*dto.MetricFamily {
	t.Helper()
	parser := expfmt.NewTextParser(model.UTF8Validation)
	families, err := parser.TextToMetricFamilies(strings.NewReader(page))
	require.NoError(t, err)
	return families
}
