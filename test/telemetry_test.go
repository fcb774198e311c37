// Copyright The otelcol-sglang Authors
// SPDX-License-Identifier: Apache-2.0

package e2e

import (
	"testing"

	"github.com/stretchr/testify/assert"

	"github.com/otelcol-sglang/otelcol-sglang/test/internal/collector"
)

// checkOwnTelemetry: nothing was lost or refused, and our parts tell what they do.
func checkOwnTelemetry(t *testing.T, own collector.Own) {
	t.Helper()
	assert.Empty(t, own.Losses())
	for _, name := range []string{
		"processor_rankdedup_spans_in", "processor_rankdedup_spans_folded", "processor_rankdedup_spans_at_once",
		"processor_rankdedup_senders", "processor_rankdedup_engines", "processor_genai_roots",
		"receiver_accepted_spans", "exporter_sent_spans",
	} {
		assert.Positive(t, own[name], name)
	}
	for _, name := range []string{
		"processor_rankdedup_held_spans", "processor_rankdedup_held_bytes", "processor_genai_held_roots",
		"processor_genai_open_requests",
	} {
		assert.Contains(t, own, name)
		if name != "processor_rankdedup_held_bytes" && name != "processor_genai_open_requests" {
			assert.Zero(t, own[name], name)
		}
	}
}
