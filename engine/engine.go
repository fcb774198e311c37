// Copyright The otelcol-sglang Authors
// SPDX-License-Identifier: Apache-2.0

// Package engine puts a simulated SGLang engine together: the front end, a
// scheduler for each group of ranks with its memory, the DP controller, those who
// record (spans, metrics page, truth), the HTTP service, faults and built-in
// clients. Everything runs on one loop; several engines may share it.
package engine // import "github.com/otelcol-sglang/otelcol-sglang/engine"

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"time"

	"github.com/otelcol-sglang/otelcol-sglang/engine/api"
	"github.com/otelcol-sglang/otelcol-sglang/engine/args"
	"github.com/otelcol-sglang/otelcol-sglang/engine/clock"
	"github.com/otelcol-sglang/otelcol-sglang/engine/disagg"
	"github.com/otelcol-sglang/otelcol-sglang/engine/dp"
	"github.com/otelcol-sglang/otelcol-sglang/engine/fault"
	"github.com/otelcol-sglang/otelcol-sglang/engine/front"
	"github.com/otelcol-sglang/otelcol-sglang/engine/hicache"
	"github.com/otelcol-sglang/otelcol-sglang/engine/ledger"
	"github.com/otelcol-sglang/otelcol-sglang/engine/load"
	"github.com/otelcol-sglang/otelcol-sglang/engine/page"
	"github.com/otelcol-sglang/otelcol-sglang/engine/trace"
	"github.com/otelcol-sglang/otelcol-sglang/engine/truth"
)

// Options are what an engine works with beyond its arguments.
type Options struct {
	// Loop is nil for a loop of its own in real time.
	Loop *clock.Loop
	// Spans is where spans go; nil is the endpoint of the arguments. Nothing goes
	// there without enable-trace.
	Spans trace.Sink
	// Resource is OTEL_RESOURCE_ATTRIBUTES.
	Resource map[string]string
	// Link is the way to the other half of a PD pair in this process; nil is one to
	// another process, by the arguments.
	Link disagg.Link
	// Truth gets the truth about each request; nil is the file of the arguments.
	Truth func(*truth.Record)
	// LaunchCommand is for /server_info.
	LaunchCommand string
	// Client is what the built-in clients talk to; nil is this engine.
	Client load.Target
}

// Engine is one engine. Its parts belong to the loop's goroutine; Service answers
// on any.
type Engine struct {
	fault.Parts
	opts Options
	Door *front.Door
	// Clients are the built-in ones; nil without a load.
	Clients *load.Driver
	// Controls of the recorders.
	hidden *hiding
	truth  *truth.Truth
	closer io.Closer

	http     ledger.HTTPCollector
	link     disagg.Link
	storage  *hicache.Storage
	sync     *dp.Sync // of attention DP
	byLength *lengths
	specs    []fault.Spec
	// starts counts processes: a restarted engine makes other ids.
	starts uint64
	up     bool
	// onRestart is called when another process takes over; nil for nobody.
	onRestart func()
}

// New checks the arguments and puts an engine together. ctx bounds connections to
// the other half of a PD pair.
func New(ctx context.Context, a args.Args, o Options) (*Engine, error) {
	a.ServedModelName = cmp.Or(a.ServedModelName, a.ModelPath)
	if err := a.Validate(); err != nil {
		return nil, err
	}
	e := &Engine{opts: o, byLength: &lengths{}, hidden: &hiding{}}
	e.Args = &a
	if e.Loop = o.Loop; e.Loop == nil {
		e.Loop = clock.NewReal(a.TimeScale)
	}
	e.Hide, e.ByLength, e.Crash = e.hidden.set, e.byLength.set, e.crash
	for _, text := range a.Faults {
		s, err := fault.Parse(text)
		if err != nil {
			return nil, err
		}
		e.specs = append(e.specs, s)
	}
	if err := e.open(ctx); err != nil {
		return nil, err
	}
	if err := e.build(); err != nil {
		return nil, errors.Join(err, e.close())
	}
	if err := e.prepare(); err != nil {
		return nil, errors.Join(err, e.close())
	}
	return e, nil
}

// open makes what outlives a restart.
func (e *Engine) open(ctx context.Context) error {
	var err error
	if e.Args.HiCacheStorageBackend != "" {
		e.storage = hicache.NewStorage(storageTokens, e.Args.PageSize)
	}
	if err = e.openTruth(); err != nil {
		return err
	}
	if e.Args.EnableTrace && e.opts.Spans == nil {
		if e.opts.Spans, err = trace.NewOTLP(os.Getenv(envProtocol), e.Args.OTLPTracesEndpoint); err != nil {
			return err
		}
	}
	e.link, err = e.openLink(ctx)
	return err
}

const envProtocol = "OTEL_EXPORTER_OTLP_TRACES_PROTOCOL"

func (e *Engine) openTruth() error {
	role := ""
	if e.Args.DisaggregationMode != args.Unified {
		role = e.Args.DisaggregationMode
	}
	wall := e.Loop.Wall
	switch {
	case e.opts.Truth != nil:
		e.truth = truth.New(role, wall, e.opts.Truth)
	case e.Args.TruthFile != "":
		f, err := os.Create(e.Args.TruthFile)
		if err != nil {
			return err
		}
		e.closer = f
		e.truth = truth.NewWriter(role, wall, f)
	}
	return nil
}

