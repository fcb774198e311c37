// Copyright The otelcol-sglang Authors
// SPDX-License-Identifier: Apache-2.0

package sglangreceiver

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/open-telemetry/opentelemetry-collector-contrib/pkg/pdatatest/pmetrictest"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"go.opentelemetry.io/collector/component/componenttest"
	"go.opentelemetry.io/collector/consumer"
	"go.opentelemetry.io/collector/consumer/consumertest"
	"go.opentelemetry.io/collector/pdata/pmetric"
	"go.opentelemetry.io/collector/scraper/scrapererror"
	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/metric"
	"go.opentelemetry.io/otel/sdk/metric/metricdata"
	"go.opentelemetry.io/otel/sdk/metric/metricdata/metricdatatest"

	"github.com/otelcol-sglang/otelcol-sglang/receiver/sglangreceiver/internal/metadata"
	"github.com/otelcol-sglang/otelcol-sglang/receiver/sglangreceiver/internal/metadatatest"
)

var update = flag.Bool("update", false, "rewrite the golden files")

const capturesDir = "../../testdata/captures/metrics"

// fakeEngine serves what it is told to.
type fakeEngine struct {
	*httptest.Server
	page    atomic.Pointer[string]
	status  atomic.Int64
	content atomic.Pointer[string]
	info    atomic.Pointer[string]
	asked   atomic.Int64 // questions to /server_info
}

func newFakeEngine(t testing.TB) *fakeEngine {
	e := &fakeEngine{}
	e.serve("a 1\n")
	e.status.Store(http.StatusOK)
	content := "text/plain; version=0.0.4; charset=utf-8"
	e.content.Store(&content)
	e.Server = httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if strings.HasSuffix(r.URL.Path, "server_info") {
			e.asked.Add(1)
			info := e.info.Load()
			if info == nil {
				http.NotFound(w, r)
				return
			}
			_, _ = io.WriteString(w, *info)
			return
		}
		w.Header().Set("Content-Type", *e.content.Load())
		w.WriteHeader(int(e.status.Load()))
		_, _ = io.WriteString(w, *e.page.Load())
	}))
	t.Cleanup(e.Close)
	return e
}

func (e *fakeEngine) serve(page string) { e.page.Store(&page) }

func (e *fakeEngine) capture(t testing.TB, name string) {
	t.Helper()
	body, err := os.ReadFile(filepath.Join(capturesDir, name+".prom"))
	require.NoError(t, err)
	e.serve(string(body))
}

func (e *fakeEngine) host() string { return strings.TrimPrefix(e.URL, "http://") }

// scraping is one engine driven by hand, with its own clock.
type scraping struct {
	*engine
	sink *consumertest.MetricsSink
	at   time.Time
	fail error // of the next consumer
}

func newScraping(t testing.TB, tel *componenttest.Telemetry, endpoint string, change func(*Config)) *scraping {
	t.Helper()
	cfg := createDefaultConfig().(*Config)
	ec := defaultEngineConfig()
	ec.ClientConfig.Endpoint = endpoint
	cfg.Engines = []EngineConfig{ec}
	cfg.ServerInfoInterval = 0
	if change != nil {
		change(cfg)
	}
	set := testSettings()
	if tel != nil {
		set = metadatatest.NewSettings(tel)
	}
	builder, err := metadata.NewTelemetryBuilder(set.TelemetrySettings)
	require.NoError(t, err)
	s := &scraping{
		engine: newEngine(set, cfg, &cfg.Engines[0], builder),
		sink:   new(consumertest.MetricsSink),
		at:     time.Unix(1_800_000_000, 0),
	}
	s.now = func() time.Time { return s.at }
	require.NoError(t, s.start(t.Context(), componenttest.NewNopHost()))
	require.NoError(t, builder.RegisterReceiverSglangScrapeAgeCallback(func(_ context.Context, o metric.Float64Observer) error {
		s.observeAge(o)
		return nil
	}))
	t.Cleanup(func() {
		s.cancel()
		s.wait()
		builder.Shutdown()
	})
	return s
}

