// Copyright The otelcol-sglang Authors
// SPDX-License-Identifier: Apache-2.0

package load

import (
	"bytes"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/otelcol-sglang/otelcol-sglang/engine/clock"
	"github.com/otelcol-sglang/otelcol-sglang/engine/ledger"
)

func TestParse(t *testing.T) {
	for _, name := range Presets() {
		sources, err := Parse(name)
		require.NoError(t, err, name)
		assert.NotEmpty(t, sources)
	}
	sources, err := Parse("chat:rate=5,count=7,priority=0|-3,kind=generate,for=30s; rag:stream=0.5")
	require.NoError(t, err)
	require.Len(t, sources, 2)
	assert.Equal(t, 5.0, sources[0].Rate)
	assert.Equal(t, 7, sources[0].Count)
	assert.Equal(t, []int{0, -3}, sources[0].Priorities)
	assert.Equal(t, ledger.KindGenerate, sources[0].Kind)
	assert.Equal(t, 30*time.Second, sources[0].For)
	assert.Equal(t, 0.5, sources[1].Stream)
}

func TestParseSharesOut(t *testing.T) {
	sources, err := Parse("mixed:rate=7,count=700")
	require.NoError(t, err)
	var rate float64
	count := 0
	for _, s := range sources {
		rate += s.Rate
		count += s.Count
	}
	assert.InDelta(t, 7, rate, 1e-9)
	assert.InDelta(t, 700, count, 2)
}

func TestParseErrors(t *testing.T) {
	for text, want := range map[string]string{
		"":                  `load must be one of agents, burst, chat, embed, mixed, rag (got "")`,
		"chat:speed=1":      `load has no setting "speed"`,
		"chat:rate=fast":    `load's rate must be a number from 0 to 1e+06 (got "fast")`,
		"chat:turns=0":      `load's turns must be a whole number from 1 to 1000 (got "0")`,
		"chat:think=1":      `load's think must be a duration such as 30s (got "1")`,
		"chat:kind=poem":    `load's kind must be one of chat, completion, embedding, generate (got "poem")`,
		"chat:priority=x":   `load's priority must be whole numbers apart by "|" (got "x")`,
		"chat:rate=0":       `load must have a rate, clients or a burst (got none)`,
		"burst:every=0s":    `load's every must be above 0 with a burst (got 0s)`,
		"chat:stream=1;rug": `(got "rug")`,
	} {
		_, err := Parse(text)
		assert.ErrorContains(t, err, want, text)
	}
}

// echo answers each call with its tokens, 10 ms apart, the first after 100.
type echo struct {
	loop  *clock.Loop
	calls []*Call
	most  int
	live  int
}

func (e *echo) Do(c *Call, events func(Event)) (hangUp func()) {
	e.calls = append(e.calls, c)
	e.live++
	e.most = max(e.most, e.live)
	over := false
	end := func(aborted bool) {
		if over {
			return
		}
		over = true
		e.live--
		events(Event{At: e.loop.Now(), Done: true, Aborted: aborted})
	}
	for i := range c.Output {
		e.loop.After(100*time.Millisecond+time.Duration(i)*10*time.Millisecond, func() {
			if !over {
				events(Event{At: e.loop.Now(), Tokens: []int32{int32(300 + i)}})
			}
		})
	}
	e.loop.After(100*time.Millisecond+time.Duration(c.Output)*10*time.Millisecond, func() { end(false) })
	return func() { end(true) }
}

func drive(t *testing.T, spec string, ran time.Duration) (*echo, *Driver) {
	t.Helper()
	loop := clock.NewVirtual(time.Unix(0, 0))
	sources, err := Parse(spec)
	require.NoError(t, err)
	e := &echo{loop: loop}
	d := New(loop, e, sources, 1)
	d.Start()
	loop.RunUntil(ran)
	return e, d
}

func TestOpenLoop(t *testing.T) {
	e, d := drive(t, "chat:rate=10,turns=1,abort=0", 100*time.Second)
	assert.InDelta(t, 1000, len(e.calls), 120) // Poisson
	r := d.Results.Report()
	assert.InDelta(t, 0.1, r.TTFT.P50, 1e-9)
	assert.InDelta(t, 0.01, r.ITL.P99, 1e-9)
	assert.InDelta(t, 0.01, r.TPOT.P50, 0.002)
	assert.Greater(t, r.E2E.P99, r.E2E.P50)
}

