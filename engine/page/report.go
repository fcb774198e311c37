// Copyright The otelcol-sglang Authors
// SPDX-License-Identifier: Apache-2.0

package page // import "github.com/otelcol-sglang/otelcol-sglang/engine/page"

import (
	"maps"
	"math"
	"slices"

	"github.com/otelcol-sglang/otelcol-sglang/engine/ledger"
	"github.com/otelcol-sglang/otelcol-sglang/internal/sglang"
)

// alwaysShown are the gauges that every report writes, whatever is on: what has no
// value yet is 0.
var alwaysShown = [...]sglang.FamilyName{
	sglang.FamilyGenThroughput, sglang.FamilyCacheHitRate, sglang.FamilyDecodeSumSeqLens,
	sglang.FamilySpecAcceptLength, sglang.FamilySpecAcceptRate, sglang.FamilySpecCapLength,
	sglang.FamilySpecBlockAcceptLength, sglang.FamilySpecNumSteps, sglang.FamilySpecNumDraftTokens,
	sglang.FamilyNumPrefillBootstrapQueueReqs, sglang.FamilyNumPrefillInflightQueueReqs,
	sglang.FamilyNumDecodePreallocQueueReqs, sglang.FamilyNumDecodeTransferQueueReqs,
	sglang.FamilyNumDecodeHostReceiveQueueReqs, sglang.FamilyNumDecodeDeferredKVReleaseReqs,
	sglang.FamilyPendingPreallocTokenUsage, sglang.FamilyPreallocFullTokenUsage,
	sglang.FamilyPreallocSWATokenUsage, sglang.FamilyNewTokenRatio, sglang.FamilyIsCUDAGraph,
	sglang.FamilyNumUniqueRunningRoutingKeys,
}

// percent: the page shows the forward occupancy from 0 to 100.
const percent = 100

// report shows snapshots. It remembers nothing but which priorities it has seen:
// what a snapshot leaves out stays as it is shown.
type report struct {
	role   *role
	gauges map[sglang.FamilyName]*vec[Gauge]
	queues map[sglang.FamilyName]*vec[Gauge]
	// priorities that were seen once are shown as 0 for ever after.
	priorities map[string]struct{}
	started    bool
}

func newReport(r *role) *report {
	return &report{
		role: r, gauges: map[sglang.FamilyName]*vec[Gauge]{}, queues: map[sglang.FamilyName]*vec[Gauge]{},
		priorities: map[string]struct{}{},
	}
}

func (r *report) show(s *ledger.Snapshot) {
	if !r.started {
		r.started = true
		r.showZeros()
	}
	r.showQueue(sglang.FamilyNumRunningReqs, &s.Running)
	r.showQueue(sglang.FamilyNumQueueReqs, &s.Queued)
	r.set(sglang.FamilyNumGrammarQueueReqs, float64(s.Grammar.Total))
	r.set(sglang.FamilyNumPausedReqs, float64(s.Paused))
	r.set(sglang.FamilyNumRetractedReqs, float64(s.Retracted))
	r.set(sglang.FamilyUtilization, s.Utilization)
	r.set(sglang.FamilyFwdOccupancy, percent*s.FwdOccupancy)
	r.showPools(s)
	r.showPrefill(s.Prefill)
	r.showDecode(s.Decode)
	r.showPD(s.PD)
	r.showLoRA(s.LoRA)
	r.showHost(s.Host)
	r.showSessions(s.Session)
	r.showRoutingKeys(s.Routing)
}

func (r *report) set(name sglang.FamilyName, v float64) {
	g := r.gauges[name]
	if g == nil {
		g = r.role.gauge(name)
		r.gauges[name] = g
	}
	set(g.with(), v)
}

func (r *report) showZeros() {
	for _, name := range alwaysShown {
		r.set(name, 0)
	}
	r.showRoutingKeys(&ledger.RoutingKeys{})
}

// showQueue shows the total without priority, and the parts where priorities are on.
func (r *report) showQueue(name sglang.FamilyName, q *ledger.QueueCount) {
	r.set(name, float64(q.Total))
	if !r.role.page.args.EnablePriorityScheduling {
		return
	}
	for p := range q.ByPriority {
		if _, ok := r.priorities[p]; !ok && len(r.priorities) < r.role.page.limit {
			r.priorities[p] = struct{}{}
		}
	}
	g := r.queues[name]
	if g == nil {
		g = r.role.gauge(name, sglang.LabelPriority)
		r.queues[name] = g
	}
	for _, p := range slices.Sorted(maps.Keys(r.priorities)) {
		set(g.with(p), float64(q.ByPriority[p]))
	}
}

func (r *report) showPools(s *ledger.Snapshot) {
	r.set(sglang.FamilyTokenUsage, math.Round(s.TokenUsage*100)/100)
	r.set(sglang.FamilyNumUsedTokens, float64(s.UsedTokens))
	r.showPool(&s.Full, sglang.FamilyFullTokenUsage,
		sglang.FamilyKVAvailableTokens, sglang.FamilyKVEvictableTokens, sglang.FamilyKVUsedTokens)
	r.showPool(&s.SWA, sglang.FamilySWATokenUsage,
		sglang.FamilySWAAvailableTokens, sglang.FamilySWAEvictableTokens, sglang.FamilySWAUsedTokens)
	r.showPool(&s.Mamba, sglang.FamilyMambaUsage,
		sglang.FamilyMambaAvailableTokens, sglang.FamilyMambaEvictableTokens, sglang.FamilyMambaUsedTokens)
}

