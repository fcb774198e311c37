// Copyright The otelcol-sglang Authors
// SPDX-License-Identifier: Apache-2.0

package engine

import (
	"cmp"
	"context"
	"flag"
	"fmt"
	"maps"
	"math"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"go.opentelemetry.io/collector/component"
	"go.opentelemetry.io/collector/component/componenttest"
	"go.opentelemetry.io/collector/consumer"
	"go.opentelemetry.io/collector/consumer/consumertest"
	"go.opentelemetry.io/collector/pdata/pcommon"
	"go.opentelemetry.io/collector/pdata/ptrace"
	"go.opentelemetry.io/collector/processor"
	"go.opentelemetry.io/collector/processor/processortest"

	"github.com/otelcol-sglang/otelcol-sglang/engine/args"
	"github.com/otelcol-sglang/otelcol-sglang/engine/clock"
	"github.com/otelcol-sglang/otelcol-sglang/engine/ledger"
	"github.com/otelcol-sglang/otelcol-sglang/engine/trace"
	"github.com/otelcol-sglang/otelcol-sglang/engine/truth"
	"github.com/otelcol-sglang/otelcol-sglang/internal/sglang"
	"github.com/otelcol-sglang/otelcol-sglang/processor/genaiprocessor"
	"github.com/otelcol-sglang/otelcol-sglang/processor/rankdedupprocessor"
)

var requests = flag.Int("requests", 1000, "requests in each mode of TestTruth")

// chain is rankdedup and genai as they ship, with a sink behind them.
type chain struct {
	first consumer.Traces
	sink  *consumertest.TracesSink
	close func(t *testing.T)
}

func newChain(t *testing.T) *chain {
	t.Helper()
	c := &chain{sink: &consumertest.TracesSink{}}
	genai := start(t, genaiprocessor.NewFactory(), c.sink)
	dedup := start(t, rankdedupprocessor.NewFactory(), genai)
	c.first = dedup
	c.close = func(t *testing.T) {
		t.Helper()
		for _, p := range []component.Component{dedup, genai} {
			require.NoError(t, p.Shutdown(context.Background()))
		}
	}
	return c
}

func start(t *testing.T, f processor.Factory, next consumer.Traces) processor.Traces {
	t.Helper()
	p, err := f.CreateTraces(context.Background(), processortest.NewNopSettings(f.Type()), f.CreateDefaultConfig(), next)
	require.NoError(t, err)
	require.NoError(t, p.Start(context.Background(), componenttest.NewNopHost()))
	return p
}

// peer is a sink of spans: what the receiver does with one engine's exports.
type peer struct {
	to   consumer.Traces
	name string
}

func (p peer) Open(from trace.Process) (trace.Exporter, error) {
	return connection{p.to, "collector/" + p.name + "/" + from.String()}, nil
}

type connection struct {
	to   consumer.Traces
	peer string
}

func (c connection) Export(ctx context.Context, td ptrace.Traces) error {
	for _, rs := range td.ResourceSpans().All() {
		rs.Resource().Attributes().PutStr(sglang.AttrExporterPeer, c.peer)
	}
	return c.to.ConsumeTraces(ctx, td)
}

func (connection) Close() error { return nil }

// roots are the request roots that left, by request id.
func (c *chain) roots() map[string]pcommon.Map {
	found := map[string]pcommon.Map{}
	for _, td := range c.sink.AllTraces() {
		for _, rs := range td.ResourceSpans().All() {
			for _, ss := range rs.ScopeSpans().All() {
				for _, s := range ss.Spans().All() {
					if id, ok := s.Attributes().Get(sglang.AttrRequestID); ok {
						found[id.Str()] = s.Attributes()
					}
				}
			}
		}
	}
	return found
}

// play runs engines on a virtual clock in step with the bubble's, until the clients
// of the last are over and the processors have let go of everything.
func play(t *testing.T, loop *clock.Loop, engines []*Engine) {
	t.Helper()
	const step = 100 * time.Millisecond
	over := false
	last := engines[len(engines)-1]
	last.Clients.Over = func() { over = true }
	last.Start()
	advance := func(d time.Duration) {
		for end := loop.Now() + d; loop.Now() < end; {
			loop.RunUntil(loop.Now() + step)
			time.Sleep(step)
		}
	}
	for !over {
		require.Less(t, loop.Now(), 12*time.Hour)
		advance(10 * time.Second)
		for _, e := range engines {
			require.NoError(t, e.Check())
		}
	}
	advance(10 * time.Second)
	for _, e := range engines {
		require.NoError(t, e.Shutdown(context.Background()))
	}
	time.Sleep(2 * time.Minute)
}

