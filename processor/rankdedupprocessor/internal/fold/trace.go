// Copyright The otelcol-sglang Authors
// SPDX-License-Identifier: Apache-2.0

package fold // import "github.com/otelcol-sglang/otelcol-sglang/processor/rankdedupprocessor/internal/fold"

import (
	"math"
	"slices"

	"github.com/otelcol-sglang/otelcol-sglang/internal/sglang"
	"github.com/otelcol-sglang/otelcol-sglang/processor/rankdedupprocessor/internal/identity"
)

// trace is what is known of one trace; owned by its shard's lock.
type trace struct {
	shard *Shard
	id    TraceID
	bytes int64
	last  int64 // arrival of the latest span, unix ns
	// openRoots are the roots that have not left.
	openRoots int
	// inFlight are passed spans that the next consumer has not yet taken.
	inFlight int
	touched  bool // in the shard's list
	removed  bool // the shard has forgotten it
	// levelTwo is set once a span told that the request is traced at level 2 or more.
	levelTwo bool
	// encoder is set once a multimodal encoder showed a slice.
	encoder bool
	// seeking is set once a slice came before its link's target.
	seeking bool

	ids     table[ref]         // ranks' ids of nodes and threads; read through at
	asked   known              // the one that was looked up last
	bound   known              // the one that was bound last
	anchors map[anchor]*thread // first slices' link targets
	threads []*thread
	// up leads from spans that are not folded (front end, controllers, workers)
	// to their parents; it also tells resends of them.
	up table[uint64]
	// front are the front end's threads of requests whose root is not done.
	front map[uint64]*identity.Sender
	roots []*request
	// passed are ids of spans, and those they name, that left unfolded.
	passed map[uint64]struct{}

	unknown []*Item
	waiting map[uint64][]*Item // by parent
	heldIDs map[uint64]*Item   // of unknown and waiting spans, to know resends
	held    int
	pool    pool
}

// pool is memory of a trace that is not in use.
type pool struct {
	threads []*thread
	nodes   []*node
}

// maxPooled bounds the threads whose memory is used again.
const maxPooled = 4

// put takes the memory of a thread that nothing refers to any more.
func (p *pool) put(l *thread) {
	if len(p.threads) >= maxPooled {
		return
	}
	for _, n := range l.nodes {
		if len(p.nodes) < maxPooled*usualNodes {
			*n = node{locals: n.locals[:0]}
			p.nodes = append(p.nodes, n)
		}
	}
	clear(l.nodes)
	*l = thread{nodes: l.nodes[:0], locals: l.locals[:0], clocks: l.clocks[:0], spare: l.spare}
	p.threads = append(p.threads, l)
}

// thread returns one that knows nothing yet.
func (p *pool) thread() *thread {
	last := len(p.threads) - 1
	if last < 0 {
		return &thread{nodes: make([]*node, 0, usualNodes)}
	}
	l := p.threads[last]
	p.threads = p.threads[:last]
	return l
}

// node returns one that knows nothing yet.
func (p *pool) node() *node {
	last := len(p.nodes) - 1
	if last < 0 {
		block := make([]node, usualNodes)
		for i := range block {
			p.nodes = append(p.nodes, &block[i])
		}
		last = usualNodes - 1
	}
	n := p.nodes[last]
	p.nodes = p.nodes[:last]
	return n
}

// ref is what an id stands for: a thread, a node or a root.
type ref struct {
	thread *thread
	node   *node
	root   *request
}

// maxRequests bounds the requests of one trace that are told apart at a time, so
// that no trace costs more per span. What is beyond passes.
const maxRequests = 4096

// anchor is the span that a request's first slices link to, the same for all its
// ranks; per place in the engine.
type anchor struct {
	link   uint64
	dp, pp int32
}

// thread is a logical thread: one request at one data-parallel rank and pipeline
// stage, on all tensor-parallel ranks.
type thread struct {
	// What a folded copy reads comes first: it is seldom in cache.

	merged *thread
	group  *identity.Group
	nodes  []*node
	locals []local
	// clocks[0] is the reference rank's.
	clocks []clock
	public uint64
	root   uint64
	anchor uint64
	dp, pp int32
	opened sglang.Stage // of the request's first slice, if one was seen
	done   bool
	out    bool // one of its thread spans left
	own    bool // no other rank has a copy
	spread spread
	items  []*Item // held thread spans

	named []uint64
	prior []*Digest
	spare []local // allocated and not yet used
	left  int64   // when it was done, unix ns
	late  uint64  // ranks whose first copy came after that
	due   int64   // when threads without a root leave
}

