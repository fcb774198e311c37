// Copyright The otelcol-sglang Authors
// SPDX-License-Identifier: Apache-2.0

package e2e

import (
	"fmt"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/otelcol-sglang/otelcol-sglang/test/internal/collector"
	"github.com/otelcol-sglang/otelcol-sglang/test/internal/engine"
	"github.com/otelcol-sglang/otelcol-sglang/test/internal/prometheus"
	"github.com/otelcol-sglang/otelcol-sglang/test/internal/sink"
	"github.com/otelcol-sglang/otelcol-sglang/test/internal/tool"
)

// latencies is a histogram with the given help and bounds.
func latencies(help string, bounds ...string) string {
	const name = "sglang:e2e_request_latency_seconds"
	page := fmt.Sprintf("# HELP %s %s\n# TYPE %s histogram\n", name, help, name)
	for _, le := range append(bounds, "+Inf") {
		page += fmt.Sprintf("%s_bucket{le=%q} 7\n", name, le)
	}
	return page + name + "_sum 3.5\n" + name + "_count 7\n"
}

// TestConflictingEngines: engines of two releases whose families differ in help,
// type, bounds or spelling, and of which nothing but a resource attribute that no
// series shows tells some apart, are all on one page that Prometheus takes.
func TestConflictingEngines(t *testing.T) {
	t.Parallel()
	tool.Need(t, "prometheus", "apt-get install prometheus")
	const odd = "# TYPE sglang:spec__x gauge\nsglang:spec__x 2\n"
	first := engine.Start(t, latencies("One text", "0.5", "1.0")+odd+
		"# TYPE sglang:num_retracted_reqs gauge\nsglang:num_retracted_reqs 3\n"+
		"# TYPE sglang:num_running_reqs gauge\nsglang:num_running_reqs 4\n")
	second := engine.Start(t, latencies("Another text", "0.1", "2.0", "9.0")+
		"# TYPE sglang:num_retracted_reqs counter\nsglang:num_retracted_reqs 8\n"+
		"# TYPE sglang_num_running_reqs gauge\nsglang_num_running_reqs 5\n")
	overlay := fmt.Sprintf(`
receivers: {sglang: {collection_interval: 500ms, engines: [
  {endpoint: 'http://%s', resource_attributes: {k8s.pod.name: a}},
  {endpoint: 'http://%s', resource_attributes: {k8s.pod.name: b}}]}}`, first.Address, second.Address)
	c := collector.Start(t, collector.Options{Config: "agent.yaml", Overlay: overlay, Env: sink.Start(t).Env()})
	server := prometheus.Start(t, c.Metrics)

	of := func(e *engine.Engine) string { return fmt.Sprintf("instance=%q", e.Address) }
	for _, e := range []*engine.Engine{first, second} {
		awaitValue(t, server, "sglang:e2e_request_latency_seconds_count{"+of(e)+"}", 7)
		awaitValue(t, server, "sglang:e2e_request_latency_seconds_sum{"+of(e)+"}", 3.5)
	}
	awaitValue(t, server, "count(sglang:e2e_request_latency_seconds_bucket{"+of(first)+"})", 3)
	awaitValue(t, server, "count(sglang:e2e_request_latency_seconds_bucket{"+of(second)+"})", 4)
	awaitValue(t, server, "sglang:num_running_reqs{"+of(first)+"}", 4)
	awaitValue(t, server, "sglang:num_running_reqs{"+of(second)+"}", 5)
	awaitValue(t, server, `count({__name__=~"sglang_num_running_reqs"}) or vector(0)`, 0)
	awaitValue(t, server, "sglang:spec__x{"+of(first)+"}", 2)
	// One name has one type: the counter's is another.
	awaitValue(t, server, "sglang:num_retracted_reqs{"+of(first)+"}", 3)
	awaitValue(t, server, "sglang:num_retracted_reqs_counter{"+of(second)+"}", 8)

	page, err := c.Page()
	require.NoError(t, err)
	seen := map[string]bool{}
	for line := range strings.Lines(page) {
		if at := strings.LastIndexByte(line, ' '); !strings.HasPrefix(line, "#") && at > 0 {
			assert.False(t, seen[line[:at]], "twice: %s", line[:at])
			seen[line[:at]] = true
		}
	}
}
