// Copyright The otelcol-sglang Authors
// SPDX-License-Identifier: Apache-2.0

package hicache // import "github.com/otelcol-sglang/otelcol-sglang/engine/hicache"

import (
	"time"

	"github.com/otelcol-sglang/otelcol-sglang/engine/radix"
	"github.com/otelcol-sglang/otelcol-sglang/internal/sglang"
)

// Touched tells of nodes that a request hit or made, parents first. Those that the
// write policy picks are backed up; the path stays locked until they are.
func (t *Tier) Touched(path []*radix.Node) {
	if t.WritePolicy == sglang.WriteBack {
		return
	}
	least := 1
	if t.WritePolicy == sglang.WriteThroughSelective {
		least = 2
	}
	for _, n := range path {
		if n.Hit() >= least && !n.Backed() && n.OnDevice(radix.Full) && n.Parent().Backed() {
			t.writeThrough(n)
		}
	}
}

func (t *Tier) writeThrough(n *radix.Node) {
	moved, ok := t.copyToHost(n)
	if !ok {
		return
	}
	op := t.tree.StartBackup(n)
	lock := t.tree.Lock(n)
	began := t.Loop.Now()
	t.Loop.At(t.backup.carry(began, t.total(moved)), func() {
		t.report(moved, t.Loop.Now()-began, t.Radix.BackedUp)
		t.tree.Unlock(&lock)
		t.tree.EndBackup(op)
		for _, n := range op.Nodes {
			t.store(n)
		}
	})
}

// copyToHost gives n host pages for what it has on the device. The parts beside KV
// go without a copy if their pool is full.
func (t *Tier) copyToHost(n *radix.Node) (moved [radix.Parts]int, ok bool) {
	if !t.makeRoom(n.Pages(radix.Full)) {
		return moved, false
	}
	for p := range radix.Parts {
		if pool := t.Host[p]; pool != nil && n.OnDevice(p) && pool.Free() >= n.Pages(p) {
			moved[p] = n.Pages(p)
			t.tree.SetHost(n, p, pool.Append(nil, moved[p]))
		}
	}
	return moved, true
}

// Keep says whether a node that leaves the device stays on the host. Under
// write_back the copy is made here, while the scheduler waits.
func (t *Tier) Keep(n *radix.Node) bool {
	if n.OnHost(radix.Full) {
		return true
	}
	if t.WritePolicy != sglang.WriteBack {
		t.Radix.Dropped(sglang.DropUnbackedEviction, sglang.PoolKV, n.Len())
		return false
	}
	moved, ok := t.copyToHost(n)
	if !ok {
		t.Radix.Dropped(sglang.DropHostPressure, sglang.PoolKV, n.Len())
		return false
	}
	d := t.backup.length(t.total(moved))
	t.took += d
	t.report(moved, d, t.Radix.BackedUp)
	t.store(n)
	return true
}

// LoadedBack tells of pages (states) that went from the host to the device.
func (t *Tier) LoadedBack(moved [radix.Parts]int) {
	began := t.Loop.Now()
	d := t.load.carry(began, t.total(moved)) - began
	t.took += d
	t.report(moved, d, t.Radix.LoadedBack)
}

// maxBacklog is how far writes to storage may lag behind; what would wait longer is
// not written.
const maxBacklog = 2 * time.Second

// store writes a node that the host has to storage.
func (t *Tier) store(n *radix.Node) {
	if t.Storage == nil || n.Dead() {
		return
	}
	t.tokens = n.Tokens(t.tokens[:0])
	pages := t.Storage.missing(t.hashes(n.Extra(), t.tokens), n.Start()/t.Storage.unit)
	if len(pages) == 0 {
		return
	}
	tokens := len(pages) * t.Storage.unit
	now := t.Loop.Now()
	if t.write.free-now > maxBacklog {
		t.Collector.BackupDropped(tokens)
		return
	}
	// The aux flags are of the moment: the host copy does not change while locked.
	has := contents{window: n.OnHost(radix.SWA), state: n.OnHost(radix.Mamba) && n.End()%t.Storage.unit == 0}
	bytes := int64(tokens) * t.Bytes[radix.Full]
	t.tree.LockHost(n)
	t.Loop.At(t.write.carry(now, bytes), func() {
		if n.Dead() {
			t.Collector.BackupDropped(tokens)
			return
		}
		t.tree.UnlockHost(n)
		t.Storage.put(pages, has)
		t.Collector.BackedUp(tokens, len(pages), bytes, t.Loop.Now()-now)
	})
}
