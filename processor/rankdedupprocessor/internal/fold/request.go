// Copyright The otelcol-sglang Authors
// SPDX-License-Identifier: Apache-2.0

package fold // import "github.com/otelcol-sglang/otelcol-sglang/processor/rankdedupprocessor/internal/fold"

import (
	"cmp"
	"math/bits"
	"slices"
	"time"

	"github.com/otelcol-sglang/otelcol-sglang/internal/sglang"
	"github.com/otelcol-sglang/otelcol-sglang/processor/rankdedupprocessor/internal/identity"
)

// request is a root span that was seen.
type request struct {
	id   uint64
	item *Item // nil once it left
	own  bool  // see Span.Own
	left int64 // when it left, unix ns
	// start and end are the span's, unix ns.
	start, end int64
}

// takeThread decides a thread span.
func (t *trace) takeThread(now int64, sp *Span, o Origin, th sglang.Thread) (Verdict, *Item) {
	if o.Proc == nil || !identity.Foldable(th) || t.crowded(sp.ID) {
		return t.takeSingle(sp, o)
	}
	l := t.threadOf(sp, o)
	rank := o.Proc.Ranks.TP
	defer t.placeKnown(now, sp.ID)
	if _, named := t.passed[sp.ID]; named && l.nameAs(sp.ID) != sp.ID {
		l.spread.add(rank, sp.End)
		return t.passUnfolded(sp), nil
	}
	if l.done {
		defer t.retryAll(now) // a rank sends it last, so that nothing else will tell
		return t.lateThread(l, sp, rank)
	}
	if slices.ContainsFunc(l.items, func(it *Item) bool { return it.span.ID == sp.ID }) {
		t.shard.stats.Resent++
		return Fold, nil
	}
	if sp.Prior != nil && l.spread.ranks&rankBit(rank) == 0 {
		l.prior = append(l.prior, sp.Prior)
	}
	l.spread.add(rank, sp.End)
	if !t.makeRoom(l, sp.ID, rank) {
		return t.folded(l)
	}
	it := t.hold(sp, o, rank, inThread)
	l.items = append(l.items, it)
	l.due = now + t.shard.settings.Wait.Nanoseconds()
	t.shard.later(waitQueue, it, now)
	return Hold, it
}

// lateThread decides a thread span whose request has left.
func (t *trace) lateThread(l *thread, sp *Span, rank int32) (Verdict, *Item) {
	if sp.ID != l.public && slices.Contains(l.named, sp.ID) {
		return t.passUnfolded(sp), nil
	}
	l.spread.add(rank, sp.End)
	if !l.out {
		// None of its copies was there in time.
		sp.ID = l.nameAs(sp.ID)
		t.shard.stats.LatePassed++
		t.shard.commit(commit{trace: t, thread: l})
		return Pass, nil
	}
	return t.folded(l)
}

// makeRoom keeps two thread spans of a thread: the one that slices name, and one
// that can stand in. It reports whether another one, of the rank, is to be kept;
// what is kept in its stead goes.
func (t *trace) makeRoom(l *thread, id uint64, rank int32) bool {
	if !l.hasName(id) && slices.ContainsFunc(l.items, func(it *Item) bool { return it.span.ID == l.public }) {
		return false // the one that will leave is here
	}
	if len(l.items) < 2 {
		return true
	}
	worst, named := -1, l.hasName(id)
	for i, it := range l.items {
		if !l.hasName(it.span.ID) && (worst < 0 || it.rank > l.items[worst].rank) {
			worst = i
		}
	}
	if worst < 0 {
		return named
	}
	if !named && rank > l.items[worst].rank {
		return false
	}
	t.drop(l.items[worst])
	l.items = slices.Delete(l.items, worst, worst+1)
	return true
}

