// Copyright The otelcol-sglang Authors
// SPDX-License-Identifier: Apache-2.0

package memory

import (
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/otelcol-sglang/otelcol-sglang/engine/args"
	"github.com/otelcol-sglang/otelcol-sglang/engine/hicache"
	"github.com/otelcol-sglang/otelcol-sglang/engine/ledger"
	"github.com/otelcol-sglang/otelcol-sglang/internal/sglang"
)

// The tiers below the device, seen through a memory.

func hierarchical(ratio float64, set ...func(*args.Args)) func(*args.Args) {
	return func(a *args.Args) {
		a.EnableHierarchicalCache, a.HiCacheRatio = true, ratio
		for _, f := range set {
			f(a)
		}
	}
}

func write(policy string) func(*args.Args) {
	return func(a *args.Args) { a.HiCacheWritePolicy = policy }
}

func storage(policy string) func(*args.Args) {
	return func(a *args.Args) { a.HiCacheStorageBackend, a.HiCacheStoragePrefetch = "file", policy }
}

const second = time.Second

// push evicts everything else from a device of 1,000 tokens.
func (b *bench) push() {
	b.serve(seq(900001, 901000))
	b.wait(second)
}

func TestWriteThrough(t *testing.T) {
	b := newBench(t, Sizes{Tokens: 1000, BytesPerToken: 1 << 20}, hierarchical(2))
	h, _ := b.begin(request(), seq(1, 500))
	b.Finish(h, seq(1, 500))
	full, _, _ := b.Books()
	assert.Equal(t, 500, full.Used, "locked while it is being backed up")
	assert.Zero(t, b.book.backups)
	b.wait(second)
	full, _, _ = b.Books()
	assert.Equal(t, 500, full.Evictable)
	assert.Equal(t, map[string]int{sglang.PoolKV: 500}, b.book.backed)
	assert.Equal(t, int64(500<<20), b.book.backBytes)
	assert.Equal(t, &ledger.HostPool{Used: 500, Total: 2000}, b.Host())

	b.push()
	assert.Empty(t, b.book.dropped)
	p := b.Match(request(), seq(1, 600))
	assert.Equal(t, [2]int{0, 500}, [2]int{p.Device, p.Host})
	b.Took()
	p = b.serve(seq(1, 600))
	assert.Equal(t, 500, p.Host)
	assert.Equal(t, map[string]int{sglang.PoolKV: 500}, b.book.loaded)
	assert.Equal(t, int64(500<<20), b.book.loadBytes)
	assert.Greater(t, b.Took(), 20*time.Millisecond, "500 MB at 22 GB/s")
	b.wait(second)
	assert.Equal(t, 599, b.Match(request(), seq(1, 600)).Device)
}

func TestWriteThroughSelective(t *testing.T) {
	b := newBench(t, Sizes{Tokens: 1000, BytesPerToken: 1}, hierarchical(2, write(sglang.WriteThroughSelective)))
	h, _ := b.begin(request(), seq(1, 500))
	b.Cache(h, seq(1, 300))
	b.Cache(h, seq(1, 500))
	b.Finish(h, seq(1, 500))
	b.wait(second)
	assert.Empty(t, b.book.backed, "seen once")
	b.serve(seq(1, 400))
	b.wait(second)
	assert.Equal(t, 400, b.book.backed[sglang.PoolKV], "what two had")
	b.push()
	assert.Equal(t, map[string]int{sglang.DropUnbackedEviction: 100}, b.book.dropped)
}

func TestWriteBack(t *testing.T) {
	b := newBench(t, Sizes{Tokens: 1000, BytesPerToken: 1 << 20}, hierarchical(0.7, write(sglang.WriteBack)))
	b.serve(seq(1, 500))
	b.wait(second)
	assert.Empty(t, b.book.backed)
	b.Took()
	b.push()
	assert.Equal(t, 500, b.book.backed[sglang.PoolKV], "when it is evicted")
	assert.Greater(t, b.Took(), 20*time.Millisecond, "while the scheduler waits")
	assert.Equal(t, 500, b.Match(request(), seq(1, 600)).Host)
	b.serve(seq(1, 10)) // evicts 1,000 tokens, for which the host is too small
	assert.Equal(t, map[string]int{sglang.DropHostPressure: 1000}, b.book.dropped)
}

