// Copyright The otelcol-sglang Authors
// SPDX-License-Identifier: Apache-2.0

// Package memory is the KV memory of one scheduler: the device's pools, the prefix
// tree over them, the slots of streaming sessions, and the host and storage tiers below.
// It implements ledger.Memory.
package memory // import "github.com/otelcol-sglang/otelcol-sglang/engine/memory"

import (
	"errors"
	"fmt"
	"time"

	"github.com/otelcol-sglang/otelcol-sglang/engine/args"
	"github.com/otelcol-sglang/otelcol-sglang/engine/clock"
	"github.com/otelcol-sglang/otelcol-sglang/engine/hicache"
	"github.com/otelcol-sglang/otelcol-sglang/engine/kv"
	"github.com/otelcol-sglang/otelcol-sglang/engine/ledger"
	"github.com/otelcol-sglang/otelcol-sglang/engine/radix"
	"github.com/otelcol-sglang/otelcol-sglang/engine/session"
)

var _ ledger.Memory = (*Memory)(nil)

// Sizes are those of one scheduler's pools, per rank where they are bytes. Page
// size, write policy and the like are the engine's arguments.
type Sizes struct {
	// Tokens of the full-attention pool.
	Tokens        int
	BytesPerToken int64

	// Window is that of sliding-window layers in tokens, 0 for a model without.
	Window              int
	WindowTokens        int // capacity of their pool
	WindowBytesPerToken int64
	// WindowRings: each request has a ring of one window in that pool, and the prefix
	// tree has nothing there.
	WindowRings bool

	// States is the number of Mamba states, 0 for a model without.
	States     int
	StateBytes int64
	// Checkpoints, if not 0, are int8 states in a pool of their own, which the prefix
	// tree uses instead of States.
	Checkpoints int

	// HostTokens overrides what the arguments say; 0 does not.
	HostTokens int
	// Links are the speeds of transfers; zero for [hicache.DefaultLinks].
	Links hicache.Links
	// Storage is the storage backend's content, if there is a backend: shared by
	// schedulers, and by an engine and its successor. Nil makes one.
	Storage *hicache.Storage
}

// storageShare is the size of a storage tier that nobody passed, in host pools.
const storageShare = 16

// Memory implements [ledger.Memory]. It belongs to the loop's goroutine.
type Memory struct {
	a     *args.Args
	sizes Sizes
	loop  *clock.Loop
	rc    ledger.RadixCollector

	// pools are the device's; nil for those that the model has not.
	pools [radix.Parts]*kv.Pool
	// checkpoints are the tree's Mamba states where it does not share the pool.
	checkpoints *kv.Pages
	tree        *radix.Tree
	tier        *hicache.Tier // nil without a host tier
	sessions    *session.Table[*holding]

	// holdings are those of running requests.
	holdings map[*holding]struct{}
	path     []*radix.Node // scratch
	took     time.Duration
}

// New returns an empty memory.
func New(a *args.Args, s Sizes, loop *clock.Loop, rc ledger.RadixCollector, sc ledger.StorageCollector) (*Memory, error) {
	if err := validate(a, &s); err != nil {
		return nil, err
	}
	if s.Links == (hicache.Links{}) {
		s.Links = hicache.DefaultLinks()
	}
	m := &Memory{
		a: a, sizes: s, loop: loop, rc: rc,
		sessions: session.NewTable[*holding](), holdings: make(map[*holding]struct{}),
	}
	m.makePools()
	c := radix.Config{PageSize: a.PageSize}
	for p, pool := range m.pools {
		if pool != nil {
			c.Device[p] = pool.Pages
		}
	}
	if s.WindowRings {
		c.Device[radix.SWA], c.Tail = nil, s.Window
	} else {
		c.Window = s.Window
	}
	if m.checkpoints != nil {
		c.Device[radix.Mamba] = m.checkpoints
	}
	if a.EnableHierarchicalCache && !a.DisableRadixCache {
		c.Host, c.MinHost, c.Keep = m.hostPools(c.Device), hicache.LoadBackThreshold, m.keep
	}
	m.tree = radix.New(c)
	if c.Keep != nil {
		m.tier = m.newTier(c.Host, sc)
	}
	return m, nil
}