func (r *report) showPool(p *ledger.Pool, usage, available, evictable, used sglang.FamilyName) {
	r.set(usage, p.Usage())
	r.set(available, float64(p.Available))
	r.set(evictable, float64(p.Evictable))
	r.set(used, float64(p.Used))
}

func (r *report) showPrefill(p *ledger.PrefillReport) {
	if p == nil {
		return
	}
	r.set(sglang.FamilyCacheHitRate, p.CacheHitRate)
	r.set(sglang.FamilyNewTokenRatio, p.NewTokenRatio)
}

func (r *report) showDecode(d *ledger.DecodeReport) {
	if d == nil {
		return
	}
	r.set(sglang.FamilyGenThroughput, d.GenThroughput)
	r.set(sglang.FamilyDecodeSumSeqLens, float64(d.SumSeqLens))
	if d.Spec == nil {
		return
	}
	r.set(sglang.FamilySpecAcceptLength, d.Spec.AcceptLength)
	r.set(sglang.FamilySpecAcceptRate, d.Spec.AcceptRate)
	r.set(sglang.FamilySpecCapLength, d.Spec.CapLength)
	r.set(sglang.FamilySpecNumSteps, float64(d.Spec.Steps))
	r.set(sglang.FamilySpecNumDraftTokens, float64(d.Spec.DraftToks))
}

// showPD leaves pending_prealloc_token_usage at 0: the engine's reporter never
// assigns it.
func (r *report) showPD(p *ledger.PDQueues) {
	if p == nil {
		return
	}
	r.showQueue(sglang.FamilyNumPrefillBootstrapQueueReqs, &p.Bootstrap)
	r.showQueue(sglang.FamilyNumPrefillInflightQueueReqs, &p.Inflight)
	r.showQueue(sglang.FamilyNumDecodePreallocQueueReqs, &p.Prealloc)
	r.showQueue(sglang.FamilyNumDecodeTransferQueueReqs, &p.Transfer)
	r.showQueue(sglang.FamilyNumDecodeHostReceiveQueueReqs, &p.HostReceive)
	r.set(sglang.FamilyNumDecodeDeferredKVReleaseReqs, float64(p.DeferredRelease))
	r.set(sglang.FamilyPreallocFullTokenUsage, p.PreallocUsage)
	r.set(sglang.FamilyPreallocSWATokenUsage, p.PreallocSWAUsage)
}

func (r *report) showLoRA(l *ledger.LoRASlots) {
	if l == nil {
		return
	}
	r.set(sglang.FamilyLoRAPoolSlotsUsed, float64(l.Used))
	r.set(sglang.FamilyLoRAPoolSlotsTotal, float64(l.Total))
	r.set(sglang.FamilyLoRAPoolUtilization, float64(l.Used)/float64(max(1, l.Total)))
}

func (r *report) showHost(h *ledger.HostPool) {
	if h == nil {
		return
	}
	r.set(sglang.FamilyHiCacheHostUsedTokens, float64(h.Used))
	r.set(sglang.FamilyHiCacheHostTotalTokens, float64(h.Total))
	if h.MambaUsed != nil {
		r.set(sglang.FamilyHiCacheHostMambaUsedStates, float64(*h.MambaUsed))
	}
	if h.MambaTotal != nil {
		r.set(sglang.FamilyHiCacheHostMambaTotalStates, float64(*h.MambaTotal))
	}
}

func (r *report) showSessions(s *ledger.Sessions) {
	if s == nil {
		return
	}
	r.set(sglang.FamilyNumStreamingSessions, float64(s.Open))
	r.set(sglang.FamilyStreamingSessionHeldTokens, float64(s.HeldTokens))
}

func (r *report) showRoutingKeys(k *ledger.RoutingKeys) {
	if k == nil {
		return
	}
	r.set(sglang.FamilyNumUniqueRunningRoutingKeys, float64(k.Unique))
	r.showKeyCounts(sglang.FamilyRoutingKeyRunningReqCount, k.Running)
	r.showKeyCounts(sglang.FamilyRoutingKeyAllReqCount, k.All)
}

// showKeyCounts shows how many keys have a number of requests in (gt, le].
func (r *report) showKeyCounts(name sglang.FamilyName, requests []int) {
	var keys [len(sglang.RoutingKeyBounds) + 1]int
	for _, n := range requests {
		i, _ := slices.BinarySearch(sglang.RoutingKeyBounds[:], n)
		keys[i]++
	}
	g := r.gauges[name]
	if g == nil {
		g = r.role.gauge(name)
		r.gauges[name] = g
	}
	for i, n := range keys {
		gt, le := sglang.RoutingKeyClass(i)
		set(g.with(gt, le), float64(n))
	}
}
