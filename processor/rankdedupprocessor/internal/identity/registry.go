// Copyright The otelcol-sglang Authors
// SPDX-License-Identifier: Apache-2.0

package identity // import "github.com/otelcol-sglang/otelcol-sglang/processor/rankdedupprocessor/internal/identity"

import (
	"cmp"
	"fmt"
	"hash/fnv"
	"maps"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/otelcol-sglang/otelcol-sglang/internal/sglang"
)

// Key is all that a resource says about its sender. Comparable, so that looking
// a sender up costs one map access.
type Key struct {
	// Instance is service.instance.id, or host and process id where that is absent.
	Instance string
	// Peer is the receiver's stamp.
	Peer string
	// Engine and Ranks are set by an earlier tier of this processor.
	Engine string
	Ranks  sglang.Ranks
}

// settleFactor: an instance id alone, with a peer that was never seen, counts
// only after it has been free of contradiction for so many waits.
const settleFactor = 15

// Settings of a registry.
type Settings struct {
	// Wait is how long a lower rank may take to turn up after the first of its
	// group, and the unit of the waits that follow from it.
	Wait time.Duration
	// ForgetAfter is the quiet time after which a sender is forgotten.
	ForgetAfter time.Duration
	// MaxSenders bounds the table.
	MaxSenders int
}

// Registry knows the senders. Lookups take no lock.
type Registry struct {
	settings Settings
	senders  atomic.Pointer[map[Key]*Sender]

	mu sync.Mutex
	// fresh are senders that are not yet in the table: it is copied for many at once.
	fresh     map[Key]*Sender
	instances map[string]*instance
	engines   map[string]*Engine // by id, those that an earlier tier named
	roots     [2]map[Root]*Engine
	rotated   time.Time
	joined    joined // read without mu
	strands   strands
	born      uint64
	groups    []*Group // all, for settling
	united    bool     // by Unite, since the last Settle
}

// Root is a request's root span.
type Root struct{ TraceLow, Span uint64 }

// maxRoots bounds one generation of the table of roots.
const maxRoots = 1 << 16

// NewRegistry returns an empty registry.
func NewRegistry(settings Settings) *Registry {
	r := &Registry{
		settings:  settings,
		fresh:     map[Key]*Sender{},
		instances: map[string]*instance{},
		engines:   map[string]*Engine{},
		roots:     [2]map[Root]*Engine{{}, {}},
	}
	r.senders.Store(&map[Key]*Sender{})
	r.strands.init()
	return r
}

// Sender is who sent a resource: one exporter, one peer.
type Sender struct {
	key       Key
	proc      atomic.Pointer[Proc]
	ambiguous atomic.Bool
	lastSeen  atomic.Int64
	engine    atomic.Pointer[Engine]

	// firsts: below which parent the sender showed the first slice of a request,
	// while its ranks are unknown; owned by Registry.mu.
	firsts map[first]uint64
	// adopted: proc was taken over from the instance id, no thread span has told
	// it; owned by Registry.mu.
	adopted bool
	kinds   atomic.Uint32
	// told: a thread span of its own has told proc.
	told atomic.Bool
}

type first struct {
	stage sglang.Stage
	link  uint64
}

// maxFirsts bounds Sender.firsts.
const maxFirsts = 64

// instance is what is known of a service.instance.id over all its peers.
type instance struct {
	proc      *Proc
	since     time.Time
	ambiguous bool      // several processes have it
	kinds     uint32    // of process that showed a stage, as bits
	adopters  []*Sender // that were given proc for the id alone
}

// Proc is an engine process whose ranks are known. It never changes.
type Proc struct {
	Ranks sglang.Ranks
	Group *Group
	self  *member
}

// Primary tells whether this process's copies are the ones to keep.
func (p *Proc) Primary() bool { return p.Group.Primary() == p.Ranks.TP }

// Settled tells whether it is decided which rank's copies are kept.
func (p *Proc) Settled() bool { return p.Group.Primary() != sglang.NoRank }

// Sender returns the sender with the key; it is made if it was not known, unless
// the table is full, then it returns nil.
func (r *Registry) Sender(key Key, now time.Time) *Sender {
	s := (*r.senders.Load())[key]
	if s == nil {
		s = r.add(key, now)
	}
	if s != nil {
		s.lastSeen.Store(now.UnixNano())
	}
	return s
}

