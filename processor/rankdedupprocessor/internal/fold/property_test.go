// Copyright The otelcol-sglang Authors
// SPDX-License-Identifier: Apache-2.0

package fold

import (
	"flag"
	"fmt"
	"strconv"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"github.com/otelcol-sglang/otelcol-sglang/internal/sglang"
	"github.com/otelcol-sglang/otelcol-sglang/processor/rankdedupprocessor/internal/identity"
)

// A copy is one rank's span of a logical span.
type copyOf struct {
	key    string // of the logical span
	parent string // keys of the logical spans that it names
	link   string
	span   Span
	thread sglang.Thread
}

// process is one exporter: it delivers its spans in order.
type process struct {
	name    string
	ranks   sglang.Ranks
	batches [][]copyOf
	clock   int64 // by how much it is ahead, ns
}

func (p *process) String() string { return fmt.Sprintf("%s (%d left)", p.name, len(p.batches)) }

func (p *process) GoString() string { return p.String() }

// model is an engine and the requests it serves.
type model struct {
	t         *rapid.T
	name      string // prefix of its keys and senders
	nextID    uint64
	processes []*process
	delivered map[string]bool // keys that some rank delivers
	start     int64
}

func newModel(t *rapid.T, name string, firstID uint64) *model {
	return &model{t: t, name: name, nextID: firstID, delivered: map[string]bool{}, start: 1_800_000_000_000_000_000}
}

func (m *model) id() uint64 { m.nextID++; return m.nextID * 0x9e3779b97f4a7c15 }

func (m *model) process(name string, ranks sglang.Ranks) *process {
	p := &process{name: m.name + name, ranks: ranks}
	m.processes = append(m.processes, p)
	return p
}

// shape of a case.
type shape struct {
	tp, pp, dp     int
	loss           int // percent of a rank's slices
	level          int
	requests       int
	chunks, tokens int
	retract        bool
	loseThreads    bool // thread spans too
	leavesOnly     bool // only slices that no other names are lost
}

func drawShape(t *rapid.T) shape {
	return shape{
		tp:       rapid.IntRange(1, 8).Draw(t, "tp"),
		pp:       rapid.IntRange(1, 2).Draw(t, "pp"),
		dp:       rapid.SampledFrom([]int{1, 1, 2}).Draw(t, "dp"),
		loss:     rapid.SampledFrom([]int{0, 0, 10, 30, 60}).Draw(t, "loss"),
		level:    rapid.SampledFrom([]int{1, 3, 3}).Draw(t, "level"),
		requests: rapid.IntRange(1, 3).Draw(t, "requests"),
		chunks:   rapid.IntRange(0, 3).Draw(t, "chunks"),
		tokens:   rapid.IntRange(0, 6).Draw(t, "tokens"),
		retract:  rapid.Bool().Draw(t, "retract"),
	}
}

// engine makes the processes: front end first.
func (m *model) engine(s shape) (front *process, schedulers []*process) {
	front = m.process("front", sglang.NoRanks)
	for d := range s.dp {
		for pp := range s.pp {
			for tp := range s.tp {
				ranks := sglang.Ranks{TP: int32(d*s.tp + tp), PP: int32(pp), DP: sglang.NoRank}
				if s.dp > 1 {
					ranks.DP = int32(d)
				}
				schedulers = append(schedulers, m.process(fmt.Sprintf("tp%d pp%d", ranks.TP, pp), ranks))
			}
		}
	}
	return front, schedulers
}

