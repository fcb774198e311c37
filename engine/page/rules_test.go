// Copyright The otelcol-sglang Authors
// SPDX-License-Identifier: Apache-2.0

package page

import (
	"fmt"
	"math"
	"slices"
	"strings"
	"testing"
	"time"

	dto "github.com/prometheus/client_model/go"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"github.com/otelcol-sglang/otelcol-sglang/engine/args"
	"github.com/otelcol-sglang/otelcol-sglang/engine/ledger"
	"github.com/otelcol-sglang/otelcol-sglang/internal/sglang"
)

// numbers are a family's series: of a histogram the sums, of the rest the values.
// Keys are the values of the given labels.
func (e *engine) numbers(name sglang.FamilyName, labels ...string) map[string]float64 {
	return e.collect(name, labels, func(m *dto.Metric) float64 {
		return m.GetGauge().GetValue() + m.GetCounter().GetValue() + m.GetHistogram().GetSampleSum() + m.GetSummary().GetSampleSum()
	})
}

// counts are the observations of a histogram's series.
func (e *engine) counts(name sglang.FamilyName, labels ...string) map[string]float64 {
	return e.collect(name, labels, func(m *dto.Metric) float64 { return float64(m.GetHistogram().GetSampleCount()) })
}

func (e *engine) collect(name sglang.FamilyName, labels []string, of func(*dto.Metric) float64) map[string]float64 {
	out := map[string]float64{}
	for _, f := range e.page.store.Gather() {
		if f.GetName() != string(name) {
			continue
		}
		for _, m := range f.Metric {
			var key []string
			for _, want := range labels {
				i := slices.IndexFunc(m.Label, func(l *dto.LabelPair) bool { return l.GetName() == want })
				if i < 0 {
					key = append(key, "-")
					continue
				}
				key = append(key, m.Label[i].GetValue())
			}
			k := strings.Join(key, "/")
			if _, twice := out[k]; twice {
				e.t.Errorf("%s: more than one series with %s", name, k)
			}
			out[k] = of(m)
		}
	}
	return out
}

func engineOf(t testing.TB, with func(*args.Args)) *engine {
	a := testArgs()
	with(&a)
	return newEngine(t, a)
}

func unified(*args.Args) {}

func TestReportersKeepToWhatTheyOwn(t *testing.T) {
	e := engineOf(t, unified)
	s := e.schedulers[0]
	report := func(p *ledger.PrefillReport, d *ledger.DecodeReport, running int) {
		snapshot := e.snapshot()
		snapshot.Prefill, snapshot.Decode, snapshot.Running.Total = p, d, running
		s.Report(snapshot)
	}
	show := func() []float64 {
		var out []float64
		for _, f := range []sglang.FamilyName{
			sglang.FamilyCacheHitRate, sglang.FamilyNewTokenRatio, sglang.FamilyGenThroughput,
			sglang.FamilyDecodeSumSeqLens, sglang.FamilySpecAcceptLength, sglang.FamilyNumRunningReqs,
		} {
			out = append(out, e.numbers(f)[""])
		}
		return out
	}
	report(nil, nil, 1)
	assert.Equal(t, []float64{0, 0, 0, 0, 0, 1}, show(), "what nobody has measured is 0")
	report(&ledger.PrefillReport{CacheHitRate: 0.5, NewTokenRatio: 0.7}, nil, 2)
	report(nil, &ledger.DecodeReport{GenThroughput: 100, SumSeqLens: 900, Spec: &ledger.SpecReport{AcceptLength: 2.5}}, 3)
	assert.Equal(t, []float64{0.5, 0.7, 100, 900, 2.5, 3}, show(), "a decode report leaves what prefill owns")
	report(&ledger.PrefillReport{CacheHitRate: 0.1, NewTokenRatio: 0.6}, nil, 4)
	assert.Equal(t, []float64{0.1, 0.6, 100, 900, 2.5, 4}, show(), "and the other way round")
	report(nil, &ledger.DecodeReport{}, 0)
	assert.Equal(t, []float64{0.1, 0.6, 0, 0, 2.5, 0}, show(), "an idle engine decodes nothing")
}