// clock is how far a rank's clock, as the latest common slice shows it, is ahead
// of the reference rank's, in ns.
type clock struct {
	rank   int32
	offset int64
}

func (l *thread) find() *thread {
	for l.merged != nil {
		l = l.merged
	}
	return l
}

func (l *thread) offset(rank int32) int64 {
	for _, c := range l.clocks {
		if c.rank == rank {
			return c.offset
		}
	}
	return 0
}

// compareClocks takes a rank's offset from a node that it and the reference rank
// know; all offsets where the node's copy at is the reference rank's.
func (l *thread) compareClocks(n *node, at int) {
	if len(l.clocks) == 0 {
		if l.clocks == nil {
			l.clocks = make([]clock, 0, l.width())
		}
		l.clocks = append(l.clocks, clock{rank: n.locals[0].rank})
	}
	reference := l.clocks[0].rank
	if n.locals[at].rank == reference {
		for _, lo := range n.locals {
			l.setClock(lo, n.locals[at].start)
		}
		return
	}
	for _, lo := range n.locals {
		if lo.rank == reference {
			l.setClock(n.locals[at], lo.start)
			return
		}
	}
}

func (l *thread) setClock(lo local, reference int64) {
	if lo.start == 0 || reference == 0 || lo.rank == l.clocks[0].rank {
		return
	}
	for i := range l.clocks {
		if l.clocks[i].rank == lo.rank {
			l.clocks[i].offset = lo.start - reference
			return
		}
	}
	l.clocks = append(l.clocks, clock{lo.rank, lo.start - reference})
}

func (l *thread) nameAs(id uint64) uint64 {
	if l.public == 0 {
		l.public = id
	}
	return l.public
}

func (l *thread) hasName(id uint64) bool { return l.public == id || slices.Contains(l.named, id) }

// child returns the thread's node for a stage, nil if there is none.
func (l *thread) child(stage sglang.Stage, name string) *node {
	for _, n := range l.nodes {
		if n.stage == stage && (stage != sglang.StageUnknown || n.name == name) {
			return n
		}
	}
	return nil
}

func (t *trace) grow(n int64) {
	if t.removed {
		return
	}
	t.bytes += n
	t.shard.grow(n)
}

func (t *trace) bind(id uint64, r ref) {
	if t.ids.set(id, r) {
		t.grow(idBytes)
	}
	if t.asked.id == id {
		t.asked.ref = r
	}
	t.bound = known{id, r}
}

// known is what an id stands for.
type known struct {
	id  uint64
	ref ref
}

// at returns what the id stands for, the zero ref if nothing. Slices of one rank
// that follow each other name the same parent and link to the one before.
func (t *trace) at(id uint64) ref {
	switch id {
	case t.asked.id:
		return t.asked.ref
	case t.bound.id:
		return t.bound.ref
	}
	r, _ := t.ids.get(id)
	t.asked = known{id, r}
	return r
}

// rootAt returns the root that an id stands for, nil if none.
func (t *trace) rootAt(id uint64) *request {
	r, _ := t.ids.get(id)
	return r.root
}

// above returns the parent of a span that is not folded, 0 if it is not known.
func (t *trace) above(id uint64) uint64 {
	parent, _ := t.up.get(id)
	return parent
}

// nodeAt returns the node that an id stands for.
func (t *trace) nodeAt(id uint64) *node {
	if n := t.at(id).node; n != nil {
		return n.find()
	}
	return nil
}

// threadAt returns the thread that an id stands for.
func (t *trace) threadAt(id uint64) *thread {
	if l := t.at(id).thread; l != nil {
		return l.find()
	}
	return nil
}

// crowded tells whether the id stands for nothing yet and no more requests can
// be told apart.
func (t *trace) crowded(id uint64) bool {
	return len(t.threads) >= maxRequests && t.at(id) == ref{}
}

func (t *trace) newThread(p *identity.Proc) *thread {
	l := t.pool.thread()
	l.group, l.dp, l.pp = p.Group, p.Ranks.DP, max(p.Ranks.PP, 0)
	t.threads = append(t.threads, l)
	t.grow(nodeBytes)
	return l
}

func (t *trace) newNode(l *thread, stage sglang.Stage, name string) *node {
	n := t.pool.node()
	n.thread, n.stage, n.name = l, stage, name
	if l != nil {
		l.nodes = append(l.nodes, n)
	}
	t.grow(nodeBytes)
	return n
}

