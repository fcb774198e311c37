// Copyright The otelcol-sglang Authors
// SPDX-License-Identifier: Apache-2.0

package engine // import "github.com/otelcol-sglang/otelcol-sglang/engine"

import (
	"cmp"
	"hash/fnv"
	"net/http"
	"time"

	"github.com/otelcol-sglang/otelcol-sglang/engine/args"
	"github.com/otelcol-sglang/otelcol-sglang/engine/cost"
	"github.com/otelcol-sglang/otelcol-sglang/engine/disagg"
	"github.com/otelcol-sglang/otelcol-sglang/engine/dp"
	"github.com/otelcol-sglang/otelcol-sglang/engine/front"
	"github.com/otelcol-sglang/otelcol-sglang/engine/ledger"
	"github.com/otelcol-sglang/otelcol-sglang/engine/memory"
	"github.com/otelcol-sglang/otelcol-sglang/engine/moe"
	"github.com/otelcol-sglang/otelcol-sglang/engine/page"
	"github.com/otelcol-sglang/otelcol-sglang/engine/sched"
	"github.com/otelcol-sglang/otelcol-sglang/engine/spec"
	"github.com/otelcol-sglang/otelcol-sglang/engine/trace"
)

// build makes the processes of the engine, or makes them anew after a crash.
func (e *Engine) build() error {
	var err error
	e.starts++
	if e.Page == nil {
		if e.Page, err = page.New(page.Config{Args: *e.Args}); err != nil {
			return err
		}
	}
	tracer, err := e.buildTracer()
	if err != nil {
		return err
	}
	e.http = ledger.NopHTTP{}
	var process ledger.ProcessCollector = ledger.NopProcess{}
	if e.Args.EnableMetrics {
		e.http, process = e.Page.HTTP(), e.Page.Process()
	}
	e.Door = front.NewDoor(e.http)
	if err := e.buildSchedulers(e.schedulerTracer()); err != nil {
		return err
	}
	e.Front = front.New(front.Options{
		Loop: e.Loop, Args: e.Args, Tracer: tracer, Book: e.book(), Process: process, Backend: e, Door: e.Door,
		Seed: e.idSeed(),
	})
	e.up = true
	return nil
}

// seed is another for each process.
func (e *Engine) seed() uint64 { return e.Args.Seed + (e.starts-1)*0x9e3779b97f4a7c15 }

// idSeed makes request ids: two engines with one seed need other ids.
func (e *Engine) idSeed() uint64 {
	name := fnv.New64a()
	_, _ = name.Write([]byte(e.Args.Name()))
	return e.seed() ^ name.Sum64()
}

func (e *Engine) buildTracer() (ledger.Tracer, error) {
	e.Tracer = nil
	var all ledger.Tracers
	if e.Args.EnableTrace {
		cfg := trace.FromArgs(e.Args, e.Loop, e.opts.Spans)
		cfg.Seed, cfg.Resource = e.seed(), e.opts.Resource
		t, err := trace.New(cfg)
		if err != nil {
			return nil, err
		}
		e.Tracer = t
		all = append(all, t)
	}
	if e.truth != nil {
		all = append(all, e.truth)
	}
	return join(all), nil
}

// schedulerTracer is that of the schedulers, whose spans may be hidden.
func (e *Engine) schedulerTracer() ledger.Tracer {
	var all ledger.Tracers
	if e.Tracer != nil {
		e.hidden.Tracer = e.Tracer
		all = append(all, e.hidden)
	}
	if e.truth != nil {
		all = append(all, e.truth)
	}
	return join(all)
}

func join(all ledger.Tracers) ledger.Tracer {
	switch len(all) {
	case 0:
		return ledger.NopTracer{}
	case 1:
		return all[0]
	}
	return all
}

// group is the ranks that one scheduler speaks for.
type group struct {
	places []ledger.Place
	model  *cost.Model
}

// groups are one per DP rank. Those of attention DP share the model, as they share
// the ranks; replicas have their own.
func (e *Engine) groups() ([]group, error) {
	a := e.Args
	var shared *cost.Model
	groups := make([]group, a.DPSize)
	e.Models = nil
	for d := range groups {
		m := shared
		if m == nil {
			var err error
			if m, err = cost.New(a.ModelProfile, a.TPSize, a.AttentionTPSize(), a.PPSize); err != nil {
				return nil, err
			}
			e.Models = append(e.Models, m)
		}
		if a.EnableDPAttention {
			shared = m
		}
		groups[d] = group{places: placesOf(a, d), model: m}
	}
	return groups, nil
}

func placesOf(a *args.Args, d int) []ledger.Place {
	places := make([]ledger.Place, a.PPSize)
	first, n := 0, a.AttentionTPSize()
	if a.EnableDPAttention {
		first = d * n
	}
	if a.DPSize == 1 {
		d = -1
	}
	for pp := range places {
		places[pp] = ledger.Place{DPRank: d, PPRank: pp}
		for tp := range n {
			places[pp].TPRanks = append(places[pp].TPRanks, first+tp)
		}
	}
	return places
}

