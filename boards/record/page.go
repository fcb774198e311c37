// Copyright The otelcol-sglang Authors
// SPDX-License-Identifier: Apache-2.0

package record // import "github.com/otelcol-sglang/otelcol-sglang/boards/record"

import (
	"context"
	"math"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"go.opentelemetry.io/collector/consumer"
	"go.opentelemetry.io/collector/pdata/pcommon"
	"go.opentelemetry.io/collector/pdata/pmetric"
)

// page is what the Prometheus exporter of the shipped configurations shows: the last
// point of each series that is not older than metric_expiration, under
// UnderscoreEscapingWithoutSuffixes and without scopes. (The exporter itself listens
// on a socket, for which virtual time would not pass.)
type page struct {
	expiry time.Duration

	mu sync.Mutex
	// points by series, and resources by job and instance, are guarded by mu.
	points    map[string]*point
	resources map[string]*point
}

// point is the last one of a series.
type point struct {
	name    string
	labels  []Label
	updated time.Time
	number  float64
	// dist has a value in place of number if isDist.
	dist   pmetric.HistogramDataPoint
	isDist bool
}

func newPage(expiry time.Duration) *page {
	return &page{expiry: expiry, points: map[string]*point{}, resources: map[string]*point{}}
}

// Capabilities implements [consumer.Metrics].
func (*page) Capabilities() consumer.Capabilities { return consumer.Capabilities{} }

// ConsumeMetrics implements [consumer.Metrics].
func (p *page) ConsumeMetrics(_ context.Context, md pmetric.Metrics) error {
	p.mu.Lock()
	defer p.mu.Unlock()
	now := time.Now()
	for _, rm := range md.ResourceMetrics().All() {
		resource := p.resource(rm.Resource().Attributes(), now)
		for _, sm := range rm.ScopeMetrics().All() {
			for _, m := range sm.Metrics().All() {
				p.metric(m, resource, now)
			}
		}
	}
	return nil
}

// resource notes a target_info and returns the labels job and instance.
func (p *page) resource(attrs pcommon.Map, now time.Time) []Label {
	var own, rest []Label
	for k, v := range attrs.All() {
		switch k {
		case "service.name":
			own = append(own, Label{"job", v.AsString()})
		case "service.instance.id":
			own = append(own, Label{"instance", v.AsString()})
		case "service.namespace":
		default:
			rest = append(rest, Label{escape(k), v.AsString()})
		}
	}
	if ns, ok := attrs.Get("service.namespace"); ok {
		for i := range own {
			if own[i].Name == "job" {
				own[i].Value = ns.AsString() + "/" + own[i].Value
			}
		}
	}
	info := &point{name: "target_info", labels: tidy(append(rest, own...)), number: 1, updated: now}
	p.resources[text(tidy(slices.Clone(own)))] = info
	return own
}

func (p *page) metric(m pmetric.Metric, resource []Label, now time.Time) {
	switch m.Type() {
	case pmetric.MetricTypeGauge:
		p.numbers(m, m.Gauge().DataPoints(), resource, now)
	case pmetric.MetricTypeSum:
		p.numbers(m, m.Sum().DataPoints(), resource, now)
	case pmetric.MetricTypeHistogram:
		for _, d := range m.Histogram().DataPoints().All() {
			pt := newPoint(m, d.Attributes(), resource, now)
			if d.Flags().NoRecordedValue() {
				delete(p.points, pt.key())
				return // the exporter reads no further
			}
			pt.dist, pt.isDist = pmetric.NewHistogramDataPoint(), true
			d.CopyTo(pt.dist)
			p.points[pt.key()] = pt
		}
	}
}

func (p *page) numbers(m pmetric.Metric, ds pmetric.NumberDataPointSlice, resource []Label, now time.Time) {
	for _, d := range ds.All() {
		pt := newPoint(m, d.Attributes(), resource, now)
		if d.Flags().NoRecordedValue() {
			delete(p.points, pt.key())
			return // the exporter reads no further
		}
		pt.number = d.DoubleValue()
		if d.ValueType() == pmetric.NumberDataPointValueTypeInt {
			pt.number = float64(d.IntValue())
		}
		p.points[pt.key()] = pt
	}
}

func newPoint(m pmetric.Metric, attrs pcommon.Map, resource []Label, now time.Time) *point {
	labels := slices.Clone(resource)
	for k, v := range attrs.All() {
		labels = append(labels, Label{escape(k), v.AsString()})
	}
	return &point{name: escape(m.Name()), labels: tidy(labels), updated: now}
}

func (p *point) key() string { return p.name + "{" + text(p.labels) }

// escape replaces what the text format does not know: the colon stays.
func escape(name string) string {
	return strings.Map(func(r rune) rune {
		if r >= 'a' && r <= 'z' || r >= 'A' && r <= 'Z' || r >= '0' && r <= '9' || r == ':' || r == '_' {
			return r
		}
		return '_'
	}, name)
}

// scrape is what the page shows.
func (p *page) scrape(add func(sample)) {
	p.mu.Lock()
	defer p.mu.Unlock()
	now := time.Now()
	for _, points := range []map[string]*point{p.points, p.resources} {
		for key, pt := range points {
			if now.Sub(pt.updated) > p.expiry {
				delete(points, key)
				continue
			}
			pt.samples(add)
		}
	}
}

func (p *point) samples(add func(sample)) {
	if !p.isDist {
		add(sample{p.name, p.labels, p.number})
		return
	}
	bounds, counts := p.dist.ExplicitBounds(), p.dist.BucketCounts()
	sum := uint64(0)
	for i := range bounds.Len() {
		sum += counts.At(i)
		add(p.bucket(bounds.At(i), sum))
	}
	add(p.bucket(math.Inf(1), p.dist.Count()))
	add(sample{p.name + "_sum", p.labels, p.dist.Sum()})
	add(sample{p.name + "_count", p.labels, float64(p.dist.Count())})
}

func (p *point) bucket(bound float64, n uint64) sample {
	labels := append(slices.Clone(p.labels), Label{"le", number(bound)})
	return sample{p.name + "_bucket", tidy(labels), float64(n)}
}

// number is a value as OpenMetrics writes it, and so the label le in Prometheus.
func number(v float64) string {
	switch {
	case math.IsInf(v, 1):
		return "+Inf"
	case math.IsInf(v, -1):
		return "-Inf"
	case math.IsNaN(v):
		return "NaN"
	}
	s := strconv.FormatFloat(v, 'g', -1, 64)
	if !strings.ContainsAny(s, "e.") {
		s += ".0"
	}
	return s
}
