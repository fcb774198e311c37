// Copyright The otelcol-sglang Authors
// SPDX-License-Identifier: Apache-2.0

package metricfold // import "github.com/otelcol-sglang/otelcol-sglang/processor/rankdedupprocessor/internal/metricfold"

import (
	"go.opentelemetry.io/collector/pdata/pmetric"

	"github.com/otelcol-sglang/otelcol-sglang/internal/sglang"
	"github.com/otelcol-sglang/otelcol-sglang/processor/rankdedupprocessor/internal/series"
)

// Rule is what a point came under: one of TPReduce, or Pass.
type Rule uint8

const (
	// Pass: not the engine's, or without ranks.
	Pass = Rule(sglang.ReduceKeep) + 1
	// RuleCount is the number of rules.
	RuleCount = Pass + 1
)

func (r Rule) String() string {
	if r == Pass {
		return "pass"
	}
	return sglang.TPReduce(r).String()
}

// Settings of a folder.
type Settings struct {
	// Overrides go before the catalogue, by a family's name.
	Overrides map[string]sglang.TPReduce
	// KeepRankLabels leaves tp_rank and moe_ep_rank on folded series.
	KeepRankLabels bool
	// Skew adds the spread over the ranks.
	Skew bool
}

// decision is what becomes of one metric.
type decision struct {
	// name is the one under which it leaves.
	name  string
	rule  series.Rule
	label Rule
	ranks sglang.RankScope
	// fold: its points have to be looked at.
	fold bool
}

// decide asks the user's overrides, then the catalogue.
func (s *Settings) decide(name string, t sglang.MetricType) decision {
	canonical, f := sglang.Resolve(name, t)
	d := decision{name: name, label: Pass}
	reduce, overridden := s.override(name, canonical)
	switch {
	case f != nil:
		d.name, d.ranks = canonical, f.Ranks
		d.rule = series.Rule{
			Reduce:   f.TPReduce,
			Private:  f.AcrossTP == sglang.TPPrivate,
			MinusOne: f.Sentinel == sglang.SentinelMinusOne,
			Skew:     s.Skew && f.Skew,
		}
	case !overridden:
		return d
	}
	if overridden {
		d.rule.Reduce = reduce
	} else if f.Ranks == sglang.RanksNone {
		return d
	}
	d.label = Rule(d.rule.Reduce)
	d.fold = d.rule.Reduce != sglang.ReduceKeep || d.rule.Skew
	return d
}

func (s *Settings) override(name, canonical string) (sglang.TPReduce, bool) {
	if len(s.Overrides) == 0 {
		return 0, false
	}
	if reduce, ok := s.Overrides[name]; ok {
		return reduce, true
	}
	reduce, ok := s.Overrides[canonical]
	return reduce, ok
}

// typeOf is a metric's type as an engine's page would say it.
func typeOf(m pmetric.Metric) sglang.MetricType {
	switch m.Type() {
	case pmetric.MetricTypeGauge:
		return sglang.TypeGauge
	case pmetric.MetricTypeSum:
		if m.Sum().IsMonotonic() {
			return sglang.TypeCounter
		}
		return sglang.TypeGauge
	case pmetric.MetricTypeHistogram, pmetric.MetricTypeExponentialHistogram:
		return sglang.TypeHistogram
	case pmetric.MetricTypeSummary:
		return sglang.TypeSummary
	default:
		return sglang.TypeUntyped
	}
}

// pointCount is the number of a metric's points.
func pointCount(m pmetric.Metric) int {
	switch m.Type() {
	case pmetric.MetricTypeGauge:
		return m.Gauge().DataPoints().Len()
	case pmetric.MetricTypeSum:
		return m.Sum().DataPoints().Len()
	case pmetric.MetricTypeHistogram:
		return m.Histogram().DataPoints().Len()
	case pmetric.MetricTypeExponentialHistogram:
		return m.ExponentialHistogram().DataPoints().Len()
	case pmetric.MetricTypeSummary:
		return m.Summary().DataPoints().Len()
	default:
		return 0
	}
}
