// Copyright The otelcol-sglang Authors
// SPDX-License-Identifier: Apache-2.0

package page // import "github.com/otelcol-sglang/otelcol-sglang/receiver/sglangreceiver/internal/page"

import (
	"strings"

	"github.com/prometheus/common/model"
	"github.com/prometheus/prometheus/model/labels"

	"github.com/otelcol-sglang/otelcol-sglang/internal/sglang"
)

const (
	labelLE       = "le"
	labelQuantile = "quantile"
)

// part is what a sample line says about its family.
type part uint8

const (
	partValue part = iota
	partBucket
	partSum
	partCount
	partQuantile
	// partCreated is a start time in OpenMetrics; engines in multiprocess mode
	// write none, and other programs' is of the page's process, not of the series.
	partCreated
	// partStray is a sample under a histogram's own name, which has none.
	partStray
)

// target is where samples of one raw name go.
type target struct {
	family *family
	part   part
	// respelled: the raw name was not canonical. It tells apart the two spellings
	// of one histogram on one page.
	respelled bool
}

type family struct {
	Family
	known *sglang.Family
	// dists are the family's unfinished histograms or summaries.
	dists map[uint64]*dist
	order []*dist
}

func (f *family) engine() bool { return strings.HasPrefix(f.Name, sglang.MetricPrefix) }

type builder struct {
	opts     Options
	types    map[string]sglang.MetricType
	helps    map[string]string
	families map[string]*family
	order    []*family
	targets  map[string]target
	// seen gives gauges' and counters' index in their family.
	seen    map[uint64]int
	pids    map[uint64]uint64
	refused map[Reason]int
	samples int
	last    *dist

	labels []Label
	buf    []byte
	arena  []Label
}

func newBuilder(opts Options) *builder {
	return &builder{
		opts:     opts,
		types:    map[string]sglang.MetricType{},
		helps:    map[string]string{},
		families: map[string]*family{},
		targets:  map[string]target{},
		seen:     map[uint64]int{},
		pids:     map[uint64]uint64{},
		refused:  map[Reason]int{},
	}
}

// declare takes a TYPE line; the first one of a name holds.
func (b *builder) declare(raw string, t sglang.MetricType) {
	name := sglang.CanonicalName(raw)
	if _, ok := b.types[name]; !ok {
		b.types[name] = t
	}
}

func (b *builder) describe(raw, help string) {
	name := sglang.CanonicalName(raw)
	if _, ok := b.helps[name]; !ok {
		b.helps[name] = help
	}
}

func (b *builder) sample(lset labels.Labels, v float64) {
	b.samples++
	b.last = nil
	raw := lset.Get(model.MetricNameLabel)
	t, ok := b.targets[raw]
	if !ok {
		t = b.resolve(raw)
		b.targets[strings.Clone(raw)] = t
	}
	switch {
	case t.part == partCreated:
	case t.part == partStray:
		b.refused[RefusedHistogram]++
	case t.family.Kind == Histogram || t.family.Kind == Summary:
		b.distSample(t, lset, v)
	default:
		b.scalar(t.family, lset, v)
	}
}

// typeOf is the type of a canonical name: the page's, else the catalogue's (a
// proxy may have lost the TYPE lines).
func (b *builder) typeOf(name string) (sglang.MetricType, bool) {
	if t := b.types[name]; t != sglang.TypeUntyped {
		return t, true
	}
	if f, ok := sglang.FamilyOf(name); ok {
		return f.Type, true
	}
	t, ok := b.types[name]
	return t, ok
}

// resolve finds the family of a raw sample name and what it says of it.
func (b *builder) resolve(raw string) target {
	name := sglang.CanonicalName(raw)
	respelled := name != raw
	if t, ok := b.typeOf(name); ok {
		p := partValue
		if t == sglang.TypeSummary {
			p = partQuantile
		}
		if t == sglang.TypeHistogram {
			return target{part: partStray}
		}
		return target{b.family(name, name, t), p, respelled}
	}
	if base, p, t, ok := b.split(name); ok {
		of := base
		if p == partValue {
			of = name
		}
		return target{b.family(of, base, t), p, respelled}
	}
	return target{b.family(name, name, sglang.TypeUntyped), partValue, respelled}
}

// split takes a suffix off a sample's name if what is left is a family that has
// such samples. An OpenMetrics counter keeps the suffix: its part is partValue.
func (b *builder) split(name string) (base string, p part, t sglang.MetricType, ok bool) {
	for _, s := range suffixes {
		base, found := strings.CutSuffix(name, s.text)
		if !found {
			continue
		}
		t, known := b.typeOf(base)
		if known && s.types&(1<<t) != 0 {
			return base, s.part, t, true
		}
	}
	return "", 0, 0, false
}

const (
	histogramBit = 1 << sglang.TypeHistogram
	summaryBit   = 1 << sglang.TypeSummary
	counterBit   = 1 << sglang.TypeCounter
)

var suffixes = [...]struct {
	text  string
	part  part
	types int
}{
	{"_bucket", partBucket, histogramBit},
	{"_sum", partSum, histogramBit | summaryBit},
	{"_count", partCount, histogramBit | summaryBit},
	{"_total", partValue, counterBit},
	{"_created", partCreated, histogramBit | summaryBit | counterBit},
}

func (b *builder) family(name, metadataName string, t sglang.MetricType) *family {
	if f, ok := b.families[name]; ok {
		return f
	}
	known, _ := sglang.FamilyOf(name)
	f := &family{
		Family: Family{Name: strings.Clone(name), Help: b.helps[metadataName], Kind: kindOf(t)},
		known:  known,
	}
	b.families[f.Name] = f
	b.order = append(b.order, f)
	return f
}

func kindOf(t sglang.MetricType) Kind {
	switch t {
	case sglang.TypeCounter:
		return Counter
	case sglang.TypeHistogram:
		return Histogram
	case sglang.TypeSummary:
		return Summary
	default:
		return Gauge
	}
}

func (b *builder) finish() *Page {
	p := &Page{Samples: b.samples, Refused: b.refused, OpenEnd: b.last != nil && !b.last.complete()}
	for _, f := range b.order {
		for _, d := range f.order {
			value, r := d.value(f.Kind)
			if value == nil {
				b.refused[r] += d.samples
				continue
			}
			if d.repeats > 0 {
				b.refused[RefusedDuplicate] += d.repeats
			}
			f.Series = append(f.Series, Series{Key: d.key, Labels: d.labels, Dist: value})
		}
		f.dists, f.order = nil, nil
		if len(f.Series) > 0 {
			p.Families = append(p.Families, &f.Family)
		}
	}
	return p
}
