// Copyright The otelcol-sglang Authors
// SPDX-License-Identifier: Apache-2.0

package page

import (
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/otelcol-sglang/otelcol-sglang/engine/args"
	"github.com/otelcol-sglang/otelcol-sglang/engine/internal/pageshape"
	"github.com/otelcol-sglang/otelcol-sglang/engine/ledger"
	"github.com/otelcol-sglang/otelcol-sglang/internal/sglang"
)

const capturesDir = "../../testdata/captures/metrics"

// scenario is a recorded run: how the engine was started, and what then happened.
type scenario struct {
	name string
	args func(a *args.Args)
	lora bool
	// before is what happened before the engine started.
	before, work func(e *engine)
	// begin and end are the names of the pages before and after the work.
	begin, end string
}

var scenarios = []scenario{
	{name: "unified-tp1", args: func(*args.Args) {}, work: unifiedWork, begin: "t0", end: "t2"},
	{name: "unified-tp1", args: func(*args.Args) {}, before: earlierLife, work: unifiedWork, begin: "after-restart-t0", end: "after-restart-t1"},
	{name: "tp4-rank0-only", args: tieredTP4, work: tieredWork, begin: "t0", end: "t2"},
	{name: "tp4-all-schedulers", args: allSchedulers(tieredTP4), work: tieredWork, begin: "t0", end: "t2"},
	{name: "dp2", args: attentionDP, work: dpWork, begin: "t0", end: "t2"},
	{name: "dp2-all-schedulers", args: allSchedulers(attentionDP), work: dpEvictingWork, begin: "t0", end: "t2"},
	{name: "priority", args: withPriorities, work: priorityWork, begin: "t0", end: "t2"},
	{name: "spec", args: speculative, work: specWork, begin: "t0", end: "t2"},
	{name: "lora-custom-labels", args: customLabels, lora: true, work: loraWork, begin: "t0", end: "t2"},
	{name: "pd-prefill", args: disaggregated(args.Prefill), work: prefillWork, begin: "t0", end: "t2"},
	{name: "pd-decode", args: disaggregated(args.Decode), work: decodeWork, begin: "t0", end: "t2"},
}

func tieredTP4(a *args.Args) {
	a.TPSize, a.EnableHierarchicalCache, a.HiCacheStorageBackend = 4, true, "file"
}

func allSchedulers(with func(*args.Args)) func(*args.Args) {
	return func(a *args.Args) {
		with(a)
		a.EnableMetricsForAllSchedulers = true
	}
}

func attentionDP(a *args.Args) { a.TPSize, a.DPSize, a.EnableDPAttention = 4, 2, true }

func withPriorities(a *args.Args) {
	a.TPSize, a.EnablePriorityScheduling = 2, true
	a.ExtraMetricLabels = map[string]string{"cluster": "eu-1", "team": "search"}
}

func speculative(a *args.Args) { a.TPSize, a.SpeculativeAlgorithm = 2, "EAGLE" }

func customLabels(a *args.Args) { a.TokenizerMetricsAllowedCustomLabels = []string{"app", "tenant"} }

func disaggregated(mode string) func(*args.Args) {
	return func(a *args.Args) { a.TPSize, a.DisaggregationMode = 2, mode }
}

func unifiedWork(e *engine) {
	e.scraped()
	e.stepped(-1)
	e.stages(sglang.StageRequestProcess, sglang.StagePrefillForward)
	e.served(request(true))
	e.served(request(false))
}

// earlierLife leaves nothing behind, whatever its collectors still write.
func earlierLife(e *engine) {
	e.started()
	unifiedWork(e)
	dead := e.schedulers[0]
	e.page.Restart()
	e.boot()
	dead.QueueTime(time.Hour)
}

func tieredWork(e *engine) {
	unifiedWork(e)
	for i, s := range e.schedulers {
		s.Retracted(1, 100, 20)
		e.radixes[i].Evicted(500, 2*time.Millisecond)
		e.radixes[i].BackedUp(sglang.PoolKV, 500, 1<<20, 2*time.Millisecond)
		e.radixes[i].LoadedBack(sglang.PoolKV, 300, 1<<20, 2*time.Millisecond)
		e.storages[i].Hit(256)
		e.storages[i].Prefetched(256, 256, 1<<20, time.Millisecond)
	}
	r := request(true)
	r.Cached = ledger.CachedTokens{Device: 100, Host: 20, Storage: 8}
	e.served(r)
}

func dpWork(e *engine) {
	e.scraped()
	e.stepped(1)
	e.stages(sglang.StageRequestProcess, sglang.StagePrefillForward)
	for _, s := range e.schedulers {
		s.DPStep(&ledger.DPStep{Tokens: 10, MaxTokens: 20, SumTokens: 30, Pairs: 100, MaxPairs: 300, Groups: 2, SyncWait: time.Millisecond})
	}
	e.served(request(true))
	e.served(request(false))
}

func dpEvictingWork(e *engine) {
	dpWork(e)
	for _, r := range e.radixes {
		r.Evicted(500, 2*time.Millisecond)
	}
}

func priorityWork(e *engine) {
	unifiedWork(e)
	waiting := ledger.QueueCount{Total: 6, ByPriority: map[string]int{"0": 1, "1": 1, "5": 1, "-3": 1, sglang.PriorityNone: 2}}
	s := e.snapshot()
	s.Running, s.Queued = waiting, waiting
	for _, c := range e.schedulers {
		c.Report(s)
	}
	for _, priority := range []int{0, 1, 5, -3} {
		r := request(true)
		r.Priority = &priority
		e.served(r)
		if priority != 1 {
			r.Stream = false
			e.served(r)
		}
	}
}

