// Copyright The otelcol-sglang Authors
// SPDX-License-Identifier: Apache-2.0

package engine

import (
	"context"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	dto "github.com/prometheus/client_model/go"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"go.opentelemetry.io/collector/pdata/ptrace"

	"github.com/otelcol-sglang/otelcol-sglang/engine/args"
	"github.com/otelcol-sglang/otelcol-sglang/engine/clock"
	"github.com/otelcol-sglang/otelcol-sglang/engine/fault"
	"github.com/otelcol-sglang/otelcol-sglang/engine/trace"
	"github.com/otelcol-sglang/otelcol-sglang/engine/truth"
	"github.com/otelcol-sglang/otelcol-sglang/internal/sglang"
)

// A story is a minute of a healthy engine and a minute of one with a fault.
const (
	healthyFor = time.Minute
	storyFor   = 2 * time.Minute
)

// looks is what a page shows at one time.
type looks []*dto.MetricFamily

// sum adds up the series of a family that have all labels, given as name=value.
func (l looks) sum(name sglang.FamilyName, labels ...string) (v float64) {
	for _, f := range l {
		if f.GetName() != string(name) {
			continue
		}
		for _, m := range f.GetMetric() {
			if has(m, labels) {
				v += m.GetCounter().GetValue() + m.GetGauge().GetValue() + m.GetHistogram().GetSampleSum()
			}
		}
	}
	return v
}

func has(m *dto.Metric, labels []string) bool {
	for _, want := range labels {
		found := false
		for _, l := range m.GetLabel() {
			found = found || l.GetName()+"="+l.GetValue() == want
		}
		if !found {
			return false
		}
	}
	return true
}

// story is what was seen of it.
type story struct {
	*Engine
	// pages at the start, when the fault begins, and at the end.
	start, healthy, faulty looks
	spans                  *trace.Recorder
	records                []*truth.Record
	loop                   *clock.Loop
}

func (s *story) look() looks {
	s.Settle()
	return s.Page.Store().Gather()
}

// during is how much a counter (or the sum of a histogram) grew while healthy and
// while faulty.
func (s *story) during(name sglang.FamilyName, labels ...string) (healthy, faulty float64) {
	before := s.healthy.sum(name, labels...)
	return before - s.start.sum(name, labels...), s.faulty.sum(name, labels...) - before
}

// mean of what finished in each minute.
func (s *story) mean(of func(r *truth.Record) float64) (healthy, faulty float64) {
	var sums, counts [2]float64
	for _, r := range s.records {
		end := time.Unix(0, r.CreatedUnixNano+r.Finished).Sub(epoch)
		if r.Finished < 0 || r.OutputTokens < 2 {
			continue
		}
		i := 0
		if end > healthyFor {
			i = 1
		}
		sums[i] += of(r)
		counts[i]++
	}
	return sums[0] / max(1, counts[0]), sums[1] / max(1, counts[1])
}

func tpot(r *truth.Record) float64 { return r.Latencies()[sglang.AttrOutTPOT] }

func ttft(r *truth.Record) float64 { return r.Latencies()[sglang.AttrLatencyTTFT] }

func atScheduler(r *truth.Record) float64 { return r.Latencies()[sglang.AttrFirstTokenAtScheduler] }

// tell plays a story.
func tell(t *testing.T, fault string, change func(a *args.Args)) *story {
	t.Helper()
	s := &story{loop: clock.NewVirtual(epoch), spans: trace.NewRecorder()}
	a := args.Default()
	a.EnableMetrics, a.EnableTrace, a.TraceLevel, a.TPSize = true, true, 1, 4
	a.Load = "chat:rate=10,abort=0"
	change(&a)
	sep := ":"
	if strings.Contains(fault, sep) {
		sep = ","
	}
	a.Faults = []string{fault + sep + "after=" + healthyFor.String()}
	var err error
	s.Engine, err = New(t.Context(), a, Options{
		Loop: s.loop, Spans: s.spans, Truth: func(r *truth.Record) { s.records = append(s.records, r) },
	})
	require.NoError(t, err)
	s.play(t)
	return s
}

func (s *story) play(t *testing.T) {
	t.Helper()
	s.start = s.look()
	s.Start()
	s.loop.RunUntil(healthyFor - time.Millisecond)
	s.healthy = s.look()
	s.loop.RunUntil(storyFor)
	s.faulty = s.look()
	require.NoError(t, s.Check())
	require.NoError(t, s.Shutdown(context.Background()))
}