// openThreads returns how many requests the group has open in the trace, and the
// only open thread among them that rank has no id in, if there is exactly one.
func (t *trace) openThreads(g *identity.Group, rank int32) (open int, free *thread) {
	frees := 0
	for _, l := range t.threads {
		if l.merged != nil || l.done || l.group.Find() != g.Find() {
			continue
		}
		open++
		if _, taken := localOf(l.locals, rank); !taken {
			free = l
			frees++
		}
	}
	if frees != 1 {
		free = nil
	}
	front := 0
	for _, s := range t.front {
		if s == nil || s.EngineID() == "" || s.EngineID() == g.EngineID() {
			front++
		}
	}
	return max(open, front), free
}

// served tells whether a request of the group has left: then a slice of another
// rank may be a late copy of it.
func (t *trace) served(g *identity.Group) bool {
	return slices.ContainsFunc(t.threads, func(l *thread) bool {
		return l.merged == nil && l.done && l.group.Find() == g.Find()
	})
}

// behind tells whether copies that the rank shows may be late ones of a request
// that has left: it has not delivered its thread span, which comes last, and has
// not gone on to another request.
func (t *trace) behind(g *identity.Group, rank int32) bool {
	missed, onward := false, false
	for _, l := range t.threads {
		if l.merged != nil || l.group.Find() != g.Find() {
			continue
		}
		_, showed := localOf(l.locals, rank)
		switch {
		case !l.done:
			onward = onward || showed
		case l.spread.ranks&rankBit(rank) != 0:
		case l.late&rankBit(rank) != 0:
			return true
		default:
			missed = missed || !showed
		}
	}
	return missed && !onward
}

// opening tells whether the slice is a request's first at a scheduler: its link
// leads to another process. At trace level 1 that is prefill_waiting.
func (t *trace) opening(sp *Span, g *identity.Group) bool {
	return opens(sp.Stage) || sp.Stage == sglang.StagePrefillWaiting && !t.levelTwo && !g.LevelTwo()
}

// opens tells whether the stage is a request's first at every trace level that has it.
func opens(stage sglang.Stage) bool {
	return stage == sglang.StageRequestProcess || stage == sglang.StagePrefillPrepare || stage == sglang.StageDecodePrepare
}

// threadFor returns the logical thread of a slice below the thread span
// sp.Parent, nil if it can't be told yet. A clash means that one process shows
// two threads for one request: its sender stands for several processes.
func (t *trace) threadFor(sp *Span, p *identity.Proc) (l *thread, clash bool) {
	if l := t.threadAt(sp.Parent); l != nil {
		t.anchorTo(l, sp, p)
		return l, false
	}
	rank := p.Ranks.TP
	key := anchor{sp.Link, p.Ranks.DP, max(p.Ranks.PP, 0)}
	if l := t.anchors[key]; sp.Link != 0 && l != nil {
		l = l.find()
		if l.group.Find() != p.Group.Find() {
			t.shard.unite(l.group, p.Group)
		}
		if _, taken := localOf(l.locals, rank); taken {
			return nil, true
		}
		return t.take(l, sp, p), false
	}
	open, free := t.openThreads(p.Group, rank)
	first := t.opening(sp, p.Group)
	if first {
		if l := t.threadUnder(t.rootAbove(sp.Link), p); l != nil {
			return t.take(l, sp, p), false
		}
	}
	switch {
	case !first && t.behind(p.Group, rank):
		return nil, false
	case open <= 1 && free != nil && (!first || free.opened != sp.Stage) && !t.foreign(free, sp, rank):
		return t.take(free, sp, p), false
	case t.crowded(sp.Parent):
		return nil, false
	case first || p.Primary() || (open == 0 && !t.served(p.Group)):
		return t.take(t.newThread(p), sp, p), false
	}
	return nil, false
}

// threadUnder returns the thread of a root at the process's place in the engine
// that the rank has no id in, nil if there is none.
func (t *trace) threadUnder(root uint64, p *identity.Proc) *thread {
	if root == 0 {
		return nil
	}
	for _, l := range t.threads {
		if l.merged != nil || l.root != root || l.dp != p.Ranks.DP || l.pp != max(p.Ranks.PP, 0) {
			continue
		}
		if _, taken := localOf(l.locals, p.Ranks.TP); !taken {
			return l
		}
	}
	return nil
}

// rootAbove returns the id of the root above a front end's slice, 0 if it is not known.
func (t *trace) rootAbove(slice uint64) uint64 { return t.above(t.above(slice)) }

