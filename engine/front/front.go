// Copyright The otelcol-sglang Authors
// SPDX-License-Identifier: Apache-2.0

// Package front is the engine's front end: the process that tokenizes, hands
// requests to the schedulers and gives their output to the clients. Its readings
// of the clock are what clients feel.
package front // import "github.com/otelcol-sglang/otelcol-sglang/engine/front"

import (
	"encoding/hex"
	"fmt"
	"maps"
	"math/rand/v2"
	"slices"
	"time"

	"github.com/otelcol-sglang/otelcol-sglang/engine/args"
	"github.com/otelcol-sglang/otelcol-sglang/engine/clock"
	"github.com/otelcol-sglang/otelcol-sglang/engine/ledger"
	"github.com/otelcol-sglang/otelcol-sglang/internal/sglang"
)

// forceStreamInterval is SGLANG_FORCE_STREAM_INTERVAL: the scheduler sends what it
// has of a request that does not stream every so many tokens.
const forceStreamInterval = 50

// Backend computes: a scheduler, or a DP controller in front of several.
type Backend interface {
	// Submit hands over a dispatched request.
	Submit(r *ledger.Request)
	// Abort ends a submitted request; its end comes through [Front.Output] or
	// [Front.Dropped].
	Abort(r *ledger.Request)
	// Idle tells whether nothing runs or waits: only then is a health probe computed.
	Idle() bool
}

// Costs are what the front end's one thread needs for its work.
type Costs struct {
	TokenizeBase, TokenizePerToken time.Duration
	Dispatch                       time.Duration
	// Detokenize is the way from a scheduler through the detokenizer's process.
	Detokenize time.Duration
	// PerOutput is for one request's part of an output batch.
	PerOutput time.Duration
}

// DefaultCosts are of the size that recorded engines show under load.
func DefaultCosts() Costs {
	return Costs{
		TokenizeBase: 150 * time.Microsecond, TokenizePerToken: 400 * time.Nanosecond,
		Dispatch: 90 * time.Microsecond, Detokenize: 250 * time.Microsecond, PerOutput: 4 * time.Microsecond,
	}
}

// Options of [New]; all are needed but Costs, whose zero value means the defaults.
type Options struct {
	Loop    *clock.Loop
	Args    *args.Args
	Tracer  ledger.Tracer
	Book    ledger.TokenizerCollector
	Process ledger.ProcessCollector
	Backend Backend
	// Door books what comes in by HTTP.
	Door  *Door
	Costs Costs
	// Seed decides ids.
	Seed uint64
}

// Output is what a client gets at one time. On the loop's goroutine.
type Output struct {
	Request *ledger.Request
	// Index is the sample's, of n.
	Index int
	// Tokens came since the last output. Nobody changes them.
	Tokens []int32
	// Total is the number of tokens so far.
	Total int
	Done  bool
	At    time.Duration
}

// Client takes a request's output.
type Client func(Output)

// Front belongs to the loop's goroutine.
type Front struct {
	Options
	rng     *rand.Rand
	live    map[string]*reply
	batches []*batch
	// busy is when the thread is done with what it has.
	busy time.Duration
	// slow multiplies every cost.
	slow float64
	// heard is when the last output came.
	heard time.Duration
}

// reply is the front end's state of one request.
type reply struct {
	request *ledger.Request
	client  Client
	index   int
	// sent counts tokens that are on their way to the front end, got those that it has,
	// counted those that metrics know.
	sent, got, counted int
	submitted, aborted bool
	// parent is the request of an n>1 whose prompt is computed first: its root shows
	// nothing of what it generated.
	parent bool
	// quiet requests are not in the metrics.
	quiet        bool
	ttftObserved bool
}

// batch is what one scheduler step brings.
type batch struct {
	at    time.Duration
	items []item
}

type item struct {
	*reply
	to   int
	done bool
	// dropped requests end without an output.
	dropped bool
}

