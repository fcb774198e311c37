// Copyright The otelcol-sglang Authors
// SPDX-License-Identifier: Apache-2.0

package front

import (
	"math"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/otelcol-sglang/otelcol-sglang/engine/args"
	"github.com/otelcol-sglang/otelcol-sglang/engine/clock"
	"github.com/otelcol-sglang/otelcol-sglang/engine/ledger"
)

// computer is a backend that makes a token every 10 ms, the first after 20.
type computer struct {
	front    *Front
	loop     *clock.Loop
	busy     bool
	received []*ledger.Request
	aborted  []*ledger.Request
}

func (c *computer) Idle() bool { return !c.busy }

func (c *computer) Submit(r *ledger.Request) {
	c.received = append(c.received, r)
	start := c.loop.Now()
	for i := range r.OutputLen {
		c.loop.At(start+20*time.Millisecond+time.Duration(i)*10*time.Millisecond, func() {
			if r.Finish != "" {
				return
			}
			if i == 0 {
				r.Sched.PrefillDone = c.loop.Now()
			}
			r.Output = append(r.Output, int32(i))
			if len(r.Output) == r.OutputLen {
				r.Finish = ledger.FinishLength
			}
			c.front.Output(r)
		})
	}
}

func (c *computer) Abort(r *ledger.Request) {
	c.aborted = append(c.aborted, r)
	r.Finish = ledger.FinishAbort
	if len(r.Output) > 0 {
		c.front.Output(r)
		return
	}
	c.front.Dropped(r)
}

// book keeps what the metrics are told.
type book struct {
	ledger.NopTokenizer
	ttft      []time.Duration
	intervals []int
	finished  int
	aborted   int
}

func (b *book) FirstToken(_ *ledger.Request, d time.Duration) { b.ttft = append(b.ttft, d) }
func (b *book) InterToken(_ *ledger.Request, _ time.Duration, tokens int) {
	b.intervals = append(b.intervals, tokens)
}
func (b *book) Finished(*ledger.Request) { b.finished++ }
func (b *book) Aborted(*ledger.Request)  { b.aborted++ }

// roots counts what the tracer is told of ends.
type roots struct {
	ledger.NopTracer
	finished, forgotten []string
}

func (r *roots) Finish(q *ledger.Request, _ time.Duration) { r.finished = append(r.finished, q.ID) }
func (r *roots) Forget(q *ledger.Request)                  { r.forgotten = append(r.forgotten, q.ID) }

type bench struct {
	*Front
	back  *computer
	book  *book
	roots *roots
	loop  *clock.Loop
}

func newBench(change func(a *args.Args)) *bench {
	loop := clock.NewVirtual(time.Unix(0, 0))
	a := args.Default()
	a.EnableMetrics = true
	change(&a)
	b := &bench{back: &computer{loop: loop}, book: &book{}, roots: &roots{}, loop: loop}
	b.Front = New(Options{
		Loop: loop, Args: &a, Tracer: b.roots, Book: b.book, Process: ledger.NopProcess{}, Backend: b.back,
		Door: NewDoor(ledger.NopHTTP{}), Seed: 1,
	})
	b.back.front = b.Front
	return b
}

func (b *bench) ask(t *testing.T, output int, stream bool) (*ledger.Request, *[]Output) {
	t.Helper()
	r := ledger.NewRequest(b.NewID(), ledger.KindGenerate)
	r.Prompt, r.OutputLen, r.MaxTokens, r.Stream = []int32{1, 2, 3}, output, output, stream
	var got []Output
	_, err := b.Submit(r, func(o Output) { got = append(got, o) })
	require.NoError(t, err)
	return r, &got
}

func TestStream(t *testing.T) {
	b := newBench(func(*args.Args) {})
	r, got := b.ask(t, 5, true)
	b.loop.RunUntil(time.Second)
	assert.Len(t, *got, 5)
	assert.True(t, (*got)[4].Done)
	assert.Equal(t, []int{1, 1, 1, 1}, b.book.intervals)
	assert.Equal(t, []time.Duration{r.Front.FirstToken - r.Front.Created}, b.book.ttft)
	assert.Greater(t, r.Front.FirstToken, r.Sched.PrefillDone, "a stream's is its arrival")
	assert.Equal(t, 1, b.book.finished)
	assert.Equal(t, []string{r.ID}, b.roots.finished)
}

func TestStreamInterval(t *testing.T) {
	b := newBench(func(a *args.Args) { a.StreamInterval = 4 })
	_, got := b.ask(t, 10, true)
	b.loop.RunUntil(time.Second)
	var totals []int
	for _, o := range *got {
		totals = append(totals, o.Total)
	}
	assert.Equal(t, []int{1, 5, 9, 10}, totals)
}

// What does not stream comes every 50 tokens; with metrics on the engine knows when
// the first was there, without it takes the arrival for it.
func TestNoStream(t *testing.T) {
	for _, metrics := range []bool{true, false} {
		b := newBench(func(a *args.Args) { a.EnableMetrics = metrics })
		short, got := b.ask(t, 30, false)
		long, gotLong := b.ask(t, 120, false)
		b.loop.RunUntil(5 * time.Second)
		assert.Len(t, *got, 1)
		assert.Len(t, *gotLong, 3) // 50, 100, 120
		if metrics {
			assert.Equal(t, short.Sched.PrefillDone, short.Front.FirstToken)
			assert.Equal(t, long.Sched.PrefillDone, long.Front.FirstToken)
			continue
		}
		assert.Equal(t, short.Front.Finished, short.Front.FirstToken)
		assert.Equal(t, (*gotLong)[0].At, long.Front.FirstToken)
	}
}