func (e *Engine) openLink(ctx context.Context) (disagg.Link, error) {
	a := e.Args
	switch {
	case e.opts.Link != nil || a.DisaggregationMode == args.Unified:
		return e.opts.Link, nil
	case a.DisaggregationMode == args.Prefill:
		return disagg.Listen(ctx, e.Loop, fmt.Sprintf("%s:%d", a.Host, a.DisaggregationBootstrapPort))
	}
	return disagg.Dial(ctx, e.Loop, a.BootstrapAddr)
}

// prepare makes the service, the clients and the faults.
func (e *Engine) prepare() error {
	e.Service = api.New(api.Engine{
		Args: e.Args, Loop: e.Loop, Front: func() *front.Front { return e.Front }, Book: e.book(),
		Metrics: e.metrics(), SetTraceLevel: e.setTraceLevel, Flush: e.flush, Settle: e.Settle, Loads: e.loads, Info: e.info,
		APIKey: e.Args.APIKey, LaunchCommand: e.opts.LaunchCommand,
	})
	if e.Args.Load != "" {
		sources, err := load.Parse(e.Args.Load)
		if err != nil {
			return err
		}
		if e.Args.DisaggregationMode != args.Unified && e.opts.Client == nil {
			return errors.New("load must be empty with disaggregation-mode prefill or decode, as clients need both (see sglang-sim load)")
		}
		target := e.opts.Client
		if target == nil {
			target = e.Target()
		}
		e.Clients = load.New(e.Loop, target, sources, e.Args.Seed)
	}
	for i := range e.specs {
		if err := e.specs[i].Schedule(&e.Parts); err != nil {
			return err
		}
	}
	return nil
}

// Start lets the built-in clients come. On the loop, or before it runs.
func (e *Engine) Start() {
	if e.Clients != nil {
		e.Clients.Start()
	}
}

// Shutdown sends what spans are queued and closes files and links. The loop must
// have stopped.
func (e *Engine) Shutdown(ctx context.Context) error {
	var err error
	if e.Tracer != nil {
		err = e.Tracer.Shutdown(ctx)
	}
	return errors.Join(err, e.close())
}

func (e *Engine) close() error {
	var errs []error
	if e.truth != nil {
		errs = append(errs, e.truth.Flush())
	}
	if e.closer != nil {
		errs = append(errs, e.closer.Close())
	}
	if e.link != nil {
		errs = append(errs, e.link.Close())
	}
	return errors.Join(errs...)
}

// Check is nil while every scheduler and its memory keep their invariants, and each
// step of attention DP was one.
func (e *Engine) Check() error {
	var errs []error
	for _, s := range e.Schedulers {
		errs = append(errs, s.Check())
	}
	if e.sync != nil && e.sync.Errors > 0 {
		errs = append(errs, fmt.Errorf("%d of %d synchronised steps were refused", e.sync.Errors, e.sync.Steps))
	}
	return errors.Join(errs...)
}

// crash ends the engine as a killed process ends, and starts another after a while.
func (e *Engine) crash(down time.Duration) {
	e.up = false
	e.Service.SetDown(true)
	for _, s := range e.Schedulers {
		s.Kill()
	}
	if e.Tracer != nil {
		gone, cancel := context.WithCancel(context.Background())
		cancel()
		_ = e.Tracer.Shutdown(gone) // what is queued is lost, as it is in a crash
	}
	e.Front.Crash()
	e.Page.Restart()
	e.Loop.After(down, func() {
		if e.build() != nil { // the same arguments did before
			return
		}
		for i := range e.specs {
			e.specs[i].Restarted()
		}
		if e.onRestart != nil {
			e.onRestart()
		}
		e.Service.SetDown(false)
	})
}

// book is the front end's of the process that runs.
func (e *Engine) book() ledger.TokenizerCollector {
	if !e.Args.EnableMetrics {
		return ledger.NopTokenizer{}
	}
	return e.Page.Tokenizer()
}

func (e *Engine) setTraceLevel(level int) {
	if e.Tracer != nil {
		_ = e.Tracer.SetLevel(level) // the service has checked it
	}
}

// flush is all or nothing.
func (e *Engine) flush() bool {
	if !e.Idle() {
		return false
	}
	for _, s := range e.Schedulers {
		s.Flush()
	}
	return true
}

func (e *Engine) info() map[string]any {
	full, _, _ := e.Memories[0].Books()
	states := make([]any, 0, len(e.Schedulers))
	for _, s := range e.Schedulers {
		l := s.Loads()
		states = append(states, map[string]any{
			"last_gen_throughput": l.GenThroughput, "effective_max_running_requests_per_dp": l.MaxRunning,
		})
	}
	return map[string]any{"max_total_num_tokens": full.Capacity, "internal_states": states}
}

// Settle brings up to date what grows with time, as idle seconds do.
func (e *Engine) Settle() {
	for _, s := range e.Schedulers {
		s.Settle()
	}
}

// loads are for /v1/loads.
func (e *Engine) loads() []page.Load {
	e.Settle()
	out := make([]page.Load, 0, len(e.Schedulers))
	for i, s := range e.Schedulers {
		out = append(out, e.loadOf(i, s.Loads()))
	}
	return out
}
