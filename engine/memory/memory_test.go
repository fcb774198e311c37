// Copyright The otelcol-sglang Authors
// SPDX-License-Identifier: Apache-2.0

package memory

import (
	"slices"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/otelcol-sglang/otelcol-sglang/engine/args"
	"github.com/otelcol-sglang/otelcol-sglang/engine/clock"
	"github.com/otelcol-sglang/otelcol-sglang/engine/ledger"
)

// bench is a memory with what it tells.
type bench struct {
	*Memory
	t    *testing.T
	loop *clock.Loop
	book *book
	// quiet skips the checks while a test holds pages itself.
	quiet bool
}

func newBench(t *testing.T, s Sizes, set ...func(*args.Args)) *bench {
	t.Helper()
	a := args.Default()
	for _, f := range set {
		f(&a)
	}
	b := &bench{t: t, loop: clock.NewVirtual(time.Unix(0, 0)), book: &book{}}
	m, err := New(&a, s, b.loop, b.book, &b.book.storage)
	require.NoError(t, err)
	b.Memory = m
	t.Cleanup(func() {
		b.check()
		require.NoError(t, b.book.check())
	})
	return b
}

func (b *bench) check() {
	b.t.Helper()
	if !b.quiet {
		require.NoError(b.t, b.Check())
	}
}

func (b *bench) wait(d time.Duration) {
	b.loop.RunUntil(b.loop.Now() + d)
	b.check()
}

func request(set ...func(*ledger.Request)) *ledger.Request {
	r := ledger.NewRequest("r", ledger.KindChat)
	for _, f := range set {
		f(r)
	}
	return r
}

// begin starts a request on all of its tokens.
func (b *bench) begin(r *ledger.Request, tokens []int32) (ledger.Holding, ledger.Prefix) {
	b.t.Helper()
	p := b.Match(r, tokens)
	h, ok := b.Begin(r, tokens, p, len(tokens)-p.Device-p.Host-p.Storage)
	require.True(b.t, ok)
	b.check()
	return h, p
}

// serve takes a request all the way and returns what it hit.
func (b *bench) serve(tokens []int32) ledger.Prefix {
	b.t.Helper()
	h, p := b.begin(request(), tokens)
	b.Finish(h, tokens)
	b.check()
	return p
}

func seq(from, to int32) []int32 {
	var s []int32
	for i := from; i <= to; i++ {
		s = append(s, i)
	}
	return s
}

func pages(size int) func(*args.Args) { return func(a *args.Args) { a.PageSize = size } }

func TestIdentityThroughARequest(t *testing.T) {
	b := newBench(t, Sizes{Tokens: 160}, pages(16))
	full := func() ledger.Pool { f, _, _ := b.Books(); return f }

	h, _ := b.begin(request(), seq(1, 40))
	assert.Equal(t, ledger.Pool{Capacity: 160, Available: 112, Used: 48}, full(), "whole pages")
	require.True(t, b.Extend(h, 8))
	assert.Equal(t, 48, full().Used, "the last page had room")
	b.Cache(h, seq(1, 48))
	assert.Equal(t, 48, full().Used, "cached, and locked")
	require.True(t, b.Reserve(20))
	assert.Equal(t, ledger.Pool{Capacity: 160, Available: 80, Used: 48, Reserved: 32}, full())
	b.Finish(h, seq(1, 40))
	assert.Equal(t, ledger.Pool{Capacity: 160, Available: 80, Evictable: 48, Reserved: 32}, full())
	assert.Equal(t, 128, b.Room())
	b.Unreserve(20)
	b.Flush()
	assert.Equal(t, ledger.Pool{Capacity: 160, Available: 160}, full())
	assert.InDelta(t, 0, full().Usage(), 0)
}

func TestReservationsTakeFromEachPool(t *testing.T) {
	b := newBench(t, Sizes{Tokens: 1000, Window: 64, WindowTokens: 200, States: 2}, pages(4))
	require.True(t, b.Reserve(102))
	full, swa, mamba := b.Books()
	assert.Equal(t, [3]int{104, 64, 1}, [3]int{full.Reserved, swa.Reserved, mamba.Reserved})
	require.True(t, b.Reserve(10))
	assert.False(t, b.Reserve(10), "no third state")
	b.check()
	b.Unreserve(102)
	full, swa, mamba = b.Books()
	assert.Equal(t, [3]int{12, 12, 1}, [3]int{full.Reserved, swa.Reserved, mamba.Reserved})
}

