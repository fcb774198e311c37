// Copyright The otelcol-sglang Authors
// SPDX-License-Identifier: Apache-2.0

package page // import "github.com/otelcol-sglang/otelcol-sglang/engine/page"

import (
	dto "github.com/prometheus/client_model/go"

	"github.com/otelcol-sglang/otelcol-sglang/internal/sglang"
)

var dtoTypes = map[sglang.MetricType]dto.MetricType{
	sglang.TypeGauge:     dto.MetricType_GAUGE,
	sglang.TypeCounter:   dto.MetricType_COUNTER,
	sglang.TypeHistogram: dto.MetricType_HISTOGRAM,
	sglang.TypeSummary:   dto.MetricType_SUMMARY,
}

// Gather gives what the page shows. A scrape is no transaction: numbers may move
// while it reads.
func (s *Store) Gather() []*dto.MetricFamily {
	s.mu.RLock()
	defer s.mu.RUnlock()
	out := make([]*dto.MetricFamily, 0, len(s.order))
	for _, f := range s.order {
		if len(f.order) == 0 {
			continue
		}
		name := f.family.Name
		family := &dto.MetricFamily{
			Name: &name, Type: dtoTypes[f.family.Type].Enum(), Metric: make([]*dto.Metric, len(f.order)),
		}
		for i, series := range f.order {
			family.Metric[i] = series.metric(f.family.Type)
		}
		out = append(out, family)
	}
	return out
}

func (s *storedSeries) metric(t sglang.MetricType) *dto.Metric {
	m := &dto.Metric{Label: s.pairs}
	switch t {
	case sglang.TypeHistogram:
		m.Histogram = s.dist.histogram()
	case sglang.TypeSummary:
		count, sum := s.dist.count(), s.dist.sum.load()
		m.Summary = &dto.Summary{SampleCount: &count, SampleSum: &sum}
	case sglang.TypeCounter:
		v := s.value()
		m.Counter = &dto.Counter{Value: &v}
	default:
		v := s.value()
		m.Gauge = &dto.Gauge{Value: &v}
	}
	return m
}

func (d *dist) count() uint64 {
	n := uint64(0)
	for i := range d.counts {
		n += d.counts[i].Load()
	}
	return n
}

func (d *dist) histogram() *dto.Histogram {
	sum, n := d.sum.load(), uint64(0)
	h := &dto.Histogram{SampleSum: &sum, Bucket: make([]*dto.Bucket, len(d.bounds))}
	for i := range d.bounds {
		n += d.counts[i].Load()
		cumulative := n
		h.Bucket[i] = &dto.Bucket{CumulativeCount: &cumulative, UpperBound: &d.bounds[i]}
	}
	n += d.counts[len(d.bounds)].Load()
	h.SampleCount = &n
	return h
}

func pairsOf(labels []Label) []*dto.LabelPair {
	out := make([]*dto.LabelPair, len(labels))
	for i := range labels {
		out[i] = &dto.LabelPair{Name: &labels[i].Name, Value: &labels[i].Value}
	}
	return out
}