func TestSentinelsAndRounding(t *testing.T) {
	e := engineOf(t, unified)
	s := e.snapshot()
	s.TokenUsage, s.Utilization = 0.06468, -1
	s.Full = ledger.Pool{Capacity: 1000, Used: 123, Available: 877}
	e.schedulers[0].Report(s)
	assert.Equal(t, map[string]float64{"": 0.06}, e.numbers(sglang.FamilyTokenUsage))
	assert.Equal(t, map[string]float64{"": 0.123}, e.numbers(sglang.FamilyFullTokenUsage), "the pools' are not rounded")
	assert.Equal(t, map[string]float64{"": -1}, e.numbers(sglang.FamilyUtilization))
	assert.True(t, math.IsNaN(e.numbers(sglang.FamilyFwdOccupancy)[""]))
	body, _ := e.get(acceptText)
	assert.Contains(t, string(body), "\nsglang:fwd_occupancy{engine_type=\"unified\",model_name=\"meta-llama/Llama-3.1-8B-Instruct\",moe_ep_rank=\"0\",pp_rank=\"0\",tp_rank=\"0\"} NaN\n")
	s.FwdOccupancy = 0.875
	e.schedulers[0].Report(s)
	assert.Equal(t, map[string]float64{"": 87.5}, e.numbers(sglang.FamilyFwdOccupancy), "percent")
}

func TestPriorities(t *testing.T) {
	e := engineOf(t, withPriorities)
	report := func(by map[string]int, total int) {
		s := e.snapshot()
		s.Queued = ledger.QueueCount{Total: total, ByPriority: by}
		e.schedulers[0].Report(s)
	}
	report(map[string]int{"0": 2, sglang.PriorityNone: 1}, 3)
	assert.Equal(t, map[string]float64{"": 3, "0": 2, "None": 1}, e.numbers(sglang.FamilyNumQueueReqs, sglang.LabelPriority))
	report(map[string]int{"5": 4}, 4)
	assert.Equal(t, map[string]float64{"": 4, "0": 0, "None": 0, "5": 4}, e.numbers(sglang.FamilyNumQueueReqs, sglang.LabelPriority),
		"a priority that was seen once stays, with 0")

	off := engineOf(t, unified)
	s := off.snapshot()
	s.Queued = ledger.QueueCount{Total: 4, ByPriority: map[string]int{"5": 4}}
	off.schedulers[0].Report(s)
	assert.Equal(t, map[string]float64{"-": 4}, off.numbers(sglang.FamilyNumQueueReqs, sglang.LabelPriority))
}

func TestRoutingKeysAreNotCumulative(t *testing.T) {
	e := engineOf(t, unified)
	s := e.snapshot()
	s.Routing = &ledger.RoutingKeys{Unique: 4, Running: []int{1, 1, 4, 201}, All: []int{3}}
	e.schedulers[0].Report(s)
	got := e.numbers(sglang.FamilyRoutingKeyRunningReqCount, sglang.LabelGT, sglang.LabelLE)
	assert.Len(t, got, 11)
	assert.Equal(t, []float64{2, 0, 1, 1}, []float64{got["0/1"], got["1/2"], got["3/5"], got["200/+Inf"]})
	assert.Equal(t, 1.0, e.numbers(sglang.FamilyRoutingKeyAllReqCount, sglang.LabelGT, sglang.LabelLE)["2/3"])
	e.schedulers[0].Report(e.snapshot())
	assert.Equal(t, 2.0, e.numbers(sglang.FamilyRoutingKeyRunningReqCount, sglang.LabelGT, sglang.LabelLE)["0/1"],
		"not computed while a request has no key: what was shown stays")
}

