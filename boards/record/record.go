// Copyright The otelcol-sglang Authors
// SPDX-License-Identifier: Apache-2.0

// Package record plays simulated engines with the collector beside them and notes
// what Prometheus would have stored: names and labels as with the shipped
// configurations, scraped with honor_labels. All of it runs in one process in virtual
// time, an hour in some seconds, and is the same each time but for the order of
// goroutines.
package record // import "github.com/otelcol-sglang/otelcol-sglang/boards/record"

import (
	"context"
	"errors"
	"net/http"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"
	"go.opentelemetry.io/collector/consumer"
	"go.opentelemetry.io/collector/pdata/ptrace"
	"go.opentelemetry.io/collector/receiver/receiverhelper"

	"github.com/otelcol-sglang/otelcol-sglang/engine"
	"github.com/otelcol-sglang/otelcol-sglang/engine/args"
	"github.com/otelcol-sglang/otelcol-sglang/engine/clock"
	"github.com/otelcol-sglang/otelcol-sglang/engine/disagg"
	"github.com/otelcol-sglang/otelcol-sglang/engine/load"
	"github.com/otelcol-sglang/otelcol-sglang/engine/trace"
	"github.com/otelcol-sglang/otelcol-sglang/internal/sglang"
)

// Step is the time between two scrapes.
const Step = 15 * time.Second

// Names of the engines, host:port. The operator has given them to the spans too, as
// the genaimetrics connector's README advises.
const (
	Engine  = "engine-0:30000"
	Prefill = "prefill-0:30000"
	Decode  = "decode-0:30000"

	// linkDelay is what a message between the halves of a pair takes.
	linkDelay = 300 * time.Microsecond
)

// Play plays a scenario.
func Play(t *testing.T, s *Scenario) *Recording {
	t.Helper()
	var r *Recording
	synctest.Test(t, func(t *testing.T) { r = play(t, s) })
	return r
}

func play(t *testing.T, s *Scenario) *Recording {
	t.Helper()
	p := &player{Scenario: s, began: time.Now(), loop: clock.NewVirtual(time.Now())}
	p.engines(t)
	services := map[string]http.Handler{}
	for name, e := range p.all {
		services[name] = e.Service
	}
	c, err := newCollector(services, p.began.Add(p.begins(FaultNoBackend)))
	require.NoError(t, err)
	p.sink.next, p.sink.report = c.spans, c.report
	require.NoError(t, c.start(t.Context()))
	ctx, stop := context.WithCancel(t.Context())
	var running sync.WaitGroup
	p.first.Start()
	running.Go(func() { p.run(ctx) })
	r := p.watch(c)
	stop()
	running.Wait()
	for _, e := range p.all {
		require.NoError(t, e.Shutdown(context.Background()))
	}
	require.NoError(t, c.shutdown(context.Background()))
	return r
}

// player is a scenario that plays.
type player struct {
	*Scenario
	began time.Time
	loop  *clock.Loop
	sink  sink
	all   map[string]*engine.Engine
	// first has the clients.
	first *engine.Engine
}

func (p *player) engines(t *testing.T) {
	t.Helper()
	p.sink.until = p.began.Add(p.begins(FaultNoSpans))
	a := p.settings()
	if p.PD {
		p.pair(t, a)
		return
	}
	a.Load, a.Faults = p.Load, p.engineFaults()
	p.first = p.engine(t, Engine, a, nil)
	p.all = map[string]*engine.Engine{Engine: p.first}
}

func (p *player) engine(t *testing.T, name string, a args.Args, link disagg.Link) *engine.Engine {
	t.Helper()
	e, err := engine.New(t.Context(), a, engine.Options{
		Loop: p.loop, Link: link, Spans: namedSink{&p.sink, name}, Resource: map[string]string{"service.instance.id": name},
	})
	require.NoError(t, err)
	return e
}

func (p *player) pair(t *testing.T, a args.Args) {
	t.Helper()
	toDecode, toPrefill := disagg.Pair(p.loop, linkDelay)
	b := a
	a.DisaggregationMode, a.Faults = args.Prefill, p.engineFaults()
	b.DisaggregationMode, b.Seed = args.Decode, a.Seed+1
	prefill, decode := p.engine(t, Prefill, a, toDecode), p.engine(t, Decode, b, toPrefill)
	sources, err := load.Parse(p.Load)
	require.NoError(t, err)
	decode.Clients = load.New(p.loop, engine.PairTarget(prefill, decode), sources, a.Seed).Rooms()
	p.first = decode
	p.all = map[string]*engine.Engine{Prefill: prefill, Decode: decode}
}

// quantum is how far engine time lags behind the collector's: spans never come before
// they end.
const quantum = 20 * time.Millisecond

// run takes the engines along with the time that passes for the collector. (In real
// mode the loop would wait for each event by itself, at several times the cost.)
func (p *player) run(ctx context.Context) {
	ticker := time.NewTicker(quantum)
	defer ticker.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-ticker.C:
			p.loop.RunUntil(time.Since(p.began))
		}
	}
}

// watch is Prometheus.
func (p *player) watch(c *collector) *Recording {
	r := newRecording(p.began, Step)
	ticker := time.NewTicker(Step)
	defer ticker.Stop()
	gone := p.began.Add(p.begins(FaultNoCollector))
	for {
		up := 1.0
		if !time.Now().Before(gone) {
			up = 0
		}
		for _, address := range []string{pageAddress, ownAddress} {
			r.add(sample{"up", target(address), up})
		}
		if up == 1 {
			c.page.scrape(func(s sample) {
				s.labels = honor(s.labels, pageAddress)
				r.add(s)
			})
			_ = c.own.scrape(r.add) // it only fails after shutdown
		}
		r.next()
		if time.Since(p.began) >= p.Length {
			return r
		}
		<-ticker.C
	}
}

// honor adds the labels of the target where the page has none, as honor_labels does.
func honor(labels []Label, address string) []Label {
	for _, add := range target(address) {
		if !has(labels, add.Name) {
			labels = append(labels[:len(labels):len(labels)], add)
		}
	}
	return tidy(labels)
}

func has(labels []Label, name string) bool {
	for _, l := range labels {
		if l.Name == name {
			return true
		}
	}
	return false
}

// sink is what the receiver does with spans: one connection per process.
type sink struct {
	next   consumer.Traces
	report *receiverhelper.ObsReport
	until  time.Time
}

type namedSink struct {
	*sink
	name string
}

// Open implements [trace.Sink].
func (s namedSink) Open(p trace.Process) (trace.Exporter, error) {
	return connection{s.sink, "collector/" + s.name + "/" + p.String()}, nil
}

type connection struct {
	*sink
	peer string
}

// Export implements [trace.Exporter].
func (c connection) Export(ctx context.Context, td ptrace.Traces) error {
	if !time.Now().Before(c.until) {
		return errUnreachable
	}
	for _, rs := range td.ResourceSpans().All() {
		rs.Resource().Attributes().PutStr(sglang.AttrExporterPeer, c.peer)
	}
	ctx = c.report.StartTracesOp(ctx)
	n := td.SpanCount()
	err := c.next.ConsumeTraces(ctx, td)
	c.report.EndTracesOp(ctx, "protobuf", n, err)
	return err
}

var errUnreachable = errors.New("connection refused")

// Close implements [trace.Exporter].
func (connection) Close() error { return nil }
