// Copyright The otelcol-sglang Authors
// SPDX-License-Identifier: Apache-2.0

package cli // import "github.com/otelcol-sglang/otelcol-sglang/cmd/sglang-sim/internal/cli"

import (
	"encoding/json"
	"fmt"
	"os"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/pflag"

	"github.com/otelcol-sglang/otelcol-sglang/engine/args"
	"github.com/otelcol-sglang/otelcol-sglang/engine/cost"
	"github.com/otelcol-sglang/otelcol-sglang/engine/dp"
	"github.com/otelcol-sglang/otelcol-sglang/engine/load"
	"github.com/otelcol-sglang/otelcol-sglang/engine/sched"
	"github.com/otelcol-sglang/otelcol-sglang/engine/spec"
)

// Environment variables of the engine.
const (
	envLevel       = "SGLANG_TRACE_LEVEL"
	envDeviceTimer = "SGLANG_ENABLE_METRICS_DEVICE_TIMER"
	envAsync       = "SGLANG_TRACE_ASYNC"
	envHitWindow   = "SGLANG_CACHE_HIT_RATE_WINDOW_SECONDS"
	envEviction    = "SGLANG_BUCKET_EVICTION_DURATION"
	envService     = "OTEL_SERVICE_NAME"
	envResource    = "OTEL_RESOURCE_ATTRIBUTES"
)

// group is a part of the help.
type group struct {
	title string
	flags *pflag.FlagSet
}

// groups are all flags; those of the engine are named like SGLang's.
func groups(a *args.Args) []group {
	return []group{
		{"Model and HTTP server", serverFlags(a)},
		{"Parallelism", parallelFlags(a)},
		{"Scheduling and memory", schedulerFlags(a)},
		{"Cache tiers", cacheFlags(a)},
		{"Speculative decoding", specFlags(a)},
		{"Prefill-decode disaggregation", pdFlags(a)},
		{"Metrics and traces", telemetryFlags(a)},
		{"The simulator's own", ownFlags(a)},
	}
}

func newSet(f func(s *pflag.FlagSet)) *pflag.FlagSet {
	s := pflag.NewFlagSet("", pflag.ContinueOnError)
	s.SortFlags = false
	f(s)
	return s
}

func serverFlags(a *args.Args) *pflag.FlagSet {
	return newSet(func(f *pflag.FlagSet) {
		f.StringVar(&a.ModelPath, "model-path", a.ModelPath, "the model's name; no file is read")
		f.StringVar(&a.ServedModelName, "served-model-name", a.ServedModelName, "its name in answers and telemetry (default: model-path)")
		f.StringVar(&a.Host, "host", a.Host, "address to listen on")
		f.IntVar(&a.Port, "port", a.Port, "port to listen on; 0 for any")
		f.StringVar(&a.APIKey, "api-key", a.APIKey, "bearer token for all endpoints but health and metrics")
		f.IntVar(&a.ContextLength, "context-length", a.ContextLength, "longest prompt with its answer, in tokens")
		f.IntVar(&a.TokenizerWorkerNum, "tokenizer-worker-num", a.TokenizerWorkerNum, "front-end processes that make spans; one does the work")
		f.IntVar(&a.StreamInterval, "stream-interval", a.StreamInterval, "tokens between two outputs of a stream")
	})
}

func parallelFlags(a *args.Args) *pflag.FlagSet {
	return newSet(func(f *pflag.FlagSet) {
		f.IntVar(&a.TPSize, "tp-size", a.TPSize, "tensor-parallel ranks; each exports its own spans")
		f.IntVar(&a.DPSize, "dp-size", a.DPSize, "data-parallel replicas, or groups with enable-dp-attention")
		f.IntVar(&a.PPSize, "pp-size", a.PPSize, "pipeline stages")
		f.IntVar(&a.EPSize, "ep-size", a.EPSize, "expert-parallel ranks")
		f.BoolVar(&a.EnableDPAttention, "enable-dp-attention", a.EnableDPAttention, "DP groups share the TP ranks and step together")
		f.StringVar(&a.LoadBalanceMethod, "load-balance-method", a.LoadBalanceMethod, strings.Join(dp.Methods, ", "))
		f.BoolVar(&a.EnableEPLB, "enable-eplb", a.EnableEPLB, "a MoE model's experts are placed by their use")
		f.BoolVar(&a.EnableExpertDistributionMetrics, "enable-expert-distribution-metrics", a.EnableExpertDistributionMetrics, "a MoE model's experts are counted")
	})
}

