// Copyright The otelcol-sglang Authors
// SPDX-License-Identifier: Apache-2.0

package args // import "github.com/otelcol-sglang/otelcol-sglang/engine/args"

import (
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/otelcol-sglang/otelcol-sglang/internal/sglang"
)

// Values of settings that are words.
var (
	DisaggregationModes = []string{Unified, Prefill, Decode}
	WritePolicies       = []string{"write_back", "write_through", "write_through_selective"}
	PrefetchPolicies    = []string{"best_effort", "wait_complete", "timeout"}
	TraceModules        = []string{sglang.TraceModuleRequest, sglang.TraceModuleKV}
)

const (
	// maxRanks bounds the parallel sizes: each rank is an exporter of its own.
	maxRanks   = 1024
	maxPort    = 65535
	maxWorkers = 64
	// maxLevel is the highest trace level with spans of its own.
	maxLevel = 4
)

// check collects what is wrong.
type check []error

// that wants ok of a setting, by the name of its flag.
func (c *check) that(ok bool, key, rule string, got any) {
	if !ok {
		*c = append(*c, fmt.Errorf("%s must be %s (got %v)", key, rule, got))
	}
}

func (c *check) oneOf(key, got string, of []string) {
	c.that(slices.Contains(of, got), key, "one of "+strings.Join(of, ", "), fmt.Sprintf("%q", got))
}

// Validate says all that is wrong with the settings, as far as they can be judged
// alone; parts of the engine know what else they need.
func (a *Args) Validate() error {
	var c check
	a.checkSizes(&c)
	a.checkLimits(&c)
	a.checkCache(&c)
	a.checkTelemetry(&c)
	c.oneOf("disaggregation-mode", a.DisaggregationMode, DisaggregationModes)
	if a.Speculative() {
		c.that(a.SpeculativeNumSteps >= 1, "speculative-num-steps", "at least 1", a.SpeculativeNumSteps)
		c.that(a.SpeculativeNumDraftTokens >= 2, "speculative-num-draft-tokens", "at least 2", a.SpeculativeNumDraftTokens)
	}
	return errors.Join(c...)
}

func (a *Args) checkSizes(c *check) {
	for key, n := range map[string]int{"tp-size": a.TPSize, "dp-size": a.DPSize, "pp-size": a.PPSize, "ep-size": a.EPSize} {
		c.that(n >= 1 && n <= maxRanks, key, fmt.Sprintf("from 1 to %d", maxRanks), n)
	}
	if len(*c) > 0 {
		return
	}
	c.that(a.TPSize*a.DPSize*a.PPSize <= maxRanks, "tp-size * dp-size * pp-size", fmt.Sprintf("at most %d", maxRanks), a.TPSize*a.DPSize*a.PPSize)
	if a.EnableDPAttention {
		c.that(a.DPSize > 1, "dp-size", "above 1 with enable-dp-attention", a.DPSize)
		c.that(a.TPSize%a.DPSize == 0, "dp-size", fmt.Sprintf("a divisor of tp-size (%d) with enable-dp-attention", a.TPSize), a.DPSize)
		c.that(a.PPSize == 1, "pp-size", "1 with enable-dp-attention", a.PPSize)
	}
	c.that(a.TPSize%a.EPSize == 0, "ep-size", fmt.Sprintf("a divisor of tp-size (%d)", a.TPSize), a.EPSize)
}