func TestInterTokenWeights(t *testing.T) {
	e := engineOf(t, unified)
	r := request(true)
	e.tokenizer.InterToken(r, 100*time.Millisecond, 0)
	assert.Empty(t, e.counts(sglang.FamilyInterTokenLatencySeconds), "no token, nothing")
	e.tokenizer.InterToken(r, 120*time.Millisecond, 4)
	e.tokenizer.InterToken(r, 10*time.Millisecond, 1)
	assert.Equal(t, map[string]float64{"": 5}, e.counts(sglang.FamilyInterTokenLatencySeconds))
	assert.InDelta(t, 0.13, e.numbers(sglang.FamilyInterTokenLatencySeconds)[""], 1e-9)
	h := e.page.store.Gather()[0].Metric
	for _, f := range e.page.store.Gather() {
		if f.GetName() == string(sglang.FamilyInterTokenLatencySeconds) {
			h = f.Metric
		}
	}
	for _, b := range h[0].Histogram.Bucket {
		want := map[bool]uint64{b.GetUpperBound() >= 0.01: 1, b.GetUpperBound() >= 0.03: 5}[true]
		assert.Equal(t, want, b.GetCumulativeCount(), "le %v", b.GetUpperBound())
	}
}

// Which requests have which latencies.
func TestLatenciesOfWhom(t *testing.T) {
	for _, tt := range []struct {
		name             string
		args             func(*args.Args)
		change           func(*ledger.Request)
		ttft, tpot, e2es int
	}{
		{"stream", unified, func(*ledger.Request) {}, 1, 1, 1},
		{"length", unified, func(r *ledger.Request) { r.Finish = ledger.FinishLength }, 1, 1, 1},
		{"abort", unified, func(r *ledger.Request) { r.Finish = ledger.FinishAbort }, 0, 0, 1},
		{"embedding", unified, func(r *ledger.Request) { r.Kind, r.Output = ledger.KindEmbedding, nil }, 0, 0, 1},
		{"probe", unified, func(r *ledger.Request) { r.Kind = ledger.KindHealth }, 0, 0, 0},
		{"one token", unified, func(r *ledger.Request) { r.Output = r.Output[:1] }, 1, 0, 1},
		{"no decode time", unified, func(r *ledger.Request) { r.Front.FirstToken = r.Front.Finished }, 1, 0, 1},
		{"prefill half", disaggregated(args.Prefill), func(*ledger.Request) {}, 0, 0, 1},
		{"decode half", disaggregated(args.Decode), func(*ledger.Request) {}, 1, 1, 1},
	} {
		t.Run(tt.name, func(t *testing.T) {
			e := engineOf(t, tt.args)
			r := request(true)
			tt.change(r)
			e.served(r)
			for name, want := range map[sglang.FamilyName]int{
				sglang.FamilyTimeToFirstTokenSeconds:          tt.ttft,
				sglang.FamilyRequestTimePerOutputTokenSeconds: tt.tpot,
				sglang.FamilyE2ERequestLatencySeconds:         tt.e2es,
			} {
				assert.Equal(t, float64(want), e.counts(name)[""], name)
			}
		})
	}
	e := engineOf(t, unified)
	e.served(request(false))
	assert.InDelta(t, 0.088/7, e.numbers(sglang.FamilyRequestTimePerOutputTokenSeconds, sglang.LabelIsStreaming)["false"], 1e-9)
}

func TestCachedTokensBySource(t *testing.T) {
	r := request(true)
	r.Cached = ledger.CachedTokens{Device: 100, Storage: 8}
	e := engineOf(t, unified)
	e.tokenizer.Finished(r)
	assert.Equal(t, map[string]float64{"total": 108}, e.numbers(sglang.FamilyCachedTokensTotal, sglang.LabelCacheSource))
	e = engineOf(t, tieredTP4)
	e.tokenizer.Finished(r)
	assert.Equal(t, map[string]float64{"device": 100, "storage": 8}, e.numbers(sglang.FamilyCachedTokensTotal, sglang.LabelCacheSource))
	assert.Equal(t, map[string]float64{"": 1692}, e.numbers(sglang.FamilyUncachedPromptTokensHistogram))
}

