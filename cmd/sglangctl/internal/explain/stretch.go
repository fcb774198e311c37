// Copyright The otelcol-sglang Authors
// SPDX-License-Identifier: Apache-2.0

package explain // import "github.com/otelcol-sglang/otelcol-sglang/cmd/sglangctl/internal/explain"

import (
	"cmp"
	"slices"

	"github.com/otelcol-sglang/otelcol-sglang/internal/sglang"
)

// stretch is a time from start to end, in nanoseconds since the epoch.
type stretch struct{ start, end int64 }

// union is the length of what stretches cover together.
func union(list []stretch) int64 {
	sorted := slices.Clone(list)
	slices.SortFunc(sorted, func(a, b stretch) int { return cmp.Compare(a.start, b.start) })
	var sum, until int64
	for _, s := range sorted {
		sum += max(0, s.end-max(s.start, until))
		until = max(until, s.end)
	}
	return sum
}

// reprefill tells a prefill after a retraction from the first one.
func (v *View) reprefill(s slice) bool {
	switch {
	case s.stage != sglang.StagePrefillForward && s.stage != sglang.StageChunkedPrefill:
		return false
	case s.in == sglang.StageDecodeForward:
		return true
	}
	first, ok := v.first(sglang.StagePrefillForward)
	return ok && s.in == sglang.StageUnknown && s.stage == sglang.StagePrefillForward && len(v.retracts) > 0 &&
		s.start >= v.retracts[0] && s.start > first.start
}

// waits are the times after retractions until the request ran again, which no
// span shows.
func (v *View) waits() []stretch {
	var out []stretch
	for i, at := range v.retracts {
		until := v.end
		if i+1 < len(v.retracts) {
			until = v.retracts[i+1]
		}
		for _, s := range v.scheduler {
			if v.reprefill(s) && s.start >= at {
				until = min(until, s.start)
			}
		}
		if w := v.clamp(at, until); w.end > w.start {
			out = append(out, w)
		}
	}
	return out
}

// open is the last slice of a request that was aborted in a stage whose own slice
// never came, and that stage of the budget.
func (v *View) open() (last slice, stage string) {
	found := false
	for _, s := range v.scheduler {
		if s.in == sglang.StageUnknown && (!found || s.end > last.end) {
			last, found = s, true
		}
	}
	if !v.aborted() || v.output() > 0 || !found || last.end >= v.end {
		return slice{}, ""
	}
	switch last.stage {
	case sglang.StageRequestProcess, sglang.StagePrefillBootstrap:
		return last, stageQueue
	case sglang.StagePrefillPrepare, sglang.StageDecodePrepare:
		return last, stageBootstrap
	case sglang.StageDecodeBootstrap:
		return last, stageKVTransfer
	case sglang.StageDecodeTransferred:
		return last, stageDecodeWait
	}
	return slice{}, ""
}

// Stages of the budget. Where two cover one instant the one further down has it.
const (
	stageUnattributed = "unattributed"
	stageFinish       = "finish"
	stageTokenize     = "tokenize"
	stageDispatch     = "dispatch"
	stageIntake       = "intake"
	stageBootstrap    = "bootstrap"
	stageKVTransfer   = "kv_transfer"
	stageQueue        = "queue"
	stagePrefill      = "prefill"
	stageDecodeWait   = "decode_wait"
	stageDecode       = "decode"
	stageRetractWait  = "retract_wait"
	stageReprefill    = "reprefill"
)

var stageOrder = []string{
	stageUnattributed, stageFinish, stageTokenize, stageDispatch, stageIntake, stageBootstrap, stageKVTransfer,
	stageQueue, stagePrefill, stageDecodeWait, stageDecode, stageRetractWait, stageReprefill,
}

// Weights of pieces that cover one instant, the lightest first. A decode half's
// bootstrap and transfer only wait for the prefill half's work.
const (
	weightFiller = iota
	weightPeerFront
	weightWaiting
	weightPeerWork
	weightOwn
)

// piece is a stretch in a stage of the budget.
type piece struct {
	stretch
	stage  string
	weight int
	from   string
}

func (p piece) over(q piece) bool {
	if p.weight != q.weight {
		return p.weight > q.weight
	}
	return slices.Index(stageOrder, p.stage) > slices.Index(stageOrder, q.stage)
}

