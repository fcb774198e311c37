// Copyright The otelcol-sglang Authors
// SPDX-License-Identifier: Apache-2.0

package sched // import "github.com/otelcol-sglang/otelcol-sglang/engine/sched"

import (
	"math"
	"slices"
	"strconv"
	"time"

	"github.com/otelcol-sglang/otelcol-sglang/engine/ledger"
	"github.com/otelcol-sglang/otelcol-sglang/engine/radix"
	"github.com/otelcol-sglang/otelcol-sglang/internal/sglang"
)

const (
	// staleAfter: without a decode report for this long, the throughput is 0.
	staleAfter = 30 * time.Second
	// fullUsage is the usage of the pools that counts as used up.
	fullUsage = 0.9
)

// reporter holds what reports need from one to the next: counts since the last, and
// what the decode reporter owns.
type reporter struct {
	steps     int
	tokens    int
	since     time.Duration
	last      time.Duration // of the last decode report
	owned     ledger.DecodeReport
	hitRate   float64
	recent    radix.HitWindow
	retracted int
	// stood: the report of standing still was made.
	stood     bool
	lastBatch int

	uncached     int64
	prefillBusy  time.Duration
	forward      time.Duration // device time since the last report
	forwardSince time.Duration
}

func (rp *reporter) init(s *Scheduler) {
	now := s.Loop.Now()
	rp.since, rp.last, rp.forwardSince = now, now, now
	rp.recent.Span = s.Args.CacheHitWindow
	c := s.constants()
	for _, b := range s.Collectors {
		b.Constants(c)
	}
}

// constants are of one rank.
func (s *Scheduler) constants() *ledger.Constants {
	full, swa, mamba := s.Memory.Books()
	page := max(s.Args.PageSize, 1)
	kv := float64(s.Cost.PoolBytes(full.Capacity, swa.Capacity, mamba.Capacity)) / 1e9
	weights := s.Cost.WeightGB()
	graph := map[string]float64{sglang.PhaseGraphDecode: 0.35 + 0.01*float64(s.Cost.Profile.Layers)}
	load := weights * 0.9
	return &ledger.Constants{
		MaxTotalTokens: full.Capacity, MaxTotalTokensSWA: swa.Capacity,
		PageSize: page, Pages: full.Capacity / page, ContextLen: s.Args.ContextLength,
		WeightGB: weights, KVCacheGB: kv,
		AvailableGB: max(0, s.Cost.Profile.GPUMemory/1e9-weights-kv), GraphGB: graph,
		StartupSeconds: map[string]float64{
			sglang.PhaseLoadWeight: load, sglang.PhaseKVCache: 0.4, sglang.PhaseSchedulerE2E: load + 14,
			// The front end waits for the schedulers.
			sglang.PhaseTokenizerE2E: load + 15.5,
		},
		GraphStartupSeconds: map[string]float64{sglang.PhaseGraphDecode: 6},
	}
}

// prefill is the prefill reporter: each batch.
func (rp *reporter) prefill(s *Scheduler, b *batch) {
	t := &b.tally
	hits := t.device + t.host + t.storage
	rp.hitRate = 0
	if n := hits + t.input; n > 0 {
		rp.hitRate = float64(hits) / float64(n)
	}
	rp.recent.Add(s.Loop.Now(), hits, hits+t.input)
	rp.lastBatch = len(b.entries)
	rp.uncached += int64(t.compute)
	rp.prefillBusy += b.done - b.start
	for _, c := range s.Collectors {
		c.Pass(sglang.PassPrefillNone)
		count(t.compute, func(n int) { c.RealtimeTokens(sglang.ModePrefillCompute, n, b.groups) })
		count(t.hit, func(n int) { c.RealtimeTokens(sglang.ModePrefillCache, n, b.groups) })
		count(t.input, func(n int) { c.EffectiveTokens(sglang.EffectiveInput, n) })
		count(t.device, func(n int) { c.EffectiveTokens(sglang.EffectiveDeviceHit, n) })
		count(t.host, func(n int) { c.EffectiveTokens(sglang.EffectiveHostHit, n) })
		count(t.storage, func(n int) { c.EffectiveTokens(sglang.EffectiveStorageHit, n) })
	}
	rp.expire(s, s.Loop.Now())
	snap := s.Snapshot()
	snap.Prefill = &ledger.PrefillReport{CacheHitRate: rp.hitRate, NewTokenRatio: s.ratio}
	rp.push(s, snap)
}

func count(n int, f func(int)) {
	if n > 0 {
		f(n)
	}
}

// balanced tells how evenly the experts worked, by the first group of those that
// share them.
func (rp *reporter) balanced(s *Scheduler, b *batch) {
	if b.pass.Balance == 0 || s.Places[0].DPRank > 0 && s.Sync != nil {
		return
	}
	mode := sglang.ForwardDecode
	if b.mode == modePrefill {
		mode = sglang.ForwardPrefill
	}
	for _, c := range s.Collectors {
		c.Balancedness(mode, b.pass.Balance)
	}
}

