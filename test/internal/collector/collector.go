// Copyright The otelcol-sglang Authors
// SPDX-License-Identifier: Apache-2.0

// Package collector runs the built collector with the configurations that ship.
package collector // import "github.com/otelcol-sglang/otelcol-sglang/test/internal/collector"

import (
	"cmp"
	"crypto/tls"
	"fmt"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/otelcol-sglang/otelcol-sglang/test/internal/tool"
)

const (
	startLimit = 30 * time.Second
	stopLimit  = 60 * time.Second
)

// Options say what to run.
type Options struct {
	// Config is a file of config/. Only its ports are others.
	Config string
	// Overlay is YAML that is merged on top of it.
	Overlay string
	// Env is added to the environment: KEY=value.
	Env []string
	// TLS, if set, is how to ask for health, Token the bearer token to show.
	TLS   *tls.Config
	Token string
	// Binary is another build of the collector.
	Binary string
}

// Collector is one that runs, or ran.
type Collector struct {
	t       testing.TB
	options Options
	dir     string
	cmd     *exec.Cmd
	// exited is closed after err, the process's end, was set.
	exited chan struct{}
	err    error

	// GRPC and HTTP take OTLP, Metrics is the exporter's page, Own that of the
	// collector's own telemetry. All are host:port.
	GRPC, HTTP, Metrics, Own string
	health                   string
	// Dir is the collector's data: SGLANG_DATA and SGLANG_QUEUE.
	Dir string
}

// Start runs a collector and returns once it is healthy. It ends with the test.
func Start(t testing.TB, o Options) *Collector {
	t.Helper()
	c := &Collector{t: t, options: o, dir: t.TempDir(), Dir: t.TempDir()}
	c.configure()
	t.Cleanup(c.cleanup)
	c.Run()
	return c
}

// configure writes the configuration with free ports in place of the usual ones.
// Which of them there are depends on the configuration; health and the
// collector's own telemetry always are.
func (c *Collector) configure() {
	c.t.Helper()
	raw, err := os.ReadFile(filepath.Join(tool.Root(), "config", c.options.Config))
	require.NoError(c.t, err)
	text := string(raw)
	for _, p := range []struct {
		usual    *regexp.Regexp
		replaced string
		to       *string
	}{
		{regexp.MustCompile(`:4317\b`), ":%d", &c.GRPC},
		{regexp.MustCompile(`:4318\b`), ":%d", &c.HTTP},
		{regexp.MustCompile(`:8889\b`), ":%d", &c.Metrics},
		{regexp.MustCompile(`:13133\b`), ":%d", &c.health},
		{regexp.MustCompile(`port: 8888\b`), "port: %d", &c.Own},
	} {
		if !p.usual.MatchString(text) {
			continue
		}
		port := tool.FreePort(c.t)
		*p.to = tool.Address(port)
		text = p.usual.ReplaceAllString(text, fmt.Sprintf(p.replaced, port))
	}
	require.NotEmpty(c.t, c.health)
	require.NotEmpty(c.t, c.Own)
	c.write("config.yaml", text)
	c.write("overlay.yaml", c.options.Overlay)
}

func (c *Collector) write(name, text string) {
	c.t.Helper()
	require.NoError(c.t, os.WriteFile(filepath.Join(c.dir, name), []byte(text), 0o600))
}

// Run starts the process, again after it was stopped.
func (c *Collector) Run() {
	c.t.Helper()
	require.True(c.t, c.Starts(), "the collector did not start:\n%s", c.Log())
}

// Starts starts the process and tells whether it works.
func (c *Collector) Starts() bool {
	c.t.Helper()
	args := []string{"--config", filepath.Join(c.dir, "config.yaml")}
	if c.options.Overlay != "" {
		args = append(args, "--config", filepath.Join(c.dir, "overlay.yaml"))
	}
	log, err := os.OpenFile(c.log(), os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o600)
	require.NoError(c.t, err)
	defer log.Close()
	c.cmd = exec.Command(tool.Binary(c.t, cmp.Or(c.options.Binary, "otelcol-sglang")), args...)
	c.cmd.Env = append(os.Environ(), "SGLANG_DATA="+c.Dir, "SGLANG_QUEUE="+c.Dir)
	c.cmd.Env = append(c.cmd.Env, c.options.Env...)
	c.cmd.Stdout, c.cmd.Stderr = log, log
	require.NoError(c.t, c.cmd.Start())
	cmd, exited := c.cmd, make(chan struct{})
	c.exited = exited
	go func() {
		c.err = cmd.Wait()
		close(exited)
	}()
	healthy := tool.Until(startLimit, func() bool { return c.Exited() || c.Healthy() })
	return healthy && !c.Exited()
}

