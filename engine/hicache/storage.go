// Copyright The otelcol-sglang Authors
// SPDX-License-Identifier: Apache-2.0

package hicache // import "github.com/otelcol-sglang/otelcol-sglang/engine/hicache"

import "github.com/otelcol-sglang/otelcol-sglang/engine/radix"

// Storage is what a storage backend holds: pages by the hash of all tokens up to
// their end. Engines may share one, and it outlives them. Bounded: the oldest pages
// make room. It belongs to one loop's goroutine.
type Storage struct {
	unit  int // tokens of a page
	pages map[uint64]contents
	order []uint64 // a ring, oldest at next
	next  int
}

// contents say what a page has beside KV.
type contents struct {
	window bool // of sliding-window attention
	state  bool // of Mamba, at the page's end
}

// minUnit is the fewest tokens in a page of storage, whatever the device's page is.
const minUnit = 64

// NewStorage holds so many tokens for engines of a page size.
func NewStorage(tokens, pageSize int) *Storage {
	unit := pageSize * max(1, (minUnit+pageSize-1)/pageSize)
	return &Storage{unit: unit, pages: make(map[uint64]contents), order: make([]uint64, max(1, tokens/unit))}
}

func (s *Storage) put(pages []uint64, c contents) {
	for i, h := range pages {
		last := i == len(pages)-1
		if _, there := s.pages[h]; !there {
			delete(s.pages, s.order[s.next])
			s.order[s.next] = h
			s.next = (s.next + 1) % len(s.order)
		}
		s.pages[h] = contents{window: c.window, state: c.state && last}
	}
}

// missing are those pages from the first on that are not there.
func (s *Storage) missing(pages []uint64, first int) []uint64 {
	var m []uint64
	for _, h := range pages[min(first, len(pages)):] {
		if _, there := s.pages[h]; !there {
			m = append(m, h)
		}
	}
	return m
}

// leading counts the pages that are there without a gap.
func (s *Storage) leading(pages []uint64) int {
	for i, h := range pages {
		if _, there := s.pages[h]; !there {
			return i
		}
	}
	return len(pages)
}

// usable is the most of the leading pages after which a request could go on: it
// needs a window of pages that have theirs, or a state at the end.
func (s *Storage) usable(pages []uint64, window int, state bool) int {
	for n := len(pages); n > 0; n-- {
		if state && !s.pages[pages[n-1]].state {
			continue
		}
		if s.windowed(pages[:n]) >= min(window, n) {
			return n
		}
	}
	return 0
}

// windowed counts the last pages that have their window.
func (s *Storage) windowed(pages []uint64) int {
	n := 0
	for n < len(pages) && s.pages[pages[len(pages)-1-n]].window {
		n++
	}
	return n
}

// hashes are of each whole page of tokens.
func (t *Tier) hashes(extra string, tokens []int32) []uint64 {
	h := uint64(len(extra))
	for _, c := range []byte(extra) {
		h = radix.Mix(h, int32(c))
	}
	pages := make([]uint64, 0, len(tokens)/t.Storage.unit)
	for len(tokens) >= t.Storage.unit {
		for _, id := range tokens[:t.Storage.unit] {
			h = radix.Mix(h, id)
		}
		pages = append(pages, h)
		tokens = tokens[t.Storage.unit:]
	}
	return pages
}