func TestUnevenFinishKeepsWholePages(t *testing.T) {
	b := newBench(t, Sizes{Tokens: 160}, pages(16))
	h, _ := b.begin(request(), seq(1, 40))
	b.Finish(h, seq(1, 40))
	full, _, _ := b.Books()
	assert.Equal(t, 32, full.Evictable, "a page that is not full is not cached")
	assert.Equal(t, 128, full.Available)
}

func TestTheLastTokenIsComputed(t *testing.T) {
	b := newBench(t, Sizes{Tokens: 100})
	b.serve(seq(1, 10))
	assert.Equal(t, 9, b.Match(request(), seq(1, 10)).Device)
	assert.Equal(t, 10, b.Match(request(), seq(1, 11)).Device)
	assert.Equal(t, 0, b.Match(request(), seq(1, 1)).Device)
}

func TestNoRoomChangesNothing(t *testing.T) {
	b := newBench(t, Sizes{Tokens: 100})
	b.serve(seq(1, 30))
	h, _ := b.begin(request(), seq(101, 160))
	before, _, _ := b.Books()
	r := request()
	_, ok := b.Begin(r, seq(1, 80), b.Match(r, seq(1, 80)), 50)
	assert.False(t, ok)
	assert.False(t, b.Extend(h, 41))
	after, _, _ := b.Books()
	assert.Equal(t, before, after)
	assert.Zero(t, b.book.evictions)
	require.True(t, b.Extend(h, 40), "evicting what nobody holds")
	assert.Equal(t, 30, b.book.evicted)
	assert.Positive(t, b.Took())
	assert.Zero(t, b.Took())
}

func TestAStaleMatchIsRefused(t *testing.T) {
	b := newBench(t, Sizes{Tokens: 100})
	b.serve(seq(1, 30))
	r := request()
	p := b.Match(r, seq(1, 40))
	b.Flush()
	_, ok := b.Begin(r, seq(1, 40), p, 10)
	assert.False(t, ok)
}

func TestRetractionLosesPrivateTokensOnly(t *testing.T) {
	b := newBench(t, Sizes{Tokens: 100})
	h, _ := b.begin(request(), seq(1, 30))
	b.Cache(h, seq(1, 30))
	require.True(t, b.Extend(h, 20))
	assert.Equal(t, 20, b.Private(h), "allocation without the protected prefix")
	b.Release(h)
	full, _, _ := b.Books()
	assert.Equal(t, ledger.Pool{Capacity: 100, Available: 70, Evictable: 30}, full)
}

func TestTwoThatComputeTheSame(t *testing.T) {
	b := newBench(t, Sizes{Tokens: 100})
	one, _ := b.begin(request(), seq(1, 30))
	two, _ := b.begin(request(), seq(1, 30))
	full, _, _ := b.Books()
	assert.Equal(t, 60, full.Used)
	b.Cache(one, seq(1, 30))
	b.Cache(two, seq(1, 30))
	full, _, _ = b.Books()
	assert.Equal(t, 30, full.Used, "the second copy is freed")
	b.Finish(one, seq(1, 30))
	full, _, _ = b.Books()
	assert.Equal(t, 30, full.Used, "the other still holds it")
	b.Finish(two, seq(1, 30))
}

func TestAdaptersDoNotShare(t *testing.T) {
	b := newBench(t, Sizes{Tokens: 100})
	b.serve(seq(1, 30))
	assert.Zero(t, b.Match(request(func(r *ledger.Request) { r.LoRA = "a" }), seq(1, 40)).Device)
}

func TestWithoutRadixCache(t *testing.T) {
	b := newBench(t, Sizes{Tokens: 100}, func(a *args.Args) { a.DisableRadixCache = true })
	b.serve(seq(1, 30))
	assert.Zero(t, b.serve(seq(1, 30)).Device)
	full, _, _ := b.Books()
	assert.Equal(t, ledger.Pool{Capacity: 100, Available: 100}, full)
}

func TestWindowLeavesTokensBehind(t *testing.T) {
	b := newBench(t, Sizes{Tokens: 1000, Window: 8, WindowTokens: 100}, pages(4))
	h, _ := b.begin(request(), seq(1, 40))
	_, swa, _ := b.Books()
	assert.Equal(t, 40, swa.Used)
	require.True(t, b.Extend(h, 4))
	full, swa, _ := b.Books()
	assert.Equal(t, 44, full.Used)
	assert.Equal(t, 12, swa.Used, "a window, and what is new")
	b.Finish(h, seq(1, 44))
	full, swa, _ = b.Books()
	assert.Equal(t, 44, full.Evictable)
	assert.Equal(t, 12, swa.Evictable)
	assert.Equal(t, 40, b.Match(request(), seq(1, 44)).Device, "whole pages before the last token")
	assert.Equal(t, 100, b.Room(), "the pool with less room")
}

