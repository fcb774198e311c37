// Copyright The otelcol-sglang Authors
// SPDX-License-Identifier: Apache-2.0

package assembly

import (
	"iter"
	"time"

	"github.com/otelcol-sglang/otelcol-sglang/internal/sglang"
	"github.com/otelcol-sglang/otelcol-sglang/processor/genaiprocessor/internal/steps"
)

// node is a span, or the place of one that others name and that has not come.
// Indices are into Trace.nodes; 0 is none.
type node struct {
	id, parent, link    uint64
	start, end          int64
	kids, sibling       int32
	linkers, nextLinker int32
	mark                uint32
	// born is Trace.clock when the span was first heard of.
	born  uint32
	kind  sglang.SpanKind
	stage sglang.Stage
	seen  bool
	x     *extra
}

// extra is what few nodes have.
type extra struct {
	root   *Root
	thread *Thread
	// ranks are those of the resource that named this span first.
	ranks sglang.Ranks
	sum   *steps.Sum
	// sumBytes is what sum counted for last.
	sumBytes int
	// folded: the steps in sum left the stream and must be written on a span.
	folded bool
	// left: a decode_forward went on without its root, and later steps pass; on
	// the place of a root, that its scheduler is done.
	left bool
	// at is a root's place in Trace.roots. touched: something came for it since it
	// was judged last, when its tree had size nodes and the trace age records.
	at           int32
	touched      bool
	size, age    int
	payload      Payload
	foldedBefore int64
	// others are slices without numbers, kept as ids to count each once.
	others   map[uint64]struct{}
	retracts []int64
	arrived  time.Time
}

func (n *node) thread() *Thread {
	if n.x == nil {
		return nil
	}
	return n.x.thread
}

// Trace is what is held of one trace.
type Trace struct {
	id     TraceID
	engine string
	nodes  []node
	// index is nil while there are few nodes.
	index map[uint64]int32
	live  int
	free  []int32
	// roots are the nodes of roots that wait; touched are those of them for which
	// something came, while there are many.
	roots, touched []int32
	// applied counts the records taken in.
	applied int
	// created is when its oldest request was first heard of, clock the time of the
	// record at hand, in milliseconds; it wraps.
	created time.Time
	clock   uint32
	// pins are batches on their way to the next consumer that will add to it.
	pins int
	gone bool
	// whole: nothing of it has left yet.
	whole bool
	// older and newer belong to the table's list.
	older, newer *Trace
	epoch        uint32
	bytes        int
}

const (
	traceBytes  = 400
	nodeBytes   = 160
	extraBytes  = 200
	otherBytes  = 24
	threadBytes = 120
)

func newTrace(id TraceID, now time.Time) *Trace {
	return &Trace{
		id: id, created: now, bytes: traceBytes,
		nodes: make([]node, 1, 14),
	}
}

// maxSearch is how many nodes are searched one by one; more get an index.
const maxSearch = 32

// find returns the node with the id, 0 if there is none.
func (t *Trace) find(id uint64) int32 {
	if id == 0 {
		return 0
	}
	if t.index != nil {
		return t.index[id]
	}
	for i := range t.nodes {
		if t.nodes[i].id == id {
			return int32(i)
		}
	}
	return 0
}

func (t *Trace) buildIndex() {
	t.index = make(map[uint64]int32, 2*len(t.nodes))
	for i := range t.all() {
		t.index[t.nodes[i].id] = i
	}
}

// all yields the nodes that are in use.
func (t *Trace) all() iter.Seq[int32] {
	return func(yield func(int32) bool) {
		for i := range t.nodes {
			if t.nodes[i].id != 0 && !yield(int32(i)) {
				return
			}
		}
	}
}

// ensure returns the node with the id, a new and unseen one if there is none.
func (t *Trace) ensure(id uint64) int32 {
	if i := t.find(id); i != 0 {
		return i
	}
	var i int32
	if n := len(t.free); n > 0 {
		i, t.free = t.free[n-1], t.free[:n-1]
	} else {
		i = int32(len(t.nodes))
		t.nodes = append(t.nodes, node{})
		t.bytes += nodeBytes // stays with the trace
	}
	t.nodes[i] = node{id: id, born: t.clock}
	t.live++
	if t.index != nil {
		t.index[id] = i
	} else if len(t.nodes) > maxSearch {
		t.buildIndex()
	}
	return i
}