func TestSmallHostDropsWhatWasNotBackedUp(t *testing.T) {
	b := newBench(t, Sizes{Tokens: 1000, BytesPerToken: 1}, hierarchical(0.4))
	b.serve(seq(1, 300))
	b.wait(second)
	b.serve(seq(1001, 1300))
	b.wait(second)
	assert.Equal(t, 600, b.book.backed[sglang.PoolKV], "the copy of the first made room")
	b.push()
	assert.Equal(t, map[string]int{sglang.DropUnbackedEviction: 300}, b.book.dropped)
	assert.Equal(t, 300, b.Match(request(), seq(1001, 1400)).Host)
	assert.Zero(t, b.Match(request(), seq(1, 400)).Host)
}

func TestHostEvictsItsOldest(t *testing.T) {
	b := newBench(t, Sizes{Tokens: 1000, BytesPerToken: 1}, hierarchical(1.5))
	b.serve(seq(1, 500))
	b.wait(second)
	b.push()
	b.serve(seq(2001, 2900))
	b.wait(second)
	assert.Zero(t, b.Match(request(), seq(1, 600)).Host)
	assert.LessOrEqual(t, b.Host().Used, b.Host().Total)
}

func TestFewTokensOnTheHostAreNotLoaded(t *testing.T) {
	b := newBench(t, Sizes{Tokens: 1000, BytesPerToken: 1}, hierarchical(2))
	b.serve(seq(1, hicache.LoadBackThreshold-1))
	b.wait(second)
	b.push()
	assert.Zero(t, b.Match(request(), seq(1, 100)).Host)
}

func TestHostTierOfHybridModels(t *testing.T) {
	b := newBench(t, Sizes{
		Tokens: 1000, BytesPerToken: 1000, Window: 64, WindowTokens: 1000, WindowBytesPerToken: 500,
		States: 8, StateBytes: 100000,
	}, hierarchical(2))
	b.serve(seq(1, 500))
	b.wait(second)
	assert.Equal(t, map[string]int{sglang.PoolKV: 500, sglang.PoolSWA: 500, sglang.PoolMamba: 1}, b.book.backed)
	assert.Equal(t, int64(500*1000+500*500+100000), b.book.backBytes)
	assert.Equal(t, 1, b.book.backups, "one transfer, one time")
	assert.Equal(t, 1, *b.Host().MambaUsed)
	assert.Equal(t, 16, *b.Host().MambaTotal)
	b.push()
	p := b.serve(seq(1, 600))
	assert.Equal(t, 500, p.Host)
	assert.Equal(t, 1, b.book.loaded[sglang.PoolMamba])
}

// stored is a memory whose storage has the first 640 of tokens 1..., and whose device
// and host have nothing of them. The prompt of them has 1,000 tokens.
func stored(t *testing.T, policy string, s Sizes, set ...func(*args.Args)) *bench {
	s.BytesPerToken = max(s.BytesPerToken, 1<<16)
	b := newBench(t, s, append([]func(*args.Args){hierarchical(2, storage(policy))}, set...)...)
	b.serve(seq(1, 640))
	b.wait(second)
	require.Equal(t, 640, b.book.storage.backed)
	b.Flush()
	require.Zero(t, b.Host().Used)
	return b
}

func TestStoragePrefetch(t *testing.T) {
	b := stored(t, sglang.PrefetchWaitComplete, Sizes{Tokens: 2000})
	r, prompt := request(), seq(1, 1000)
	p := b.Match(r, prompt)
	assert.Equal(t, ledger.Prefix{Node: p.Node}, p, "not ready")
	b.wait(second)
	p = b.Match(r, prompt)
	assert.Equal(t, ledger.Prefix{Storage: 640, Ready: true, Node: p.Node}, p)
	assert.Equal(t, 640, b.Match(request(), prompt).Host, "another request finds it on the host")
	h, p := b.begin(r, prompt)
	assert.Equal(t, 640, p.Storage)
	b.Finish(h, prompt)
	s := &b.book.storage
	assert.Equal(t, [4]int{640, 640, 10, 0}, [4]int{s.hit, s.prefetched, s.pages, s.lost()})
}