func TestLongDecodeNeedsNoMoreThanItsWindow(t *testing.T) {
	b := newBench(t, Sizes{Tokens: 1000, Window: 8, WindowTokens: 40}, pages(4))
	tokens := seq(1, 500)
	h, _ := b.begin(request(), tokens[:20])
	b.Cache(h, tokens[:20])
	for range 480 {
		require.True(t, b.Extend(h, 1))
	}
	b.check()
	_, swa, _ := b.Books()
	assert.LessOrEqual(t, swa.Used, 16)
	b.Finish(h, tokens)
}

func TestRingsCountNothingAsEvictable(t *testing.T) {
	b := newBench(t, Sizes{Tokens: 1000, Window: 16, WindowTokens: 64, WindowRings: true}, pages(4))
	h, _ := b.begin(request(), seq(1, 100))
	_, swa, _ := b.Books()
	assert.Equal(t, ledger.Pool{Capacity: 64, Available: 48, Used: 16}, swa)
	b.Finish(h, seq(1, 100))
	full, swa, _ := b.Books()
	assert.Equal(t, 100, full.Evictable)
	assert.Equal(t, ledger.Pool{Capacity: 64, Available: 64}, swa)
	assert.Equal(t, 84, b.Match(request(), seq(1, 200)).Device, "the last window is computed again")
	h, p := b.begin(request(), seq(1, 200))
	assert.Equal(t, 84, p.Device)
	b.Release(h)
}

func TestMambaStates(t *testing.T) {
	b := newBench(t, Sizes{Tokens: 1000, States: 3})
	mamba := func() ledger.Pool { _, _, m := b.Books(); return m }
	h, _ := b.begin(request(), seq(1, 20))
	assert.Equal(t, ledger.Pool{Capacity: 3, Available: 2, Used: 1}, mamba())
	b.Cache(h, seq(1, 20))
	assert.Equal(t, ledger.Pool{Capacity: 3, Available: 1, Used: 2}, mamba(), "and a copy in the tree, locked")
	require.True(t, b.Extend(h, 10))
	b.Finish(h, seq(1, 30))
	assert.Equal(t, ledger.Pool{Capacity: 3, Available: 1, Evictable: 2}, mamba(), "its own became the tree's")
	assert.Equal(t, 20, b.Match(request(), seq(1, 29)).Device)
	var held []ledger.Holding
	for i := range int32(3) {
		h, _ := b.begin(request(), seq(100*i+100, 100*i+110))
		held = append(held, h)
	}
	assert.Equal(t, ledger.Pool{Capacity: 3, Used: 3}, mamba(), "states of the tree made room")
	r := request()
	_, ok := b.Begin(r, seq(900, 910), b.Match(r, seq(900, 910)), 11)
	assert.False(t, ok, "no state, no request")
	for _, h := range held {
		b.Release(h)
	}
}

func TestCheckpointsCountNothingAsEvictable(t *testing.T) {
	b := newBench(t, Sizes{Tokens: 1000, States: 3, Checkpoints: 2})
	mamba := func() ledger.Pool { _, _, m := b.Books(); return m }
	h, _ := b.begin(request(), seq(1, 20))
	b.Cache(h, seq(1, 20))
	assert.Equal(t, ledger.Pool{Capacity: 3, Available: 2, Used: 1}, mamba())
	b.Finish(h, seq(1, 20))
	assert.Equal(t, ledger.Pool{Capacity: 3, Available: 3}, mamba())
	assert.Equal(t, 20, b.Match(request(), seq(1, 29)).Device)
	b.serve(seq(101, 120))
	b.serve(seq(201, 220))
	assert.Equal(t, 0, b.Match(request(), seq(1, 29)).Device, "its checkpoint made room")
}

func streaming(a *args.Args) { a.EnableStreamingSession = true }

func turn(r *ledger.Request) { r.Session = "s" }