// request lets the engine serve one request; lossy is whether ranks lose slices.
func (m *model) request(n int, s shape, trace TraceID, front *process, schedulers []*process, lossy bool) {
	root, tok, tokenize, api := m.id(), m.id(), m.id(), m.id()
	base := m.start + int64(n)*int64(time.Second)
	key := func(what string) string { return fmt.Sprintf("%sr%d %s", m.name, n, what) }
	emit := func(p *process, c copyOf) {
		c.span.Trace = trace
		if c.span.Ordinal == 0 {
			c.span.Ordinal = NoOrdinal
		}
		m.queue(p, c)
	}
	emit(front, copyOf{key: key("tokenize"), parent: key("tokenizer"), span: Span{ID: tokenize, Parent: tok, Kind: sglang.KindSlice, Stage: sglang.StageTokenize, Start: base, End: base + 1}})
	first, firstKey := tokenize, key("tokenize")
	if s.level >= 2 {
		emit(front, copyOf{key: key("api"), parent: key("tokenizer"), link: key("tokenize"), span: Span{ID: api, Parent: tok, Link: tokenize, Kind: sglang.KindSlice, Stage: sglang.StageAPIServerDispatch, Start: base, End: base + 2}})
		first, firstKey = api, key("api")
	}
	emit(front, copyOf{key: key("tokenizer"), parent: key("root"), span: Span{ID: tok, Parent: root, Kind: sglang.KindThread, Start: base, End: base + 2}, thread: sglang.Thread{Label: "Tokenizer", Ranks: sglang.NoRanks}})
	dp := n % s.dp
	for _, p := range schedulers {
		if s.dp > 1 && p.ranks.DP != int32(dp) {
			continue
		}
		m.copies(p, n, s, root, first, firstKey, base, lossy, trace)
	}
	emit(front, copyOf{key: key("root"), span: Span{ID: root, Kind: sglang.KindRoot, Start: base, End: base + int64(time.Second)}})
}

// copies queues one rank's spans of a request.
func (m *model) copies(p *process, n int, s shape, root, first uint64, firstKey string, base int64, lossy bool, trace TraceID) {
	key := func(format string, args ...any) string {
		return fmt.Sprintf("%sr%d pp%d dp%d ", m.name, n, p.ranks.PP, p.ranks.DP) + fmt.Sprintf(format, args...)
	}
	offset := rapid.Int64Range(0, int64(800*time.Microsecond)).Draw(m.t, "offset")
	at := base + offset + p.clock
	thread := m.id()
	step := func() (start, end int64) {
		start = at
		at += int64(12 * time.Millisecond)
		return start, at
	}
	emit := func(c copyOf) {
		c.span.Trace = trace
		lossy := lossy && (!s.leavesOnly || c.link == "")
		if (c.span.Kind == sglang.KindSlice || s.loseThreads) && lossy && rapid.IntRange(0, 99).Draw(m.t, "lost") < s.loss {
			return
		}
		m.queue(p, c)
	}
	link, linkKey := first, firstKey
	top := func(id uint64, stage sglang.Stage, start, end int64) {
		k := key("%s", stage)
		emit(copyOf{key: k, parent: key("thread"), link: linkKey, span: Span{ID: id, Parent: thread, Link: link, Kind: sglang.KindSlice, Stage: stage, Ordinal: NoOrdinal, Start: start, End: end}})
		link, linkKey = id, k
	}
	leaf := func(parent uint64, parentKey string, stage sglang.Stage, ordinal int64, k string, start, end int64) {
		emit(copyOf{key: key("%s", k), parent: parentKey, span: Span{ID: m.id(), Parent: parent, Kind: sglang.KindSlice, Stage: stage, Ordinal: ordinal, Start: start, End: end}})
	}
	if s.level >= 2 {
		start, end := step()
		top(m.id(), sglang.StageRequestProcess, start, end)
	}
	start, end := step()
	top(m.id(), sglang.StagePrefillWaiting, start, end)
	prefill := m.id()
	began := at
	for c := range s.chunks {
		start, end := step()
		if s.level >= 3 {
			leaf(prefill, key("%s", sglang.StagePrefillForward), sglang.StageChunkedPrefill, NoOrdinal, fmt.Sprintf("chunk %d", c), start, end)
		}
	}
	_, end = step()
	top(prefill, sglang.StagePrefillForward, began, end)
	if s.tokens > 0 {
		decode := m.id()
		began = at
		for i := range s.tokens {
			start, end := step()
			if s.level >= 3 {
				leaf(decode, key("%s", sglang.StageDecodeForward), sglang.StageDecodeLoop, int64(i+1), fmt.Sprintf("loop %d", i+1), start, end)
			}
			if s.retract && i == s.tokens/2 {
				start, end := step()
				leaf(decode, key("%s", sglang.StageDecodeForward), sglang.StagePrefillForward, NoOrdinal, "reprefill", start, end)
			}
		}
		top(decode, sglang.StageDecodeForward, began, at)
	}
	emit(copyOf{key: key("thread"), parent: fmt.Sprintf("%sr%d root", m.name, n), span: Span{ID: thread, Parent: root, Kind: sglang.KindThread, Ordinal: NoOrdinal, Start: base, End: at}, thread: sglang.Thread{Label: "Scheduler", Ranks: p.ranks}})
}