func TestUnfulfilled(t *testing.T) {
	prompt := seq(1, 1000)
	big := Sizes{Tokens: 2000}
	slow := big
	slow.Links = hicache.DefaultLinks()
	slow.Links.StorageRead = 1 << 20
	for reason, c := range map[string]struct {
		policy string
		sizes  Sizes
		lost   int
		do     func(b *bench, r *ledger.Request)
	}{
		sglang.UnfulfilledDeadline: {sglang.PrefetchBestEffort, slow, 640, func(b *bench, r *ledger.Request) {
			b.Match(r, prompt)
			b.wait(10 * time.Millisecond)
			b.begin(r, prompt)
		}},
		"timeout": {sglang.PrefetchTimeout, slow, 640, func(b *bench, r *ledger.Request) {
			assert.False(b.t, b.Match(r, prompt).Ready)
			b.wait(5 * second)
			assert.True(b.t, b.Match(r, prompt).Ready)
			b.begin(r, prompt)
		}},
		sglang.UnfulfilledDropped: {sglang.PrefetchWaitComplete, big, 640, func(b *bench, r *ledger.Request) {
			b.Match(r, prompt)
			b.wait(second)
			b.Forget(r)
		}},
		sglang.UnfulfilledBelowThreshold: {sglang.PrefetchWaitComplete, big, 191, func(b *bench, r *ledger.Request) {
			b.serve(seq(1, 449))
			b.Match(r, prompt)
			b.wait(second)
			b.begin(r, prompt)
		}},
		sglang.UnfulfilledHostCapacity: {sglang.PrefetchWaitComplete, big, 640, func(b *bench, r *ledger.Request) {
			b.SqueezeHost(3500)
			b.Match(r, prompt)
			b.wait(5 * second)
			assert.Positive(b.t, b.book.storage.deferred[sglang.DeferredHostCapacity])
			b.begin(r, prompt)
		}},
		sglang.UnfulfilledDeviceCapacity: {sglang.PrefetchWaitComplete, big, 640, func(b *bench, r *ledger.Request) {
			require.True(b.t, b.Reserve(1500))
			b.Match(r, prompt)
			b.wait(5 * second)
			assert.Positive(b.t, b.book.storage.deferred[sglang.DeferredDeviceCapacity])
			b.Unreserve(1500)
			b.begin(r, prompt)
		}},
		sglang.UnfulfilledDeviceCovered: {sglang.PrefetchWaitComplete, big, 640, func(b *bench, r *ledger.Request) {
			b.Match(r, prompt)
			b.serve(prompt[:700])
			b.wait(second)
			b.begin(r, prompt)
		}},
		sglang.UnfulfilledDeviceOverlap: {sglang.PrefetchWaitComplete, big, 500, func(b *bench, r *ledger.Request) {
			b.Match(r, prompt)
			b.serve(prompt[:500])
			b.wait(second)
			assert.Equal(b.t, 140, b.Match(r, prompt).Storage)
			b.begin(r, prompt)
		}},
		sglang.UnfulfilledAnchorLost: {sglang.PrefetchWaitComplete, big, 320, func(b *bench, r *ledger.Request) {
			b.SqueezeHost(4000)
			h, _ := b.begin(request(), seq(1, 320))
			b.Finish(h, seq(1, 320)) // on the device only
			b.SqueezeHost(0)
			b.Match(r, prompt)
			b.wait(2 * time.Millisecond)
			b.tree.Flush()
			b.wait(second)
			b.begin(r, prompt)
		}},
		sglang.UnfulfilledAdmissionShortfall: {sglang.PrefetchWaitComplete, big, 640, func(b *bench, r *ledger.Request) {
			b.Match(r, prompt)
			b.wait(second)
			b.SqueezeHost(4000)
			b.begin(r, prompt)
		}},
		sglang.UnfulfilledStorageTransfer: {sglang.PrefetchWaitComplete, Sizes{
			Tokens: 2000, Storage: hicache.NewStorage(640, 1), Links: slow.Links,
		}, 640, func(b *bench, r *ledger.Request) {
			b.Match(r, prompt)
			b.wait(2 * time.Millisecond)
			b.serve(seq(5001, 5640)) // takes the place of the rest in storage
			b.wait(60 * second)
			b.begin(r, prompt)
		}},
	} {
		t.Run(reason, func(t *testing.T) {
			b := stored(t, c.policy, c.sizes)
			before := b.book.storage.lost()
			r := request()
			c.do(b, r)
			if reason == "timeout" {
				reason = sglang.UnfulfilledDeadline
			}
			assert.Equal(t, map[string]int{reason: c.lost}, b.book.storage.unfulfilled)
			assert.Equal(t, before+c.lost, b.book.storage.lost())
		})
	}
}

