// Copyright The otelcol-sglang Authors
// SPDX-License-Identifier: Apache-2.0

package record // import "github.com/otelcol-sglang/otelcol-sglang/boards/record"

import (
	"slices"
	"time"

	"github.com/otelcol-sglang/otelcol-sglang/engine/args"
)

// Times of a scenario with a fault: long enough before it for a baseline, and after it
// for the slowest alert but those on days of burned budget.
const (
	faultAt = 20 * time.Minute
	length  = 38 * time.Minute
	hour    = time.Hour
)

const (
	chat   = "chat:rate=0.7"
	plenty = "chat:rate=2"
)

// Scenarios are what rules and boards are tested with, by name: two healthy hours and
// one for each thing that may go wrong.
func Scenarios() []*Scenario {
	all := slices.Concat(healthy(), capacity(), ranks(), compute(), frontEnds(), telemetry())
	for _, s := range all {
		if s.Length == 0 {
			s.Length = length
		}
		if s.FaultAt == 0 && s.Length == length {
			s.FaultAt = faultAt
		}
	}
	return all
}

func healthy() []*Scenario {
	return []*Scenario{
		{
			Name: "healthy", About: "chat, documents and short completions with priorities; some clients hang up",
			Load: "mixed:rate=1", Settings: func(a *args.Args) { large(a); a.EnablePriorityScheduling = true }, Length: hour,
		},
		{Name: "healthy-bursts", About: "16 requests at once, every 15 s", Load: "burst:burst=16", Settings: large, Length: hour},
	}
}

// large is a model whose steps take long enough for an hour to pass quickly.
func large(a *args.Args) { a.ModelProfile = "llama-70b-h100" }

func capacity() []*Scenario {
	return []*Scenario{
		{
			Name: "overload", About: "more requests than the engine can serve", Settings: func(a *args.Args) { large(a); a.MaxRunningRequests = 24 },
			Load: chat + ";chat:rate=2,start=" + faultAt.String(),
		},
		{
			Name: "queue-full", About: "so many requests that the engine refuses some",
			Settings: func(a *args.Args) { large(a); a.MaxRunningRequests, a.MaxQueuedRequests = 24, 30 },
			Load:     chat + ";chat:rate=4,turns=1,start=" + faultAt.String(),
		},
		{
			Name: "kv-pressure", About: "most of the KV pool is taken by something else", Faults: []string{"kv-pressure:share=0.97"},
			Load: "chat:rate=4,turns=1,input=20,prefix=10,output=300",
			Settings: func(a *args.Args) {
				large(a)
				a.MaxTotalTokens, a.ScheduleConservativeness = 200_000, 0.05
			},
		},
		{
			Name: "retractions", About: "answers longer than the engine's guess: it admits too many", Faults: []string{"kv-pressure:share=0.85"},
			Load: "chat:rate=0.8,turns=1,input=20,prefix=10,output=1000",
			Settings: func(a *args.Args) {
				large(a)
				a.MaxTotalTokens, a.ScheduleConservativeness = 200_000, 0.05
			},
		},
		{
			Name: "cache-drift", About: "the device's cache got small; prefixes come from host and storage", Faults: []string{"cache-drift:share=0.9"},
			Load: "chat:rate=1,prefix=600",
			Settings: func(a *args.Args) {
				large(a)
				a.EnableHierarchicalCache, a.HiCacheStorageBackend, a.MaxTotalTokens, a.HiCacheRatio = true, "file", 60_000, 2
			},
		},
	}
}