func schedulerFlags(a *args.Args) *pflag.FlagSet {
	return newSet(func(f *pflag.FlagSet) {
		f.IntVar(&a.MaxRunningRequests, "max-running-requests", a.MaxRunningRequests, "most requests in a batch")
		f.IntVar(&a.MaxQueuedRequests, "max-queued-requests", a.MaxQueuedRequests, "most requests that wait; 0 for any number")
		f.IntVar(&a.MaxTotalTokens, "max-total-tokens", a.MaxTotalTokens, "size of the KV pool; 0: from mem-fraction-static")
		f.Float64Var(&a.MemFractionStatic, "mem-fraction-static", a.MemFractionStatic, "share of GPU memory for weights and KV pool")
		f.Float64Var(&a.SWAFullTokensRatio, "swa-full-tokens-ratio", a.SWAFullTokensRatio, "tokens of the sliding-window pool in those of the full one")
		f.Float64Var(&a.MambaFullMemoryRatio, "mamba-full-memory-ratio", a.MambaFullMemoryRatio, "memory of Mamba states in that of the KV pool")
		f.IntVar(&a.MaxMambaCacheSize, "max-mamba-cache-size", a.MaxMambaCacheSize, "Mamba states; 0: from mamba-full-memory-ratio")
		f.IntVar(&a.PageSize, "page-size", a.PageSize, "tokens in a page of the KV pool")
		f.BoolVar(&a.EnableMixedChunk, "enable-mixed-chunk", a.EnableMixedChunk, "requests that decode go along with prefill passes")
		f.IntVar(&a.ChunkedPrefillSize, "chunked-prefill-size", a.ChunkedPrefillSize, "tokens in a prefill chunk; -1 for off")
		f.IntVar(&a.MaxPrefillTokens, "max-prefill-tokens", a.MaxPrefillTokens, "most tokens in a prefill batch")
		f.StringVar(&a.SchedulePolicy, "schedule-policy", a.SchedulePolicy, strings.Join(sched.Policies, ", "))
		f.Float64Var(&a.ScheduleConservativeness, "schedule-conservativeness", a.ScheduleConservativeness, "how much room for output is kept at admission")
		f.BoolVar(&a.EnablePriorityScheduling, "enable-priority-scheduling", a.EnablePriorityScheduling, "queue by priority")
		f.BoolVar(&a.SchedulePriorityLowFirst, "schedule-low-priority-values-first", a.SchedulePriorityLowFirst, "small numbers go first")
		f.BoolVar(&a.AbortOnPriorityWhenDisabled, "abort-on-priority-when-disabled", a.AbortOnPriorityWhenDisabled, "refuse priorities without enable-priority-scheduling")
		f.BoolVar(&a.DisableOverlapSchedule, "disable-overlap-schedule", a.DisableOverlapSchedule, "CPU and GPU take turns")
		f.IntVar(&a.DecodeLogInterval, "decode-log-interval", a.DecodeLogInterval, "decode steps between two reports")
		f.BoolVar(&a.EnableLoRA, "enable-lora", a.EnableLoRA, "requests may name adapters")
		f.IntVar(&a.MaxLoRAsPerBatch, "max-loras-per-batch", a.MaxLoRAsPerBatch, "adapters in a batch")
		f.BoolVar(&a.EnableStreamingSession, "enable-streaming-session", a.EnableStreamingSession, "sessions keep their KV between turns")
	})
}

