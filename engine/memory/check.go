// Copyright The otelcol-sglang Authors
// SPDX-License-Identifier: Apache-2.0

package memory // import "github.com/otelcol-sglang/otelcol-sglang/engine/memory"

import (
	"fmt"

	"github.com/otelcol-sglang/otelcol-sglang/engine/kv"
	"github.com/otelcol-sglang/otelcol-sglang/engine/radix"
)

// Check implements [ledger.Memory]: the identity of each pool, the tree, and each
// page in one place. It walks all; for tests.
func (m *Memory) Check() error {
	if err := m.tree.Check(); err != nil {
		return err
	}
	for p, pool := range m.pools {
		if pool == nil {
			continue
		}
		if b := m.book(radix.Part(p)); !b.Balanced() {
			return fmt.Errorf("pool %d: %+v", p, b)
		}
		if err := m.audit(radix.Part(p)); err != nil {
			return err
		}
	}
	if m.checkpoints != nil {
		tree, _ := m.tree.Owned(radix.Mamba)
		if err := auditPages("checkpoints", m.checkpoints, tree); err != nil {
			return err
		}
	}
	return m.auditHost()
}

func (m *Memory) audit(p radix.Part) error {
	var private, parked, tree [][]int32
	for h := range m.holdings {
		private = append(private, h.pages[p])
	}
	m.sessions.Held(func(h *holding) { parked = append(parked, h.pages[p]) })
	if m.shared(p) {
		tree, _ = m.tree.Owned(p)
	}
	return m.pools[p].Audit(fmt.Sprintf("pool %d", p), private, parked, tree)
}

func (m *Memory) auditHost() error {
	if m.tier == nil {
		return nil
	}
	for p, pages := range m.tier.Host {
		if pages == nil {
			continue
		}
		_, tree := m.tree.Owned(radix.Part(p))
		if err := auditPages(fmt.Sprintf("host pool %d", p), pages, append(tree, m.tier.Owned(radix.Part(p))...)); err != nil {
			return err
		}
	}
	return nil
}

func auditPages(name string, pages *kv.Pages, owned [][]int32) error {
	a := pages.Audit(name)
	for _, o := range owned {
		a.Own("its owner", o)
	}
	return a.Err()
}
