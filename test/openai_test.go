// Copyright The otelcol-sglang Authors
// SPDX-License-Identifier: Apache-2.0

package e2e

import (
	"encoding/json"
	"io"
	"net/http"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/otelcol-sglang/otelcol-sglang/test/internal/tool"
)

// simLimit is how long the simulated engine may take to start, to end, and to see
// that a client is gone.
const simLimit = 30 * time.Second

// simulated starts sglang-sim and returns its URL.
func simulated(t *testing.T, args ...string) string {
	t.Helper()
	port := tool.FreePort(t)
	cmd := exec.Command(tool.Binary(t, "sglang-sim"), append([]string{"--host", "localhost", "--port", strconv.Itoa(port)}, args...)...)
	var out strings.Builder
	cmd.Stdout, cmd.Stderr = &out, &out
	require.NoError(t, cmd.Start())
	t.Cleanup(func() {
		require.NoError(t, cmd.Process.Signal(syscall.SIGTERM))
		assert.NoError(t, cmd.Wait(), "%s", &out)
	})
	url := "http://" + tool.Address(port)
	require.True(t, tool.Until(simLimit, func() bool { return get(url+"/ready") != "" }), "sglang-sim does not answer: %s", &out)
	return url
}

// get is a page's status and text; "" while nothing answers.
func get(url string) string {
	resp, err := http.Get(url)
	if err != nil {
		return ""
	}
	defer resp.Body.Close()
	text, err := io.ReadAll(resp.Body)
	if err != nil {
		return ""
	}
	return resp.Status + "\n" + string(text)
}

// TestOpenAI asks the simulated engine with the real OpenAI client.
func TestOpenAI(t *testing.T) {
	python := tool.Python(t)
	if exec.Command(python, "-c", "import openai").Run() != nil {
		tool.Missing(t, "openai", "make e2e installs it")
	}
	url := simulated(t, "--api-key", "secret", "--served-model-name", "sim", "--enable-metrics")
	cmd := exec.Command(python, filepath.Join(tool.Root(), "test", "python", "openai_client.py"), url+"/v1", "secret")
	text, err := cmd.Output()
	if failed, ok := err.(*exec.ExitError); ok { //nolint:errorlint // exec does not wrap it
		t.Fatalf("%s", failed.Stderr)
	}
	require.NoError(t, err)
	var seen map[string]map[string]any
	require.NoError(t, json.Unmarshal(text, &seen))
	checkOpenAI(t, seen)
	assert.True(t, tool.Until(simLimit, func() bool {
		page := get(url + "/metrics")
		return strings.Contains(page, "sglang:num_aborted_requests_total{engine_type=\"unified\",model_name=\"sim\"} 1\n")
	}), "the request of the client that hung up is not aborted")
}

func checkOpenAI(t *testing.T, seen map[string]map[string]any) {
	t.Helper()
	take := func(what, key string) any {
		v := seen[what][key]
		delete(seen[what], key)
		return v
	}
	assert.Len(t, strings.Fields(take("whole", "text").(string)), 7)
	assert.Len(t, strings.Fields(take("streamed", "text").(string)), 6)
	assert.NotEmpty(t, take("closed", "id"))
	assert.Contains(t, take("refused", "too_long"), "maximum context length of 131072 tokens")
	assert.Contains(t, take("refused", "empty"), "Messages cannot be empty")
	assert.Equal(t, map[string]map[string]any{
		"whole":     {"object": "chat.completion", "role": "assistant", "finish": "length", "prompt": 11.0, "completion": 7.0, "total": 18.0},
		"stopped":   {"finish": "stop", "completion": 5.0},
		"streamed":  {"role": "assistant", "parts": 6.0, "finish": "length", "completion": 6.0, "ids": 1.0},
		"samples":   {"indexes": []any{0.0, 1.0, 2.0}},
		"completed": {"choices": 2.0, "completion": 8.0, "parts": 4.0, "finish": "length"},
		"embedded":  {"vectors": 2.0, "size": 8.0, "prompt": 4.0},
		"listed":    {"models": []any{"sim"}, "same": true},
		"closed":    {},
		"refused":   {"key": 401.0},
	}, seen)
}
