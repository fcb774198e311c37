// Copyright The otelcol-sglang Authors
// SPDX-License-Identifier: Apache-2.0

// Package prometheus runs a real one for a test, filled with recordings.
package prometheus // import "github.com/otelcol-sglang/otelcol-sglang/boards/internal/prometheus"

import (
	"context"
	"io"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/otelcol-sglang/otelcol-sglang/boards/record"
)

// startLimit is how long Prometheus may take to start.
const startLimit = time.Minute

// Need skips the test where a program is missing; with CI set it fails then.
func Need(t *testing.T, program string) string {
	t.Helper()
	path, err := exec.LookPath(program)
	if err != nil && os.Getenv("CI") == "" {
		t.Skip(program + " is missing")
	}
	require.NoError(t, err)
	return path
}

// Fill makes blocks of a recording in the folder data, as if it began at the given time.
func Fill(t *testing.T, data string, r *record.Recording, at time.Time) {
	t.Helper()
	file := filepath.Join(t.TempDir(), "recording")
	to, err := os.Create(file)
	require.NoError(t, err)
	require.NoError(t, r.WriteOpenMetrics(to, at))
	require.NoError(t, to.Close())
	out, err := exec.CommandContext(t.Context(), Need(t, "promtool"), "tsdb", "create-blocks-from", "openmetrics", file, data).CombinedOutput()
	require.NoError(t, err, "%s", out)
	require.NoError(t, os.Remove(file))
}

// Serve runs Prometheus on the blocks in a folder until the test ends.
func Serve(t *testing.T, data string) (url string) {
	t.Helper()
	config := filepath.Join(t.TempDir(), "prometheus.yml")
	require.NoError(t, os.WriteFile(config, nil, 0o600))
	free, err := net.Listen("tcp", "localhost:0")
	require.NoError(t, err)
	address := free.Addr().String()
	require.NoError(t, free.Close())
	cmd := exec.CommandContext(context.WithoutCancel(t.Context()), Need(t, "prometheus"), "--config.file="+config,
		"--storage.tsdb.path="+data, "--storage.tsdb.retention.time=100y", "--web.listen-address="+address, "--log.level=error")
	cmd.Stderr = t.Output()
	require.NoError(t, cmd.Start())
	t.Cleanup(func() {
		_ = cmd.Process.Signal(os.Interrupt)
		_ = cmd.Wait() // its status is that of the signal
	})
	url = "http://" + address
	require.Eventually(t, func() bool { return ready(t, url+"/-/ready") }, startLimit, 100*time.Millisecond)
	return url
}

func ready(t *testing.T, url string) bool {
	req, err := http.NewRequestWithContext(t.Context(), http.MethodGet, url, http.NoBody)
	if err != nil {
		return false
	}
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		return false
	}
	_, _ = io.Copy(io.Discard, resp.Body)
	return resp.Body.Close() == nil && resp.StatusCode == http.StatusOK
}