func TestAbort(t *testing.T) {
	b := newBench(func(*args.Args) {})
	running, got := b.ask(t, 100, true)
	queued, gotQueued := b.ask(t, 100, true)
	b.loop.At(5*time.Millisecond, func() { b.Abort(queued.ID) })
	b.loop.At(60*time.Millisecond, func() {
		b.Abort(running.ID)
		b.Abort(running.ID) // the second is nothing
		b.Abort("nobody")
	})
	b.loop.RunUntil(time.Second)
	assert.True(t, (*got)[len(*got)-1].Done)
	assert.Len(t, *gotQueued, 1)
	assert.Equal(t, ledger.Unset, queued.Front.FirstToken, "it never came back from the scheduler")
	assert.Equal(t, 2, b.book.aborted)
	assert.Equal(t, 1, b.book.finished, "what was dropped from a queue is in no histogram")
	assert.Zero(t, b.Live())
}

// An abort that comes before the dispatch follows it.
func TestAbortBeforeDispatch(t *testing.T) {
	b := newBench(func(*args.Args) {})
	r, got := b.ask(t, 100, true)
	b.Abort(r.ID)
	b.loop.RunUntil(time.Second)
	assert.Len(t, b.back.received, 1)
	assert.Len(t, b.back.aborted, 1)
	assert.True(t, (*got)[0].Done)
}

func TestSamples(t *testing.T) {
	b := newBench(func(*args.Args) {})
	r := ledger.NewRequest("parent", ledger.KindChat)
	r.Prompt, r.OutputLen, r.MaxTokens, r.N, r.Stream = []int32{1}, 3, 3, 2, true
	done := map[int]bool{}
	_, err := b.Submit(r, func(o Output) { done[o.Index] = done[o.Index] || o.Done })
	require.NoError(t, err)
	b.loop.RunUntil(time.Second)
	assert.Equal(t, map[int]bool{0: true, 1: true}, done)
	assert.Len(t, b.roots.finished, 3)
	assert.Equal(t, 2, b.book.finished)
}

// Where the prompt of n samples is aborted, each of them ends.
func TestSamplesAborted(t *testing.T) {
	b := newBench(func(*args.Args) {})
	r := ledger.NewRequest("parent", ledger.KindChat)
	r.Prompt, r.OutputLen, r.MaxTokens, r.N = []int32{1}, 3, 3, 3
	var ended []int
	cancel, err := b.Submit(r, func(o Output) {
		if o.Done {
			ended = append(ended, o.Index)
		}
	})
	require.NoError(t, err)
	b.loop.At(5*time.Millisecond, cancel)
	b.loop.RunUntil(time.Second)
	assert.Equal(t, []int{0, 1, 2}, ended)
	assert.Zero(t, b.Live())
}

func TestDuplicateID(t *testing.T) {
	b := newBench(func(*args.Args) {})
	r, _ := b.ask(t, 3, true)
	_, err := b.Submit(ledger.NewRequest(r.ID, ledger.KindChat), nil)
	assert.ErrorContains(t, err, "Duplicate request ID")
}

// An idle engine computes the probe, and its root leaves; a busy one lets it be,
// and the handler forgets it.
func TestHealth(t *testing.T) {
	for _, busy := range []bool{false, true} {
		b := newBench(func(*args.Args) {})
		b.back.busy = busy
		if busy {
			b.ask(t, 500, true)
		}
		var answers []bool
		b.Health(func(ok bool) { answers = append(answers, ok) })
		b.loop.RunUntil(10 * time.Second)
		assert.Equal(t, []bool{true}, answers)
		assert.Equal(t, busy, len(b.roots.forgotten) == 1)
	}
}

func TestHealthOfADeadEngine(t *testing.T) {
	b := newBench(func(*args.Args) {})
	b.back.busy = true // and nothing comes from it
	var answers []bool
	b.Health(func(ok bool) { answers = append(answers, ok) })
	b.loop.RunUntil(time.Minute)
	assert.Equal(t, []bool{false}, answers)
}

// A busy thread makes everything late, and in order.
func TestOccupied(t *testing.T) {
	b := newBench(func(*args.Args) {})
	r, _ := b.ask(t, 2, true)
	b.loop.At(10*time.Millisecond, func() { b.Occupy(200*time.Millisecond, func() {}) })
	b.loop.RunUntil(time.Second)
	assert.Greater(t, r.Front.FirstToken-r.Sched.PrefillDone, 150*time.Millisecond)
}

func TestCheck(t *testing.T) {
	a := args.Default()
	a.ContextLength = 100
	r := ledger.NewRequest("", ledger.KindChat)
	require.ErrorContains(t, Check(&a, r), "non-empty")
	r.Prompt = make([]int32, 100)
	require.ErrorContains(t, Check(&a, r), "The input (100 tokens) is longer")
	r.Prompt, r.MaxTokens = make([]int32, 50), 51
	require.ErrorContains(t, Check(&a, r), "You requested a total of 101 tokens")
	r.MaxTokens = math.MaxInt
	require.ErrorContains(t, Check(&a, r), "maximum context length of 100 tokens")
	r.MaxTokens = 50
	assert.NoError(t, Check(&a, r))
}

func TestCrash(t *testing.T) {
	b := newBench(func(*args.Args) {})
	r, got := b.ask(t, 100, true)
	b.loop.RunUntil(50 * time.Millisecond)
	b.Crash()
	b.loop.RunUntil(time.Second)
	last := (*got)[len(*got)-1]
	assert.True(t, last.Done)
	assert.Equal(t, StatusGone, last.Request.AbortStatus)
	assert.Equal(t, []string{r.ID}, b.roots.forgotten)
	assert.Empty(t, b.roots.finished)
}