// step is one scrape and its delivery, 5 s after the one before.
func (s *scraping) step(t testing.TB) (pmetric.Metrics, error) {
	t.Helper()
	s.at = s.at.Add(5 * time.Second)
	md, err := s.scrape(t.Context())
	out := pmetric.NewMetrics()
	md.CopyTo(out)
	next, nextErr := consumer.NewMetrics(func(ctx context.Context, md pmetric.Metrics) error {
		if s.fail != nil {
			return s.fail
		}
		return s.sink.ConsumeMetrics(ctx, md)
	})
	require.NoError(t, nextErr)
	_ = s.deliverTo(next)(t.Context(), md)
	return out, err
}

// values is name → values of the points that have one, and the number of those that have none.
func values(md pmetric.Metrics) (map[string]float64, int) {
	out, stale := map[string]float64{}, 0
	for _, rm := range md.ResourceMetrics().All() {
		for _, m := range rm.ScopeMetrics().At(0).Metrics().All() {
			var points pmetric.NumberDataPointSlice
			switch m.Type() {
			case pmetric.MetricTypeGauge:
				points = m.Gauge().DataPoints()
			case pmetric.MetricTypeSum:
				points = m.Sum().DataPoints()
			default:
				continue
			}
			for _, d := range points.All() {
				if d.Flags().NoRecordedValue() {
					stale++
					continue
				}
				out[m.Name()] += d.DoubleValue()
			}
		}
	}
	return out, stale
}

func engineSet(e *fakeEngine, more ...attribute.KeyValue) attribute.Set {
	return attribute.NewSet(append(more, attribute.String("engine", e.host()))...)
}

func reasonSet(e *fakeEngine, reason string) attribute.Set {
	return engineSet(e, attribute.String("reason", reason))
}

// TestCaptureGolden: a captured page as it leaves the receiver.
func TestCaptureGolden(t *testing.T) {
	for _, name := range []string{"metrics-unified-tp1.t0", "metrics-pd-prefill.t0", "metrics-lora-custom-labels.t0"} {
		t.Run(name, func(t *testing.T) {
			e := newFakeEngine(t)
			e.capture(t, name)
			s := newScraping(t, nil, e.URL, func(cfg *Config) {
				cfg.Engines[0].ResourceAttributes = map[string]string{"service.instance.id": "engine-0:30000", "k8s.pod.name": "engine-0"}
			})
			got, err := s.step(t)
			require.NoError(t, err)
			path := filepath.Join("testdata", "golden", name+".json")
			if *update {
				data, err := (&pmetric.JSONMarshaler{}).MarshalMetrics(got)
				require.NoError(t, err)
				require.NoError(t, os.WriteFile(path, append(data, '\n'), 0o600))
			}
			data, err := os.ReadFile(path)
			require.NoError(t, err)
			want, err := (&pmetric.JSONUnmarshaler{}).UnmarshalMetrics(data)
			require.NoError(t, err)
			require.NoError(t, pmetrictest.CompareMetrics(want, got))
		})
	}
}

func TestRestart(t *testing.T) {
	tel := componenttest.NewTelemetry()
	defer func() { require.NoError(t, tel.Shutdown(context.WithoutCancel(t.Context()))) }()
	e := newFakeEngine(t)
	s := newScraping(t, tel, e.URL, nil)
	var last time.Time
	for _, name := range []string{"t1", "t2", "after-restart-t0"} {
		last = s.at
		e.capture(t, "metrics-unified-tp1."+name)
		_, err := s.step(t)
		require.NoError(t, err)
	}
	all := s.sink.AllMetrics()
	require.Len(t, all, 3)
	fresh, ended := 0, 0
	for _, m := range all[2].ResourceMetrics().At(0).ScopeMetrics().At(0).Metrics().All() {
		if m.Type() != pmetric.MetricTypeSum {
			continue
		}
		for _, d := range m.Sum().DataPoints().All() {
			if d.Flags().NoRecordedValue() {
				ended++
				continue
			}
			fresh++
			assert.Equal(t, last, d.StartTimestamp().AsTime().Local(), m.Name())
		}
	}
	assert.Positive(t, fresh)
	assert.Positive(t, ended, "families that vanish until their first use")
	metadatatest.AssertEqualReceiverSglangEngineRestarts(t, tel,
		[]metricdata.DataPoint[int64]{{Attributes: engineSet(e), Value: 1}}, metricdatatest.IgnoreTimestamp())
}