func (e *Engine) buildSchedulers(tracer ledger.Tracer) error {
	a := e.Args
	groups, err := e.groups()
	if err != nil {
		return err
	}
	var hub *disagg.Hub
	if e.link != nil {
		hub = disagg.NewHub(e.Loop, e.link)
	}
	e.Schedulers, e.Memories, e.Drafters, e.Experts, e.Controller = nil, nil, nil, nil, nil
	if a.EnableDPAttention {
		e.sync = dp.NewSync(e.Loop, groups[0].model, len(groups))
		if err := e.shareExperts(e.sync, groups[0].model); err != nil {
			return err
		}
	}
	for i := range groups {
		if err := e.buildScheduler(&groups[i], i, tracer, hub); err != nil {
			return err
		}
	}
	if len(groups) > 1 {
		return e.buildController(tracer)
	}
	return nil
}

func (e *Engine) buildScheduler(g *group, i int, tracer ledger.Tracer, hub *disagg.Hub) error {
	a := e.Args
	seed := e.seed() + uint64(i)
	drafter, err := spec.New(a, seed)
	if err != nil {
		return err
	}
	if drafter != nil {
		e.Drafters = append(e.Drafters, drafter)
	}
	var experts *moe.Dispatch
	if e.sync == nil {
		if experts, err = e.experts(g.model); err != nil {
			return err
		}
	}
	books, radix, storage := e.books(g)
	m, err := memory.New(a, e.sizes(g.model), e.Loop, radix, storage)
	if err != nil {
		return err
	}
	s, err := sched.New(sched.Config{
		Args: a, Places: g.places, Collectors: books, Loop: e.Loop, Memory: m, Cost: g.model, Tracer: tracer,
		Drafter: drafter, Sync: e.sync, LoRA: e.adapters(g.model), Experts: experts, Hub: hub, Output: e.output, Dropped: e.dropped,
	})
	if err != nil {
		return err
	}
	e.Memories = append(e.Memories, m)
	e.Schedulers = append(e.Schedulers, s)
	return nil
}

// books are a scheduler's collectors: one per pipeline stage, and those of its cache.
func (e *Engine) books(g *group) (books []ledger.SchedulerCollector, radix ledger.RadixCollector, storage ledger.StorageCollector) {
	radix, storage = ledger.NopRadix{}, ledger.NopStorage{}
	for _, p := range g.places {
		if !e.Args.EnableMetrics {
			books = append(books, ledger.NopScheduler{})
			continue
		}
		books = append(books, e.Page.Scheduler(p))
	}
	if !e.Args.EnableMetrics {
		return books, radix, storage
	}
	radix = e.Page.Radix(g.places[0])
	if e.storage != nil {
		storage = e.Page.Storage(g.places[0])
	}
	return books, radix, storage
}

// sizes are those of one scheduler's pools: from the memory, unless the arguments
// give a number.
func (e *Engine) sizes(m *cost.Model) memory.Sizes {
	a, p := e.Args, &m.Profile
	tokens, window, states := m.Pools(a.MemFractionStatic, a.SWAFullTokensRatio, a.MambaFullMemoryRatio)
	if a.MaxTotalTokens > 0 {
		tokens, window = a.MaxTotalTokens, int(float64(a.MaxTotalTokens)*a.SWAFullTokensRatio)
	}
	s := memory.Sizes{Tokens: wholePages(tokens, a.PageSize), BytesPerToken: m.KVBytes(1), Storage: e.storage}
	if p.WindowLayers > 0 {
		s.Window, s.WindowTokens, s.WindowBytesPerToken = p.Window, wholePages(window, a.PageSize), m.WindowBytes(1)
	}
	if p.StateBytes > 0 {
		s.States, s.StateBytes = cmp.Or(a.MaxMambaCacheSize, states), m.StateBytes(1)
	}
	return s
}

func wholePages(tokens, page int) int { return tokens / page * page }

// storageTokens bounds the storage backend: a disk that is never full in a test.
const storageTokens = 16 << 20

func (e *Engine) buildController(tracer ledger.Tracer) error {
	replicas := make([]dp.Replica, len(e.Schedulers))
	for i, s := range e.Schedulers {
		replicas[i] = s
	}
	c, err := dp.NewController(dp.ControllerConfig{
		Method: e.Args.LoadBalanceMethod, Replicas: replicas, Loop: e.Loop, Tracer: tracer, Seed: e.seed(),
	})
	e.Controller = c
	return err
}

// metrics is the page, up to date; nil without metrics.
func (e *Engine) metrics() http.Handler {
	if !e.Args.EnableMetrics {
		return nil
	}
	return e.Page.Handler()
}

// reaches is how long a message takes from the front end through the DP controller:
// an abort does not overtake its request.
const reaches = time.Millisecond