func TestATransferOfTwoPoolsTakesOneTime(t *testing.T) {
	e := engineOf(t, tieredTP4)
	e.radixes[0].BackedUp(sglang.PoolKV, 500, 1000, time.Millisecond)
	e.radixes[0].BackedUp(sglang.PoolSWA, 100, 200, ledger.Unset)
	counts := e.counts(sglang.FamilyHiCacheBackupDurationSeconds, sglang.LabelTPRank)
	assert.Equal(t, map[string]float64{"0": 1, "1": 1, "2": 1, "3": 1}, counts)
	bytes := e.numbers(sglang.FamilyHiCacheBackupBytesTotal, sglang.LabelTPRank)
	assert.Equal(t, map[string]float64{"0": 1200, "1": 1200, "2": 1200, "3": 1200}, bytes)
}

// Ranks of one place differ a little, and a slow one a lot; sums over ranks of a
// replicated count are the number of ranks times what happened.
func TestRanksMeasureForThemselves(t *testing.T) {
	e := engineOf(t, tieredTP4)
	e.page.SlowRank(-1, 0, 2, 3)
	for range 100 {
		e.schedulers[0].QueueTime(10 * time.Millisecond)
		e.schedulers[0].LoopTime(sglang.LoopRunBatch, sglang.OverlapNone, 10*time.Millisecond)
	}
	assert.Equal(t, map[string]float64{"0": 100, "1": 100, "2": 100, "3": 100}, e.counts(sglang.FamilyQueueTimeSeconds, sglang.LabelTPRank))
	sums := e.numbers(sglang.FamilyQueueTimeSeconds, sglang.LabelTPRank)
	for _, rank := range []string{"0", "1", "3"} {
		assert.InDelta(t, 1, sums[rank], 0.01)
	}
	assert.NotEqual(t, sums["0"], sums["1"])
	assert.InDelta(t, 3, sums["2"], 0.03)
	loops := e.numbers(sglang.FamilySchedulerStageSecondsTotal, sglang.LabelTPRank, sglang.LabelCategory)
	assert.InDelta(t, 1, loops["2/run_batch"], 0.01, "a second of the loop is a second of a slow rank's, too")

	again := engineOf(t, tieredTP4)
	again.page.SlowRank(-1, 0, 2, 3)
	for range 100 {
		again.schedulers[0].QueueTime(10 * time.Millisecond)
		again.schedulers[0].LoopTime(sglang.LoopRunBatch, sglang.OverlapNone, 10*time.Millisecond)
	}
	assert.Equal(t, sums, again.numbers(sglang.FamilyQueueTimeSeconds, sglang.LabelTPRank), "the same every time")
}

// A rank's reading is near the group's and never negative, and sums don't drift.
func TestJitter(t *testing.T) {
	place := &ledger.Place{DPRank: -1}
	rapid.Check(t, func(t *rapid.T) {
		spread := time.Duration(rapid.Int64Range(0, int64(time.Second)).Draw(t, "spread"))
		f := jitter(spread, rapid.Uint64().Draw(t, "seed"))
		d := time.Duration(rapid.Int64Range(0, int64(time.Hour)).Draw(t, "d"))
		sum := time.Duration(0)
		const n = 200
		for i := range uint64(n) {
			got := f(place, 3, i, d)
			if got < 0 || (got-d).Abs() > min(spread, d/4) {
				t.Fatalf("%s became %s", d, got)
			}
			sum += got - d
		}
		// The deviation of a mean of n differences is below 0.41 of the bound / sqrt(n).
		if bound := min(spread, d/4); sum.Abs()/n > bound/5 {
			t.Fatalf("drifts by %s of %s", sum/n, bound)
		}
	})
}

