// Copyright The otelcol-sglang Authors
// SPDX-License-Identifier: Apache-2.0

// Package hicache is what lies below the device's KV: a tier on the host, which one
// engine owns, and a storage tier, which outlives it. Nodes of the prefix tree are
// backed up to the host by a write policy, and from there to storage; what the
// device evicts stays on the host, if it has a copy there; what only storage has is
// prefetched to the host while its request waits.
//
// Transfers take their time from the bandwidth of the link they go through, one
// after the other, on the loop's clock.
package hicache // import "github.com/otelcol-sglang/otelcol-sglang/engine/hicache"

import (
	"time"

	"github.com/otelcol-sglang/otelcol-sglang/engine/clock"
	"github.com/otelcol-sglang/otelcol-sglang/engine/kv"
	"github.com/otelcol-sglang/otelcol-sglang/engine/ledger"
	"github.com/otelcol-sglang/otelcol-sglang/engine/radix"
	"github.com/otelcol-sglang/otelcol-sglang/internal/sglang"
)

// Links are the speeds of one rank's transfers, in bytes per second.
type Links struct {
	Backup, LoadBack           float64 // device and host
	StorageRead, StorageWrite  float64
	DeviceLatency, StorageOpen time.Duration // of each transfer
}

// DefaultLinks are a PCIe 4 link and a fast local disk.
func DefaultLinks() Links {
	return Links{
		Backup: 20e9, LoadBack: 22e9, StorageRead: 3e9, StorageWrite: 1.5e9,
		DeviceLatency: 300 * time.Microsecond, StorageOpen: 2 * time.Millisecond,
	}
}

// Defaults of the engine (unified_radix_cache.py of 0.5.23).
const (
	// PrefetchThreshold is the fewest tokens that are worth a prefetch.
	PrefetchThreshold = 256
	// LoadBackThreshold is the fewest tokens that are worth a load-back.
	LoadBackThreshold = 10
)

// Config is what a tier is made with.
type Config struct {
	Host  [radix.Parts]*kv.Pages
	Bytes [radix.Parts]int64 // of a token (a state) in one rank's shard
	// WritePolicy and PrefetchPolicy are the engine's arguments.
	WritePolicy, PrefetchPolicy string
	Links                       Links
	Storage                     *Storage // nil: none
	// Room is how many tokens the device could take.
	Room func() int

	Loop      *clock.Loop
	Radix     ledger.RadixCollector
	Collector ledger.StorageCollector
}

// Tier is the host and storage tier of one scheduler.
type Tier struct {
	Config
	tree *radix.Tree

	backup, load, read, write link
	prefetches                map[*ledger.Request]*prefetch
	made                      uint64 // prefetches so far
	inFlight                  int    // tokens that prefetches have host pages for

	squeezed []int32
	took     time.Duration
	tokens   []int32 // scratch
}

// New returns a tier for a tree, which asks its Keep.
func New(c Config, tree *radix.Tree) *Tier {
	t := &Tier{Config: c, tree: tree, prefetches: make(map[*ledger.Request]*prefetch)}
	t.backup = link{c.Links.Backup, c.Links.DeviceLatency, 0}
	t.load = link{c.Links.LoadBack, c.Links.DeviceLatency, 0}
	t.read = link{c.Links.StorageRead, c.Links.StorageOpen, 0}
	t.write = link{c.Links.StorageWrite, c.Links.StorageOpen, 0}
	return t
}

// Took is the time that the scheduler spent in transfers since the last call.
func (t *Tier) Took() time.Duration {
	d := t.took
	t.took = 0
	return d
}

// Book is the host's pools; usage counts pages in use by anything.
func (t *Tier) Book() *ledger.HostPool {
	full := t.Host[radix.Full]
	b := &ledger.HostPool{Used: (full.Total() - full.Free()) * full.Size(), Total: full.Total() * full.Size()}
	if m := t.Host[radix.Mamba]; m != nil {
		used, total := m.Total()-m.Free(), m.Total()
		b.MambaUsed, b.MambaTotal = &used, &total
	}
	return b
}

// Squeeze takes host memory away, evicting what must be, so that n tokens are not
// there for the cache; n = 0 gives all back. For faults. It returns what it got.
func (t *Tier) Squeeze(n int) int {
	full := t.Host[radix.Full]
	full.Return(t.squeezed)
	t.squeezed = t.squeezed[:0]
	t.makeRoom(min(full.Round(n), full.Total()))
	t.squeezed = full.Append(t.squeezed, min(full.Round(n), full.Free()))
	return len(t.squeezed) * full.Size()
}

// makeRoom evicts on the host until n pages are free; false if it can't, though it
// may have tried.
func (t *Tier) makeRoom(n int) bool {
	full := t.Host[radix.Full]
	if n > full.Total()-len(t.squeezed) {
		return false
	}
	if short := n - full.Free(); short > 0 {
		t.tree.EvictHost(short)
	}
	return full.Free() >= n
}

// bytes of so many pages (states) by part.
func (t *Tier) bytes(p radix.Part, pages int) int64 { return int64(t.units(p, pages)) * t.Bytes[p] }

// units are tokens, or states.
func (t *Tier) units(p radix.Part, pages int) int {
	if p == radix.Mamba {
		return pages
	}
	return pages * t.Host[radix.Full].Size()
}

var poolNames = [radix.Parts]string{radix.Full: sglang.PoolKV, radix.SWA: sglang.PoolSWA, radix.Mamba: sglang.PoolMamba}

// report calls a collector's method for each part that moved; the time goes with
// the first.
func (t *Tier) report(moved [radix.Parts]int, d time.Duration, f func(pool string, n int, bytes int64, d time.Duration)) {
	for p := range radix.Parts {
		if moved[p] > 0 {
			f(poolNames[p], t.units(p, moved[p]), t.bytes(p, moved[p]), d)
			d = ledger.Unset
		}
	}
}

func (t *Tier) total(moved [radix.Parts]int) int64 {
	var n int64
	for p := range radix.Parts {
		n += t.bytes(p, moved[p])
	}
	return n
}

// link carries transfers one after the other.
type link struct {
	perSecond float64
	latency   time.Duration
	free      time.Duration
}

// carry queues a transfer and returns when it ends.
func (l *link) carry(now time.Duration, bytes int64) (end time.Duration) {
	l.free = max(l.free, now) + l.length(bytes)
	return l.free
}

func (l *link) length(bytes int64) time.Duration {
	return l.latency + time.Duration(float64(bytes)/l.perSecond*float64(time.Second))
}
