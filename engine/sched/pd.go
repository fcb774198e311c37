// Copyright The otelcol-sglang Authors
// SPDX-License-Identifier: Apache-2.0

package sched // import "github.com/otelcol-sglang/otelcol-sglang/engine/sched"

import (
	"fmt"
	"net/http"
	"time"

	"github.com/otelcol-sglang/otelcol-sglang/engine/disagg"
	"github.com/otelcol-sglang/otelcol-sglang/engine/ledger"
	"github.com/otelcol-sglang/otelcol-sglang/internal/sglang"
)

const (
	// transferBandwidth of one rank: a 400 Gbit/s adapter, as it is reached.
	transferBandwidth = 40e9
	transferLatency   = 2 * time.Millisecond
	handshake         = 12 * time.Millisecond
	bootstrapTimeout  = 300 * time.Second
	waitTimeout       = 300 * time.Second
	releaseTimeout    = 60 * time.Second
	// reservedDecode is --num-reserved-decode-tokens: what is kept for each request
	// of a decode node that has its KV or will get it.
	reservedDecode = 512
	// resumeRoom per running request keeps a resumed one from being retracted at once.
	resumeRoom = 20
)

// pdNode are the queues of PD disaggregation; all nil on a unified engine.
type pdNode struct {
	prefill *disagg.Prefill
	decode  *disagg.Decode
}

func newPD(s *Scheduler) pdNode {
	switch {
	case s.prefillNode():
		return pdNode{prefill: disagg.NewPrefill(disagg.PrefillConfig{
			Loop: s.Loop, Hub: s.Hub, Bandwidth: transferBandwidth, Latency: transferLatency,
			BootstrapTimeout: bootstrapTimeout, Seed: s.Args.Seed,
			Ready:  func(r *ledger.Request) { s.signal(workOf(r), (*Scheduler).bootstrapped) },
			Moved:  func(r *ledger.Request, from, moving time.Duration) { s.traceTransfer(workOf(r), from, moving) },
			Sent:   func(r *ledger.Request) { s.signal(workOf(r), sentAt(s.Loop.Now())) },
			Failed: func(r *ledger.Request, p disagg.Phase) { s.signal(workOf(r), failedIn(p)) },
		})}
	case s.decodeNode():
		return pdNode{decode: disagg.NewDecode(disagg.DecodeConfig{
			Loop: s.Loop, Hub: s.Hub, Memory: s.Memory, PageSize: max(s.Args.PageSize, 1),
			Handshake: handshake, WaitTimeout: waitTimeout, ReleaseTimeout: releaseTimeout,
			Known:     func(*ledger.Request) { s.wake() },
			Allocated: func(r *ledger.Request) { s.allocated(workOf(r)) },
			Arrived: func(r *ledger.Request, first int32, cached int) {
				s.signal(workOf(r), arrivedWith(first, cached))
			},
			Failed:   func(r *ledger.Request, p disagg.Phase) { s.signal(workOf(r), failedIn(p)) },
			Released: s.deferredRelease,
		})}
	}
	return pdNode{}
}

func workOf(r *ledger.Request) *work { return r.Work.(*work) }

func (n *pdNode) on() bool { return n.prefill != nil || n.decode != nil }

// holding: transfers have memory that requests will use or give back.
func (n *pdNode) holding() bool { return n.decode != nil && n.decode.Reserved() > 0 }

// add puts a request that was read into the node's first queue.
func (n *pdNode) add(s *Scheduler, w *work) {
	at := s.reading(s.Loop.Now())
	s.move(w, statePD)
	w.pdFrom = at
	w.r.Sched.BootstrapStart = at.At
	if n.prefill != nil {
		s.slice(w.r, sglang.StagePrefillPrepare, w.received, at)
		n.prefill.Add(w.r)
		return
	}
	w.prebuilt = true
	s.slice(w.r, sglang.StageDecodePrepare, w.received, at)
	s.stageLatency(sglang.StageDecodePrepare, w.received, at)
	n.decode.Add(w.r)
}

// part tells the decode node of a request that ends on the prefill node before its
// KV was sent.
func (n *pdNode) part(w *work) {
	if n.prefill != nil && !w.parted {
		w.parted = true
		n.prefill.Drop(w.r)
	}
}