// width is how many ranks are to be expected.
func (l *thread) width() int { return max(len(l.group.Expected()), 1) }

func (t *trace) take(l *thread, sp *Span, p *identity.Proc) *thread {
	if l.locals == nil {
		l.locals = l.carve()
	}
	l.locals = append(l.locals, local{rank: p.Ranks.TP, id: sp.Parent})
	if l.done {
		l.late |= rankBit(p.Ranks.TP)
	}
	t.bind(sp.Parent, ref{thread: l})
	t.anchorTo(l, sp, p)
	return l
}

// carve returns room for the ids that the ranks know one node by.
func (l *thread) carve() []local {
	width := l.width()
	if len(l.spare) < width {
		l.spare = make([]local, (1+usualNodes)*width)
	}
	room := l.spare[:0:width]
	l.spare = l.spare[width:]
	return room
}

func (t *trace) anchorTo(l *thread, sp *Span, p *identity.Proc) {
	// A link to a slice of the same rank tells no other rank anything.
	if sp.Link == 0 || t.at(sp.Link).node != nil {
		return
	}
	key := anchor{sp.Link, p.Ranks.DP, max(p.Ranks.PP, 0)}
	if t.anchors[key] == nil {
		if t.anchors == nil {
			t.anchors = map[anchor]*thread{}
		}
		t.anchors[key] = l
		t.grow(idBytes)
	}
	if t.opening(sp, p.Group) && (l.opened == sglang.StageUnknown || sp.Stage != sglang.StagePrefillWaiting) {
		l.opened, l.anchor = sp.Stage, sp.Link
	}
}

// parentFor returns the node of a leaf's parent slice, nil if it can't be told
// yet. The parent itself comes after its children.
func (t *trace) parentFor(sp *Span, p *identity.Proc) *node {
	if n := t.nodeAt(sp.Parent); n != nil {
		return n
	}
	rank := p.Ranks.TP
	open, _ := t.openThreads(p.Group, rank)
	l := t.onlyOpen(p.Group)
	if l != nil && t.foreign(l, sp, rank) {
		if !p.Primary() {
			return nil
		}
		l = nil
	}
	if open == 0 {
		l = t.leftAt(p.Group, rank, sp.Start)
	}
	switch {
	case t.behind(p.Group, rank):
		return nil
	case !p.Primary() && (open > 1 || l == nil && t.served(p.Group)):
		return nil
	case open > 1:
		l = nil
	case l == nil && t.crowded(sp.Parent):
		return nil
	case l == nil:
		l = t.newThread(p)
	}
	n := t.guessParent(l, sp, rank)
	t.bindParent(n, rank, sp.Parent)
	return n
}

// foreign tells whether the slice is surely not of the thread's request, which was
// not under way when the slice began: neither by the rank's own clock nor by the
// reference rank's, each of which may be the one that is off.
func (t *trace) foreign(l *thread, sp *Span, rank int32) bool {
	begin, end := int64(math.MinInt64), l.spread.last
	if r := t.requestOf(l); r != nil {
		begin, end = r.start-nearStart, max(end, r.end)
	}
	outside := func(start int64) bool { return start < begin || end != 0 && start > end+nearStart }
	return outside(sp.Start) && outside(sp.Start-l.offset(rank))
}

// requestOf returns the root of the thread's request, the only open one where the
// thread does not tell; nil if it has not come.
func (t *trace) requestOf(l *thread) *request {
	if id := t.rootOf(l); id != 0 {
		return t.rootAt(id)
	}
	if t.openRoots != 1 {
		return nil
	}
	for _, r := range t.roots {
		if r.item != nil {
			return r
		}
	}
	return nil
}

// bindParent notes the id by which a rank's leaves name the node.
func (t *trace) bindParent(n *node, rank int32, id uint64) {
	n.locals = append(n.locals, local{rank: rank, id: id})
	t.bind(id, ref{node: n})
}

// leftAt returns the only thread that has left whose span of the rank was under
// way at the time, nil if there is none.
func (t *trace) leftAt(g *identity.Group, rank int32, at int64) (found *thread) {
	for _, l := range t.threads {
		if l.merged != nil || !l.done || l.group.Find() != g.Find() || l.spread.last < at ||
			!slices.ContainsFunc(l.locals, func(lo local) bool { return lo.rank == rank && lo.start != 0 && lo.start <= at }) {
			continue
		}
		if found != nil {
			return nil
		}
		found = l
	}
	return found
}

