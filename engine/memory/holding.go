// Copyright The otelcol-sglang Authors
// SPDX-License-Identifier: Apache-2.0

package memory // import "github.com/otelcol-sglang/otelcol-sglang/engine/memory"

import (
	"slices"
	"time"

	"github.com/otelcol-sglang/otelcol-sglang/engine/kv"
	"github.com/otelcol-sglang/otelcol-sglang/engine/ledger"
	"github.com/otelcol-sglang/otelcol-sglang/engine/radix"
	"github.com/otelcol-sglang/otelcol-sglang/engine/session"
)

// holding is what one request holds: a lock on its prefix in the tree, and pages of
// its own for the tokens after it.
type holding struct {
	r       *ledger.Request
	session string // whose slot keeps its KV, "" for none
	slot    *session.Slot[*holding]
	before  []int32 // tokens of the slot when its turn began
	lock    radix.Lock
	prefix  int // tokens in the tree, whole pages
	alloc   int // tokens with memory, in all
	touched int // tokens whose nodes the write policy has been told of
	pages   [radix.Parts][]int32
	slid    int // leading pages of its own that the sliding window left
}

// Private is the request's own tokens: its page-aligned allocation without the
// prefix that the tree protects. It says what a session would keep; the pools' books
// go by pages.
func (m *Memory) Private(h ledger.Holding) int {
	return len(h.(*holding).pages[radix.Full]) * m.a.PageSize
}

// Allocated is the tokens that a request has memory for, those of its prefix included.
func (m *Memory) Allocated(h ledger.Holding) int { return h.(*holding).alloc }

// Begin implements [ledger.Memory].
func (m *Memory) Begin(r *ledger.Request, tokens []int32, p ledger.Prefix, extra int) (ledger.Holding, bool) {
	h, ok := m.begin(r, tokens, p, extra)
	if !ok {
		return nil, false
	}
	m.holdings[h] = struct{}{}
	if m.tier != nil {
		m.tier.Begun(r, p)
	}
	return h, true
}

func (m *Memory) begin(r *ledger.Request, tokens []int32, p ledger.Prefix, extra int) (*holding, bool) {
	if s := m.slot(r, tokens); s != nil {
		return m.resume(s, r, p, extra)
	}
	total := p.Device + p.Host + p.Storage
	node := m.root(r)
	if total > 0 {
		match := m.tree.At(node, tokens[:total])
		if match.Device+match.Host != total {
			return nil, false
		}
		node = match.Node
	}
	h := &holding{r: r, lock: m.tree.Lock(node), prefix: total, alloc: total}
	load := m.tree.Missing(node)
	if !m.canCheckpoint(load[radix.Mamba]) || !m.ensure(m.needs(h, extra, load)) {
		m.tree.Unlock(&h.lock)
		return nil, false
	}
	if load != ([radix.Parts]int{}) {
		m.makeCheckpoints(load[radix.Mamba])
		m.tree.Load(node)
		m.tier.LoadedBack(load)
	}
	m.openSession(h)
	m.grow(h, extra)
	m.touch(h, node)
	return h, true
}

// needs are the pages of a request that begins: its own and those to load back.
func (m *Memory) needs(h *holding, extra int, load [radix.Parts]int) [radix.Parts]int {
	need := m.growth(h, extra)
	for p, n := range load {
		if m.shared(radix.Part(p)) {
			need[p] += n
		}
	}
	return need
}

// canCheckpoint tells whether there is room for states to load back, where they have
// a pool of their own.
func (m *Memory) canCheckpoint(n int) bool {
	return m.checkpoints == nil || m.checkpoints.Free()+m.tree.Evictable(radix.Mamba) >= n
}

func (m *Memory) makeCheckpoints(n int) {
	if m.checkpoints != nil && m.checkpoints.Free() < n {
		m.tree.Evict(radix.Mamba, n-m.checkpoints.Free())
	}
}

// Extend implements [ledger.Memory].
func (m *Memory) Extend(held ledger.Holding, n int) bool {
	h := held.(*holding)
	m.slide(h)
	if !m.ensure(m.growth(h, n)) {
		return false
	}
	m.grow(h, n)
	return true
}

// growth is the pages that n more tokens take.
func (m *Memory) growth(h *holding, n int) (need [radix.Parts]int) {
	pages := m.pools[radix.Full].Round(h.alloc+n-h.prefix) - len(h.pages[radix.Full])
	need[radix.Full] = max(0, pages)
	switch swa := m.pools[radix.SWA]; {
	case swa == nil:
	case m.sizes.WindowRings:
		ring := swa.Round(min(m.sizes.Window, h.alloc+n))
		need[radix.SWA] = max(0, ring-len(h.pages[radix.SWA]))
	default:
		need[radix.SWA] = need[radix.Full]
	}
	if m.pools[radix.Mamba] != nil && len(h.pages[radix.Mamba]) == 0 {
		need[radix.Mamba] = 1
	}
	return need
}

// grow gives the request what growth says; there is room.
func (m *Memory) grow(h *holding, n int) {
	for p, pages := range m.growth(h, n) {
		if pages > 0 {
			h.pages[p] = m.pools[p].Take(h.pages[p], pages)
		}
	}
	h.alloc += n
}