// HealthURL is where the health extension answers.
func (c *Collector) HealthURL() string {
	if c.options.TLS != nil {
		return "https://" + c.health + "/"
	}
	return "http://" + c.health + "/"
}

// Healthy asks the health extension.
func (c *Collector) Healthy() bool {
	client := &http.Client{Timeout: time.Second, Transport: &http.Transport{TLSClientConfig: c.options.TLS}}
	defer client.CloseIdleConnections()
	req, err := http.NewRequest(http.MethodGet, c.HealthURL(), http.NoBody)
	require.NoError(c.t, err)
	if c.options.Token != "" {
		req.Header.Set("Authorization", "Bearer "+c.options.Token)
	}
	resp, err := client.Do(req)
	if err != nil {
		return false
	}
	defer resp.Body.Close()
	return resp.StatusCode == http.StatusOK
}

// Exited tells whether the process has ended.
func (c *Collector) Exited() bool {
	select {
	case <-c.exited:
		return true
	default:
		return false
	}
}

// Terminate asks the collector to end and returns at once.
func (c *Collector) Terminate() {
	c.t.Helper()
	require.NoError(c.t, c.cmd.Process.Signal(syscall.SIGTERM))
}

// Stop ends the collector as an operator does, who expects success.
func (c *Collector) Stop() {
	c.t.Helper()
	c.Terminate()
	c.WaitStopped()
}

// WaitStopped waits for the end after Terminate.
func (c *Collector) WaitStopped() {
	c.t.Helper()
	require.True(c.t, tool.Until(stopLimit, c.Exited), "the collector did not end within %s", stopLimit)
	require.NoError(c.t, c.err, "the collector's last words:\n%s", c.Log())
}

// Kill ends the collector with SIGKILL.
func (c *Collector) Kill() {
	c.t.Helper()
	require.NoError(c.t, c.cmd.Process.Kill())
	<-c.exited
}

func (c *Collector) cleanup() {
	if c.cmd == nil || c.cmd.Process == nil {
		return
	}
	if !c.Exited() {
		_ = c.cmd.Process.Signal(syscall.SIGTERM)
		if !tool.Until(stopLimit, c.Exited) {
			c.t.Errorf("the collector did not end within %s", stopLimit)
			c.Kill()
		}
	}
	if c.t.Failed() {
		c.t.Logf("the collector wrote:\n%s", c.Log())
	}
}

func (c *Collector) log() string { return filepath.Join(c.dir, "log") }

// Log is the end of what the collector wrote.
func (c *Collector) Log() string {
	const most = 8 << 10
	raw, err := os.ReadFile(c.log())
	if err != nil {
		return err.Error()
	}
	return string(raw[max(len(raw)-most, 0):])
}

// WholeLog is all that the collector wrote.
func (c *Collector) WholeLog() string {
	raw, err := os.ReadFile(c.log())
	require.NoError(c.t, err)
	return string(raw)
}

// Memory is the process's resident memory and its highest so far, in bytes.
func (c *Collector) Memory() (rss, peak int64) {
	c.t.Helper()
	raw, err := os.ReadFile(fmt.Sprintf("/proc/%d/status", c.cmd.Process.Pid))
	require.NoError(c.t, err)
	for line := range strings.Lines(string(raw)) {
		fields := strings.Fields(line)
		if len(fields) != 3 || fields[2] != "kB" {
			continue
		}
		kib, err := strconv.ParseInt(fields[1], 10, 64)
		require.NoError(c.t, err)
		switch fields[0] {
		case "VmRSS:":
			rss = kib << 10
		case "VmHWM:":
			peak = kib << 10
		}
	}
	require.NotZero(c.t, peak)
	return rss, peak
}