func TestStale(t *testing.T) {
	e := newFakeEngine(t)
	s := newScraping(t, nil, e.URL, nil)
	both := "# TYPE x gauge\nx{k=\"1\"} 1\nx{k=\"2\"} 2\n# TYPE y_total counter\ny_total 5\n"
	e.serve(both)
	md, err := s.step(t)
	require.NoError(t, err)
	got, stale := values(md)
	assert.Equal(t, map[string]float64{"x": 3, "y_total": 5}, got)
	assert.Zero(t, stale)

	// A series that vanishes ends, once.
	e.serve("# TYPE x gauge\nx{k=\"1\"} 1\n# TYPE y_total counter\ny_total 6\n")
	for i, want := range []int{1, 0} {
		md, err = s.step(t)
		require.NoError(t, err)
		got, stale = values(md)
		assert.Equal(t, map[string]float64{"x": 1, "y_total": 6}, got)
		assert.Equal(t, want, stale, i)
	}

	// A failure ends all that is left, once, and invents nothing. While it stays
	// the same it is no error again, which would be a line in the log each time.
	e.status.Store(http.StatusInternalServerError)
	for i, want := range []int{2, 0} {
		md, err = s.step(t)
		if i == 0 {
			require.Error(t, err)
			assert.True(t, scrapererror.IsPartialScrapeError(err))
		} else {
			require.NoError(t, err)
		}
		got, stale = values(md)
		assert.Empty(t, got)
		assert.Equal(t, want, stale, i)
	}

	// The counter goes on where it was: it did not begin anew.
	e.status.Store(http.StatusOK)
	e.serve(both)
	md, err = s.step(t)
	require.NoError(t, err)
	got, stale = values(md)
	assert.Equal(t, map[string]float64{"x": 3, "y_total": 5}, got)
	assert.Zero(t, stale)
}

// What the next consumer refused was not shown: ends of series are said again.
func TestStaleIsSaidUntilTaken(t *testing.T) {
	e := newFakeEngine(t)
	s := newScraping(t, nil, e.URL, nil)
	e.serve("x 1\ny 2\n")
	_, err := s.step(t)
	require.NoError(t, err)

	e.serve("x 1\n")
	s.fail = errors.New("memory limit")
	for range 2 {
		md, err := s.step(t)
		require.NoError(t, err)
		_, stale := values(md)
		assert.Equal(t, 1, stale)
	}
	s.fail = nil
	for _, want := range []int{1, 0} {
		md, err := s.step(t)
		require.NoError(t, err)
		_, stale := values(md)
		assert.Equal(t, want, stale)
	}
}