func validate(a *args.Args, s *Sizes) error {
	var errs []error
	if a.PageSize < 1 {
		errs = append(errs, fmt.Errorf("page_size must be at least 1 (got %d)", a.PageSize))
	} else if s.Tokens < a.PageSize {
		errs = append(errs, fmt.Errorf("a pool of %d tokens has no page of %d", s.Tokens, a.PageSize))
	}
	if s.Window > 0 && s.WindowTokens < s.Window {
		errs = append(errs, fmt.Errorf("the pool of the sliding window must hold one window of %d tokens (got %d)", s.Window, s.WindowTokens))
	}
	return errors.Join(errs...)
}

func (m *Memory) makePools() {
	s := &m.sizes
	m.pools[radix.Full] = kv.NewPool(s.Tokens, m.a.PageSize)
	if s.Window > 0 {
		m.pools[radix.SWA] = kv.NewPool(s.WindowTokens, m.a.PageSize)
	}
	if s.States > 0 {
		m.pools[radix.Mamba] = kv.NewPool(s.States, 1)
		if s.Checkpoints > 0 {
			m.checkpoints = kv.NewPages(s.Checkpoints, 1)
		}
	}
}

// hostPools are as large as the arguments say, with the same proportions as on the
// device.
func (m *Memory) hostPools(device [radix.Parts]*kv.Pages) (host [radix.Parts]*kv.Pages) {
	full := float64(device[radix.Full].Total() * m.a.PageSize)
	tokens := full * m.a.HiCacheRatio
	switch s := &m.sizes; {
	case s.HostTokens > 0:
		tokens = float64(s.HostTokens)
	case m.a.HiCacheSize > 0 && s.BytesPerToken > 0:
		tokens = float64(m.a.HiCacheSize) * 1e9 / float64(s.BytesPerToken)
	}
	for p, pages := range device {
		if pages != nil {
			size := float64(pages.Total()*pages.Size()) * tokens / full
			host[p] = kv.NewPages(int(size), pages.Size())
		}
	}
	return host
}

func (m *Memory) newTier(host [radix.Parts]*kv.Pages, sc ledger.StorageCollector) *hicache.Tier {
	s := &m.sizes
	c := hicache.Config{
		Host:        host,
		Bytes:       [radix.Parts]int64{s.BytesPerToken, s.WindowBytesPerToken, s.StateBytes},
		WritePolicy: m.a.HiCacheWritePolicy, PrefetchPolicy: m.a.HiCacheStoragePrefetch,
		Links: s.Links, Room: m.Room, Loop: m.loop, Radix: m.rc, Collector: sc,
	}
	if m.a.HiCacheStorageBackend != "" {
		c.Storage = s.Storage
		if c.Storage == nil {
			c.Storage = hicache.NewStorage(storageShare*host[radix.Full].Total()*m.a.PageSize, m.a.PageSize)
		}
	}
	return hicache.New(c, m.tree)
}

func (m *Memory) keep(n *radix.Node) bool { return m.tier.Keep(n) }

// root is the namespace of a request: the KV of an adapter is its own.
func (m *Memory) root(r *ledger.Request) *radix.Node { return m.tree.Root(r.LoRA) }

// Match implements [ledger.Memory].
func (m *Memory) Match(r *ledger.Request, tokens []int32) ledger.Prefix {
	if s := m.slot(r, tokens); s != nil {
		return ledger.Prefix{Device: len(s.Tokens), Ready: true}
	}
	if m.a.DisableRadixCache || len(tokens) == 0 {
		return ledger.Prefix{Ready: true, Node: m.root(r)}
	}
	// The last token is computed in any case, for its logits.
	limit := len(tokens) - 1
	match := m.tree.Match(m.root(r), tokens[:limit])
	p := ledger.Prefix{Device: match.Device, Host: match.Host, Ready: true, Node: match.Node}
	if m.tier != nil {
		p.Storage = m.tier.Stored(r, match)
		p.Host -= p.Storage
		m.tier.Prefetch(r, match, tokens, limit)
		p.Ready = m.tier.Ready(r)
	}
	return p
}