// New makes a front end.
func New(o Options) *Front {
	if o.Costs == (Costs{}) {
		o.Costs = DefaultCosts()
	}
	return &Front{
		Options: o, rng: rand.New(rand.NewPCG(o.Seed, 0xf407)),
		live: map[string]*reply{}, slow: 1, heard: ledger.Unset,
	}
}

// Slow makes everything take factor times as long (faults); 1 heals.
func (f *Front) Slow(factor float64) { f.slow = factor }

// Occupy lets the thread work on an HTTP request that no scheduler hears of, and
// calls done at its end (faults).
func (f *Front) Occupy(cost time.Duration, done func()) {
	_, to := f.work(f.Loop.Now(), cost)
	f.Loop.At(to, done)
}

// NewID is a request's id, as uuid4().hex gives it.
func (f *Front) NewID() string {
	var b [16]byte
	for i := 0; i < len(b); i += 8 {
		v := f.rng.Uint64()
		for j := range 8 {
			b[i+j] = byte(v >> (8 * j))
		}
	}
	b[6], b[8] = b[6]&0x0f|0x40, b[8]&0x3f|0x80
	return hex.EncodeToString(b[:])
}

// Live is the number of requests that have not ended.
func (f *Front) Live() int { return len(f.live) }

// Check says why a request can't be taken, as the engine words it.
func Check(a *args.Args, r *ledger.Request) error {
	n := len(r.Prompt)
	switch {
	case n == 0:
		return fmt.Errorf("input_ids should be a non-empty list of tokens")
	case n >= a.ContextLength:
		return fmt.Errorf("The input (%d tokens) is longer than the model's context length (%d tokens).", n, a.ContextLength) //nolint:staticcheck,revive // the engine's words
	case r.Kind != ledger.KindEmbedding && r.MaxTokens > a.ContextLength-n: // their sum may overflow
		return fmt.Errorf("Requested token count exceeds the model's maximum context length of %d tokens. "+ //nolint:staticcheck // the engine's words
			"You requested a total of %d tokens: %d tokens from the input messages and %d tokens for the completion. "+
			"Please reduce the number of tokens in the input messages or the completion to fit within the limit.",
			a.ContextLength, uint64(n)+uint64(r.MaxTokens), n, r.MaxTokens)
	}
	return nil
}

// Submit takes a request; [Check] has passed it. With r.N > 1 the prompt is computed
// first, then so many samples are, each with an id and a root of its own. cancel
// aborts what has not ended, as when a client hangs up.
func (f *Front) Submit(r *ledger.Request, client Client) (cancel func(), err error) {
	if f.live[r.ID] != nil {
		return nil, fmt.Errorf("Duplicate request ID detected: %s", r.ID) //nolint:staticcheck // the engine's words
	}
	if r.N > 1 {
		return f.submitParent(r, client), nil
	}
	f.start(&reply{request: r, client: client})
	return func() { f.Abort(r.ID) }, nil
}

func (f *Front) submitParent(r *ledger.Request, client Client) (cancel func()) {
	samples := *r
	ids := []string{r.ID}
	r.OutputLen, r.MaxTokens, r.Stream = 1, 0, false
	f.start(&reply{request: r, parent: true, quiet: true, client: func(o Output) {
		if !o.Done {
			return
		}
		if r.Finish == ledger.FinishAbort {
			for o.Index = range samples.N { // the client waits for the end of each
				client(o)
			}
			return
		}
		for i := range samples.N {
			s := f.sampleOf(&samples)
			ids = append(ids, s.ID)
			f.start(&reply{request: s, index: i, client: client})
		}
	}})
	return func() {
		for _, id := range ids {
			f.Abort(id)
		}
	}
}

// sampleOf is one of n samples of a request that was taken.
func (f *Front) sampleOf(r *ledger.Request) *ledger.Request {
	s := ledger.NewRequest(f.NewID(), r.Kind)
	times, sched := s.Front, s.Sched
	id := s.ID
	*s = *r
	s.ID, s.Front, s.Sched = id, times, sched
	return s
}