func TestUnfulfilledWindow(t *testing.T) {
	s := Sizes{Tokens: 2000, BytesPerToken: 1 << 16, Window: 64, WindowTokens: 2000, WindowBytesPerToken: 1000}
	prompt := seq(1, 1000)
	b := stored(t, sglang.PrefetchWaitComplete, s)
	r := request()
	b.Match(r, prompt)
	b.wait(second)
	assert.Equal(t, 640, b.Match(r, prompt).Storage)
	b.Forget(r)

	// The last pages come without their window: what is before them can be used.
	b = newBench(t, s, hierarchical(2, storage(sglang.PrefetchWaitComplete)))
	b.serve(seq(1, 640))
	b.wait(second)
	swa := b.tier.Host[1]
	taken := swa.Append(nil, swa.Free())
	b.quiet = true
	b.serve(seq(1, 832))
	b.wait(second)
	swa.Return(taken)
	b.quiet = false
	b.Flush()
	r = request()
	b.Match(r, prompt)
	b.wait(second)
	assert.Equal(t, 640, b.Match(r, prompt).Storage)
	assert.Equal(t, map[string]int{sglang.UnfulfilledAuxWindowTrim: 192}, b.book.storage.unfulfilled)
	b.Forget(r)

	// No room for the window.
	b.Flush()
	taken, b.quiet = swa.Append(nil, swa.Free()), true
	r = request()
	b.Match(r, prompt)
	b.wait(second)
	assert.Equal(t, 640, b.book.storage.auxFailed)
	swa.Return(taken)
	b.quiet = false
}

func TestStorageOutlivesTheEngine(t *testing.T) {
	s := Sizes{Tokens: 2000, BytesPerToken: 1, Storage: hicache.NewStorage(100000, 1)}
	newBench(t, s, hierarchical(2, storage(sglang.PrefetchWaitComplete))).prime()
	b := newBench(t, s, hierarchical(2, storage(sglang.PrefetchWaitComplete)))
	r := request()
	b.Match(r, seq(1, 1000))
	b.wait(second)
	assert.Equal(t, 640, b.Match(r, seq(1, 1000)).Storage)
}

func (b *bench) prime() {
	b.serve(seq(1, 640))
	b.wait(second)
}

func TestWritesThatLagAreDropped(t *testing.T) {
	s := Sizes{Tokens: 10000, BytesPerToken: 1 << 20, Links: hicache.DefaultLinks()}
	s.Links.StorageWrite = 1 << 20
	b := newBench(t, s, hierarchical(2, storage(sglang.PrefetchBestEffort)))
	b.serve(seq(1, 640))
	b.wait(second)
	b.serve(seq(1001, 1640))
	b.wait(second)
	assert.Equal(t, 640, b.book.storage.droppedBackup)
}

func TestWritesOfWhatIsGoneAreDropped(t *testing.T) {
	s := Sizes{Tokens: 1000, BytesPerToken: 1 << 10, HostTokens: 300, Links: hicache.DefaultLinks()}
	s.Links.StorageWrite = 1 << 16
	b := newBench(t, s, hierarchical(1, write(sglang.WriteBack), storage(sglang.PrefetchBestEffort)))
	b.serve(seq(1, 300))
	b.serve(seq(1, 600))
	b.serve(seq(1001, 1500)) // evicts the second half, whose copy begins its way to storage
	require.Equal(t, 300, b.Host().Used)
	b.serve(seq(2001, 2600)) // evicts the first half and those, for which the host has no room
	assert.Equal(t, 800, b.book.dropped[sglang.DropHostPressure])
	b.wait(time.Minute)
	assert.Equal(t, 320, b.book.storage.droppedBackup, "five pages of 64")
	assert.Zero(t, b.book.storage.backed)
}

// TestDriftToStorage: as the host shrinks, the same hits come from storage.
func TestDriftToStorage(t *testing.T) {
	b := newBench(t, Sizes{Tokens: 2000, BytesPerToken: 1 << 14}, hierarchical(8, storage(sglang.PrefetchWaitComplete)))
	round := func() (sum ledger.Prefix) {
		for i := range int32(8) {
			prompt := seq(i*10000, i*10000+999)
			r := request()
			b.Match(r, prompt)
			b.wait(second)
			h, p := b.begin(r, prompt)
			b.Finish(h, prompt)
			b.wait(second)
			sum.Device += p.Device
			sum.Host += p.Host
			sum.Storage += p.Storage
		}
		return sum
	}
	round()
	warm := round()
	assert.Greater(t, warm.Host, 7000)
	assert.Zero(t, warm.Storage)
	b.SqueezeHost(14000)
	round()
	cold := round()
	assert.Greater(t, cold.Storage, 5000)
	assert.Less(t, cold.Host, 1500)
	b.SqueezeHost(0)
	round()
	assert.Greater(t, round().Host, 7000, "and back")
}
