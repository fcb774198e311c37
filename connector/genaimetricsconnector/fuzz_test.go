// Copyright The otelcol-sglang Authors
// SPDX-License-Identifier: Apache-2.0

package genaimetricsconnector

import (
	"math"
	"testing"
	"time"
	"unicode/utf8"

	"go.opentelemetry.io/collector/pdata/pcommon"
	"go.opentelemetry.io/collector/pdata/pmetric"
	"go.opentelemetry.io/collector/pdata/ptrace"

	"github.com/otelcol-sglang/otelcol-sglang/internal/sglang"
)

// FuzzAttributes: whatever stands on a span, nothing panics, each root is accounted
// for, and no number that leaves is negative or no number, no text invalid.
func FuzzAttributes(f *testing.F) {
	f.Add(sglang.AttrLatencyTTFT, "abort", 0.25, int64(3), uint8(0))
	f.Add(sglang.AttrBudgetPrefix+"queue", "\xff", math.NaN(), int64(-1), uint8(1))
	f.Add(sglang.AttrRanksSkew, "", math.Inf(1), int64(math.MaxInt64), uint8(2))
	f.Add(sglang.AttrRetractions, "x", math.Copysign(0, -1), int64(math.MinInt64), uint8(3))
	f.Add(sglang.AttrLatencyInvalid, ":encoder", 1e300, int64(0), uint8(4))
	f.Add(sglang.AttrRequestModel, "é", 5e-324, int64(0), uint8(5))
	f.Fuzz(func(t *testing.T, key, text string, double float64, integer int64, kind uint8) {
		for _, histogram := range []string{histogramExplicit, histogramExponential} {
			r := newRig(t, nil, func(c *Config) {
				c.Histogram, c.Interval = histogram, 10*time.Minute
				c.Dimensions = []string{"priority"}
			})
			r.send(root(1, func(s ptrace.Span) {
				putAny(s.Attributes(), key, text, double, integer, kind)
				putAny(s.Attributes(), "priority", text, double, integer, kind)
				s.Attributes().PutStr(sglang.AttrErrorType, text)
			}))
			r.c.flush(t.Context())
			for _, md := range r.sink.AllMetrics() {
				checkSane(t, md)
			}
			if key != sglang.AttrThreadLabel && r.total("roots", "") != 1 {
				t.Errorf("%d roots", r.total("roots", ""))
			}
			r.close()
		}
	})
}

func putAny(a pcommon.Map, key, text string, double float64, integer int64, kind uint8) {
	switch kind % 6 {
	case 0:
		a.PutDouble(key, double)
	case 1:
		a.PutInt(key, integer)
	case 2:
		a.PutStr(key, text)
	case 3:
		a.PutEmptyBytes(key).FromRaw([]byte(text))
	case 4:
		a.PutEmptySlice(key).AppendEmpty().SetStr(text)
	case 5:
		a.PutEmptyMap(key).PutDouble(text, double)
	}
}

func checkSane(t *testing.T, md pmetric.Metrics) {
	for _, rm := range md.ResourceMetrics().All() {
		for _, sm := range rm.ScopeMetrics().All() {
			for _, m := range sm.Metrics().All() {
				for _, p := range metricPoints(nil, m) {
					if math.IsNaN(p.sum) || math.IsInf(p.sum, 0) || p.sum < 0 {
						t.Errorf("%s: sum %v", m.Name(), p.sum)
					}
					for k, v := range p.attrs {
						if s, ok := v.(string); ok && !utf8.ValidString(s) {
							t.Errorf("%s: %s is %q", m.Name(), k, s)
						}
					}
				}
			}
		}
	}
}
