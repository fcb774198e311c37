// Copyright The otelcol-sglang Authors
// SPDX-License-Identifier: Apache-2.0

package e2e

import (
	"encoding/json"
	"fmt"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/otelcol-sglang/otelcol-sglang/test/internal/collector"
	"github.com/otelcol-sglang/otelcol-sglang/test/internal/tool"
)

// simulator starts a simulated engine under load beside a collector with the
// quickstart, and returns once its page answers or would.
func simulator(t *testing.T, c *collector.Collector, port int, flags ...string) {
	t.Helper()
	args := append([]string{
		"--port", fmt.Sprint(port), "--tp-size", "2", "--load", "chat:rate=3", "--otlp-traces-endpoint", c.GRPC,
	}, flags...)
	cmd := exec.Command(tool.Binary(t, "sglang-sim"), args...)
	require.NoError(t, cmd.Start())
	t.Cleanup(func() {
		_ = cmd.Process.Kill()
		_ = cmd.Wait()
	})
}

type doctorResult struct{ Check, Status, Seen, Do string }

// doctor runs `sglangctl doctor` and gives its lines by check, and its exit code.
func doctor(t *testing.T, c *collector.Collector, port int) (lines map[string]doctorResult, code int) {
	t.Helper()
	cmd := exec.Command(tool.Binary(t, "sglangctl"), "doctor", "--json", "--watch", "1s", "--timeout", "3s",
		"--engine", "http://"+tool.Address(port), "--collector", "http://"+c.Own, "--grpc", c.GRPC, "--http", c.HTTP,
		"--traces", filepath.Join(c.Dir, "traces.jsonl"))
	out, _ := cmd.Output() // the exit code is looked at
	var report struct{ Results []doctorResult }
	require.NoError(t, json.Unmarshal(out, &report), string(out))
	lines = map[string]doctorResult{}
	for _, r := range report.Results {
		lines[r.Check] = r
	}
	return lines, cmd.ProcessState.ExitCode()
}

// TestDoctor: each fault of a running set-up shows on its line, with what was seen;
// without one no line fails.
func TestDoctor(t *testing.T) {
	t.Parallel()
	whole := []string{"--enable-metrics", "--enable-trace"}
	for _, tc := range []struct {
		name  string
		flags []string
		// check and seen are the line that must fail or warn; none for a healthy engine.
		check, status, seen string
	}{
		{name: "healthy", flags: whole},
		{"no-scheduler-spans", append([]string{"--fault", "no-scheduler-spans:after=0s"}, whole...), "scheduler-spans", "fail", "no_scheduler_spans"},
		{"dead-rank", append([]string{"--fault", "dead-rank:rank=1,after=8s"}, whole...), "ranks", "fail", "ranks"},
		{"clock-skew", append([]string{"--fault", "clock-skew:rank=1,after=0s"}, whole...), "clock-ranks", "warn", "250 ms apart"},
		{"page-500", append([]string{"--fault", "page-500:after=0s"}, whole...), "page", "fail", "HTTP status 500"},
		{"page-empty", append([]string{"--fault", "page-empty:after=0s"}, whole...), "page", "fail", "its page is empty"},
		{"page-307", append([]string{"--fault", "page-307:after=0s"}, whole...), "page", "ok", "which was followed"},
		{"page-slow", append([]string{"--fault", "page-slow:after=0s"}, whole...), "page", "fail", "no answer within"},
		{"no trace", []string{"--enable-metrics"}, "spans", "fail", "no span ever arrived, though pages show"},
		{"no metrics", []string{"--enable-trace"}, "flag-metrics", "fail", "enable_metrics"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			t.Parallel()
			port := tool.FreePort(t)
			c := collector.Start(t, collector.Options{Config: "quickstart.yaml", Env: []string{"ENGINE=http://" + tool.Address(port)}})
			simulator(t, c, port, tc.flags...)
			var lines map[string]doctorResult
			var code int
			asExpected := func() bool {
				lines, code = doctor(t, c, port)
				if tc.check == "" {
					return code == 0 && lines["spans"].Status == "ok" && lines["ranks"].Status == "ok" && lines["scheduler-spans"].Status == "ok"
				}
				line := lines[tc.check]
				return line.Status == tc.status && strings.Contains(line.Seen, tc.seen)
			}
			require.True(t, tool.Until(90*time.Second, asExpected), "%s: %+v", tc.check, lines[tc.check])
			if tc.check == "" {
				return
			}
			if tc.status == "fail" {
				assert.Equal(t, 1, code)
			}
			if tc.status != "ok" {
				assert.NotEmpty(t, lines[tc.check].Do)
			}
			if tc.name == "clock-skew" {
				// It is only a clock: requests are whole all the same.
				assert.Equal(t, "ok", lines["scheduler-spans"].Status, "%+v", lines["scheduler-spans"])
				assert.Equal(t, "ok", lines["lost"].Status, "%+v", lines["lost"])
			}
		})
	}
}

// TestExplain: of a running engine every derived number is what its rule gives, and
// a folded series what the page's ranks give.
func TestExplain(t *testing.T) {
	t.Parallel()
	port := tool.FreePort(t)
	c := collector.Start(t, collector.Options{Config: "quickstart.yaml", Env: []string{"ENGINE=http://" + tool.Address(port)}})
	simulator(t, c, port, "--enable-metrics", "--enable-metrics-for-all-schedulers", "--enable-trace")
	explain := func(args ...string) string {
		out, _ := exec.Command(tool.Binary(t, "sglangctl"), append([]string{"explain"}, args...)...).CombinedOutput()
		return string(out)
	}
	file := filepath.Join(c.Dir, "traces.jsonl")
	require.True(t, until(func() bool { return strings.Contains(explain("last", "--file", file), "sglang.decode.steps") }))
	for _, which := range []string{"last", "slowest"} {
		out := explain(which, "--file", file)
		assert.Contains(t, out, "gen_ai.latency.time_in_queue")
		assert.NotContains(t, out, "✗")
	}
	var out string
	require.True(t, until(func() bool {
		out = explain("--series", "sglang:max_total_num_tokens", "--wait", "0s",
			"--engine", "http://"+tool.Address(port), "--collector", "http://"+c.Metrics+"/metrics")
		return strings.Contains(out, "result") && !strings.Contains(out, "shows nothing")
	}), out)
	assert.Equal(t, 2, strings.Count(out, "page    {"), out)
	assert.Regexp(t, `result  (\S+); the collector shows (\S+)\n$`, out)
	assert.NotContains(t, out, "note", out)
}
