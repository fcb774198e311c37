// Copyright The otelcol-sglang Authors
// SPDX-License-Identifier: Apache-2.0

package assembly

import (
	"math/rand/v2"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"github.com/otelcol-sglang/otelcol-sglang/internal/sglang"
	"github.com/otelcol-sglang/otelcol-sglang/processor/genaiprocessor/internal/steps"
)

type span int

// Bytes makes a span a payload.
func (s span) Bytes() int { return int(s) }

var (
	now    = time.Unix(5000, 0)
	limits = Limits{Wait: 6 * time.Second, MaxAge: time.Hour, WorstSteps: 3}
	own    = TraceID{15: 1}
	shared = TraceID{0: 1, 15: 1}
)

const (
	rootID = 1 + iota
	frontID
	dispatchID
	schedID
	waitingID
	prefillID
	decodeID
)

// request is a whole request as records, in the order of their ids; base sets
// requests of one trace apart.
func request(trace TraceID, base uint64) []*Record {
	slice := func(id, parent, link uint64, stage sglang.Stage) *Record {
		if link != 0 {
			link += base
		}
		return &Record{Trace: trace, ID: base + id, Parent: base + parent, Link: link, Kind: sglang.KindSlice, Stage: stage, Start: 10, End: 20}
	}
	thread := func(id uint64, process sglang.Process, slices int64) *Record {
		return &Record{
			Trace: trace, ID: base + id, Parent: base + rootID, Kind: sglang.KindThread,
			Thread: &Thread{Process: process, Ranks: sglang.NoRanks, Slices: slices},
		}
	}
	out := []*Record{
		{Trace: trace, ID: base + rootID, Parent: 99, Kind: sglang.KindRoot, Start: 1, End: 100, Root: &Root{Payload: span(100)}},
		thread(frontID, sglang.ProcessFrontEnd, 1),
		slice(dispatchID, frontID, 0, sglang.StageAPIServerDispatch),
		thread(schedID, sglang.ProcessScheduler, 8),
		slice(waitingID, schedID, dispatchID, sglang.StagePrefillWaiting),
		slice(prefillID, schedID, waitingID, sglang.StagePrefillForward),
		slice(decodeID, schedID, prefillID, sglang.StageDecodeForward),
	}
	out[6].Payload = span(50)
	for i := range int64(4) {
		r := slice(20+uint64(i), decodeID, 0, sglang.StageDecodeLoop)
		r.Step, r.Folded = steps.Step{Number: i, Start: 10 + i, End: 11 + i}, true
		out = append(out, r)
	}
	return append(out, slice(30, decodeID, 0, sglang.StageSpecDraft))
}

func collectLeft(into *[]Left) func(Left) { return func(l Left) { *into = append(*into, l) } }

func TestLeavesWhenAllHasCome(t *testing.T) {
	for _, trace := range []TraceID{own, shared} {
		for seed := range uint64(200) {
			table := NewTable(limits)
			records := request(trace, 0)
			rand.New(rand.NewPCG(seed, 1)).Shuffle(len(records), func(i, j int) {
				records[i], records[j] = records[j], records[i]
			})
			var left []Left
			for i, r := range records {
				require.Empty(t, left, "not before the last of %d, seed %d", i, seed)
				require.Equal(t, Taken, table.Apply(r, now))
				table.Settle(trace, now, collectLeft(&left))
			}
			require.Len(t, left, 1)
			q := left[0].Request
			assert.Equal(t, sglang.CompletenessComplete, q.Completeness)
			assert.Len(t, q.Timeline.Scheduler, 3)
			assert.Len(t, q.Timeline.Front, 1)
			require.Len(t, q.Folded, 1)
			assert.Equal(t, 4, q.Folded[0].Sum.Count())
			assert.Equal(t, span(50), q.Folded[0].DecodeForward)
			assert.Zero(t, table.Bytes())
			assert.Zero(t, table.Traces())
		}
	}
}

