// Copyright The otelcol-sglang Authors
// SPDX-License-Identifier: Apache-2.0

package page // import "github.com/otelcol-sglang/otelcol-sglang/engine/page"

import (
	"math/rand/v2"
	"strconv"
	"time"

	"github.com/otelcol-sglang/otelcol-sglang/engine/ledger"
	"github.com/otelcol-sglang/otelcol-sglang/internal/sglang"
)

// rankID is a scheduler process within its engine.
type rankID struct{ dp, pp, tp int }

// rank is one scheduler process.
type rank struct {
	place *ledger.Place
	// tp is the rank in the whole TP group, attnTP the one in its attention group.
	tp, attnTP int
	pid        int
	// stopped: the process is gone. What it wrote stays on the page.
	stopped bool
	// scheduling: a scheduler's book has been made for it.
	scheduling bool
	// observed counts its durations.
	observed uint64
	// slow stretches those of requests.
	slow float64
}

// measured is a duration of the group as this rank measures it.
func (r *rank) measured(t RankTime, d time.Duration) time.Duration {
	d = r.spent(t, d)
	if r.slow != 1 {
		d = time.Duration(float64(d) * r.slow)
	}
	return d
}

// spent is a part of the rank's own wall time. No part is stretched, as all of them
// together are what the clock shows, on a slow rank too.
func (r *rank) spent(t RankTime, d time.Duration) time.Duration {
	r.observed++
	return max(0, t(r.place, r.tp, r.observed, d))
}

// startRanks starts the processes of a place.
func (p *Page) startRanks(place *ledger.Place) []*rank {
	rs := make([]*rank, len(place.TPRanks))
	for i, tp := range place.TPRanks {
		rs[i] = &rank{place: place, tp: tp, attnTP: i, pid: p.takePID(), slow: 1}
		p.ranks[rankID{place.DPRank, place.PPRank, tp}] = rs[i]
	}
	return rs
}

// ranksOf gives the processes of a place, starting them where one does not run.
// A scheduler's book is made once for each process: asked for another, its
// processes are others, too.
func (p *Page) ranksOf(place *ledger.Place, schedule bool) []*rank {
	rs := make([]*rank, 0, len(place.TPRanks))
	for _, tp := range place.TPRanks {
		r := p.ranks[rankID{place.DPRank, place.PPRank, tp}]
		if r == nil || r.stopped || (schedule && r.scheduling) {
			rs = p.startRanks(place)
			break
		}
		rs = append(rs, r)
	}
	for _, r := range rs {
		r.scheduling = r.scheduling || schedule
	}
	return rs
}

// moeEPRank is the expert-parallel rank of a TP rank.
func (p *Page) moeEPRank(tp int) int {
	return tp / max(1, p.args.TPSize/max(1, p.args.EPSize))
}

// schedulerLabels are those on a scheduler's families.
func (p *Page) schedulerLabels(r *rank) []Label {
	ls := append([]Label{
		{sglang.LabelModelName, p.modelName()},
		{sglang.LabelEngineType, p.engineType()},
		{sglang.LabelTPRank, strconv.Itoa(r.tp)},
		{sglang.LabelPPRank, strconv.Itoa(r.place.PPRank)},
		{sglang.LabelMoEEPRank, strconv.Itoa(p.moeEPRank(r.tp))},
	}, p.extraLabels()...)
	if p.args.EnablePriorityScheduling {
		ls = append(ls, Label{sglang.LabelPriority, ""})
	}
	if r.place.DPRank >= 0 {
		ls = append(ls, Label{sglang.LabelDPRank, strconv.Itoa(r.place.DPRank)})
	}
	return ls
}

// attentionDP is the dp_rank of the caches' families: without DP attention it is
// 0 on every replica, whose numbers therefore add up in one series.
func (p *Page) attentionDP(r *rank) string {
	if !p.args.EnableDPAttention {
		return "0"
	}
	return strconv.Itoa(max(0, r.place.DPRank))
}

// radixLabels are those on the prefix tree's families: without the model, and
// with the rank inside the attention group.
func (p *Page) radixLabels(r *rank) []Label {
	return append([]Label{
		{sglang.LabelCacheType, sglang.CacheTypeUnified},
		{sglang.LabelTPRank, strconv.Itoa(r.attnTP)},
		{sglang.LabelPPRank, strconv.Itoa(r.place.PPRank)},
		{sglang.LabelDPRank, p.attentionDP(r)},
	}, p.extraLabels()...)
}

func (p *Page) storageLabels(r *rank) []Label {
	return append([]Label{
		{sglang.LabelStorageBackend, p.args.HiCacheStorageBackend},
		{sglang.LabelTPRank, strconv.Itoa(r.attnTP)},
		{sglang.LabelDPRank, p.attentionDP(r)},
		{sglang.LabelPPRank, strconv.Itoa(r.place.PPRank)},
		{sglang.LabelPPSize, strconv.Itoa(p.args.PPSize)},
		{sglang.LabelAttnCPRank, "0"},
		{sglang.LabelAttnCPSize, "1"},
	}, p.extraLabels()...)
}

// jitterShare is the largest part of a duration by which ranks differ.
const jitterShare = 4

// jitter makes ranks differ by the moments at which they read the clock: a
// duration is the difference of two readings. Short ones differ less, so that none
// gets negative and sums stay what they are.
func jitter(spread time.Duration, seed uint64) RankTime {
	return func(p *ledger.Place, tpRank int, n uint64, d time.Duration) time.Duration {
		most := uint64(max(0, min(spread, d/jitterShare)))
		if most == 0 {
			return d
		}
		var src rand.PCG
		src.Seed(seed^uint64(tpRank+1)<<32^uint64(p.PPRank)<<48^uint64(p.DPRank+1)<<56, n)
		return d + time.Duration(src.Uint64()%most) - time.Duration(src.Uint64()%most)
	}
}