// decodePass counts a decode pass at its launch.
func (rp *reporter) decodePass(s *Scheduler, b *batch) {
	mode := sglang.PassDecodeNone
	if b.pass.Graph {
		mode = sglang.PassDecodeGraph
	}
	for _, c := range s.Collectors {
		c.Pass(mode)
	}
}

// busy counts what the GPUs do in a pass.
func (rp *reporter) busy(s *Scheduler, b *batch) {
	rp.stood = false
	rp.forward += b.done - b.start
	if s.Args.DeviceTimer {
		category := sglang.ModeDecode
		if b.mode == modePrefill {
			category = sglang.ForwardExtend
		}
		for _, c := range s.Collectors {
			c.Forward(category, b.done-b.start, b.groups)
		}
	}
	if s.Args.EnableMFUMetrics {
		t := s.Cost.Traffic(b.pass)
		for _, c := range s.Collectors {
			c.MFU(t.Flops, t.ReadBytes, t.WriteBytes)
		}
	}
}

// decode is the decode reporter: tokens of each step, a report each
// decode_log_interval of them.
func (rp *reporter) decode(s *Scheduler, b *batch, made int, now time.Duration) {
	rp.made(s, b, made)
	rp.steps++
	if rp.steps%s.Args.DecodeLogInterval != 0 {
		return
	}
	rp.reportDecode(s, now)
}

// made counts the tokens that a pass decoded.
func (rp *reporter) made(s *Scheduler, b *batch, n int) {
	if n == 0 {
		return
	}
	rp.tokens += n
	for _, c := range s.Collectors {
		c.RealtimeTokens(sglang.ModeDecode, n, b.groups)
	}
}

func (rp *reporter) reportDecode(s *Scheduler, now time.Duration) {
	if d := now - rp.since; d > 0 {
		rp.owned.GenThroughput = float64(rp.tokens) / d.Seconds()
	}
	rp.tokens, rp.since, rp.last = 0, now, now
	rp.owned.SumSeqLens = s.sumSeqLens()
	rp.owned.Spec = s.specReport()
	rp.pushDecode(s)
}

func (rp *reporter) pushDecode(s *Scheduler) {
	snap := s.Snapshot()
	d := rp.owned
	snap.Decode = &d
	rp.push(s, snap)
}

func (rp *reporter) push(s *Scheduler, snap *ledger.Snapshot) {
	rp.retracted = 0
	rp.forward, rp.forwardSince = 0, snap.At
	for _, c := range s.Collectors {
		c.Report(snap)
	}
}

// still reports that nothing runs: once, until something does again.
func (rp *reporter) still(s *Scheduler) {
	if rp.stood {
		return
	}
	rp.stood = true
	rp.owned.GenThroughput = 0
	rp.tokens, rp.since = 0, s.Loop.Now()
	rp.pushDecode(s)
}

// expire takes a throughput back that no decode report confirmed for too long.
func (rp *reporter) expire(s *Scheduler, now time.Duration) {
	if rp.owned.GenThroughput == 0 || now-rp.last <= staleAfter {
		return
	}
	rp.owned.GenThroughput = 0
	rp.tokens, rp.since = 0, now
	rp.pushDecode(s)
}

// retract counts what a retraction lost.
func (rp *reporter) retract(s *Scheduler, w *work) {
	rp.retracted++
	for _, c := range s.Collectors {
		c.Retracted(1, w.prompt(), w.outputs())
	}
}

func (s *Scheduler) sumSeqLens() int {
	n := 0
	for i := range s.slots {
		for _, w := range s.slots[i].running {
			if w.state == stateRunning {
				n += len(w.ids)
			}
		}
	}
	return n
}

// specReport is of the window since the last one; nil without speculation.
func (s *Scheduler) specReport() *ledger.SpecReport {
	if s.Drafter == nil {
		return nil
	}
	w := s.Drafter.TakeWindow()
	return &ledger.SpecReport{
		AcceptLength: w.AcceptLength(), AcceptRate: w.AcceptRate(), CapLength: w.CapLength(),
		Steps: s.Drafter.Steps(), DraftToks: s.Drafter.DraftTokens(),
	}
}

// Snapshot is the present state, as a report of no reporter.
func (s *Scheduler) Snapshot() *ledger.Snapshot {
	n := &ledger.Snapshot{
		At: s.Loop.Now(), Queued: s.countQueue(s.queue), Running: s.countRunning(),
		Grammar: s.countQueue(s.grammar), Retracted: s.reports.retracted,
		FwdOccupancy: s.occupancy(), Host: s.Memory.Host(), PD: s.pd.queues(s),
		LoRA: s.loraSlots(), Routing: s.routingKeys(),
	}
	if m, ok := s.Memory.(interface{ Sessions() *ledger.Sessions }); ok {
		n.Session = m.Sessions()
	}
	n.Full, n.SWA, n.Mamba = s.Memory.Books()
	n.TokenUsage = max(n.Full.Usage(), n.SWA.Usage(), n.Mamba.Usage())
	n.UsedTokens = max(n.Full.Used, n.SWA.Used)
	n.Utilization = s.utilization(n)
	return n
}