func TestManyRequestsOfOneTrace(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		n := rapid.IntRange(1, 12).Draw(t, "requests")
		var records []*Record
		for i := range n {
			records = append(records, request(shared, uint64(1000*(i+1)))...)
		}
		rand.New(rand.NewPCG(rapid.Uint64().Draw(t, "seed"), 0)).Shuffle(len(records), func(i, j int) {
			records[i], records[j] = records[j], records[i]
		})
		table, left := NewTable(limits), []Left(nil)
		for _, r := range records {
			table.Apply(r, now)
			table.Settle(shared, now, collectLeft(&left))
		}
		if len(left) != n || table.Bytes() != 0 || table.Traces() != 0 {
			t.Fatalf("%d of %d left, %d bytes stay", len(left), n, table.Bytes())
		}
		for _, l := range left {
			if l.Request.Completeness != sglang.CompletenessComplete || len(l.Request.Timeline.Scheduler) != 3 {
				t.Fatalf("%+v", l.Request)
			}
		}
	})
}

func TestPrimary(t *testing.T) {
	place := func(tp, pp int32, base uint64) []*Record {
		thread := &Record{
			Trace: own, ID: base, Parent: rootID, Kind: sglang.KindThread,
			Thread: &Thread{Process: sglang.ProcessScheduler, Ranks: sglang.Ranks{TP: tp, PP: pp, DP: sglang.NoRank}, Slices: Unknown},
		}
		waiting := &Record{
			Trace: own, ID: base + 1, Parent: base, Link: dispatchID, Kind: sglang.KindSlice,
			Stage: sglang.StagePrefillWaiting, Start: int64(base), End: int64(base) + 1,
		}
		return []*Record{waiting, thread}
	}
	records := request(own, 0)[:3]
	for _, more := range [][]*Record{place(1, 0, 100), place(0, 1, 200), place(0, 0, 300), place(2, 0, 400)} {
		records = append(records, more...)
	}
	table, left := NewTable(limits), []Left(nil)
	for _, r := range records {
		table.Apply(r, now)
	}
	table.Settle(own, now, collectLeft(&left))
	require.Len(t, left, 1)
	assert.EqualValues(t, 300, left[0].Request.Timeline.Scheduler[0].Start)

	// A PP stage behind the first one does not complete a request alone.
	table, left = NewTable(limits), nil
	for _, r := range append(request(own, 0)[:3], place(0, 1, 200)...) {
		table.Apply(r, now)
	}
	table.Settle(own, now, collectLeft(&left))
	assert.Empty(t, left)
}

func TestWait(t *testing.T) {
	table, left := NewTable(limits), []Left(nil)
	for _, r := range request(own, 0)[:3] {
		table.Apply(r, now)
	}
	table.Settle(own, now, collectLeft(&left))
	table.Expire(now.Add(5*time.Second), collectLeft(&left))
	require.Empty(t, left)
	table.Expire(now.Add(6*time.Second), collectLeft(&left))
	require.Len(t, left, 1)
	assert.Equal(t, WhyWait, left[0].Why)
	assert.Equal(t, sglang.CompletenessNoScheduler, left[0].Request.Completeness)
	assert.False(t, left[0].Request.Timeline.SchedulerSeen)
	assert.Equal(t, Late, table.Apply(request(own, 0)[4], now.Add(7*time.Second)))
	assert.Equal(t, Duplicate, table.Apply(request(own, 0)[0], now.Add(7*time.Second)))
	assert.Equal(t, Taken, table.Apply(request(own, 0)[4], now.Add(10*time.Minute)), "forgotten in the end")
}