// queue adds a span to the process's batches.
func (m *model) queue(p *process, c copyOf) {
	m.delivered[c.key] = true
	last := len(p.batches) - 1
	if last < 0 || len(p.batches[last]) >= rapid.IntRange(1, 12).Draw(m.t, "batch") {
		p.batches = append(p.batches, nil)
		last++
	}
	p.batches[last] = append(p.batches[last], c)
}

// driver does what the processor's shell does.
type driver struct {
	t        *rapid.T
	registry *identity.Registry
	shard    *Shard
	bytes    atomic.Int64
	now      time.Time
	step     int // longest time between two batches, in ms
	out      []outSpan
}

type outSpan struct {
	copyOf
	span   Span
	digest *Digest
}

func newDriver(t *rapid.T) *driver {
	d := &driver{t: t, now: time.Unix(1_800_000_000, 0), step: 20}
	wait := 2 * time.Second
	d.registry = identity.NewRegistry(identity.Settings{Wait: wait, ForgetAfter: time.Hour, MaxSenders: 1000})
	d.shard = NewShard(Settings{Wait: wait, LearnWait: 30 * time.Second, DoneKeep: 10 * time.Second, IdleKeep: 10 * time.Minute, MaxBytes: 64 << 20}, d.registry, &d.bytes)
	return d
}

// deliver hands a batch in; taken is whether the next consumer takes what passes.
func (d *driver) deliver(p *process, batch []copyOf, taken bool) {
	sender := d.registry.Sender(identity.Key{Instance: p.name, Ranks: sglang.NoRanks}, d.now)
	changed := false
	procs := make([]*identity.Proc, len(batch))
	for i, c := range batch {
		switch c.span.Kind {
		case sglang.KindSlice:
			d.registry.Saw(sender, c.span.Stage.Info().Process, d.now)
		case sglang.KindRoot:
			d.registry.Join(sender, identity.Root{TraceLow: c.span.Trace.Lo, Span: c.span.ID}, d.now)
		case sglang.KindThread:
			proc, learned := d.registry.Learn(sender, c.thread, identity.Root{TraceLow: c.span.Trace.Lo, Span: c.span.Parent}, d.now)
			procs[i] = proc
			changed = changed || learned
		}
	}
	if sender.Proc() != nil {
		d.registry.Alive(sender.Proc(), d.now)
	}
	if changed {
		d.shard.Learned(d.now)
		d.collect()
	}
	mark := d.shard.Mark()
	var passed []outSpan
	for i, c := range batch {
		sp := c.span
		o := Origin{Sender: sender, Proc: sender.Proc()}
		if c.span.Kind == sglang.KindThread {
			o.Proc = procs[i]
		}
		verdict, item := d.shard.Take(d.now, &sp, o, c.thread)
		d.t.Logf("%s: %s %x below %x: %d, taken %t", p.name, c.key, c.span.ID, c.span.Parent, verdict, taken)
		switch verdict {
		case Pass:
			passed = append(passed, outSpan{copyOf: c, span: sp})
		case Hold:
			d.shard.Keep(item, c, 500)
		}
	}
	for _, c := range d.shard.Commits(nil, mark) {
		c.Conclude(taken)
	}
	if taken {
		d.out = append(d.out, passed...)
	}
	d.shard.Settle(d.now)
	d.collect()
}

func (d *driver) collect() {
	for _, r := range d.shard.Out() {
		d.t.Logf("released: %s %x below %x, filled %t, %s", r.Payload.(copyOf).key, r.Span.ID, r.Span.Parent, r.Filled, r.Reason)
		d.out = append(d.out, outSpan{copyOf: r.Payload.(copyOf), span: r.Span, digest: r.Digest})
	}
}

func (d *driver) advance(by time.Duration) {
	d.now = d.now.Add(by)
	if d.registry.Settle(d.now) {
		d.shard.Learned(d.now)
	}
	d.shard.Expire(d.now)
	d.collect()
}

