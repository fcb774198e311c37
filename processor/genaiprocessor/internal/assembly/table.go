// Copyright The otelcol-sglang Authors
// SPDX-License-Identifier: Apache-2.0

package assembly

import (
	"slices"
	"time"

	"github.com/otelcol-sglang/otelcol-sglang/internal/sglang"
)

// Limits bound a table.
type Limits struct {
	// Wait is how long a root waits for its threads, and a decode_forward for its root.
	Wait time.Duration
	// MaxAge is how long numbers wait for a root.
	MaxAge time.Duration
	// WorstSteps is how many slow steps each request remembers.
	WorstSteps int
}

// Why a request or a span left before all was there.
type Why string

// Reasons of an early release.
const (
	WhyWait     Why = "wait"
	WhyLimit    Why = "limit"
	WhyShutdown Why = "shutdown"
	WhyMaxAge   Why = "max_age"
	WhyNoRoot   Why = "no_root"
)

// Left is a request that left, or spans without one.
type Left struct {
	// Request is nil for decode_forward spans that leave without their root.
	Request *Request
	Folded  []FoldedSteps
	// Why is "" for a request that left because it was complete.
	Why Why
}

type timer struct {
	at    time.Time
	trace TraceID
	node  uint64
}

// Table holds the traces of one shard. Its owner locks it.
type Table struct {
	limits Limits
	traces map[TraceID]*Trace
	// timers are in order of their time: the wait is constant.
	timers []timer
	// oldest and newest end a list of all traces in order of their creation.
	oldest, newest *Trace
	// last is the one looked up last.
	last *Trace

	done    tombs
	bytes   int
	scratch []int32
	// tree is the one judged last.
	tree tree
}

// NewTable returns an empty table.
func NewTable(limits Limits) *Table {
	return &Table{limits: limits, traces: make(map[TraceID]*Trace), done: newTombs(limits.Wait)}
}

// Bytes is about what the table holds, Traces how many traces.
func (t *Table) Bytes() int { return t.bytes }

// Traces is the number of traces held.
func (t *Table) Traces() int { return len(t.traces) }

// Pin keeps a record's trace until the record is applied or cancelled: it is on
// its way to the next consumer. It reports false if the record's request has
// left; then nothing is pinned.
func (t *Table) Pin(r *Record, now time.Time) bool {
	if r.Parent == 0 || t.hasLeft(r, now) != Taken {
		return false
	}
	tr := t.trace(r.Trace, now)
	if i := tr.find(r.Parent); i != 0 && tr.nodes[i].x != nil && tr.nodes[i].x.left {
		t.dropEmpty(tr)
		return false
	}
	tr.pins++
	r.pinned = tr
	return true
}

// PinLike does for a record of the same trace and parent what Pin did for the
// other, quicker.
func (t *Table) PinLike(r, other *Record) bool {
	if other.pinned == nil {
		return false
	}
	r.pinned = other.pinned
	r.pinned.pins++
	return true
}

// Cancel takes a pin back.
func (t *Table) Cancel(r *Record) {
	if tr := r.pinned; tr != nil {
		r.pinned = nil
		tr.pins--
		t.dropEmpty(tr)
	}
}

func (t *Table) trace(id TraceID, now time.Time) *Trace {
	tr := t.lookup(id)
	if tr == nil {
		tr = newTrace(id, now)
		tr.whole = !id.External() && !t.done.has(id)
		t.traces[id] = tr
		t.enlist(tr)
		t.bytes += tr.bytes
	}
	return tr
}

// lookup returns the trace with the id, or nil. Spans of one trace come in runs.
func (t *Table) lookup(id TraceID) *Trace {
	if tr := t.last; tr != nil && tr.id == id && !tr.gone {
		return tr
	}
	tr := t.traces[id]
	t.last = tr
	return tr
}

func (t *Table) dropEmpty(tr *Trace) {
	if tr.live == 0 && tr.pins == 0 && !tr.gone {
		t.forget(tr)
	}
}

func (t *Table) forget(tr *Trace) {
	tr.gone = true
	t.bytes -= tr.bytes
	delete(t.traces, tr.id)
	if t.last == tr {
		t.last = nil
	}
	t.delist(tr)
}

// delist takes a trace out of the list.
func (t *Table) delist(tr *Trace) {
	if tr.older != nil {
		tr.older.newer = tr.newer
	} else {
		t.oldest = tr.newer
	}
	if tr.newer != nil {
		tr.newer.older = tr.older
	} else {
		t.newest = tr.older
	}
	tr.older, tr.newer = nil, nil
}