// pieces is what a half's own spans say.
func (v *View) pieces() []piece {
	var out []piece
	for _, s := range slices.Concat(v.front, v.scheduler) {
		if stage, weight := v.budgetStage(s); stage != "" {
			out = append(out, piece{stretch{s.start, s.end}, stage, weight, s.span.Name()})
		}
	}
	for _, w := range v.waits() {
		out = append(out, piece{w, stageRetractWait, weightOwn, "wait after a retraction"})
	}
	last, stage := v.open()
	if stage != "" {
		return append(out, piece{stretch{last.end, v.end}, stage, weightOwn, "from the end of " + last.span.Name() + " to the abort"})
	}
	var until int64
	for _, s := range v.scheduler {
		until = max(until, s.end)
	}
	if until > 0 {
		out = append(out, piece{stretch{until, v.end}, stageFinish, weightFiller, "from the scheduler's last to the root's end"})
	}
	return out
}

func (v *View) budgetStage(s slice) (stage string, weight int) {
	if v.reprefill(s) {
		return stageReprefill, weightOwn
	}
	switch s.stage {
	case sglang.StageTokenize:
		return stageTokenize, weightOwn
	case sglang.StageAPIServerDispatch, sglang.StageDPCDispatch:
		return stageDispatch, weightOwn
	case sglang.StageRequestProcess, sglang.StagePrefillPrepare, sglang.StageDecodePrepare:
		return stageIntake, weightOwn
	case sglang.StagePrefillBootstrap:
		return stageBootstrap, weightOwn
	case sglang.StageDecodeBootstrap:
		return stageBootstrap, weightWaiting
	case sglang.StageDecodeTransferred:
		return stageKVTransfer, weightWaiting
	case sglang.StagePrefillTransferKVCache:
		return stageKVTransfer, weightOwn
	case sglang.StagePrefillWaiting:
		return stageQueue, weightOwn
	case sglang.StageDecodeWaiting:
		return stageDecodeWait, weightOwn
	case sglang.StagePrefillForward, sglang.StageChunkedPrefill:
		return stagePrefill, weightOwn
	case sglang.StageDecodeForward, sglang.StageFakeOutput:
		return stageDecode, weightOwn
	}
	return "", 0
}

// allPieces adds the prefill half's to those of a joined decode half.
func (v *View) allPieces() []piece {
	out := v.pieces()
	if !v.joined() || v.peer == nil {
		return out
	}
	for _, p := range v.peer.pieces() {
		switch p.stage {
		case stageFinish:
			p.weight = weightFiller
		case stageTokenize, stageDispatch, stageIntake, stageBootstrap:
			p.weight = weightPeerFront
		default:
			p.weight = weightPeerWork
		}
		p.from += " of the prefill half"
		out = append(out, p)
	}
	if v.peer.end < v.start {
		out = append(out, piece{stretch{v.peer.end, v.start}, stageBootstrap, weightFiller, "between the halves"})
	}
	return out
}

// budget gives each instant of the request to one stage.
func (v *View) budget() map[string]int64 {
	from := v.begin()
	pieces := v.allPieces()
	cuts := []int64{from, v.end}
	for _, p := range pieces {
		for _, at := range []int64{p.start, p.end} {
			if at > from && at < v.end {
				cuts = append(cuts, at)
			}
		}
	}
	slices.Sort(cuts)
	out := map[string]int64{}
	for i := 0; i+1 < len(cuts); i++ {
		best := piece{stage: stageUnattributed, weight: -1}
		for _, p := range pieces {
			if p.start <= cuts[i] && p.end >= cuts[i+1] && p.end > p.start && p.over(best) {
				best = p
			}
		}
		out[best.stage] += cuts[i+1] - cuts[i]
	}
	return out
}

// sequentialLead is how much earlier than its decode half a prefill half begins
// that was sent first.
const sequentialLead = int64(20e6)

// begin is when the user's time begins.
func (v *View) begin() int64 {
	if !v.joined() || v.peer == nil {
		return v.start
	}
	if v.peer.start < v.start-sequentialLead || v.peer.end <= v.start && v.peer.start < v.start {
		return v.peer.start
	}
	return v.start
}
