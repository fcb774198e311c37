// Copyright The otelcol-sglang Authors
// SPDX-License-Identifier: Apache-2.0

package memory // import "github.com/otelcol-sglang/otelcol-sglang/engine/memory"

import (
	"time"

	"github.com/otelcol-sglang/otelcol-sglang/engine/kv"
	"github.com/otelcol-sglang/otelcol-sglang/engine/ledger"
	"github.com/otelcol-sglang/otelcol-sglang/engine/radix"
	"github.com/otelcol-sglang/otelcol-sglang/engine/session"
)

// slot is what a request goes on from, if it continues its session: the KV of a
// session is of one adapter.
func (m *Memory) slot(r *ledger.Request, tokens []int32) *session.Slot[*holding] {
	s := m.sessions.Continues(r.Session, tokens)
	if s == nil || s.Held.lock.Node.Extra() != r.LoRA {
		return nil
	}
	return s
}

// openSession starts a turn, unless one runs already. A slot that the prompt does
// not go on from is given up.
func (m *Memory) openSession(h *holding) {
	id := h.r.Session
	if !m.a.EnableStreamingSession || id == "" || m.sessions.Busy(id) {
		return
	}
	slot, old, idle := m.sessions.Start(id)
	h.session, h.slot = id, slot
	if idle {
		m.unpark(old)
		m.free(old)
	}
}

// resume goes on with what a slot holds: there is no match in the tree.
func (m *Memory) resume(s *session.Slot[*holding], r *ledger.Request, p ledger.Prefix, extra int) (*holding, bool) {
	h := s.Held
	if p.Device != h.alloc {
		return nil, false
	}
	if !m.ensure(m.growth(h, extra)) {
		return nil, false
	}
	h.before = s.Tokens
	h.slot, _, _ = m.sessions.Start(r.Session)
	m.unpark(h)
	h.r = r
	m.grow(h, extra)
	return h, true
}

// sessionIdle is how long a slot waits for the next turn.
const sessionIdle = 2 * time.Minute

// park leaves the request's KV of these tokens in its session's slot; false if the
// session is gone.
func (m *Memory) park(h *holding, tokens []int32) bool {
	tokens = tokens[:min(len(tokens), h.alloc)]
	if len(tokens) < h.prefix || !m.sessions.End(h.session, h.slot, tokens, h, m.loop.Now()) {
		return false
	}
	m.trim(h, len(tokens))
	for p, pages := range h.pages {
		if m.pools[p] != nil {
			m.pools[p].Park(kv.Count(pages))
		}
	}
	h.r, h.slot, h.before = nil, nil, nil
	m.loop.After(sessionIdle, m.closeIdleSessions)
	return true
}

// rollBack leaves the slot as it was before a turn that failed; false if that cannot
// be: a window that has moved on and a state that has changed do not come back.
func (m *Memory) rollBack(h *holding) bool {
	if m.pools[radix.SWA] != nil || m.pools[radix.Mamba] != nil || len(h.before) == 0 {
		return false
	}
	return m.park(h, h.before)
}

func (m *Memory) unpark(h *holding) {
	for p, pages := range h.pages {
		if m.pools[p] != nil {
			m.pools[p].Unpark(kv.Count(pages))
		}
	}
}

// trim gives back what was allocated beyond so many tokens.
func (m *Memory) trim(h *holding, tokens int) {
	keep := m.pools[radix.Full].Round(tokens - h.prefix)
	for _, p := range [...]radix.Part{radix.Full, radix.SWA} {
		if pages := h.pages[p]; keep < len(pages) && m.shared(p) {
			m.pools[p].Give(pages[keep:])
			h.pages[p] = pages[:keep]
		}
	}
	h.alloc = tokens
	h.slid = min(h.slid, keep)
}

// CloseSession frees what a session holds.
func (m *Memory) CloseSession(id string) {
	if h, idle := m.sessions.Close(id); idle {
		m.unpark(h)
		m.free(h)
	}
}

func (m *Memory) closeIdleSessions() {
	for _, id := range m.sessions.Stale(m.loop.Now() - sessionIdle) {
		m.CloseSession(id)
	}
}
