// Copyright The otelcol-sglang Authors
// SPDX-License-Identifier: Apache-2.0

package record

import (
	"fmt"
	"io"
	"maps"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/otelcol-sglang/otelcol-sglang/engine/args"
)

// realFor is how long the real programs run. Some of it they need to start.
const realFor = 40 * time.Second

// notOurs are series of the collector's own page that parts make which the recorder
// does without: exporters, memory_limiter, the OTLP receiver, the process itself.
var notOurs = regexp.MustCompile(`^(otelcol_(exporter|process|processor_(incoming|outgoing|memory_limiter)|receiver_(accepted|refused|failed))_|promhttp_|target_info)`)

// TestSpelling: the built collector with the built simulator shows the names, labels
// and bounds that the recorder notes.
func TestSpelling(t *testing.T) {
	if testing.Short() {
		t.Skip("runs real programs for most of a minute")
	}
	const load = "chat:rate=2,abort=0"
	page, own := runReal(t, "--tp-size", "2", "--enable-metrics", "--enable-trace", "--load", load)
	r := Play(t, &Scenario{Load: load, Length: 2 * time.Minute, Settings: func(a *args.Args) { a.TraceLevel = 3 }})
	want := map[string]bool{}
	for _, s := range r.Series() {
		want[shape(s.Name, s.Labels)] = true
	}
	got := map[string]bool{}
	for _, text := range []string{page, own} {
		for line := range strings.SplitSeq(text, "\n") {
			if line == "" || strings.HasPrefix(line, "#") || notOurs.MatchString(line) {
				continue
			}
			// Exemplars are not part of a series.
			line, _, _ = strings.Cut(line, " # ")
			name, labels := parse(strings.TrimSpace(line[:strings.LastIndexByte(line, ' ')]))
			got[shape(name, labels)] = true
		}
	}
	require.Greater(t, len(got), 300)
	maps.DeleteFunc(want, func(s string, _ bool) bool { return strings.HasPrefix(s, "up[") || notOurs.MatchString(s) })
	assert.Empty(t, without(got, want), "what the recorder has not")
	assert.Empty(t, without(want, got), "what the collector shows not")
}

// without is what is in a and not in b.
func without(a, b map[string]bool) (out []string) {
	for _, s := range slices.Sorted(maps.Keys(a)) {
		if !b[s] {
			out = append(out, s)
		}
	}
	return out
}

// shape is a series' name, the names of its labels and its bound. Prometheus adds
// job and instance where a page has none.
func shape(name string, labels []Label) string {
	var names []string
	for _, l := range labels {
		switch l.Name {
		case "job", "instance":
		case "le":
			names = append(names, "le="+l.Value)
		default:
			names = append(names, l.Name)
		}
	}
	slices.Sort(names)
	return name + fmt.Sprint(names)
}

// runReal gives the collector's two pages at the end.
func runReal(t *testing.T, simulator ...string) (page, own string) {
	t.Helper()
	engine, otlp, pageAt, ownAt := port(t), port(t), port(t), port(t)
	raw, err := os.ReadFile(filepath.Join(Root(), "config", shipped))
	require.NoError(t, err)
	text := strings.NewReplacer("localhost:4317", "localhost:"+otlp, "localhost:4318", "localhost:"+port(t), "localhost:8889", "localhost:"+pageAt,
		"port: 8888", "port: "+ownAt, "localhost:13133", "localhost:"+port(t)).Replace(string(raw))
	config := filepath.Join(t.TempDir(), shipped)
	require.NoError(t, os.WriteFile(config, []byte(text), 0o600))
	start(t, []string{"ENGINE=http://localhost:" + engine, "SGLANG_DATA=" + t.TempDir()}, "otelcol-sglang", "--config", config)
	start(t, nil, "sglang-sim", append([]string{"--port", engine, "--otlp-traces-endpoint", "localhost:" + otlp}, simulator...)...)
	select {
	case <-time.After(realFor):
	case <-t.Context().Done():
	}
	return get(t, "http://localhost:"+pageAt+"/metrics"), get(t, "http://localhost:"+ownAt+"/metrics")
}

func start(t *testing.T, env []string, program string, args ...string) {
	t.Helper()
	path, err := exec.LookPath(filepath.Join(Root(), "bin", program))
	switch {
	case err == nil:
	case os.Getenv("CI") != "":
		t.Fatalf("bin/%s is missing: make build", program)
	default:
		t.Skipf("bin/%s is missing: make build", program)
	}
	cmd := exec.Command(path, args...)
	cmd.Env = append(os.Environ(), env...)
	require.NoError(t, cmd.Start())
	t.Cleanup(func() {
		_ = cmd.Process.Signal(os.Interrupt)
		_ = cmd.Wait() // its status is that of the signal
	})
}

func port(t *testing.T) string {
	t.Helper()
	l, err := net.Listen("tcp", "localhost:0")
	require.NoError(t, err)
	defer l.Close()
	_, p, err := net.SplitHostPort(l.Addr().String())
	require.NoError(t, err)
	return p
}

// get asks for OpenMetrics, as Prometheus does.
func get(t *testing.T, url string) string {
	t.Helper()
	req, err := http.NewRequestWithContext(t.Context(), http.MethodGet, url, http.NoBody)
	require.NoError(t, err)
	req.Header.Set("Accept", "application/openmetrics-text;version=1.0.0")
	resp, err := http.DefaultClient.Do(req)
	require.NoError(t, err)
	defer resp.Body.Close()
	text, err := io.ReadAll(resp.Body)
	require.NoError(t, err)
	return string(text)
}
