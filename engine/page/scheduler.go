// Copyright The otelcol-sglang Authors
// SPDX-License-Identifier: Apache-2.0

package page // import "github.com/otelcol-sglang/otelcol-sglang/engine/page"

import (
	"strconv"
	"time"

	"github.com/otelcol-sglang/otelcol-sglang/engine/ledger"
	"github.com/otelcol-sglang/otelcol-sglang/internal/sglang"
)

// scheduler is the book of one place's schedulers. It speaks for all their ranks;
// the catalogue says which of them show what.
type scheduler struct {
	page *Page
	role *role
	dp   int

	queueTime, stageLatency                     *vec[Histogram]
	retracted, retractedIn, retractedOut        *vec[Counter]
	realtime, dpRealtime, effective, passes     *vec[Counter]
	forward, dpForward, loop, idle, cpu         *vec[Counter]
	flops, readBytes, writeBytes                *vec[Counter]
	dpTokens, dpSteps, dpPairs                  *vec[Counter]
	dpRatio, dpSyncWait                         *vec[Histogram]
	speed, latency, bootstrap, alloc, total     *vec[Histogram]
	bootstrapFailed, transferFailed, retries    *vec[Counter]
	hostReceived, deferredRelease               *vec[Counter]
	deferredSeconds, delayerPasses, delayerWait *vec[Histogram]
	delayerOutcomes                             *vec[Counter]
	weightLoad                                  *vec[Gauge]
	balancedness                                *vec[Histogram]

	report *report
}

func newScheduler(p *Page, ranks []*rank) *scheduler {
	r := &role{page: p}
	for _, k := range ranks {
		r.emitters = append(r.emitters, emitter{labels: p.schedulerLabels(k), pid: k.pid, rank: k})
	}
	s := &scheduler{page: p, role: r, dp: ranks[0].place.DPRank, report: newReport(r)}
	s.makeRequestFamilies()
	s.makeLoopFamilies()
	s.makeDisaggFamilies()
	s.balancedness = s.firstExpertRank().histogram(sglang.FamilyEPLBBalancedness)
	s.seed()
	return s
}

func (s *scheduler) makeRequestFamilies() {
	r := s.role
	s.queueTime = r.histogram(sglang.FamilyQueueTimeSeconds)
	s.stageLatency = r.histogram(sglang.FamilyPerStageReqLatencySeconds)
	s.retracted = r.counter(sglang.FamilyNumRetractedRequestsTotal)
	s.retractedIn = r.counter(sglang.FamilyNumRetractedInputTokensTotal)
	s.retractedOut = r.counter(sglang.FamilyNumRetractedOutputTokensTotal)
	s.delayerPasses = r.histogram(sglang.FamilyPrefillDelayerWaitForwardPasses)
	s.delayerWait = r.histogram(sglang.FamilyPrefillDelayerWaitSeconds)
	s.delayerOutcomes = r.counter(sglang.FamilyPrefillDelayerOutcomesTotal)
	s.weightLoad = r.gauge(sglang.FamilyWeightLoadDurationSeconds)
}

func (s *scheduler) makeLoopFamilies() {
	r := s.role
	s.realtime = r.counter(sglang.FamilyRealtimeTokensTotal)
	s.dpRealtime = r.counter(sglang.FamilyDPCooperationRealtimeTokensTotal)
	s.effective = r.counter(sglang.FamilyPrefillEffectiveTokensTotal)
	s.passes = r.counter(sglang.FamilyCUDAGraphPassesTotal)
	s.forward = r.counter(sglang.FamilyForwardExecutionSecondsTotal)
	s.dpForward = r.counter(sglang.FamilyDPCooperationForwardExecutionSecondsTotal)
	s.loop = r.counter(sglang.FamilySchedulerStageSecondsTotal)
	s.idle = r.counter(sglang.FamilySchedulerIdleSecondsTotal)
	s.cpu = r.counter(sglang.FamilySchedulerProcessCPUSecondsTotal)
	s.flops = r.counter(sglang.FamilyEstimatedFlopsPerGPUTotal)
	s.readBytes = r.counter(sglang.FamilyEstimatedReadBytesPerGPUTotal)
	s.writeBytes = r.counter(sglang.FamilyEstimatedWriteBytesPerGPUTotal)
	s.dpTokens = r.counter(sglang.FamilyDPAttentionTokensTotal)
	s.dpSteps = r.counter(sglang.FamilyDPAttentionStepsTotal)
	s.dpPairs = r.counter(sglang.FamilyDPAttentionPairsTotal)
	s.dpRatio = r.histogram(sglang.FamilyDPAttentionTokenImbalanceRatio)
	s.dpSyncWait = r.histogram(sglang.FamilyDPAttentionSyncWaitSeconds)
}

