// Copyright The otelcol-sglang Authors
// SPDX-License-Identifier: Apache-2.0

package series // import "github.com/otelcol-sglang/otelcol-sglang/connector/genaimetricsconnector/internal/series"

import "github.com/otelcol-sglang/otelcol-sglang/internal/sglang"

// Metric is one of the metrics that requests are counted in.
type Metric uint8

// The metrics.
const (
	RequestDuration Metric = iota
	TTFT
	TPOT
	StageDuration
	RanksSkew
	Tokens
	Retractions

	MetricCount
)

// Info is what does not change about a metric.
type Info struct {
	Name, Unit, Description string
	// Bounds are the default upper bounds of a histogram's buckets, nil for a counter.
	Bounds []float64
	// Variant is the attribute that tells the series of one kind of request apart.
	Variant string
}

// Bounds begin as the semantic conventions advise and go on past their end, as
// far as the engine's own.
var infos = [MetricCount]Info{
	RequestDuration: {
		Name: sglang.MetricRequestDuration, Unit: "s", Variant: sglang.AttrErrorType,
		Description: "Time from a request's arrival at the engine to its end.",
		Bounds: []float64{
			0.01, 0.02, 0.04, 0.08, 0.16, 0.32, 0.64, 1.28, 2.56, 5.12, 10.24, 20.48, 40.96, 81.92,
			163.84, 327.68, 655.36, 1310.72, 2621.44,
		},
	},
	TTFT: {
		Name: sglang.MetricTTFT, Unit: "s",
		Description: "Time from a request's arrival at the engine to its first token.",
		Bounds: []float64{
			0.001, 0.005, 0.01, 0.02, 0.04, 0.06, 0.08, 0.1, 0.25, 0.5, 0.75, 1, 2.5, 5, 7.5, 10,
			20, 40, 60, 80, 100, 200, 400,
		},
	},
	TPOT: {
		Name: sglang.MetricTPOT, Unit: "s",
		Description: "Time per output token after the first.",
		Bounds: []float64{
			0.01, 0.025, 0.05, 0.075, 0.1, 0.15, 0.2, 0.3, 0.4, 0.5, 0.75, 1, 2.5,
			5, 10, 20,
		},
	},
	StageDuration: {
		Name: sglang.MetricStageDuration, Unit: "s", Variant: sglang.AttrStage,
		Description: "Time that a request spent in a stage; the stages of a request add up to its duration.",
		Bounds: []float64{
			0.0001, 0.00025, 0.0005, 0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10,
			20, 40, 60, 80, 100, 200, 400, 800,
		},
	},
	RanksSkew: {
		Name: sglang.MetricSpanRanksSkew, Unit: "s",
		Description: "Largest difference, in one request, between the ends of one stage on the tensor-parallel ranks.",
		Bounds: []float64{
			0.0001, 0.0002, 0.0005, 0.001, 0.002, 0.005, 0.01, 0.02, 0.05, 0.1, 0.2, 0.5, 1, 2, 5, 10, 30, 60,
		},
	},
	Tokens: {
		Name: sglang.MetricTokens, Unit: "{token}", Variant: sglang.AttrTokenType,
		Description: "Tokens of finished requests; cached ones are part of the input.",
	},
	Retractions: {
		Name: sglang.MetricRetractions, Unit: "{retraction}",
		Description: "Times that running requests were sent back to the queue for want of memory.",
	},
}

// Info returns what does not change about the metric.
func (m Metric) Info() Info {
	if m >= MetricCount {
		return Info{}
	}
	return infos[m]
}

// String is the metric's name.
func (m Metric) String() string { return m.Info().Name }

// IsHistogram tells histograms from counters.
func (m Metric) IsHistogram() bool { return m.Info().Bounds != nil }

// HistogramOf returns the histogram with the name.
func HistogramOf(name string) (Metric, bool) {
	for m := range MetricCount {
		if infos[m].Name == name && m.IsHistogram() {
			return m, true
		}
	}
	return 0, false
}
