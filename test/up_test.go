// Copyright The otelcol-sglang Authors
// SPDX-License-Identifier: Apache-2.0

package e2e

import (
	"bytes"
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"go.opentelemetry.io/collector/pdata/ptrace"

	"github.com/otelcol-sglang/otelcol-sglang/internal/capture"
	"github.com/otelcol-sglang/otelcol-sglang/internal/sglang"
	"github.com/otelcol-sglang/otelcol-sglang/test/internal/spans"
	"github.com/otelcol-sglang/otelcol-sglang/test/internal/tool"
)

// upLimit is how long `sglangctl up` may take to say what came in, and to end.
const upLimit = 2 * time.Minute

// demo is `sglangctl up` under way. It takes the ports of config/quickstart.yaml.
type demo struct {
	t    *testing.T
	cmd  *exec.Cmd
	data string
	done chan struct{}
	err  error // set before done is closed

	mu  sync.Mutex
	out bytes.Buffer // guarded by mu
}

// Write takes what the command prints.
func (d *demo) Write(p []byte) (int, error) {
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.out.Write(p)
}

func (d *demo) printed() string {
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.out.String()
}

func startDemo(t *testing.T, args ...string) *demo {
	t.Helper()
	data := t.TempDir()
	cmd := exec.Command(tool.Binary(t, "sglangctl"), append([]string{"up", "--data", data, "--every=3s"}, args...)...)
	cmd.Env = append(os.Environ(), "ENGINE=")
	d := watch(t, cmd)
	d.data = data
	return d
}

// watch starts a command in the project's folder, as a terminal does.
func watch(t *testing.T, cmd *exec.Cmd) *demo {
	t.Helper()
	d := &demo{t: t, cmd: cmd, done: make(chan struct{})}
	d.cmd.Dir = tool.Root()
	d.cmd.Stdout, d.cmd.Stderr = d, d
	d.cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	require.NoError(t, d.cmd.Start())
	go func() {
		d.err = d.cmd.Wait()
		close(d.done)
	}()
	t.Cleanup(func() {
		d.interrupt()
		if t.Failed() {
			t.Logf("%s printed:\n%s", d.cmd, d.printed())
		}
	})
	return d
}

func (d *demo) ended() bool {
	select {
	case <-d.done:
		return true
	default:
		return false
	}
}

// says waits for a line.
func (d *demo) says(line string) {
	d.t.Helper()
	want := regexp.MustCompile(line)
	tool.Until(upLimit, func() bool { return d.ended() || want.MatchString(d.printed()) })
	require.Regexp(d.t, want, d.printed())
}

// interrupt is Ctrl-C, which goes to the whole group.
func (d *demo) interrupt() {
	if !d.ended() {
		_ = syscall.Kill(-d.cmd.Process.Pid, syscall.SIGINT)
	}
	if !tool.Until(upLimit, d.ended) {
		d.t.Errorf("%s did not end within %s", d.cmd, upLimit)
		_ = syscall.Kill(-d.cmd.Process.Pid, syscall.SIGKILL)
		<-d.done
	}
}

// child is the process that runs a program for the command.
func (d *demo) child(program string) int {
	d.t.Helper()
	lists, err := filepath.Glob(fmt.Sprintf("/proc/%d/task/*/children", d.cmd.Process.Pid))
	require.NoError(d.t, err)
	for _, list := range lists {
		raw, err := os.ReadFile(list)
		require.NoError(d.t, err)
		for _, pid := range strings.Fields(string(raw)) {
			name, err := os.ReadFile(filepath.Join("/proc", pid, "comm"))
			if err == nil && strings.TrimSpace(string(name)) == program {
				n, err := strconv.Atoi(pid)
				require.NoError(d.t, err)
				return n
			}
		}
	}
	d.t.Fatalf("%s does not run", program)
	return 0
}

// kept is what the collector wrote.
func (d *demo) kept() *spans.Tree {
	d.t.Helper()
	files, err := filepath.Glob(filepath.Join(d.data, "traces*.jsonl"))
	require.NoError(d.t, err)
	tree := spans.TreeOf()
	for _, name := range files {
		f, err := os.Open(name)
		require.NoError(d.t, err)
		defer f.Close()
		require.NoError(d.t, capture.ReadTraces(f, func(td ptrace.Traces) error {
			tree.Add(spans.TreeOf(td))
			return nil
		}))
	}
	return tree
}

func attr(s spans.Span, key string) string {
	v, ok := s.Attributes().Get(key)
	if !ok {
		return ""
	}
	return v.AsString()
}

// summaryLine has a request in it.
const summaryLine = `received [\d ]+ spans of [1-9][\d ]* requests from [1-9]\d* processes; kept [\d ]+; 0 invalid`

