// Copyright The otelcol-sglang Authors
// SPDX-License-Identifier: Apache-2.0

package load // import "github.com/otelcol-sglang/otelcol-sglang/engine/load"

import (
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"strconv"
	"time"

	"github.com/otelcol-sglang/otelcol-sglang/engine/clock"
	"github.com/otelcol-sglang/otelcol-sglang/engine/ledger"
	"github.com/otelcol-sglang/otelcol-sglang/engine/vocab"
)

// Call is one request of a client.
type Call struct {
	ID     string // "" lets the engine choose
	Kind   ledger.Kind
	Prompt []int32
	// Output is the number of tokens at which the "model" stops.
	Output     int
	Stream     bool
	N          int
	Priority   *int
	LoRA       string
	RoutingKey string
	// Room pairs the halves of a call to a PD pair; 0 otherwise.
	Room uint64
}

// Event is what a client gets.
type Event struct {
	At time.Duration
	// Tokens are new.
	Tokens []int32
	Done   bool
	// Aborted and Failed requests are Done.
	Aborted bool
	Failed  error
}

// Target takes calls. Events come on the loop's goroutine, the first after Do has
// returned, and none after one that is Done.
type Target interface {
	Do(c *Call, events func(Event)) (hangUp func())
}

// Driver is the clients. It belongs to the loop's goroutine.
type Driver struct {
	loop    *clock.Loop
	target  Target
	rng     *rand.Rand
	Results *Results
	sources []*source
	rooms   bool
	// Over is called once, when all sources have ended and their requests too; it may
	// be nil.
	Over func()
	live int
}

// source is the state of a [Source].
type source struct {
	Source
	d       *Driver
	begun   int // conversations
	calls   int
	until   time.Duration
	ended   bool
	shared  [][]int32
	talking int
}

// New makes clients that begin with [Driver.Start].
func New(loop *clock.Loop, target Target, sources []Source, seed uint64) *Driver {
	d := &Driver{loop: loop, target: target, rng: rand.New(rand.NewPCG(seed, 0x10ad)), Results: newResults(seed)}
	for i := range sources {
		s := &source{Source: sources[i], d: d, until: math.MaxInt64}
		for n := range max(1, s.Prefixes) {
			s.shared = append(s.shared, tokens(rand.New(rand.NewPCG(seed, uint64(i*1000+n))), s.Prefix))
		}
		d.sources = append(d.sources, s)
	}
	return d
}

// Rooms gives each call a bootstrap room, for a PD pair.
func (d *Driver) Rooms() *Driver {
	d.rooms = true
	return d
}

// Start lets the clients come.
func (d *Driver) Start() {
	d.Results.begin(d.loop.Now())
	for _, s := range d.sources {
		d.loop.After(s.Start, s.start)
	}
}

// Stop lets no more come.
func (d *Driver) Stop() {
	for _, s := range d.sources {
		s.ended = true
	}
}

// Live is the number of requests under way.
func (d *Driver) Live() int { return d.live }

func (s *source) start() {
	if s.For > 0 {
		s.until = s.d.loop.Now() + s.For
	}
	for range s.Clients {
		s.converse()
	}
	if s.Rate > 0 {
		s.arrive()
	}
	if s.Burst > 0 {
		s.burst()
	}
}

// more tells whether another request may begin.
func (s *source) more() bool {
	if s.ended || s.d.loop.Now() >= s.until || s.Count > 0 && s.calls >= s.Count {
		s.ended = true
	}
	return !s.ended
}

func (s *source) arrive() {
	pause := s.d.rng.ExpFloat64() / s.Rate
	s.d.loop.After(time.Duration(pause*float64(time.Second)), func() {
		if !s.more() {
			s.d.check()
			return
		}
		s.converse()
		s.arrive()
	})
}

func (s *source) burst() {
	for range s.Burst {
		s.converse()
	}
	s.d.loop.After(s.Every, func() {
		if s.more() {
			s.burst()
			return
		}
		s.d.check()
	})
}

