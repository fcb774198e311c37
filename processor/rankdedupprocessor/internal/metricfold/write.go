// Copyright The otelcol-sglang Authors
// SPDX-License-Identifier: Apache-2.0

package metricfold // import "github.com/otelcol-sglang/otelcol-sglang/processor/rankdedupprocessor/internal/metricfold"

import (
	"math"

	"go.opentelemetry.io/collector/pdata/pcommon"
	"go.opentelemetry.io/collector/pdata/pmetric"

	"github.com/otelcol-sglang/otelcol-sglang/internal/sglang"
	"github.com/otelcol-sglang/otelcol-sglang/processor/rankdedupprocessor/internal/series"
)

// writer visits the points again, in the order they were read, and carries the
// verdicts out.
type writer struct {
	keepRankLabels bool
	// next is the slot of the next point.
	next int
	skew skewMetrics
}

// write leaves no metric and no scope without points that had some.
func (w *writer) write(rm pmetric.ResourceMetrics, p *pass) {
	w.next, w.skew = 0, newSkewMetrics(p.batch.Spreads)
	i := 0
	rm.ScopeMetrics().RemoveIf(func(sm pmetric.ScopeMetrics) bool {
		before := sm.Metrics().Len()
		sm.Metrics().RemoveIf(func(m pmetric.Metric) bool {
			d := &p.decisions[i]
			i++
			return d.fold && w.metric(m, d, p) == 0
		})
		return before > 0 && sm.Metrics().Len() == 0
	})
	w.skew.appendTo(rm, p.scope)
	w.skew = skewMetrics{}
}

// metric gives the number of points that are left.
func (w *writer) metric(m pmetric.Metric, d *decision, p *pass) int {
	w.skew.family = d.name
	switch m.Type() {
	case pmetric.MetricTypeGauge:
		m.Gauge().DataPoints().RemoveIf(func(dp pmetric.NumberDataPoint) bool { return w.number(dp, p) })
	case pmetric.MetricTypeSum:
		m.Sum().DataPoints().RemoveIf(func(dp pmetric.NumberDataPoint) bool { return w.number(dp, p) })
	case pmetric.MetricTypeHistogram:
		m.Histogram().DataPoints().RemoveIf(func(dp pmetric.HistogramDataPoint) bool { return w.histogram(dp, p) })
	case pmetric.MetricTypeExponentialHistogram:
		m.ExponentialHistogram().DataPoints().RemoveIf(func(dp pmetric.ExponentialHistogramDataPoint) bool { return visit(w, dp, p) == nil })
	case pmetric.MetricTypeSummary:
		m.Summary().DataPoints().RemoveIf(func(dp pmetric.SummaryDataPoint) bool { return visit(w, dp, p) == nil })
	}
	n := pointCount(m)
	p.counts.Out[d.label] += int64(n)
	return n
}

// settable is what every point has.
type settable interface {
	attributed
	SetStartTimestamp(pcommon.Timestamp)
	Timestamp() pcommon.Timestamp
}

// passed stands for a point that the batch didn't see.
var passed = &series.Point{Verdict: series.Pass}

// visit carries out what all kinds have in common; nil drops the point.
func visit[P settable](w *writer, dp P, p *pass) *series.Point {
	slot := p.slots[w.next]
	w.next++
	if slot == notAdded {
		return passed
	}
	pt := &p.batch.Points[slot]
	w.skew.at(slot, dp.Attributes(), dp.Timestamp())
	switch pt.Verdict {
	case series.Drop:
		return nil
	case series.Emit:
		w.strip(dp.Attributes())
		if pt.OutStart != 0 {
			dp.SetStartTimestamp(pcommon.Timestamp(pt.OutStart))
		}
	}
	return pt
}

// strip takes the labels away that the series was folded over. A pid is no rank:
// it goes in any case.
func (w *writer) strip(attrs pcommon.Map) {
	if w.keepRankLabels {
		attrs.Remove(sglang.LabelPID)
		return
	}
	attrs.RemoveIf(isRankLabel)
}

func isRankLabel(key string, _ pcommon.Value) bool {
	return key == sglang.LabelTPRank || key == sglang.LabelMoEEPRank || key == sglang.LabelPID
}

func (w *writer) number(dp pmetric.NumberDataPoint, p *pass) (remove bool) {
	pt := visit(w, dp, p)
	if pt == nil {
		return true
	}
	if pt.Rewrite {
		setNumber(dp, pt.Value.Sum)
	}
	return false
}

// maxExactInt is the largest integer up to which a float64 has them all.
const maxExactInt = 1 << 53

func setNumber(dp pmetric.NumberDataPoint, v float64) {
	if dp.ValueType() == pmetric.NumberDataPointValueTypeInt && v == math.Trunc(v) && math.Abs(v) <= maxExactInt {
		dp.SetIntValue(int64(v))
		return
	}
	dp.SetDoubleValue(v)
}

func (w *writer) histogram(dp pmetric.HistogramDataPoint, p *pass) (remove bool) {
	pt := visit(w, dp, p)
	if pt == nil {
		return true
	}
	if pt.Rewrite {
		setHistogram(dp, &pt.Value)
	}
	return false
}

// setHistogram leaves out smallest and largest observation: they are one rank's.
func setHistogram(dp pmetric.HistogramDataPoint, v *series.Value) {
	dp.SetCount(uint64(v.Count))
	dp.SetSum(v.Sum)
	dp.RemoveMin()
	dp.RemoveMax()
	for i, b := range v.Buckets {
		dp.BucketCounts().SetAt(i, uint64(b))
	}
}