func cacheFlags(a *args.Args) *pflag.FlagSet {
	return newSet(func(f *pflag.FlagSet) {
		f.BoolVar(&a.DisableRadixCache, "disable-radix-cache", a.DisableRadixCache, "no prefix cache")
		f.BoolVar(&a.EnableHierarchicalCache, "enable-hierarchical-cache", a.EnableHierarchicalCache, "a host tier below the device's cache")
		f.Float64Var(&a.HiCacheRatio, "hicache-ratio", a.HiCacheRatio, "its size by that of the device's")
		f.IntVar(&a.HiCacheSize, "hicache-size", a.HiCacheSize, "its size in GB; wins over the ratio")
		f.StringVar(&a.HiCacheWritePolicy, "hicache-write-policy", a.HiCacheWritePolicy, strings.Join(args.WritePolicies, ", "))
		f.StringVar(&a.HiCacheStorageBackend, "hicache-storage-backend", a.HiCacheStorageBackend, "any name adds a storage tier")
		f.StringVar(&a.HiCacheStoragePrefetch, "hicache-storage-prefetch-policy", a.HiCacheStoragePrefetch, strings.Join(args.PrefetchPolicies, ", "))
	})
}

func specFlags(a *args.Args) *pflag.FlagSet {
	return newSet(func(f *pflag.FlagSet) {
		f.StringVar(&a.SpeculativeAlgorithm, "speculative-algorithm", a.SpeculativeAlgorithm, strings.Join(spec.Algorithms, ", "))
		f.IntVar(&a.SpeculativeNumSteps, "speculative-num-steps", a.SpeculativeNumSteps, "steps of the draft model")
		f.IntVar(&a.SpeculativeEagleTopK, "speculative-eagle-topk", a.SpeculativeEagleTopK, "branches of each step")
		f.IntVar(&a.SpeculativeNumDraftTokens, "speculative-num-draft-tokens", a.SpeculativeNumDraftTokens, "tokens verified in a step")
	})
}

func pdFlags(a *args.Args) *pflag.FlagSet {
	return newSet(func(f *pflag.FlagSet) {
		f.StringVar(&a.DisaggregationMode, "disaggregation-mode", a.DisaggregationMode, strings.Join(args.DisaggregationModes, ", "))
		f.IntVar(&a.DisaggregationBootstrapPort, "disaggregation-bootstrap-port", a.DisaggregationBootstrapPort, "where a prefill engine waits for its decode engine")
		f.StringVar(&a.BootstrapAddr, "bootstrap-addr", a.BootstrapAddr, "where a decode engine finds that port, as host:port (the simulator's own)")
	})
}

func telemetryFlags(a *args.Args) *pflag.FlagSet {
	return newSet(func(f *pflag.FlagSet) {
		f.BoolVar(&a.EnableMetrics, "enable-metrics", a.EnableMetrics, "serve /metrics")
		f.BoolVar(&a.EnableMetricsForAllSchedulers, "enable-metrics-for-all-schedulers", a.EnableMetricsForAllSchedulers, "every rank writes its own series")
		f.BoolVar(&a.EnableMFUMetrics, "enable-mfu-metrics", a.EnableMFUMetrics, "estimated FLOPs and memory traffic")
		f.Var((*labels)(&a.ExtraMetricLabels), "extra-metric-labels", `JSON object of labels, as {"team": "search"}`)
		f.StringSliceVar(&a.TokenizerMetricsAllowedCustomLabels, "tokenizer-metrics-allowed-custom-labels", nil, "labels that clients may set in the header x-custom-labels")
		f.Float64SliceVar(&a.BucketTimeToFirstToken, "bucket-time-to-first-token", nil, "bounds in seconds, with commas")
		f.Float64SliceVar(&a.BucketInterTokenLatency, "bucket-inter-token-latency", nil, "bounds in seconds, with commas")
		f.Float64SliceVar(&a.BucketE2ERequestLatency, "bucket-e2e-request-latency", nil, "bounds in seconds, with commas")
		f.StringSliceVar(&a.PromptTokensBuckets, "prompt-tokens-buckets", nil, "default, tse,MIDDLE,BASE,COUNT or custom,A,B,...")
		f.StringSliceVar(&a.GenerationTokensBuckets, "generation-tokens-buckets", nil, "as prompt-tokens-buckets")
		f.BoolVar(&a.EnableTrace, "enable-trace", a.EnableTrace, "export spans")
		f.StringVar(&a.OTLPTracesEndpoint, "otlp-traces-endpoint", a.OTLPTracesEndpoint, "where to; a whole URL for HTTP")
		f.StringVar(&a.OTLPServiceName, "otlp-service-name", a.OTLPServiceName, "service.name of spans (env "+envService+")")
		f.StringSliceVar(&a.TraceModules, "trace-modules", a.TraceModules, "what makes spans: "+strings.Join(args.TraceModules, ", "))
	})
}