func specWork(e *engine) {
	e.scraped()
	e.stepped(-1)
	e.stages(sglang.StageRequestProcess, sglang.StagePrefillForward)
	for _, stream := range []bool{true, false} {
		r := request(stream)
		r.VerifyCalls = 3
		e.served(r)
	}
}

func loraWork(e *engine) {
	e.scraped()
	e.stepped(-1)
	e.stages(sglang.StageRequestProcess, sglang.StagePrefillForward)
	for i, tenant := range []string{"t0", "t1", "t2"} {
		r := request(true)
		r.CustomLabels = map[string]string{"app": "chat", "tenant": tenant, "user": "never shown"}
		if i == 1 {
			r.Cached = ledger.CachedTokens{}
		}
		e.served(r)
	}
	e.served(request(false))
}

func prefillWork(e *engine) {
	e.scraped()
	for _, s := range e.schedulers {
		s.Pass(sglang.PassPrefillNone)
		s.RealtimeTokens(sglang.ModePrefillCompute, 1000, -1)
		s.LoopTime(sglang.LoopProcessBatchResult, sglang.OverlapFull, 3*time.Millisecond)
		s.KVTransfer(&ledger.Transfer{Bootstrap: 5 * time.Millisecond, Alloc: time.Millisecond, Latency: 20 * time.Millisecond, Bytes: 1 << 28})
		s.BootstrapFailed()
	}
	e.stages(sglang.StagePrefillBootstrap, sglang.StagePrefillForward, sglang.StagePrefillTransferKVCache)
	e.answered("/generate", "POST")
	r := request(true)
	r.Output, r.Cached, r.Front.FirstToken = r.Output[:1], ledger.CachedTokens{}, ledger.Unset
	e.tokenizer.Finished(r)
}

func decodeWork(e *engine) {
	e.scraped()
	for _, s := range e.schedulers {
		s.Pass(sglang.PassDecodeGraph)
		s.RealtimeTokens(sglang.ModeDecode, 8, -1)
		s.LoopTime(sglang.LoopProcessBatchResult, sglang.OverlapFull, 3*time.Millisecond)
		s.KVTransfer(&ledger.Transfer{Bootstrap: 5 * time.Millisecond, Alloc: time.Millisecond, Latency: ledger.Unset})
	}
	e.stages(sglang.StageDecodePrepare, sglang.StageDecodeBootstrap, sglang.StageDecodeTransferred,
		sglang.StageDecodeWaiting, sglang.StageFakeOutput)
	r := request(true)
	r.Cached = ledger.CachedTokens{}
	e.served(r)
}

// recorded are the differences from the recorded pages. What is listed must be
// there, and what is there must be listed.
var recorded = []pageshape.Accepted{
	{
		Page: ".prom", Kind: pageshape.OtherForm, What: "whole numbers",
		Reason: "expfmt's text format writes 1 where prometheus_client writes 1.0",
	},
	{
		Page: ".prom", Kind: pageshape.OtherForm, What: "whole bounds",
		Reason: "expfmt's text format writes 1 where prometheus_client writes 1.0",
	},
	{
		Kind: pageshape.OtherForm, What: "whole counts of histograms",
		Reason: "expfmt takes counts for the integers that they are",
	},
	{
		Kind: pageshape.OtherForm, What: "order of labels",
		Reason: "expfmt puts le last, prometheus_client sorts it among the others",
	},
	{
		Page: "tp4", Kind: pageshape.MissingSeries, What: "cached_tokens_total", Detail: `cache_source="total"`,
		Reason: "the recorded engine had requests without a breakdown; here all have one if there is a host tier",
	},
}

func TestLikeRecordedPages(t *testing.T) {
	table := pageshape.NewTable(recorded...)
	for _, s := range scenarios {
		a := testArgs()
		s.args(&a)
		e := newEngine(t, a)
		e.lora = s.lora
		if s.before != nil {
			s.before(e)
		}
		e.started()
		compareWithRecorded(t, table, e, s.name+"."+s.begin)
		s.work(e)
		compareWithRecorded(t, table, e, s.name+"."+s.end)
	}
	for _, a := range table.Stale() {
		t.Errorf("listed but not there any more: %+v", a)
	}
}

// pages in the order in which they were asked for.
var pages = []struct{ accept, suffix string }{{acceptText, ".prom"}, {acceptOpenMetrics, ".openmetrics.txt"}}

func compareWithRecorded(t *testing.T, table *pageshape.Table, e *engine, name string) {
	t.Helper()
	for _, p := range pages {
		want, err := os.ReadFile(filepath.Join(capturesDir, "metrics-"+name+p.suffix))
		if os.IsNotExist(err) && p.accept != acceptText {
			continue
		}
		require.NoError(t, err)
		got, contentType := e.get(p.accept)
		wantShape, err := pageshape.Parse(want, contentType)
		require.NoError(t, err)
		gotShape, err := pageshape.Parse(got, contentType)
		require.NoError(t, err)
		for _, d := range table.Unknown(name+p.suffix, pageshape.Compare(wantShape, gotShape)) {
			t.Errorf("%s: %v", name+p.suffix, d)
		}
		e.http.Response("/metrics", "GET", 200)
	}
}
