// Copyright The otelcol-sglang Authors
// SPDX-License-Identifier: Apache-2.0

package args

import (
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

func TestDefaultIsValid(t *testing.T) {
	a := Default()
	require.NoError(t, a.Validate())
}

func TestValidate(t *testing.T) {
	tests := map[string]struct {
		change func(*Args)
		want   string
	}{
		"tp":                {func(a *Args) { a.TPSize = 0 }, "tp-size must be from 1 to 1024 (got 0)"},
		"ranks":             {func(a *Args) { a.TPSize, a.DPSize = 64, 64 }, "tp-size * dp-size * pp-size must be at most 1024 (got 4096)"},
		"dp":                {func(a *Args) { a.TPSize, a.DPSize, a.EnableDPAttention = 4, 3, true }, "dp-size must be a divisor of tp-size (4) with enable-dp-attention (got 3)"},
		"dp alone":          {func(a *Args) { a.EnableDPAttention = true }, "dp-size must be above 1 with enable-dp-attention (got 1)"},
		"ep":                {func(a *Args) { a.TPSize, a.EPSize = 4, 8 }, "ep-size must be a divisor of tp-size (4) (got 8)"},
		"mode":              {func(a *Args) { a.DisaggregationMode = "both" }, `disaggregation-mode must be one of null, prefill, decode (got "both")`},
		"port":              {func(a *Args) { a.Port = 70000 }, "port must be from 0 to 65535 (got 70000)"},
		"running":           {func(a *Args) { a.MaxRunningRequests = 0 }, "max-running-requests must be at least 1 (got 0)"},
		"memory":            {func(a *Args) { a.MemFractionStatic = 1.5 }, "mem-fraction-static must be between 0 and 1 (got 1.5)"},
		"chunk":             {func(a *Args) { a.ChunkedPrefillSize = 0 }, "chunked-prefill-size must be at least 1, or -1 for off (got 0)"},
		"mixed chunk":       {func(a *Args) { a.EnableMixedChunk, a.ChunkedPrefillSize = true, -1 }, "enable-mixed-chunk must be off without a chunked-prefill-size (got true)"},
		"mixed speculation": {func(a *Args) { a.EnableMixedChunk, a.SpeculativeAlgorithm = true, "EAGLE" }, "enable-mixed-chunk must be off with a speculative-algorithm (got true)"},
		"chunk pages":       {func(a *Args) { a.PageSize, a.ChunkedPrefillSize = 64, 100 }, "chunked-prefill-size must be a multiple of page-size (64) (got 100)"},
		"storage":           {func(a *Args) { a.HiCacheStorageBackend = "file" }, "hicache-storage-backend must be empty without enable-hierarchical-cache (got file)"},
		"policy":            {func(a *Args) { a.EnableHierarchicalCache, a.HiCacheWritePolicy = true, "never" }, `hicache-write-policy must be one of write_back, write_through, write_through_selective (got "never")`},
		"drafts":            {func(a *Args) { a.SpeculativeAlgorithm, a.SpeculativeNumDraftTokens = "EAGLE", 1 }, "speculative-num-draft-tokens must be at least 2 (got 1)"},
		"level":             {func(a *Args) { a.TraceLevel = 9 }, "SGLANG_TRACE_LEVEL must be from 0 to 4 (got 9)"},
		"endpoint":          {func(a *Args) { a.EnableTrace, a.OTLPTracesEndpoint = true, "" }, `otlp-traces-endpoint must be set with enable-trace (got "")`},
		"scale":             {func(a *Args) { a.TimeScale = 0 }, "time-scale must be above 0 (got 0)"},
		"label":             {func(a *Args) { a.ExtraMetricLabels = map[string]string{"a b": "c"} }, `extra-metric-labels must be names of Prometheus labels (got "a b")`},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			a := Default()
			tt.change(&a)
			assert.EqualError(t, a.Validate(), tt.want)
		})
	}
}

// All that is wrong is said at once.
func TestValidateJoins(t *testing.T) {
	a := Default()
	a.Port, a.StreamInterval = -1, 0
	err := a.Validate()
	require.ErrorContains(t, err, "port")
	assert.ErrorContains(t, err, "stream-interval")
}