// enlist keeps the list in order: almost always the trace is the newest.
func (t *Table) enlist(tr *Trace) {
	older := t.newest
	for older != nil && older.created.After(tr.created) {
		older = older.older
	}
	tr.older, tr.newer = older, t.oldest
	if older != nil {
		tr.newer, older.newer = older.newer, tr
	} else {
		t.oldest = tr
	}
	if tr.newer != nil {
		tr.newer.older = tr
	} else {
		t.newest = tr
	}
}

// Apply records a span.
func (t *Table) Apply(r *Record, now time.Time) Outcome {
	if tr := r.pinned; tr != nil {
		r.pinned = nil
		tr.pins--
	} else if o := t.hasLeft(r, now); o != Taken {
		t.adopt(r, now)
		return o
	}
	tr := t.trace(r.Trace, now)
	tr.clock = clockOf(now)
	before := tr.bytes
	if r.Engine != "" {
		tr.engine = r.Engine
	}
	first := t.record(tr, r, now)
	tr.applied++
	if len(tr.roots) > fewRoots {
		tr.touchBy(r)
	}
	t.bytes += tr.bytes - before
	t.dropEmpty(tr) // a span of no request leaves nothing behind
	if !first {
		return Duplicate
	}
	return Taken
}

// touchBy touches the root that a record belongs to.
func (t *Trace) touchBy(r *Record) {
	i := t.find(r.ID)
	if i == 0 {
		i = t.find(r.Parent)
	}
	if i != 0 {
		t.touch(i)
	}
}

// adopt clears the place of a span that came after its request had left: what
// waited for it below has nothing more to wait for. Its folded steps go with it.
func (t *Table) adopt(r *Record, now time.Time) {
	if r.Trace.External() && r.Kind != sglang.KindRoot && r.Stage != sglang.StageDecodeLoop {
		t.done.addSpan(r, now) // so that what comes below it is known to be late, too
	}
	tr := t.traces[r.Trace]
	if tr == nil || tr.pins > 0 {
		return
	}
	i := tr.find(r.ID)
	if i == 0 || tr.nodes[i].seen {
		return
	}
	before := tr.bytes
	if x := tr.nodes[i].x; x != nil && x.folded {
		r.LateSum = x.sum
	}
	tr.epoch++
	below := tree{root: i, nodes: tr.visit(t.scratch[:0], i)}
	tr.descend(&below)
	t.done.addSpans(tr, below.nodes, now)
	tr.remove(below.nodes)
	t.scratch = below.nodes[:0]
	t.bytes += tr.bytes - before
	t.dropEmpty(tr)
}

func (t *Table) record(tr *Trace, r *Record, now time.Time) bool {
	switch {
	case r.Kind == sglang.KindSlice && r.Parent == 0 && (r.Stage == sglang.StageDecodeLoop || !hasNumbers(r.Stage)):
		return true // of no request
	case r.Kind == sglang.KindSlice && r.Stage == sglang.StageDecodeLoop:
		return tr.addStep(r, t.limits.WorstSteps)
	case r.Kind == sglang.KindSlice && !hasNumbers(r.Stage):
		return tr.addOther(r)
	}
	first := tr.add(r, now)
	if first && (r.Kind == sglang.KindRoot || r.Payload != nil || r.Kind == sglang.KindThread) {
		t.timers = append(t.timers, timer{at: now.Add(t.limits.Wait), trace: r.Trace, node: r.ID})
	}
	return first
}

// hasNumbers: these stages come once per step and say nothing of the request's time.
func hasNumbers(s sglang.Stage) bool {
	switch s {
	case sglang.StageSpecDraft, sglang.StageSpecVerify, sglang.StageSpecDraftExtend, sglang.StageRunBatchCPU:
		return false
	}
	return true
}

// hasLeft: the tombs need not be asked about a trace that nothing has left of.
func (t *Table) hasLeft(r *Record, now time.Time) Outcome {
	if tr := t.lookup(r.Trace); tr != nil && tr.whole {
		return Taken
	}
	o := t.done.find(r, now)
	if o != Taken && r.Kind == sglang.KindRoot {
		return Duplicate
	}
	return o
}

// Settle hands over the requests of a trace that are complete.
func (t *Table) Settle(id TraceID, now time.Time, take func(Left)) {
	tr := t.lookup(id)
	if tr == nil || tr.pins > 0 {
		return
	}
	touched := tr.takeTouched()
	if len(tr.roots) > fewRoots {
		for _, i := range touched {
			if tr.gone {
				return
			}
			if x := tr.nodes[i].x; x != nil && x.root != nil {
				t.settleRoot(tr, i, now, take)
			}
		}
		return
	}
	for k := 0; k < len(tr.roots); {
		if !t.settleRoot(tr, tr.roots[k], now, take) {
			k++
		}
	}
}