// threadOf returns the logical thread of a thread span: its root tells it for sure.
func (t *trace) threadOf(sp *Span, o Origin) *thread {
	p := o.Proc
	mine := t.threadAt(sp.ID)
	if mine != nil && mine.root != 0 && mine.root != sp.Parent {
		// A guess was wrong: the slices that left stay where they are.
		mine.locals = slices.DeleteFunc(mine.locals, func(lo local) bool { return lo.id == sp.ID })
		if mine.public == sp.ID {
			mine.public = 0
		}
		mine = nil
	}
	var sibling *thread
	for _, l := range t.threads {
		if l.merged == nil && l != mine && l.dp == p.Ranks.DP && l.pp == max(p.Ranks.PP, 0) && t.rootOf(l) == sp.Parent {
			sibling = l
			break
		}
	}
	if mine == nil && sibling == nil {
		if open, free := t.openThreads(p.Group, p.Ranks.TP); open <= 1 && free != nil && !t.foreign(free, sp, p.Ranks.TP) {
			if root := t.rootOf(free); root == 0 || root == sp.Parent {
				mine = free
			}
		}
	}
	switch {
	case mine == nil && sibling == nil:
		mine = t.newThread(p)
	case mine == nil:
		mine = sibling
	case sibling != nil:
		mine = t.joinThreads(mine, sibling)
	}
	if mine.group.Find() != p.Group.Find() {
		t.shard.unite(mine.group, p.Group)
	}
	mine.root = sp.Parent
	mine.know(p.Ranks.TP, sp)
	t.bind(sp.ID, ref{thread: mine})
	return mine
}

// know notes a rank's thread span.
func (l *thread) know(rank int32, sp *Span) {
	at := slices.IndexFunc(l.locals, func(lo local) bool { return lo.rank == rank })
	if at < 0 {
		l.locals = slices.DeleteFunc(l.locals, func(lo local) bool { return lo.id == sp.ID }) // of a rank that was a guess
		at = len(l.locals)
		l.locals = append(l.locals, local{rank: rank, id: sp.ID})
	}
	l.locals[at].start = sp.Start
}

// placeKnown places what waited for a thread span and lets complete roots go.
// Deferred until the span itself has its item.
func (t *trace) placeKnown(now int64, id uint64) {
	t.retry(now, id)
	t.shard.touch(t)
}

// takeRoot decides a request's root.
func (t *trace) takeRoot(now int64, sp *Span, o Origin) (Verdict, *Item) {
	if t.rootAt(sp.ID) != nil {
		t.shard.stats.Resent++
		return Fold, nil
	}
	if t.openRoots >= maxRequests {
		return t.takeSingle(sp, o)
	}
	it := t.hold(sp, o, sglang.NoRank, inRoot)
	r := &request{id: sp.ID, item: it, own: sp.Own, start: sp.Start, end: sp.End}
	t.roots = append(t.roots, r)
	t.bind(sp.ID, ref{root: r})
	t.openRoots++
	t.shard.later(waitQueue, it, now)
	t.shard.touch(t)
	return Hold, it
}

// threadsOf returns the threads of a root, until it is called again. A thread
// whose root is not known counts where no other request is open.
func (t *trace) threadsOf(root uint64) []*thread {
	threads := t.shard.threads[:0]
	defer func() { t.shard.threads = threads }()
	for _, l := range t.threads {
		if l.merged != nil || l.done {
			continue
		}
		if of := t.rootOf(l); of == root || (of == 0 && t.openRoots <= 1 && len(t.front) <= 1) {
			threads = append(threads, l)
		}
	}
	return threads
}

// checkRoots releases the requests that are complete.
func (t *trace) checkRoots(now int64) {
	if t.openRoots == 0 || t.inFlight > 0 || t.learning() {
		return
	}
	for _, r := range t.roots {
		if r.item != nil && t.complete(r) {
			t.flush(now, r, ReasonNone)
		}
	}
}

