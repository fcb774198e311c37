// Copyright The otelcol-sglang Authors
// SPDX-License-Identifier: Apache-2.0

package fold // import "github.com/otelcol-sglang/otelcol-sglang/processor/rankdedupprocessor/internal/fold"

import (
	"slices"
	"sync/atomic"
	"time"

	"github.com/otelcol-sglang/otelcol-sglang/internal/sglang"
	"github.com/otelcol-sglang/otelcol-sglang/processor/rankdedupprocessor/internal/identity"
)

// Settings of the logic.
type Settings struct {
	// Wait is how long a copy waits for the kept rank's, a root for its threads.
	Wait time.Duration
	// LearnWait is how long a span waits until it can be placed.
	LearnWait time.Duration
	// DoneKeep is how long a request is remembered after it left, IdleKeep how
	// long an unfinished one after its last span.
	DoneKeep, IdleKeep time.Duration
	// MaxBytes bounds what all shards hold together.
	MaxBytes int64
}

// Stats are counts since TakeStats; Held and Traces are levels.
type Stats struct {
	Folded, Filled, Resent, Unfolded, LateFolded, LatePassed, Failovers int64
	Held, Traces                                                        int64
	Early                                                               [ReasonCount]int64
}

// Shard is the state of the traces that fall to it. Not safe for concurrent
// use: the caller locks.
type Shard struct {
	settings Settings
	registry *identity.Registry
	bytes    *atomic.Int64 // of all shards
	grown    int64         // that bytes does not have yet
	traces   map[TraceID]*trace
	latest   *trace // the one of the latest span
	queues   [queueCount]queue
	idle     []idleTrace
	commits  []commit
	out      []Release
	touched  []*trace
	threads  []*thread // scratch
	spare    []*trace
	stats    Stats
	now      time.Time
}

const (
	waitQueue = iota
	learnQueue
	queueCount
)

// queue holds items in the order in which they are due: the wait is constant.
type queue struct {
	items []*Item
	dues  []int64
	head  int
}

type idleTrace struct {
	t   *trace
	due int64
}

// NewShard returns an empty shard. bytes is shared by all shards.
func NewShard(settings Settings, registry *identity.Registry, bytes *atomic.Int64) *Shard {
	return &Shard{settings: settings, registry: registry, bytes: bytes, traces: map[TraceID]*trace{}}
}

// commit is what becomes true once the next consumer took the batch.
type commit struct {
	trace *trace
	// A node, or the slot of a node.
	node *node
	slot *slot
	// Or a thread span that came after its request had left.
	thread *thread
	// Or a span that is not folded.
	id     uint64
	parent uint64
	sender *identity.Sender
	stage  sglang.Stage
	kind   sglang.SpanKind
}

// Mark returns how many commits are open: those of a batch begin here.
func (s *Shard) Mark() int { return len(s.commits) }

// Commits hands out what the spans decided since the mark make true once they
// are safe. Each must be concluded: until then nothing stands in for them.
func (s *Shard) Commits(into []Commit, mark int) []Commit {
	for _, c := range s.commits[mark:] {
		if c.trace != nil {
			c.trace.inFlight++
			into = append(into, Commit{s, c})
		}
	}
	clear(s.commits[mark:])
	s.commits = s.commits[:mark]
	return into
}

// Commit is what becomes true of a shard once a span is safe.
type Commit struct {
	shard *Shard
	c     commit
}

// Conclude makes it true if the next consumer took the span. The shard's lock is held.
func (c *Commit) Conclude(taken bool) {
	t := c.c.trace
	t.inFlight--
	if taken {
		c.shard.apply(&c.c)
	}
	if t.inFlight == 0 && t.openRoots > 0 {
		c.shard.touch(t)
	}
}

// Of tells whether the commit is the shard's.
func (c *Commit) Of(s *Shard) bool { return c.shard == s }

func (s *Shard) commit(c commit) { s.commits = append(s.commits, c) }

// commitLast applies the newest commit: its span was held and is ours.
func (s *Shard) commitLast() {
	last := len(s.commits) - 1
	c := s.commits[last]
	s.commits[last] = commit{}
	s.commits = s.commits[:last]
	if c.trace != nil {
		s.apply(&c)
	}
}

