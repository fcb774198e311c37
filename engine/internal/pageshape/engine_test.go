// Copyright The otelcol-sglang Authors
// SPDX-License-Identifier: Apache-2.0

package pageshape_test

import (
	"context"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/otelcol-sglang/otelcol-sglang/engine"
	"github.com/otelcol-sglang/otelcol-sglang/engine/args"
	"github.com/otelcol-sglang/otelcol-sglang/engine/clock"
	"github.com/otelcol-sglang/otelcol-sglang/engine/disagg"
	"github.com/otelcol-sglang/otelcol-sglang/engine/internal/pageshape"
	"github.com/otelcol-sglang/otelcol-sglang/engine/load"
)

const (
	capturesDir = "../../../testdata/captures/metrics"
	contentType = "text/plain; version=0.0.4"

	someLoad = "chat:kind=generate,rate=20,count=100,abort=0,stream=0.8,keys=4"
	// pairLoad has streams only, as the recorded pair had.
	pairLoad = "chat:kind=generate,rate=20,count=100,abort=0,turns=1,stream=1,keys=4"
	// pressing turns come back after their prefix was evicted, and answers get longer
	// than the scheduler reckons with.
	pressing = "chat:kind=generate,rate=20,count=200,abort=0,turns=6,think=1s,stream=0.8,keys=4;" +
		"chat:kind=generate,clients=32,count=64,turns=1,abort=0,output=900,spread=0"
	// prioritised clients, one priority only with streams.
	prioritised = someLoad + ";chat:kind=generate,rate=20,count=100,abort=0,stream=0.5,priority=0|5|-3;" +
		"chat:kind=generate,rate=20,count=30,abort=0,stream=1,priority=1"
)

// runs are recorded engines, with what makes a simulated one show the same.
var runs = []struct {
	name string
	load string
	args func(a *args.Args)
}{
	{"unified-tp1", someLoad, func(a *args.Args) { a.TPSize = 1 }},
	{"tp4-rank0-only", pressing, shortOfMemory},
	{"tp4-all-schedulers", pressing, func(a *args.Args) {
		shortOfMemory(a)
		a.EnableMetricsForAllSchedulers = true
	}},
	{"dp2", someLoad, func(a *args.Args) { a.TPSize, a.DPSize, a.EnableDPAttention = 4, 2, true }},
	{"spec", someLoad, func(a *args.Args) { a.TPSize, a.SpeculativeAlgorithm = 2, "EAGLE" }},
	{"priority", prioritised, func(a *args.Args) {
		a.TPSize, a.EnablePriorityScheduling = 2, true
		a.ExtraMetricLabels = map[string]string{"cluster": "eu-1", "team": "search"}
	}},
}

// shortOfMemory evicts, uses all tiers and retracts.
func shortOfMemory(a *args.Args) {
	a.TPSize, a.EnableHierarchicalCache, a.HiCacheStorageBackend = 4, true, "file"
	a.MaxTotalTokens, a.ScheduleConservativeness = 9000, 0.1
}

// accepted are the differences of the assembled engine's page from the recorded
// ones, beside those that engine/page lists, which are of the form.
var accepted = []pageshape.Accepted{
	{Kind: pageshape.OtherForm, Reason: "listed in engine/page"},
	{
		Kind: pageshape.MissingSeries, What: "sglang:http_", Detail: `endpoint="/health"`,
		Reason: "nobody asks over HTTP on a virtual clock",
	},
	{
		Kind: pageshape.MissingSeries, What: "sglang:http_", Detail: `endpoint="/metrics"`,
		Reason: "nobody asks over HTTP on a virtual clock",
	},
	{
		Kind: pageshape.ExtraSeries, What: "scheduler_stage_seconds_total", Detail: `forward_overlap="full"`,
		Reason: "any part of the loop may run beside a forward pass; the recorded loop said so of one",
	},
	{
		Kind: pageshape.ExtraSeries, What: "per_stage_req_latency_seconds", Detail: `stage="decode_waiting"`,
		Reason: "of a prefill that ended when its decode was not scheduled yet; the recorded engine was too idle",
	},
	{
		Page: "tp4", Kind: pageshape.MissingSeries, What: "cached_tokens_total", Detail: `cache_source="total"`,
		Reason: "listed in engine/page",
	},
	{Page: "pd-prefill", Kind: pageshape.MissingFamily, What: "num_bootstrap_failed_reqs_total", Reason: "here no bootstrap fails"},
	{Page: "pd", Kind: pageshape.ExtraFamily, What: "cached_tokens_total", Reason: "the recorded pair's clients shared no prefix"},
	{
		Page: "pd-prefill", Kind: pageshape.ExtraSeries, What: "realtime_tokens_total", Detail: `mode="prefill_cache"`,
		Reason: "the recorded pair's clients shared no prefix",
	},
	{Page: "tp4", Kind: pageshape.ExtraFamily, What: "sglang:back", Reason: "the recorded engine only read from its storage"},
	{
		Page: "dp2", Kind: pageshape.ExtraSeries, What: "dp_cooperation_realtime_tokens_total",
		Reason: "both groups of the simulated engine prefill at once, and one decodes beside the other's prefill",
	},
	{
		Page: "dp2", Kind: pageshape.ExtraSeries, What: "cuda_graph_passes_total", Detail: `mode="decode_none"`,
		Reason: "a group decodes without a graph while the other prefills",
	},
}

