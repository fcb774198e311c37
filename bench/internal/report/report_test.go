// Copyright The otelcol-sglang Authors
// SPDX-License-Identifier: Apache-2.0

package report

import (
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

func pipeline(name string, cpu ...time.Duration) Pipeline {
	p := Pipeline{Name: name}
	for i, d := range cpu {
		p.Runs = append(p.Runs, Run{SpansIn: 2000, SpansOut: 9, BytesOut: 1_500_000, CPU: d, Peak: int64(i+1) << 20, Behind: time.Second})
	}
	return p
}

func TestMedian(t *testing.T) {
	for _, tt := range []struct {
		v    []float64
		want float64
	}{
		{[]float64{3}, 3},
		{[]float64{4, 2}, 3},
		{[]float64{9, 1, 5}, 5},
		{[]float64{8, 1, 4, 2}, 3},
	} {
		given := append([]float64(nil), tt.v...)
		assert.InDelta(t, tt.want, Median(tt.v), 0, "%v", tt.v)
		assert.Equal(t, given, tt.v, "the argument is left as it is")
	}
}

func TestTable(t *testing.T) {
	got := Table([]Pipeline{pipeline("x", 4*time.Second, 2*time.Second, 3*time.Second)})
	assert.Equal(t, `| Pipeline | Spans in | Spans out | MB out | CPU s (lowest to highest) | CPU ms per 1 000 spans in | Peak memory MiB | Behind s |
|---|---:|---:|---:|---:|---:|---:|---:|
| x | 2000 | 9 | 1.5 | 3.00 (2.00 to 4.00) | 1500.00 | 2 | 1.0 |
`, got)
}

// TestRatios: of each round first, then the median, which is not that of the medians.
func TestRatios(t *testing.T) {
	a := pipeline("a", 1*time.Second, 2*time.Second, 6*time.Second)
	b := pipeline("b", 2*time.Second, 8*time.Second, 4*time.Second)
	assert.Equal(t, `| CPU time | Median | Lowest | Highest | Goal at most | Rounds |
|---|---:|---:|---:|---:|---:|
| a / b | 0.50 | 0.25 | 1.50 | 1.00 | 3 |
`, Ratios([]Ratio{{Name: "a / b", Of: a, To: b, AtMost: 1}}))
}

func TestSum(t *testing.T) {
	const page = "# HELP x_count y\nx_count 1\nx_count{a=\"}\"} 2\nx_counter 100\nx_count_more{} 100\nx_count{b=\"1\"} nonsense\nx_count"
	assert.InDelta(t, 3, Sum(page, "x_count"), 0)
	assert.Zero(t, Sum(page, "y"))
}

func TestInto(t *testing.T) {
	begin, end := marks("program")
	got, err := Into("head\n"+begin+"old\n"+end+"tail\n", "program", "text\n")
	require.NoError(t, err)
	assert.Equal(t, "head\n"+begin+"text\n"+end+"tail\n", got)
	for _, doc := range []string{"", begin, end, end + begin} {
		_, err := Into(doc, "program", "text")
		assert.Error(t, err, "%q", doc)
	}
}