func (f *Front) start(rep *reply) {
	r := rep.request
	r.Reply = rep
	f.live[r.ID] = rep
	now := f.Loop.Now()
	t := &r.Front
	t.Created = now
	f.Tracer.Start(r, now)
	_, t.TokenizeFinish = f.work(now, f.Costs.TokenizeBase+time.Duration(len(r.Prompt))*f.Costs.TokenizePerToken)
	t.DispatchStart, t.DispatchFinish = f.work(t.TokenizeFinish, f.Costs.Dispatch)
	f.Loop.At(t.DispatchFinish, func() { f.dispatch(rep) })
}

// work occupies the front end's thread from ready on.
func (f *Front) work(ready, cost time.Duration) (from, to time.Duration) {
	cost = time.Duration(float64(cost) * f.slow)
	f.Process.ProcessCPU(tokenizerComponent, cost)
	from = max(ready, f.busy)
	to = from + cost
	f.busy = to
	return from, to
}

// tokenizerComponent is this process' name in the page's CPU times.
const tokenizerComponent = "tokenizer"

func (f *Front) dispatch(rep *reply) {
	r, t := rep.request, &rep.request.Front
	if f.live[r.ID] != rep { // a probe that was given up
		return
	}
	f.Tracer.FrontEnd(r, sglang.StageTokenize, t.Created, t.TokenizeFinish)
	f.Tracer.FrontEnd(r, sglang.StageAPIServerDispatch, t.DispatchStart, t.DispatchFinish)
	if r.Kind == ledger.KindHealth && !f.Backend.Idle() {
		return // the scheduler lets it be, since its other output proves health
	}
	rep.submitted = true
	f.Backend.Submit(r)
	if rep.aborted {
		f.Backend.Abort(r)
	}
}

// Abort ends a request, as /abort_request and a client that hangs up do. An
// unknown id is ignored.
func (f *Front) Abort(id string) {
	rep := f.live[id]
	if rep == nil || rep.aborted {
		return
	}
	rep.aborted = true
	if rep.submitted {
		f.Backend.Abort(rep.request)
	}
	f.Book.Aborted(rep.request)
}

// AbortAll aborts whatever lives.
func (f *Front) AbortAll() {
	for _, id := range f.liveIDs() {
		f.Abort(id)
	}
}

// liveIDs are in an order that is the same in each run.
func (f *Front) liveIDs() []string { return slices.Sorted(maps.Keys(f.live)) }

// Output is called by a scheduler after each step in which r got tokens or ended.
func (f *Front) Output(r *ledger.Request) {
	rep, ok := r.Reply.(*reply)
	if !ok || f.live[r.ID] != rep {
		return
	}
	done := r.Finish != ""
	if !done && !f.sends(rep) {
		return
	}
	rep.sent = len(r.Output)
	f.arriving(item{reply: rep, to: rep.sent, done: done})
}

// Dropped is called by a scheduler for a request that it ended without running it:
// aborted or refused in a queue. r.Finish and r.AbortMessage are set.
func (f *Front) Dropped(r *ledger.Request) {
	rep, ok := r.Reply.(*reply)
	if !ok || f.live[r.ID] != rep {
		return
	}
	f.arriving(item{reply: rep, to: len(r.Output), done: true, dropped: true})
}

// sends tells whether the scheduler sends what it has of a running request.
func (f *Front) sends(rep *reply) bool {
	n := len(rep.request.Output)
	if !rep.request.Stream {
		return n%forceStreamInterval == 0
	}
	unsent := n - rep.sent
	return unsent >= f.Args.StreamInterval || rep.sent == 0 && unsent > 0
}