// spansOf counts the spans of a rank in each minute, by their start.
func (s *story) spansOf(tp int32) (healthy, faulty int) {
	s.eachSpan(func(p trace.Process, span ptrace.Span) {
		switch {
		case p.TP != tp || p.Kind != sglang.ProcessScheduler:
		case span.StartTimestamp().AsTime().Sub(epoch) < healthyFor:
			healthy++
		default:
			faulty++
		}
	})
	return healthy, faulty
}

func (s *story) eachSpan(do func(p trace.Process, span ptrace.Span)) {
	for _, x := range s.spans.Exports() {
		for _, rs := range x.Traces.ResourceSpans().All() {
			for _, ss := range rs.ScopeSpans().All() {
				for _, span := range ss.Spans().All() {
					do(x.From, span)
				}
			}
		}
	}
}

func TestSlowRank(t *testing.T) {
	s := tell(t, "slow-rank:rank=3,factor=2,delay=5ms,page=1.3", func(a *args.Args) { a.EnableMetricsForAllSchedulers = true })
	before, after := s.mean(tpot)
	assert.Greater(t, after, 1.4*before, "all wait for the slow rank")
	assert.Greater(t, s.lag(3), 4*time.Millisecond, "its spans end last")
	assert.Less(t, s.lag(2), time.Millisecond)
	stage := sglang.AttrStage + "=" + sglang.StagePrefillForward.String()
	both, slower := s.during(sglang.FamilyPerStageReqLatencySeconds, sglang.LabelTPRank+"=3", stage)
	wall := func(rank string) float64 {
		_, loop := s.during(sglang.FamilySchedulerStageSecondsTotal, sglang.LabelTPRank+"="+rank)
		_, idle := s.during(sglang.FamilySchedulerIdleSecondsTotal, sglang.LabelTPRank+"="+rank)
		return loop + idle
	}
	for _, rank := range []string{"0", "3"} {
		assert.InDelta(t, (storyFor - healthyFor).Seconds(), wall(rank), 0.3, "a minute is a minute for rank %s", rank)
	}
	other, others := s.during(sglang.FamilyPerStageReqLatencySeconds, sglang.LabelTPRank+"=0", stage)
	assert.InEpsilon(t, other, both, 0.02)
	assert.InEpsilon(t, 1.3*others, slower, 0.02, "what it measures takes longer")
}

// lag is how much later a rank's prefills end than those of rank 0, on average,
// while the fault holds.
func (s *story) lag(tp int32) time.Duration {
	ends := map[string][2]int64{}
	s.eachSpan(func(p trace.Process, span ptrace.Span) {
		if span.Name() != sglang.StagePrefillForward.String() || span.StartTimestamp().AsTime().Sub(epoch) < healthyFor+time.Second {
			return
		}
		e := ends[span.TraceID().String()]
		switch p.TP {
		case 0:
			e[0] = int64(span.EndTimestamp())
		case tp:
			e[1] = int64(span.EndTimestamp())
		}
		ends[span.TraceID().String()] = e
	})
	var sum, n int64
	for _, e := range ends {
		if e[0] != 0 && e[1] != 0 {
			sum += e[1] - e[0]
			n++
		}
	}
	return time.Duration(sum / max(1, n))
}

func TestClockSkew(t *testing.T) {
	s := tell(t, "clock-skew:rank=2,offset=-250ms", func(*args.Args) {})
	assert.InDelta(t, -250, s.lag(2).Seconds()*1e3, 5)
}

func TestExporterOverload(t *testing.T) {
	s := tell(t, "exporter-overload:rank=1,time=20s", func(a *args.Args) { a.TraceLevel = 3 })
	for p, st := range s.Tracer.Stats() {
		assert.Equal(t, p.Kind == sglang.ProcessScheduler && p.TP == 1, st.Dropped > 0, "%s dropped %d", p, st.Dropped)
	}
	_, whole := s.spansOf(0)
	_, lost := s.spansOf(1)
	assert.Less(t, lost, whole/2)
}

