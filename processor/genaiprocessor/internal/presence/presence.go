// Copyright The otelcol-sglang Authors
// SPDX-License-Identifier: Apache-2.0

// Package presence knows which engines send spans, which show a metrics page, and
// which of both are the same engine. It may be used from many goroutines.
package presence // import "github.com/otelcol-sglang/otelcol-sglang/processor/genaiprocessor/internal/presence"

import (
	"math/bits"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"
)

const (
	// MaxKeys bounds the resource attributes by which engines are told apart.
	MaxKeys = 8
	// Recent is for how long an engine counts as sending spans, as showing a page,
	// or as busy.
	Recent = 5 * time.Minute
	// Patience is how long one side is awaited after the other has shown itself.
	Patience = time.Minute
	// maxEngines bounds either side, maxNames what one engine's processes call it.
	maxEngines = 1000
	maxNames   = 16
)

// Names are what a resource says of its engine, by key; "" where it says nothing.
type Names [MaxKeys]string

// first is the first name there is.
func (n *Names) first() string {
	for _, value := range n {
		if value != "" {
			return value
		}
	}
	return ""
}

func (n *Names) keys() keySet {
	var set keySet
	for i, value := range n {
		if value != "" {
			set |= 1 << i
		}
	}
	return set
}

// keySet are the keys that have a value, one bit each. Two engines that share a
// key can be told apart; of two that share none nobody knows.
type keySet uint8

type name struct {
	key   int
	value string
}

// State is what is known of an engine.
type State string

// States.
const (
	Both      State = "both"
	SpansOnly State = "spans_only"
	PageOnly  State = "page_only"
	// Ambiguous: the other side is there, but nothing says whether it is this engine's.
	Ambiguous State = "ambiguous"
)

// Match is one engine that had requests of late.
type Match struct {
	// Engine is the id on its spans, or a name where they have none; Page is the name
	// of its page. "" where there is none.
	Engine, Page string
	State        State
	// DP ranks that its spans, its page, and its settings show; 0 if none.
	SpanRanks, PageRanks, SetRanks int
}

// spans is an engine that sends spans.
type spans struct {
	id    string
	names []name // guarded by Table.mu
	first time.Time
	last  atomic.Int64  // unix nanoseconds
	ranks atomic.Uint64 // DP ranks below 64, one bit each
}

func (s *spans) has(names *Names) bool {
	for key, value := range names {
		if value != "" && !slices.Contains(s.names, name{key, value}) {
			return false
		}
	}
	return true
}

func (s *spans) add(names *Names) {
	for key, value := range names {
		n := name{key, value}
		if value != "" && len(s.names) < maxNames && !slices.Contains(s.names, n) {
			s.names = append(s.names, name{key, strings.Clone(value)})
		}
	}
}

func (s *spans) keys() keySet {
	var set keySet
	for _, n := range s.names {
		set |= 1 << n.key
	}
	return set
}

// Page is what one scrape of a page says.
type Page struct {
	// Label is how the page is called.
	Label string
	Names Names
	// Addresses are names that nobody gave: the same one makes spans this page's, but
	// another one says nothing.
	Addresses Names
	// Finished counts requests since the engine's start.
	Finished float64
	// Ranks are the DP ranks below 64, one bit each; Set is their number by the
	// engine's settings, 0 if unknown.
	Ranks uint64
	Set   int
}

type page struct {
	Page
	seen time.Time
	// busySince and busy are when requests were first and last seen to finish,
	// without a pause of Recent between.
	busySince, busy time.Time
}

func (p *page) isBusy(now time.Time) bool { return !p.busy.IsZero() && now.Sub(p.busy) < Recent }

// Table is both sides.
type Table struct {
	// watched: someone tells of pages, so that spans are worth noting.
	watched atomic.Int32

	mu    sync.RWMutex
	spans map[string]*spans
	pages map[pageKey]*page
}

// pageKey is all that a page is called.
type pageKey struct{ names, addresses Names }

// New returns an empty table.
func New() *Table {
	return &Table{spans: make(map[string]*spans), pages: make(map[pageKey]*page)}
}

// Watch says that Saw will be called, until the returned function is.
func (t *Table) Watch() (end func()) {
	t.watched.Add(1)
	return sync.OnceFunc(func() { t.watched.Add(-1) })
}

// Watched reports whether anyone tells of pages.
func (t *Table) Watched() bool { return t.watched.Load() > 0 }

// Sent notes that an engine sent spans; without an id its first name tells which.
// rank is a DP rank, below 0 if unknown.
func (t *Table) Sent(id string, names *Names, rank int32, now time.Time) {
	if id == "" {
		id = names.first()
	}
	t.mu.RLock()
	s := t.spans[id]
	known := s != nil && s.has(names)
	t.mu.RUnlock()
	if !known {
		if s = t.note(id, names, now); s == nil {
			return
		}
	}
	s.last.Store(now.UnixNano())
	if rank >= 0 && rank < 64 {
		s.ranks.Or(1 << rank)
	}
}

