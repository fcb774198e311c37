// Copyright The otelcol-sglang Authors
// SPDX-License-Identifier: Apache-2.0

package replay // import "github.com/otelcol-sglang/otelcol-sglang/cmd/sglangctl/internal/replay"

import (
	"context"
	"errors"
	"fmt"
	"math"
	"sync"
	"sync/atomic"
	"time"

	"go.opentelemetry.io/collector/pdata/ptrace"

	"github.com/otelcol-sglang/otelcol-sglang/internal/capture"
	"github.com/otelcol-sglang/otelcol-sglang/internal/sglang"
)

// Options say what to send, how often, how fast and where.
type Options struct {
	// Dir holds the captures, Captures their names.
	Dir      string
	Captures []string
	// Protocol is ProtocolGRPC or ProtocolHTTP, Endpoint its receiver.
	Protocol, Endpoint string
	// Engines is the number of copies of each capture that run side by side,
	// each with processes of its own.
	Engines int
	// Repeat is how often each engine plays its capture; 0 is for ever.
	Repeat int
	// Speed divides the recorded pauses: 1 is real time, 10 ten times as fast.
	Speed float64
	// MaxGap bounds one pause between two recorded exports, before Speed.
	MaxGap time.Duration
	// Rate is the number of repetitions that an engine starts in a second,
	// whether or not earlier ones have ended; 0 plays one after the other.
	Rate float64
	// Seed makes the ids; two runs with one seed send the same ids.
	Seed uint64
	// OnFirst, if set, is called once every engine has played its capture once.
	OnFirst func(Stats)
}

// Validate reports every option that is out of range.
func (o Options) Validate() error {
	var errs []error
	if len(o.Captures) == 0 {
		errs = append(errs, errors.New("captures must name at least one"))
	}
	if o.Engines < 1 || o.Engines > 1000 {
		errs = append(errs, fmt.Errorf("engines must be between 1 and 1000 (got %d)", o.Engines))
	}
	if o.Repeat < 0 {
		errs = append(errs, fmt.Errorf("repeat must not be negative (got %d)", o.Repeat))
	}
	if !(o.Speed > 0) || math.IsInf(o.Speed, 0) {
		errs = append(errs, fmt.Errorf("speed must be greater than 0 (got %v)", o.Speed))
	}
	if !(o.Rate >= 0) || o.Rate > 1000 {
		errs = append(errs, fmt.Errorf("rate must be between 0 and 1000 (got %v)", o.Rate))
	}
	if o.MaxGap < 0 {
		errs = append(errs, fmt.Errorf("max gap must not be negative (got %s)", o.MaxGap))
	}
	return errors.Join(errs...)
}

// Stats is what was sent.
type Stats struct {
	Spans, Requests, Exports int64
	// Refused spans were rejected by the receiver, Lost ones could not be sent.
	Refused, Lost int64
	Processes     int
}

// Player replays captures.
type Player struct {
	options Options
	retry   retry
	engines []*engine
	count   counters
}

type counters struct {
	spans, requests, exports, refused, lost atomic.Int64
	// lastErr holds the error (an errorBox) of the latest export that was lost.
	lastErr atomic.Pointer[errorBox]
}

type errorBox struct{ error }

// New loads the captures and opens the connections.
func New(o Options) (*Player, error) {
	if err := o.Validate(); err != nil {
		return nil, err
	}
	p := &Player{options: o, retry: defaultRetry}
	for c, name := range o.Captures {
		exports, err := capture.Load(o.Dir, name)
		if err != nil {
			return nil, errors.Join(err, p.Close())
		}
		for n := range o.Engines {
			id := identity(o.Seed).derive(uint64(c)<<32 | uint64(n))
			if err := p.addEngine(id, exports); err != nil {
				return nil, errors.Join(err, p.Close())
			}
		}
	}
	return p, nil
}

func (p *Player) addEngine(id identity, exports []capture.Export) error {
	e := &engine{
		id: id, exports: exports, senders: map[string]*sender{},
		due: schedule(exports, p.options.Speed, p.options.MaxGap),
	}
	p.engines = append(p.engines, e)
	for _, x := range exports {
		if e.senders[x.Peer] != nil {
			continue
		}
		conn, err := dial(p.options.Protocol, p.options.Endpoint)
		if err != nil {
			return err
		}
		e.senders[x.Peer] = &sender{exporter: conn, queue: make(chan job, queueSize)}
	}
	return nil
}

// Close closes the connections.
func (p *Player) Close() error {
	var errs []error
	for _, e := range p.engines {
		for _, s := range e.senders {
			errs = append(errs, s.exporter.Close())
		}
	}
	return errors.Join(errs...)
}

// Stats returns what was sent so far.
func (p *Player) Stats() Stats {
	s := Stats{
		Spans: p.count.spans.Load(), Requests: p.count.requests.Load(), Exports: p.count.exports.Load(),
		Refused: p.count.refused.Load(), Lost: p.count.lost.Load(),
	}
	for _, e := range p.engines {
		s.Processes += len(e.senders)
	}
	return s
}

// Run plays until all repetitions are sent or ctx ends. It returns the last
// error of an export that could not be sent, or nil.
func (p *Player) Run(ctx context.Context) error {
	var senders, engines, first sync.WaitGroup
	for _, e := range p.engines {
		for _, s := range e.senders {
			senders.Go(func() { s.run(ctx, p) })
		}
	}
	first.Add(len(p.engines))
	for _, e := range p.engines {
		engines.Go(func() { e.run(ctx, p.options, first.Done) })
	}
	if p.options.OnFirst != nil {
		engines.Go(func() {
			if first.Wait(); ctx.Err() == nil {
				p.options.OnFirst(p.Stats())
			}
		})
	}
	engines.Wait()
	for _, e := range p.engines {
		for _, s := range e.senders {
			close(s.queue)
		}
	}
	senders.Wait()
	if box := p.count.lastErr.Load(); box != nil {
		return box.error
	}
	return nil
}

// queueSize is how many exports of one process may wait for its connection.
const queueSize = 64

// sender is one process: one connection, one export at a time.
type sender struct {
	exporter exporter
	queue    chan job
}

type job struct {
	traces ptrace.Traces
	done   func()
}

func (s *sender) run(ctx context.Context, p *Player) {
	for j := range s.queue {
		if ctx.Err() == nil {
			s.send(ctx, p, j.traces)
		}
		j.done()
	}
}

func (s *sender) send(ctx context.Context, p *Player, traces ptrace.Traces) {
	spans, requests := int64(traces.SpanCount()), countRoots(traces)
	refused, err := p.retry.export(ctx, s.exporter, traces)
	if err != nil {
		if ctx.Err() == nil {
			p.count.lost.Add(spans)
			p.count.lastErr.Store(&errorBox{err})
		}
		return
	}
	p.count.refused.Add(refused)
	p.count.spans.Add(spans)
	p.count.requests.Add(requests)
	p.count.exports.Add(1)
}

func countRoots(traces ptrace.Traces) int64 {
	var n int64
	for _, rs := range traces.ResourceSpans().All() {
		for _, ss := range rs.ScopeSpans().All() {
			for _, span := range ss.Spans().All() {
				if sglang.KindOf(span) == sglang.KindRoot {
					n++
				}
			}
		}
	}
	return n
}