func TestPinsHoldARequest(t *testing.T) {
	table, left := NewTable(limits), []Left(nil)
	records := request(own, 0)
	step := records[7]
	require.True(t, table.Pin(step, now))
	for i, r := range records {
		if i != 7 {
			r.Thread = withoutCount(r.Thread)
			table.Apply(r, now)
		}
	}
	table.Settle(own, now, collectLeft(&left))
	table.Expire(now.Add(time.Minute), collectLeft(&left))
	assert.False(t, table.Evict(WhyLimit, now, collectLeft(&left)))
	require.Empty(t, left, "a step is on its way")
	table.Apply(step, now)
	table.Settle(own, now, collectLeft(&left))
	require.Len(t, left, 1)
	assert.Equal(t, 4, left[0].Request.Folded[0].Sum.Count())
	assert.False(t, table.Pin(step, now), "too late to fold")

	require.True(t, table.Pin(&Record{Trace: TraceID{15: 7}, Parent: 1}, now))
	r := &Record{Trace: TraceID{15: 8}, Parent: 1}
	require.True(t, table.Pin(r, now))
	table.Cancel(r)
	assert.Equal(t, 1, table.Traces())
}

func withoutCount(th *Thread) *Thread {
	if th != nil {
		th.Slices = Unknown
	}
	return th
}

// TestAnything feeds spans that make no sense: rings of parents, links to
// themselves, roots that are their own children. Nothing may panic, hang or stay.
func TestAnything(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		table, left := NewTable(limits), []Left(nil)
		at := now
		roots, out := map[[2]uint64]bool{}, 0
		for range rapid.IntRange(0, 80).Draw(t, "spans") {
			r := anyRecord(t)
			if rapid.IntRange(0, 3).Draw(t, "pin") == 0 && r.Kind == sglang.KindSlice {
				if table.Pin(r, at) && rapid.Bool().Draw(t, "cancel") {
					table.Cancel(r)
					continue
				}
			}
			o := table.Apply(r, at)
			if r.Kind == sglang.KindRoot && o == Taken {
				roots[[2]uint64{uint64(r.Trace[15]), r.ID}] = true
			}
			table.Settle(r.Trace, at, collectLeft(&left))
			at = at.Add(time.Duration(rapid.IntRange(0, 2000).Draw(t, "ms")) * time.Millisecond)
			table.Expire(at, collectLeft(&left))
			if rapid.IntRange(0, 19).Draw(t, "evict") == 0 {
				table.Evict(WhyLimit, at, collectLeft(&left))
			}
			table.Open(at, func(string, int, time.Time) {})
		}
		for n := 0; table.Evict(WhyShutdown, at, collectLeft(&left)); n++ {
			if n > 1000 {
				t.Fatal("nothing goes, and a shutdown would hang")
			}
		}
		if table.Bytes() != 0 || table.Traces() != 0 {
			t.Fatalf("%d bytes in %d traces stay", table.Bytes(), table.Traces())
		}
		for _, l := range left {
			if l.Request != nil {
				out++
			}
		}
		if out < len(roots) {
			t.Fatalf("%d of %d roots left", out, len(roots))
		}
	})
}

func anyRecord(t *rapid.T) *Record {
	id := func(label string) uint64 { return rapid.Uint64Range(0, 9).Draw(t, label) }
	r := &Record{
		Trace: TraceID{0: byte(id("external") % 2), 15: byte(id("trace") % 3)},
		ID:    1 + id("id"), Parent: id("parent"), Link: id("link"),
		Start: int64(id("start")), End: int64(id("end")),
		Kind:  rapid.SampledFrom([]sglang.SpanKind{sglang.KindRoot, sglang.KindThread, sglang.KindSlice, sglang.KindSlice}).Draw(t, "kind"),
		Ranks: sglang.NoRanks,
	}
	switch r.Kind {
	case sglang.KindRoot:
		r.Root = &Root{Payload: span(100)}
	case sglang.KindThread:
		r.Thread = &Thread{
			Process: sglang.Process(id("process") % 6),
			Ranks:   sglang.Ranks{TP: int32(id("tp")) - 1, PP: int32(id("pp")%3) - 1}, Slices: int64(id("slices")) - 1,
		}
	case sglang.KindSlice:
		r.Stage = sglang.Stage(rapid.IntRange(0, 29).Draw(t, "stage"))
		r.Step = steps.Step{Number: int64(id("number")) - 1, Start: r.Start, End: r.End}
		if r.Stage == sglang.StageDecodeForward {
			r.Payload = span(50)
		}
	}
	return r
}