func (s *Shard) apply(c *commit) {
	t := c.trace
	switch {
	case c.thread != nil:
		c.thread.find().out = true
	case c.node == nil:
		t.applySingle(c)
	case c.slot != nil:
		s := c.slot.find()
		s.released = true
		if s.item != nil {
			t.drop(s.item)
			s.item = nil
		}
	default:
		n := c.node.find()
		n.released = true
		if n.item != nil {
			t.drop(n.item)
			n.item = nil
		}
	}
}

func (t *trace) applySingle(c *commit) {
	if _, known := t.up.get(c.id); known {
		return
	}
	t.up.set(c.id, c.parent)
	t.grow(idBytes)
	switch {
	case c.kind == sglang.KindThread:
		if t.rootDone(c.parent) {
			delete(t.front, c.id)
		}
	case c.stage.Info().Process == sglang.ProcessFrontEnd && !t.rootDone(t.above(c.parent)):
		t.front[c.parent] = c.sender
	}
}

func (t *trace) rootDone(id uint64) bool {
	r := t.rootAt(id)
	return r != nil && r.item == nil
}

// Take decides a span that arrives. For Hold the caller must hand the payload to
// Keep before the shard is used again. A nil item with Hold does not occur.
func (s *Shard) Take(now time.Time, sp *Span, o Origin, th sglang.Thread) (Verdict, *Item) {
	s.now = now
	if sp.Kind == sglang.KindForeign || sp.Kind == sglang.KindRoom {
		return Pass, nil
	}
	ns := now.UnixNano()
	t := s.trace(sp.Trace, ns)
	switch sp.Kind {
	case sglang.KindRoot:
		return t.takeRoot(ns, sp, o)
	case sglang.KindThread:
		return t.takeThread(ns, sp, o, th)
	case sglang.KindSlice:
		return t.takeSlice(ns, sp, o)
	}
	return Pass, nil
}

// Keep gives a held item its payload.
func (s *Shard) Keep(it *Item, payload any, bytes int64) {
	it.Payload, it.Bytes = payload, bytes
	if it.gone {
		it.Payload = nil
		return
	}
	s.grow(bytes)
}

func (s *Shard) trace(id TraceID, now int64) *trace {
	if t := s.latest; t != nil && t.id == id && !t.removed {
		t.last = now
		return t
	}
	t := s.traces[id]
	if t == nil {
		t = s.newTrace(id)
		s.traces[id] = t
		s.stats.Traces++
		t.grow(traceBytes)
		s.idle = append(s.idle, idleTrace{t, now + s.settings.DoneKeep.Nanoseconds()})
	}
	t.last = now
	s.latest = t
	return t
}

// newTrace returns a trace that knows nothing yet.
func (s *Shard) newTrace(id TraceID) *trace {
	if last := len(s.spare) - 1; last >= 0 {
		t := s.spare[last]
		s.spare = s.spare[:last]
		t.id = id
		return t
	}
	return &trace{shard: s, id: id, front: map[uint64]*identity.Sender{}}
}

// spareTraces bounds the forgotten traces of a shard whose memory is used again.
const spareTraces = 64

// recycle keeps the memory of a forgotten trace that nothing refers to any more.
func (s *Shard) recycle(t *trace) {
	if len(s.spare) >= spareTraces || t.inFlight > 0 || t.held > 0 || t.touched || t.ids.len() > maxUsual {
		return
	}
	t.ids.clear()
	t.up.clear()
	clear(t.front)
	clear(t.anchors)
	pool := t.pool
	for _, l := range t.threads {
		pool.put(l)
	}
	clear(t.threads)
	clear(t.roots)
	*t = trace{
		shard: s, ids: t.ids, up: t.up, front: t.front, anchors: t.anchors,
		threads: t.threads[:0], roots: t.roots[:0], pool: pool,
	}
	s.spare = append(s.spare, t)
}

func (s *Shard) grow(n int64) { s.grown += n }