// arriving puts an item into the batch that leaves a scheduler at this moment.
func (f *Front) arriving(it item) {
	now := f.Loop.Now()
	if n := len(f.batches); n > 0 && f.batches[n-1].at == now {
		f.batches[n-1].items = append(f.batches[n-1].items, it)
		return
	}
	b := &batch{at: now, items: []item{it}}
	f.batches = append(f.batches, b)
	f.Loop.After(f.Costs.Detokenize, f.arrived)
}

// arrived takes the oldest batch: all took the same way.
func (f *Front) arrived() {
	b := f.batches[0]
	f.batches = f.batches[1:]
	cost := time.Duration(float64(f.Costs.PerOutput) * f.slow)
	from, to := f.work(f.Loop.Now(), time.Duration(len(b.items))*f.Costs.PerOutput)
	f.Loop.At(to, func() {
		f.heard = f.Loop.Now()
		for i := range b.items {
			f.deliver(&b.items[i], from+time.Duration(i+1)*cost)
		}
	})
}

func (f *Front) deliver(it *item, at time.Duration) {
	rep, r := it.reply, it.request
	if f.live[r.ID] != rep {
		return
	}
	if !it.dropped {
		f.stamp(it, at)
	}
	if it.done {
		f.finish(rep, at)
	}
	out := Output{
		Request: r, Index: rep.index, Tokens: r.Output[rep.got:it.to:it.to], Total: it.to, Done: it.done, At: at,
	}
	rep.got = it.to
	if !it.dropped && !rep.quiet {
		f.count(it, at)
	}
	rep.client(out)
}

func (f *Front) finish(rep *reply, at time.Duration) {
	r := rep.request
	r.Front.Finished = at
	delete(f.live, r.ID)
	r.Reply = nil
	how := r.Finish
	if rep.parent && how != ledger.FinishAbort {
		r.Finish = "" // the samples tell of usage, not their parent
	}
	f.Tracer.Finish(r, at)
	r.Finish = how
}

// stamp takes the reading of the first output. The arrival of a request that does
// not stream is late; with metrics on the engine takes the scheduler's time.
func (f *Front) stamp(it *item, at time.Duration) {
	r := it.request
	if it.parent || r.Front.FirstToken != ledger.Unset {
		return
	}
	r.Front.FirstToken = at
	done := r.Sched.PrefillDone
	if !r.Stream && r.Kind != ledger.KindEmbedding && f.Args.EnableMetrics && r.Front.Created < done && done <= at {
		r.Front.FirstToken = done
	}
	r.Front.LastToken = at
}

// count tells the metrics: TTFT or the interval, then the end.
func (f *Front) count(it *item, at time.Duration) {
	rep, r := it.reply, it.request
	switch {
	case r.Kind == ledger.KindHealth:
		return
	case r.Kind == ledger.KindEmbedding:
	case !rep.ttftObserved:
		if r.Finish != ledger.FinishAbort && f.Args.DisaggregationMode != args.Prefill {
			rep.ttftObserved = true
			f.Book.FirstToken(r, r.Front.FirstToken-r.Front.Created)
			rep.counted = it.to
		}
	case it.to > rep.counted:
		f.Book.InterToken(r, at-r.Front.LastToken, it.to-rep.counted)
		rep.counted, r.Front.LastToken = it.to, at
	}
	if it.done {
		f.Book.Finished(r)
	}
}

// Crash drops every request: roots never end, and clients lose their connection.
func (f *Front) Crash() {
	for _, id := range f.liveIDs() {
		rep := f.live[id]
		delete(f.live, id)
		r := rep.request
		r.Reply = nil
		r.Finish, r.AbortStatus, r.AbortMessage = ledger.FinishAbort, StatusGone, "connection closed"
		f.Tracer.Forget(r)
		rep.client(Output{Request: r, Index: rep.index, Total: rep.got, Done: true, At: f.Loop.Now()})
	}
}

// StatusGone is the "status" of a request whose engine crashed: there was no answer.
const StatusGone = 599