// Proc returns the process, nil while it is unknown or where the sender stands
// for several.
func (s *Sender) Proc() *Proc {
	if s.ambiguous.Load() {
		return nil
	}
	return s.proc.Load()
}

// Ambiguous tells whether the sender stands for several processes.
func (s *Sender) Ambiguous() bool { return s.ambiguous.Load() }

// EngineID names the sender's engine, "" while unknown.
func (s *Sender) EngineID() string {
	if e := s.engine.Load(); e != nil {
		return e.ID()
	}
	return ""
}

const frontAndScheduler = 1<<sglang.ProcessFrontEnd | 1<<sglang.ProcessScheduler

// Saw notes that the sender emitted a stage of the kind of process.
func (r *Registry) Saw(s *Sender, kind sglang.Process, now time.Time) {
	bit := uint32(1) << kind
	if s.kinds.Load()&bit != 0 {
		return
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	s.kinds.Or(bit)
	inst := r.instance(s, now)
	if inst.kinds |= bit; inst.kinds&frontAndScheduler == frontAndScheduler {
		inst.ambiguous = true
		s.disown()
	}
}

// disown takes back what a sender was given for its instance id. It reports
// whether there was something. Registry.mu is held.
func (s *Sender) disown() bool {
	if !s.adopted {
		return false
	}
	s.adopted = false
	s.told.Store(false)
	s.proc.Store(nil)
	return true
}

func (r *Registry) add(key Key, now time.Time) *Sender {
	r.mu.Lock()
	defer r.mu.Unlock()
	table := *r.senders.Load()
	if s := cmp.Or(table[key], r.fresh[key]); s != nil {
		return s
	}
	if len(table)+len(r.fresh) >= r.settings.MaxSenders {
		return nil
	}
	// The resource's strings may share memory with a whole request.
	key.Instance, key.Peer, key.Engine = strings.Clone(key.Instance), strings.Clone(key.Peer), strings.Clone(key.Engine)
	s := &Sender{key: key}
	r.adopt(s, now)
	s.lastSeen.Store(now.UnixNano())
	r.fresh[key] = s
	if len(r.fresh) >= max(fewFresh, len(table)/8) {
		r.publish()
	}
	return s
}

// fewFresh is how many senders may be missing from a small table.
const fewFresh = 8

// publish puts the fresh senders into the table. Registry.mu is held.
func (r *Registry) publish() map[Key]*Sender {
	table := *r.senders.Load()
	if len(r.fresh) == 0 {
		return table
	}
	table = maps.Clone(table)
	maps.Copy(table, r.fresh)
	clear(r.fresh)
	r.senders.Store(&table)
	return table
}

// adopt gives a sender what is known of it without having seen a thread span.
func (r *Registry) adopt(s *Sender, now time.Time) {
	if s.key.Engine != "" {
		e := r.engines[s.key.Engine]
		if e == nil {
			e = r.newEngine(s.key.Engine)
			r.engines[s.key.Engine] = e
		}
		s.engine.Store(e.find())
	}
	if s.key.Ranks.TP != sglang.NoRank {
		r.setProc(s, sglang.Thread{Ranks: s.key.Ranks}, now)
		return
	}
	known := r.instances[s.key.Instance]
	if s.key.Instance == "" || known == nil || !known.trusted(now, r.settings.Wait*settleFactor) {
		return
	}
	s.engine.Store(known.proc.Group.engine)
	s.proc.Store(known.proc)
	s.adopted = true
	known.adopters = append(known.adopters, s)
}

func (i *instance) trusted(now time.Time, settle time.Duration) bool {
	return i.proc != nil && !i.ambiguous && now.Sub(i.since) >= settle
}

// prune forgets adopters that are none any more or have been quiet.
func (i *instance) prune(oldest int64) {
	i.adopters = slices.DeleteFunc(i.adopters, func(s *Sender) bool { return !s.adopted || s.lastSeen.Load() < oldest })
}

func (r *Registry) newEngine(id string) *Engine {
	r.born++
	return &Engine{id: id, born: r.born, groups: map[groupKey]*Group{}}
}

// engineIDOf makes an engine's id from the first sender that is known of it.
func engineIDOf(key Key) string {
	h := fnv.New64a()
	fmt.Fprintf(h, "%s\x00%s", key.Instance, key.Peer)
	return fmt.Sprintf("%016x", h.Sum64())
}

// Learn takes what a thread span says: the ranks of its sender, and that the
// sender belongs to the engine of the request root above it. It returns the
// process of the thread span, nil if it has no ranks or its copies are not
// copies of each other; changed tells that spans may have become placeable.
func (r *Registry) Learn(s *Sender, t sglang.Thread, root Root, now time.Time) (proc *Proc, changed bool) {
	if p := s.Proc(); p != nil && p.Ranks == t.Ranks && s.told.Load() && Foldable(t) && r.joined.has(s, root) {
		return p, false
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	changed = r.join(s, root, now)
	defer r.joined.note(s, root)
	if !Foldable(t) {
		return nil, changed
	}
	inst := r.instance(s, now)
	known := s.proc.Load()
	if known != nil && known.Ranks != t.Ranks && s.disown() {
		inst.ambiguous = true
		known = nil
	}
	if s.adopted {
		s.adopted = false
		inst.prune(0)
	}
	switch {
	case known == nil:
		r.setProc(s, t, now)
		changed = true
	case known.Ranks != t.Ranks:
		inst.ambiguous = true
		changed = !s.ambiguous.Swap(true) || changed
	}
	if s.ambiguous.Load() {
		return r.procOf(s, s.engine.Load().find(), t, now), true
	}
	p := s.proc.Load()
	if p != nil {
		inst.note(p, now)
		s.told.Store(true)
	}
	return p, changed
}

// Join puts the sender of a request root into the root's engine. It reports
// whether spans may have become placeable by it.
func (r *Registry) Join(s *Sender, root Root, now time.Time) (changed bool) {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.join(s, root, now)
}

// Foldable tells whether threads like this one are copies of each other over the
// TP ranks. Transfer workers move each their own part of the KV cache.
func Foldable(t sglang.Thread) bool {
	return t.Ranks.TP != sglang.NoRank && sglang.ProcessOf(t.Label) == sglang.ProcessScheduler
}

func (r *Registry) instance(s *Sender, now time.Time) *instance {
	inst := r.instances[s.key.Instance]
	if inst == nil {
		inst = &instance{since: now}
		r.instances[s.key.Instance] = inst
	}
	return inst
}

func (i *instance) note(p *Proc, now time.Time) {
	if i.proc == nil {
		i.proc, i.since = p, now
	}
	if i.proc.Ranks != p.Ranks {
		i.ambiguous = true
	}
}

// join puts the sender into the engine of the root, or starts one. It reports
// whether two engines turned out to be one: then a group may have got its primary.
func (r *Registry) join(s *Sender, root Root, now time.Time) (merged bool) {
	r.rotate(now)
	e := r.roots[0][root]
	if e == nil {
		e = r.roots[1][root]
	}
	mine := s.engine.Load()
	switch {
	case e == nil && mine == nil:
		e = r.newEngine(engineIDOf(s.key))
	case e == nil:
		e = mine.find()
	case mine != nil && mine.find() != e.find():
		if s.ambiguous.Load() {
			// One identity for several engines' processes proves nothing.
			e = e.find()
			break
		}
		e, merged = merge(e, mine), true
	}
	e = e.find()
	s.engine.Store(e)
	if len(r.roots[0]) < maxRoots {
		r.roots[0][root] = e
	}
	return merged
}

// Unite joins the engines of two groups that were seen under one request.
func (r *Registry) Unite(a, b *Group) {
	r.mu.Lock()
	defer r.mu.Unlock()
	merge(a.engine, b.engine)
	r.united = true
}

func (r *Registry) rotate(now time.Time) {
	if now.Sub(r.rotated) < r.settings.ForgetAfter/2 && len(r.roots[0]) < maxRoots {
		return
	}
	r.roots[0], r.roots[1] = map[Root]*Engine{}, r.roots[0]
	r.rotated = now
	r.joined.clear()
}

// joined remembers which engine lately met which root, so that all ranks of an
// engine but the first need no lock for that. Of two roots with one place the
// later one is known.
type joined [1024]atomic.Uint64

func (j *joined) place(root Root) *atomic.Uint64 {
	return &j[(root.Span^root.Span>>32)%uint64(len(j))]
}

// mark is not 0, and differs for different roots and engines as good as surely.
func (e *Engine) mark(root Root) uint64 {
	const odd, other = 0x9e3779b97f4a7c15, 0xc2b2ae3d27d4eb4f
	return (root.Span*odd ^ root.TraceLow*other ^ e.born<<1) | 1
}

func (j *joined) has(s *Sender, root Root) bool {
	e := s.engine.Load()
	return e != nil && j.place(root).Load() == e.find().mark(root)
}

// note is called after join; Registry.mu is held.
func (j *joined) note(s *Sender, root Root) {
	if e := s.engine.Load(); e != nil {
		j.place(root).Store(e.find().mark(root))
	}
}

func (j *joined) clear() {
	for i := range j {
		j[i].Store(0)
	}
}

func (r *Registry) setProc(s *Sender, t sglang.Thread, now time.Time) {
	e := s.engine.Load()
	if e == nil {
		e = r.newEngine(engineIDOf(s.key))
		s.engine.Store(e)
	}
	s.proc.Store(r.procOf(s, e.find(), t, now))
	s.firsts = nil
}

// procOf returns the sender's process of an engine with the thread's ranks, as a
// member of its group; nil if the engine has too many.
func (r *Registry) procOf(s *Sender, e *Engine, t sglang.Thread, now time.Time) *Proc {
	key := groupKey{dp: t.Ranks.DP, pp: max(t.Ranks.PP, 0)}
	g := e.groups[key]
	if e.procs >= maxProcs && (g == nil || g.members[t.Ranks.TP] == nil) {
		return nil
	}
	if g == nil {
		g = &Group{key: key, engine: e, members: map[int32]*member{}, firstAt: now}
		g.primary.Store(sglang.NoRank)
		e.groups[key] = g
		r.groups = append(r.groups, g)
		e.link()
	}
	m := g.members[t.Ranks.TP]
	if m == nil {
		m = &member{stamped: s.key.Ranks.TP != sglang.NoRank}
		g.members[t.Ranks.TP] = m
		e.procs++
		g.refresh()
	}
	m.lastSeen.Store(now.UnixNano())
	return &Proc{Ranks: t.Ranks, Group: g, self: m}
}

// Owes notes that another rank's copy had to stand in for the group's primary.
// A primary that owes several and has been silent is dead: the next rank is
// primary from then on. It reports whether that happened.
func (r *Registry) Owes(g *Group, now time.Time) bool {
	const deadAfterOwing = 3
	r.mu.Lock()
	defer r.mu.Unlock()
	g = g.Find()
	m := g.members[g.primary.Load()]
	if m == nil || m.owes.Add(1) < deadAfterOwing {
		return false
	}
	silent := now.Sub(time.Unix(0, m.lastSeen.Load()))
	if silent < r.silence() || len(*g.expected.Load()) < 2 {
		return false
	}
	m.dead.Store(true)
	g.refresh()
	return true
}

// Absent notes that a rank other than the primary did not deliver for a request
// that is over. Where it has been silent too it is not waited for any more.
func (r *Registry) Absent(g *Group, rank int32, now time.Time) {
	r.mu.Lock()
	defer r.mu.Unlock()
	g = g.Find()
	m := g.members[rank]
	if m == nil || rank == g.primary.Load() || now.Sub(time.Unix(0, m.lastSeen.Load())) < r.silence() {
		return
	}
	m.dead.Store(true)
	g.refresh()
}

// silence is how long a process that owes copies must have said nothing to count as dead.
func (r *Registry) silence() time.Duration { return max(2*r.settings.Wait, 3*time.Second) }

// Alive notes that a process has sent something. One that was taken for dead is
// back by it.
func (r *Registry) Alive(p *Proc, now time.Time) {
	m := p.self.find()
	m.lastSeen.Store(now.UnixNano())
	if m.owes.Load() != 0 {
		m.owes.Store(0)
	}
	if !m.dead.Load() {
		return
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	if m.find().dead.Swap(false) {
		p.Group.Find().refresh()
	}
}

// MarkAmbiguous notes that the sender stands for several processes.
func (r *Registry) MarkAmbiguous(s *Sender, now time.Time) {
	r.mu.Lock()
	defer r.mu.Unlock()
	inst := r.instance(s, now)
	inst.ambiguous = true
	// Who was given its process for its instance id alone is the likelier one.
	doubted := false
	for _, other := range inst.adopters {
		doubted = other.disown() || doubted
	}
	inst.adopters = nil
	if !doubted {
		s.ambiguous.Store(true)
	}
}

// First notes the first slice of a request from a sender whose ranks are not
// known. The same slice below another parent shows that the sender is ambiguous,
// before any thread span does.
func (r *Registry) First(s *Sender, stage sglang.Stage, link, parent uint64, now time.Time) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if s.firsts == nil || len(s.firsts) >= maxFirsts {
		s.firsts = map[first]uint64{}
	}
	f := first{stage, link}
	if before, ok := s.firsts[f]; ok && before != parent && !s.ambiguous.Swap(true) {
		r.instance(s, now).ambiguous = true
	}
	s.firsts[f] = parent
}

// Settle decides for groups whose time has come. It reports whether one got its
// primary by it, or by Unite.
func (r *Registry) Settle(now time.Time) (settled bool) {
	r.mu.Lock()
	defer r.mu.Unlock()
	settled, r.united = r.united, false
	for _, g := range r.groups {
		if g.merged.Load() != nil || g.settled && g.mature.Load() || now.Sub(g.firstAt) < r.settings.Wait {
			continue
		}
		settled = settled || !g.settled
		g.settled = true
		g.mature.Store(true)
		g.refresh()
	}
	return settled
}

// Forget drops senders that have been quiet.
func (r *Registry) Forget(now time.Time) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.forget(now)
}

// forget drops senders that have been quiet, and what only they kept alive.
func (r *Registry) forget(now time.Time) {
	oldest := now.Add(-r.settings.ForgetAfter).UnixNano()
	table := r.publish()
	quiet := 0
	for _, s := range table {
		if s.lastSeen.Load() < oldest {
			quiet++
		}
	}
	if quiet == 0 {
		return
	}
	table = maps.Clone(table)
	maps.DeleteFunc(table, func(_ Key, s *Sender) bool { return s.lastSeen.Load() < oldest })
	r.senders.Store(&table)
	r.prune(table, oldest)
}

func (r *Registry) prune(table map[Key]*Sender, oldest int64) {
	instances := make(map[string]bool, len(table))
	engines := make(map[*Engine]bool, len(table))
	for key, s := range table {
		instances[key.Instance] = true
		if e := s.engine.Load(); e != nil {
			engines[e.find()] = true
		}
	}
	maps.DeleteFunc(r.instances, func(id string, i *instance) bool {
		i.prune(oldest)
		return !instances[id]
	})
	maps.DeleteFunc(r.engines, func(_ string, e *Engine) bool { return !engines[e.find()] })
	kept := r.groups[:0]
	for _, g := range r.groups {
		if g.merged.Load() != nil || !engines[g.engine.find()] {
			continue
		}
		before := len(g.members)
		maps.DeleteFunc(g.members, func(_ int32, m *member) bool { return m.lastSeen.Load() < oldest })
		if gone := before - len(g.members); gone > 0 {
			g.shrunk(gone)
		}
		if len(g.members) == 0 {
			continue
		}
		kept = append(kept, g)
	}
	clear(r.groups[len(kept):])
	r.groups = kept
	r.strands.rotate()
}

// shrunk settles a group that lost members. Registry.mu is held.
func (g *Group) shrunk(gone int) {
	e := g.engine.find()
	e.procs -= gone
	g.refresh()
	if len(g.members) == 0 {
		delete(e.groups, g.key)
		e.link()
	}
}

// Counts of the table.
type Counts struct{ Senders, Known, Ambiguous, Engines, Silent int64 }

// Count tells how many senders are remembered, with ranks, ambiguous, and of how
// many engines; and how many ranks are taken for dead while others of their group
// go on.
func (r *Registry) Count() Counts {
	var c Counts
	engines := map[*Engine]struct{}{}
	r.mu.Lock()
	table := r.publish()
	for _, g := range r.groups {
		if g.merged.Load() == nil {
			c.Silent += g.silent(r.silence())
		}
	}
	r.mu.Unlock()
	for _, s := range table {
		c.Senders++
		switch {
		case s.ambiguous.Load():
			c.Ambiguous++
		case s.proc.Load() != nil:
			c.Known++
		}
		if e := s.engine.Load(); e != nil {
			engines[e.find()] = struct{}{}
		}
	}
	c.Engines = int64(len(engines))
	return c
}
