// Copyright The otelcol-sglang Authors
// SPDX-License-Identifier: Apache-2.0

package hicache // import "github.com/otelcol-sglang/otelcol-sglang/engine/hicache"

import (
	"cmp"
	"slices"
	"time"

	"github.com/otelcol-sglang/otelcol-sglang/engine/ledger"
	"github.com/otelcol-sglang/otelcol-sglang/engine/radix"
	"github.com/otelcol-sglang/otelcol-sglang/internal/sglang"
)

const (
	batchPages = 128 // read from storage at once
	retryAfter = 50 * time.Millisecond
	maxRetries = 20
	// The timeout policy waits a base and something per 1,024 tokens.
	timeoutBase = time.Second
	timeoutPerK = 250 * time.Millisecond
	queryTime   = time.Millisecond
)

type prefetchState uint8

const (
	querying prefetchState = iota
	waiting                // for room
	reading
	done
)

// prefetch brings what storage has of one request's prompt to the host. Each token
// that the query hit ends up in exactly one place: a reason of lost, or read; and
// what was read is used when the request begins, or lost as well.
type prefetch struct {
	r      *ledger.Request
	seq    uint64
	anchor *radix.Node // what the next batch goes below
	locked bool        // anchor, on the host
	from   int         // first token
	tokens []int32     // of the prompt from there on, up to the last whole page
	hashes []uint64    // pages of the storage that cover them
	state  prefetchState
	began  time.Duration

	left  int // tokens hit and neither lost nor read
	read  int
	tries int
	waits string               // why it waits
	pages [radix.Parts][]int32 // host pages of what is left
}

// Prefetch starts a prefetch for a request that waits, once, if the tree leaves
// enough of its tokens open. Limit is the number of tokens that could be cached.
func (t *Tier) Prefetch(r *ledger.Request, m radix.Match, tokens []int32, limit int) {
	if t.Storage == nil || t.prefetches[r] != nil {
		return
	}
	from, unit := m.Device+m.Host, t.Storage.unit
	if limit-from < PrefetchThreshold {
		return
	}
	to := limit / unit * unit
	t.made++
	p := &prefetch{r: r, seq: t.made, anchor: m.Node, from: from, began: t.Loop.Now()}
	p.hashes = t.hashes(m.Node.Extra(), tokens[:to])[from/unit:]
	p.tokens = slices.Clone(tokens[from:to])
	t.prefetches[r] = p
	t.Loop.After(queryTime, func() { t.queried(p) })
}

// Ready is false while the request should wait for its prefetch.
func (t *Tier) Ready(r *ledger.Request) bool {
	p := t.prefetches[r]
	return p == nil || p.state == done || t.PrefetchPolicy == sglang.PrefetchBestEffort
}

// Stored is how many of the host's tokens of a match the request's own prefetch
// brought.
func (t *Tier) Stored(r *ledger.Request, m radix.Match) int {
	p := t.prefetches[r]
	if p == nil {
		return 0
	}
	return max(0, min(p.read, m.Host, m.Device+m.Host-p.from))
}

// Begun says with which prefix the request begins: a prefetch that still runs is
// stopped.
func (t *Tier) Begun(r *ledger.Request, prefix ledger.Prefix) {
	p := t.prefetches[r]
	if p == nil {
		return
	}
	t.finish(p, p.whyUnread())
	unused := p.read - prefix.Storage
	covered := max(0, min(unused, prefix.Device-p.from))
	t.lose(sglang.UnfulfilledDeviceCovered, covered)
	t.lose(sglang.UnfulfilledAdmissionShortfall, unused-covered)
	delete(t.prefetches, r)
}

// Forget drops the prefetch of a request that never begins.
func (t *Tier) Forget(r *ledger.Request) {
	if p := t.prefetches[r]; p != nil {
		t.finish(p, sglang.UnfulfilledDropped)
		t.lose(sglang.UnfulfilledDropped, p.read)
		delete(t.prefetches, r)
	}
}