// Account adds what the shard has grown by to the bytes of all shards. An atomic
// addition waits for memory, so that there is one for many spans.
func (s *Shard) Account() {
	if s.grown != 0 {
		s.bytes.Add(s.grown)
		s.grown = 0
	}
}

func (s *Shard) unite(a, b *identity.Group) { s.registry.Unite(a, b) }

// clash notes that the sender stands for several processes, and returns the run
// of resources that the parent belongs to.
func (s *Shard) clash(sender *identity.Sender, parent uint64) *identity.Strand {
	if sender != nil {
		s.registry.MarkAmbiguous(sender, s.now)
	}
	return s.registry.Strand([]uint64{parent}, nil)
}

func (s *Shard) later(q int, it *Item, now int64) {
	wait := s.settings.Wait
	if q == learnQueue {
		wait = s.settings.LearnWait
	}
	it.due = now + wait.Nanoseconds()
	s.queues[q].push(it, it.due)
}

func (q *queue) push(it *Item, due int64) {
	q.items = append(q.items, it)
	q.dues = append(q.dues, due)
}

// pop returns the first item that is due, nil if none is.
func (q *queue) pop(now int64) *Item {
	for q.head < len(q.items) && q.dues[q.head] <= now {
		it, due := q.items[q.head], q.dues[q.head]
		q.items[q.head] = nil
		q.head++
		q.compact()
		if !it.gone && it.due == due {
			return it
		}
	}
	return nil
}

func (q *queue) compact() {
	if q.head < 1024 || q.head < len(q.items)/2 {
		return
	}
	n := copy(q.items, q.items[q.head:])
	clear(q.items[n:])
	q.items = q.items[:n]
	q.dues = q.dues[:copy(q.dues, q.dues[q.head:])]
	q.head = 0
}

func (s *Shard) touch(t *trace) {
	if !t.touched {
		t.touched = true
		s.touched = append(s.touched, t)
	}
}

// Settle releases the requests that became complete.
func (s *Shard) Settle(now time.Time) {
	for _, t := range s.touched {
		t.touched = false
		t.checkRoots(now.UnixNano())
	}
	clear(s.touched)
	s.touched = s.touched[:0]
}

// Learned places what waited for senders that are known by now.
func (s *Shard) Learned(now time.Time) {
	s.now = now
	for _, t := range s.traces {
		if len(t.unknown) > 0 {
			t.learned(now.UnixNano())
		}
	}
	s.Settle(now)
}

func (t *trace) learned(now int64) {
	var known []*Item
	rest := t.unknown[:0]
	for _, it := range t.unknown {
		if it.gone || it.where != inUnknown {
			continue
		}
		if p := it.origin.resolve(); p != nil && p.Settled() {
			it.origin.Proc = p
			known = append(known, it)
			continue
		}
		rest = append(rest, it)
	}
	clear(t.unknown[len(rest):])
	t.unknown = rest
	if len(known) > 0 {
		t.placeAll(now, known)
		t.shard.touch(t)
	}
}

// Expire releases what is due.
func (s *Shard) Expire(now time.Time) {
	s.now = now
	ns := now.UnixNano()
	for it := s.queues[waitQueue].pop(ns); it != nil; it = s.queues[waitQueue].pop(ns) {
		it.trace.expire(ns, it, ReasonNone)
	}
	for it := s.queues[learnQueue].pop(ns); it != nil; it = s.queues[learnQueue].pop(ns) {
		it.trace.expire(ns, it, ReasonNone)
	}
	s.Settle(now)
	s.forget(ns)
}