func (t *Trace) extra(i int32) *extra {
	if t.nodes[i].x == nil {
		t.nodes[i].x = &extra{ranks: sglang.NoRanks}
		t.bytes += extraBytes
	}
	return t.nodes[i].x
}

// add records a span other than a decode step. It reports false for a copy.
func (t *Trace) add(r *Record, now time.Time) bool {
	i := t.ensure(r.ID)
	if t.nodes[i].seen {
		t.replace(i, r)
		return false
	}
	n := &t.nodes[i]
	n.seen, n.kind, n.stage, n.start, n.end = true, r.Kind, r.Stage, r.Start, r.End
	if r.Kind == sglang.KindRoot {
		n.parent = r.Parent
	} else {
		t.attach(i, r)
	}
	t.addExtra(i, r, now)
	return true
}

func (t *Trace) attach(i int32, r *Record) {
	if r.Parent != 0 && r.Parent != r.ID {
		p := t.ensure(r.Parent)
		t.nodes[i].parent = r.Parent
		t.nodes[i].sibling, t.nodes[p].kids = t.nodes[p].kids, i
		t.noteRanks(p, r.Ranks)
	}
	if r.Link != 0 && r.Link != r.ID && r.Kind == sglang.KindSlice {
		l := t.ensure(r.Link)
		t.nodes[i].link = r.Link
		t.nodes[i].nextLinker, t.nodes[l].linkers = t.nodes[l].linkers, i
	}
}

func (t *Trace) noteRanks(i int32, ranks sglang.Ranks) {
	if t.nodes[i].seen || ranks == sglang.NoRanks || ranks == (sglang.Ranks{}) {
		return
	}
	t.extra(i).ranks = ranks
}

func (t *Trace) addExtra(i int32, r *Record, now time.Time) {
	switch {
	case r.Root != nil:
		x := t.extra(i)
		x.root, x.arrived, x.at = r.Root, now, int32(len(t.roots))
		t.roots = append(t.roots, i)
		if len(t.roots) == fewRoots+1 {
			t.touchAll()
		}
		t.bytes += payloadBytes(r.Root.Payload)
	case r.Thread != nil:
		t.extra(i).thread = r.Thread
		t.bytes += threadSize(r.Thread)
	case r.Payload != nil || r.FoldedBefore > 0 || len(r.Retracts) > 0:
		x := t.extra(i)
		x.payload, x.foldedBefore, x.retracts, x.arrived = r.Payload, r.FoldedBefore, r.Retracts, now
		t.bytes += payloadBytes(r.Payload) + retractBytes*len(r.Retracts)
	}
}

const retractBytes = 8

func threadSize(th *Thread) int {
	return threadBytes + retractBytes*len(th.Retracts) + len(th.ErrorType)
}

// fewRoots are judged each time; of more, only those for which something came.
const fewRoots = 4

// touch finds the root that a node belongs to. A span that completes a request
// stands below its root, for by then all spans between have come.
func (t *Trace) touch(i int32) {
	for range maxDepth {
		n := &t.nodes[i]
		if x := n.x; x != nil && x.root != nil {
			if !x.touched {
				x.touched = true
				t.touched = append(t.touched, i)
			}
			return
		}
		if i = t.find(n.parent); i == 0 {
			return
		}
	}
}

// touchAll: so far each root was judged each time.
func (t *Trace) touchAll() {
	for _, i := range t.roots {
		t.touch(i)
	}
}

// takeTouched empties the list.
func (t *Trace) takeTouched() []int32 {
	out := t.touched
	t.touched = nil
	for _, i := range out {
		if x := t.nodes[i].x; x != nil {
			x.touched = false
		}
	}
	return out
}

// dropRoot takes a root out of those that wait.
func (t *Trace) dropRoot(i int32) {
	at, last := t.nodes[i].x.at, t.roots[len(t.roots)-1]
	t.roots[at] = last
	t.nodes[last].x.at = at
	t.roots = t.roots[:len(t.roots)-1]
}

func payloadBytes(p Payload) int {
	if p == nil {
		return 0
	}
	return p.Bytes()
}

// replace takes the later copy of a held span: the sender sent it again.
func (t *Trace) replace(i int32, r *Record) {
	x := t.nodes[i].x
	switch {
	case x == nil:
	case r.Root != nil && x.root != nil && r.Root.Payload != nil:
		t.bytes += payloadBytes(r.Root.Payload) - payloadBytes(x.root.Payload)
		x.root = r.Root
	case r.Payload != nil && x.payload != nil:
		t.bytes += payloadBytes(r.Payload) - payloadBytes(x.payload)
		x.payload = r.Payload
	}
}

