// Copyright The otelcol-sglang Authors
// SPDX-License-Identifier: Apache-2.0

package dp

import (
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"github.com/otelcol-sglang/otelcol-sglang/engine/clock"
	"github.com/otelcol-sglang/otelcol-sglang/engine/cost"
	"github.com/otelcol-sglang/otelcol-sglang/engine/ledger"
)

// replica has what it was sent, and counts it as its load.
type replica struct{ got []*ledger.Request }

func (r *replica) Receive(q *ledger.Request) { r.got = append(r.got, q) }

func (r *replica) Load() Load {
	l := Load{Requests: len(r.got)}
	for _, q := range r.got {
		l.Tokens += len(q.Prompt)
	}
	return l
}

type dispatches struct {
	ledger.NopTracer
	from, to []time.Duration
}

func (d *dispatches) Dispatch(_ *ledger.Request, from, to time.Duration) {
	d.from, d.to = append(d.from, from), append(d.to, to)
}

func newController(t *testing.T, method string, n int) (*Controller, []*replica, *clock.Loop, *dispatches) {
	loop := clock.NewVirtual(time.Unix(0, 0))
	c := ControllerConfig{Method: method, Loop: loop, Tracer: &dispatches{}}
	rs := make([]*replica, n)
	for i := range rs {
		rs[i] = &replica{}
		c.Replicas = append(c.Replicas, rs[i])
	}
	ctl, err := NewController(c)
	require.NoError(t, err)
	return ctl, rs, loop, c.Tracer.(*dispatches)
}

func request(prompt int, room uint64) *ledger.Request {
	r := ledger.NewRequest("r", ledger.KindGenerate)
	r.Prompt, r.BootstrapRoom = make([]int32, prompt), room
	return r
}

// Prompts of 100, 10, 10, 10, 10, 10 tokens to two ranks.
func TestMethods(t *testing.T) {
	for _, tt := range []struct {
		method string
		want   []int
	}{
		{RoundRobin, []int{0, 1, 0, 1, 0, 1}},
		{ShortestQueue, []int{0, 1, 0, 1, 0, 1}},
		{MinimumTokens, []int{0, 1, 1, 1, 1, 1}},
		{FollowBootstrapRoom, []int{0, 1, 1, 1, 1, 1}},
	} {
		for _, apart := range []time.Duration{0, 10 * time.Millisecond} {
			t.Run(tt.method, func(t *testing.T) {
				ctl, rs, loop, _ := newController(t, tt.method, 2)
				var got []int
				for i := range tt.want {
					r := request(10, 2*uint64(i)+1)
					if i == 0 {
						r = request(100, 4)
					}
					ctl.Dispatch(r)
					got = append(got, r.DPRank)
					loop.RunUntil(loop.Now() + apart)
				}
				loop.RunUntil(time.Second)
				assert.Equal(t, tt.want, got)
				assert.Len(t, append(rs[0].got, rs[1].got...), len(tt.want))
			})
		}
	}
}

// What is on its way counts, so that a burst does not all go to one rank.
func TestBurstIsSpread(t *testing.T) {
	ctl, rs, loop, _ := newController(t, ShortestQueue, 4)
	for range 40 {
		ctl.Dispatch(request(1, 0))
	}
	loop.RunUntil(time.Second)
	for _, r := range rs {
		assert.Len(t, r.got, 10)
	}
}

func TestGivenRankIsKept(t *testing.T) {
	ctl, rs, loop, d := newController(t, RoundRobin, 2)
	r := request(1, 0)
	r.DPRank = 1
	loop.RunUntil(time.Second)
	ctl.Dispatch(r)
	loop.RunUntil(2 * time.Second)
	assert.Len(t, rs[1].got, 1)
	assert.Equal(t, []time.Duration{time.Second}, d.from)
	assert.Greater(t, d.to[0], d.from[0])
}

func TestSkew(t *testing.T) {
	ctl, rs, loop, _ := newController(t, RoundRobin, 4)
	ctl.SetSkew(3, 0.8)
	for range 1000 {
		ctl.Dispatch(request(1, 0))
	}
	loop.RunUntil(time.Second)
	assert.InDelta(t, 850, len(rs[3].got), 50)
	ctl.SetSkew(0, 0)
	n := len(rs[3].got)
	for range 400 {
		ctl.Dispatch(request(1, 0))
	}
	loop.RunUntil(2 * time.Second)
	assert.Len(t, rs[3].got, n+100)
}

func TestControllerConfig(t *testing.T) {
	_, err := NewController(ControllerConfig{Method: "best", Replicas: []Replica{&replica{}}})
	require.ErrorContains(t, err, `(got "best")`)
	_, err = NewController(ControllerConfig{Method: RoundRobin})
	assert.ErrorContains(t, err, "must not be empty")
}

func offer(tokens int, pairs int64, prefill bool) Offer {
	return Offer{Work: cost.Work{Requests: min(tokens, 1), Tokens: tokens, Pairs: pairs}, Prefill: prefill}
}