// run delivers all batches in a random order that keeps each process's own,
// with resends and refusals.
func (d *driver) run(processes []*process, faults bool) {
	for {
		var ready []*process
		for _, p := range processes {
			if len(p.batches) > 0 {
				ready = append(ready, p)
			}
		}
		if len(ready) == 0 {
			return
		}
		p := rapid.SampledFrom(ready).Draw(d.t, "sender")
		batch := p.batches[0]
		fault := 0
		if faults {
			fault = rapid.IntRange(0, 19).Draw(d.t, "fault")
		}
		d.deliver(p, batch, fault != 1)
		if fault != 1 {
			p.batches = p.batches[1:]
		}
		if fault == 2 {
			d.deliver(p, batch, true)
		}
		d.advance(time.Duration(rapid.IntRange(0, d.step).Draw(d.t, "ms")) * time.Millisecond)
	}
}

// check compares what left with the union of what the ranks of the engines delivered.
func (d *driver) check(models ...*model) {
	byKey := map[string]outSpan{}
	for _, o := range d.out {
		if before, twice := byKey[o.key]; twice {
			d.t.Fatalf("%s left twice: %x and %x", o.key, before.span.ID, o.span.ID)
		}
		byKey[o.key] = o
	}
	d.checkDelivered(models...)
	for _, o := range d.out {
		if up, ok := byKey[o.parent]; ok && o.parent != "" && up.span.ID != o.span.Parent {
			d.t.Fatalf("%s names parent %x, %s left as %x", o.key, o.span.Parent, o.parent, up.span.ID)
		}
		if to, ok := byKey[o.link]; ok && o.link != "" && to.span.ID != o.span.Link {
			d.t.Fatalf("%s links to %x, %s left as %x", o.key, o.span.Link, o.link, to.span.ID)
		}
	}
}

// checkDelivered checks that all that some rank delivered left.
func (d *driver) checkDelivered(models ...*model) {
	left := map[string]bool{}
	for _, o := range d.out {
		left[o.key] = true
	}
	for _, m := range models {
		for key := range m.delivered {
			if !left[key] {
				d.t.Fatalf("%s was delivered and did not leave", key)
			}
		}
	}
	if held := d.shard.Levels().Held; held != 0 {
		d.t.Fatalf("%d spans are still held", held)
	}
}

// checkMany runs a property at least as often as the number says.
func checkMany(t *testing.T, atLeast int, property func(*rapid.T)) {
	checks := flag.Lookup("rapid.checks")
	if asked, err := strconv.Atoi(checks.Value.String()); err == nil && asked < atLeast && !testing.Short() {
		before := checks.Value.String()
		require.NoError(t, checks.Value.Set(strconv.Itoa(atLeast)))
		defer func() { require.NoError(t, checks.Value.Set(before)) }()
	}
	rapid.Check(t, property)
}

// warm serves a lossless request on each replica, which makes the ranks known.
func (d *driver) warm(m *model, s shape, front *process, schedulers []*process) {
	for n := range s.dp {
		m.request(n, s, TraceID{Lo: m.id()}, front, schedulers, false)
	}
	d.run(m.processes, false)
	d.advance(5 * time.Second)
	d.advance(time.Second)
}

// rest lets all waits end.
func (d *driver) rest() {
	for range 50 {
		d.advance(time.Second)
	}
}

// forget lets time pass until all is forgotten: what is counted must be nothing.
func (d *driver) forget() {
	d.advance(11 * time.Minute)
	for range 3 {
		d.advance(11 * time.Second)
	}
	if bytes, l := d.bytes.Load(), d.shard.Levels(); bytes != 0 || l.Held != 0 || l.Traces != 0 {
		d.t.Fatalf("%d bytes, %d spans, %d traces are still counted", bytes, l.Held, l.Traces)
	}
}

// TestUnion: whatever the ranks lose and in whatever order their batches come,
// every logical span that some rank delivered leaves once, below its own parent.
// Where every rank lost its thread span and its first slice, the others can't be
// placed and leave unfolded: then only nothing is missing.
func TestUnion(t *testing.T) {
	checkMany(t, 2000, func(t *rapid.T) {
		s := drawShape(t)
		s.loseThreads = rapid.Bool().Draw(t, "threads")
		m, d := newModel(t, "", 0), newDriver(t)
		front, schedulers := m.engine(s)
		d.warm(m, s, front, schedulers)
		for n := s.dp; n < s.dp+s.requests; n++ {
			m.request(n, s, TraceID{Lo: m.id()}, front, schedulers, true)
		}
		d.run(m.processes, true)
		d.rest()
		if s.loseThreads {
			d.checkDelivered(m)
		} else {
			d.check(m)
		}
		d.forget()
	})
}