func TestClosedLoop(t *testing.T) {
	e, d := drive(t, "agents:clients=5,think=0s,abort=0", 50*time.Second)
	assert.Equal(t, 5, e.most)
	assert.Greater(t, d.Results.Finished, 50)
}

func TestBurst(t *testing.T) {
	e, _ := drive(t, "burst:rate=0,burst=20,every=10s", 25*time.Second)
	assert.Len(t, e.calls, 60)
	assert.GreaterOrEqual(t, e.most, 20)
}

// A conversation's next prompt begins with all that was said.
func TestTurns(t *testing.T) {
	e, _ := drive(t, "chat:rate=0,clients=1,turns=3,think=1ms,count=3,abort=0", time.Hour)
	require.Len(t, e.calls, 3)
	for i := range 2 {
		before, next := e.calls[i], e.calls[i+1]
		assert.Equal(t, before.Prompt, next.Prompt[:len(before.Prompt)])
		assert.Greater(t, len(next.Prompt), len(before.Prompt)+before.Output)
	}
}

func TestAborts(t *testing.T) {
	_, d := drive(t, "chat:rate=20,turns=1,abort=0.5,after=50ms,output=200,spread=0", 60*time.Second)
	assert.InDelta(t, 0.5, float64(d.Results.Aborted)/float64(d.Results.Requests), 0.08)
}

func TestOver(t *testing.T) {
	loop := clock.NewVirtual(time.Unix(0, 0))
	sources, err := Parse("mixed:count=30,rate=5")
	require.NoError(t, err)
	d := New(loop, &echo{loop: loop}, sources, 1)
	calls := 0
	d.Over = func() { calls++ }
	d.Start()
	loop.RunUntil(time.Hour)
	assert.Equal(t, 1, calls)
	assert.Zero(t, d.Live())
}

// A source that is to start later is not over before.
func TestOverAfterALateStart(t *testing.T) {
	loop := clock.NewVirtual(time.Unix(0, 0))
	sources, err := Parse("chat:count=1,turns=1,rate=100;rag:count=2,start=1h")
	require.NoError(t, err)
	e := &echo{loop: loop}
	d := New(loop, e, sources, 1)
	over := time.Duration(0)
	d.Over = func() { over = loop.Now() }
	d.Start()
	loop.RunUntil(2 * time.Hour)
	assert.Len(t, e.calls, 3)
	assert.Greater(t, over, time.Hour)
}

// Between tokens of several samples there is no interval.
func TestSamplesHaveNoIntervals(t *testing.T) {
	_, d := drive(t, "chat:rate=5,turns=1,n=4,abort=0,stream=1", 20*time.Second)
	r := d.Results.Report()
	assert.Positive(t, r.TTFT.Count)
	assert.Zero(t, r.ITL.Count)
	assert.Zero(t, r.TPOT.Count)
}

func TestSameSeedSameCalls(t *testing.T) {
	a, _ := drive(t, "mixed:rate=10", 30*time.Second)
	b, _ := drive(t, "mixed:rate=10", 30*time.Second)
	assert.Equal(t, a.calls, b.calls)
}

func TestReport(t *testing.T) {
	_, d := drive(t, "chat:rate=5,turns=1", 20*time.Second)
	var table, line bytes.Buffer
	require.NoError(t, d.Results.Report().WriteTable(&table))
	require.NoError(t, d.Results.Report().WriteJSON(&line))
	assert.Contains(t, table.String(), "TTFT")
	assert.Contains(t, line.String(), `"ttft":{"count":`)
}

// Beyond its bound a reservoir keeps a fair part.
func TestReservoir(t *testing.T) {
	r := newResults(1)
	n := 3 * maxSamples
	for i := range n {
		r.e2e.add(time.Duration(i))
	}
	assert.Len(t, r.e2e.kept, maxSamples)
	q := r.e2e.quantiles()
	assert.Equal(t, n, q.Count)
	assert.InDelta(t, float64(n)/2, q.P50*1e9, 0.01*float64(n))
}
