// Copyright The otelcol-sglang Authors
// SPDX-License-Identifier: Apache-2.0

package record // import "github.com/otelcol-sglang/otelcol-sglang/boards/record"

import (
	"context"
	"maps"
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
	// points by series, and the resources of each job and instance, are guarded by mu.
	points    map[string]*point
	resources map[string]map[string]*point
}

// point is the last one of a series.
type point struct {
	name    string
	labels  []Label
	updated time.Time
	// samples adds what the page shows of it.
	samples func(p *point, add func(sample))
}

func newPage(expiry time.Duration) *page {
	return &page{expiry: expiry, points: map[string]*point{}, resources: map[string]map[string]*point{}}
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
	id := text(tidy(slices.Clone(own)))
	if p.resources[id] == nil {
		p.resources[id] = map[string]*point{}
	}
	info := &point{name: "target_info", labels: tidy(append(rest, own...)), samples: plain(1), updated: now}
	p.resources[id][text(info.labels)] = info
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
			pt.samples = histogram(d)
			if !p.note(pt, d.Flags()) {
				return
			}
		}
	case pmetric.MetricTypeSummary:
		for _, d := range m.Summary().DataPoints().All() {
			pt := newPoint(m, d.Attributes(), resource, now)
			pt.samples = summary(d)
			if !p.note(pt, d.Flags()) {
				return
			}
		}
	}
}

func (p *page) numbers(m pmetric.Metric, ds pmetric.NumberDataPointSlice, resource []Label, now time.Time) {
	for _, d := range ds.All() {
		v := d.DoubleValue()
		if d.ValueType() == pmetric.NumberDataPointValueTypeInt {
			v = float64(d.IntValue())
		}
		pt := newPoint(m, d.Attributes(), resource, now)
		pt.samples = plain(v)
		if !p.note(pt, d.Flags()) {
			return
		}
	}
}

// note keeps a point. It is false where a point without a value ends its series: the
// exporter reads no further points of that metric.
func (p *page) note(pt *point, flags pmetric.DataPointFlags) bool {
	if flags.NoRecordedValue() {
		delete(p.points, pt.key())
		return false
	}
	p.points[pt.key()] = pt
	return true
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
	expired := func(_ string, pt *point) bool { return now.Sub(pt.updated) > p.expiry }
	maps.DeleteFunc(p.points, expired)
	for _, pt := range p.points {
		pt.samples(pt, add)
	}
	for _, infos := range p.resources {
		maps.DeleteFunc(infos, expired)
		for _, info := range infos {
			info.samples(info, add)
			break // of several with one name the exporter shows any
		}
	}
}

func plain(v float64) func(*point, func(sample)) {
	return func(p *point, add func(sample)) { add(sample{p.name, p.labels, v}) }
}

func histogram(from pmetric.HistogramDataPoint) func(*point, func(sample)) {
	d := pmetric.NewHistogramDataPoint()
	from.CopyTo(d)
	return func(p *point, add func(sample)) {
		sum := uint64(0)
		for i := range d.ExplicitBounds().Len() {
			sum += d.BucketCounts().At(i)
			add(p.bucket(d.ExplicitBounds().At(i), sum))
		}
		add(p.bucket(math.Inf(1), d.Count()))
		p.total(d.Sum(), d.Count(), add)
	}
}

func summary(from pmetric.SummaryDataPoint) func(*point, func(sample)) {
	d := pmetric.NewSummaryDataPoint()
	from.CopyTo(d)
	return func(p *point, add func(sample)) {
		for _, q := range d.QuantileValues().All() {
			add(sample{p.name, p.with("quantile", q.Quantile()), q.Value()})
		}
		p.total(d.Sum(), d.Count(), add)
	}
}

func (p *point) total(sum float64, count uint64, add func(sample)) {
	add(sample{p.name + "_sum", p.labels, sum})
	add(sample{p.name + "_count", p.labels, float64(count)})
}

func (p *point) bucket(bound float64, n uint64) sample {
	return sample{p.name + "_bucket", p.with("le", bound), float64(n)}
}

// with are the labels and one more, whose value is a number.
func (p *point) with(name string, v float64) []Label {
	return tidy(append(slices.Clone(p.labels), Label{name, number(v)}))
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