// expire lets one item go whose time has come, or earlier for the given reason.
func (t *trace) expire(now int64, it *Item, why Reason) {
	if why == ReasonNone && t.inFlight > 0 {
		t.shard.later(waitQueue, it, now)
		return
	}
	pick := func(usual Reason) Reason {
		if why != ReasonNone {
			return why
		}
		return usual
	}
	switch it.where {
	case inSlot:
		n := it.node.find()
		if n.mayBeMissed() {
			n.thread.find().bindLinks()
		}
		if s := it.slot.find(); s.item == it {
			t.releaseSlot(n, s, why)
		}
		t.shard.owes(it)
	case inNode:
		if l := it.node.find().thread; l != nil {
			l.find().bindLinks()
			t.releaseNode(l.find(), it.node.find(), why)
		}
	case inUnknown:
		t.releaseUnfolded(it, pick(ReasonLearnWait))
	case inWaiting:
		t.releaseUnfolded(it, pick(ReasonUnplaced))
	case inThread, inRoot:
		if why == ReasonNone && t.learning() {
			t.shard.later(waitQueue, it, now)
			return
		}
		t.expireRequest(now, it, pick)
	}
}

// learning tells whether spans of the trace still wait for their sender to be
// known: the wait of its requests runs from the end of that. Such spans leave
// after their own wait, so that this ends.
func (t *trace) learning() bool {
	return slices.ContainsFunc(t.unknown, func(it *Item) bool { return !it.gone })
}

func (t *trace) expireRequest(now int64, it *Item, pick func(Reason) Reason) {
	switch it.where {
	case inThread:
		t.expireThread(now, it, pick(ReasonNoRoot))
	case inRoot:
		for _, r := range t.roots {
			if r.item == it {
				why := pick(ReasonNoThread)
				if threads := t.threadsOf(r.id); why == ReasonNoThread && t.whole(threads) {
					why = ReasonNone // it only waited for ranks that might have come
				} else if why == ReasonNoThread {
					t.shard.absent(threads)
				}
				t.flush(now, r, why)
			}
		}
	}
}

// expireThread lets the threads of a request go whose root did not come.
func (t *trace) expireThread(now int64, it *Item, why Reason) {
	l := t.threadAt(it.span.ID)
	if l == nil || l.done {
		return
	}
	if l.due > now && why == ReasonNoRoot {
		// A copy came later.
		it.due = l.due
		t.shard.queues[waitQueue].push(it, it.due)
		return
	}
	for _, r := range t.roots {
		if r.item != nil && r.id == l.root {
			if why != ReasonNoRoot {
				t.flush(now, r, why)
			}
			return // the root's own time will come
		}
	}
	t.retryAll(now)
	t.flushFills(l)
	t.flushThread(l, why)
}

// releaseUnfolded lets a span leave that could not be placed, below what its
// parent's copies leave as.
func (t *trace) releaseUnfolded(it *Item, why Reason) {
	sp := it.span
	if l := t.threadAt(sp.Parent); l != nil {
		sp.Parent = l.nameAs(sp.Parent)
	}
	t.note(&sp)
	t.release(it, Release{Span: sp, Proc: it.origin.resolve(), Reason: why})
}

// absent tells the registry which ranks did not deliver their thread spans.
func (s *Shard) absent(threads []*thread) {
	for _, l := range threads {
		for _, rank := range l.group.Expected() {
			if l.spread.ranks&rankBit(rank) == 0 {
				s.registry.Absent(l.group, rank, s.now)
			}
		}
	}
}

// owes tells the registry that a copy stood in for the kept rank's.
func (s *Shard) owes(it *Item) {
	if p := it.origin.Proc; p != nil && !p.Primary() && s.registry.Owes(p.Group, s.now) {
		s.stats.Failovers++
	}
}

// forget drops traces that are done or have been idle for long.
func (s *Shard) forget(now int64) {
	n := 0
	for ; n < len(s.idle) && s.idle[n].due <= now; n++ {
		t := s.idle[n].t
		if t.removed {
			continue
		}
		if t.keepUntil(s.settings) > now {
			t.prune(now - s.settings.DoneKeep.Nanoseconds())
			s.idle = append(s.idle, idleTrace{t, now + s.settings.DoneKeep.Nanoseconds()})
			continue
		}
		t.flushAll(now, ReasonNoRoot)
		s.remove(t)
		s.recycle(t)
	}
	if n > 0 {
		left := copy(s.idle, s.idle[n:])
		clear(s.idle[left:])
		s.idle = s.idle[:left]
	}
}

