// Copyright The otelcol-sglang Authors
// SPDX-License-Identifier: Apache-2.0

package rules

import (
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"

	"github.com/otelcol-sglang/otelcol-sglang/boards/record"
)

// lost is the built collector, whose tracing backend goes away. Real time has no
// patience: each of its seconds counts as a step of 15.
func lost(t *testing.T) *record.Recording {
	t.Helper()
	return kept(t, "live", func() *record.Recording {
		r := live.Record(t)
		r.Step = record.Step
		return r
	})
}

var live = record.Live{
	Simulator: []string{"--tp-size", "2", "--enable-metrics", "--enable-trace", "--load", "chat:rate=2"},
	Backend:   35 * time.Second, Length: 80 * time.Second,
}

// TestLiveLosses: with series of the real collector, alerts on its losses fire once the
// backend is gone, and none of them before.
func TestLiveLosses(t *testing.T) {
	if testing.Short() {
		t.Skip("runs real programs for more than a minute")
	}
	r := lost(t)
	var input strings.Builder
	r.Only(inputs(t, readRules(t))).InputSeries(&input)
	gone := live.Backend / time.Second * r.Step
	fired := firedBy(t, r.Step, input.String(), gone, time.Duration(r.Steps-1)*r.Step)
	assert.Empty(t, fired[0], "before the backend is gone")
	assert.Subset(t, fired[1], []string{"SGLangExportFailures", "SGLangExportQueueFull", "SGLangTelemetryRefused"})
}