// addStep takes a decode step in; false for a copy.
func (t *Trace) addStep(r *Record, worst int) bool {
	p := t.ensure(r.Parent)
	t.noteRanks(p, r.Ranks)
	x := t.extra(p)
	if x.sum == nil {
		x.sum = &steps.Sum{Worst: worst}
	}
	if !x.sum.Add(r.Step) {
		return false
	}
	if len(r.Retracts) > 0 {
		x.retracts = append(x.retracts, r.Retracts...)
		t.bytes += retractBytes * len(r.Retracts)
	}
	x.folded = x.folded || r.Folded
	size := x.sum.Bytes()
	t.bytes += size - x.sumBytes
	x.sumBytes = size
	return true
}

// addOther counts a slice that has no numbers.
func (t *Trace) addOther(r *Record) bool {
	p := t.ensure(r.Parent)
	t.noteRanks(p, r.Ranks)
	x := t.extra(p)
	if x.others == nil {
		x.others = make(map[uint64]struct{})
	}
	if _, known := x.others[r.ID]; known {
		return false
	}
	x.others[r.ID] = struct{}{}
	t.bytes += otherBytes
	return true
}

// remove forgets nodes that collect returned.
func (t *Trace) remove(nodes []int32) {
	if len(nodes) == t.live {
		t.empty(nodes)
		return
	}
	t.epoch++
	for _, i := range nodes {
		t.nodes[i].mark = t.epoch
	}
	for _, i := range nodes {
		t.unlink(i)
		t.bytes -= t.extraSize(i)
		delete(t.index, t.nodes[i].id)
		t.live--
	}
	for _, i := range nodes {
		t.nodes[i] = node{}
		t.free = append(t.free, i)
	}
}

// empty forgets all nodes: most traces are one request's.
func (t *Trace) empty(nodes []int32) {
	for _, i := range nodes {
		t.bytes -= t.extraSize(i)
	}
	t.bytes -= nodeBytes * (len(t.nodes) - 1)
	clear(t.nodes)
	t.nodes, t.free, t.index, t.touched, t.live = t.nodes[:1], nil, nil, nil, 0
}

// compact gives back the room of nodes that are gone. No index outlives it but
// those it changes. A list that a gone node was the head of is never walked again.
func (t *Trace) compact() {
	at, nodes := make([]int32, len(t.nodes)), make([]node, 1, t.live+1)
	for i := range t.all() {
		at[i] = int32(len(nodes))
		nodes = append(nodes, t.nodes[i])
	}
	for i := range nodes {
		n := &nodes[i]
		n.kids, n.sibling = at[n.kids], at[n.sibling]
		n.linkers, n.nextLinker = at[n.linkers], at[n.nextLinker]
	}
	for _, list := range [][]int32{t.roots, t.touched} {
		for k, i := range list {
			list[k] = at[i]
		}
	}
	t.bytes -= nodeBytes * (len(t.nodes) - len(nodes))
	t.nodes, t.free, t.index = nodes, nil, nil
	if len(nodes) > maxSearch {
		t.buildIndex()
	}
}

// unlink takes a node out of lists of nodes that stay.
func (t *Trace) unlink(i int32) {
	if p := t.find(t.nodes[i].parent); p != 0 && t.nodes[p].mark != t.epoch {
		at := &t.nodes[p].kids
		for *at != 0 && *at != i {
			at = &t.nodes[*at].sibling
		}
		*at = t.nodes[i].sibling
	}
	if l := t.find(t.nodes[i].link); l != 0 && t.nodes[l].mark != t.epoch {
		at := &t.nodes[l].linkers
		for *at != 0 && *at != i {
			at = &t.nodes[*at].nextLinker
		}
		*at = t.nodes[i].nextLinker
	}
}

func (t *Trace) extraSize(i int32) int {
	x := t.nodes[i].x
	if x == nil {
		return 0
	}
	size := extraBytes + otherBytes*len(x.others) + payloadBytes(x.payload) + retractBytes*len(x.retracts)
	if x.thread != nil {
		size += threadSize(x.thread)
	}
	if x.root != nil {
		size += payloadBytes(x.root.Payload)
	}
	return size + x.sumBytes
}
