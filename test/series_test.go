// Copyright The otelcol-sglang Authors
// SPDX-License-Identifier: Apache-2.0

package e2e

import (
	"fmt"
	"maps"
	"slices"
	"strconv"

	dto "github.com/prometheus/client_model/go"

	"github.com/otelcol-sglang/otelcol-sglang/internal/sglang"
)

// key writes labels without those that a folded series of one rank has lost, or
// that say nothing.
func key(labels map[string]string) string {
	kept := maps.Clone(labels)
	maps.DeleteFunc(kept, func(name, value string) bool {
		return value == "" || name == sglang.LabelTPRank || name == sglang.LabelMoEEPRank || name == sglang.LabelPID
	})
	if le, err := strconv.ParseFloat(kept["le"], 64); err == nil {
		kept["le"] = strconv.FormatFloat(le, 'g', -1, 64)
	}
	text := ""
	for _, name := range slices.Sorted(maps.Keys(kept)) {
		text += fmt.Sprintf("%s=%q,", name, kept[name])
	}
	return text
}

// series are a family's series as Prometheus has them.
func series(f *dto.MetricFamily) map[string]float64 {
	out := map[string]float64{}
	put := func(m *dto.Metric, suffix string, v float64, more ...string) {
		labels := labelsOf(m)
		labels["__name__"] = f.GetName() + suffix
		if len(more) == 2 {
			labels[more[0]] = more[1]
		}
		out[key(labels)] = v
	}
	for _, m := range f.GetMetric() {
		h := m.GetHistogram()
		if h == nil {
			put(m, "", m.GetCounter().GetValue()+m.GetGauge().GetValue()+m.GetUntyped().GetValue())
			continue
		}
		put(m, "_sum", h.GetSampleSum())
		put(m, "_count", float64(h.GetSampleCount()))
		for _, b := range h.GetBucket() {
			put(m, "_bucket", float64(b.GetCumulativeCount()), "le", strconv.FormatFloat(b.GetUpperBound(), 'g', -1, 64))
		}
	}
	return out
}
