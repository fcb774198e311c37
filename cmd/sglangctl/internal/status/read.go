// Copyright The otelcol-sglang Authors
// SPDX-License-Identifier: Apache-2.0

package status // import "github.com/otelcol-sglang/otelcol-sglang/cmd/sglangctl/internal/status"

import dto "github.com/prometheus/client_model/go"

// Sum adds up a metric's series that have all the given labels, as pairs of name
// and value. Names are without "otelcol_" and the type's suffix. It is unknown
// without such a series: a counter has none before its first event.
func (p Page) Sum(name string, labels ...string) (sum float64, known bool) {
	for _, m := range p.series(name) {
		if has(m, labels) {
			sum += value(m)
			known = true
		}
	}
	return sum, known
}

// SumBy is Sum, split by a label.
func (p Page) SumBy(name, key string, labels ...string) map[string]float64 {
	out := map[string]float64{}
	for _, m := range p.series(name) {
		if has(m, labels) {
			out[label(m, key)] += value(m)
		}
	}
	return out
}

func has(m *dto.Metric, labels []string) bool {
	for i := 0; i+1 < len(labels); i += 2 {
		if label(m, labels[i]) != labels[i+1] {
			return false
		}
	}
	return true
}

// Families are the page's families by name.
func (p Page) Families() map[string]*dto.MetricFamily { return p.families }
