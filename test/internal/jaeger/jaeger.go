// Copyright The otelcol-sglang Authors
// SPDX-License-Identifier: Apache-2.0

// Package jaeger runs a Jaeger and asks it what its user interface would.
package jaeger // import "github.com/otelcol-sglang/otelcol-sglang/test/internal/jaeger"

import (
	"encoding/json"
	"fmt"
	"net/http"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/otelcol-sglang/otelcol-sglang/test/internal/tool"
)

const startLimit = 30 * time.Second

// config is Jaeger with its spans in memory.
const config = `
service:
  extensions: [jaeger_storage, jaeger_query]
  telemetry: {metrics: {level: none}, logs: {level: warn}}
  pipelines:
    traces: {receivers: [otlp], exporters: [jaeger_storage_exporter]}
extensions:
  jaeger_storage: {backends: {memory: {memory: {max_traces: 10000}}}}
  jaeger_query:
    storage: {traces: memory}
    http: {endpoint: "localhost:%[1]d"}
    grpc: {endpoint: "localhost:%[2]d"}
receivers:
  otlp: {protocols: {grpc: {endpoint: "localhost:%[3]d"}}}
exporters:
  jaeger_storage_exporter: {trace_storage: memory}
`

// Server is a Jaeger that runs.
type Server struct {
	t testing.TB
	// OTLP takes spans over gRPC: host:port.
	OTLP string
	url  string
}

// Start runs a Jaeger until the test's end.
func Start(t testing.TB) *Server {
	t.Helper()
	program := filepath.Join(tool.Root(), "bin", "jaeger")
	if _, err := os.Stat(program); err != nil {
		tool.Missing(t, program, "make e2e-jaeger builds it")
	}
	dir := t.TempDir()
	query, grpc, otlp := tool.FreePort(t), tool.FreePort(t), tool.FreePort(t)
	file := filepath.Join(dir, "jaeger.yaml")
	require.NoError(t, os.WriteFile(file, fmt.Appendf(nil, config, query, grpc, otlp), 0o600))
	log, err := os.Create(filepath.Join(dir, "log"))
	require.NoError(t, err)
	cmd := exec.Command(program, "--config", file)
	cmd.Stdout, cmd.Stderr = log, log
	require.NoError(t, cmd.Start())
	t.Cleanup(func() {
		_ = cmd.Process.Signal(syscall.SIGTERM)
		_ = cmd.Wait()
		_ = log.Close()
	})
	s := &Server{t: t, OTLP: tool.Address(otlp), url: "http://" + tool.Address(query)}
	if !tool.Until(startLimit, s.ready) {
		raw, _ := os.ReadFile(log.Name())
		t.Fatalf("Jaeger did not start:\n%s", raw)
	}
	return s
}

func (s *Server) ready() bool {
	resp, err := http.Get(s.url + "/api/services")
	if err != nil {
		return false
	}
	defer resp.Body.Close()
	return resp.StatusCode == http.StatusOK
}

// Env makes a collector send here.
func (s *Server) Env() []string { return []string{"OTLP_ENDPOINT=" + s.OTLP, "OTLP_INSECURE=true"} }

// Trace is one as the user interface gets it.
type Trace struct {
	TraceID   string
	Spans     []Span
	Processes map[string]struct{ ServiceName string }
}

// Span is a row of the waterfall.
type Span struct {
	SpanID, OperationName, ProcessID string
	StartTime, Duration              int64 // µs
	References                       []Reference
	Tags                             []Tag
	// Warnings are what Jaeger finds wrong with the span: clocks, ids, parents.
	Warnings []string
}

// Reference leads to a parent (CHILD_OF) or a link's target (FOLLOWS_FROM).
type Reference struct{ RefType, TraceID, SpanID string }

// Tag is an attribute.
type Tag struct {
	Key   string
	Value any
}

// Tag is the value of an attribute, or nil.
func (s Span) Tag(key string) any {
	for _, t := range s.Tags {
		if t.Key == key {
			return t.Value
		}
	}
	return nil
}

// Parent is the id of the span above, or empty.
func (s Span) Parent() string {
	for _, r := range s.References {
		if r.RefType == "CHILD_OF" {
			return r.SpanID
		}
	}
	return ""
}

// get asks the API that the user interface asks.
func (s *Server) get(path string, data any) error {
	resp, err := http.Get(s.url + path)
	if err != nil {
		return err
	}
	defer resp.Body.Close()
	answer := struct{ Data any }{data}
	if resp.StatusCode != http.StatusOK {
		return fmt.Errorf("%s: HTTP status %d", path, resp.StatusCode)
	}
	return json.NewDecoder(resp.Body).Decode(&answer)
}

// Services are the entries of the search form.
func (s *Server) Services() []string {
	s.t.Helper()
	var names []string
	require.NoError(s.t, s.get("/api/services", &names))
	return names
}

// Search finds traces, as the search form does.
func (s *Server) Search(query url.Values) []Trace {
	s.t.Helper()
	var traces []Trace
	require.NoError(s.t, s.get("/api/traces?"+query.Encode(), &traces))
	return traces
}

// Trace is one trace, or false if there is none (yet).
func (s *Server) Trace(id string) (Trace, bool) {
	s.t.Helper()
	var traces []Trace
	if err := s.get("/api/traces/"+id, &traces); err != nil || len(traces) != 1 {
		return Trace{}, false
	}
	return traces[0], true
}

// Tree draws the waterfall's left side: names, indented below their parents, in
// the order of their start.
func (t Trace) Tree() string {
	below := map[string][]Span{}
	for _, s := range t.Spans {
		below[s.Parent()] = append(below[s.Parent()], s)
	}
	var b strings.Builder
	var draw func(parent, indent string)
	draw = func(parent, indent string) {
		children := below[parent]
		slices.SortStableFunc(children, func(a, b Span) int {
			if a.StartTime != b.StartTime {
				return int(a.StartTime - b.StartTime)
			}
			return strings.Compare(a.OperationName, b.OperationName)
		})
		for _, s := range children {
			fmt.Fprintf(&b, "%s%s: %s\n", indent, t.Processes[s.ProcessID].ServiceName, s.OperationName)
			draw(s.SpanID, indent+"  ")
		}
	}
	draw("", "")
	return b.String()
}
