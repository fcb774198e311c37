// Copyright The otelcol-sglang Authors
// SPDX-License-Identifier: Apache-2.0

package record // import "github.com/otelcol-sglang/otelcol-sglang/boards/record"

import (
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// liveStep is the time between two scrapes of real programs.
const liveStep = time.Second

// Live is some time of the built collector with the built simulator. Unlike a
// [Scenario] it has exporters, a process, and as much time as it really takes.
type Live struct {
	// Simulator are sglang-sim's arguments.
	Simulator []string
	Length    time.Duration
	// Backend is when the tracing backend ends, which another collector plays; at 0
	// there is none, and spans go to a file.
	Backend time.Duration
}

// queued sends spans to a backend through a queue that is soon full.
const queued = `
exporters:
  otlp_grpc:
    endpoint: localhost:%s
    tls: {insecure: true}
    retry_on_failure: {initial_interval: 100ms, max_interval: 1s, max_elapsed_time: 5s}
    sending_queue:
      num_consumers: 1
      sizer: items
      queue_size: 100
      batch: {sizer: items, flush_timeout: 200ms, min_size: 20, max_size: 50}
service:
  telemetry: {metrics: {level: detailed}}
  pipelines: {traces: {exporters: [otlp_grpc, genaimetrics]}}
`

// Record plays it.
func (l *Live) Record(t *testing.T) *Recording {
	t.Helper()
	engine := port(t)
	c := startCollector(t, engine, l.backend(t)...)
	start(t, nil, "sglang-sim", append([]string{"--port", engine, "--otlp-traces-endpoint", "localhost:" + c.otlp}, l.Simulator...)...)
	r := newRecording(time.Now(), liveStep)
	ticker := time.NewTicker(liveStep)
	defer ticker.Stop()
	for range l.Length / liveStep {
		select {
		case <-ticker.C:
		case <-t.Context().Done():
			require.NoError(t, t.Context().Err())
		}
		c.scrape(t, r)
	}
	require.NotEmpty(t, r.Only(func(name string) bool { return name == ownPrefix+"process_uptime" }).Series(), "the collector did not answer")
	return r
}

// backend starts what takes the spans, and gives the settings for it.
func (l *Live) backend(t *testing.T) (settings []string) {
	t.Helper()
	if l.Backend == 0 {
		return nil
	}
	b := startCollector(t, port(t))
	time.AfterFunc(l.Backend, b.stop)
	return []string{fmt.Sprintf(queued, b.otlp)}
}

// liveCollector is a collector by the ports that it listens on.
type liveCollector struct {
	otlp, page, own string
	stop            func()
}

// startCollector starts one with the shipped configuration and changes to it.
func startCollector(t *testing.T, engine string, changes ...string) *liveCollector {
	t.Helper()
	c := &liveCollector{otlp: port(t), page: port(t), own: port(t)}
	raw, err := os.ReadFile(filepath.Join(Root(), "config", shipped))
	require.NoError(t, err)
	text := strings.NewReplacer("localhost:4317", "localhost:"+c.otlp, "localhost:4318", "localhost:"+port(t), pageAddress, "localhost:"+c.page,
		"port: 8888", "port: "+c.own, "localhost:13133", "localhost:"+port(t)).Replace(string(raw))
	dir := t.TempDir()
	var args []string
	for i, config := range append([]string{text}, changes...) {
		file := filepath.Join(dir, strconv.Itoa(i)+".yaml")
		require.NoError(t, os.WriteFile(file, []byte(config), 0o600))
		args = append(args, "--config", file)
	}
	c.stop = start(t, []string{"ENGINE=http://localhost:" + engine, "SGLANG_DATA=" + t.TempDir()}, "otelcol-sglang", args...)
	return c
}

// scrape notes both pages; none before the collector has started.
func (c *liveCollector) scrape(t *testing.T, r *Recording) {
	t.Helper()
	for address, at := range map[string]string{pageAddress: c.page, ownAddress: c.own} {
		text := get(t, "http://localhost:"+at+"/metrics")
		up := 0.0
		if text != "" {
			up = 1
		}
		r.add(sample{"up", target(address), up})
		for line := range strings.SplitSeq(text, "\n") {
			if line == "" || strings.HasPrefix(line, "#") {
				continue
			}
			line, _, _ = strings.Cut(line, " # ") // exemplars are not part of a series
			head, value, _ := cutLast(strings.TrimSpace(line))
			v, err := strconv.ParseFloat(value, 64)
			require.NoError(t, err, line)
			name, labels := parse(head)
			r.add(sample{name, honor(tidy(labels), address), v})
		}
	}
	r.next()
}

// start runs a built program until the test ends, or stop is called.
func start(t *testing.T, env []string, program string, args ...string) (stop func()) {
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
	cmd.Env, cmd.Stderr = append(os.Environ(), env...), t.Output()
	require.NoError(t, cmd.Start())
	stop = func() { _ = cmd.Process.Signal(os.Interrupt) }
	t.Cleanup(func() {
		stop()
		_ = cmd.Wait() // its status is that of the signal
	})
	return stop
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

// get asks for OpenMetrics, as Prometheus does. A page that does not answer is empty.
func get(t *testing.T, url string) string {
	t.Helper()
	req, err := http.NewRequestWithContext(t.Context(), http.MethodGet, url, http.NoBody)
	require.NoError(t, err)
	req.Header.Set("Accept", "application/openmetrics-text;version=1.0.0")
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		return ""
	}
	defer resp.Body.Close()
	text, err := io.ReadAll(resp.Body)
	require.NoError(t, err)
	return string(text)
}
