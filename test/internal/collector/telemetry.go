// Copyright The otelcol-sglang Authors
// SPDX-License-Identifier: Apache-2.0

package collector // import "github.com/otelcol-sglang/otelcol-sglang/test/internal/collector"

import (
	"errors"
	"fmt"
	"io"
	"maps"
	"net/http"
	"slices"
	"strings"
	"time"

	dto "github.com/prometheus/client_model/go"
	"github.com/prometheus/common/expfmt"
	"github.com/prometheus/common/model"
	"github.com/stretchr/testify/require"

	"github.com/otelcol-sglang/otelcol-sglang/test/internal/tool"
)

// ownPrefix stands before the collector's own metrics.
const ownPrefix = "otelcol_"

// Own is the collector's own telemetry: each metric's sum over all series, by
// its name without prefix.
type Own map[string]float64

// Telemetry reads the collector's own telemetry.
func (c *Collector) Telemetry() (Own, error) {
	body, err := get("http://" + c.Own + "/metrics")
	if err != nil {
		return nil, err
	}
	parser := expfmt.NewTextParser(model.UTF8Validation)
	families, err := parser.TextToMetricFamilies(strings.NewReader(string(body)))
	if err != nil {
		return nil, err
	}
	own := Own{}
	for name, f := range families {
		for _, m := range f.GetMetric() {
			own[strings.TrimPrefix(name, ownPrefix)] += value(m)
		}
	}
	return own, nil
}

func value(m *dto.Metric) float64 {
	return m.GetCounter().GetValue() + m.GetGauge().GetValue() + m.GetUntyped().GetValue() +
		float64(m.GetHistogram().GetSampleCount())
}

// Losses are counters of what must not happen while all is well, with their values.
func (o Own) Losses() map[string]float64 {
	bad := maps.Clone(o)
	maps.DeleteFunc(bad, func(name string, v float64) bool {
		return v == 0 || !slices.ContainsFunc([]string{"lost", "refused_spans", "failed_spans", "enqueue_failed"},
			func(part string) bool { return strings.Contains(name, part) })
	})
	return bad
}

// held are gauges of what only memory has, queued those of what is safe.
var (
	held   = []string{"processor_rankdedup_held_spans", "processor_genai_held_roots"}
	queued = []string{"exporter_queue_size", "exporter_in_flight_requests"}
)

// enoughLooks in a row must find nothing: on its way from one part to the next
// data is in no gauge.
const enoughLooks = 20

// Settle waits until the collector has handed on all that it has.
func (c *Collector) Settle(limit time.Duration) Own {
	c.t.Helper()
	return c.await(limit, slices.Concat(held, queued))
}

// Drain waits until all that the collector has is in the exporter's queue.
func (c *Collector) Drain(limit time.Duration) {
	c.t.Helper()
	c.await(limit, held)
}

// Queued waits until the exporter's queue has handed on all that it has.
func (c *Collector) Queued(limit time.Duration) Own {
	c.t.Helper()
	return c.await(limit, queued)
}

func (c *Collector) await(limit time.Duration, zero []string) Own {
	c.t.Helper()
	var own Own
	var err error
	looks := 0
	settled := tool.Until(limit, func() bool {
		looks++
		if own, err = c.Telemetry(); err != nil || slices.ContainsFunc(zero, func(name string) bool { return own[name] != 0 }) {
			looks = 0
		}
		return looks > enoughLooks
	})
	require.NoError(c.t, err)
	require.True(c.t, settled, "the collector still holds data after %s: %v", limit, own.only(zero))
	return own
}

func (o Own) only(names []string) Own {
	some := Own{}
	for _, n := range names {
		some[n] = o[n]
	}
	return some
}

// Page is what Prometheus gets when it asks for OpenMetrics or not.
func (c *Collector) Page() (string, error) {
	body, err := get("http://" + c.Metrics + "/metrics")
	return string(body), err
}

func get(url string) ([]byte, error) {
	client := &http.Client{Timeout: 5 * time.Second}
	defer client.CloseIdleConnections()
	resp, err := client.Get(url)
	if err != nil {
		return nil, err
	}
	defer resp.Body.Close()
	body, err := io.ReadAll(resp.Body)
	if resp.StatusCode != http.StatusOK {
		return nil, errors.Join(err, fmt.Errorf("%s: HTTP status %d", url, resp.StatusCode))
	}
	return body, err
}
