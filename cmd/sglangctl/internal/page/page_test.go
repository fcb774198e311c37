// Copyright The otelcol-sglang Authors
// SPDX-License-Identifier: Apache-2.0

package page

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"math"
	"net/http"
	"net/http/httptest"
	"testing"
	"time"

	dto "github.com/prometheus/client_model/go"
	"github.com/prometheus/common/expfmt"
	"github.com/prometheus/common/model"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"
)

const testPages = "../../../../testdata/captures/metrics"

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

func TestRecordedStepsAreTheRecording(t *testing.T) {
	names, err := Names(testPages)
	require.NoError(t, err)
	require.Contains(t, names, "metrics-tp4-all-schedulers")
	for _, name := range names {
		p, err := Load(testPages, name)
		require.NoError(t, err)
		for step, raw := range p.raw {
			assert.Equal(t, raw, p.At(step), "%s, step %d", name, step)
		}
		assert.Equal(t, p.raw[0], p.At(-1))
	}
}

// render writes every line anew, as the steps after the recording are written.
func TestTemplateWritesTheLastScrape(t *testing.T) {
	names, err := Names(testPages)
	require.NoError(t, err)
	for _, name := range names {
		p, err := Load(testPages, name)
		require.NoError(t, err)
		var b bytes.Buffer
		for _, l := range p.lines {
			b.WriteString(l.key)
			if l.sample {
				b.WriteString(" " + formatFloat(l.at(0, false)))
			}
			b.WriteByte('\n')
		}
		assert.Equal(t, string(p.raw[2]), b.String(), name)
	}
}

func parse(t *testing.T, raw []byte) map[string]*dto.MetricFamily {
	parser := expfmt.NewTextParser(model.UTF8Validation)
	families, err := parser.TextToMetricFamilies(bytes.NewReader(raw))
	require.NoError(t, err)
	return families
}

// values are the parts of a page that must never fall, by series.
func values(t *testing.T, raw []byte) map[string]float64 {
	out := map[string]float64{}
	for name, f := range parse(t, raw) {
		for _, m := range f.GetMetric() {
			key := fmt.Sprint(name, m.GetLabel())
			switch {
			case m.GetCounter() != nil:
				out[key] = m.GetCounter().GetValue()
			case m.GetHistogram() != nil:
				h := m.GetHistogram()
				out[key+"count"], out[key+"sum"] = float64(h.GetSampleCount()), h.GetSampleSum()
				for _, b := range h.GetBucket() {
					out[fmt.Sprint(key, b.GetUpperBound())] = float64(b.GetCumulativeCount())
				}
			}
		}
	}
	return out
}

func TestPageGrows(t *testing.T) {
	p, err := Load(testPages, "metrics-tp4-all-schedulers")
	require.NoError(t, err)
	before, grew := values(t, p.At(2)), map[string]bool{}
	for step := 3; step < 11; step++ {
		after := values(t, p.At(step))
		require.Len(t, after, len(before), "no series comes or goes")
		for key, v := range after {
			require.GreaterOrEqual(t, v, before[key], "%s at step %d", key, step)
			grew[key] = grew[key] || v > before[key]
		}
		before = after
	}
	idle := values(t, p.At(0))
	for key, has := range grew {
		if before[key] > 0 && !has && idle[key] != before[key] {
			t.Errorf("%s stands still", key)
		}
	}
}

func TestHistogramsAgreeWithThemselves(t *testing.T) {
	p, err := Load(testPages, "metrics-priority")
	require.NoError(t, err)
	for step := range 9 {
		for name, f := range parse(t, p.At(step)) {
			for _, m := range f.GetMetric() {
				checkHistogram(t, name, m.GetHistogram())
			}
		}
	}
}

func checkHistogram(t *testing.T, name string, h *dto.Histogram) {
	last := uint64(0)
	for _, b := range h.GetBucket() {
		require.GreaterOrEqual(t, b.GetCumulativeCount(), last, name)
		last = b.GetCumulativeCount()
	}
	if h != nil {
		require.Equal(t, h.GetSampleCount(), last, "%s: the bucket +Inf is the count", name)
	}
}

func TestGaugesTakeTheRecordedValues(t *testing.T) {
	p, err := Load(testPages, "metrics-tp4-all-schedulers")
	require.NoError(t, err)
	const running = `sglang:num_running_reqs`
	of := func(step int) float64 { return parse(t, p.At(step))[running].GetMetric()[0].GetGauge().GetValue() }
	assert.InDelta(t, 4, of(3), 0)
	assert.InDelta(t, 0, of(4), 0)
	assert.InDelta(t, 4, of(5), 0)
}

func TestFormatFloat(t *testing.T) {
	for v, want := range map[float64]string{
		0: "0.0", 1: "1.0", -3: "-3.0", 0.25: "0.25", 131072: "131072.0", 2.01326592e+08: "2.01326592e+08",
		math.Inf(1): "+Inf", 1e-5: "1e-05",
	} {
		assert.Equal(t, want, formatFloat(v))
	}
	assert.Equal(t, "NaN", formatFloat(math.NaN()))
}

func TestHandler(t *testing.T) {
	p, err := Load(testPages, "metrics-dp2")
	require.NoError(t, err)
	server := httptest.NewServer(p.Handler(time.Hour))
	defer server.Close()
	get := func(path string) (string, []byte) {
		resp, err := server.Client().Get(server.URL + path)
		require.NoError(t, err)
		defer resp.Body.Close()
		require.Equal(t, http.StatusOK, resp.StatusCode)
		body, err := io.ReadAll(resp.Body)
		require.NoError(t, err)
		return resp.Header.Get("Content-Type"), body
	}
	kind, body := get("/metrics")
	assert.Equal(t, contentType, kind)
	assert.Equal(t, p.raw[0], body)
	for _, path := range []string{"/server_info", "/get_server_info"} {
		_, body = get(path)
		var info map[string]any
		require.NoError(t, json.Unmarshal(body, &info))
		assert.InDelta(t, 2, info["dp_size"], 0)
		assert.Equal(t, engineVersion, info["version"])
		assert.Equal(t, "null", info["disaggregation_mode"])
		assert.NotEmpty(t, info["served_model_name"])
	}
	get("/health")
}

func TestLoadSaysWhatIsWrong(t *testing.T) {
	_, err := Load(testPages, "nothing")
	require.ErrorContains(t, err, "nothing.t0.prom")
	_, err = samples([]byte("a_total{} one\n"))
	require.ErrorContains(t, err, "a_total{}")
}