// complete tells whether a request can go, where nothing of its trace is under
// way: its ranks are all known.
func (t *trace) complete(r *request) bool {
	threads := t.threadsOf(r.id)
	if r.own {
		return len(threads) > 0 && !slices.ContainsFunc(threads, func(l *thread) bool { return len(l.items) == 0 })
	}
	for _, l := range threads {
		if !l.group.Mature() || t.lacks(l) {
			return false
		}
	}
	return t.whole(threads)
}

// lacks tells whether spans that left or wait name slices of the thread that no
// rank has delivered: queues between tiers reorder, so that thread spans may come
// before slices.
func (t *trace) lacks(l *thread) bool {
	for _, n := range l.nodes {
		if n.spread.ranks == 0 {
			return true // its children came
		}
		if n.pred == nil && len(n.openLinks) > 0 && !opens(n.stage) && !slices.ContainsFunc(n.openLinks, t.isUp) {
			return true
		}
	}
	return false
}

func (t *trace) isUp(id uint64) bool { _, single := t.up.get(id); return single }

// whole tells whether every rank's thread span of every group that showed a
// slice has come. An encoder's request has none.
func (t *trace) whole(threads []*thread) bool {
	if len(threads) == 0 {
		return t.encoder
	}
	for _, l := range threads {
		if len(l.items) == 0 {
			return false
		}
		for _, rank := range l.group.Expected() {
			if l.spread.ranks&rankBit(rank) == 0 {
				return false
			}
		}
		for _, stage := range l.group.Stages() {
			if !slices.ContainsFunc(threads, func(o *thread) bool { return o.group.Find() == stage.Find() }) {
				return false
			}
		}
	}
	return true
}

func (t *trace) anyOpen() bool {
	return slices.ContainsFunc(t.threads, func(l *thread) bool { return l.merged == nil && !l.done })
}

func (t *trace) open() []*thread {
	return slices.DeleteFunc(slices.Clone(t.threads), func(l *thread) bool { return l.merged != nil || l.done })
}

// flush lets a request go: fills, thread spans, the root last.
func (t *trace) flush(now int64, r *request, why Reason) {
	t.retryAll(now)
	threads := t.threadsOf(r.id)
	slices.SortFunc(threads, func(a, b *thread) int { return cmp.Compare(a.pp, b.pp) })
	for _, l := range threads {
		t.flushFills(l)
	}
	for _, l := range threads {
		l.own = r.own
		t.flushThread(l, why)
	}
	it := r.item
	r.item, r.left = nil, now
	t.openRoots--
	for front := range t.front {
		if t.above(front) == r.id || len(t.front) == 1 {
			delete(t.front, front)
		}
	}
	t.release(it, Release{Span: it.span, Reason: why})
}

// flushFills releases the copies that stand in for what the kept rank did not deliver.
func (t *trace) flushFills(l *thread) {
	l.bindLinks()
	for _, n := range l.nodes {
		if n.item != nil && !n.released {
			t.releaseNode(l, n, ReasonNone)
		}
		n.eachSlot(func(s *slot) {
			if s.item != nil {
				t.releaseSlot(n, s, ReasonNone)
			}
		})
	}
}

// bindLinks gives every open link a target: the node of the stage before it.
func (l *thread) bindLinks() {
	slices.SortFunc(l.nodes, func(a, b *node) int { return cmp.Compare(a.stage, b.stage) })
	var before *node
	for _, n := range l.nodes {
		if n.pred == nil && len(n.openLinks) > 0 && before != nil {
			n.guessPred(before)
		}
		if n.spread.ranks != 0 || before == nil {
			before = n // one that only its children name may come late
		}
	}
}

func (t *trace) releaseSlot(parent *node, s *slot, why Reason) {
	it := s.item
	sp := it.span
	sp.Parent = parent.nameAs(sp.Parent)
	s.released, s.item = true, nil
	t.shard.passedLate(parent.thread)
	t.release(it, Release{Span: sp, Proc: it.origin.Proc, Filled: true, Reason: why})
}