func (s *scheduler) makeDisaggFamilies() {
	r := s.role
	s.speed = r.histogram(sglang.FamilyKVTransferSpeedGBS)
	s.latency = r.histogram(sglang.FamilyKVTransferLatencyMS)
	s.bootstrap = r.histogram(sglang.FamilyKVTransferBootstrapMS)
	s.alloc = r.histogram(sglang.FamilyKVTransferAllocMS)
	s.total = r.histogram(sglang.FamilyKVTransferTotalMB)
	s.bootstrapFailed = r.counter(sglang.FamilyNumBootstrapFailedReqsTotal)
	s.transferFailed = r.counter(sglang.FamilyNumTransferFailedReqsTotal)
	s.retries = r.counter(sglang.FamilyNumPrefillRetriesTotal)
	s.hostReceived = r.counter(sglang.FamilyNumDecodeHostReceiveReqsTotal)
	s.deferredRelease = r.counter(sglang.FamilyDecodeDeferredKVReleaseTotal)
	s.deferredSeconds = r.histogram(sglang.FamilyDecodeDeferredKVReleaseSeconds)
}

// firstExpertRank is the role of those processes that have expert rank 0.
func (s *scheduler) firstExpertRank() *role {
	r := &role{page: s.page}
	for _, e := range s.role.emitters {
		if s.page.moeEPRank(e.rank.tp) == 0 {
			r.emitters = append(r.emitters, e)
		}
	}
	return r
}

// seed shows the zeros that every rank has from the start, also those ranks that
// never write.
func (s *scheduler) seed() {
	for _, m := range sglang.EffectiveModes {
		s.effective.seed(m)
	}
	for _, c := range sglang.LoopCategories {
		s.loop.seed(c, sglang.OverlapNone)
	}
	for _, k := range []string{sglang.KindScheduled, sglang.KindImbalance} {
		s.dpTokens.seed(k)
		s.dpPairs.seed(k)
	}
	for _, st := range []string{sglang.RankActive, sglang.RankIdle} {
		s.dpSteps.seed(st)
	}
	s.dpRatio.seed()
	s.dpSyncWait.seed()
}

// Report implements [ledger.SchedulerCollector].
func (s *scheduler) Report(snapshot *ledger.Snapshot) { s.report.show(snapshot) }

// QueueTime implements [ledger.SchedulerCollector].
func (s *scheduler) QueueTime(d time.Duration) {
	observeTime(s.queueTime.with(), s.page.time, d, time.Second)
}

// StageLatency implements [ledger.SchedulerCollector].
func (s *scheduler) StageLatency(st sglang.Stage, d time.Duration) {
	observeTime(s.stageLatency.with(st.String()), s.page.time, d, time.Second)
}

// Retracted implements [ledger.SchedulerCollector].
func (s *scheduler) Retracted(requests, inputTokens, outputTokens int) {
	add(s.retracted.with(), float64(requests))
	add(s.retractedIn.with(), float64(inputTokens))
	add(s.retractedOut.with(), float64(outputTokens))
}

// RealtimeTokens implements [ledger.SchedulerCollector].
func (s *scheduler) RealtimeTokens(mode string, n, prefillGroups int) {
	if n <= 0 {
		return
	}
	add(s.realtime.with(mode), float64(n))
	if prefillGroups >= 0 {
		add(s.dpRealtime.with(mode, strconv.Itoa(prefillGroups)), float64(n))
	}
}

// EffectiveTokens implements [ledger.SchedulerCollector].
func (s *scheduler) EffectiveTokens(mode string, n int) {
	if n > 0 {
		add(s.effective.with(mode), float64(n))
	}
}

// Pass implements [ledger.SchedulerCollector].
func (s *scheduler) Pass(mode string) { add(s.passes.with(mode), 1) }

// Forward implements [ledger.SchedulerCollector].
func (s *scheduler) Forward(category string, d time.Duration, prefillGroups int) {
	addTime(s.forward.with(category), s.page.time, d)
	if prefillGroups >= 0 {
		addTime(s.dpForward.with(category, strconv.Itoa(prefillGroups)), s.page.time, d)
	}
}

// LoopTime implements [ledger.SchedulerCollector].
func (s *scheduler) LoopTime(category, overlap string, d time.Duration) {
	addTime(s.loop.with(category, overlap), s.page.time, d)
}

// Idle implements [ledger.SchedulerCollector].
func (s *scheduler) Idle(d time.Duration) { addTime(s.idle.with(), s.page.time, d) }

// CPU implements [ledger.SchedulerCollector].
func (s *scheduler) CPU(d time.Duration) { addTime(s.cpu.with(), s.page.time, d) }