// hugeTree is more spans than any request of the engine has, steps apart.
const hugeTree = 4096

// settleRoot lets a root leave if its request is complete. A huge tree is not
// walked for each span that comes.
func (t *Table) settleRoot(tr *Trace, root int32, now time.Time, take func(Left)) bool {
	x := tr.nodes[root].x
	if x.size > hugeTree && tr.applied-x.age < x.size/8 {
		return false
	}
	tree, status := t.judge(tr, root)
	x.size, x.age = len(tree.nodes), tr.applied
	if status != sglang.CompletenessComplete && !x.root.Done {
		return false
	}
	t.release(tr, tree, status, "", now, take)
	return true
}

func (t *Table) judge(tr *Trace, root int32) (*tree, string) {
	t.tree = tr.collect(root, t.scratch)
	t.scratch = t.tree.nodes[:0]
	tr.judge(&t.tree)
	return &t.tree, tr.completeness(&t.tree)
}

// release takes a request out of the table.
func (t *Table) release(tr *Trace, tree *tree, status string, why Why, now time.Time, take func(Left)) {
	before := tr.bytes
	root := &tr.nodes[tree.root]
	request := tr.request(tree, status)
	if !request.Root.Done || len(request.Folded) > 0 {
		take(Left{Request: request, Why: why})
	}
	t.done.add(tr, tree, root.x.root.Done, now)
	tr.dropRoot(tree.root)
	tr.remove(tree.nodes)
	t.bytes += tr.bytes - before
	t.dropEmpty(tr)
}

// Expire hands over what has waited long enough.
func (t *Table) Expire(now time.Time, take func(Left)) {
	for len(t.timers) > 0 && !t.timers[0].at.After(now) {
		due := t.timers[0]
		t.timers = t.timers[1:]
		if tr := t.traces[due.trace]; tr != nil {
			t.fire(tr, due, now, take)
		}
	}
	for tr := t.oldest; tr != nil && tr.pins == 0 && now.Sub(tr.created) >= t.limits.MaxAge; tr = t.oldest {
		t.age(tr, now, take)
	}
}

// age lets go of the requests of a trace that have got too old. Where callers put
// many into one trace, the others stay; a root that waits has its own time.
func (t *Table) age(tr *Trace, now time.Time, take func(Left)) {
	if !tr.id.External() {
		t.dissolve(tr, WhyMaxAge, now, take)
		return
	}
	oldest := now
	for _, p := range tr.parts(now) {
		switch {
		case !p.waits && now.Sub(p.since) >= t.limits.MaxAge:
			t.letGo(tr, p, WhyMaxAge, now, take)
		case !p.waits:
			oldest = earlier(oldest, p.since)
		}
	}
	if !tr.gone {
		t.renew(tr, oldest)
	}
}

// renew gives a trace its place by the oldest request that is left of it.
func (t *Table) renew(tr *Trace, created time.Time) {
	t.delist(tr)
	tr.created = created
	t.enlist(tr)
}

// letGo lets one request of a trace leave as it is: its roots, its decode_forward
// spans without one, and its numbers are forgotten.
func (t *Table) letGo(tr *Trace, p part, why Why, now time.Time, take func(Left)) {
	for _, i := range p.nodes {
		if tr.gone { // with a request that took it for its own
			return
		}
		if x := tr.nodes[i].x; x != nil && x.root != nil {
			tree, status := t.judge(tr, i)
			t.release(tr, tree, status, why, now, take)
		}
	}
	if tr.gone {
		return
	}
	rest := slices.DeleteFunc(p.nodes, func(i int32) bool { return tr.nodes[i].id == 0 })
	if len(rest) == 0 {
		return
	}
	before := tr.bytes
	take(Left{Why: why, Folded: tr.unwritten(slices.Values(rest))})
	tr.remove(rest)
	t.bytes += tr.bytes - before
	t.dropEmpty(tr)
}

func (t *Table) fire(tr *Trace, due timer, now time.Time, take func(Left)) {
	i := tr.find(due.node)
	if i == 0 || tr.nodes[i].x == nil {
		return
	}
	x := tr.nodes[i].x
	switch {
	case tr.pins > 0:
		t.timers = append(t.timers, timer{at: now.Add(t.limits.Wait), trace: due.trace, node: due.node})
	case x.root != nil:
		tree, status := t.judge(tr, i)
		t.release(tr, tree, status, WhyWait, now, take)
	case len(tr.roots) > 0: // leaves with a root, or when that root's time comes
		t.rearm(tr, due, now)
	case x.payload != nil:
		t.bytes -= payloadBytes(x.payload)
		tr.bytes -= payloadBytes(x.payload)
		take(Left{Why: WhyNoRoot, Folded: []FoldedSteps{{DecodeForward: x.payload, Sum: x.sum, Primary: true}}})
		x.payload, x.left = nil, true
	case x.thread != nil && x.thread.Process == sglang.ProcessScheduler:
		t.close(tr, i, take)
	}
}

