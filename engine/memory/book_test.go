// Copyright The otelcol-sglang Authors
// SPDX-License-Identifier: Apache-2.0

package memory

import (
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/otelcol-sglang/otelcol-sglang/engine/ledger"
	"github.com/otelcol-sglang/otelcol-sglang/internal/sglang"
)

// book records what the collectors are told.
type book struct {
	evictions, evicted   int
	loaded, backed       map[string]int
	loadBytes, backBytes int64
	loads, backups       int // with a time
	dropped              map[string]int
	err                  error
	storage              storageBook
}

func (b *book) Evicted(tokens int, d time.Duration) {
	b.evictions++
	b.evicted += tokens
	if tokens < 0 || d <= 0 {
		b.err = fmt.Errorf("evicted %d tokens in %v", tokens, d)
	}
}

func (b *book) LoadedBack(pool string, tokens int, bytes int64, d time.Duration) {
	b.loaded = add(b.loaded, pool, tokens)
	b.loadBytes += bytes
	b.loads += timed(d)
}

func (b *book) BackedUp(pool string, tokens int, bytes int64, d time.Duration) {
	b.backed = add(b.backed, pool, tokens)
	b.backBytes += bytes
	b.backups += timed(d)
}

func (b *book) Dropped(reason, pool string, tokens int) {
	b.dropped = add(b.dropped, reason, tokens)
	if pool != sglang.PoolKV || tokens <= 0 {
		b.err = fmt.Errorf("dropped %d tokens of %s", tokens, pool)
	}
}

func (b *book) check() error { return errors.Join(b.err, b.storage.err) }

type storageBook struct {
	prefetched, backed, hit, used, droppedBackup, auxFailed int
	pages                                                   int
	unfulfilled, deferred                                   map[string]int
	err                                                     error
}

func (s *storageBook) Prefetched(tokens, pages int, bytes int64, d time.Duration) {
	s.prefetched += tokens
	s.pages += pages
	if tokens <= 0 || pages <= 0 || bytes <= 0 || d <= 0 {
		s.err = fmt.Errorf("prefetched %d tokens, %d pages, %d bytes in %v", tokens, pages, bytes, d)
	}
}

func (s *storageBook) BackedUp(tokens, pages int, bytes int64, d time.Duration) {
	s.backed += tokens
	if tokens <= 0 || pages <= 0 || bytes <= 0 || d <= 0 {
		s.err = fmt.Errorf("stored %d tokens, %d pages, %d bytes in %v", tokens, pages, bytes, d)
	}
}

func (s *storageBook) Hit(tokens int) { s.hit += tokens }

func (s *storageBook) Unfulfilled(reason string, tokens int) {
	s.unfulfilled = add(s.unfulfilled, reason, tokens)
	if !slices.Contains(sglang.UnfulfilledReasons[:], reason) || tokens <= 0 {
		s.err = fmt.Errorf("%d tokens unfulfilled because of %q", tokens, reason)
	}
}

func (s *storageBook) Deferred(reason string, tokens int) {
	s.deferred = add(s.deferred, reason, tokens)
	if !slices.Contains(sglang.DeferredReasons[:], reason) || tokens <= 0 {
		s.err = fmt.Errorf("%d tokens deferred because of %q", tokens, reason)
	}
}

func (s *storageBook) BackupDropped(tokens int)  { s.droppedBackup += tokens }
func (s *storageBook) AuxAllocFailed(tokens int) { s.auxFailed += tokens }

func (s *storageBook) lost() int {
	n := 0
	for _, tokens := range s.unfulfilled {
		n += tokens
	}
	return n
}

func add(m map[string]int, key string, n int) map[string]int {
	if m == nil {
		m = make(map[string]int)
	}
	m[key] += n
	return m
}

func timed(d time.Duration) int {
	if d == ledger.Unset {
		return 0
	}
	return 1
}