func (t *trace) onlyOpen(g *identity.Group) *thread {
	var only *thread
	for _, l := range t.threads {
		if l.merged == nil && !l.done && l.group.Find() == g.Find() {
			if only != nil {
				return nil
			}
			only = l
		}
	}
	return only
}

// guessParent returns the node of thread l that a leaf with an unknown parent
// must be below, going by the leaf's stage.
func (t *trace) guessParent(l *thread, sp *Span, rank int32) *node {
	if l == nil {
		return t.newNode(nil, sglang.StageDecodeForward, "")
	}
	order := [...]sglang.Stage{sglang.StageDecodeForward, sglang.StagePrefillForward}
	if sp.Stage == sglang.StageChunkedPrefill || sp.Stage == sglang.StageRunBatchCPU {
		order[0], order[1] = order[1], order[0]
	}
	for _, stage := range order {
		n := l.child(stage, "")
		if n == nil {
			return t.newNode(l, stage, "")
		}
		if _, taken := n.localOf(rank); !taken {
			return n
		}
	}
	return t.newNode(nil, order[0], "")
}

// nodeFor returns the node of a slice below thread l.
func (t *trace) nodeFor(l *thread, sp *Span, rank int32) *node {
	n := l.child(sp.Stage, sp.Name)
	known := t.nodeAt(sp.ID)
	switch {
	case known != nil && n == nil:
		// A phantom whose children came first; its stage was a guess.
		if known.thread != nil && known.thread.find() != l {
			known.thread.find().remove(known)
		}
		if known.thread == nil || known.thread.find() != l {
			l.nodes = append(l.nodes, known)
		}
		n = known
		n.thread, n.stage, n.name = l, sp.Stage, sp.Name
	case n == nil:
		n = t.newNode(l, sp.Stage, sp.Name)
	case known != nil && known != n:
		if known.thread != nil {
			known.thread.find().remove(known)
		}
		t.unify(n, known)
	}
	n.know(l, rank, sp)
	t.bind(sp.ID, ref{node: n})
	return n
}

func (l *thread) remove(n *node) {
	l.nodes = slices.DeleteFunc(l.nodes, func(o *node) bool { return o == n })
}

// unify makes two nodes one and retries what waited for either.
func (t *trace) unify(n, o *node) {
	if n.merged != nil || n == o {
		return
	}
	n.absorb(t, o)
}

// joinThreads makes two threads one.
func (t *trace) joinThreads(a, b *thread) *thread {
	if a == b {
		return a
	}
	b.merged = a
	for _, lo := range b.locals {
		if _, known := localOf(a.locals, lo.rank); !known {
			a.locals = append(a.locals, lo)
		}
	}
	if b.out && !a.out {
		a.public, b.public = b.public, a.public // the one that left stays
	}
	a.public, a.named = joinNames(a.public, a.named, b.public, b.named)
	if a.root == 0 {
		a.root = b.root
	}
	if a.opened == sglang.StageUnknown {
		a.opened, a.anchor = b.opened, b.anchor
	}
	a.items = append(a.items, b.items...)
	a.prior = append(a.prior, b.prior...)
	a.spread.merge(b.spread)
	for _, n := range b.nodes {
		n.thread = a
		if mine := a.child(n.stage, n.name); mine != nil {
			t.unify(mine, n)
			continue
		}
		a.nodes = append(a.nodes, n)
	}
	b.nodes, b.items = nil, nil
	a.out = a.out || b.out
	if a.done || b.done {
		t.finish(a)
	}
	return a
}

// joinNames joins the ids by which released spans name two things that are one:
// the first's public id stays.
func joinNames(public uint64, named []uint64, other uint64, others []uint64) (uint64, []uint64) {
	switch {
	case public == 0:
		public = other
	case other != 0 && other != public:
		named = append(named, other)
	}
	return public, append(named, others...)
}

// finish settles a thread of which a part has left: what slices it still holds
// leave after their wait.
func (t *trace) finish(l *thread) {
	if !l.out {
		t.flushThread(l, ReasonNone)
	}
	l.done, l.left = true, t.shard.now.UnixNano()
	for _, it := range l.items {
		t.drop(it)
	}
	l.items = nil
	for _, n := range l.nodes {
		if n.item != nil {
			t.shard.later(waitQueue, n.item, t.last)
		}
	}
}

// rootOf returns the id of the root that the thread's request has, 0 if it is
// not known.
func (t *trace) rootOf(l *thread) uint64 {
	if l.root != 0 {
		return l.root
	}
	return t.rootAbove(l.anchor)
}