func ownFlags(a *args.Args) *pflag.FlagSet {
	return newSet(func(f *pflag.FlagSet) {
		f.StringVar(&a.ModelProfile, "model-profile", a.ModelProfile, "what passes cost: "+strings.Join(cost.Names(), ", "))
		f.Uint64Var(&a.Seed, "random-seed", a.Seed, "the same seed makes the same choices")
		f.Uint64Var(&a.Seed, "seed", a.Seed, "short for random-seed")
		f.Float64Var(&a.TimeScale, "time-scale", a.TimeScale, "engine seconds per second")
		f.StringArrayVar(&a.Faults, "fault", nil, `NAME[:key=value,...], may be repeated; "list" prints them`)
		f.StringVar(&a.Load, "load", a.Load, "built-in clients: NAME[:key=value,...] of "+strings.Join(load.Presets(), ", "))
		f.StringVar(&a.TruthFile, "truth", a.TruthFile, "file for the true timeline of each request, as JSON lines")
		f.DurationVar(&a.StepJitter, "step-jitter", a.StepJitter, "spread of the moments at which ranks read the clock")
		f.StringVar(&a.OTLPMetricsEndpoint, "otlp-metrics-endpoint", a.OTLPMetricsEndpoint, "export the same metrics as OTLP/gRPC too")
	})
}

// labels is a JSON object of strings.
type labels map[string]string

func (l *labels) String() string {
	if len(*l) == 0 {
		return ""
	}
	b, _ := json.Marshal(*l) // strings always marshal
	return string(b)
}

func (l *labels) Set(s string) error { return json.Unmarshal([]byte(s), (*map[string]string)(l)) }

func (*labels) Type() string { return "json" }

// environment changes what the engine's environment variables say.
func environment(a *args.Args) error {
	for _, variable := range []struct {
		name, rule string
		read       func(v string) error
	}{
		{envLevel, "a whole number", func(v string) (err error) { a.TraceLevel, err = strconv.Atoi(v); return err }},
		{envDeviceTimer, "true or false", func(v string) (err error) { a.DeviceTimer, err = strconv.ParseBool(v); return err }},
		{envAsync, "true or false", func(v string) (err error) { a.TraceAsync, err = strconv.ParseBool(v); return err }},
		{envHitWindow, "a number of seconds", func(v string) (err error) { a.CacheHitWindow, err = seconds(v); return err }},
		{envEviction, "numbers apart by commas", func(v string) (err error) { a.BucketEvictionDuration, err = numbers(v); return err }},
	} {
		if v, ok := os.LookupEnv(variable.name); ok && variable.read(v) != nil {
			return fmt.Errorf("%s must be %s (got %q)", variable.name, variable.rule, v)
		}
	}
	if v := os.Getenv(envService); v != "" {
		a.OTLPServiceName = v
	}
	return nil
}

func seconds(v string) (time.Duration, error) {
	f, err := strconv.ParseFloat(v, 64)
	return time.Duration(f * float64(time.Second)), err
}

func numbers(v string) (all []float64, err error) {
	for part := range strings.SplitSeq(v, ",") {
		f, err := strconv.ParseFloat(strings.TrimSpace(part), 64)
		if err != nil {
			return nil, err
		}
		all = append(all, f)
	}
	return all, nil
}

// resource reads "key=value,key=value".
func resource() map[string]string {
	attrs := map[string]string{}
	for pair := range strings.SplitSeq(os.Getenv(envResource), ",") {
		if key, value, ok := strings.Cut(pair, "="); ok {
			attrs[strings.TrimSpace(key)] = strings.TrimSpace(value)
		}
	}
	return attrs
}
