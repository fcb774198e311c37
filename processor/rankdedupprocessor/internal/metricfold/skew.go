// Copyright The otelcol-sglang Authors
// SPDX-License-Identifier: Apache-2.0

package metricfold // import "github.com/otelcol-sglang/otelcol-sglang/processor/rankdedupprocessor/internal/metricfold"

import (
	"cmp"
	"slices"

	"go.opentelemetry.io/collector/pdata/pcommon"
	"go.opentelemetry.io/collector/pdata/pmetric"

	"github.com/otelcol-sglang/otelcol-sglang/internal/sglang"
	"github.com/otelcol-sglang/otelcol-sglang/processor/rankdedupprocessor/internal/series"
)

// skewMetrics collects the spreads as points with the labels of their series.
type skewMetrics struct {
	// spreads are those not met yet, in the order of their points.
	spreads []series.Spread
	family  string
	// width and rank are made at the first spread.
	made        bool
	width, rank pmetric.Metric
}

// at makes a spread's points while the series' point is at hand.
func (s *skewMetrics) at(slot int, attrs pcommon.Map, ts pcommon.Timestamp) {
	if len(s.spreads) == 0 || s.spreads[0].Point != slot {
		return
	}
	s.make()
	s.point(s.width, attrs, ts).SetDoubleValue(s.spreads[0].Width)
	s.point(s.rank, attrs, ts).SetIntValue(s.spreads[0].TPRank)
	s.spreads = s.spreads[1:]
}

func newSkewMetrics(spreads []series.Spread) skewMetrics {
	slices.SortFunc(spreads, func(x, y series.Spread) int { return cmp.Compare(x.Point, y.Point) })
	return skewMetrics{spreads: spreads}
}

func (s *skewMetrics) make() {
	if s.made {
		return
	}
	s.made, s.width, s.rank = true, pmetric.NewMetric(), pmetric.NewMetric()
	s.width.SetName(sglang.MetricSeriesSkew)
	s.width.SetDescription("Largest value over the tensor-parallel ranks less the smallest, in the family's unit.")
	s.width.SetEmptyGauge()
	s.rank.SetName(sglang.MetricSeriesSkewRank)
	s.rank.SetDescription("The tensor-parallel rank with the largest value.")
	s.rank.SetEmptyGauge()
}

func (s *skewMetrics) point(m pmetric.Metric, attrs pcommon.Map, ts pcommon.Timestamp) pmetric.NumberDataPoint {
	dp := m.Gauge().DataPoints().AppendEmpty()
	attrs.CopyTo(dp.Attributes())
	dp.Attributes().RemoveIf(isRankLabel)
	dp.Attributes().PutStr(sglang.LabelFamily, s.family)
	dp.SetTimestamp(ts)
	return dp
}

func (s *skewMetrics) appendTo(rm pmetric.ResourceMetrics, scope string) {
	if !s.made {
		return
	}
	sm := rm.ScopeMetrics().AppendEmpty()
	sm.Scope().SetName(scope)
	s.width.MoveTo(sm.Metrics().AppendEmpty())
	s.rank.MoveTo(sm.Metrics().AppendEmpty())
}
