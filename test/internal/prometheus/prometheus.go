// Copyright The otelcol-sglang Authors
// SPDX-License-Identifier: Apache-2.0

// Package prometheus runs a Prometheus server and asks it.
package prometheus // import "github.com/otelcol-sglang/otelcol-sglang/test/internal/prometheus"

import (
	"encoding/json"
	"fmt"
	"net/http"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/otelcol-sglang/otelcol-sglang/test/internal/tool"
)

const (
	install    = "apt-get install prometheus"
	startLimit = 30 * time.Second
)

// config is the scrape job that the READMEs ask for.
const config = `
global: {scrape_interval: 2s, scrape_timeout: 2s}
scrape_configs:
  - job_name: otelcol-sglang
    honor_labels: true
    static_configs: [{targets: ["%s"]}]
`

// Server is a running Prometheus.
type Server struct {
	t   testing.TB
	url string
}

// Sample is one series' value.
type Sample struct {
	Labels map[string]string
	Value  float64
}

// Start runs a Prometheus that scrapes a target, until the test's end.
func Start(t testing.TB, target string) *Server {
	t.Helper()
	return start(t, fmt.Sprintf(config, target))
}

// StartReceiver runs a Prometheus that scrapes nothing and takes remote writes.
func StartReceiver(t testing.TB) *Server {
	t.Helper()
	return start(t, "", "--web.enable-remote-write-receiver")
}

func start(t testing.TB, config string, flags ...string) *Server {
	t.Helper()
	program := tool.Need(t, "prometheus", install)
	dir := t.TempDir()
	file := filepath.Join(dir, "prometheus.yml")
	require.NoError(t, os.WriteFile(file, []byte(config), 0o600))
	address := tool.Address(tool.FreePort(t))
	log, err := os.Create(filepath.Join(dir, "log"))
	require.NoError(t, err)
	cmd := exec.Command(program, append(flags, "--config.file="+file, "--storage.tsdb.path="+filepath.Join(dir, "data"),
		"--web.listen-address="+address, "--log.level=warn", "--enable-feature=exemplar-storage")...)
	cmd.Stdout, cmd.Stderr = log, log
	require.NoError(t, cmd.Start())
	t.Cleanup(func() {
		_ = cmd.Process.Signal(syscall.SIGTERM)
		_ = cmd.Wait()
		_ = log.Close()
	})
	s := &Server{t: t, url: "http://" + address}
	require.True(t, tool.Until(startLimit, s.ready), "Prometheus did not start")
	return s
}

// WriteURL is where remote writes go.
func (s *Server) WriteURL() string { return s.url + "/api/v1/write" }

func (s *Server) ready() bool {
	resp, err := http.Get(s.url + "/-/ready")
	if err != nil {
		return false
	}
	defer resp.Body.Close()
	return resp.StatusCode == http.StatusOK
}

// answer is the API's; https://prometheus.io/docs/prometheus/latest/querying/api/.
type answer struct {
	Status, Error string
	Data          struct {
		ResultType string
		Result     []struct {
			Metric map[string]string
			Value  [2]any
		}
	}
}

// Query evaluates an expression that gives a vector.
func (s *Server) Query(expr string) []Sample {
	s.t.Helper()
	resp, err := http.Get(s.url + "/api/v1/query?query=" + url.QueryEscape(expr))
	require.NoError(s.t, err)
	defer resp.Body.Close()
	var a answer
	require.NoError(s.t, json.NewDecoder(resp.Body).Decode(&a))
	require.Equal(s.t, "success", a.Status, "%s: %s", expr, a.Error)
	require.Equal(s.t, "vector", a.Data.ResultType)
	samples := make([]Sample, 0, len(a.Data.Result))
	for _, r := range a.Data.Result {
		text, _ := r.Value[1].(string)
		v, err := strconv.ParseFloat(text, 64)
		require.NoError(s.t, err)
		samples = append(samples, Sample{Labels: r.Metric, Value: v})
	}
	return samples
}

// Await evaluates until the answer is as wanted, and returns the last one.
func (s *Server) Await(limit time.Duration, expr string, wanted func([]Sample) bool) ([]Sample, bool) {
	s.t.Helper()
	var samples []Sample
	ok := tool.Until(limit, func() bool {
		samples = s.Query(expr)
		return wanted(samples)
	})
	return samples, ok
}

// Exemplar is one observation of a series and the span that it came from.
type Exemplar struct {
	Series map[string]string
	Labels map[string]string
	Value  float64
}

// Exemplars are those of all series of a name, of the last hour.
func (s *Server) Exemplars(name string) []Exemplar {
	s.t.Helper()
	now := time.Now()
	ask := url.Values{
		"query": {name}, "start": {now.Add(-time.Hour).Format(time.RFC3339)}, "end": {now.Add(time.Minute).Format(time.RFC3339)},
	}
	resp, err := http.Get(s.url + "/api/v1/query_exemplars?" + ask.Encode())
	require.NoError(s.t, err)
	defer resp.Body.Close()
	var a struct {
		Status, Error string
		Data          []struct {
			SeriesLabels map[string]string
			Exemplars    []struct {
				Labels map[string]string
				Value  float64 `json:",string"`
			}
		}
	}
	require.NoError(s.t, json.NewDecoder(resp.Body).Decode(&a))
	require.Equal(s.t, "success", a.Status, "%s: %s", name, a.Error)
	var out []Exemplar
	for _, series := range a.Data {
		for _, e := range series.Exemplars {
			out = append(out, Exemplar{Series: series.SeriesLabels, Labels: e.Labels, Value: e.Value})
		}
	}
	return out
}

// Lint lets promtool check a page. It returns what it finds, or that it could
// not read the page.
func Lint(t testing.TB, page string) string {
	t.Helper()
	cmd := exec.Command(tool.Need(t, "promtool", install), "check", "metrics")
	stdin, err := cmd.StdinPipe()
	require.NoError(t, err)
	go func() {
		_, _ = stdin.Write([]byte(page))
		_ = stdin.Close()
	}()
	out, err := cmd.CombinedOutput()
	const onlyLint = 3
	if err != nil && cmd.ProcessState.ExitCode() != onlyLint {
		t.Fatalf("promtool: %v: %s", err, out)
	}
	return string(out)
}
