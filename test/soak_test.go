// Copyright The otelcol-sglang Authors
// SPDX-License-Identifier: Apache-2.0

package e2e

import (
	"flag"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/otelcol-sglang/otelcol-sglang/test/internal/collector"
	"github.com/otelcol-sglang/otelcol-sglang/test/internal/sink"
	"github.com/otelcol-sglang/otelcol-sglang/test/internal/tool"
)

// engineTime is how long the engine of TestSoak works, on its own clock.
var engineTime = flag.Duration("engine-time", 10*time.Minute, "how long the engine of TestSoak works, on its clock")

// TestSoak: an engine whose clock runs much faster works for long. Memory and the number
// of series at the end are those of the middle.
func TestSoak(t *testing.T) {
	const speed = 60 // engine seconds per second
	backend := sink.Start(t)
	port := tool.FreePort(t)
	c := collector.Start(t, collector.Options{
		Config: "agent.yaml", Overlay: "receivers: {sglang: {collection_interval: 500ms}}\n",
		Env: append(backend.Env(), "ENGINE=http://"+tool.Address(port)),
	})
	stop := runSim(t, fmt.Sprintf("--port=%d", port), "--tp-size=2", "--enable-metrics", "--enable-trace",
		"--otlp-traces-endpoint="+c.GRPC, fmt.Sprintf("--time-scale=%d", speed), "--load=chat:rate=0.5")
	half := *engineTime / speed / 2
	<-time.After(half)
	middle, before := look(t, c), backend.Count()
	<-time.After(half)
	end := look(t, c)
	stop()
	require.Greater(t, backend.Count(), before, "requests all the time")
	t.Logf("%s of an engine: %d spans; in the middle %s, at the end %s", *engineTime, backend.Count(), middle, end)
	// Labels that a request may have for the first time make a few.
	assert.InEpsilon(t, middle.series, end.series, 0.1, "series")
	assert.Less(t, end.rss, middle.rss*3/2+32<<20, "memory")
	losses := c.Settle(outLimit).Losses()
	// At this speed the engine's exporters drop spans: steps without their decode.
	delete(losses, "processor_genai_lost_steps")
	assert.Empty(t, losses)
}

// state is what must not grow.
type state struct {
	series int
	rss    int64
}

// String is for the log.
func (s state) String() string { return fmt.Sprintf("%d series, %d MiB", s.series, s.rss>>20) }

func look(t *testing.T, c *collector.Collector) state {
	t.Helper()
	var page string
	require.True(t, until(func() bool {
		var err error
		page, err = c.Page()
		return err == nil && strings.Contains(page, "sglang:")
	}))
	s := state{}
	for line := range strings.Lines(page) {
		if !strings.HasPrefix(line, "#") {
			s.series++
		}
	}
	s.rss, _ = c.Memory()
	return s
}

// runSim runs a simulated engine until stop or the test's end.
func runSim(t *testing.T, args ...string) (stop func()) {
	t.Helper()
	log, err := os.Create(filepath.Join(t.TempDir(), "log"))
	require.NoError(t, err)
	cmd := exec.Command(tool.Binary(t, "sglang-sim"), args...)
	cmd.Stdout, cmd.Stderr = log, log
	require.NoError(t, cmd.Start())
	stop = sync.OnceFunc(func() {
		_ = cmd.Process.Signal(syscall.SIGTERM)
		_ = cmd.Wait()
		_ = log.Close()
	})
	t.Cleanup(func() {
		stop()
		if raw, err := os.ReadFile(log.Name()); err == nil && t.Failed() {
			t.Logf("sglang-sim wrote:\n%s", raw)
		}
	})
	return stop
}