// TestSpanOfNoRequest: a step without a parent leaves no trace behind that could
// neither be let go nor become old.
func TestSpanOfNoRequest(t *testing.T) {
	table, left := NewTable(limits), []Left(nil)
	r := &Record{Trace: shared, ID: 1, Kind: sglang.KindSlice, Stage: sglang.StageDecodeLoop}
	assert.Equal(t, Taken, table.Apply(r, now))
	assert.Zero(t, table.Traces())
	assert.Zero(t, table.Bytes())
	assert.False(t, table.Evict(WhyShutdown, now, collectLeft(&left)))
}

// TestThin: at the limit the older half of a shared trace's requests goes, and with
// it what it took; the younger ones are completed by what comes later.
func TestThin(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		table, left := NewTable(limits), []Left(nil)
		n := rapid.IntRange(2, 30).Draw(t, "requests")
		var late [][]*Record
		for i := range n {
			all := request(shared, uint64(1000*(i+1)))
			cut := rapid.IntRange(1, len(all)-1).Draw(t, "before")
			for _, r := range all[:cut] {
				table.Apply(r, now.Add(time.Duration(i)*time.Second))
			}
			late = append(late, all[cut:])
		}
		at := now.Add(time.Duration(n) * time.Second)
		table.Evict(WhyLimit, at, collectLeft(&left))
		young := NewTable(limits)
		old := (n + 1) / 2
		for i := old; i < n; i++ {
			all := request(shared, uint64(1000*(i+1)))
			for _, r := range all[:len(all)-len(late[i])] {
				young.Apply(r, now)
			}
		}
		if table.Bytes() != young.Bytes() {
			t.Fatalf("%d bytes stay, %d would do", table.Bytes(), young.Bytes())
		}
		left = nil
		for i := old; i < n; i++ {
			for _, r := range late[i] {
				table.Apply(r, at)
				table.Settle(shared, at, collectLeft(&left))
			}
		}
		if len(left) != n-old || table.Bytes() != 0 {
			t.Fatalf("%d of %d left, %d bytes stay", len(left), n-old, table.Bytes())
		}
		for _, l := range left {
			if l.Request == nil || l.Request.Completeness != sglang.CompletenessComplete {
				t.Fatalf("%+v", l)
			}
		}
	})
}

// TestManyRoots: of many roots in a trace only those are judged for which
// something came; none is forgotten, in whatever order the spans come.
func TestManyRoots(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		table, left := NewTable(limits), []Left(nil)
		var all []*Record
		requests := rapid.IntRange(1, 12).Draw(t, "requests")
		for i := range requests {
			all = append(all, request(shared, uint64(1000*(i+1)))...)
		}
		for i := range all { // any order
			j := rapid.IntRange(0, i).Draw(t, "swap")
			all[i], all[j] = all[j], all[i]
		}
		for len(all) > 0 {
			n := min(len(all), rapid.IntRange(1, 20).Draw(t, "batch"))
			for _, r := range all[:n] {
				table.Apply(r, now)
			}
			table.Settle(shared, now, collectLeft(&left))
			all = all[n:]
		}
		for _, l := range left {
			if l.Why != "" || l.Request.Completeness != sglang.CompletenessComplete {
				t.Fatalf("left %q, %s", l.Why, l.Request.Completeness)
			}
		}
		if len(left) != requests || table.Bytes() != 0 || table.Traces() != 0 {
			t.Fatalf("%d of %d left, %d bytes in %d traces stay", len(left), requests, table.Bytes(), table.Traces())
		}
	})
}