func TestKVPressure(t *testing.T) {
	s := tell(t, "kv-pressure:share=0.97", func(a *args.Args) {
		a.MaxTotalTokens, a.ScheduleConservativeness = 100_000, 0.05
		a.Load = "chat:rate=10,abort=0,turns=1,input=20,prefix=10,output=300"
	})
	before, after := s.during(sglang.FamilyNumRetractedRequestsTotal)
	assert.Zero(t, before)
	assert.Positive(t, after)
	assert.Greater(t, s.faulty.sum(sglang.FamilyNumQueueReqs), s.healthy.sum(sglang.FamilyNumQueueReqs)+10)
}

// As many tokens are found in the cache as before, but farther down, and first tokens
// come later.
func TestCacheDrift(t *testing.T) {
	s := tell(t, "cache-drift:share=0.9,host=0.9", func(a *args.Args) {
		a.EnableHierarchicalCache, a.HiCacheStorageBackend, a.MaxTotalTokens, a.HiCacheRatio = true, "file", 60_000, 2
		a.Load = "chat:rate=4,abort=0,prefix=600"
	})
	share := func(l, since looks, source string) float64 {
		grew := func(labels ...string) float64 {
			return l.sum(sglang.FamilyCachedTokensTotal, labels...) - since.sum(sglang.FamilyCachedTokensTotal, labels...)
		}
		return grew(sglang.LabelCacheSource+"="+source) / grew()
	}
	for source, more := range map[string]float64{"device": -0.1, "storage": 0.03} {
		before, after := share(s.healthy, s.start, source), share(s.faulty, s.healthy, source)
		t.Logf("%s %.3f %.3f", source, before, after)
		if more < 0 {
			assert.Less(t, after, before+more, source)
			continue
		}
		assert.Greater(t, after, before+more, source)
	}
	before, after := s.mean(ttft)
	t.Logf("ttft %v %v", before, after)
	assert.Greater(t, after, 1.2*before)
}

// Few experts get most tokens: all wait for the GPU that has them.
func TestExpertImbalance(t *testing.T) {
	s := tell(t, "expert-imbalance:skew=1.5", func(a *args.Args) {
		a.ModelProfile, a.EnableEPLB, a.DPSize, a.EnableDPAttention = "qwen3-30b-a3b-h100", true, 2, true
	})
	balance := func(l, since looks) float64 {
		sum, n := l.summary(sglang.FamilyEPLBBalancedness)
		before, m := since.summary(sglang.FamilyEPLBBalancedness)
		return (sum - before) / (n - m)
	}
	assert.Less(t, balance(s.faulty, s.healthy), 0.8*balance(s.healthy, s.start))
	before, after := s.mean(tpot)
	assert.Greater(t, after, 1.1*before)
}

// summary is the sum and the count of a summary's series.
func (l looks) summary(name sglang.FamilyName) (sum, n float64) {
	for _, f := range l {
		if f.GetName() != string(name) {
			continue
		}
		for _, m := range f.GetMetric() {
			sum += m.GetSummary().GetSampleSum()
			n += float64(m.GetSummary().GetSampleCount())
		}
	}
	return sum, n
}

func TestDPSkewByRouting(t *testing.T) {
	s := tell(t, "dp-skew-routing:rank=1,share=0.9", withDP)
	counts := s.byRank()
	assert.InDelta(t, counts[0][0].requests, counts[0][1].requests, 0.1*float64(counts[0][0].requests))
	assert.Greater(t, counts[1][1].requests, 8*counts[1][0].requests)
}

func TestDPSkewByLength(t *testing.T) {
	s := tell(t, "dp-skew-length", withDP)
	counts := s.byRank()[1]
	assert.InDelta(t, counts[0].requests, counts[1].requests, 0.25*float64(counts[0].requests))
	assert.Greater(t, counts[0].tokens, 2*counts[1].tokens)
	before, after := s.during(sglang.FamilyDPAttentionPairsTotal, "kind=imbalance", "dp_rank=1")
	assert.Greater(t, after, 1.3*before, "attention waits for rank 0")
}

func withDP(a *args.Args) { a.DPSize, a.EnableDPAttention = 2, true }

type share struct{ requests, tokens int }

// byRank is what each DP rank got in each minute.
func (s *story) byRank() (counts [2][2]share) {
	for _, r := range s.records {
		minute := 0
		if time.Unix(0, r.CreatedUnixNano).Sub(epoch) > healthyFor {
			minute = 1
		}
		c := &counts[minute][r.DPRank]
		c.requests++
		c.tokens += r.PromptTokens
	}
	return counts
}