// Scheduler series carry the global rank, those of the caches the one in the
// attention group; pipeline stages are not gated.
func TestRanksHaveTwoMeanings(t *testing.T) {
	e := engineOf(t, func(a *args.Args) {
		attentionDP(a)
		a.PPSize = 2
		a.EPSize = 4
	})
	for i, s := range e.schedulers {
		s.Report(e.snapshot())
		s.QueueTime(time.Millisecond)
		e.radixes[i].Evicted(10, time.Millisecond)
	}
	rank := []string{sglang.LabelPPRank, sglang.LabelDPRank, sglang.LabelTPRank}
	keys := func(m map[string]float64) (out []string) {
		for k := range m {
			out = append(out, k)
		}
		slices.Sort(out)
		return out
	}
	assert.Equal(t, []string{"0/0/0", "0/1/2", "1/0/0", "1/1/2"}, keys(e.numbers(sglang.FamilyNumRunningReqs, rank...)))
	assert.Equal(t, []string{"0/0/0", "0/0/1", "0/1/2", "0/1/3", "1/0/0", "1/0/1", "1/1/2", "1/1/3"},
		keys(e.numbers(sglang.FamilyQueueTimeSeconds, rank...)))
	assert.Equal(t, []string{"0/0/0", "0/0/1", "0/1/0", "0/1/1", "1/0/0", "1/0/1", "1/1/0", "1/1/1"},
		keys(e.numbers(sglang.FamilyEvictedTokensTotal, rank...)))
	assert.Len(t, e.numbers(sglang.FamilyQueueTimeSeconds, append(rank, sglang.LabelMoEEPRank)...), 8)
	assert.Contains(t, e.numbers(sglang.FamilyQueueTimeSeconds, append(rank, sglang.LabelMoEEPRank)...), "0/1/3/3")
}

// Replicas of plain DP have the same cache labels, so the registry adds them up.
func TestReplicasShareCacheSeries(t *testing.T) {
	e := engineOf(t, func(a *args.Args) { a.TPSize, a.DPSize = 2, 2 })
	for i, s := range e.schedulers {
		s.QueueTime(time.Millisecond)
		e.radixes[i].Evicted(10, time.Millisecond)
	}
	ranks := []string{sglang.LabelDPRank, sglang.LabelTPRank}
	assert.Equal(t, map[string]float64{"0/0": 20, "0/1": 20}, e.numbers(sglang.FamilyEvictedTokensTotal, ranks...))
	assert.Equal(t, map[string]float64{"0/0": 1, "0/1": 1, "1/0": 1, "1/1": 1}, e.counts(sglang.FamilyQueueTimeSeconds, ranks...))
}

func TestDPStep(t *testing.T) {
	for _, with := range []func(*args.Args){attentionDP, allSchedulers(attentionDP)} {
		e := engineOf(t, with)
		for i, s := range e.schedulers {
			s.DPStep(&ledger.DPStep{
				Tokens: 10 * i, MaxTokens: 10, SumTokens: 10, Pairs: int64(100 * i), MaxPairs: 100, Groups: 2, SyncWait: time.Millisecond,
			})
		}
		tokens := e.numbers(sglang.FamilyDPAttentionTokensTotal, sglang.LabelTPRank, sglang.LabelKind)
		assert.Equal(t, []float64{0, 10, 10, 0}, []float64{
			tokens["0/scheduled"], tokens["0/imbalance"], tokens["2/scheduled"], tokens["2/imbalance"],
		})
		steps := e.numbers(sglang.FamilyDPAttentionStepsTotal, sglang.LabelTPRank, sglang.LabelRankState)
		assert.Equal(t, []float64{1, 0, 0, 1}, []float64{steps["0/idle"], steps["0/active"], steps["2/idle"], steps["2/active"]})
		assert.Equal(t, map[string]float64{"0": 1, "1": 0, "2": 0, "3": 0},
			e.counts(sglang.FamilyDPAttentionTokenImbalanceRatio, sglang.LabelTPRank), "one process of all observes it")
		assert.Equal(t, 2.0, e.numbers(sglang.FamilyDPAttentionTokenImbalanceRatio, sglang.LabelTPRank)["0"])
	}
}

