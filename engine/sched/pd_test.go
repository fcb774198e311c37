// Copyright The otelcol-sglang Authors
// SPDX-License-Identifier: Apache-2.0

package sched

import (
	"fmt"
	"net/http"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"github.com/otelcol-sglang/otelcol-sglang/engine/args"
	"github.com/otelcol-sglang/otelcol-sglang/engine/clock"
	"github.com/otelcol-sglang/otelcol-sglang/engine/disagg"
	"github.com/otelcol-sglang/otelcol-sglang/engine/ledger"
	"github.com/otelcol-sglang/otelcol-sglang/internal/sglang"
)

// pair is a prefill and a decode engine on one loop.
type pair struct {
	loop            *clock.Loop
	prefill, decode *rig
}

func newPair(t tb, opts ...option) *pair {
	loop := clock.NewVirtual(time.Unix(1000, 0))
	p, d := disagg.Pair(loop, 200*time.Microsecond)
	half := func(role string, l disagg.Link) *rig {
		all := append([]option{func(a *args.Args, c *Config) {
			a.DisaggregationMode = role
			c.Hub = disagg.NewHub(loop, l)
		}}, opts...)
		return newRigOn(t, loop, all...)
	}
	return &pair{loop: loop, prefill: half(args.Prefill, p), decode: half(args.Decode, d)}
}

// send makes both halves of a request; the decode half comes later by lag.
func (p *pair) send(at, lag time.Duration, prompt, out int) (*ledger.Request, *ledger.Request) {
	a, b := p.prefill.request(prompt, out), p.decode.request(prompt, out)
	room := uint64(1000 + len(p.prefill.sent))
	a.BootstrapRoom, b.BootstrapRoom = room, room
	p.prefill.at(at, a)
	p.decode.at(at+lag, b)
	return a, b
}

func (p *pair) run() {
	for end := p.loop.Now() + time.Minute; p.loop.Now() < end; {
		if p.prefill.Idle() && p.decode.Idle() && p.prefill.future()+p.decode.future() == 0 {
			break
		}
		p.step()
	}
	p.loop.RunUntil(p.loop.Now() + 2*releaseTimeout)
	p.prefill.settled()
	p.decode.settled()
}

func (p *pair) step() {
	p.loop.RunUntil(p.loop.Now() + checkEvery + p.loop.Now()/20)
	require.NoError(p.prefill.t, p.prefill.Check())
	require.NoError(p.decode.t, p.decode.Check())
}

// As in the capture traces-pd-prefill-tp2-decode-tp2.
func TestStoryPD(t *testing.T) {
	p := newPair(t)
	a, b := p.send(time.Millisecond, 2*time.Millisecond, 600, 3)
	p.run()
	assert.Equal(t, []string{
		"prefill_prepare", "prefill_bootstrap", "prefill_waiting", "+prefill_forward", "prefill of 1", "-prefill_forward",
		"prefill_transfer_kv_cache", "end",
	}, p.prefill.story(a))
	assert.Equal(t, []string{
		"decode_prepare", "decode_bootstrap", "decode_transferred", "decode_waiting", "+decode_forward", "prebuilt of 1",
		"decode of 1", "fake_output", "decode of 1", "decode_loop 0", "decode of 1", "decode_loop 1", "-decode_forward", "end",
	}, p.decode.story(b))
	assert.Len(t, a.Output, 1)
	assert.Len(t, b.Output, 3)
	assert.Equal(t, a.Output[0], b.Output[0], "the first token is the prefill node's")
	assert.Equal(t, ledger.FinishLength, a.Finish)

	require.Len(t, p.prefill.rec.transfers, 1)
	tr := p.prefill.rec.transfers[0]
	assert.Positive(t, tr.Bootstrap)
	assert.Positive(t, tr.Bytes)
	assert.GreaterOrEqual(t, tr.Latency, transferLatency+time.Duration(float64(tr.Bytes)/transferBandwidth*1e9))
	require.Len(t, p.decode.rec.transfers, 1)
	assert.Equal(t, ledger.Unset, p.decode.rec.transfers[0].Latency, "bootstrap alone is observed on both")
	// Stages of per_stage_req_latency_seconds, as in the captured pages.
	assert.Equal(t, map[sglang.Stage]int{
		sglang.StagePrefillBootstrap: 1, sglang.StagePrefillForward: 1, sglang.StagePrefillTransferKVCache: 1,
	}, p.prefill.rec.stages)
	assert.Equal(t, map[sglang.Stage]int{
		sglang.StageDecodePrepare: 1, sglang.StageDecodeBootstrap: 1, sglang.StageDecodeTransferred: 1,
		sglang.StageDecodeWaiting: 1, sglang.StageFakeOutput: 1,
	}, p.decode.rec.stages)
	for _, s := range p.prefill.rec.reports {
		assert.InDelta(t, -1, s.Utilization, 0, "none on a prefill node")
	}
}

