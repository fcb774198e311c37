// Copyright The otelcol-sglang Authors
// SPDX-License-Identifier: Apache-2.0

package scrape

import (
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"go.opentelemetry.io/collector/pdata/pmetric"

	"github.com/otelcol-sglang/otelcol-sglang/receiver/sglangreceiver/internal/page"
)

const mixed = "# TYPE g gauge\ng{a=\"1\"} 1\ng{a=\"2\"} 2\n# TYPE c_total counter\nc_total 3\n" +
	"# HELP h Of it\n# TYPE h histogram\nh_bucket{le=\"1\"} 1\nh_bucket{le=\"+Inf\"} 2\nh_sum 3\nh_count 2\n" +
	"# TYPE s summary\ns{quantile=\"0.5\"} 1\ns_sum 9\ns_count 3\n"

func TestAppend(t *testing.T) {
	p, err := page.Parse([]byte(mixed), contentText, page.Options{})
	require.NoError(t, err)
	NewTracker().Observe(p, 7)
	out := pmetric.NewMetricSlice()
	Append(out, p, 8)
	require.Equal(t, 4, out.Len())

	g := out.At(0)
	assert.Equal(t, "g", g.Name())
	assert.Equal(t, 2, g.Gauge().DataPoints().Len())
	assert.Zero(t, g.Gauge().DataPoints().At(0).StartTimestamp())
	assert.Equal(t, map[string]any{"a": "1"}, g.Gauge().DataPoints().At(0).Attributes().AsRaw())

	c := out.At(1)
	assert.True(t, c.Sum().IsMonotonic())
	assert.Equal(t, pmetric.AggregationTemporalityCumulative, c.Sum().AggregationTemporality())
	assert.EqualValues(t, 7, c.Sum().DataPoints().At(0).StartTimestamp())
	assert.EqualValues(t, 8, c.Sum().DataPoints().At(0).Timestamp())
	assert.InDelta(t, 3.0, c.Sum().DataPoints().At(0).DoubleValue(), 0)

	h := out.At(2)
	assert.Equal(t, "Of it", h.Description())
	assert.Empty(t, h.Unit())
	d := h.Histogram().DataPoints().At(0)
	assert.Equal(t, []float64{1}, d.ExplicitBounds().AsRaw())
	assert.Equal(t, []uint64{1, 1}, d.BucketCounts().AsRaw())
	assert.EqualValues(t, 2, d.Count())
	assert.InDelta(t, 3.0, d.Sum(), 0)

	s := out.At(3).Summary().DataPoints().At(0)
	assert.EqualValues(t, 3, s.Count())
	assert.InDelta(t, 0.5, s.QuantileValues().At(0).Quantile(), 0)
}

func TestAppendStale(t *testing.T) {
	p, err := page.Parse([]byte(mixed), contentText, page.Options{})
	require.NoError(t, err)
	live := map[uint64]struct{}{p.Families[0].Series[1].Key: {}}
	out := pmetric.NewMetricSlice()
	assert.Equal(t, 4, AppendStale(out, p, live, 8))
	require.Equal(t, 4, out.Len(), "one metric per point")

	assert.Equal(t, map[string]any{"a": "1"}, out.At(0).Gauge().DataPoints().At(0).Attributes().AsRaw())
	assert.True(t, out.At(0).Gauge().DataPoints().At(0).Flags().NoRecordedValue())
	assert.Equal(t, pmetric.NumberDataPointValueTypeEmpty, out.At(0).Gauge().DataPoints().At(0).ValueType())
	assert.True(t, out.At(1).Sum().DataPoints().At(0).Flags().NoRecordedValue())
	h := out.At(2).Histogram().DataPoints().At(0)
	assert.True(t, h.Flags().NoRecordedValue())
	assert.Equal(t, []float64{1}, h.ExplicitBounds().AsRaw())
	assert.True(t, h.HasSum())
	assert.Equal(t, []uint64{0, 0}, h.BucketCounts().AsRaw())
	assert.True(t, out.At(3).Summary().DataPoints().At(0).Flags().NoRecordedValue())
}
