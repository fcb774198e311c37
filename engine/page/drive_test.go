// Copyright The otelcol-sglang Authors
// SPDX-License-Identifier: Apache-2.0

package page

import (
	"math"
	"net/http"
	"net/http/httptest"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/otelcol-sglang/otelcol-sglang/engine/args"
	"github.com/otelcol-sglang/otelcol-sglang/engine/ledger"
	"github.com/otelcol-sglang/otelcol-sglang/internal/sglang"
)

// engine is a page with all the collectors that an engine of these settings has,
// and stands for the parts that call them.
type engine struct {
	t          testing.TB
	lora       bool
	page       *Page
	places     []ledger.Place
	schedulers []ledger.SchedulerCollector
	radixes    []ledger.RadixCollector
	storages   []ledger.StorageCollector
	tokenizer  ledger.TokenizerCollector
	http       ledger.HTTPCollector
	process    ledger.ProcessCollector
}

func testArgs() args.Args {
	a := args.Default()
	a.EnableMetrics = true
	return a
}

func newEngine(t testing.TB, a args.Args) *engine {
	t.Helper()
	p, err := New(Config{Args: a})
	require.NoError(t, err)
	e := &engine{t: t, page: p}
	e.boot()
	return e
}

// boot makes the collectors, as an engine that starts does.
func (e *engine) boot() {
	a := &e.page.args
	e.places, e.schedulers, e.radixes, e.storages = placesOf(a), nil, nil, nil
	for _, p := range e.places {
		e.radixes = append(e.radixes, e.page.Radix(p))
		if a.HiCacheStorageBackend != "" {
			e.storages = append(e.storages, e.page.Storage(p))
		}
		e.schedulers = append(e.schedulers, e.page.Scheduler(p))
	}
	e.tokenizer, e.http, e.process = e.page.Tokenizer(), e.page.HTTP(), e.page.Process()
}

func placesOf(a *args.Args) []ledger.Place {
	var out []ledger.Place
	for pp := range a.PPSize {
		for dp := range a.DPSize {
			out = append(out, placeOf(a, pp, dp))
		}
	}
	return out
}

func placeOf(a *args.Args, pp, dp int) ledger.Place {
	p := ledger.Place{DPRank: -1, PPRank: pp}
	first, n := 0, a.TPSize
	if a.DPSize > 1 {
		p.DPRank = dp
	}
	if a.EnableDPAttention {
		n = a.TPSize / a.DPSize
		first = dp * n
	}
	for i := range n {
		p.TPRanks = append(p.TPRanks, first+i)
	}
	return p
}

// started is what an idle engine has written, with one probe and the scrape itself.
func (e *engine) started() {
	for _, s := range e.schedulers {
		s.Constants(constants())
		s.Report(e.snapshot())
		s.Idle(2 * time.Second)
		s.CPU(time.Second)
	}
	e.process.ProcessCPU(sglang.ComponentTokenizer, time.Second)
	e.answered("/health", http.MethodGet)
	e.http.Request("/metrics", http.MethodGet)
	e.http.Active("/metrics", http.MethodGet, 1)
}

func constants() *ledger.Constants {
	graph := map[string]float64{sglang.PhaseGraphDecode: 0.62, sglang.PhaseGraphPrefill: 0}
	return &ledger.Constants{
		MaxTotalTokens: 120_000, PageSize: 1, Pages: 120_000, ContextLen: 131_072,
		WeightGB: 15.02, KVCacheGB: 14.65, AvailableGB: 71.3, GraphGB: graph, GraphStartupSeconds: graph,
		StartupSeconds: map[string]float64{
			sglang.PhaseLoadWeight: 12.4, sglang.PhaseKVCache: 1.9, sglang.PhaseSchedulerE2E: 31.7, sglang.PhaseTokenizerE2E: 33.2,
		},
	}
}

// snapshot has the parts that the settings turn on.
func (e *engine) snapshot() *ledger.Snapshot {
	s := &ledger.Snapshot{FwdOccupancy: math.NaN(), Full: ledger.Pool{Capacity: 120_000, Available: 120_000}}
	if e.page.args.EnableHierarchicalCache {
		s.Host = &ledger.HostPool{Total: 240_000}
	}
	if e.page.args.DisaggregationMode == args.Prefill {
		s.Utilization = -1
	}
	if e.lora {
		s.LoRA = &ledger.LoRASlots{Used: 2, Total: 8}
	}
	return s
}

func (e *engine) answered(endpoint, method string) {
	e.http.Request(endpoint, method)
	e.http.Active(endpoint, method, 1)
	e.http.Active(endpoint, method, -1)
	e.http.Response(endpoint, method, http.StatusOK)
}

// stepped is a loop of every scheduler with a prefill and a decode batch.
func (e *engine) stepped(groups int) {
	decode := groups
	if groups > 0 {
		decode = 0
	}
	for _, s := range e.schedulers {
		s.Pass(sglang.PassPrefillNone)
		s.Pass(sglang.PassDecodeGraph)
		s.RealtimeTokens(sglang.ModePrefillCompute, 1000, groups)
		s.RealtimeTokens(sglang.ModePrefillCache, 500, groups)
		s.RealtimeTokens(sglang.ModeDecode, 8, decode)
		s.EffectiveTokens(sglang.EffectiveInput, 1500)
		s.LoopTime(sglang.LoopProcessBatchResult, sglang.OverlapFull, 3*time.Millisecond)
		s.LoopTime(sglang.LoopRunBatch, sglang.OverlapNone, 30*time.Millisecond)
	}
}

func (e *engine) stages(ss ...sglang.Stage) {
	for _, s := range e.schedulers {
		s.QueueTime(4 * time.Millisecond)
		for _, st := range ss {
			s.StageLatency(st, 40*time.Millisecond)
		}
	}
}

func request(stream bool) *ledger.Request {
	r := ledger.NewRequest("r", ledger.KindGenerate)
	r.Prompt, r.Output = make([]int32, 1800), make([]int32, 8)
	r.Stream, r.Finish = stream, ledger.FinishStop
	r.Cached.Device = 128
	r.Front.Created, r.Front.FirstToken, r.Front.LastToken, r.Front.Finished = 0, 40*time.Millisecond, 120*time.Millisecond, 128*time.Millisecond
	return r
}

// served is a request from its first token to its end.
func (e *engine) served(r *ledger.Request) {
	e.answered("/generate", http.MethodPost)
	e.tokenizer.FirstToken(r, r.Front.FirstToken)
	if r.Stream {
		e.tokenizer.InterToken(r, 80*time.Millisecond, 7)
	}
	e.tokenizer.Finished(r)
}

// scraped is a scrape that went before.
func (e *engine) scraped() {
	e.http.Response("/metrics", http.MethodGet, http.StatusOK)
	e.http.Request("/metrics", http.MethodGet)
}

const (
	acceptText        = "text/plain;version=0.0.4"
	acceptOpenMetrics = "application/openmetrics-text;version=1.0.0"
)

func (e *engine) get(accept string) (body []byte, contentType string) {
	req := httptest.NewRequest(http.MethodGet, "/metrics", http.NoBody)
	req.Header.Set("Accept", accept)
	rec := httptest.NewRecorder()
	e.page.Handler().ServeHTTP(rec, req)
	require.Equal(e.t, http.StatusOK, rec.Code, rec.Body.String())
	return rec.Body.Bytes(), rec.Header().Get("Content-Type")
}
