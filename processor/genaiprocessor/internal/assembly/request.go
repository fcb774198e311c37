// Copyright The otelcol-sglang Authors
// SPDX-License-Identifier: Apache-2.0

package assembly

import (
	"github.com/otelcol-sglang/otelcol-sglang/internal/sglang"
	"github.com/otelcol-sglang/otelcol-sglang/processor/genaiprocessor/internal/latency"
)

// request writes down what a tree says. It changes nothing.
func (t *Trace) request(tr *tree, completeness string) *Request {
	n := &t.nodes[tr.root]
	r := requests.Get().(*Request)
	r.Trace, r.RootID, r.Root, r.Engine = t.id, n.id, n.x.root, t.engine
	r.Completeness, r.EncoderSeen, r.Level = completeness, tr.encoder, Unknown
	line := &r.Timeline
	line.Start, line.End, line.Role = n.start, n.end, n.x.root.Role
	line.SchedulerSeen = tr.scheduler
	line.Complete = completeness == sglang.CompletenessComplete
	r.Timeline.Front, r.Timeline.Scheduler, r.Folded = r.front[:0], r.scheduler[:0], r.folded[:0]
	for _, i := range tr.nodes {
		r.Level = max(r.Level, t.level(i))
		if th := t.nodes[i].thread(); th != nil {
			r.WithoutRanks = r.WithoutRanks || th.WithoutRanks
		}
		t.addFront(r, i)
		t.addFolded(r, tr, i)
		t.addMissed(r, tr, i)
	}
	if tr.primary != 0 {
		t.addPrimary(r, tr.primary)
	}
	return r
}

func (t *Trace) level(i int32) int64 {
	n := &t.nodes[i]
	if n.x != nil && (n.x.sum.Count() > 0 || n.x.foldedBefore > 0) {
		return int64(sglang.StageDecodeLoop.Info().Level)
	}
	if !n.seen || n.stage == sglang.StageUnknown {
		return Unknown
	}
	return int64(n.stage.Info().Level)
}

func (t *Trace) addFront(r *Request, i int32) {
	n := &t.nodes[i]
	if !n.seen {
		return
	}
	if th := n.thread(); th != nil && th.Process == sglang.ProcessEncoder && th.Failed {
		r.Failed, r.ErrorType = true, th.ErrorType
	}
	if n.kind != sglang.KindSlice {
		return
	}
	switch n.stage.Info().Process {
	case sglang.ProcessFrontEnd, sglang.ProcessDPController, sglang.ProcessEncoder:
		r.Timeline.Front = append(r.Timeline.Front, latency.Slice{Stage: n.stage, Start: n.start, End: n.end})
		r.EncoderSeen = r.EncoderSeen || n.stage == sglang.StageMMEncode
	}
}

// addFolded collects steps and decode_forward spans that have yet to leave.
func (t *Trace) addFolded(r *Request, tr *tree, i int32) {
	x := t.nodes[i].x
	if x == nil || x.left || x.payload == nil && (!x.folded || x.sum.Count() == 0) {
		return
	}
	r.Folded = append(r.Folded, FoldedSteps{
		DecodeForward: x.payload, Sum: x.sum, Primary: t.below(i, tr.primary),
	})
}

// below: node i is at or under the top, or is the place of a lost span that may be.
func (t *Trace) below(i, top int32) bool {
	for range maxDepth {
		if i == top {
			return true
		}
		p := t.find(t.nodes[i].parent)
		if p == 0 || t.nodes[i].kind == sglang.KindThread {
			break
		}
		i = p
	}
	return top != 0 && !t.nodes[i].seen && t.sameRanks(i, top)
}

func (t *Trace) sameRanks(place, top int32) bool {
	if t.nodes[place].x == nil || t.isThreadPlace(place) {
		return false
	}
	ranks, of := t.nodes[place].x.ranks, sglang.NoRanks
	if x := t.nodes[top].x; x != nil {
		of = x.ranks
		if x.thread != nil {
			of = x.thread.Ranks
		}
	}
	return ranks == sglang.NoRanks || ranks.TP == of.TP && ranks.PP == of.PP
}

// addMissed takes in slices whose parent slice was lost but whose rank is known.
func (t *Trace) addMissed(r *Request, tr *tree, i int32) {
	n := &t.nodes[i]
	if n.seen || n.kids == 0 || i == tr.primary || t.isThreadPlace(i) || !t.below(i, tr.primary) {
		return
	}
	for c := n.kids; c != 0; c = t.nodes[c].sibling {
		t.addSlice(r, c, sglang.StageUnknown, 0)
	}
}

func (t *Trace) addPrimary(r *Request, top int32) {
	n := &t.nodes[top]
	if n.x != nil && n.x.thread != nil {
		r.Timeline.ThreadSeen = true
		r.Timeline.Retracts = append(r.Timeline.Retracts, n.x.thread.Retracts...)
		r.Failed, r.ErrorType = n.x.thread.Failed, n.x.thread.ErrorType
	}
	for c := n.kids; c != 0; c = t.nodes[c].sibling {
		t.addSlice(r, c, sglang.StageUnknown, 0)
	}
	if n.x != nil && n.x.sum.Count() > 0 && (n.seen || t.isThreadPlace(top)) {
		t.addStepsAsDecode(r, n.x)
	}
}

// addStepsAsDecode stands in for decode_forward, which releases to 0.5.9 lack.
func (t *Trace) addStepsAsDecode(r *Request, x *extra) {
	start, end := x.sum.Extent()
	r.Timeline.MarkedEnds = x.sum.MarkedEnds()
	r.Timeline.Scheduler = append(r.Timeline.Scheduler,
		latency.Slice{Stage: sglang.StageDecodeForward, Start: start, End: end})
}

func (t *Trace) addSlice(r *Request, i int32, in sglang.Stage, depth int) {
	n := &t.nodes[i]
	if depth > maxDepth || !n.seen || n.kind != sglang.KindSlice {
		return
	}
	r.Timeline.Scheduler = append(r.Timeline.Scheduler,
		latency.Slice{Stage: n.stage, In: in, Start: n.start, End: n.end})
	if n.x != nil {
		r.Timeline.Retracts = append(r.Timeline.Retracts, n.x.retracts...)
		if n.stage == sglang.StageDecodeForward {
			r.Timeline.MarkedEnds = n.x.sum.MarkedEnds()
		}
	}
	for c := n.kids; c != 0; c = t.nodes[c].sibling {
		t.addSlice(r, c, n.stage, depth+1)
	}
}