func TestDescribe(t *testing.T) {
	steps, err := Describe([]Offer{offer(100, 5000, true), offer(0, 0, false), offer(8, 900, false)})
	require.NoError(t, err)
	all := ledger.DPStep{MaxTokens: 100, SumTokens: 108, MaxPairs: 5000, Groups: 3, PrefillGroups: 1}
	for i, own := range []struct {
		tokens int
		pairs  int64
	}{{100, 5000}, {0, 0}, {8, 900}} {
		want := all
		want.Tokens, want.Pairs = own.tokens, own.pairs
		assert.Equal(t, want, steps[i])
	}
}

// Such a step is an error, not a balanced one.
func TestDescribeErrors(t *testing.T) {
	_, err := Describe([]Offer{offer(0, 0, false), offer(0, 0, false)})
	require.ErrorIs(t, err, ErrNoTokens)
	_, err = Describe([]Offer{offer(4, 10, false), offer(4, 0, false)})
	require.ErrorIs(t, err, ErrNoPairs)
}

// member offers what it is told when it is fetched.
type member struct {
	group int
	sync  *Sync
	loop  *clock.Loop
	offer Offer
	late  time.Duration
	got   []Outcome
	busy  bool // comes by itself
}

func (m *member) Join() {
	if !m.busy {
		m.arrive()
	}
}

func (m *member) arrive() {
	m.loop.After(m.late, func() { m.sync.Arrive(m.group, m.offer, func(o Outcome) { m.got = append(m.got, o) }) })
}

func newSync(t tb, offers ...Offer) (*Sync, []*member, *clock.Loop, *cost.Model) {
	loop := clock.NewVirtual(time.Unix(0, 0))
	model, err := cost.New("llama-8b-h100", len(offers), 1, 1)
	require.NoError(t, err)
	s := NewSync(loop, model, len(offers))
	ms := make([]*member, len(offers))
	for i, o := range offers {
		ms[i] = &member{group: i, sync: s, loop: loop, offer: o}
		s.Add(i, ms[i])
	}
	return s, ms, loop, model
}

type tb interface {
	require.TestingT
}

// Each group's step takes what the longest takes, idle ones step along, and each
// waits for the last to arrive.
func TestStepCostsTheLongest(t *testing.T) {
	s, ms, loop, model := newSync(t, offer(512, 131328, true), offer(8, 4000, false), offer(0, 0, false))
	ms[1].late = 3 * time.Millisecond
	ms[0].arrive()
	loop.RunUntil(time.Second)
	padded := cost.Work{Requests: 1, Tokens: 512, Pairs: 131328, Groups: 3}
	for i, m := range ms {
		require.Len(t, m.got, 1)
		o := m.got[0]
		assert.Equal(t, model.Pass(padded), o.Took)
		assert.Equal(t, padded, o.Padded)
		assert.Equal(t, 3*time.Millisecond+gather, o.Start)
		want := gather + []time.Duration{3 * time.Millisecond, 0, 3 * time.Millisecond}[i]
		assert.Equal(t, want, o.Step.SyncWait)
	}
	assert.Equal(t, 1, s.Steps)
	assert.Zero(t, s.Errors)
}

// All groups idle: nothing runs and nothing is wrong.
func TestNobodyHasWork(t *testing.T) {
	s, ms, loop, _ := newSync(t, offer(0, 0, false), offer(0, 0, false))
	ms[0].arrive()
	loop.RunUntil(time.Second)
	assert.True(t, ms[0].got[0].None)
	assert.True(t, ms[1].got[0].None)
	assert.Zero(t, s.Steps+s.Errors)
}

func TestBrokenStepsAreCounted(t *testing.T) {
	for _, o := range []Offer{
		{Work: cost.Work{Requests: 1, Tokens: 4}},     // tokens without pairs
		{Work: cost.Work{Requests: 1}, Prefill: true}, // a batch without tokens
	} {
		s, ms, loop, _ := newSync(t, o, offer(0, 0, false))
		ms[0].arrive()
		loop.RunUntil(time.Second)
		assert.True(t, ms[0].got[0].None)
		assert.Equal(t, 1, s.Errors)
		assert.Zero(t, s.Steps)
	}
}

// Imbalance over all groups: what max·groups has beyond the sum.
func TestImbalanceAddsUp(t *testing.T) {
	rapid.Check(t, func(rt *rapid.T) {
		var offers []Offer
		for range rapid.IntRange(2, 8).Draw(rt, "groups") {
			n := rapid.IntRange(0, 100).Draw(rt, "tokens")
			offers = append(offers, offer(n, int64(n)*int64(n+1)/2, rapid.Bool().Draw(rt, "prefill")))
		}
		steps, err := Describe(offers)
		if err != nil {
			require.ErrorIs(rt, err, ErrNoTokens)
			return
		}
		gap, sum := 0, 0
		for _, s := range steps {
			require.GreaterOrEqual(rt, s.MaxTokens, s.Tokens)
			require.GreaterOrEqual(rt, s.MaxPairs, s.Pairs)
			gap += s.MaxTokens - s.Tokens
			sum += s.Tokens
		}
		require.Equal(rt, steps[0].SumTokens, sum)
		require.Equal(rt, steps[0].MaxTokens*len(steps)-sum, gap)
	})
}
