// Copyright The otelcol-sglang Authors
// SPDX-License-Identifier: Apache-2.0

package page // import "github.com/otelcol-sglang/otelcol-sglang/engine/page"

import (
	"cmp"
	"maps"
	"slices"
	"time"

	"github.com/otelcol-sglang/otelcol-sglang/engine/args"
	"github.com/otelcol-sglang/otelcol-sglang/engine/ledger"
	"github.com/otelcol-sglang/otelcol-sglang/internal/sglang"
)

const (
	// firstPID is the process id of the first process; those of later ones follow.
	firstPID = 25_000
	// maxLabelSets bounds what clients can choose: custom labels, priorities, endpoints.
	maxLabelSets = 1000
	// Overflow is the value of labels for which no series was left.
	Overflow = "overflow"
)

// RankTime is a duration of the group as one of its ranks measures it; n counts
// the rank's observations. It must be a pure function, so that runs are repeatable.
type RankTime func(p *ledger.Place, tpRank int, n uint64, d time.Duration) time.Duration

// Config of a page.
type Config struct {
	Args args.Args
	// Backend takes the series; nil is a [Store] of the page's own.
	Backend Backend
	// RankTime is nil for ranks that differ by Args.StepJitter only.
	RankTime RankTime
	// FirstPID is the process id of the first process; 0 for a fixed one.
	FirstPID int
	// MaxLabelSets bounds the combinations of labels that clients choose; what is
	// beyond goes under [Overflow]. 0 is 1000.
	MaxLabelSets int
}

// Page is the metrics of one engine. It and its collectors belong to the engine's
// loop; the handler and the exporter may be used from any goroutine meanwhile.
type Page struct {
	args    args.Args
	backend Backend
	store   *Store // nil with another backend
	time    RankTime
	limit   int
	nextPID int
	// frontPID is the front end's process.
	frontPID int
	ranks    map[rankID]*rank
	buckets  map[*sglang.Family][]float64
	// front is shared, so that all who ask write the same label sets.
	front *tokenizer
}

// New returns the page of an engine that has just started. It returns an error
// for bucket rules that cannot be understood.
func New(cfg Config) (*Page, error) {
	buckets, err := bucketsOf(&cfg.Args)
	if err != nil {
		return nil, err
	}
	p := &Page{
		args: cfg.Args, backend: cfg.Backend, time: cfg.RankTime, buckets: buckets,
		limit: cmp.Or(cfg.MaxLabelSets, maxLabelSets), nextPID: cmp.Or(cfg.FirstPID, firstPID),
	}
	if p.backend == nil {
		p.store = NewStore()
		p.backend = p.store
	}
	if p.time == nil {
		p.time = jitter(cfg.Args.StepJitter, cfg.Args.Seed)
	}
	p.start()
	return p, nil
}

func (p *Page) start() {
	p.ranks = map[rankID]*rank{}
	p.frontPID = p.takePID()
	p.front = newTokenizer(p)
}

func (p *Page) takePID() int {
	pid := p.nextPID
	p.nextPID++
	return pid
}

// Store is what the page shows, nil with another backend.
func (p *Page) Store() *Store { return p.store }

// Restart empties the page, as the engine's new process does; with another backend
// than a store it only gives new process ids. Collectors made before write to what
// is no longer shown; ask for others.
func (p *Page) Restart() {
	if p.store != nil {
		p.store.Reset()
	}
	p.start()
}

// StopRank ends a scheduler process. Its gauges keep their last values, since
// nobody takes them away. A scheduler that is asked for again at its place is
// another process, beside whose series those with the dead one's pid remain.
func (p *Page) StopRank(dpRank, ppRank, tpRank int) {
	if r := p.ranks[rankID{dpRank, ppRank, tpRank}]; r != nil {
		r.stopped = true
	}
}

// SlowRank makes what a running scheduler process measures of requests longer by a
// factor (a straggler); 1 ends that.
func (p *Page) SlowRank(dpRank, ppRank, tpRank int, factor float64) {
	if r := p.ranks[rankID{dpRank, ppRank, tpRank}]; r != nil {
		r.slow = factor
	}
}

// Scheduler is the book of the schedulers at a place: one for each place, as it
// stands for their processes.
func (p *Page) Scheduler(place ledger.Place) ledger.SchedulerCollector {
	return newScheduler(p, p.ranksOf(&place, true))
}

// Tokenizer is the front end's book.
func (p *Page) Tokenizer() ledger.TokenizerCollector { return p.front }

// Radix is the book of the prefix trees at a place.
func (p *Page) Radix(place ledger.Place) ledger.RadixCollector {
	return newRadix(p.cacheRole(&place, p.radixLabels))
}

// Storage is the book of the storage tier at a place. Ask for it only where there
// is such a tier: the reasons' zeros are shown from then on.
func (p *Page) Storage(place ledger.Place) ledger.StorageCollector {
	return newStorage(p.cacheRole(&place, p.storageLabels))
}

// Experts is the book of the expert dispatch, which is the engine's.
func (p *Page) Experts() ledger.ExpertCollector {
	return newExperts(p.plainRole())
}

// HTTP is the book of the HTTP server in the front end.
func (p *Page) HTTP() ledger.HTTPCollector { return newHTTP(p.plainRole()) }

// HTTPWorker is the book of a further server process; exit takes its part out of
// what is summed over the living, and leaves its counters.
func (p *Page) HTTPWorker() (c ledger.HTTPCollector, exit func()) {
	pid := p.takePID()
	exit = func() {
		if p.store != nil {
			p.store.Exit(pid)
		}
	}
	return newHTTP(&role{p, []emitter{{pid: pid}}}), exit
}

// Process is the book of processes' CPU time.
func (p *Page) Process() ledger.ProcessCollector {
	return processes{p.plainRole().counter(sglang.FamilyProcessCPUSecondsTotal)}
}

// plainRole is the front end's process without labels.
func (p *Page) plainRole() *role { return &role{p, []emitter{{pid: p.frontPID}}} }

func (p *Page) cacheRole(place *ledger.Place, labels func(*rank) []Label) *role {
	r := &role{page: p}
	for _, k := range p.ranksOf(place, false) {
		r.emitters = append(r.emitters, emitter{labels: labels(k), pid: k.pid, rank: k})
	}
	return r
}

func (p *Page) modelName() string {
	return cmp.Or(p.args.ServedModelName, p.args.ModelPath)
}

func (p *Page) engineType() string {
	switch p.args.DisaggregationMode {
	case args.Prefill:
		return sglang.EnginePrefill
	case args.Decode:
		return sglang.EngineDecode
	default:
		return sglang.EngineUnified
	}
}

// extraLabels are those of --extra-metric-labels.
func (p *Page) extraLabels() []Label {
	ls := make([]Label, 0, len(p.args.ExtraMetricLabels))
	for _, name := range slices.Sorted(maps.Keys(p.args.ExtraMetricLabels)) {
		ls = append(ls, Label{name, p.args.ExtraMetricLabels[name]})
	}
	return ls
}

// boundsOf are a family's upper bounds; nil for what has none.
func (p *Page) boundsOf(f *sglang.Family) []float64 {
	if b, ok := p.buckets[f]; ok {
		return b
	}
	return f.Buckets
}