// close notes that the scheduler is done with a request whose root has not come.
func (t *Table) close(tr *Trace, thread int32, take func(Left)) {
	place := tr.find(tr.nodes[thread].parent)
	if place == 0 || tr.nodes[place].seen {
		return
	}
	before := tr.bytes
	if x := tr.extra(place); !x.left {
		x.left = true
		take(Left{Why: WhyNoRoot})
	}
	t.bytes += tr.bytes - before
}

func (t *Table) rearm(tr *Trace, due timer, now time.Time) {
	if x := tr.nodes[tr.find(due.node)].x; x.payload != nil {
		t.timers = append(t.timers, timer{at: now.Add(t.limits.Wait), trace: due.trace, node: due.node})
	}
}

// dissolve lets go of a whole trace that is one request's.
func (t *Table) dissolve(tr *Trace, why Why, now time.Time, take func(Left)) {
	for len(tr.roots) > 0 {
		tree, status := t.judge(tr, tr.roots[0])
		t.release(tr, tree, status, why, now, take)
	}
	if tr.gone {
		return
	}
	take(Left{Why: why, Folded: tr.unwritten(tr.all())})
	t.forget(tr)
}

// thin lets go of the older half of a trace's requests: an agent's trace may be old
// and have requests that have just begun. One by one they would all be looked at
// for each.
func (t *Table) thin(tr *Trace, why Why, now time.Time, take func(Left)) {
	parts := tr.parts(now)
	slices.SortStableFunc(parts, func(a, b part) int { return a.since.Compare(b.since) })
	old := (len(parts) + 1) / 2
	for _, p := range parts[:old] {
		t.letGo(tr, p, why, now, take)
	}
	if tr.gone {
		return
	}
	before := tr.bytes
	tr.compact()
	t.bytes += tr.bytes - before
	if old < len(parts) {
		t.renew(tr, parts[old].since)
	}
}

// Evict lets the oldest leave; false if there is none to let go.
func (t *Table) Evict(why Why, now time.Time, take func(Left)) bool {
	for tr := t.oldest; tr != nil; tr = tr.newer {
		switch {
		case tr.pins > 0:
			continue
		case tr.id.External():
			t.thin(tr, why, now, take)
		default:
			t.dissolve(tr, why, now, take)
		}
		return true
	}
	return false
}

// frontEndAge is how long a request counts as open of which only the front end
// knows: a busy engine drops its own health probes and leaves such spans behind.
const frontEndAge = time.Minute

// Open calls see for each trace with requests whose root has not come and whose
// scheduler is not known to be done: how many, and since when.
func (t *Table) Open(now time.Time, see func(engine string, requests int, since time.Time)) {
	for _, tr := range t.traces {
		if now.Sub(tr.created) > frontEndAge && !tr.atScheduler() {
			continue
		}
		if n, since := tr.open(now); n > 0 {
			see(tr.engine, n, since)
		}
	}
}

// open is the number of requests that are open, and since when the oldest is.
func (t *Trace) open(now time.Time) (open int, since time.Time) {
	requests, since := 0, now
	for i := range t.all() {
		n := &t.nodes[i]
		if n.seen || !t.isRootPlace(n) {
			continue
		}
		requests++
		if n.x != nil && n.x.left {
			continue
		}
		open++
		since = earlier(since, t.bornAt(i, now))
		for c := n.kids; c != 0; c = t.nodes[c].sibling {
			since = earlier(since, t.bornAt(c, now))
		}
	}
	if requests == 0 && len(t.roots) == 0 && t.live > 0 {
		return 1, t.created
	}
	return open, since
}

func (t *Trace) atScheduler() bool {
	for i := range t.all() {
		n := &t.nodes[i]
		if n.seen && n.kind == sglang.KindSlice && n.stage.Info().Process == sglang.ProcessScheduler ||
			n.x != nil && n.x.sum != nil {
			return true
		}
	}
	return false
}

func (t *Trace) isRootPlace(n *node) bool {
	for c := n.kids; c != 0; c = t.nodes[c].sibling {
		if t.nodes[c].kind == sglang.KindThread {
			return true
		}
	}
	return false
}

// Roots is the number of roots held.
func (t *Table) Roots() int {
	n := 0
	for _, tr := range t.traces {
		n += len(tr.roots)
	}
	return n
}
