// Copyright The otelcol-sglang Authors
// SPDX-License-Identifier: Apache-2.0

// Package page reads an engine's metrics page into plain structs: canonical
// names, whole histograms, one series per identity, nothing that was not measured.
package page // import "github.com/otelcol-sglang/otelcol-sglang/receiver/sglangreceiver/internal/page"

// Kind is what a family's series hold.
type Kind uint8

const (
	// Gauge is also every family whose type neither the page nor the catalogue tells.
	Gauge Kind = iota
	// Counter is monotonic and cumulative.
	Counter
	// Histogram has explicit bounds and is cumulative.
	Histogram
	Summary
)

// Reason says why a sample of a whole page was refused.
type Reason string

const (
	// RefusedSentinel: the engine's value for "not measured".
	RefusedSentinel Reason = "sentinel"
	// RefusedDuplicate: the same series stands earlier on the page.
	RefusedDuplicate Reason = "duplicate"
	// RefusedDeadProcess: without the accidental pid label it is the series of a younger process.
	RefusedDeadProcess Reason = "dead_process"
	// RefusedValue: NaN, infinite or negative where that cannot be.
	RefusedValue Reason = "invalid_value"
	// RefusedHistogram: counts or bounds contradict each other.
	RefusedHistogram Reason = "invalid_histogram"
	// RefusedIncomplete: a histogram or summary without its sum or count.
	RefusedIncomplete Reason = "incomplete"
)

// Label is one label; its value is never empty, as Prometheus takes an empty
// label for a missing one.
type Label struct{ Name, Value string }

// Quantile is one quantile of a summary.
type Quantile struct{ Quantile, Value float64 }

// Dist is the value of a histogram or summary.
type Dist struct {
	Count uint64
	Sum   float64
	// Bounds are the finite upper bounds, ascending; Counts, not cumulative, is one longer.
	Bounds []float64
	Counts []uint64
	// Quantiles of a summary, in the page's order.
	Quantiles []Quantile
}

// Series is one series of a family.
type Series struct {
	// Key identifies name, kind and labels, on this page and on later ones.
	Key uint64
	// Start is the beginning of a cumulative series, in Unix nanoseconds. The
	// page does not tell: it is 0 until a [scrape.Tracker] has seen it.
	Start uint64
	// Labels are sorted by name.
	Labels []Label
	// Value of a gauge or counter.
	Value float64
	// Dist of a histogram or summary.
	Dist *Dist
}

// Cumulative is the number that grows as long as the series lives.
func (s *Series) Cumulative() float64 {
	if s.Dist != nil {
		return float64(s.Dist.Count)
	}
	return s.Value
}

// Family is one metric family.
type Family struct {
	// Name is canonical (`sglang:...`); a counter's ends in `_total` where the page says so.
	Name   string
	Help   string
	Kind   Kind
	Series []Series
}

// Page is one whole page.
type Page struct {
	// Families in the page's order, without those that have no series.
	Families []*Family
	// Samples is the number of sample lines.
	Samples int
	// Refused counts samples that are not in Families.
	Refused map[Reason]int
	// OpenEnd: the last sample belongs to an incomplete histogram or summary, as
	// on a page that was cut at the end of a line.
	OpenEnd bool
}

// SeriesCount is the number of series of all families.
func (p *Page) SeriesCount() int {
	n := 0
	for _, f := range p.Families {
		n += len(f.Series)
	}
	return n
}

// Options of [Parse].
type Options struct {
	// DropSentinels leaves out the engine's values for "not measured": NaN of any
	// gauge of the engine, and -1 where the catalogue knows it.
	DropSentinels bool
}
