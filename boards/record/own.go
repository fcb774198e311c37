// Copyright The otelcol-sglang Authors
// SPDX-License-Identifier: Apache-2.0

package record // import "github.com/otelcol-sglang/otelcol-sglang/boards/record"

import (
	"context"
	"math"
	"slices"
	"strconv"
	"strings"

	"go.opentelemetry.io/otel/attribute"
	sdkmetric "go.opentelemetry.io/otel/sdk/metric"
	"go.opentelemetry.io/otel/sdk/metric/metricdata"
)

// own is the collector's own telemetry, as its page on :8888 shows it with
// without_scope_info, without_type_suffix and without_units: in the plain text format,
// which writes bounds without ".0".
type own struct {
	reader *sdkmetric.ManualReader
	// target are the labels that Prometheus adds.
	target []Label
}

const ownPrefix = "otelcol_"

func (o *own) scrape(add func(sample)) error {
	var rm metricdata.ResourceMetrics
	if err := o.reader.Collect(context.Background(), &rm); err != nil {
		return err
	}
	for _, sm := range rm.ScopeMetrics {
		for _, m := range sm.Metrics {
			if !strings.HasPrefix(m.Name, ownPrefix) {
				continue // of libraries; the Collector shows them at a higher level only
			}
			o.metric(escape(m.Name), m.Data, add)
		}
	}
	return nil
}

func (o *own) metric(name string, data metricdata.Aggregation, add func(sample)) {
	switch d := data.(type) {
	case metricdata.Sum[int64]:
		numbers(o, name, d.DataPoints, add)
	case metricdata.Sum[float64]:
		numbers(o, name, d.DataPoints, add)
	case metricdata.Gauge[int64]:
		numbers(o, name, d.DataPoints, add)
	case metricdata.Gauge[float64]:
		numbers(o, name, d.DataPoints, add)
	case metricdata.Histogram[int64]:
		dists(o, name, d.DataPoints, add)
	case metricdata.Histogram[float64]:
		dists(o, name, d.DataPoints, add)
	}
}

func numbers[N int64 | float64](o *own, name string, points []metricdata.DataPoint[N], add func(sample)) {
	for _, p := range points {
		add(sample{name, o.labels(p.Attributes), float64(p.Value)})
	}
}

// dists are histograms; the last bound is +Inf.
func dists[N int64 | float64](o *own, name string, points []metricdata.HistogramDataPoint[N], add func(sample)) {
	for _, p := range points {
		sum := uint64(0)
		for i, n := range p.BucketCounts {
			bound := math.Inf(1)
			if i < len(p.Bounds) {
				bound = p.Bounds[i]
			}
			sum += n
			labels := tidy(append(o.labels(p.Attributes), Label{"le", strconv.FormatFloat(bound, 'g', -1, 64)}))
			add(sample{name + "_bucket", labels, float64(sum)})
		}
		add(sample{name + "_sum", o.labels(p.Attributes), float64(p.Sum)})
		add(sample{name + "_count", o.labels(p.Attributes), float64(p.Count)})
	}
}

func (o *own) labels(set attribute.Set) []Label {
	labels := slices.Clone(o.target)
	for _, kv := range set.ToSlice() {
		labels = append(labels, Label{escape(string(kv.Key)), kv.Value.String()})
	}
	return tidy(labels)
}