// TestClocksApart: slices without an ordinal are paired by their start after the
// ranks' clock offset, which common slices show: what lies between two of one rank
// may be less than what lies between two ranks' clocks. In a cold start the offset may
// come too late for that, so that a slice leaves twice.
func TestClocksApart(t *testing.T) {
	checkMany(t, 1000, func(t *rapid.T) {
		s := drawShape(t)
		s.level, s.chunks, s.leavesOnly = 3, 3, true
		m, d := newModel(t, "", 0), newDriver(t)
		front, schedulers := m.engine(s)
		for _, p := range schedulers {
			p.clock = rapid.Int64Range(0, int64(60*time.Millisecond)).Draw(t, "clock")
		}
		warm := rapid.Bool().Draw(t, "warm")
		if warm {
			d.warm(m, s, front, schedulers)
		}
		for n := s.dp; n < s.dp+s.requests; n++ {
			m.request(n, s, TraceID{Lo: m.id()}, front, schedulers, true)
		}
		d.run(m.processes, true)
		d.rest()
		if warm {
			d.check(m)
		} else {
			d.checkDelivered(m)
		}
		d.forget()
	})
}

// TestConversation: an agent's requests follow each other in one trace.
func TestConversation(t *testing.T) {
	checkMany(t, 1000, func(t *rapid.T) {
		s := drawShape(t)
		m, d := newModel(t, "", 0), newDriver(t)
		front, schedulers := m.engine(s)
		d.warm(m, s, front, schedulers)
		trace := TraceID{Hi: 1, Lo: m.id()}
		for n := s.dp; n < s.dp+s.requests; n++ {
			m.request(n, s, trace, front, schedulers, true)
			d.run(m.processes, true)
			// The next call comes when the answer has arrived everywhere.
			for range rapid.IntRange(3, 20).Draw(t, "pause") {
				d.advance(time.Second)
			}
		}
		d.rest()
		d.check(m)
		d.forget()
	})
}

// TestHurriedConversation: the next request begins while its predecessor is held
// and ranks lose most of their slices. Which rank's copies belong together may
// then not be told, but nothing is taken for a copy of the former request's.
func TestHurriedConversation(t *testing.T) {
	checkMany(t, 1000, func(t *rapid.T) {
		s := drawShape(t)
		s.loss, s.level = rapid.SampledFrom([]int{30, 60, 80}).Draw(t, "heavy"), 3
		m, d := newModel(t, "", 0), newDriver(t)
		front, schedulers := m.engine(s)
		d.warm(m, s, front, schedulers)
		trace := TraceID{Hi: 1, Lo: m.id()}
		for n := s.dp; n < s.dp+s.requests; n++ {
			m.request(n, s, trace, front, schedulers, true)
			d.run(m.processes, true)
			for range rapid.IntRange(0, 3).Draw(t, "pause") {
				d.advance(time.Second)
			}
		}
		for range 3 {
			d.rest() // what is placed late waits anew
		}
		d.checkDelivered(m)
		d.forget()
	})
}

// TestParallelRequests: requests of one trace run at the same time. With losses
// that can't be decided: which parent of one rank is which of another may never
// be told.
func TestParallelRequests(t *testing.T) {
	checkMany(t, 1000, func(t *rapid.T) {
		s := drawShape(t)
		s.loss = 0
		m, d := newModel(t, "", 0), newDriver(t)
		front, schedulers := m.engine(s)
		d.warm(m, s, front, schedulers)
		trace := TraceID{Hi: 1, Lo: m.id()}
		for n := s.dp; n < s.dp+s.requests; n++ {
			m.request(n, s, trace, front, schedulers, true)
		}
		const within = 1500 // ms, with resends less than the wait
		batches := 1
		for _, p := range m.processes {
			batches += len(p.batches)
		}
		d.step = min(d.step, within/batches)
		d.run(m.processes, true)
		d.rest()
		d.check(m)
		d.forget()
	})
}