// The decode node may be first, by far.
func TestPDDecodeFirst(t *testing.T) {
	p := newPair(t)
	a, b := p.send(time.Second, -900*time.Millisecond, 100, 2)
	p.run()
	assert.Equal(t, ledger.FinishLength, b.Finish)
	assert.Less(t, a.Sched.BootstrapDone-a.Sched.BootstrapStart, 5*time.Millisecond)
	assert.Greater(t, b.Sched.TransferDone-b.Sched.TransferStart, 800*time.Millisecond)
}

func TestPDProbeHasNoRoom(t *testing.T) {
	p := newPair(t)
	r := p.prefill.at(0, p.prefill.request(4, 1))
	q := p.decode.at(0, p.decode.request(4, 1))
	p.run()
	assert.Equal(t, ledger.FinishLength, r.Finish)
	assert.Equal(t, ledger.FinishLength, q.Finish)
	assert.Empty(t, p.prefill.rec.transfers)
}

// A transfer that fails ends both halves, each with its count, and frees both pools.
func TestPDTransferFails(t *testing.T) {
	p := newPair(t)
	p.prefill.SetTransfer(1, 1)
	a, b := p.send(0, 0, 600, 5)
	p.run()
	for _, g := range []*rig{p.prefill, p.decode} {
		assert.Equal(t, map[string]int{"transfer": 1}, g.rec.failures)
	}
	for _, r := range []*ledger.Request{a, b} {
		assert.Equal(t, ledger.FinishAbort, r.Finish)
		assert.Equal(t, 500, r.AbortStatus)
		assert.NotEmpty(t, r.AbortMessage)
	}
	assert.False(t, p.prefill.dropped[a], "through the output path")
}

// The KV of a chunk moves while the next is computed; all of it is counted, from when
// the first was handed over.
func TestPDSendsChunkByChunk(t *testing.T) {
	play := func(chunk int) (a *ledger.Request, tr ledger.Transfer, g *rig) {
		p := newPair(t, with(func(a *args.Args) {
			a.EnableTrace, a.TraceModules = true, []string{sglang.TraceModuleRequest, sglang.TraceModuleKV}
			a.ChunkedPrefillSize = chunk
		}))
		p.prefill.SetTransfer(5, 0)
		a, b := p.send(0, 0, 4000, 3)
		p.run()
		require.Equal(t, ledger.FinishLength, b.Finish)
		require.Len(t, p.prefill.rec.transfers, 1)
		return a, p.prefill.rec.transfers[0], p.prefill
	}
	whole, once, _ := play(-1)
	parts, often, g := play(1000)
	last := func(r *ledger.Request) time.Duration { return r.Sched.TransferDone - r.Sched.TransferStart }
	assert.Less(t, last(parts), last(whole)/2, "only the last chunk is left")
	assert.Equal(t, once.Bytes, often.Bytes)
	assert.Greater(t, often.Latency, last(parts))
	assert.GreaterOrEqual(t, often.Latency, time.Duration(5*float64(often.Bytes)/transferBandwidth*1e9), "none is faster than the connection")
	story := g.story(parts)
	for _, s := range []string{"mooncake_send", "+mooncake_worker_send", "mooncake_worker_send_session", "-mooncake_worker_send"} {
		assert.Equal(t, 4, count1(story, s), s)
	}
}

// What fails has moved, and is told as such: a transfer, and a thread that ends with
// the error.
func TestPDFailedTransferIsTold(t *testing.T) {
	p := newPair(t, with(func(a *args.Args) {
		a.EnableTrace, a.TraceModules = true, []string{sglang.TraceModuleRequest, sglang.TraceModuleKV}
	}))
	p.prefill.SetTransfer(1, 1)
	a, _ := p.send(0, 0, 600, 5)
	p.run()
	story := p.prefill.story(a)
	assert.Equal(t, []string{
		"-prefill_forward", "mooncake_send", "+mooncake_worker_send", "mooncake_worker_send_session", "-mooncake_worker_send", "end",
	}, story[len(story)-6:])
	assert.Equal(t, http.StatusInternalServerError, a.AbortStatus)
}

// A prefill half whose decode half never comes.
func TestPDBootstrapTimesOut(t *testing.T) {
	p := newPair(t)
	r := p.prefill.request(100, 1)
	r.BootstrapRoom = 9
	p.prefill.at(0, r)
	p.loop.RunUntil(bootstrapTimeout + time.Second)
	p.prefill.settled()
	assert.Equal(t, map[string]int{"bootstrap": 1}, p.prefill.rec.failures)
	assert.Equal(t, []string{"prefill_prepare", "end"}, p.prefill.story(r))
}