// Cost of an eviction on the scheduler's thread: walking and freeing.
const (
	evictionBase    = 500 * time.Microsecond
	evictionPerNode = 30 * time.Microsecond
	evictionPerPage = time.Microsecond
)

// ensure evicts until so many pages of each part are free; false, and nothing
// evicted, if that cannot be.
func (m *Memory) ensure(need [radix.Parts]int) bool {
	short := false
	for p, n := range need {
		if n > 0 && n > m.pools[p].Free() {
			if n > m.room(radix.Part(p)) {
				return false
			}
			short = true
		}
	}
	if short {
		m.evict(need)
	}
	return true
}

func (m *Memory) evict(need [radix.Parts]int) {
	var sum radix.Evicted
	for p, n := range need {
		if n == 0 || n <= m.pools[p].Free() {
			continue
		}
		e := m.tree.Evict(radix.Part(p), n-m.pools[p].Free())
		sum.Tokens += e.Tokens
		sum.Nodes += e.Nodes
	}
	d := evictionBase + time.Duration(sum.Nodes)*evictionPerNode +
		time.Duration(sum.Tokens/m.a.PageSize)*evictionPerPage
	m.took += d
	m.rc.Evicted(sum.Tokens, d)
}

// slide frees what the sliding window has left behind. All that is allocated has
// been computed when more is asked for.
func (m *Memory) slide(h *holding) {
	swa := m.pools[radix.SWA]
	if swa == nil || m.sizes.WindowRings {
		return
	}
	gone := (h.alloc - m.sizes.Window - h.prefix) / m.a.PageSize
	if gone > h.slid {
		swa.Give(h.pages[radix.SWA][h.slid:gone])
		for ; h.slid < gone; h.slid++ {
			h.pages[radix.SWA][h.slid] = kv.Hole
		}
	}
	if h.alloc-h.prefix >= m.sizes.Window {
		m.tree.UnlockWindow(&h.lock)
	}
}

// Cache implements [ledger.Memory].
func (m *Memory) Cache(held ledger.Holding, tokens []int32) {
	h := held.(*holding)
	if m.a.DisableRadixCache {
		return
	}
	m.insert(h, tokens, m.checkpoint())
}

// checkpoint is a Mamba state of the tree's for a copy of a request's; none if there
// is no room.
func (m *Memory) checkpoint() []int32 {
	pages := m.tree.Device[radix.Mamba]
	if pages == nil {
		return nil
	}
	if pages.Free() == 0 {
		m.tree.Evict(radix.Mamba, 1)
	}
	if pages.Free() == 0 {
		return nil
	}
	return pages.Append(nil, 1)
}

// insert gives the tree the request's whole pages up to the end of tokens, and moves
// the lock there. The state is the tree's.
func (m *Memory) insert(h *holding, tokens []int32, state []int32) {
	end := max(h.prefix, m.tree.Aligned(min(len(tokens), h.alloc)))
	n := (end - h.prefix) / m.a.PageSize
	run := radix.Run{Tokens: tokens[h.prefix:end]}
	run.Pages[radix.Mamba] = state
	for _, p := range [...]radix.Part{radix.Full, radix.SWA} {
		if m.shared(p) {
			run.Pages[p] = h.pages[p][:n:n]
			h.pages[p] = h.pages[p][n:]
			m.pools[p].HandOver(kv.Count(run.Pages[p]))
		}
	}
	h.slid = max(0, h.slid-n)
	node := m.tree.Insert(h.lock.Node, run)
	lock := m.tree.Lock(node)
	m.tree.Unlock(&h.lock)
	h.lock, h.prefix = lock, end
	m.touch(h, node)
}

// touch tells the write policy of the nodes from h.touched on through node.
func (m *Memory) touch(h *holding, node *radix.Node) {
	if m.tier == nil {
		return
	}
	m.path = m.path[:0]
	for n := node; n.Parent() != nil && n.Start() >= h.touched; n = n.Parent() {
		m.path = append(m.path, n)
	}
	slices.Reverse(m.path)
	h.touched = node.End()
	m.tier.Touched(m.path)
}

// Finish implements [ledger.Memory].
func (m *Memory) Finish(held ledger.Holding, tokens []int32) {
	h := held.(*holding)
	delete(m.holdings, h)
	if h.slot != nil && m.park(h, tokens) {
		return
	}
	if !m.a.DisableRadixCache {
		m.insert(h, tokens, m.lastState(h))
	}
	m.free(h)
}

// lastState is the request's state, which becomes the tree's, or a checkpoint of it.
func (m *Memory) lastState(h *holding) []int32 {
	if !m.shared(radix.Mamba) {
		return m.checkpoint()
	}
	state := h.pages[radix.Mamba]
	m.pools[radix.Mamba].HandOver(len(state))
	h.pages[radix.Mamba] = nil
	return state
}

// Release implements [ledger.Memory].
func (m *Memory) Release(held ledger.Holding) {
	h := held.(*holding)
	delete(m.holdings, h)
	if h.slot != nil {
		if m.rollBack(h) {
			return
		}
		m.sessions.Drop(h.session, h.slot)
	}
	m.free(h)
}

// free gives back what a holding has.
func (m *Memory) free(h *holding) {
	for p, pages := range h.pages {
		if len(pages) > 0 {
			m.pools[p].Give(pages)
		}
	}
	m.tree.Unlock(&h.lock)
	*h = holding{}
}
