// Copyright The otelcol-sglang Authors
// SPDX-License-Identifier: Apache-2.0

package page // import "github.com/otelcol-sglang/otelcol-sglang/engine/page"

import (
	"time"

	"github.com/otelcol-sglang/otelcol-sglang/internal/sglang"
)

// radix is the book of the prefix trees at a place: each rank has its own.
type radix struct {
	page                                   *Page
	evictionTime, loadBackTime, backupTime *vec[Histogram]
	evicted, loadBackTokens, loadBackBytes *vec[Counter]
	backupTokens, backupBytes, dropped     *vec[Counter]
}

func newRadix(r *role) *radix {
	return &radix{
		page:           r.page,
		evictionTime:   r.histogram(sglang.FamilyEvictionDurationSeconds),
		evicted:        r.counter(sglang.FamilyEvictedTokensTotal),
		loadBackTime:   r.histogram(sglang.FamilyLoadBackDurationSeconds),
		loadBackTokens: r.counter(sglang.FamilyLoadBackTokensTotal),
		loadBackBytes:  r.counter(sglang.FamilyLoadBackBytesTotal),
		backupTime:     r.histogram(sglang.FamilyHiCacheBackupDurationSeconds),
		backupTokens:   r.counter(sglang.FamilyHiCacheBackupTokensTotal),
		backupBytes:    r.counter(sglang.FamilyHiCacheBackupBytesTotal),
		dropped:        r.counter(sglang.FamilyHiCacheDroppedTokensTotal),
	}
}

// Evicted implements [ledger.RadixCollector].
func (x *radix) Evicted(tokens int, d time.Duration) {
	add(x.evicted.with(), float64(tokens))
	observeTime(x.evictionTime.with(), x.page.time, d, time.Second)
}

// LoadedBack implements [ledger.RadixCollector].
func (x *radix) LoadedBack(pool string, tokens int, bytes int64, d time.Duration) {
	add(x.loadBackTokens.with(pool), float64(tokens))
	add(x.loadBackBytes.with(), float64(bytes))
	observeTime(x.loadBackTime.with(), x.page.time, d, time.Second)
}

// BackedUp implements [ledger.RadixCollector].
func (x *radix) BackedUp(pool string, tokens int, bytes int64, d time.Duration) {
	add(x.backupTokens.with(pool), float64(tokens))
	add(x.backupBytes.with(), float64(bytes))
	observeTime(x.backupTime.with(), x.page.time, d, time.Second)
}

// Dropped implements [ledger.RadixCollector].
func (x *radix) Dropped(reason, pool string, tokens int) {
	add(x.dropped.with(reason, pool), float64(tokens))
}

// storage is the book of the storage tier at a place.
type storage struct {
	page                                     *Page
	prefetched, backedUp, hit                *vec[Counter]
	unfulfilled, deferred, dropped, auxFails *vec[Counter]
	prefetchPages, backupPages               *vec[Histogram]
	prefetchSpeed, backupSpeed               *vec[Histogram]
}

func newStorage(r *role) *storage {
	s := &storage{
		page:          r.page,
		prefetched:    r.counter(sglang.FamilyPrefetchedTokensTotal),
		backedUp:      r.counter(sglang.FamilyBackupedTokensTotal),
		hit:           r.counter(sglang.FamilyStoragePrefetchHitTokensTotal),
		unfulfilled:   r.counter(sglang.FamilyStoragePrefetchUnfulfilledTokensTotal),
		deferred:      r.counter(sglang.FamilyStoragePrefetchDeferredTokensTotal),
		dropped:       r.counter(sglang.FamilyHiCacheBackupDroppedTokensTotal),
		auxFails:      r.counter(sglang.FamilyHiCachePrefetchAuxAllocFailedTokensTotal),
		prefetchPages: r.histogram(sglang.FamilyPrefetchPages),
		backupPages:   r.histogram(sglang.FamilyBackupPages),
		prefetchSpeed: r.histogram(sglang.FamilyPrefetchBandwidth),
		backupSpeed:   r.histogram(sglang.FamilyBackupBandwidth),
	}
	for _, reason := range sglang.UnfulfilledReasons {
		s.unfulfilled.seed(reason)
	}
	for _, reason := range sglang.DeferredReasons {
		s.deferred.seed(reason)
	}
	return s
}

// Prefetched implements [ledger.StorageCollector].
func (s *storage) Prefetched(tokens, pages int, bytes int64, d time.Duration) {
	add(s.prefetched.with(), float64(tokens))
	observe(s.prefetchPages.with(), float64(pages), 1)
	s.observeSpeed(s.prefetchSpeed, bytes, d)
}

// BackedUp implements [ledger.StorageCollector].
func (s *storage) BackedUp(tokens, pages int, bytes int64, d time.Duration) {
	add(s.backedUp.with(), float64(tokens))
	observe(s.backupPages.with(), float64(pages), 1)
	s.observeSpeed(s.backupSpeed, bytes, d)
}

// observeSpeed is in GB/s; what took no time has none.
func (s *storage) observeSpeed(v *vec[Histogram], bytes int64, d time.Duration) {
	if d <= 0 {
		return
	}
	for _, x := range v.with() {
		if x.running() {
			took := max(x.rank.measured(s.page.time, d), time.Microsecond)
			x.instrument.Observe(float64(bytes)/(1<<30)/took.Seconds(), 1)
		}
	}
}

// Hit implements [ledger.StorageCollector].
func (s *storage) Hit(tokens int) { add(s.hit.with(), float64(tokens)) }

// Unfulfilled implements [ledger.StorageCollector].
func (s *storage) Unfulfilled(reason string, tokens int) {
	add(s.unfulfilled.with(reason), float64(tokens))
}

// Deferred implements [ledger.StorageCollector].
func (s *storage) Deferred(reason string, tokens int) { add(s.deferred.with(reason), float64(tokens)) }

// BackupDropped implements [ledger.StorageCollector].
func (s *storage) BackupDropped(tokens int) { add(s.dropped.with(), float64(tokens)) }

// AuxAllocFailed implements [ledger.StorageCollector].
func (s *storage) AuxAllocFailed(tokens int) { add(s.auxFails.with(), float64(tokens)) }