// TestAssembledEngine runs whole engines under load on a virtual clock.
func TestAssembledEngine(t *testing.T) {
	table := pageshape.NewTable(accepted...)
	for _, r := range runs {
		a := args.Default()
		a.EnableMetrics, a.Load = true, r.load
		r.args(&a)
		compareWithRecorded(t, table, r.name, pageAfter(t, a))
	}
	prefill, decode := pairAfter(t)
	compareWithRecorded(t, table, "pd-prefill", prefill)
	compareWithRecorded(t, table, "pd-decode", decode)
	for _, a := range table.Stale() {
		t.Errorf("listed but not there any more: %+v", a)
	}
}

func compareWithRecorded(t *testing.T, table *pageshape.Table, name string, page []byte) {
	t.Helper()
	want, err := os.ReadFile(filepath.Join(capturesDir, "metrics-"+name+".t2.prom"))
	require.NoError(t, err)
	w, err := pageshape.Parse(want, contentType)
	require.NoError(t, err)
	g, err := pageshape.Parse(page, contentType)
	require.NoError(t, err)
	for _, d := range table.Unknown(name, pageshape.Compare(w, g)) {
		t.Errorf("%s: %v", name, d)
	}
}

// ran is long enough for all clients.
const ran = 2 * time.Minute

func pageAfter(t *testing.T, a args.Args) []byte {
	t.Helper()
	loop := clock.NewVirtual(time.Unix(1_800_000_000, 0))
	e, err := engine.New(context.Background(), a, engine.Options{Loop: loop})
	require.NoError(t, err)
	e.Start()
	loop.RunUntil(ran)
	return pageOf(t, e)
}

// pairAfter runs a prefill and a decode engine with clients of both.
func pairAfter(t *testing.T) (prefill, decode []byte) {
	t.Helper()
	loop := clock.NewVirtual(time.Unix(1_800_000_000, 0))
	toDecode, toPrefill := disagg.Pair(loop, time.Millisecond)
	half := func(mode string, link disagg.Link) *engine.Engine {
		a := args.Default()
		a.EnableMetrics, a.TPSize, a.DisaggregationMode = true, 2, mode
		e, err := engine.New(context.Background(), a, engine.Options{Loop: loop, Link: link})
		require.NoError(t, err)
		return e
	}
	p, d := half(args.Prefill, toDecode), half(args.Decode, toPrefill)
	sources, err := load.Parse(pairLoad)
	require.NoError(t, err)
	d.Clients = load.New(loop, engine.PairTarget(p, d), sources, 1).Rooms()
	p.Start()
	d.Start()
	loop.RunUntil(ran)
	return pageOf(t, p), pageOf(t, d)
}

func pageOf(t *testing.T, e *engine.Engine) []byte {
	t.Helper()
	rec := httptest.NewRecorder()
	e.Page.Handler().ServeHTTP(rec, httptest.NewRequest(http.MethodGet, "/metrics", http.NoBody))
	require.NoError(t, e.Shutdown(context.Background()))
	return rec.Body.Bytes()
}