// TestColdStart: no rank is known when the first requests come. Losses then may
// leave a duplicate (TestColdStartLosses): a rank's slice is known as its
// request's first one only while that slice is not lost.
func TestColdStart(t *testing.T) {
	checkMany(t, 1000, func(t *rapid.T) {
		s := drawShape(t)
		s.loss = 0
		m, d := newModel(t, "", 0), newDriver(t)
		front, schedulers := m.engine(s)
		for n := range s.requests {
			m.request(n, s, TraceID{Lo: m.id()}, front, schedulers, true)
		}
		d.run(m.processes, true)
		d.rest()
		d.check(m)
		d.forget()
	})
}

// TestColdStartLosses: nothing that a rank delivered is missing.
func TestColdStartLosses(t *testing.T) {
	checkMany(t, 1000, func(t *rapid.T) {
		s := drawShape(t)
		m, d := newModel(t, "", 0), newDriver(t)
		front, schedulers := m.engine(s)
		for n := range s.requests {
			m.request(n, s, TraceID{Lo: m.id()}, front, schedulers, true)
		}
		d.run(m.processes, true)
		d.rest()
		d.checkDelivered(m)
		d.forget()
	})
}

// TestTwoEngines: two engines with the same ranks, one of them restarted, are
// never folded together.
func TestTwoEngines(t *testing.T) {
	checkMany(t, 10000, func(t *rapid.T) {
		s := shape{tp: 2, pp: 1, dp: 1, level: 3, requests: 2, tokens: 2}
		s.loss = rapid.SampledFrom([]int{0, 30}).Draw(t, "loss")
		d := newDriver(t)
		var models []*model
		var processes []*process
		for i, name := range []string{"a ", "b ", "b restarted "} {
			m := newModel(t, name, uint64(i)<<32)
			front, schedulers := m.engine(s)
			if s.loss > 0 || rapid.Bool().Draw(t, "warm") {
				d.warm(m, s, front, schedulers)
			}
			for n := s.dp; n < s.dp+s.requests; n++ {
				m.request(n, s, TraceID{Lo: m.id()}, front, schedulers, true)
			}
			models = append(models, m)
			processes = append(processes, m.processes...)
		}
		d.run(processes, true)
		d.rest()
		d.check(models...)
		d.forget()
		if engines := d.registry.Count().Engines; engines != 3 {
			t.Fatalf("%d engines, not 3", engines)
		}
	})
}

// TestShutdownAtAnyTime: what was taken before leaves, and nothing is counted after.
func TestShutdownAtAnyTime(t *testing.T) {
	checkMany(t, 1000, func(t *rapid.T) {
		s := drawShape(t)
		m, d := newModel(t, "", 0), newDriver(t)
		front, schedulers := m.engine(s)
		if rapid.Bool().Draw(t, "warm") {
			d.warm(m, s, front, schedulers)
		}
		for n := s.dp; n < s.dp+s.requests; n++ {
			m.request(n, s, TraceID{Lo: m.id()}, front, schedulers, true)
		}
		for _, p := range m.processes {
			if rapid.Bool().Draw(t, "silent") {
				p.batches = nil
				continue
			}
			p.batches = p.batches[:rapid.IntRange(0, len(p.batches)).Draw(t, "delivers")]
		}
		m.delivered = map[string]bool{}
		for _, p := range m.processes {
			for _, batch := range p.batches {
				for _, c := range batch {
					m.delivered[c.key] = true
				}
			}
		}
		d.run(m.processes, true)
		d.advance(time.Duration(rapid.IntRange(0, 5000).Draw(t, "rest")) * time.Millisecond)
		d.shard.FlushAll(d.now)
		d.collect()
		d.checkDelivered(m)
		if bytes := d.bytes.Load(); bytes != 0 {
			t.Fatalf("%d bytes are still counted", bytes)
		}
	})
}