// pump moves what can be moved in each round.
func (n *pdNode) pump(s *Scheduler) {
	if n.decode == nil || s.paused {
		return
	}
	n.decode.Allocate(s.mayPrealloc)
}

// mayPrealloc keeps room for the growth of those who are here; one that is alone
// may have all.
func (s *Scheduler) mayPrealloc(tokens int) bool {
	_, transfer, _ := s.pd.decode.Lengths()
	others := s.runningNow() + len(s.queue) + transfer
	if others >= 2*s.runningLimit()*len(s.slots) {
		return false
	}
	return others == 0 || s.Memory.Room()-reservedDecode*others >= tokens
}

// bootstrapped (prefill node): the decode node has room.
func (s *Scheduler) bootstrapped(w *work) {
	if w.state != statePD {
		return
	}
	at := s.reading(s.Loop.Now())
	w.r.Sched.BootstrapDone = at.At
	s.slice(w.r, sglang.StagePrefillBootstrap, w.pdFrom, at)
	s.stageLatency(sglang.StagePrefillBootstrap, w.pdFrom, at)
	s.enqueue(w)
}

// send (prefill node) hands a request's KV to the transfer, which needs it locked.
func (n *pdNode) send(s *Scheduler, w *work, at ledger.Reading) {
	if w.aborted {
		s.finish(w, ledger.FinishAbort, at)
		return
	}
	s.move(w, statePD)
	w.pdFrom = at
	w.r.Sched.TransferStart = at.At
	if w.sendFrom == 0 {
		w.sendFrom = at.At
	}
	// States and the window's KV go with the last part.
	bytes := s.Cost.RequestBytes(w.prompt()) - s.Cost.KVBytes(w.parts)
	n.prefill.Send(w.r, bytes, w.prompt(), w.ids[len(w.ids)-1])
}

// sendPart (prefill node) hands over the KV that a chunk made, of tokens up to filled,
// while the next is computed.
func (n *pdNode) sendPart(s *Scheduler, w *work, filled int, at ledger.Reading) {
	if n.prefill == nil || filled <= w.parts {
		return
	}
	if w.sendFrom == 0 {
		w.sendFrom = at.At
	}
	n.prefill.SendPart(w.r, s.Cost.KVBytes(filled)-s.Cost.KVBytes(w.parts))
	w.parts = filled
}

func sentAt(at time.Duration) func(*Scheduler, *work) {
	return func(s *Scheduler, w *work) { s.sent(w, at-w.sendFrom) }
}

// Parts of a transfer as Mooncake's module sees them: putting it into a worker's queue,
// and what the worker does before the session sends.
const (
	costSend    = 650 * time.Microsecond
	sendWorks   = 150 * time.Microsecond
	sendSession = 60 * time.Microsecond
)

// traceTransfer tells of a part that was handed over at a time and moved for so long
// until now, where the module of transfers is on. What fails has moved, too; it is told
// when the request ends.
func (s *Scheduler) traceTransfer(w *work, handed, moving time.Duration) {
	if !s.Args.TracesTransfers() || w.state == stateEnded {
		return
	}
	from, end := s.reading(handed), s.reading(s.Loop.Now())
	s.slice(w.r, sglang.StageMooncakeSend, from, after(from, costSend))
	begin := s.reading(max(end.At-moving, handed+costSend) + sendWorks)
	s.open(w.r, sglang.StageMooncakeWorkerSend, begin)
	s.slice(w.r, sglang.StageMooncakeWorkerSendSession, after(begin, sendSession), end)
	s.close(w.r, sglang.StageMooncakeWorkerSend, after(end, sendSession))
}

func after(r ledger.Reading, d time.Duration) ledger.Reading {
	r.At += d
	return r
}

// sent (prefill node): the decode node has the KV, so long after its first part was
// handed over.
func (s *Scheduler) sent(w *work, latency time.Duration) {
	if w.state != statePD {
		return
	}
	r := w.r
	w.parted = true
	at := s.reading(s.Loop.Now())
	r.Sched.TransferDone = at.At
	s.slice(r, sglang.StagePrefillTransferKVCache, w.pdFrom, at)
	s.stageLatency(sglang.StagePrefillTransferKVCache, w.pdFrom, at)
	if r.BootstrapRoom != 0 {
		s.transferred(&ledger.Transfer{
			Bootstrap: ledger.Between(r.Sched.BootstrapStart, r.Sched.BootstrapDone),
			Alloc:     ledger.Between(r.Sched.BootstrapDone, r.Sched.FirstQueued),
			Latency:   latency, Bytes: s.Cost.RequestBytes(w.prompt()),
		})
	}
	s.finish(w, ledger.FinishLength, at)
}