func TestWorseDrafts(t *testing.T) {
	s := tell(t, "worse-drafts:quality=0.2", func(a *args.Args) { a.SpeculativeAlgorithm = "EAGLE" })
	assert.Less(t, s.faulty.sum(sglang.FamilySpecAcceptLength), 0.7*s.healthy.sum(sglang.FamilySpecAcceptLength))
	assert.Less(t, s.faulty.sum(sglang.FamilySpecAcceptRate), 0.5*s.healthy.sum(sglang.FamilySpecAcceptRate))
	before, after := s.mean(tpot)
	assert.Greater(t, after, 1.5*before)
}

func TestSchedulerStall(t *testing.T) {
	s := tell(t, "scheduler-stall:time=20ms", func(*args.Args) {})
	before, after := s.mean(tpot)
	assert.Greater(t, after, before+0.015)
	stalled, more := s.during(sglang.FamilySchedulerStageSecondsTotal, "category="+sglang.LoopOther)
	assert.Greater(t, more, 10*stalled)
}

func TestFrontendFlood(t *testing.T) {
	s := tell(t, "frontend-flood", func(*args.Args) {})
	before, after := s.mean(func(r *truth.Record) float64 { return ttft(r) - atScheduler(r) })
	assert.Less(t, before, 0.002)
	assert.Greater(t, after, 0.02, "first tokens reach clients late")
	calm, busy := s.mean(func(r *truth.Record) float64 {
		return r.Latencies()[sglang.AttrPrefillCompute]
	})
	assert.Less(t, busy, 2*calm, "the schedulers are as fast as before")
	_, asked := s.during(sglang.FamilyHTTPRequestsTotal, "endpoint=/v1/loads")
	assert.Greater(t, asked, 50_000.0)
}

func TestNoSchedulerSpans(t *testing.T) {
	s := tell(t, "no-scheduler-spans:share=0.75", func(*args.Args) {})
	schedulers, roots := map[string]bool{}, map[string]bool{}
	s.eachSpan(func(p trace.Process, span ptrace.Span) {
		switch {
		case span.StartTimestamp().AsTime().Sub(epoch) < healthyFor+time.Second:
		case p.Kind == sglang.ProcessScheduler:
			schedulers[span.TraceID().String()] = true
		case sglang.KindOf(span) == sglang.KindRoot:
			roots[span.TraceID().String()] = true
		}
	})
	with := 0
	for id := range roots {
		if schedulers[id] {
			with++
		}
	}
	assert.InDelta(t, 0.25, float64(with)/float64(len(roots)), 0.05)
}

func TestDeadRank(t *testing.T) {
	s := tell(t, "dead-rank:rank=2", func(a *args.Args) { a.EnableMetricsForAllSchedulers = true })
	before, after := s.spansOf(2)
	assert.Positive(t, before)
	assert.Less(t, after, before/20)
	grew := func(rank string) float64 {
		_, faulty := s.during(sglang.FamilySchedulerStageSecondsTotal, "tp_rank="+rank)
		return faulty
	}
	assert.Positive(t, grew("1"))
	assert.Less(t, grew("2"), grew("1")/20, "its numbers stay as they were")
}

func TestStuck(t *testing.T) {
	s := tell(t, "stuck", func(*args.Args) {})
	running := s.Schedulers[0].Loads()
	assert.Greater(t, running.Waiting, 100)
	before, after := s.during(sglang.FamilyGenerationTokensTotal)
	assert.Less(t, after, before/20, "no tokens")
}

func TestRestart(t *testing.T) {
	s := tell(t, "restart:down=10s", func(a *args.Args) { a.Load = "chat:rate=10,abort=0" })
	assert.Less(t, s.faulty.sum(sglang.FamilyNumRequestsTotal), s.healthy.sum(sglang.FamilyNumRequestsTotal), "counters began again")
	rep := s.Clients.Results.Report()
	assert.Greater(t, rep.Failed, 50, "clients met a dead engine")
	assert.Greater(t, rep.Finished, 600)
	instances := map[string]bool{}
	for _, x := range s.spans.Exports() {
		for _, rs := range x.Traces.ResourceSpans().All() {
			id, _ := rs.Resource().Attributes().Get("service.instance.id")
			instances[id.AsString()] = true
		}
	}
	assert.Len(t, instances, 2*(1+4), "each process twice")
	lost := 0
	for _, r := range s.records {
		if r.Forgotten {
			lost++
		}
	}
	assert.Positive(t, lost)
}