// flushThread releases one thread span of the thread's copies, with the digest
// of the others.
func (t *trace) flushThread(l *thread, why Reason) {
	l.done, l.left = true, t.shard.now.UnixNano()
	if len(l.items) == 0 {
		return
	}
	l.out = true
	slices.SortFunc(l.items, func(a, b *Item) int { return cmp.Compare(a.rank, b.rank) })
	kept := l.items[0]
	for _, it := range l.items {
		if it.span.ID == l.public {
			kept = it
			break
		}
	}
	for _, it := range l.items {
		if it != kept && slices.Contains(l.named, it.span.ID) {
			t.shard.stats.Unfolded++
			t.release(it, Release{Span: it.span, Proc: it.origin.Proc})
			continue
		}
		if it != kept {
			t.drop(it)
		}
	}
	filled := l.public != 0 && kept.span.ID != l.public
	sp := kept.span
	sp.ID = l.nameAs(sp.ID)
	digest := l.digest()
	t.up.all(func(_, parent uint64) bool {
		if parent == kept.span.ID {
			digest.Slices++ // of a kind that is not folded
		}
		return true
	})
	t.release(kept, Release{Span: sp, Proc: kept.origin.Proc, Filled: filled, Reason: why, Digest: digest})
	l.items = nil
}

// digest sums up what the copies of the thread knew.
func (l *thread) digest() *Digest {
	d := &Digest{Slowest: sglang.NoRank, Expected: l.group.Known()}
	if l.own {
		d.Expected = 1
	}
	var lasts tally
	compared := 0
	compare := func(stage sglang.Stage, s *spread) {
		if bits.OnesCount64(s.ranks) < 2 {
			return
		}
		compared++
		if s.last-s.first > clockNoise {
			lasts.add(s.slowest)
		}
		if int(stage) < len(d.Skew) {
			d.Skew[stage] = max(d.Skew[stage], time.Duration(s.last-s.first))
		}
	}
	ranks := l.spread.ranks
	for _, n := range l.nodes {
		ranks |= n.spread.ranks
		compare(n.stage, &n.spread)
		if n.released {
			d.Slices++
		}
		n.eachSlot(func(s *slot) {
			ranks |= s.spread.ranks
			compare(s.stage, &s.spread)
			if s.released {
				d.Slices++
			}
		})
	}
	d.Ranks, d.Compared = bits.OnesCount64(ranks), compared > 0
	if rank, most := lasts.most(); most > 0 {
		d.Slowest, d.SlowestShare = rank, float64(most)/float64(compared)
	}
	for _, skew := range d.Skew {
		d.MaxSkew = max(d.MaxSkew, skew)
	}
	for _, prior := range l.prior {
		d.merge(prior)
	}
	return d
}

// tally counts by rank.
type tally struct {
	ranks  []int32
	counts []int
}

func (t *tally) add(rank int32) {
	at := slices.Index(t.ranks, rank)
	if at < 0 {
		at = len(t.ranks)
		t.ranks, t.counts = append(t.ranks, rank), append(t.counts, 0)
	}
	t.counts[at]++
}

// most returns the lowest of the ranks with the largest count.
func (t *tally) most() (rank int32, count int) {
	for i, n := range t.counts {
		if n > count || n == count && t.ranks[i] < rank {
			rank, count = t.ranks[i], n
		}
	}
	return rank, count
}

// merge adds what an earlier tier folded into one of the copies.
func (d *Digest) merge(prior *Digest) {
	d.Ranks += max(prior.Ranks-1, 0)
	d.Expected = max(d.Expected+max(prior.Expected-1, 0), d.Ranks)
	d.Compared = d.Compared || prior.Compared
	if prior.Slowest != sglang.NoRank && (prior.MaxSkew > d.MaxSkew || d.Slowest == sglang.NoRank) {
		d.Slowest, d.SlowestShare = prior.Slowest, prior.SlowestShare
	}
	for stage := range d.Skew {
		d.Skew[stage] = max(d.Skew[stage], prior.Skew[stage])
	}
	d.MaxSkew = max(d.MaxSkew, prior.MaxSkew)
}