// remove forgets a trace. Commits may still refer to it.
func (s *Shard) remove(t *trace) {
	delete(s.traces, t.id)
	s.stats.Traces--
	s.grow(-t.bytes)
	t.bytes, t.removed = 0, true
}

// maxUsual bounds the ids of a trace whose memory is used again.
const maxUsual = 256

// keepUntil tells how long the trace is to be remembered from its last span.
func (t *trace) keepUntil(settings Settings) int64 {
	if t.held == 0 && len(t.roots) > 0 && !t.anyOpen() {
		return t.last + settings.DoneKeep.Nanoseconds()
	}
	return t.last + settings.IdleKeep.Nanoseconds()
}

// flushAll lets everything go that the trace holds.
func (t *trace) flushAll(now int64, why Reason) {
	t.retryAll(now)
	for _, it := range t.unknown {
		if !it.gone {
			t.releaseUnfolded(it, why)
		}
	}
	t.unknown = nil
	for _, items := range t.waiting {
		for _, it := range items {
			if !it.gone {
				t.releaseUnfolded(it, why)
			}
		}
	}
	t.waiting = nil
	for _, r := range t.roots {
		if r.item != nil {
			t.flush(now, r, why)
		}
	}
	for _, l := range t.open() {
		t.flushFills(l)
		t.flushThread(l, why)
	}
}

// Relieve lets spans go early until all shards together are within the limit or
// this one holds nothing more: traces that are done first, then by age.
func (s *Shard) Relieve(now time.Time) {
	s.now = now
	ns := now.UnixNano()
	for n := len(s.idle); n > 0 && s.Over(); n-- {
		t := s.idle[0].t
		s.idle[0] = idleTrace{}
		s.idle = s.idle[1:]
		switch {
		case t.removed:
		case t.held == 0 && !t.anyOpen():
			s.remove(t)
			s.recycle(t)
		default:
			s.idle = append(s.idle, idleTrace{t, ns + s.settings.DoneKeep.Nanoseconds()})
		}
	}
	s.hurry(ns, ReasonLimit, s.Over)
	for _, t := range s.traces {
		if !s.Over() {
			return
		}
		t.flushAll(ns, ReasonLimit)
		s.remove(t)
	}
}

// Over tells whether more is held and remembered than may be, by all shards.
func (s *Shard) Over() bool {
	s.Account()
	return s.bytes.Load() > s.settings.MaxBytes
}

// hurry lets what waits go, the oldest first, as long as more says so.
func (s *Shard) hurry(now int64, why Reason, more func() bool) {
	const forever = int64(1) << 62
	for _, q := range [...]int{learnQueue, waitQueue} {
		for more() {
			it := s.queues[q].pop(forever)
			if it == nil {
				break
			}
			it.trace.expire(now, it, why)
		}
	}
}

// FlushAll lets everything go.
func (s *Shard) FlushAll(now time.Time) {
	s.now = now
	for _, t := range s.traces {
		t.flushAll(now.UnixNano(), ReasonShutdown)
	}
	// Copies whose request has left or was never known.
	s.hurry(now.UnixNano(), ReasonShutdown, func() bool { return true })
	for _, t := range s.traces {
		s.remove(t)
	}
}

// Out hands out what is to leave, in order.
func (s *Shard) Out() []Release {
	out := s.out
	s.out = nil
	return out
}

// Due returns when Expire has something to do next, the zero time for never.
func (s *Shard) Due() time.Time {
	next := int64(0)
	for i := range s.queues {
		if q := &s.queues[i]; q.head < len(q.dues) && (next == 0 || q.dues[q.head] < next) {
			next = q.dues[q.head]
		}
	}
	if len(s.idle) > 0 && (next == 0 || s.idle[0].due < next) {
		next = s.idle[0].due
	}
	if next == 0 {
		return time.Time{}
	}
	return time.Unix(0, next)
}

// Levels returns the counts as they are.
func (s *Shard) Levels() Stats { return s.stats }

// TakeStats returns the counts and starts them anew.
func (s *Shard) TakeStats() Stats {
	s.Account()
	taken := s.stats
	s.stats = Stats{Held: taken.Held, Traces: taken.Traces}
	return taken
}