func ranks() []*Scenario {
	dp := func(a *args.Args) {
		large(a)
		a.TPSize, a.DPSize, a.EnableDPAttention = 4, 2, true
	}
	return []*Scenario{
		{Name: "slow-rank", About: "one GPU is slow", Faults: []string{"slow-rank:rank=1,factor=1.5,delay=4ms"}, Load: chat, Settings: large},
		{Name: "clock-skew", About: "one rank's clock is off, as on another host without NTP", Faults: []string{"clock-skew:rank=1,offset=-250ms"}, Load: chat, Settings: large},
		{Name: "dead-rank", About: "one rank's process sends nothing any more", Faults: []string{"dead-rank:rank=1"}, Load: chat, Settings: large},
		{Name: "dead-rank-of-8", About: "the same, where it is one of eight", Faults: []string{"dead-rank:rank=5"}, Load: chat, Settings: func(a *args.Args) { large(a); a.TPSize = 8 }},
		{Name: "dp-skew-routing", About: "the router sends most requests to one DP rank", Faults: []string{"dp-skew-routing:rank=0,share=0.9"}, Load: plenty, Settings: dp},
		{Name: "dp-skew-length", About: "one DP rank gets the long prompts", Faults: []string{"dp-skew-length"}, Load: "chat:rate=1,spread=1,input=200", Settings: dp},
	}
}

func compute() []*Scenario {
	return []*Scenario{
		{
			Name: "worse-drafts", About: "speculation guesses wrong", Faults: []string{"worse-drafts:quality=0.3"}, Load: chat,
			Settings: func(a *args.Args) { large(a); a.SpeculativeAlgorithm = "EAGLE" },
		},
		{Name: "scheduler-stall", About: "each round of the scheduler takes longer on the CPU", Faults: []string{"scheduler-stall:time=20ms"}, Load: chat, Settings: large},
		{Name: "slow-steps", About: "the same, and so long that answers are late", Faults: []string{"scheduler-stall:time=150ms"}, Load: chat, Settings: large},
		{Name: "stuck", About: "the scheduler takes no batch", Faults: []string{"stuck"}, Load: chat, Settings: large},
		{Name: "slow-transfer", About: "KV transfers from prefill to decode are slow", Faults: []string{"slow-transfer:factor=50"}, Load: chat, Settings: large, PD: true},
		{Name: "failing-transfer", About: "a part of the KV transfers fails", Faults: []string{"slow-transfer:factor=1,fail=0.3"}, Load: chat, Settings: large, PD: true},
	}
}

func frontEnds() []*Scenario {
	return []*Scenario{
		{Name: "frontend-flood", About: "status requests keep the front end busy", Faults: []string{"frontend-flood"}, Load: chat, Settings: large},
		{Name: "restart", About: "the engine crashes and comes back", Faults: []string{"restart:down=20s"}, Load: chat, Settings: large},
	}
}

func telemetry() []*Scenario {
	return []*Scenario{
		{Name: "page-500", About: "the metrics page fails", Faults: []string{"page-500"}, Load: chat, Settings: large},
		{Name: "page-slow", About: "the metrics page takes longer than the scrape may", Faults: []string{"page-slow:time=20s"}, Load: chat, Settings: large},
		{Name: "page-empty", About: "the metrics page is empty", Faults: []string{"page-empty"}, Load: chat, Settings: large},
		{Name: "no-spans", About: "spans don't reach the collector", Faults: []string{FaultNoSpans}, Load: chat, Settings: large},
		{Name: "no-collector", About: "the collector is gone", Faults: []string{FaultNoCollector}, Load: chat, Settings: large},
		{Name: "no-backend", About: "the tracing backend takes nothing, and the collector has to refuse", Faults: []string{FaultNoBackend}, Load: chat, Settings: large},
		{Name: "no-scheduler-spans", About: "several tokenizer workers: scheduler spans miss their requests", Faults: []string{"no-scheduler-spans"}, Load: chat, Settings: large},
		{
			Name: "exporter-overload", About: "all ranks' span exporters drop spans", Load: plenty,
			Faults:   []string{"exporter-overload:rank=0,time=20s", "exporter-overload:rank=1,time=20s"},
			Settings: func(a *args.Args) { large(a); a.TraceLevel = 3 },
		},
		{
			Name: "metrics-off", About: "an engine without --enable-metrics, clients that don't stream: its times to first token are wrong",
			Load: "chat:rate=0.7,stream=0", Settings: func(a *args.Args) { large(a); a.EnableMetrics = false }, Length: length - 1,
		},
		{
			Name: "coarse-buckets", About: "histograms whose last bound is too low", Load: chat, Length: hour,
			Settings: func(a *args.Args) { large(a); a.BucketE2ERequestLatency = []float64{0.5, 1, 2} },
		},
	}
}