func TestFailures(t *testing.T) {
	big := "# TYPE x gauge\n" + strings.Repeat("x{a=\"1\"} 1\n", 200_000)
	whole, err := os.ReadFile(filepath.Join(capturesDir, "metrics-unified-tp1.t2.prom"))
	require.NoError(t, err)
	tests := []struct {
		name, page, content string
		status              int
		reason              string
	}{
		{"status", "x 1\n", "", http.StatusInternalServerError, "http_status"},
		{"not there", "x 1\n", "", http.StatusNotFound, "http_status"},
		{"empty", "", "", 0, "empty"},
		{"html", "<html></html>\n", "text/html", 0, "content_type"},
		{"html as text", "<html></html>\n", "", 0, "parse"},
		{"cut in a line", string(whole[:len(whole)/2]), "", 0, "truncated"},
		{"too large", big, "", 0, "too_large"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			tel := componenttest.NewTelemetry()
			defer func() { require.NoError(t, tel.Shutdown(context.WithoutCancel(t.Context()))) }()
			e := newFakeEngine(t)
			s := newScraping(t, tel, e.URL, func(cfg *Config) { cfg.MaxPageMiB = 1 })
			_, err := s.step(t)
			require.NoError(t, err)
			s.sink.Reset()

			e.serve(tt.page)
			if tt.content != "" {
				e.content.Store(&tt.content)
			}
			if tt.status != 0 {
				e.status.Store(int64(tt.status))
			}
			_, err = s.step(t)
			require.ErrorContains(t, err, tt.reason)
			require.ErrorContains(t, err, e.host())
			got, stale := values(s.sink.AllMetrics()[0])
			assert.Empty(t, got)
			assert.Equal(t, 1, stale)

			ignore := metricdatatest.IgnoreTimestamp()
			metadatatest.AssertEqualReceiverSglangFailedScrapes(t, tel,
				[]metricdata.DataPoint[int64]{{Attributes: reasonSet(e, tt.reason), Value: 1}}, ignore)
			metadatatest.AssertEqualReceiverSglangEngineUp(t, tel,
				[]metricdata.DataPoint[int64]{{Attributes: engineSet(e), Value: 0}}, ignore)
			s.at = s.at.Add(2 * time.Second)
			metadatatest.AssertEqualReceiverSglangScrapeAge(t, tel,
				[]metricdata.DataPoint[float64]{{Attributes: engineSet(e), Value: 7}}, ignore)
		})
	}
}

func TestOwnTelemetry(t *testing.T) {
	tel := componenttest.NewTelemetry()
	defer func() { require.NoError(t, tel.Shutdown(context.WithoutCancel(t.Context()))) }()
	e := newFakeEngine(t)
	s := newScraping(t, tel, e.URL, nil)
	page := "# TYPE sglang:utilization gauge\nsglang:utilization -1\nsglang:num_queue_reqs 0\nsglang:num_queue_reqs 0\nx 1\n"
	e.serve(page)
	_, err := s.step(t)
	require.NoError(t, err)
	ignore := metricdatatest.IgnoreTimestamp()
	one := func(v int64) []metricdata.DataPoint[int64] {
		return []metricdata.DataPoint[int64]{{Attributes: engineSet(e), Value: v}}
	}
	metadatatest.AssertEqualReceiverSglangEngineUp(t, tel, one(1), ignore)
	metadatatest.AssertEqualReceiverSglangPageSeries(t, tel, one(2), ignore)
	metadatatest.AssertEqualReceiverSglangPageSize(t, tel, one(int64(len(page))), ignore)
	metadatatest.AssertEqualReceiverSglangRefusedSamples(t, tel, []metricdata.DataPoint[int64]{
		{Attributes: reasonSet(e, "sentinel"), Value: 1},
		{Attributes: reasonSet(e, "duplicate"), Value: 1},
	}, ignore)
	metadatatest.AssertEqualReceiverSglangScrapeDuration(t, tel,
		[]metricdata.HistogramDataPoint[float64]{{Attributes: engineSet(e), Count: 1}},
		ignore, metricdatatest.IgnoreValue())
	metadatatest.AssertEqualReceiverSglangScrapeAge(t, tel,
		[]metricdata.DataPoint[float64]{{Attributes: engineSet(e), Value: 0}}, ignore)
}

