// Copyright The otelcol-sglang Authors
// SPDX-License-Identifier: Apache-2.0

package trace // import "github.com/otelcol-sglang/otelcol-sglang/engine/trace"

import (
	"time"

	"go.opentelemetry.io/collector/pdata/pcommon"

	"github.com/otelcol-sglang/otelcol-sglang/engine/ledger"
	"github.com/otelcol-sglang/otelcol-sglang/internal/sglang"
)

// sender is the trace that Mooncake's module makes of one rank's transfer: a trace
// of its own, with a root that the rank exports.
type sender struct {
	tree
	room  uint64
	start int64
	// thread is the scheduler's, worker that of the transfer thread at work.
	thread, worker thread
}

// isTransfer tells whether a stage belongs to Mooncake's module.
func isTransfer(s sglang.Stage) bool {
	switch s {
	case sglang.StageMooncakeSend, sglang.StageMooncakeRecv,
		sglang.StageMooncakeWorkerSend, sglang.StageMooncakeWorkerSendSession, sglang.StageMooncakeWorkerRecv:
		return true
	}
	return false
}

// senderOf is nil where the module is off, or the request has no peer.
func (t *Tracer) senderOf(r *ledger.Request, l *lane, at time.Duration) *sender {
	if l.sender != nil || !t.transfers || t.cfg.Level == 0 || r.BootstrapRoom == 0 {
		return l.sender
	}
	s := &sender{room: r.BootstrapRoom, start: l.p.wall(at) - t.between(250, 700)}
	s.tree = tree{trace: t.traceID(), root: t.spanID(), level: t.cfg.Level}
	s.thread.begin(t, l.p, &s.tree, s.start, flagsLocal, link{})
	l.sender = s
	return s
}

// sendSlice is a stage of the sender's that is over. The module reads both clocks:
// a stage starts by the float one and ends by the integer one.
func (t *Tracer) sendSlice(r *ledger.Request, l *lane, stage sglang.Stage, from, to time.Duration) {
	s := t.senderOf(r, l, from)
	if s == nil {
		return
	}
	h := &s.thread
	if stage.Info().Process == sglang.ProcessTransfer {
		if stage == sglang.StageMooncakeWorkerSend {
			t.sendOpen(r, l, stage, from)
			t.sendClose(l, stage, to)
			return
		}
		h = &s.worker
	}
	h.add(slice{id: t.spanID(), stage: stage, start: l.p.float(from), end: l.p.wall(to)})
}

// sendOpen begins the work of a transfer thread on one chunk.
func (t *Tracer) sendOpen(r *ledger.Request, l *lane, stage sglang.Stage, from time.Duration) {
	s := t.senderOf(r, l, from)
	if s == nil {
		return
	}
	p := t.transferOf(l.p)
	s.worker.begin(t, p, &s.tree, p.wall(from)-t.between(60, 140), flagsLocal, link{s.thread.prev.to, flagsRemote})
	s.worker.push(slice{id: t.spanID(), stage: stage, start: p.wall(from)})
}

func (t *Tracer) sendClose(l *lane, stage sglang.Stage, to time.Duration) {
	if l.sender == nil || l.sender.worker.state != threadOpen {
		return
	}
	h := &l.sender.worker
	end := h.p.wall(to)
	h.pop(stage, end)
	h.finish(end, nil)
}

// sendEnd ends the sender's trace; its root's time is taken before the thread's. What
// ended the request before its KV arrived is the thread's failure.
func (t *Tracer) sendEnd(r *ledger.Request, l *lane, at time.Duration) {
	s := l.sender
	if s == nil || s.thread.state != threadOpen {
		return
	}
	end := max(s.start, l.p.wall(at))
	var failure []attr
	if r.Finish == ledger.FinishAbort && r.AbortMessage != "" {
		failure = []attr{textAttr(sglang.AttrAbortReason, r.AbortMessage)}
	}
	s.thread.finish(end+t.between(10, 20), failure)
	room := roomText(s.room)
	l.p.roots.put(&span{
		trace: s.trace, id: s.root, parent: pcommon.SpanID{}, flags: flagsLocal,
		name: sglang.RootNameSender + " Req " + prefix(room, 8), start: s.start, end: end,
		attrs: []attr{
			textAttr(sglang.AttrRID, room), textAttr(sglang.AttrModule, sglang.ModuleMooncake),
			textAttr(sglang.AttrBootstrapRoom, room),
		},
	})
}

// transferOf is the thread of a scheduler that moves KV.
func (t *Tracer) transferOf(p *proc) *proc {
	if p.transfer == nil {
		p.transfer = p.transferWorker(t.pid())
	}
	// It reads its process's clock.
	p.transfer.lag = p.lag
	return p.transfer
}
