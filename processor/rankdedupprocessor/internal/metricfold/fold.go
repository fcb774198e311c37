// Copyright The otelcol-sglang Authors
// SPDX-License-Identifier: Apache-2.0

package metricfold // import "github.com/otelcol-sglang/otelcol-sglang/processor/rankdedupprocessor/internal/metricfold"

import (
	"sync"
	"time"

	"go.opentelemetry.io/collector/pdata/pcommon"
	"go.opentelemetry.io/collector/pdata/pmetric"

	"github.com/otelcol-sglang/otelcol-sglang/processor/rankdedupprocessor/internal/series"
)

// Counts is what one Fold did.
type Counts struct {
	// In and Out are points by rule.
	In, Out [RuleCount]int64
	series.Stats
}

func (c *Counts) add(s *series.Stats) {
	for i, n := range s.Refused {
		c.Refused[i] += n
	}
	c.RankResets += s.RankResets
	c.Restarts += s.Restarts
}

// Folder folds metrics. It is safe for concurrent use.
type Folder struct {
	settings Settings
	store    *series.Store
	scope    string
	pool     sync.Pool
}

// New makes a folder that remembers series in store and names scope as the
// instrumentation scope of what it derives.
func New(s Settings, store *series.Store, scope string) *Folder {
	return &Folder{settings: s, store: store, scope: scope, pool: sync.Pool{New: func() any { return new(pass) }}}
}

// Fold folds the ranks' series of each resource in place.
func (f *Folder) Fold(md pmetric.Metrics, now time.Time) Counts {
	p := f.pool.Get().(*pass)
	defer f.pool.Put(p)
	p.begin(f, now)
	for _, rm := range md.ResourceMetrics().All() {
		p.resource(rm)
	}
	p.end()
	return p.counts
}

// pass is one Fold: its memory is reused.
type pass struct {
	*Folder
	reader
	writer
	counts    Counts
	now       time.Time
	decisions []decision
}

func (p *pass) begin(f *Folder, now time.Time) {
	p.Folder, p.now, p.counts = f, now, Counts{}
	p.keepRankLabels = f.settings.KeepRankLabels
}

func (p *pass) end() {
	p.reset()
	p.decisions = p.decisions[:0]
	p.Folder = nil
}

func (p *pass) resource(rm pmetric.ResourceMetrics) {
	p.reset()
	if !p.decideAll(rm) {
		return
	}
	p.foldResource(rm)
	p.counts.add(&p.batch.Stats)
	p.counts.Refused[series.BadRank] += p.badRank
	p.write(rm, p)
}

// decideAll names the metrics, counts their points, and tells whether any has to
// be looked at.
func (p *pass) decideAll(rm pmetric.ResourceMetrics) bool {
	p.decisions = p.decisions[:0]
	fold := false
	for _, sm := range rm.ScopeMetrics().All() {
		for _, m := range sm.Metrics().All() {
			d := p.settings.decide(m.Name(), typeOf(m))
			if d.name != m.Name() {
				m.SetName(d.name)
			}
			n := int64(pointCount(m))
			if d.fold && !anyRanked(m) {
				d.fold, d.label = false, Pass
			}
			p.counts.In[d.label] += n
			if !d.fold {
				p.counts.Out[d.label] += n
			}
			fold = fold || d.fold
			p.decisions = append(p.decisions, d)
		}
	}
	return fold
}

// foldResource holds the engine from the first point read to the verdicts.
func (p *pass) foldResource(rm pmetric.ResourceMetrics) {
	e := p.store.Acquire(p.identity(rm.Resource().Attributes()), p.now)
	defer e.Release()
	i := 0
	for _, sm := range rm.ScopeMetrics().All() {
		for _, m := range sm.Metrics().All() {
			if d := &p.decisions[i]; d.fold {
				p.read(e, d, m)
			}
			i++
		}
	}
	p.batch.Fold(e)
}

// anyRanked tells whether any point of the metric has a label to fold over.
func anyRanked(m pmetric.Metric) bool {
	switch m.Type() {
	case pmetric.MetricTypeGauge:
		return anyOf(m.Gauge().DataPoints())
	case pmetric.MetricTypeSum:
		return anyOf(m.Sum().DataPoints())
	case pmetric.MetricTypeHistogram:
		return anyOf(m.Histogram().DataPoints())
	case pmetric.MetricTypeExponentialHistogram:
		return anyOf(m.ExponentialHistogram().DataPoints())
	case pmetric.MetricTypeSummary:
		return anyOf(m.Summary().DataPoints())
	default:
		return false
	}
}

type attributed interface{ Attributes() pcommon.Map }

type slice[P attributed] interface {
	Len() int
	At(int) P
}

func anyOf[S slice[P], P attributed](dps S) bool {
	for i := range dps.Len() {
		if ranked(dps.At(i).Attributes()) {
			return true
		}
	}
	return false
}