func TestServerInfo(t *testing.T) {
	e := newFakeEngine(t)
	info := `{"version":"0.5.23","tp_size":4,"api_key":"sk-secret","launch_command":"--api-key sk-secret","disaggregation_mode":"null","served_model_name":"llama"}`
	e.info.Store(&info)
	s := newScraping(t, nil, e.URL, func(cfg *Config) {
		cfg.ServerInfoInterval = time.Hour
		cfg.Engines[0].ResourceAttributes = map[string]string{"sglang.model": "mine", "pod": "p"}
	})
	md, err := s.step(t)
	require.NoError(t, err)
	assert.Equal(t, map[string]any{
		"service.name": "sglang", "service.instance.id": e.host(), "pod": "p",
		"sglang.version": "0.5.23", "sglang.tp_size": int64(4), "sglang.disaggregation_mode": "unified", "sglang.model": "mine",
	}, md.ResourceMetrics().At(0).Resource().Attributes().AsRaw())

	// An engine that comes back may be another one.
	require.EqualValues(t, 1, e.asked.Load())
	e.status.Store(http.StatusServiceUnavailable)
	_, err = s.step(t)
	require.Error(t, err)
	newer := `{"version":"0.6.0"}`
	e.info.Store(&newer)
	e.status.Store(http.StatusOK)
	_, err = s.step(t)
	require.NoError(t, err)
	assert.Eventually(t, func() bool { return e.asked.Load() == 2 }, 10*time.Second, time.Millisecond)
}

func TestServerInfoNeverStopsScrapes(t *testing.T) {
	tel := componenttest.NewTelemetry()
	defer func() { require.NoError(t, tel.Shutdown(context.WithoutCancel(t.Context()))) }()
	e := newFakeEngine(t)
	odd := `<html>`
	for _, info := range []*string{nil, &odd} {
		e.info.Store(info)
		s := newScraping(t, tel, e.URL, func(cfg *Config) { cfg.ServerInfoInterval = time.Hour })
		md, err := s.step(t)
		require.NoError(t, err)
		assert.Equal(t, 2, md.ResourceMetrics().At(0).Resource().Attributes().Len())
		s.cancel()
		s.wait()
	}
	metadatatest.AssertEqualReceiverSglangServerInfoFailures(t, tel, []metricdata.DataPoint[int64]{
		{Attributes: reasonSet(e, "http_status"), Value: 1},
		{Attributes: reasonSet(e, "parse"), Value: 1},
	}, metricdatatest.IgnoreTimestamp())
}

// TestEnginesAreApart runs the whole receiver: one engine hangs, one fails, one works.
func TestEnginesAreApart(t *testing.T) {
	release := make(chan struct{})
	hangs := httptest.NewServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
		select {
		case <-release:
		case <-r.Context().Done():
		}
	}))
	defer hangs.Close()
	defer close(release)
	fails, works := newFakeEngine(t), newFakeEngine(t)
	fails.status.Store(http.StatusInternalServerError)
	works.capture(t, "metrics-unified-tp1.t2")

	cfg := createDefaultConfig().(*Config)
	cfg.Protocols = defaultProtocols()
	cfg.CollectionInterval = minInterval
	for _, url := range []string{hangs.URL, fails.URL, works.URL} {
		ec := defaultEngineConfig()
		ec.ClientConfig.Endpoint = url
		ec.ClientConfig.Compression = "gzip"
		ec.ClientConfig.Timeout = time.Minute
		cfg.Engines = append(cfg.Engines, ec)
	}
	delay := time.Duration(0)
	cfg.Engines[2].InitialDelay = &delay
	require.NoError(t, cfg.Validate())

	sink := new(consumertest.MetricsSink)
	r, err := NewFactory().CreateMetrics(t.Context(), testSettings(), cfg, sink)
	require.NoError(t, err)
	require.NoError(t, r.Start(t.Context(), componenttest.NewNopHost()))
	assert.Eventually(t, func() bool { return sink.DataPointCount() > 300 }, 20*time.Second, 5*time.Millisecond)
	for range 2 {
		require.NoError(t, r.Shutdown(t.Context()))
	}
	for _, md := range sink.AllMetrics() {
		for _, rm := range md.ResourceMetrics().All() {
			id, _ := rm.Resource().Attributes().Get("service.instance.id")
			assert.Equal(t, works.host(), id.Str())
		}
	}
}