// note returns nil if there are too many engines.
func (t *Table) note(id string, names *Names, now time.Time) *spans {
	t.mu.Lock()
	defer t.mu.Unlock()
	s := t.spans[id]
	if s == nil {
		if len(t.spans) >= maxEngines {
			return nil
		}
		s = &spans{id: strings.Clone(id), first: now}
		t.spans[s.id] = s
	}
	s.add(names)
	return s
}

// Saw notes that a page was scraped.
func (t *Table) Saw(p Page, now time.Time) {
	t.mu.Lock()
	defer t.mu.Unlock()
	key := pageKey{p.Names, p.Addresses}
	known := t.pages[key]
	if known == nil {
		if len(t.pages) < maxEngines {
			t.pages[key] = &page{Page: p, seen: now}
		}
		return
	}
	if p.Finished > known.Finished {
		if !known.isBusy(now) {
			known.busySince = now
		}
		known.busy = now
	}
	known.Page, known.seen = p, now
}

// Matches returns the engines that had requests of late, and forgets those that
// are gone.
func (t *Table) Matches(now time.Time) []Match {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.forget(now)
	m := newMatching(t)
	out := make([]Match, 0, len(m.spans)+len(m.pages))
	for _, s := range m.spans {
		ranks := bits.OnesCount64(s.ranks.Load())
		pages := m.pagesOf(s)
		for _, p := range pages {
			m.joined[p] = true
			out = append(out, Match{
				Engine: s.id, Page: p.Label, State: Both,
				SpanRanks: ranks, PageRanks: bits.OnesCount64(p.Ranks), SetRanks: p.Set,
			})
		}
		if len(pages) == 0 && now.Sub(s.first) >= Patience {
			out = append(out, Match{Engine: s.id, State: stateOf(SpansOnly, s.keys(), m.pageKeys), SpanRanks: ranks})
		}
	}
	for _, p := range m.pages {
		if m.joined[p] || !p.isBusy(now) || now.Sub(p.busySince) < Patience {
			continue
		}
		out = append(out, Match{
			Page: p.Label, State: stateOf(PageOnly, p.Names.keys(), m.spanKeys),
			PageRanks: bits.OnesCount64(p.Ranks), SetRanks: p.Set,
		})
	}
	return out
}

// stateOf is only where each of the other side can be told from it.
func stateOf(only State, keys keySet, others map[keySet]bool) State {
	for other := range others {
		if other&keys == 0 {
			return Ambiguous
		}
	}
	return only
}

func (t *Table) forget(now time.Time) {
	for id, s := range t.spans {
		if now.UnixNano()-s.last.Load() >= int64(Recent) {
			delete(t.spans, id)
		}
	}
	for key, p := range t.pages {
		if now.Sub(p.seen) >= Recent {
			delete(t.pages, key)
		}
	}
}

// matching is one look at a table.
type matching struct {
	spans []*spans
	pages []*page
	// byName finds the page that has a name; pageKeys and spanKeys are the sets of
	// keys that occur.
	byName             map[name]*page
	pageKeys, spanKeys map[keySet]bool
	joined             map[*page]bool
}

func newMatching(t *Table) *matching {
	m := &matching{
		byName: make(map[name]*page), joined: make(map[*page]bool),
		pageKeys: make(map[keySet]bool), spanKeys: make(map[keySet]bool),
	}
	for _, s := range t.spans {
		// What comes before a sender's engine is known is no engine of its own.
		if s.id == "" && len(s.names) == 0 && len(t.spans) > 1 {
			continue
		}
		m.spans = append(m.spans, s)
		m.spanKeys[s.keys()] = true
	}
	for _, p := range t.pages {
		m.pages = append(m.pages, p)
		m.pageKeys[p.Names.keys()] = true
		m.index(p, &p.Names)
		m.index(p, &p.Addresses)
	}
	return m
}

func (m *matching) index(p *page, names *Names) {
	for key, value := range names {
		if value != "" {
			m.byName[name{key, value}] = p
		}
	}
}

// pagesOf returns the pages that share a name with an engine's spans; an engine on
// several nodes has several. Where there is one of each, as in an agent beside its
// engine, they belong together unless their names say otherwise.
func (m *matching) pagesOf(s *spans) []*page {
	var out []*page
	for _, n := range s.names {
		if p := m.byName[n]; p != nil && !slices.Contains(out, p) {
			out = append(out, p)
		}
	}
	if len(out) == 0 && len(m.spans) == 1 && len(m.pages) == 1 && m.pages[0].Names.keys()&s.keys() == 0 {
		return m.pages
	}
	return out
}