// A slow transfer is felt in the transfer alone.
func TestPDSlowTransfer(t *testing.T) {
	times := func(slower float64) (transfer, forward time.Duration) {
		p := newPair(t)
		p.prefill.SetTransfer(slower, 0)
		a, _ := p.send(0, 0, 900, 2)
		p.run()
		return a.Sched.TransferDone - a.Sched.TransferStart, a.Sched.PrefillDone - a.Sched.FirstForward
	}
	t1, f1 := times(1)
	t10, f10 := times(10)
	assert.InDelta(t, 10, t10.Seconds()/t1.Seconds(), 1)
	assert.Equal(t, f1, f10)
}

// An abort while KV may still be written keeps the memory until the prefill node is
// known to write no more.
func TestPDDeferredRelease(t *testing.T) {
	p := newPair(t)
	p.prefill.SetTransfer(200, 0)
	_, b := p.send(0, 0, 900, 5)
	var held *ledger.Snapshot
	p.loop.At(100*time.Millisecond, func() { p.decode.Abort(b) })
	p.loop.At(100*time.Millisecond+250*time.Microsecond, func() { held = p.decode.Snapshot() })
	p.run()
	assert.Equal(t, 1, held.PD.DeferredRelease)
	assert.Equal(t, 900, held.Full.Reserved)
	assert.Equal(t, map[string]int{sglang.ReleaseDrained: 1}, p.decode.rec.released)
}

// A short pool makes decode requests wait in the prealloc queue, not fail.
func TestPDPreallocWaitsForRoom(t *testing.T) {
	p := newPair(t, with(func(a *args.Args) { a.MaxTotalTokens = 2000 }))
	for i := range 6 {
		p.send(time.Duration(i)*time.Millisecond, 0, 600, 30)
	}
	most := 0
	for range 40 {
		p.step()
		most = max(most, p.decode.Snapshot().PD.Prealloc.Total)
	}
	p.run()
	assert.GreaterOrEqual(t, most, 3)
	for _, r := range p.decode.sent {
		assert.Equal(t, ledger.FinishLength, r.Finish)
	}
}

func TestPDInvariants(t *testing.T) {
	rapid.Check(t, func(rt *rapid.T) {
		p := newPair(rt, with(func(a *args.Args) {
			a.EnableTrace, a.TraceModules = true, []string{sglang.TraceModuleRequest, sglang.TraceModuleKV}
			a.PageSize = rapid.SampledFrom([]int{1, 16}).Draw(rt, "page")
			a.MaxTotalTokens = rapid.SampledFrom([]int{1600, 20000}).Draw(rt, "pool")
			a.MaxRunningRequests = rapid.SampledFrom([]int{2, 64}).Draw(rt, "running")
			a.ChunkedPrefillSize = rapid.SampledFrom([]int{128, 8192}).Draw(rt, "chunk")
			a.DisableOverlapSchedule = rapid.Bool().Draw(rt, "nooverlap")
			a.SpeculativeAlgorithm = rapid.SampledFrom([]string{"", "EAGLE"}).Draw(rt, "spec")
		}))
		p.prefill.SetTransfer(rapid.SampledFrom([]float64{1, 50}).Draw(rt, "slower"), rapid.SampledFrom([]float64{0, 0.2}).Draw(rt, "failing"))
		ms := func(name string, most int) time.Duration {
			return time.Duration(rapid.IntRange(0, most).Draw(rt, name)) * time.Millisecond
		}
		for range rapid.IntRange(1, 15).Draw(rt, "n") {
			a, b := p.send(ms("at", 300)+20*time.Millisecond, ms("lag", 40)-20*time.Millisecond,
				rapid.IntRange(1, 700).Draw(rt, "prompt"), rapid.IntRange(1, 200).Draw(rt, "out"))
			switch rapid.IntRange(0, 5).Draw(rt, "abort") {
			case 0:
				p.loop.At(ms("when", 600), func() { p.prefill.Abort(a) })
			case 1:
				p.loop.At(ms("when", 600), func() { p.decode.Abort(b) })
			}
		}
		p.run()
		p.prefill.checkWall()
		p.decode.checkWall()
		for i, a := range p.prefill.sent {
			p.prefill.checkSpans(a)
			require.LessOrEqual(rt, len(a.Output), 1)
			b := p.decode.sent[i]
			p.decode.checkSpans(b)
			if b.Finish != ledger.FinishAbort {
				require.Len(rt, b.Output, b.OutputLen, fmt.Sprint(b.Sched))
				require.Equal(rt, a.Output, b.Output[:1])
			}
		}
	})
}