// At the end of the receiver, series do not end: the collector stops looking, the
// engine goes on.
func TestShutdownEndsNoSeries(t *testing.T) {
	e := newFakeEngine(t)
	s := newScraping(t, nil, e.URL, nil)
	_, err := s.step(t)
	require.NoError(t, err)
	s.cancel()
	md, err := s.step(t)
	require.ErrorIs(t, err, context.Canceled)
	assert.Zero(t, md.MetricCount())
}

func TestUnframedAndOpen(t *testing.T) {
	whole, err := os.ReadFile(filepath.Join(capturesDir, "metrics-unified-tp1.t2.prom"))
	require.NoError(t, err)
	cut := string(whole[:strings.LastIndex(string(whole), "_bucket{")])
	cut = cut[:strings.LastIndexByte(cut, '\n')+1]
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		conn, buf, err := http.NewResponseController(w).Hijack()
		if err != nil {
			return
		}
		defer conn.Close()
		_, _ = io.WriteString(buf, "HTTP/1.0 200 OK\r\n\r\n"+cut)
		_ = buf.Flush()
	}))
	defer server.Close()
	s := newScraping(t, nil, server.URL, nil)
	md, err := s.step(t)
	require.ErrorContains(t, err, "cut off")
	assert.Zero(t, md.MetricCount())
}

// TestHelpDoesNotMatter, and a type that changed is another series.
func TestOtherHelpOtherType(t *testing.T) {
	e := newFakeEngine(t)
	s := newScraping(t, nil, e.URL, nil)
	e.serve("# HELP x One\n# TYPE x gauge\nx 1\n")
	_, err := s.step(t)
	require.NoError(t, err)
	e.serve("# HELP x Two\n# TYPE x gauge\nx 1\n")
	md, err := s.step(t)
	require.NoError(t, err)
	_, stale := values(md)
	assert.Zero(t, stale)
	e.serve("# TYPE x counter\nx 1\n")
	md, err = s.step(t)
	require.NoError(t, err)
	assert.Equal(t, 2, md.MetricCount())
	_, stale = values(md)
	assert.Equal(t, 1, stale)
}

// bigPage is a captured page repeated under other model names, of at least the given bytes.
func bigPage(t testing.TB, size int) string {
	t.Helper()
	body, err := os.ReadFile(filepath.Join(capturesDir, "metrics-tp4-all-schedulers.t2.prom"))
	require.NoError(t, err)
	var big strings.Builder
	for i := 0; big.Len() < size; i++ {
		big.WriteString(strings.ReplaceAll(string(body), "meta-llama/Llama-3.1-8B-Instruct", fmt.Sprintf("meta-llama/Llama-3.1-8B-%08d", i)))
	}
	return big.String()
}

// TestBigPageMemory: a page of over 100 000 lines, again and again, leaves no more
// behind than one page's series.
func TestBigPageMemory(t *testing.T) {
	e := newFakeEngine(t)
	body := bigPage(t, 16<<20)
	require.Greater(t, strings.Count(body, "\n"), 100_000)
	e.serve(body)
	s := newScraping(t, nil, e.URL, nil)
	heap := func() uint64 {
		var m runtime.MemStats
		runtime.GC()
		runtime.ReadMemStats(&m)
		return m.HeapAlloc
	}
	before := heap()
	for range 5 {
		_, err := s.step(t)
		require.NoError(t, err)
		s.sink.Reset()
	}
	assert.Less(t, heap()-before, uint64(4*len(body)))
}

func BenchmarkScrape(b *testing.B) {
	body := bigPage(b, 1)
	for name, page := range map[string]string{"captured": body, "20MB": bigPage(b, 20<<20)} {
		b.Run(name, func(b *testing.B) {
			e := newFakeEngine(b)
			e.serve(page)
			s := newScraping(b, nil, e.URL, nil)
			var once sync.Once
			b.ReportAllocs()
			for b.Loop() {
				if _, err := s.scrape(b.Context()); err != nil {
					once.Do(func() { b.Fatal(err) })
				}
			}
		})
	}
}