// utilization: what comes first, the limit of running requests or full pools. A PD
// prefill node has none.
func (s *Scheduler) utilization(n *ledger.Snapshot) float64 {
	if s.prefillNode() {
		return -1
	}
	limit := s.runningLimit() * len(s.slots)
	return max(float64(n.Running.Total)/float64(limit), n.TokenUsage/fullUsage)
}

func (s *Scheduler) occupancy() float64 {
	d := s.Loop.Now() - s.reports.forwardSince
	if !s.Args.DeviceTimer || d <= 0 {
		return math.NaN()
	}
	return min(1, s.reports.forward.Seconds()/d.Seconds())
}

func (s *Scheduler) countQueue(q []*work) ledger.QueueCount {
	c := ledger.QueueCount{Total: len(q)}
	for _, w := range q {
		s.countPriority(&c, w)
	}
	return c
}

func (s *Scheduler) countPriority(c *ledger.QueueCount, w *work) {
	if !s.Args.EnablePriorityScheduling {
		return
	}
	if c.ByPriority == nil {
		c.ByPriority = map[string]int{}
	}
	label := sglang.PriorityNone
	if p := w.r.Priority; p != nil {
		label = strconv.Itoa(*p)
	}
	c.ByPriority[label]++
}

// countRunning counts requests that decode, not those of a prefill pass in flight;
// on a PD prefill node, those of the last pass.
func (s *Scheduler) countRunning() ledger.QueueCount {
	c := ledger.QueueCount{}
	if s.prefillNode() {
		c.Total = s.reports.lastBatch
		return c
	}
	for i := range s.slots {
		for _, w := range s.slots[i].running {
			if w.state == stateRunning && !w.prefillOpen {
				c.Total++
				s.countPriority(&c, w)
			}
		}
	}
	return c
}

// loraSlots is nil on an engine without adapters.
func (s *Scheduler) loraSlots() *ledger.LoRASlots {
	if s.LoRA == nil {
		return nil
	}
	slots := s.LoRA.Slots()
	return &slots
}

// routingKeys counts requests per key, only when all running ones have one.
func (s *Scheduler) routingKeys() *ledger.RoutingKeys {
	running := map[string]int{}
	for i := range s.slots {
		for _, w := range s.slots[i].running {
			if w.state != stateRunning {
				continue
			}
			if w.r.RoutingKey == "" {
				return nil
			}
			running[w.r.RoutingKey]++
		}
	}
	if len(running) == 0 {
		return nil
	}
	all := map[string]int{}
	for k, n := range running {
		all[k] = n
	}
	for _, w := range s.queue {
		if w.r.RoutingKey != "" {
			all[w.r.RoutingKey]++
		}
	}
	return &ledger.RoutingKeys{Unique: len(running), Running: sortedCounts(running), All: sortedCounts(all)}
}

func sortedCounts(m map[string]int) []int {
	ns := make([]int, 0, len(m))
	for _, n := range m {
		ns = append(ns, n)
	}
	slices.Sort(ns)
	return ns
}

// waitingUncached is what the waiting requests will have to compute, if they find as
// much in the cache as those of late did.
func (s *Scheduler) waitingUncached() int {
	n := 0
	for _, w := range s.queue {
		n += len(w.ids)
	}
	hits, _ := s.reports.recent.Share(s.Loop.Now())
	return int(float64(n) * (1 - hits))
}

// Loads is for /v1/loads.
func (s *Scheduler) Loads() Loads {
	n := s.Snapshot()
	l := Loads{
		At: n.At, DPRank: max(0, s.Places[0].DPRank), Running: n.Running.Total, Waiting: n.Queued.Total,
		UsedTokens: n.UsedTokens, CapacityTokens: n.Full.Capacity, ActiveTokens: s.sumSeqLens(),
		MaxRunning: s.runningLimit() * len(s.slots), TokenUsage: n.TokenUsage,
		GenThroughput: s.reports.owned.GenThroughput, CacheHitRate: s.reports.hitRate,
		Utilization: n.Utilization, PrefillUncachedTokens: s.reports.uncached, PrefillBusy: s.reports.prefillBusy,
		Retracted: n.Retracted, PreallocReadyTokens: n.Full.Reserved - s.pressure,
	}
	l.WaitingUncachedTokens = s.waitingUncached()
	l.TotalTokens = l.UsedTokens + l.WaitingUncachedTokens
	if d := s.Drafter; d != nil {
		l.AcceptLength, l.AcceptRate = d.Lifetime.AcceptLength(), d.Lifetime.AcceptRate()
	}
	if n.LoRA != nil {
		l.LoRA = *n.LoRA
	}
	if n.PD != nil {
		l.PD = *n.PD
	}
	return l
}