// TestForgottenInFlight: a trace may be forgotten while spans of it are under way
// to the next consumer.
func TestForgottenInFlight(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		d := newDriver(t)
		sender := d.registry.Sender(identity.Key{Instance: "front", Ranks: sglang.NoRanks}, d.now)
		sp := Span{Trace: TraceID{Lo: 1}, ID: 2, Parent: 3, Kind: sglang.KindSlice, Stage: sglang.StageTokenize}
		d.shard.Take(d.now, &sp, Origin{Sender: sender}, sglang.Thread{})
		commits := d.shard.Commits(nil, 0)
		d.shard.FlushAll(d.now)
		for _, c := range commits {
			c.Conclude(rapid.Bool().Draw(t, "taken"))
		}
		d.forget()
	})
}

// TestLongTrace: an agent's trace that never rests costs no more than its latest requests.
func TestLongTrace(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		s := shape{tp: 2, pp: 1, dp: 1, level: 3, tokens: 6, chunks: 2}
		m, d := newModel(t, "", 0), newDriver(t)
		front, schedulers := m.engine(s)
		d.warm(m, s, front, schedulers)
		trace := TraceID{Hi: 1, Lo: m.id()}
		highest := int64(0)
		for n := 1; n < 40; n++ {
			m.request(n, s, trace, front, schedulers, false)
			d.run(m.processes, false)
			for range 4 {
				d.advance(time.Second)
			}
			if n < 10 {
				highest = max(highest, d.bytes.Load())
			} else if bytes := d.bytes.Load(); bytes > 2*highest {
				t.Fatalf("%d bytes at request %d, at most %d at first", bytes, n, highest)
			}
		}
		d.rest()
		d.check(m)
		d.forget()
	})
}

// later takes the batches of some processes away, to be delivered once the
// others' requests have left.
func (d *driver) later(processes []*process) (late map[*process][][]copyOf) {
	late = map[*process][][]copyOf{}
	for _, p := range processes {
		if rapid.IntRange(0, 2).Draw(d.t, "late") == 0 {
			late[p], p.batches = p.batches, nil
		}
	}
	return late
}

// checkNames checks that spans name only spans that left, where any copy of what
// they name left. A link may have been bound to another stage, its target being
// late.
func (d *driver) checkNames() {
	left, ids := map[string]map[uint64]bool{}, map[uint64]bool{}
	for _, o := range d.out {
		if left[o.key] == nil {
			left[o.key] = map[uint64]bool{}
		}
		left[o.key][o.span.ID], ids[o.span.ID] = true, true
	}
	for _, o := range d.out {
		if up := left[o.parent]; len(up) > 0 && !up[o.span.Parent] {
			d.t.Fatalf("%s %x names parent %x; %s left as %v", o.key, o.span.ID, o.span.Parent, o.parent, up)
		}
		if to := left[o.link]; len(to) > 0 && !ids[o.span.Link] {
			d.t.Fatalf("%s %x names link %x; %s left as %v", o.key, o.span.ID, o.span.Link, o.link, to)
		}
	}
}

// TestLateRanks: some ranks deliver after the requests have left, as where a
// process connects late. While the requests are remembered their copies are
// known as such, and whatever leaves names what left.
func TestLateRanks(t *testing.T) {
	checkMany(t, 2000, func(t *rapid.T) {
		s := drawShape(t)
		m, d := newModel(t, "", 0), newDriver(t)
		front, schedulers := m.engine(s)
		warm := rapid.Bool().Draw(t, "warm")
		if warm {
			d.warm(m, s, front, schedulers)
		} else if rapid.Bool().Draw(t, "lossless") {
			s.loss = 0
		}
		trace := TraceID{Hi: 1, Lo: m.id()}
		conversation := rapid.Bool().Draw(t, "conversation")
		for n := s.dp; n < s.dp+s.requests; n++ {
			if !conversation {
				trace = TraceID{Lo: m.id()}
			}
			m.request(n, s, trace, front, schedulers, true)
			late := d.later(schedulers)
			d.run(m.processes, true)
			for range rapid.IntRange(0, 9).Draw(t, "seconds") {
				d.advance(time.Second)
			}
			for p, batches := range late {
				p.batches = batches
			}
			d.run(m.processes, true)
			for range rapid.IntRange(3, 6).Draw(t, "pause") {
				d.advance(time.Second)
			}
		}
		d.rest()
		d.checkDelivered(m)
		if warm || s.loss == 0 {
			d.checkNames()
		}
		if s.loss == 0 {
			d.check(m)
		}
		d.forget()
	})
}