// A fault that holds when the engine crashes holds for the process that takes over.
func TestFaultsGoOnAfterRestart(t *testing.T) {
	r := newRig(t, func(a *args.Args) {
		a.Faults = []string{
			"restart:after=20s,down=5s", "scheduler-stall:time=20ms,after=1s,for=59s", "frontend-flood:after=1s",
			"slow-rank:rank=1,factor=3,after=21s", "kv-pressure:after=1s,for=10s",
		}
		a.Load = "chat:rate=5,abort=0,turns=1"
	})
	r.Start()
	r.loop.RunUntil(55 * time.Second)
	assert.InDelta(t, 3, r.Models[0].Slowness(1), 0, "begun while the engine was down")
	full, _, _ := r.Memories[0].Books()
	assert.Zero(t, full.Reserved, "over before the crash")
	r.loop.RunUntil(100 * time.Second)
	var sums, counts [2]float64
	for _, rec := range r.records {
		created := time.Unix(0, rec.CreatedUnixNano).Sub(epoch)
		i := 0
		switch {
		case rec.Finished < 0 || rec.OutputTokens < 2 || created < 26*time.Second:
			continue
		case created > 65*time.Second:
			i = 1
		case created > 50*time.Second:
			continue
		}
		sums[i] += tpot(rec)
		counts[i]++
	}
	require.Positive(t, min(counts[0], counts[1]))
	assert.Greater(t, sums[0]/counts[0], sums[1]/counts[1]+0.01, "the stall went on, and ended in its time")
	asked := looks(r.Page.Store().Gather()).sum(sglang.FamilyHTTPRequestsTotal, "endpoint=/v1/loads")
	assert.InDelta(t, 75*100/0.08, asked, 20_000, "one flood, from the restart on")
	require.NoError(t, r.Shutdown(context.Background()))
}

// What is over while the engine is down does not raise the dead.
func TestFaultEndsWhileDown(t *testing.T) {
	r := newRig(t, func(a *args.Args) {
		a.Faults = []string{"stuck:after=5s,for=8s", "restart:after=10s,down=5s"}
		a.Load = "chat:rate=5,abort=0,turns=1,for=9s"
	})
	r.Start()
	r.loop.RunUntil(14 * time.Second)
	dead := r.Schedulers[0]
	waiting := dead.Loads().Waiting
	assert.Positive(t, waiting)
	r.loop.RunUntil(time.Minute)
	assert.NotSame(t, dead, r.Schedulers[0])
	assert.Equal(t, waiting, dead.Loads().Waiting)
	require.NoError(t, r.Shutdown(context.Background()))
}

func TestSlowTransfer(t *testing.T) {
	s := &story{loop: clock.NewVirtual(epoch), spans: trace.NewRecorder()}
	a := args.Default()
	a.TPSize, a.Faults = 2, []string{"slow-transfer:factor=50,after=" + healthyFor.String()}
	prefill, decode := pair(t.Context(), t, s.loop, a, "chat:rate=5,abort=0", func(string) trace.Sink { return s.spans }, func(r *truth.Record) {
		if r.Role == args.Prefill {
			s.records = append(s.records, r)
		}
	})
	s.Engine = decode
	s.play(t)
	require.NoError(t, prefill.Shutdown(context.Background()))
	transfers := func(from, to time.Duration) (sum float64, n int) {
		for _, r := range s.records {
			at := time.Unix(0, r.CreatedUnixNano).Sub(epoch)
			for _, st := range r.Stages {
				if st.Stage == sglang.StagePrefillTransferKVCache.String() && at >= from && at < to {
					sum += time.Duration(st.To - st.From).Seconds()
					n++
				}
			}
		}
		return sum, n
	}
	before, n := transfers(0, healthyFor)
	after, m := transfers(healthyFor, storyFor)
	require.Positive(t, n)
	require.Positive(t, m)
	assert.Greater(t, after/float64(m), 10*before/float64(n))
}

