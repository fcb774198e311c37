// Copyright The otelcol-sglang Authors
// SPDX-License-Identifier: Apache-2.0

package doctor // import "github.com/otelcol-sglang/otelcol-sglang/cmd/sglangctl/internal/doctor"

import (
	"math"
	"slices"

	dto "github.com/prometheus/client_model/go"

	"github.com/otelcol-sglang/otelcol-sglang/internal/sglang"
)

const flagPrefix = "flag-"

// engineFlag is a flag of the engine that something wanted needs.
type engineFlag struct {
	// id is the check's, without flagPrefix, and the word for --want.
	id string
	// key is its name in /server_info, family one that only it brings to the page:
	// where /server_info says nothing, the family tells.
	key    string
	family sglang.FamilyName
	// needed flags fail where they are off; others only if they are wanted.
	needed bool
	// start turns it on, without says what is missing while it is off.
	start, without string
}

var engineFlags = []engineFlag{
	{
		id: "metrics", key: "enable_metrics", family: sglang.FamilyNumRunningReqs, needed: true, start: "--enable-metrics",
		without: "it has no page, and its time to first token of requests that don't stream is wrong (the spans' is used)",
	},
	{
		id: "trace", key: "enable_trace", needed: true,
		start:   "--enable-trace --otlp-traces-endpoint <collector>:4317 (and pip install \"sglang[tracing]\")",
		without: "no request has a trace, a budget or a queue time",
	},
	{
		id: "ranks", key: "enable_metrics_for_all_schedulers", start: "--enable-metrics-for-all-schedulers",
		without: "the page shows mostly rank 0: metrics tell of no slow rank (spans do)",
	},
	{
		id: "device-timer", family: sglang.FamilyFwdOccupancy, start: "SGLANG_ENABLE_METRICS_DEVICE_TIMER=1",
		without: "fwd_occupancy is not measured: panels of GPU time per step are empty",
	},
	{
		id: "cache", key: "enable_hierarchical_cache", family: sglang.FamilyHiCacheHostTotalTokens, start: "--enable-hierarchical-cache",
		without: "there is no host cache: its panels, and hits by source other than device, are empty",
	},
	{
		id: "speculation", key: "speculative_algorithm", family: sglang.FamilySpecAcceptLength, start: "--speculative-algorithm",
		without: "nothing is speculated: panels of accepted drafts are empty",
	},
	{
		id: "priority", key: "enable_priority_scheduling", start: "--enable-priority-scheduling",
		without: "latency and queue by priority are not told apart",
	},
	{
		id: "mfu", key: "enable_mfu_metrics", start: "--enable-mfu-metrics",
		without: "estimated FLOPs and memory traffic are not on the page",
	},
}

// Wants are the words for [Options.Want].
func Wants() []string {
	out := make([]string, len(engineFlags))
	for i, flag := range engineFlags {
		out[i] = flag.id
	}
	return out
}

func flagChecks() []check {
	out := make([]check, len(engineFlags))
	for i, flag := range engineFlags {
		out[i] = check{id: flagPrefix + flag.id, engine: flag.check}
	}
	return out
}

func (g engineFlag) check(f *Facts, e *Engine) Result {
	on, how, known := g.state(e)
	switch {
	case !known:
		return unknown(how, "")
	case on:
		return ok("on (%s)", how)
	case g.needed || slices.Contains(f.Want, g.id):
		return fail("off ("+how+"): "+g.without, "start the engine with "+g.start)
	}
	return ok("off (%s): %s; %s turns it on", how, g.without, g.start)
}

// state tells how it is known whether the flag is on.
func (g engineFlag) state(e *Engine) (on bool, how string, known bool) {
	if _, there := e.Info.setting(g.key); there {
		return e.Info.on(g.key), g.key + " in /server_info", true
	}
	if g.family == "" {
		return false, "/server_info does not tell", false
	}
	if len(e.Page.Families) == 0 {
		return false, "/server_info does not tell, and the page shows nothing", false
	}
	if f := e.Page.Families[string(g.family)]; f != nil {
		return measured(f), string(g.family) + " on the page", true
	}
	return false, "no " + string(g.family) + " on the page", true
}

// measured: any value is a number. A gauge without a source is NaN.
func measured(f *dto.MetricFamily) bool {
	return slices.ContainsFunc(f.GetMetric(), func(m *dto.Metric) bool {
		return m.GetGauge() == nil || !math.IsNaN(m.GetGauge().GetValue())
	})
}