var modes = []struct {
	name   string
	change func(a *args.Args)
	load   string
	// retracted is the least share of requests that lose their KV.
	retracted float64
}{
	{"unified", func(a *args.Args) { a.TPSize = 2 }, "mixed:rate=30", 0},
	{"dp-attention", func(a *args.Args) { a.TPSize, a.DPSize, a.EnableDPAttention = 4, 2, true }, "mixed:rate=30", 0},
	{"spec", func(a *args.Args) { a.SpeculativeAlgorithm = "EAGLE" }, "mixed:rate=30", 0},
	// Bursts that the pool holds a third of, and that are served before the next one
	// comes: the idle time between makes the scheduler hopeful again.
	{"retraction", func(a *args.Args) {
		a.TPSize, a.MaxTotalTokens, a.ScheduleConservativeness = 2, 12_000, 0.1
	}, "chat:rate=0,burst=60,every=30s,input=20,prefix=10,output=600,spread=0.5,turns=1,abort=0", 0.1},
}

// TestTruth compares what the project's own processors derive from the engine's
// spans with what happened: at most a millisecond or half a percent apart.
func TestTruth(t *testing.T) {
	for _, m := range modes {
		t.Run(m.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				c := newChain(t)
				loop := clock.NewVirtual(time.Now())
				a := args.Default()
				m.change(&a)
				a.EnableMetrics, a.EnableTrace = true, true
				a.Load = fmt.Sprintf("%s,count=%d", m.load, count())
				var records []*truth.Record
				e, err := New(t.Context(), a, Options{Loop: loop, Spans: peer{c.first, m.name}, Truth: func(r *truth.Record) { records = append(records, r) }})
				require.NoError(t, err)
				play(t, loop, []*Engine{e})
				c.close(t)
				compare(t, records, c.roots())
				assert.GreaterOrEqual(t, retractions(records), int(m.retracted*float64(count())))
			})
		})
	}
}

// retractions of all requests.
func retractions(records []*truth.Record) (n int) {
	for _, r := range records {
		n += len(r.Retracted)
	}
	return n
}

func count() int {
	if testing.Short() {
		return min(*requests, 200)
	}
	return *requests
}

// deviation is the errors of one attribute over all requests.
type deviation struct {
	attr           string
	all            []float64 // absolute, in seconds
	beyond, absent int
	worst          string
	largest        float64
}

const (
	within      = 1e-3
	withinShare = 0.005
	// A transfer lies between the clocks of two engines, each process of which is off by
	// up to trace.DefaultClockOffset, and reads late by up to the step jitter.
	withinTransfer = 2e-3
)

func limitOf(attr string) float64 {
	if attr == sglang.AttrKVTransfer {
		return withinTransfer
	}
	return within
}

func compare(t *testing.T, records []*truth.Record, roots map[string]pcommon.Map) {
	t.Helper()
	want := map[string]map[string]float64{}
	for _, r := range records {
		if r.Finish != string(ledger.FinishAbort) { // those aborted in a queue have no id on their root
			want[r.ID] = r.Latencies()
		}
	}
	compareTo(t, want, roots)
}

// compareTo compares roots with what each should say, by request id.
func compareTo(t *testing.T, want map[string]map[string]float64, roots map[string]pcommon.Map) {
	t.Helper()
	byAttr := map[string]*deviation{}
	missing := 0
	for id, latencies := range want {
		root, ok := roots[id]
		if !ok {
			missing++
			continue
		}
		for attr, want := range latencies {
			d := byAttr[attr]
			if d == nil {
				d = &deviation{attr: attr}
				byAttr[attr] = d
			}
			d.add(id, root, want)
		}
	}
	t.Logf("%d requests\n\n%s", len(want), table(byAttr))
	assert.Zero(t, missing, "roots that did not leave, of %d", len(want))
	for _, d := range byAttr {
		assert.Zero(t, d.beyond, "%s of %s: %g s off", d.attr, d.worst, d.largest)
		assert.Zero(t, d.absent, "%s has no value", d.attr)
	}
}

func (d *deviation) add(id string, root pcommon.Map, want float64) {
	got, ok := root.Get(d.attr)
	// A stage of the budget that took no known time is absent.
	if !ok && !strings.HasPrefix(d.attr, sglang.AttrBudgetPrefix) {
		d.absent++
		return
	}
	off := want
	if ok {
		off = math.Abs(got.Double() - want)
	}
	d.all = append(d.all, off)
	share := off / max(want, 1e-9)
	beyond := off > limitOf(d.attr) && share > withinShare
	if beyond {
		d.beyond++
	}
	if off > d.largest && (beyond || d.beyond == 0) {
		d.largest, d.worst = off, fmt.Sprintf("%s (want %g)", id, want)
	}
}

// table is for the README.
func table(byAttr map[string]*deviation) string {
	var b strings.Builder
	fmt.Fprintln(&b, "| Attribute | Values | P99 error, ms | Largest, ms |")
	fmt.Fprintln(&b, "|---|---:|---:|---:|")
	for _, d := range slices.SortedFunc(maps.Values(byAttr), func(a, b *deviation) int { return cmp.Compare(a.attr, b.attr) }) {
		slices.Sort(d.all)
		p99, top := 0.0, 0.0
		if n := len(d.all); n > 0 {
			p99, top = d.all[n*99/100], d.all[n-1]
		}
		fmt.Fprintf(&b, "| `%s` | %d | %.3f | %.3f |\n", d.attr, len(d.all), 1e3*p99, 1e3*top)
	}
	return b.String()
}