// Gauges without a mode carry the process: a scheduler that comes back has another.
func TestDeadRank(t *testing.T) {
	e := engineOf(t, func(a *args.Args) { a.TPSize, a.EnableMetricsForAllSchedulers = 2, true })
	s := e.snapshot()
	s.Running.Total = 7
	e.schedulers[0].Report(s)
	e.page.StopRank(-1, 0, 1)
	s.Running.Total = 3
	e.schedulers[0].Report(s)
	e.schedulers[0].QueueTime(time.Millisecond)
	assert.Equal(t, map[string]float64{"0": 3, "1": 7}, e.numbers(sglang.FamilyNumRunningReqs, sglang.LabelTPRank),
		"a dead rank's last value stays")
	assert.Equal(t, map[string]float64{"0": 1}, e.counts(sglang.FamilyQueueTimeSeconds, sglang.LabelTPRank))

	dp := engineOf(t, attentionDP)
	dp.page.StopRank(0, 0, 0)
	dp.schedulers[0].DPStep(&ledger.DPStep{Tokens: 1, MaxTokens: 1, SumTokens: 1, Groups: 2})
	assert.Equal(t, map[string]float64{"0": 0, "1": 0, "2": 0, "3": 0}, dp.counts(sglang.FamilyDPAttentionTokenImbalanceRatio, sglang.LabelTPRank))

	e.page.Scheduler(e.places[0]).Report(s)
	pids := e.numbers(sglang.FamilyNumRetractedReqs, sglang.LabelTPRank, sglang.LabelPID)
	assert.Len(t, pids, 4, "the dead processes' series stay beside the living ones': %v", pids)
	e.page.Restart()
	e.boot()
	e.schedulers[0].Report(s)
	after := e.numbers(sglang.FamilyNumRetractedReqs, sglang.LabelTPRank, sglang.LabelPID)
	assert.Len(t, after, 2)
	for k := range after {
		assert.NotContains(t, pids, k, "another process")
	}
}

func TestLiveSum(t *testing.T) {
	e := engineOf(t, unified)
	other, exit := e.page.HTTPWorker()
	for _, h := range []ledger.HTTPCollector{e.http, other} {
		h.Request("/generate", "POST")
		h.Active("/generate", "POST", 2)
		h.RoutingKeys(3)
	}
	assert.Equal(t, map[string]float64{"/generate": 4}, e.numbers(sglang.FamilyHTTPRequestsActive, sglang.LabelEndpoint))
	assert.Equal(t, map[string]float64{"": 6}, e.numbers(sglang.FamilyRoutingKeysActive))
	exit()
	assert.Equal(t, map[string]float64{"/generate": 2}, e.numbers(sglang.FamilyHTTPRequestsActive, sglang.LabelEndpoint))
	assert.Equal(t, map[string]float64{"": 3}, e.numbers(sglang.FamilyRoutingKeysActive))
	assert.Equal(t, map[string]float64{"/generate": 2}, e.numbers(sglang.FamilyHTTPRequestsTotal, sglang.LabelEndpoint), "counters stay")
}

func TestNothingBeforeItsFirstWrite(t *testing.T) {
	e := engineOf(t, unified)
	e.started()
	for _, name := range []sglang.FamilyName{
		sglang.FamilyNumRequestsTotal, sglang.FamilyNumAbortedRequestsTotal, sglang.FamilyQueueTimeSeconds,
		sglang.FamilyEvictedTokensTotal, sglang.FamilyNumRetractedRequestsTotal, sglang.FamilyLoRAPoolSlotsUsed,
		sglang.FamilyHiCacheHostTotalTokens, sglang.FamilyNumStreamingSessions, sglang.FamilyMaxTotalNumTokensSWA,
	} {
		assert.Empty(t, e.numbers(name), name)
	}
	e.tokenizer.Aborted(request(true))
	assert.Equal(t, map[string]float64{"": 1}, e.numbers(sglang.FamilyNumAbortedRequestsTotal))
}

// An extra label with the name of another replaces it, and no series has a name twice.
func TestExtraLabelReplaces(t *testing.T) {
	e := engineOf(t, func(a *args.Args) { a.ExtraMetricLabels = map[string]string{sglang.LabelModelName: "mine"} })
	e.schedulers[0].QueueTime(time.Millisecond)
	assert.Equal(t, map[string]float64{"mine": 1}, e.counts(sglang.FamilyQueueTimeSeconds, sglang.LabelModelName))
	body, _ := e.get(acceptText)
	assert.NotContains(t, string(body), e.page.modelName())
}