// talk is one conversation.
type talk struct {
	*source
	history []int32
	turn    int
	number  int
	key     string
	lora    string
}

func (s *source) converse() {
	t := &talk{source: s, number: s.begun}
	s.begun++
	s.talking++
	if s.Prefix > 0 {
		t.history = slices.Clone(s.shared[s.d.rng.IntN(len(s.shared))])
	}
	if s.Keys > 0 {
		t.key = "key-" + strconv.Itoa(s.d.rng.IntN(s.Keys))
	}
	if s.LoRAs > 0 {
		t.lora = "adapter-" + strconv.Itoa(s.d.rng.IntN(s.LoRAs))
	}
	t.ask()
}

func (t *talk) ask() {
	d := t.d
	if !t.more() {
		t.talking--
		d.check()
		return
	}
	t.history = append(t.history, tokens(d.rng, t.draw(t.Input, t.MaxInput))...)
	c := &Call{
		Kind: t.Kind, Prompt: slices.Clone(t.history), Output: t.draw(t.Output, t.MaxOutput),
		Stream: t.Kind != ledger.KindEmbedding && d.rng.Float64() < t.Stream,
		N:      max(1, t.Samples), LoRA: t.lora, RoutingKey: t.key,
	}
	if len(t.Priorities) > 0 {
		c.Priority = &t.Priorities[t.number%len(t.Priorities)]
	}
	if d.rooms {
		c.Room = d.rng.Uint64()>>1 | 1
	}
	t.calls++
	d.live++
	watch := d.Results.watch(c, d.loop.Now())
	hangUp := d.target.Do(c, func(e Event) {
		watch.event(e)
		if !e.Done {
			t.history = append(t.history, e.Tokens...)
			return
		}
		t.history = append(t.history, e.Tokens...)
		d.live--
		t.next(e)
	})
	t.mayHangUp(hangUp)
}

func (t *talk) mayHangUp(hangUp func()) {
	d := t.d
	if t.Abort > 0 && d.rng.Float64() < t.Abort {
		d.loop.After(time.Duration(d.rng.ExpFloat64()*float64(t.AbortAfter)), hangUp)
	}
}

// next goes on with the conversation, or begins another where clients are fixed.
func (t *talk) next(e Event) {
	t.turn++
	if t.turn < t.Turns && !e.Aborted && e.Failed == nil {
		t.d.loop.After(t.pause(), t.ask)
		return
	}
	t.talking--
	if t.Clients > 0 && t.talking < t.Clients && t.more() {
		wait := t.pause()
		if e.Failed != nil {
			wait = max(wait, time.Second) // no storm against an engine that is down
		}
		t.d.loop.After(wait, t.converse)
		return
	}
	t.d.check()
}

func (t *talk) pause() time.Duration {
	return time.Duration(t.d.rng.ExpFloat64() * float64(t.Think))
}

// check calls Over when nothing is left to do.
func (d *Driver) check() {
	if d.live > 0 || d.Over == nil {
		return
	}
	for _, s := range d.sources {
		if s.more() {
			return
		}
	}
	over := d.Over
	d.Over = nil
	over()
}

// draw is a number of tokens with the given median.
func (s *source) draw(median, most int) int {
	if median == 0 {
		return 0
	}
	if most == 0 {
		most = 20 * median
	}
	n := int(math.Round(float64(median) * math.Exp(s.Spread*s.d.rng.NormFloat64())))
	return min(max(1, n), most)
}

// tokens are n made-up ones.
func tokens(rng *rand.Rand, n int) []int32 {
	const words = 256
	ids := make([]int32, n)
	for i := range ids {
		ids[i] = words + rng.Int32N(vocab.Size-words)
	}
	return ids
}

// ErrRefused is the failure of a request that the engine did not take.
type ErrRefused struct {
	Status  int
	Message string
}

func (e *ErrRefused) Error() string { return fmt.Sprintf("status %d: %s", e.Status, e.Message) }