// TestUp: what the simulated engine did, to its last request, is in the file after
// Ctrl-C: the engine ends before the collector, and both in their own time.
func TestUp(t *testing.T) {
	truth := filepath.Join(t.TempDir(), "truth.jsonl")
	d := startDemo(t, "--", "--tp-size=2", "--load=chat:rate=4,turns=1", "--truth="+truth)
	d.says(summaryLine)
	d.says(`scraped engines: 1 of 1 up`)
	require.NoError(t, d.cmd.Process.Signal(os.Interrupt), "twice, as some programs do")
	d.interrupt()
	require.NoError(t, d.err)
	assert.Contains(t, d.printed(), "stopping the collector")
	assert.NotContains(t, d.printed(), "was killed")

	raw, err := os.ReadFile(truth)
	require.NoError(t, err)
	tree := d.kept()
	roots := map[string]spans.Span{}
	for _, root := range tree.Roots() {
		roots[attr(root, sglang.AttrRequestID)] = root
		assert.Equal(t, sglang.CompletenessComplete, attr(root, sglang.AttrCompleteness), root.Attributes().AsRaw())
	}
	requests := 0
	for line := range strings.Lines(string(raw)) {
		var record struct{ ID string }
		require.NoError(t, json.Unmarshal([]byte(line), &record))
		assert.Contains(t, roots, record.ID)
		requests++
	}
	assert.Positive(t, requests)
	assert.Len(t, roots, requests)
	assert.Empty(t, tree.Dangling())
	assert.Empty(t, tree.Twice)
	log, err := os.ReadFile(filepath.Join(d.data, "engine.log"))
	require.NoError(t, err)
	assert.Contains(t, string(log), "what the built-in clients saw:\n")
}

// TestUpPair: both halves of each request that ended by itself met.
func TestUpPair(t *testing.T) {
	d := startDemo(t, "--pd")
	d.says(summaryLine)
	d.says(`scraped engines: 2 of 2 up`)
	d.checkPages()
	d.interrupt()
	require.NoError(t, d.err)
	assert.NotContains(t, d.printed(), "was killed")

	joined := map[string]int{}
	for _, root := range d.kept().Roots() {
		role := attr(root, sglang.AttrPDRole)
		assert.Contains(t, []string{sglang.RolePrefill.String(), sglang.RoleDecode.String()}, role)
		if strings.Contains(attr(root, sglang.AttrFinishReasons), "abort") || attr(root, sglang.AttrErrorType) != "" {
			continue // its client was ended
		}
		assert.Equal(t, "true", attr(root, sglang.AttrPDJoined), root.Attributes().AsRaw())
		joined[role]++
	}
	assert.Positive(t, joined[sglang.RoleDecode.String()])
	log, err := os.ReadFile(filepath.Join(d.data, "clients.log"))
	require.NoError(t, err)
	assert.Regexp(t, `\d+ requests in .* 0 failed`, string(log))
}

// checkPages: of each engine it is known which page and which spans are its.
func (d *demo) checkPages() {
	d.t.Helper()
	assert.True(d.t, until(func() bool {
		out, _ := exec.Command(tool.Binary(d.t, "sglangctl"), "doctor", "--watch=0s",
			"--engine=http://localhost:30000", "--engine=http://localhost:30001", "--traces=").Output()
		return strings.Contains(string(out), "of 2 engines both spans and page come") &&
			strings.Contains(string(out), "each of 6 senders is told apart")
	}))
}

// TestUpOfTheDead: where a child dies its last words are told, and the others end.
func TestUpOfTheDead(t *testing.T) {
	t.Run("at the start", func(t *testing.T) {
		d := startDemo(t, "--", "--tp-size=3", "--dp-size=2", "--enable-dp-attention")
		require.True(t, tool.Until(upLimit, d.ended))
		require.Error(t, d.err)
		assert.Contains(t, d.printed(), "the engine stopped (exit status 1); its last words, from "+filepath.Join(d.data, "engine.log"))
		assert.Contains(t, d.printed(), "dp-size must be a divisor of tp-size (3)")
	})
	t.Run("later", func(t *testing.T) {
		d := startDemo(t, "--settle=0s")
		d.says(`collector is up`)
		require.NoError(t, syscall.Kill(d.child("sglang-sim"), syscall.SIGKILL))
		require.True(t, tool.Until(upLimit, d.ended))
		require.Error(t, d.err)
		assert.Contains(t, d.printed(), "the engine stopped (signal: killed)")
		assert.Contains(t, d.printed(), "stopping the collector")
	})
	t.Run("taken port", func(t *testing.T) {
		l := tool.Listen(t, "localhost:30000")
		defer l.Close()
		d := startDemo(t)
		require.True(t, tool.Until(upLimit, d.ended))
		require.Error(t, d.err)
		assert.Contains(t, d.printed(), "does the engine run already? localhost:30000 is not free")
	})
}
