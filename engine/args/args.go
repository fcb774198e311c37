// Copyright The otelcol-sglang Authors
// SPDX-License-Identifier: Apache-2.0

// Package args holds the settings of a simulated engine. Those that SGLang has
// are named like its server arguments and mean the same.
package args // import "github.com/otelcol-sglang/otelcol-sglang/engine/args"

import (
	"fmt"
	"slices"
	"time"

	"github.com/otelcol-sglang/otelcol-sglang/internal/sglang"
)

// PD roles of [Args.DisaggregationMode].
const (
	Unified = "null"
	Prefill = "prefill"
	Decode  = "decode"
)

// Args are an engine's settings. [Default] gives SGLang's defaults.
type Args struct {
	ModelPath, ServedModelName string
	Host                       string
	Port                       int

	TPSize, DPSize, PPSize, EPSize int
	// EnableDPAttention makes the DP groups share the TP ranks and step together;
	// without it DP means whole replicas of TPSize ranks each.
	EnableDPAttention bool
	// LoadBalanceMethod of the DP controller: round_robin, shortest_queue, minimum_tokens.
	LoadBalanceMethod string

	DisaggregationMode          string
	DisaggregationBootstrapPort int
	// BootstrapAddr is where a decode engine finds its prefill engine's simulated
	// transfers: host:port.
	BootstrapAddr string
	// APIKey protects all endpoints but health and metrics; "" for none.
	APIKey string

	MaxRunningRequests int
	MaxQueuedRequests  int
	MaxTotalTokens     int // 0: from MemFractionStatic and the model profile
	MemFractionStatic  float64
	// SWAFullTokensRatio is the size of the sliding-window pool in that of the full
	// one, MambaFullMemoryRatio the memory of states in that of the KV pool; only for
	// models that have such layers. MaxMambaCacheSize, if not 0, is the number of states.
	SWAFullTokensRatio   float64
	MambaFullMemoryRatio float64
	MaxMambaCacheSize    int
	ContextLength        int
	PageSize             int
	ChunkedPrefillSize   int // -1: off
	// EnableMixedChunk lets those who decode go along with a prefill pass.
	EnableMixedChunk         bool
	MaxPrefillTokens         int
	SchedulePolicy           string // lpm, fcfs, lof, random, dfs-weight
	ScheduleConservativeness float64
	EnablePriorityScheduling bool
	SchedulePriorityLowFirst bool
	// AbortOnPriorityWhenDisabled refuses requests with a priority on an engine
	// without priority scheduling.
	AbortOnPriorityWhenDisabled bool
	DisableRadixCache           bool
	DisableOverlapSchedule      bool
	DecodeLogInterval           int
	StreamInterval              int

	SpeculativeAlgorithm      string // "", EAGLE, EAGLE3, NGRAM, STANDALONE
	SpeculativeNumSteps       int
	SpeculativeNumDraftTokens int
	SpeculativeEagleTopK      int

	EnableHierarchicalCache bool
	HiCacheRatio            float64
	HiCacheSize             int // GB; wins over the ratio when set
	HiCacheWritePolicy      string
	HiCacheStorageBackend   string
	HiCacheStoragePrefetch  string // best_effort, wait_complete, timeout
	EnableLoRA              bool
	MaxLoRAsPerBatch        int
	// EnableEPLB places a MoE model's experts by how often they are used.
	EnableEPLB bool
	// EnableExpertDistributionMetrics counts them, as EnableEPLB does.
	EnableExpertDistributionMetrics bool
	EnableStreamingSession          bool

	EnableMetrics                       bool
	EnableMetricsForAllSchedulers       bool
	ExtraMetricLabels                   map[string]string
	TokenizerMetricsAllowedCustomLabels []string
	EnableMFUMetrics                    bool
	// Bounds of the latencies' histograms, in seconds; nil for SGLang's.
	BucketTimeToFirstToken, BucketInterTokenLatency, BucketE2ERequestLatency []float64
	// Rules for the bounds of the token histograms: default, tse or custom with numbers.
	PromptTokensBuckets, GenerationTokensBuckets []string
	// BucketEvictionDuration is SGLANG_BUCKET_EVICTION_DURATION, in seconds; nil for SGLang's.
	BucketEvictionDuration []float64
	// CacheHitWindow is SGLANG_CACHE_HIT_RATE_WINDOW_SECONDS.
	CacheHitWindow time.Duration
	// DeviceTimer is SGLANG_ENABLE_METRICS_DEVICE_TIMER.
	DeviceTimer bool

	EnableTrace        bool
	OTLPTracesEndpoint string
	OTLPServiceName    string
	// TraceLevel is SGLANG_TRACE_LEVEL, 0 to 4; 3 is the default.
	TraceLevel int
	// TraceModules say what makes spans: request, mooncake.
	TraceModules []string
	// TokenizerWorkerNum front ends share the requests, each with its own spans.
	TokenizerWorkerNum int
	// TraceAsync is SGLANG_TRACE_ASYNC.
	TraceAsync bool

	// The simulator's own.

	ModelProfile string
	Seed         uint64
	TimeScale    float64
	Faults       []string
	Load         string
	TruthFile    string
	// OTLPMetricsEndpoint gives the same metrics as OTLP; "" for none.
	OTLPMetricsEndpoint string
	// StepJitter is the spread of the moment at which a rank reads the clock.
	StepJitter time.Duration
}

// Default are SGLang's defaults, with the simulator's own.
func Default() Args {
	return Args{
		ModelPath: "meta-llama/Llama-3.1-8B-Instruct", Host: "127.0.0.1", Port: 30000,
		TPSize: 1, DPSize: 1, PPSize: 1, EPSize: 1, LoadBalanceMethod: "round_robin",
		DisaggregationMode: Unified, DisaggregationBootstrapPort: 8998,
		MaxRunningRequests: 256, MemFractionStatic: 0.88, SWAFullTokensRatio: 0.8, MambaFullMemoryRatio: 0.9, ContextLength: 131072, PageSize: 1,
		ChunkedPrefillSize: 8192, MaxPrefillTokens: 16384,
		SchedulePolicy: "fcfs", ScheduleConservativeness: 1, DecodeLogInterval: 40, CacheHitWindow: 15 * time.Second, StreamInterval: 1,
		SpeculativeNumSteps: 3, SpeculativeNumDraftTokens: 4, SpeculativeEagleTopK: 1,
		HiCacheRatio: 2, HiCacheWritePolicy: "write_through", HiCacheStoragePrefetch: "best_effort",
		MaxLoRAsPerBatch: 8, OTLPTracesEndpoint: "localhost:4317", OTLPServiceName: "sglang",
		TraceLevel: 3, TraceModules: []string{sglang.TraceModuleRequest}, TokenizerWorkerNum: 1, ModelProfile: "llama-8b-h100", Seed: 1, TimeScale: 1,
		StepJitter: 200 * time.Microsecond,
	}
}

// AttentionTPSize is the number of ranks that share a request's attention.
func (a *Args) AttentionTPSize() int {
	if a.EnableDPAttention {
		return a.TPSize / a.DPSize
	}
	return a.TPSize
}

// Name tells engines with one seed apart.
func (a *Args) Name() string { return fmt.Sprintf("%s %s:%d", a.DisaggregationMode, a.Host, a.Port) }

// TracesTransfers tells whether KV transfers make spans of their own.
func (a *Args) TracesTransfers() bool {
	return a.EnableTrace && slices.Contains(a.TraceModules, sglang.TraceModuleKV)
}

// Speculative tells whether speculation is on.
func (a *Args) Speculative() bool { return a.SpeculativeAlgorithm != "" }
