// Copyright The otelcol-sglang Authors
// SPDX-License-Identifier: Apache-2.0

package assembly

import (
	"time"

	"github.com/otelcol-sglang/otelcol-sglang/internal/sglang"
)

// tombs remember requests that have left, so that what comes after them is
// known to be late. They live for one to two spans of time, in two generations.
type tombs struct {
	age      time.Duration
	turned   time.Time
	young    map[tombKey]tomb
	old      map[tombKey]tomb
	capacity int
}

// tombKey is a whole trace (node 0), or one span of a trace that many requests share.
type tombKey struct {
	trace TraceID
	node  uint64
}

type tomb struct {
	root  uint64
	quiet bool
}

const (
	minTombAge  = 30 * time.Second
	maxTombs    = 1 << 13
	tombWaitAge = 5
)

func newTombs(wait time.Duration) tombs {
	return tombs{
		age: max(minTombAge, tombWaitAge*wait), capacity: maxTombs,
		young: make(map[tombKey]tomb), old: make(map[tombKey]tomb),
	}
}

func (t *tombs) turn(now time.Time) {
	if now.Sub(t.turned) < t.age && len(t.young) < t.capacity {
		return
	}
	t.old, t.young = t.young, make(map[tombKey]tomb)
	if now.Sub(t.turned) >= 2*t.age {
		clear(t.old)
	}
	t.turned = now
}

func (t *tombs) add(tr *Trace, of *tree, quiet bool, now time.Time) {
	t.turn(now)
	tr.whole = false
	root := &tr.nodes[of.root]
	grave := tomb{root: root.id, quiet: quiet}
	if tr.own(root) {
		t.young[tombKey{trace: tr.id}] = grave
		return
	}
	for _, i := range of.nodes {
		t.young[tombKey{tr.id, tr.nodes[i].id}] = grave
	}
}

// addSpans remembers spans whose request left before.
func (t *tombs) addSpans(tr *Trace, nodes []int32, now time.Time) {
	t.turn(now)
	tr.whole = false
	for _, i := range nodes {
		t.young[tombKey{tr.id, tr.nodes[i].id}] = tomb{}
	}
}

func (t *tombs) addSpan(r *Record, now time.Time) {
	t.turn(now)
	t.young[tombKey{r.Trace, r.ID}] = tomb{}
}

// has tells whether a request of a trace has left that was its own.
func (t *tombs) has(id TraceID) bool {
	_, ok := t.get(tombKey{trace: id})
	return ok
}

func (t *tombs) get(key tombKey) (tomb, bool) {
	if g, ok := t.young[key]; ok {
		return g, true
	}
	g, ok := t.old[key]
	return g, ok
}

func (t *tombs) find(r *Record, now time.Time) Outcome {
	if len(t.young)+len(t.old) == 0 {
		return Taken
	}
	if now.Sub(t.turned) >= t.age {
		t.turn(now)
	}
	g, ok := t.get(tombKey{trace: r.Trace})
	if ok && r.Kind == sglang.KindRoot && g.root != r.ID {
		return Taken
	}
	if !ok && r.Trace.External() { // else the trace is one request's
		g, ok = t.findSpan(r)
	}
	switch {
	case !ok:
		return Taken
	case g.quiet:
		return LateQuiet
	}
	return Late
}

func (t *tombs) findSpan(r *Record) (tomb, bool) {
	if g, ok := t.get(tombKey{r.Trace, r.ID}); ok {
		return g, true
	}
	if r.Kind == sglang.KindRoot {
		return tomb{}, false
	}
	if g, ok := t.get(tombKey{r.Trace, r.Parent}); ok && r.Parent != 0 {
		return g, true
	}
	if r.Link == 0 {
		return tomb{}, false
	}
	return t.get(tombKey{r.Trace, r.Link})
}