func TestSessionGoesOn(t *testing.T) {
	b := newBench(t, Sizes{Tokens: 400}, pages(4), streaming)
	full := func() ledger.Pool { f, _, _ := b.Books(); return f }
	h, _ := b.begin(request(turn), seq(1, 30))
	b.Cache(h, seq(1, 30))
	require.True(t, b.Extend(h, 20))
	b.Finish(h, seq(1, 41))
	b.check()
	assert.Equal(t, ledger.Pool{Capacity: 400, Available: 356, Used: 28, Reserved: 16}, full(),
		"the slot holds what the tree does not, and locks the rest")
	assert.Equal(t, &ledger.Sessions{Open: 1, HeldTokens: 16}, b.Sessions())
	assert.Equal(t, 28, b.Match(request(), seq(1, 41)).Device, "others do not see it")

	h, p := b.begin(request(turn), seq(1, 60))
	assert.Equal(t, 41, p.Device, "not in whole pages")
	assert.Equal(t, 32, b.Private(h))
	assert.Equal(t, ledger.Pool{Capacity: 400, Available: 340, Used: 60}, full())
	b.Finish(h, seq(1, 60))
	b.CloseSession("s")
	assert.Equal(t, ledger.Pool{Capacity: 400, Available: 372, Evictable: 28}, full())
	assert.Equal(t, &ledger.Sessions{}, b.Sessions())
}

func TestSessionThatDoesNotGoOn(t *testing.T) {
	b := newBench(t, Sizes{Tokens: 400}, streaming)
	h, _ := b.begin(request(turn), seq(1, 30))
	other, p := b.begin(request(turn), seq(1, 30))
	assert.Zero(t, p.Device, "one turn at a time: the other is an ordinary request")
	b.Finish(other, seq(1, 30))
	b.Finish(h, seq(1, 30))
	h, p = b.begin(request(turn), seq(1, 29))
	assert.Equal(t, 28, p.Device, "the tree's")
	full, _, _ := b.Books()
	assert.Zero(t, full.Reserved, "a rewritten history gives the slot up")
	b.Release(h)
	assert.Equal(t, 0, b.Sessions().Open, "a turn that failed ends its session")
}

func TestFailedTurnRollsBack(t *testing.T) {
	b := newBench(t, Sizes{Tokens: 400}, pages(4), streaming)
	h, _ := b.begin(request(turn), seq(1, 30))
	b.Finish(h, seq(1, 30))
	before, _, _ := b.Books()
	h, p := b.begin(request(turn), seq(1, 60))
	assert.Equal(t, 30, p.Device)
	b.Release(h)
	after, _, _ := b.Books()
	assert.Equal(t, before, after)
	_, p = b.begin(request(turn), seq(1, 60))
	assert.Equal(t, 30, p.Device, "the slot is as it was")

	b = newBench(t, Sizes{Tokens: 400, States: 4}, pages(4), streaming)
	h, _ = b.begin(request(turn), seq(1, 30))
	b.Finish(h, seq(1, 30))
	h, _ = b.begin(request(turn), seq(1, 60))
	b.Release(h)
	assert.Zero(t, b.Sessions().Open, "a state does not go back")
}

func TestIdleSessionsClose(t *testing.T) {
	b := newBench(t, Sizes{Tokens: 400}, streaming)
	h, _ := b.begin(request(turn), seq(1, 30))
	b.Finish(h, seq(1, 30))
	b.wait(sessionIdle - second)
	h, _ = b.begin(request(turn), seq(1, 40))
	b.Finish(h, seq(1, 40))
	b.wait(sessionIdle - second)
	assert.Equal(t, 1, b.Sessions().Open)
	b.wait(second)
	assert.Equal(t, &ledger.Sessions{}, b.Sessions())
}

func TestSizesAreChecked(t *testing.T) {
	a := args.Default()
	a.PageSize = 16
	_, err := New(&a, Sizes{Tokens: 8, Window: 100, WindowTokens: 50}, nil, nil, nil)
	require.EqualError(t, err, "a pool of 8 tokens has no page of 16\n"+
		"the pool of the sliding window must hold one window of 100 tokens (got 50)")
	a.PageSize = 0
	_, err = New(&a, Sizes{Tokens: 8}, nil, nil, nil)
	require.EqualError(t, err, "page_size must be at least 1 (got 0)")
}

func TestSameSeedSameRun(t *testing.T) {
	run := func() []int32 {
		b := newBench(t, Sizes{Tokens: 600, BytesPerToken: 1000}, hierarchical(0.5))
		for i := range int32(60) {
			b.serve(slices.Concat(seq(1000*(i%7), 1000*(i%7)+50), seq(i*100, i*100+30)))
			b.wait(time.Millisecond)
		}
		var ids []int32
		dev, _ := b.tree.Owned(0)
		for _, pages := range dev {
			ids = append(ids, pages...)
		}
		return ids
	}
	first := run()
	assert.Equal(t, first, run())
}
