// Copyright The otelcol-sglang Authors
// SPDX-License-Identifier: Apache-2.0

package genaiprocessor // import "github.com/otelcol-sglang/otelcol-sglang/processor/genaiprocessor"

import (
	"time"

	"github.com/otelcol-sglang/otelcol-sglang/internal/sglang"
	"github.com/otelcol-sglang/otelcol-sglang/processor/genaiprocessor/internal/assembly"
	"github.com/otelcol-sglang/otelcol-sglang/processor/genaiprocessor/internal/latency"
)

// outgoing are finished spans; they go to the outbox at once, for each time wakes it.
type outgoing []*held

func (o *outgoing) add(h *held) { *o = append(*o, h) }

// leave completes requests that left the shards; out is room for their spans, and
// returned for the next time. No lock is held.
func (p *genaiProcessor) leave(left []assembly.Left, now time.Time, out outgoing) outgoing {
	for i := range left {
		p.leaveOne(&left[i], now, &out)
	}
	p.out.put(out...)
	return out
}

func (p *genaiProcessor) leaveOne(l *assembly.Left, now time.Time, out *outgoing) {
	if l.Request == nil {
		p.leaveWithoutRoot(l, out)
		return
	}
	defer l.Request.Free()
	if l.Request.Root.Done {
		p.putFolded(l.Request.Folded, nil, latency.Unknown, out)
		return
	}
	if l.Why != "" {
		p.tel.early.add(string(l.Why), 1)
	}
	p.finish(l.Request, now, out)
}

func (p *genaiProcessor) leaveWithoutRoot(l *assembly.Left, out *outgoing) {
	if l.Why == assembly.WhyNoRoot && len(l.Folded) == 0 {
		p.tel.noRoot.add(1)
		return
	}
	p.tel.early.add(string(l.Why), int64(max(1, len(l.Folded))))
	p.putFolded(l.Folded, nil, latency.Unknown, out)
}

// finish derives a request's latencies and sends its held spans on; the halves
// of disaggregated requests wait for each other.
func (p *genaiProcessor) finish(q *assembly.Request, now time.Time, out *outgoing) {
	root := q.Root.Payload.(*rootSpan)
	facts := root.facts(q)
	q.Timeline.Facts = facts
	result := latency.Derive(&q.Timeline, root.reported)
	for _, r := range result.Refused {
		p.tel.refusal(r)
	}
	if result.Suspect && !root.reported.Trusted {
		p.tel.suspect.add(1)
	}
	p.countRoot(root, q, facts, &result)
	p.writeRoot(root, q, facts, &result)
	p.putFolded(q.Folded, root, facts.OutputTokens, out)
	if root.role == sglang.RolePrefill || root.role == sglang.RoleDecode {
		p.offerHalf(root, q, &result, now, out)
		return
	}
	out.add(&root.held)
}

// putFolded writes summaries and sends the decode_forward spans on. Steps whose
// decode_forward never came stand on the root, if they are the primary's.
func (p *genaiProcessor) putFolded(folded []assembly.FoldedSteps, root *rootSpan, output int64, out *outgoing) {
	for _, f := range folded {
		h, ok := f.DecodeForward.(*held)
		switch {
		case ok:
			p.writeSteps(h.span(), f.Sum, output)
			out.add(h)
		case root != nil && f.Primary:
			p.writeSteps(root.span(), f.Sum, output)
		default:
			p.tel.lostSteps.add("no_decode_forward", int64(f.Sum.Count()))
		}
	}
}