// Cancel stops all prefetches, as a flush does; what they read is gone.
func (t *Tier) Cancel() {
	ps := make([]*prefetch, 0, len(t.prefetches))
	for _, p := range t.prefetches {
		ps = append(ps, p)
	}
	slices.SortFunc(ps, func(a, b *prefetch) int { return cmp.Compare(a.seq, b.seq) })
	for _, p := range ps {
		t.Forget(p.r)
	}
}

func (p *prefetch) whyUnread() string {
	if p.state == waiting {
		return p.waits
	}
	return sglang.UnfulfilledDeadline
}

func (t *Tier) lose(reason string, tokens int) {
	if tokens > 0 {
		t.Collector.Unfulfilled(reason, tokens)
	}
}

// giveUp loses the last tokens of what is left.
func (t *Tier) giveUp(p *prefetch, reason string, tokens int) {
	p.left -= tokens
	t.lose(reason, tokens)
}

// queried knows what storage has.
func (t *Tier) queried(p *prefetch) {
	if p.state == done {
		return
	}
	unit := t.Storage.unit
	hits := t.Storage.leading(p.hashes)
	tokens := func(pages int) int { return max(0, (p.from/unit+pages)*unit-p.from) }
	p.left = tokens(hits)
	if p.left == 0 {
		p.state = done
		return
	}
	t.Collector.Hit(p.left)
	usable := hits
	if t.aux() {
		window := (t.tree.Window + unit - 1) / unit
		usable = t.Storage.usable(p.hashes[:hits], window, t.Host[radix.Mamba] != nil)
	}
	t.giveUp(p, sglang.UnfulfilledAuxWindowTrim, p.left-tokens(usable))
	if p.left < PrefetchThreshold {
		t.finish(p, sglang.UnfulfilledBelowThreshold)
		return
	}
	p.hashes, p.tokens = p.hashes[:usable], p.tokens[:p.left]
	t.allocate(p)
}

func (t *Tier) aux() bool { return t.Host[radix.SWA] != nil || t.Host[radix.Mamba] != nil }

// allocate takes host pages for what is left, or waits for them.
func (t *Tier) allocate(p *prefetch) {
	if p.state == done {
		return
	}
	full := t.Host[radix.Full]
	pages := full.Round(p.left)
	t.hold(p)
	switch {
	case t.Room() < p.left:
		t.wait(p, sglang.DeferredDeviceCapacity)
	// Prefetches may have half of the host, so that backups have the other.
	case t.inFlight+p.left > full.Total()*full.Size()/2, !t.makeRoom(pages):
		t.wait(p, sglang.DeferredHostCapacity)
	case !t.allocateAux(p, pages):
		t.Collector.AuxAllocFailed(p.left)
		t.finish(p, sglang.UnfulfilledHostCapacity)
	default:
		p.pages[radix.Full] = full.Append(nil, pages)
		t.inFlight += p.left
		p.state = reading
		t.startDeadline(p)
		t.readBatch(p)
	}
}

// hold keeps the anchor on the host, if it is there.
func (t *Tier) hold(p *prefetch) {
	if !p.locked {
		p.locked = true
		t.tree.LockHost(p.anchor)
	}
}

// wait tries again later; the reasons to wait and to give up have the same names.
func (t *Tier) wait(p *prefetch, reason string) {
	p.state, p.waits = waiting, reason
	p.tries++
	if p.tries > maxRetries {
		t.finish(p, reason)
		return
	}
	t.Collector.Deferred(reason, p.left)
	t.Loop.After(retryAfter, func() { t.allocate(p) })
}

// allocateAux takes host pages for the last pages that have a window, and a state.
func (t *Tier) allocateAux(p *prefetch, pages int) bool {
	size := t.Host[radix.Full].Size()
	swa, mamba := t.Host[radix.SWA], t.Host[radix.Mamba]
	windowed := min(pages, t.Storage.windowed(p.hashes)*t.Storage.unit/size)
	if swa != nil && swa.Free() < windowed || mamba != nil && mamba.Free() < 1 {
		return false
	}
	if swa != nil && windowed > 0 {
		p.pages[radix.SWA] = swa.Append(make([]int32, pages-windowed), windowed)
	}
	if mamba != nil {
		p.pages[radix.Mamba] = mamba.Append(nil, 1)
	}
	return true
}

