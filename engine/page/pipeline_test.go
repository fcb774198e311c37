// Copyright The otelcol-sglang Authors
// SPDX-License-Identifier: Apache-2.0

package page

import (
	"context"
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"go.opentelemetry.io/collector/component/componenttest"
	"go.opentelemetry.io/collector/confmap"
	"go.opentelemetry.io/collector/consumer/consumertest"
	"go.opentelemetry.io/collector/pdata/pcommon"
	"go.opentelemetry.io/collector/pdata/pmetric"
	"go.opentelemetry.io/collector/processor/processortest"
	"go.opentelemetry.io/collector/receiver/receivertest"

	"github.com/otelcol-sglang/otelcol-sglang/processor/rankdedupprocessor"
	"github.com/otelcol-sglang/otelcol-sglang/receiver/sglangreceiver"
)

// What leaves the collector is the same for a simulated page and for the recorded one.
func TestThroughTheCollector(t *testing.T) {
	for _, s := range scenarios {
		if s.before != nil {
			continue
		}
		t.Run(s.name, func(t *testing.T) {
			a := testArgs()
			s.args(&a)
			e := newEngine(t, a)
			e.lora = s.lora
			e.started()
			s.work(e)
			recorded, err := os.ReadFile(filepath.Join(capturesDir, "metrics-"+s.name+"."+s.end+".prom"))
			require.NoError(t, err)
			want := throughCollector(t, http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
				w.Header().Set("Content-Type", contentTypeText)
				_, _ = w.Write(recorded)
			}))
			got := throughCollector(t, e.page.Handler())
			require.Greater(t, len(want), 60)
			assert.Empty(t, onlyIn(got, want))
			lost := onlyIn(want, got)
			// As in the table of differences from the recorded pages.
			lost = slices.DeleteFunc(lost, func(series string) bool {
				return a.EnableHierarchicalCache && strings.HasPrefix(series, "sglang:cached_tokens_total[cache_source=total ")
			})
			assert.Empty(t, lost)
		})
	}
}

// onlyIn are the series that a has and b has not, or with another type.
func onlyIn(a, b map[string]string) []string {
	var out []string
	for series, metricType := range a {
		if b[series] != metricType {
			out = append(out, series+" "+metricType)
		}
	}
	return out
}

// throughCollector scrapes a page once, folds its ranks, and gives the type of each
// series that leaves by its name and attributes.
func throughCollector(t *testing.T, page http.Handler) map[string]string {
	srv := httptest.NewServer(page)
	defer srv.Close()
	sink := new(consumertest.MetricsSink)
	dedup := rankdedupprocessor.NewFactory()
	p, err := dedup.CreateMetrics(t.Context(), processortest.NewNopSettings(dedup.Type()), dedup.CreateDefaultConfig(), sink)
	require.NoError(t, err)
	receiver := sglangreceiver.NewFactory()
	cfg := receiver.CreateDefaultConfig()
	require.NoError(t, confmap.NewFromStringMap(map[string]any{
		"protocols": map[string]any{}, "server_info_interval": 0, "collection_interval": time.Hour,
		"engines": []any{map[string]any{"endpoint": srv.URL}},
	}).Unmarshal(cfg))
	r, err := receiver.CreateMetrics(t.Context(), receivertest.NewNopSettings(receiver.Type()), cfg, p)
	require.NoError(t, err)
	host := componenttest.NewNopHost()
	require.NoError(t, p.Start(context.Background(), host))
	require.NoError(t, r.Start(context.Background(), host))
	require.Eventually(t, func() bool { return sink.DataPointCount() > 0 }, 10*time.Second, time.Millisecond)
	require.NoError(t, r.Shutdown(context.Background()))
	require.NoError(t, p.Shutdown(context.Background()))
	return seriesOf(sink.AllMetrics())
}

func seriesOf(all []pmetric.Metrics) map[string]string {
	out := map[string]string{}
	for _, md := range all {
		for _, rm := range md.ResourceMetrics().All() {
			for _, sm := range rm.ScopeMetrics().All() {
				for _, m := range sm.Metrics().All() {
					for _, attrs := range attributesOf(m) {
						out[m.Name()+fmt.Sprint(attrs)] = m.Type().String()
					}
				}
			}
		}
	}
	return out
}

func attributesOf(m pmetric.Metric) (out [][]string) {
	note := func(attrs pcommon.Map) {
		var ls []string
		for k, v := range attrs.All() {
			ls = append(ls, k+"="+v.AsString())
		}
		slices.Sort(ls)
		out = append(out, ls)
	}
	switch m.Type() {
	case pmetric.MetricTypeGauge:
		for _, d := range m.Gauge().DataPoints().All() {
			note(d.Attributes())
		}
	case pmetric.MetricTypeSum:
		for _, d := range m.Sum().DataPoints().All() {
			note(d.Attributes())
		}
	case pmetric.MetricTypeHistogram:
		for _, d := range m.Histogram().DataPoints().All() {
			note(d.Attributes())
		}
	}
	return out
}