// Labels off the allow-list change nothing.
func TestCustomLabelsAllowed(t *testing.T) {
	e := engineOf(t, customLabels)
	for _, labels := range []map[string]string{nil, {"user": "u"}, {"app": ""}, {"app": "chat"}} {
		r := request(true)
		r.CustomLabels = labels
		e.tokenizer.Aborted(r)
	}
	assert.Equal(t, map[string]float64{"/": 3, "chat/": 1}, e.numbers(sglang.FamilyNumAbortedRequestsTotal, "app", "tenant"))
}

func TestBalancednessIsOfTheFirstExpertRank(t *testing.T) {
	e := engineOf(t, func(a *args.Args) { a.TPSize, a.EPSize = 4, 2 })
	e.schedulers[0].Balancedness("decode", 0.5)
	assert.Equal(t, map[string]float64{"0": 0.5, "1": 0.5}, e.numbers(sglang.FamilyEPLBBalancedness, sglang.LabelTPRank))
}

func TestTransferSpeed(t *testing.T) {
	a := testArgs()
	disaggregated(args.Prefill)(&a)
	a.StepJitter = 0
	e := newEngine(t, a)
	e.schedulers[0].KVTransfer(&ledger.Transfer{Bootstrap: ledger.Unset, Alloc: ledger.Unset, Latency: 500 * time.Millisecond, Bytes: 1 << 30})
	assert.Equal(t, map[string]float64{"0": 2, "1": 2}, e.numbers(sglang.FamilyKVTransferSpeedGBS, sglang.LabelTPRank))
	assert.Equal(t, map[string]float64{"0": 1024, "1": 1024}, e.numbers(sglang.FamilyKVTransferTotalMB, sglang.LabelTPRank))
	assert.Equal(t, map[string]float64{"0": 500, "1": 500}, e.numbers(sglang.FamilyKVTransferLatencyMS, sglang.LabelTPRank))
	assert.Empty(t, e.numbers(sglang.FamilyKVTransferBootstrapMS), "what did not happen is not there")
	e.schedulers[0].KVTransfer(&ledger.Transfer{Bootstrap: 5 * time.Millisecond, Alloc: ledger.Unset, Latency: ledger.Unset})
	assert.Equal(t, map[string]float64{"0": 5, "1": 5}, e.numbers(sglang.FamilyKVTransferBootstrapMS, sglang.LabelTPRank))
	assert.Equal(t, map[string]float64{"0": 1, "1": 1}, e.counts(sglang.FamilyKVTransferAllocMS, sglang.LabelTPRank), "both at once")
}

// The number of series depends on the settings, not on how many clients came.
func TestCardinality(t *testing.T) {
	a := testArgs()
	withPriorities(&a)
	customLabels(&a)
	p, err := New(Config{Args: a, MaxLabelSets: 10})
	require.NoError(t, err)
	e := &engine{t: t, page: p}
	e.boot()
	count := func() (n int) {
		for _, f := range e.page.store.Gather() {
			n += len(f.Metric)
		}
		return n
	}
	flood := func(from, to int) {
		for i := from; i < to; i++ {
			r := request(true)
			r.ID, r.Session, r.RoutingKey, r.LoRA = fmt.Sprint("id", i), fmt.Sprint("s", i), fmt.Sprint("k", i), fmt.Sprint("l", i)
			r.Priority = &i
			r.CustomLabels = map[string]string{"app": fmt.Sprint("app", i), "user": fmt.Sprint("user", i)}
			e.served(r)
			e.http.Request(fmt.Sprint("/raw/", i), "GET")
			s := e.snapshot()
			s.Queued = ledger.QueueCount{Total: 1, ByPriority: map[string]int{fmt.Sprint(i): 1}}
			e.schedulers[0].Report(s)
		}
	}
	flood(0, 100)
	before := count()
	flood(100, 300)
	assert.Equal(t, before, count())
	requests := e.numbers(sglang.FamilyNumRequestsTotal, "app", sglang.LabelPriority)
	total := 0.0
	for _, v := range requests {
		total += v
	}
	assert.Equal(t, 300.0, total, "what is beyond the bound is counted")
	assert.Equal(t, 290.0, requests[Overflow+"/"+Overflow])
	assert.Equal(t, 1.0, e.numbers(sglang.FamilyNumQueueReqs, sglang.LabelPriority)[""], "totals are not bounded")
}