func (t *Tier) startDeadline(p *prefetch) {
	if t.PrefetchPolicy != sglang.PrefetchTimeout {
		return
	}
	after := timeoutBase + timeoutPerK*time.Duration(p.left)/1024
	t.Loop.After(after, func() { t.finish(p, sglang.UnfulfilledDeadline) })
}

// readBatch reads the next pages. With a window or a state, which are of use only at
// the end, all are read at once.
func (t *Tier) readBatch(p *prefetch) {
	n := min(len(p.hashes), batchPages)
	if t.aux() {
		n = len(p.hashes)
	}
	bytes := int64(n*t.Storage.unit) * t.Bytes[radix.Full]
	t.Loop.At(t.read.carry(t.Loop.Now(), bytes), func() { t.landed(p, n) })
}

// landed has n pages of storage on the host.
func (t *Tier) landed(p *prefetch, n int) {
	if p.state == done {
		return
	}
	there := t.Storage.leading(p.hashes[:n])
	if there < n && t.aux() {
		there = 0
	}
	if reason := t.insert(p, there); reason != "" {
		t.finish(p, reason)
		return
	}
	if there < n {
		t.finish(p, sglang.UnfulfilledStorageTransfer)
		return
	}
	if len(p.hashes) == 0 {
		t.finish(p, "")
		return
	}
	t.readBatch(p)
}

// insert puts n pages of storage into the tree. A reason says why it could not.
func (t *Tier) insert(p *prefetch, n int) string {
	switch {
	case p.anchor.Dead():
		return sglang.UnfulfilledAnchorLost
	case t.WritePolicy != sglang.WriteBack && !p.anchor.Backed():
		return sglang.UnfulfilledDropped
	case n == 0:
		return ""
	}
	unit := t.Storage.unit
	at := p.anchor.End()
	size := (at/unit+n)*unit - at
	run := p.take(size, t.Host[radix.Full].Size())
	node, had := t.tree.InsertHost(p.anchor, run)
	t.tree.LockHost(node)
	t.tree.UnlockHost(p.anchor)
	p.anchor, p.hashes = node, p.hashes[n:]
	p.left -= size
	p.read += size - had.Device
	t.inFlight -= size
	if had.Device == size {
		t.lose(sglang.UnfulfilledDeviceCovered, had.Device)
	} else {
		t.lose(sglang.UnfulfilledDeviceOverlap, had.Device)
	}
	return ""
}

// take cuts the first tokens off with their pages; the state goes with the last.
func (p *prefetch) take(size, pageSize int) radix.Run {
	run := radix.Run{Tokens: p.tokens[:size]}
	p.tokens = p.tokens[size:]
	for _, part := range [...]radix.Part{radix.Full, radix.SWA} {
		if pages := p.pages[part]; pages != nil {
			run.Pages[part], p.pages[part] = pages[:size/pageSize:size/pageSize], pages[size/pageSize:]
		}
	}
	if len(p.tokens) == 0 {
		run.Pages[radix.Mamba], p.pages[radix.Mamba] = p.pages[radix.Mamba], nil
	}
	return run
}

// finish ends a prefetch; what is left is lost for the reason.
func (t *Tier) finish(p *prefetch, reason string) {
	if p.state == done {
		return
	}
	if p.state == reading {
		t.inFlight -= p.left
	}
	p.state = done
	t.giveUp(p, reason, p.left)
	for part, pages := range p.pages {
		if len(pages) > 0 {
			t.Host[part].Return(pages)
		}
	}
	p.pages = [radix.Parts][]int32{}
	if p.locked {
		t.tree.UnlockHost(p.anchor)
	}
	if p.read > 0 {
		pages := (p.read + t.Storage.unit - 1) / t.Storage.unit
		t.Collector.Prefetched(p.read, pages, int64(p.read)*t.Bytes[radix.Full], t.Loop.Now()-p.began)
	}
}

// Owned are the host pages of a part that are in no tree.
func (t *Tier) Owned(part radix.Part) [][]int32 {
	var all [][]int32
	for _, p := range t.prefetches {
		all = append(all, p.pages[part])
	}
	if part == radix.Full {
		all = append(all, t.squeezed)
	}
	return all
}