func (a *Args) checkLimits(c *check) {
	c.that(a.Port >= 0 && a.Port <= maxPort, "port", fmt.Sprintf("from 0 to %d", maxPort), a.Port)
	c.that(a.MaxRunningRequests >= 1, "max-running-requests", "at least 1", a.MaxRunningRequests)
	c.that(a.MaxQueuedRequests >= 0, "max-queued-requests", "at least 0, which is no limit", a.MaxQueuedRequests)
	c.that(a.MaxTotalTokens >= 0, "max-total-tokens", "at least 0", a.MaxTotalTokens)
	c.that(a.MemFractionStatic > 0 && a.MemFractionStatic < 1, "mem-fraction-static", "between 0 and 1", a.MemFractionStatic)
	c.that(a.SWAFullTokensRatio > 0 && a.SWAFullTokensRatio <= 1, "swa-full-tokens-ratio", "above 0, and at most 1", a.SWAFullTokensRatio)
	c.that(a.MambaFullMemoryRatio > 0, "mamba-full-memory-ratio", "above 0", a.MambaFullMemoryRatio)
	c.that(a.MaxMambaCacheSize >= 0, "max-mamba-cache-size", "at least 0", a.MaxMambaCacheSize)
	c.that(a.ContextLength >= 2, "context-length", "at least 2", a.ContextLength)
	c.that(a.PageSize >= 1, "page-size", "at least 1", a.PageSize)
	c.that(a.ChunkedPrefillSize == -1 || a.ChunkedPrefillSize >= 1, "chunked-prefill-size", "at least 1, or -1 for off", a.ChunkedPrefillSize)
	if a.ChunkedPrefillSize > 0 {
		c.that(a.ChunkedPrefillSize%a.PageSize == 0, "chunked-prefill-size", fmt.Sprintf("a multiple of page-size (%d)", a.PageSize), a.ChunkedPrefillSize)
	}
	c.that(!a.EnableMixedChunk || a.ChunkedPrefillSize > 0, "enable-mixed-chunk", "off without a chunked-prefill-size", a.EnableMixedChunk)
	c.that(!a.EnableMixedChunk || !a.Speculative(), "enable-mixed-chunk", "off with a speculative-algorithm", a.EnableMixedChunk)
	c.that(a.MaxPrefillTokens >= 1, "max-prefill-tokens", "at least 1", a.MaxPrefillTokens)
	c.that(a.ScheduleConservativeness >= 0, "schedule-conservativeness", "at least 0", a.ScheduleConservativeness)
	c.that(a.DecodeLogInterval >= 1, "decode-log-interval", "at least 1", a.DecodeLogInterval)
	c.that(a.StreamInterval >= 1, "stream-interval", "at least 1", a.StreamInterval)
	c.that(a.TimeScale > 0, "time-scale", "above 0", a.TimeScale)
}

func (a *Args) checkCache(c *check) {
	c.that(a.HiCacheStorageBackend == "" || a.EnableHierarchicalCache, "hicache-storage-backend", "empty without enable-hierarchical-cache", a.HiCacheStorageBackend)
	if !a.EnableHierarchicalCache {
		return
	}
	c.that(!a.DisableRadixCache, "disable-radix-cache", "off with enable-hierarchical-cache", a.DisableRadixCache)
	c.that(a.HiCacheRatio > 0, "hicache-ratio", "above 0", a.HiCacheRatio)
	c.that(a.HiCacheSize >= 0, "hicache-size", "at least 0", a.HiCacheSize)
	c.oneOf("hicache-write-policy", a.HiCacheWritePolicy, WritePolicies)
	c.oneOf("hicache-storage-prefetch-policy", a.HiCacheStoragePrefetch, PrefetchPolicies)
}

func (a *Args) checkTelemetry(c *check) {
	c.that(a.TraceLevel >= 0 && a.TraceLevel <= maxLevel, "SGLANG_TRACE_LEVEL", fmt.Sprintf("from 0 to %d", maxLevel), a.TraceLevel)
	for _, m := range a.TraceModules {
		c.oneOf("trace-modules", m, TraceModules)
	}
	c.that(a.TokenizerWorkerNum >= 1 && a.TokenizerWorkerNum <= maxWorkers, "tokenizer-worker-num", fmt.Sprintf("from 1 to %d", maxWorkers), a.TokenizerWorkerNum)
	c.that(!a.EnableTrace || a.OTLPTracesEndpoint != "", "otlp-traces-endpoint", "set with enable-trace", `""`)
	for name := range a.ExtraMetricLabels {
		c.that(name != "" && !strings.ContainsAny(name, `:{}=" `), "extra-metric-labels", "names of Prometheus labels", fmt.Sprintf("%q", name))
	}
	c.that(a.CacheHitWindow > 0, "SGLANG_CACHE_HIT_RATE_WINDOW_SECONDS", "above 0", a.CacheHitWindow.Seconds())
	c.that(a.StepJitter >= 0, "step-jitter", "at least 0", a.StepJitter)
}