// Room implements [ledger.Memory]: of the full and the sliding-window pool, that
// which has less.
func (m *Memory) Room() int {
	room := m.room(radix.Full)
	if m.pools[radix.SWA] != nil && !m.sizes.WindowRings {
		room = min(room, m.room(radix.SWA))
	}
	return room * m.a.PageSize
}

// room is the pages that could be handed out, in the book's sense: what is
// evictable, unless the tree has a pool of its own.
func (m *Memory) room(p radix.Part) int { return m.pools[p].Free() + m.evictable(p) }

func (m *Memory) evictable(p radix.Part) int {
	if !m.shared(p) {
		return 0
	}
	return m.tree.Evictable(p)
}

// shared tells whether requests and the tree use one pool.
func (m *Memory) shared(p radix.Part) bool {
	return m.pools[p] != nil && m.tree.Device[p] == m.pools[p].Pages
}

// Reserve implements [ledger.Memory].
func (m *Memory) Reserve(tokens int) bool {
	need := m.reservation(tokens)
	if !m.ensure(need) {
		return false
	}
	for p, n := range need {
		if n > 0 {
			m.pools[p].Reserve(n)
		}
	}
	return true
}

// Unreserve implements [ledger.Memory].
func (m *Memory) Unreserve(tokens int) {
	for p, n := range m.reservation(tokens) {
		if n > 0 {
			m.pools[p].Unreserve(n)
		}
	}
}

// reservation is what a request of so many tokens takes once it has arrived.
func (m *Memory) reservation(tokens int) (need [radix.Parts]int) {
	need[radix.Full] = m.pools[radix.Full].Round(tokens)
	if swa := m.pools[radix.SWA]; swa != nil {
		need[radix.SWA] = swa.Round(min(tokens, m.sizes.Window))
	}
	if m.pools[radix.Mamba] != nil {
		need[radix.Mamba] = 1
	}
	return need
}

// Books implements [ledger.Memory].
func (m *Memory) Books() (full, swa, mamba ledger.Pool) {
	return m.book(radix.Full), m.book(radix.SWA), m.book(radix.Mamba)
}

func (m *Memory) book(p radix.Part) ledger.Pool {
	if m.pools[p] == nil {
		return ledger.Pool{}
	}
	locked := 0
	if m.shared(p) {
		locked = m.tree.Locked(p)
	}
	return m.pools[p].Book(m.evictable(p), locked)
}

// Host implements [ledger.Memory].
func (m *Memory) Host() *ledger.HostPool {
	if m.tier == nil {
		return nil
	}
	return m.tier.Book()
}

// Took implements [ledger.Memory].
func (m *Memory) Took() time.Duration {
	d := m.took
	m.took = 0
	if m.tier != nil {
		d += m.tier.Took()
	}
	return d
}

// Forget implements [ledger.Memory].
func (m *Memory) Forget(r *ledger.Request) {
	if m.tier != nil {
		m.tier.Forget(r)
	}
}

// Flush implements [ledger.Memory]. Storage stays, as does what runs.
func (m *Memory) Flush() {
	if m.tier != nil {
		m.tier.Cancel()
	}
	m.tree.Flush()
}

// SqueezeHost takes so many tokens of host memory away from the cache, 0 gives all
// back: hits then drift to storage. It returns what it got.
func (m *Memory) SqueezeHost(tokens int) int {
	if m.tier == nil {
		return 0
	}
	return m.tier.Squeeze(tokens)
}

// Sessions are the streaming sessions, nil where they are off.
func (m *Memory) Sessions() *ledger.Sessions {
	if !m.a.EnableStreamingSession {
		return nil
	}
	return &ledger.Sessions{Open: m.sessions.Open(), HeldTokens: m.pools[radix.Full].Parked() * m.a.PageSize}
}