func TestPageFaults(t *testing.T) {
	tests := map[string]struct {
		status int
		check  func(t *testing.T, rec *httptest.ResponseRecorder)
	}{
		"page-500": {http.StatusInternalServerError, func(*testing.T, *httptest.ResponseRecorder) {}},
		"page-307": {http.StatusTemporaryRedirect, func(t *testing.T, rec *httptest.ResponseRecorder) {
			assert.Equal(t, "/metrics/", rec.Header().Get("Location"))
		}},
		"page-empty":          {http.StatusOK, func(t *testing.T, rec *httptest.ResponseRecorder) { assert.Empty(t, rec.Body.String()) }},
		"page-slow:time=20ms": {http.StatusOK, func(t *testing.T, rec *httptest.ResponseRecorder) { assert.NotEmpty(t, rec.Body.String()) }},
	}
	for fault, tt := range tests {
		t.Run(fault, func(t *testing.T) {
			r := newRig(t, func(a *args.Args) { a.Faults = []string{fault} })
			r.loop.RunUntil(time.Second)
			rec := r.visit(t, "/metrics")
			assert.Equal(t, tt.status, rec.Code)
			tt.check(t, rec)
			if to := rec.Header().Get("Location"); to != "" {
				assert.Contains(t, r.visit(t, to).Body.String(), "sglang:max_total_num_tokens", "the page is where the redirect leads")
			}
		})
	}
}

// visit gets a page of the service.
func (r *rig) visit(t *testing.T, path string) *httptest.ResponseRecorder {
	t.Helper()
	served := make(chan struct{})
	rec := httptest.NewRecorder()
	go func() {
		defer close(served)
		r.Service.ServeHTTP(rec, httptest.NewRequest(http.MethodGet, path, http.NoBody))
	}()
	spin(t.Context(), r.loop, served)
	return rec
}

// spin runs a virtual loop for those who post to it, until done.
func spin(ctx context.Context, loop *clock.Loop, done <-chan struct{}) {
	for {
		select {
		case <-done:
			loop.RunUntil(loop.Now())
			return
		case <-ctx.Done():
			return
		case <-time.After(time.Millisecond):
			loop.RunUntil(loop.Now() + time.Millisecond)
		}
	}
}

// Every fault has a test of its name here, or one of the page.
func TestEveryFaultIsTold(t *testing.T) {
	told := []string{
		"slow-rank", "exporter-overload", "kv-pressure", "cache-drift", "dp-skew-routing", "dp-skew-length", "expert-imbalance", "worse-drafts",
		"scheduler-stall", "frontend-flood", "slow-transfer", "no-scheduler-spans", "dead-rank", "stuck", "restart", "clock-skew",
		"page-500", "page-307", "page-empty", "page-slow",
	}
	assert.Equal(t, told, fault.Names())
}

func TestFaultErrors(t *testing.T) {
	tests := map[string]string{
		"slow":                   `fault must be one of slow-rank`,
		"slow-rank:speed=2":      `fault slow-rank has no argument "speed"; it has after, delay, factor, for, page, rank`,
		"slow-rank:rank=9":       `fault slow-rank: rank must be a whole number from 0 to 1 (got "9")`,
		"slow-rank:after=x":      `fault slow-rank: after must be a duration such as 30s (got "x")`,
		"dp-skew-routing":        `fault dp-skew-routing: the engine must have dp-size above 1`,
		"expert-imbalance":       `fault expert-imbalance: the engine must have a MoE model-profile, and enable-eplb`,
		"worse-drafts":           `fault worse-drafts: the engine must have a speculative-algorithm`,
		"cache-drift":            `fault cache-drift: the engine must have enable-hierarchical-cache`,
		"slow-transfer":          `fault slow-transfer: the engine must have disaggregation-mode prefill`,
		"kv-pressure:share=lots": `fault kv-pressure: share must be a number from 0 to 1 (got "lots")`,
	}
	for text, want := range tests {
		a := args.Default()
		a.TPSize, a.Faults = 2, []string{text}
		_, err := New(t.Context(), a, Options{Loop: clock.NewVirtual(epoch)})
		assert.ErrorContains(t, err, want)
	}
}

// A fault that is over leaves nothing behind.
func TestFaultEnds(t *testing.T) {
	r := newRig(t, func(a *args.Args) {
		a.Faults = []string{"scheduler-stall:time=30ms,after=1s,for=20s"}
		a.Load = "chat:rate=5,abort=0,turns=1"
	})
	r.Start()
	r.loop.RunUntil(time.Minute)
	late := 0
	for _, rec := range r.records {
		if time.Unix(0, rec.CreatedUnixNano).Sub(epoch) > 25*time.Second && tpot(rec) > 0.02 {
			late++
		}
	}
	assert.Zero(t, late)
	require.NoError(t, r.Shutdown(context.Background()))
}