func (s *Scheduler) transferred(t *ledger.Transfer) {
	for _, c := range s.Collectors {
		c.KVTransfer(t)
	}
}

// allocated (decode node): room is reserved, the transfer may come.
func (s *Scheduler) allocated(w *work) {
	at := s.reading(s.Loop.Now())
	w.r.Sched.BootstrapDone = at.At
	s.slice(w.r, sglang.StageDecodeBootstrap, w.pdFrom, at)
	s.stageLatency(sglang.StageDecodeBootstrap, w.pdFrom, at)
	if w.r.BootstrapRoom != 0 {
		s.transferred(&ledger.Transfer{Bootstrap: at.At - w.pdFrom.At, Alloc: ledger.Unset, Latency: ledger.Unset})
	}
	w.pdFrom = at
	w.r.Sched.TransferStart = at.At
}

func arrivedWith(first int32, cached int) func(*Scheduler, *work) {
	return func(s *Scheduler, w *work) { s.arrived(w, first, cached) }
}

// arrived (decode node): the KV is there; the request waits for a place in the
// batch.
func (s *Scheduler) arrived(w *work, first int32, cached int) {
	if w.state != statePD {
		return
	}
	at := s.reading(s.Loop.Now())
	w.reserved = true
	w.firstToken = first
	w.r.Cached.Device = cached
	w.r.Sched.TransferDone = at.At
	s.slice(w.r, sglang.StageDecodeTransferred, w.pdFrom, at)
	s.stageLatency(sglang.StageDecodeTransferred, w.pdFrom, at)
	s.enqueue(w)
}

func failedIn(p disagg.Phase) func(*Scheduler, *work) {
	return func(s *Scheduler, w *work) { s.pdFailed(w, p) }
}

// pdFailed ends a request whose room failed, through the output path: the client
// gets an error, and the front end takes its readings.
func (s *Scheduler) pdFailed(w *work, p disagg.Phase) {
	w.parted = true
	if w.state == stateRunning || w.state == stateChunked {
		w.aborted = true // the peer gave up while it ran
		return
	}
	if w.state == stateEnded {
		return
	}
	if p == disagg.PhasePeer && w.state == statePD && w.holding != nil {
		p = disagg.PhaseTransfer
	}
	what := "transfer"
	for _, c := range s.Collectors {
		if p == disagg.PhaseTransfer {
			c.TransferFailed()
			continue
		}
		c.BootstrapFailed()
	}
	if p != disagg.PhaseTransfer {
		what = "bootstrap"
	}
	r := w.r
	r.AbortStatus = http.StatusInternalServerError
	r.AbortMessage = fmt.Sprintf("%s %s failed for request rank=%d decode_prefill_room=%d", s.Args.DisaggregationMode, what, s.Places[0].TPRanks[0], r.BootstrapRoom)
	s.failWaiting(w)
}

func (s *Scheduler) failWaiting(w *work) {
	if w.state == stateQueued {
		s.dequeue(w)
	}
	s.release(w)
	w.r.Finish = ledger.FinishAbort
	w.epoch++
	s.end(w)
	s.endThread(w.r, s.reading(s.Loop.Now()), false)
	s.output(w)
}

// abort gives up a request in a PD queue, at the client's wish.
func (n *pdNode) abort(s *Scheduler, w *work) {
	if n.decode != nil {
		n.decode.Drop(w.r)
	}
	w.r.AbortMessage = "Aborted by AbortReq."
	s.failWaiting(w)
}

func (s *Scheduler) deferredRelease(outcome string, held time.Duration) {
	for _, c := range s.Collectors {
		c.DeferredRelease(outcome, held)
	}
	s.wake()
}

