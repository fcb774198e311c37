// Copyright The otelcol-sglang Authors
// SPDX-License-Identifier: Apache-2.0

package genaiprocessor // import "github.com/otelcol-sglang/otelcol-sglang/processor/genaiprocessor"

import (
	"slices"
	"time"

	"go.opentelemetry.io/collector/pdata/pcommon"

	"github.com/otelcol-sglang/otelcol-sglang/internal/sglang"
	"github.com/otelcol-sglang/otelcol-sglang/processor/genaiprocessor/internal/assembly"
	"github.com/otelcol-sglang/otelcol-sglang/processor/genaiprocessor/internal/latency"
	"github.com/otelcol-sglang/otelcol-sglang/processor/genaiprocessor/internal/pdjoin"
)

// halfValue is what the join needs of a half. root is nil once it left.
type halfValue struct {
	root   *rootSpan
	result latency.Result
}

// Outcomes of a half.
const (
	outcomeJoined      = "joined"
	outcomeUnjoined    = "unjoined"
	outcomeNotJoinable = "not_joinable"
)

func (p *genaiProcessor) offerHalf(
	root *rootSpan, q *assembly.Request, result *latency.Result, now time.Time, out *outgoing,
) {
	value := &halfValue{root: root, result: *result}
	value.result.Spans = slices.Clone(result.Spans) // the request goes
	h := &pdjoin.Half{
		Trace: q.Trace, Root: q.RootID, Decode: root.role == sglang.RoleDecode,
		Room: root.room, External: root.external,
		Bytes: halfBytes + spanBytes*len(result.Spans),
		Value: value,
	}
	switch {
	case !root.joinable():
		p.putAlone(root, outcomeNotJoinable, out)
		return
	case p.pdWait == 0:
		p.putAlone(root, outcomeUnjoined, out)
		return
	}
	p.joinMu.Lock()
	pair, kept := p.join.Offer(h, now)
	if pair == nil && kept {
		p.heldBytes.Add(int64(root.bytes + h.Bytes))
	}
	early := p.evictHalves(now)
	p.joinMu.Unlock()
	switch {
	case pair != nil:
		p.putPair(h, pair, out)
	case !kept:
		p.putAlone(root, outcomeUnjoined, out)
	}
	p.tel.early.add(string(assembly.WhyLimit), int64(len(early)))
	for _, root := range early {
		p.putAlone(root, outcomeUnjoined, out)
	}
}

// evictHalves lets the halves go that have waited longest, where too many wait
// or too much is held. Its caller holds joinMu.
func (p *genaiProcessor) evictHalves(now time.Time) []*rootSpan {
	var early []*rootSpan
	for p.join.Crowded() || p.heldBytes.Load() > p.maxBytes {
		if !p.join.Evict(now, func(h *pdjoin.Half) { early = append(early, p.retire(h)) }) {
			break
		}
	}
	return early
}

// retire takes the root of a half that waits for no pair any longer.
func (p *genaiProcessor) retire(h *pdjoin.Half) *rootSpan {
	v := h.Value.(*halfValue)
	root := v.root
	v.root = nil
	p.heldBytes.Add(-int64(root.bytes + h.Bytes))
	return root
}

func (p *genaiProcessor) putAlone(root *rootSpan, outcome string, out *outgoing) {
	root.span().Attributes().PutBool(sglang.AttrPDJoined, false)
	p.tel.pdHalves.add(outcome, 1)
	out.add(&root.held)
}

// putPair completes both halves. One that waited was taken out of the join, so
// that no one else has it.
func (p *genaiProcessor) putPair(fresh, waiting *pdjoin.Half, out *outgoing) {
	a, b := fresh.Value.(*halfValue), waiting.Value.(*halfValue)
	if waiting.Held {
		p.heldBytes.Add(-int64(b.root.bytes + waiting.Bytes))
	}
	decode, prefill := a, b
	if !fresh.Decode {
		decode, prefill = b, a
	}
	if decode.root != nil {
		latency.Join(&decode.result, &prefill.result)
		writeJoined(decode)
	}
	p.putJoined(a, waiting, out)
	p.putJoined(b, fresh, out)
}

// putJoined marks a half, links it to its peer and sends it on, unless it has left.
func (p *genaiProcessor) putJoined(v *halfValue, peer *pdjoin.Half, out *outgoing) {
	if v.root == nil {
		return
	}
	var spanID pcommon.SpanID
	putSpanID(&spanID, peer.Root)
	span := v.root.span()
	link := span.Links().AppendEmpty()
	link.SetTraceID(pcommon.TraceID(peer.Trace))
	link.SetSpanID(spanID)
	attrs := span.Attributes()
	attrs.PutBool(sglang.AttrPDJoined, true)
	attrs.PutStr(sglang.AttrPDPeerTraceID, pcommon.TraceID(peer.Trace).String())
	attrs.PutStr(sglang.AttrPDPeerSpanID, spanID.String())
	p.tel.pdHalves.add(outcomeJoined, 1)
	out.add(&v.root.held)
}

// writeJoined puts what only both halves know on the decode root.
func writeJoined(v *halfValue) {
	w := rootWriter{attrs: v.root.span().Attributes(), root: v.root, result: v.result}
	if !v.result.Queue.Known {
		w.attrs.Remove(sglang.AttrLatencyInQueue)
	}
	w.seconds(sglang.AttrLatencyTTFT, v.result.TTFT)
	w.seconds(sglang.AttrLatencyE2E, v.result.E2E)
	w.seconds(sglang.AttrLatencyInQueue, v.result.Queue)
	w.seconds(sglang.AttrFirstTokenAtScheduler, v.result.FirstTokenAtScheduler)
	w.seconds(sglang.AttrKVTransfer, v.result.KVTransfer)
	w.seconds(sglang.AttrBootstrap, v.result.Bootstrap)
	w.budget(true)
}

// expireHalves sends halves on whose other half did not come. Their numbers stay
// in the join for a while.
func (p *genaiProcessor) expireHalves(now time.Time, all bool) {
	var alone []*rootSpan
	p.joinMu.Lock()
	p.join.Expire(now, all, func(h *pdjoin.Half) { alone = append(alone, p.retire(h)) })
	p.joinMu.Unlock()
	out := make(outgoing, 0, len(alone))
	for _, root := range alone {
		p.putAlone(root, outcomeUnjoined, &out)
	}
	p.out.put(out...)
}
