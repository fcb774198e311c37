// Copyright The otelcol-sglang Authors
// SPDX-License-Identifier: Apache-2.0

// Package sdk runs an engine's processes with the real OpenTelemetry SDK for
// Python, one operating-system process each.
package sdk // import "github.com/otelcol-sglang/otelcol-sglang/test/internal/sdk"

import (
	"bufio"
	"bytes"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/otelcol-sglang/otelcol-sglang/test/internal/sender"
	"github.com/otelcol-sglang/otelcol-sglang/test/internal/tool"
)

// Options say what an engine sends, and where.
type Options struct {
	Capture            string
	Protocol, Endpoint string
	// Salts make the ids of each repetition.
	Salts []uint64
	// DieAfter kills a process in the middle of an export, so many spans after
	// the last repetition's start. It is by process; 0 is never.
	DieAfter map[string]int
}

// Engine is a capture's processes.
type Engine struct {
	t         testing.TB
	processes []*process
}

type process struct {
	cmd    *exec.Cmd
	stdin  io.WriteCloser
	stdout *bufio.Reader
	stderr bytes.Buffer
	dies   bool
}

// Start starts the processes.
func Start(t testing.TB, o Options) *Engine {
	t.Helper()
	e := &Engine{t: t}
	exports := sender.Load(t, o.Capture)
	origin := strconv.FormatUint(uint64(sender.Earliest(exports)), 10)
	seen := map[string]bool{}
	for _, x := range exports {
		if seen[x.Peer] {
			continue
		}
		seen[x.Peer] = true
		e.start(o, x.Peer, origin)
	}
	return e
}

func (e *Engine) start(o Options, peer, origin string) {
	e.t.Helper()
	p := &process{dies: o.DieAfter[peer] > 0}
	p.cmd = exec.Command(tool.Python(e.t), filepath.Join(tool.Root(), "test", "python", "engine_process.py"),
		"--capture", filepath.Join(sender.Captures(), o.Capture), "--peer", peer, "--origin", origin,
		"--protocol", o.Protocol, "--endpoint", o.Endpoint,
		"--salts", strings.Trim(strings.ReplaceAll(fmt.Sprint(o.Salts), " ", ","), "[]"),
		"--die-after", strconv.Itoa(o.DieAfter[peer]))
	p.cmd.Env = append(os.Environ(), "NO_PROXY=localhost", "no_proxy=localhost")
	p.cmd.Stderr = &p.stderr
	var err error
	p.stdin, err = p.cmd.StdinPipe()
	require.NoError(e.t, err)
	stdout, err := p.cmd.StdoutPipe()
	require.NoError(e.t, err)
	p.stdout = bufio.NewReader(stdout)
	require.NoError(e.t, p.cmd.Start())
	e.t.Cleanup(func() { _ = p.cmd.Process.Kill() })
	e.processes = append(e.processes, p)
}

// Ready waits until each process waits for the next repetition.
func (e *Engine) Ready() {
	e.t.Helper()
	for _, p := range e.processes {
		line, err := p.stdout.ReadString('\n')
		require.NoError(e.t, err, "%s", &p.stderr)
		require.Equal(e.t, "ready\n", line)
	}
}

// Play makes each process play the next repetition.
func (e *Engine) Play(at time.Time) {
	e.t.Helper()
	for _, p := range e.processes {
		_, err := fmt.Fprintln(p.stdin, at.UnixNano())
		require.NoError(e.t, err)
	}
}

// Wait waits until each process has exported all and ended; an SDK that could
// not export says so.
func (e *Engine) Wait() {
	e.t.Helper()
	for _, p := range e.processes {
		err := p.cmd.Wait()
		if p.dies {
			require.ErrorContains(e.t, err, "signal: killed")
			continue
		}
		require.NoError(e.t, err, "%s", &p.stderr)
		require.Empty(e.t, p.stderr.String())
	}
}