// prebuiltBatch (decode node) takes requests whose KV is there, or can be brought
// back after a retraction, into the running batch.
func (s *Scheduler) prebuiltBatch(i int) *batch {
	if len(s.queue) == 0 {
		return nil
	}
	s.order()
	sl := &s.slots[i]
	b := s.newBatch(modePrebuilt, i)
	n := 0
	for ; n < len(s.queue) && len(sl.running) < s.runningLimit(); n++ {
		w := s.queue[n]
		if s.LoRA != nil && !s.LoRA.Fits(w.r.LoRA) || !s.settle(w) {
			break
		}
		s.lockAdapter(w)
		s.move(w, stateRunning)
		w.slot = i
		b.entries = append(b.entries, entry{w: w, epoch: w.epoch})
		sl.running = append(sl.running, w)
	}
	s.queue = s.queue[:copy(s.queue, s.queue[n:])]
	if len(b.entries) == 0 {
		s.recycle(b)
		return nil
	}
	b.Size, b.Mode = len(b.entries), sglang.ForwardPrebuilt
	return b
}

// settle gives a request the memory of its KV: what was reserved for it, or anew
// after a retraction, when its KV comes back from the host's memory.
func (s *Scheduler) settle(w *work) bool {
	tokens := w.ids
	if w.outputs() > 0 {
		tokens = w.ids[:len(w.ids)-1]
	}
	reserved := w.reserved
	if reserved {
		s.unreserve(w)
	} else if n := s.runningNow(); n > 0 && s.Memory.Room() < len(tokens)+resumeRoom*(n+1) {
		return false
	}
	p := s.Memory.Match(w.r, tokens)
	h, ok := s.Memory.Begin(w.r, tokens, p, len(tokens)-p.Total())
	if !ok {
		w.reserved = reserved && s.pd.decode.Unclaim(w.r)
		return false
	}
	w.holding, w.filled, w.slots, w.target = h, len(tokens), len(tokens), len(tokens)
	return true
}

func (s *Scheduler) unreserve(w *work) {
	if w.reserved {
		w.reserved = false
		s.pd.decode.Claim(w.r)
	}
}

func (s *Scheduler) beginPrebuilt(w *work, at ledger.Reading) {
	s.leaveQueue(w, at)
	w.forwardFrom = at
	if !w.decodeOpen {
		s.openDecode(w, at)
	}
}

// prebuiltResult: the first token, which the prefill node made, goes out.
func (s *Scheduler) prebuiltResult(b *batch, at ledger.Reading) {
	for i := range b.entries {
		e := &b.entries[i]
		if e.stale() {
			continue
		}
		w := e.w
		w.loopFrom = at
		if w.outputs() > 0 {
			continue // resumed
		}
		s.slice(w.r, sglang.StageFakeOutput, w.forwardFrom, at)
		s.stageLatency(sglang.StageFakeOutput, w.forwardFrom, at)
		w.r.Sched.PrefillDone = at.At
		w.append(1)
		if w.firstToken != 0 {
			w.ids[len(w.ids)-1] = w.firstToken
		}
		s.afterTokens(w, at)
	}
}

// queues are the node's, as a report shows them; nil on a unified engine.
func (n *pdNode) queues(s *Scheduler) *ledger.PDQueues {
	if !n.on() {
		return nil
	}
	q := &ledger.PDQueues{}
	if n.prefill != nil {
		b, f := n.prefill.Queues()
		q.Bootstrap, q.Inflight = s.countRequests(b), s.countRequests(f)
		return q
	}
	a, t, deferred := n.decode.Queues()
	q.Prealloc, q.Transfer, q.DeferredRelease = s.countRequests(a), s.countRequests(t), deferred
	full, swa, _ := s.Memory.Books()
	if full.Capacity > 0 {
		q.PreallocUsage = float64(n.decode.Reserved()) / float64(full.Capacity)
	}
	if swa.Capacity > 0 && n.decode.Reserved() > 0 {
		q.PreallocSWAUsage = float64(swa.Reserved) / float64(swa.Capacity)
	}
	return q
}

func (s *Scheduler) countRequests(rs []*ledger.Request) ledger.QueueCount {
	c := ledger.QueueCount{Total: len(rs)}
	for _, r := range rs {
		s.countPriority(&c, workOf(r))
	}
	return c
}