// MFU implements [ledger.SchedulerCollector].
func (s *scheduler) MFU(flops, readBytes, writeBytes float64) {
	for _, x := range []struct {
		v *vec[Counter]
		n float64
	}{{s.flops, flops}, {s.readBytes, readBytes}, {s.writeBytes, writeBytes}} {
		if x.n > 0 {
			add(x.v.with(), x.n)
		}
	}
}

// DPStep implements [ledger.SchedulerCollector].
func (s *scheduler) DPStep(d *ledger.DPStep) {
	state := sglang.RankIdle
	if d.Tokens > 0 {
		state = sglang.RankActive
	}
	add(s.dpSteps.with(state), 1)
	add(s.dpTokens.with(sglang.KindScheduled), float64(d.Tokens))
	add(s.dpTokens.with(sglang.KindImbalance), float64(d.MaxTokens-d.Tokens))
	add(s.dpPairs.with(sglang.KindScheduled), float64(d.Pairs))
	add(s.dpPairs.with(sglang.KindImbalance), float64(d.MaxPairs-d.Pairs))
	observeTime(s.dpSyncWait.with(), s.page.time, d.SyncWait, time.Second)
	if s.dp <= 0 && d.SumTokens > 0 {
		// One process of the engine observes it, even when all show their statistics.
		first := s.dpRatio.with()
		observe(first[:min(1, len(first))], float64(d.MaxTokens)*float64(d.Groups)/float64(d.SumTokens), 1)
	}
}

// KVTransfer implements [ledger.SchedulerCollector]. The engine observes the time of
// the bootstrap and that of the allocation together, 0 for one that did not happen.
func (s *scheduler) KVTransfer(t *ledger.Transfer) {
	if t.Bootstrap != ledger.Unset || t.Alloc != ledger.Unset {
		s.observeMS(s.bootstrap, max(0, t.Bootstrap))
		s.observeMS(s.alloc, max(0, t.Alloc))
	}
	s.observeMS(s.latency, t.Latency)
	if t.Latency <= 0 || t.Bytes <= 0 {
		return
	}
	const mb, gb = 1 << 20, 1 << 30
	observe(s.total.with(), float64(t.Bytes)/mb, 1)
	for _, x := range s.speed.with() {
		if x.running() {
			took := max(x.rank.measured(s.page.time, t.Latency), time.Microsecond)
			x.instrument.Observe(float64(t.Bytes)/gb/took.Seconds(), 1)
		}
	}
}

// observeMS makes no series of what did not happen.
func (s *scheduler) observeMS(v *vec[Histogram], d time.Duration) {
	if d != ledger.Unset {
		observeTime(v.with(), s.page.time, d, time.Millisecond)
	}
}

// BootstrapFailed implements [ledger.SchedulerCollector].
func (s *scheduler) BootstrapFailed() { add(s.bootstrapFailed.with(), 1) }

// TransferFailed implements [ledger.SchedulerCollector].
func (s *scheduler) TransferFailed() { add(s.transferFailed.with(), 1) }

// PrefillRetry implements [ledger.SchedulerCollector].
func (s *scheduler) PrefillRetry() { add(s.retries.with(), 1) }

// HostReceive implements [ledger.SchedulerCollector].
func (s *scheduler) HostReceive(requests int) { add(s.hostReceived.with(), float64(requests)) }

// DeferredRelease implements [ledger.SchedulerCollector].
func (s *scheduler) DeferredRelease(outcome string, held time.Duration) {
	add(s.deferredRelease.with(outcome), 1)
	observeTime(s.deferredSeconds.with(), s.page.time, held, time.Second)
}

// PrefillDelayed implements [ledger.SchedulerCollector]. The wait is that of a
// prefill that was let through and ran.
func (s *scheduler) PrefillDelayed(passes int, d time.Duration, input, allow, reason, actual string) {
	if allow == labelTrue && actual == labelTrue {
		observe(s.delayerPasses.with(), float64(passes), 1)
		observeTime(s.delayerWait.with(), s.page.time, d, time.Second)
	}
	add(s.delayerOutcomes.with(input, allow, reason, actual), 1)
}

// WeightsUpdated implements [ledger.SchedulerCollector].
func (s *scheduler) WeightsUpdated(source string, d time.Duration) {
	for _, x := range s.weightLoad.with(source) {
		if x.running() {
			x.instrument.Set(x.rank.measured(s.page.time, d).Seconds())
		}
	}
}

// Balancedness implements [ledger.SchedulerCollector].
func (s *scheduler) Balancedness(mode string, v float64) {
	observe(s.balancedness.with(mode), v, 1)
}
