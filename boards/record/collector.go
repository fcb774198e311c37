// Copyright The otelcol-sglang Authors
// SPDX-License-Identifier: Apache-2.0

package record // import "github.com/otelcol-sglang/otelcol-sglang/boards/record"

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"maps"
	"net/http"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"time"

	"go.opentelemetry.io/collector/component"
	"go.opentelemetry.io/collector/component/componenttest"
	"go.opentelemetry.io/collector/confmap"
	"go.opentelemetry.io/collector/connector"
	"go.opentelemetry.io/collector/consumer"
	"go.opentelemetry.io/collector/extension/extensionmiddleware"
	"go.opentelemetry.io/collector/pdata/ptrace"
	"go.opentelemetry.io/collector/processor"
	"go.opentelemetry.io/collector/receiver"
	"go.opentelemetry.io/collector/receiver/receiverhelper"
	sdkmetric "go.opentelemetry.io/otel/sdk/metric"
	"go.yaml.in/yaml/v3"

	"github.com/otelcol-sglang/otelcol-sglang/connector/genaimetricsconnector"
	"github.com/otelcol-sglang/otelcol-sglang/processor/genaiprocessor"
	"github.com/otelcol-sglang/otelcol-sglang/processor/rankdedupprocessor"
	"github.com/otelcol-sglang/otelcol-sglang/receiver/sglangreceiver"
)

// Root is the project's folder.
func Root() string {
	_, file, _, _ := runtime.Caller(0)
	return filepath.Join(filepath.Dir(file), "..", "..")
}

// shipped is the configuration whose settings the recorder takes.
const shipped = "quickstart.yaml"

// collector is the pipelines of config/quickstart.yaml in this process. Pages are
// scraped by the receiver; spans come in behind it.
type collector struct {
	spans consumer.Traces
	// report counts what comes in, for the receiver.
	report *receiverhelper.ObsReport
	page   *page
	own    *own
	// parts in the order in which they start.
	parts []component.Component
	host  *host
	// genai is one configuration for both pipelines, as in the file: by it the
	// processor knows that they are one.
	genai component.Config
}

// settings are a configuration file's.
type settings struct {
	Receivers, Processors, Connectors, Exporters map[string]map[string]any
}

func readSettings() (*settings, error) {
	raw, err := os.ReadFile(filepath.Join(Root(), "config", shipped))
	if err != nil {
		return nil, err
	}
	s := &settings{}
	return s, yaml.Unmarshal(raw, s)
}

// newCollector makes one that scrapes the given engines' HTTP services, by host:port,
// and whose tracing backend takes spans until the given time.
func newCollector(engines map[string]http.Handler, until time.Time) (*collector, error) {
	s, err := readSettings()
	if err != nil {
		return nil, err
	}
	expiry, err := time.ParseDuration(fmt.Sprint(s.Exporters["prometheus"]["metric_expiration"]))
	if err != nil {
		return nil, err
	}
	reader := sdkmetric.NewManualReader()
	telemetry := componenttest.NewNopTelemetrySettings()
	telemetry.MeterProvider = sdkmetric.NewMeterProvider(sdkmetric.WithReader(reader))
	c := &collector{
		page: newPage(expiry),
		own:  &own{reader: reader, target: target(ownAddress)},
		host: &host{Host: componenttest.NewNopHost(), net: inProcess(engines)},
	}
	return c, errors.Join(c.traces(s, telemetry, until), c.metrics(s, telemetry, slices.Sorted(maps.Keys(engines))))
}

// Where Prometheus scrapes, and the job that the READMEs name.
const (
	pageAddress = "localhost:8889"
	ownAddress  = "localhost:8888"
	scrapeJob   = "otelcol-sglang"
)

func target(address string) []Label { return []Label{{"instance", address}, {"job", scrapeJob}} }

var genai = genaiprocessor.NewFactory()

func (c *collector) traces(s *settings, telemetry component.TelemetrySettings, until time.Time) error {
	f := genaimetricsconnector.NewFactory()
	cfg, err := configure(f, s.Connectors["genaimetrics"])
	if err != nil {
		return err
	}
	counted, err := f.CreateTracesToMetrics(context.Background(), connector.Settings{ID: component.NewID(f.Type()), TelemetrySettings: telemetry}, cfg, c.page)
	if err != nil {
		return err
	}
	if c.genai, err = configure(genai, s.Processors["genai"]); err != nil {
		return err
	}
	judged, err := genai.CreateTraces(context.Background(), processor.Settings{ID: component.NewID(genai.Type()), TelemetrySettings: telemetry}, c.genai, &exporters{Traces: counted, until: until})
	if err != nil {
		return err
	}
	dedup := rankdedupprocessor.NewFactory()
	if cfg, err = configure(dedup, s.Processors["rankdedup"]); err != nil {
		return err
	}
	folded, err := dedup.CreateTraces(context.Background(), processor.Settings{ID: component.NewID(dedup.Type()), TelemetrySettings: telemetry}, cfg, judged)
	if err != nil {
		return err
	}
	c.spans = folded
	c.parts = append(c.parts, counted, judged, folded)
	c.report, err = receiverhelper.NewObsReport(receiverhelper.ObsReportSettings{
		ReceiverID: component.MustNewIDWithName("otlp", sglangreceiver.NewFactory().Type().String()), Transport: "grpc",
		ReceiverCreateSettings: receiver.Settings{TelemetrySettings: telemetry},
	})
	return err
}

// exporters are the connector, and a backend that refuses from some time on. As where
// spans fan out, the one gets them though the other refuses.
type exporters struct {
	consumer.Traces
	until time.Time
}

// ConsumeTraces implements [consumer.Traces].
func (e *exporters) ConsumeTraces(ctx context.Context, td ptrace.Traces) error {
	if err := e.Traces.ConsumeTraces(ctx, td); err != nil || time.Now().Before(e.until) {
		return err
	}
	return errUnreachable
}

func (c *collector) metrics(s *settings, telemetry component.TelemetrySettings, engines []string) error {
	watched, err := genai.CreateMetrics(context.Background(), processor.Settings{ID: component.NewID(genai.Type()), TelemetrySettings: telemetry}, c.genai, c.page)
	if err != nil {
		return err
	}
	dedup := rankdedupprocessor.NewFactory()
	cfg, err := configure(dedup, s.Processors["rankdedup"])
	if err != nil {
		return err
	}
	folded, err := dedup.CreateMetrics(context.Background(), processor.Settings{ID: component.NewID(dedup.Type()), TelemetrySettings: telemetry}, cfg, watched)
	if err != nil {
		return err
	}
	f := sglangreceiver.NewFactory()
	if cfg, err = configure(f, scraping(s.Receivers["sglang"], engines)); err != nil {
		return err
	}
	scraped, err := f.CreateMetrics(context.Background(), receiver.Settings{ID: component.NewID(f.Type()), TelemetrySettings: telemetry}, cfg, folded)
	c.parts = append(c.parts, watched, folded, scraped)
	return err
}

// scraping is the receiver's settings without sockets.
func scraping(settings map[string]any, engines []string) map[string]any {
	out := maps.Clone(settings)
	out["protocols"] = map[string]any{}
	var list []any
	for _, e := range engines {
		list = append(list, map[string]any{"endpoint": "http://" + e, "middlewares": []any{map[string]any{"id": inProcessID.String()}}})
	}
	out["engines"] = list
	out["collection_interval"] = Step.String() // what comes in between Prometheus does not see
	return out
}

func configure(f component.Factory, settings map[string]any) (component.Config, error) {
	cfg := f.CreateDefaultConfig()
	return cfg, confmap.NewFromStringMap(settings).Unmarshal(cfg)
}

func (c *collector) start(ctx context.Context) error {
	for _, p := range c.parts {
		if err := p.Start(ctx, c.host); err != nil {
			return err
		}
	}
	return nil
}

// shutdown ends what sends before what takes.
func (c *collector) shutdown(ctx context.Context) error {
	var errs []error
	for _, p := range slices.Backward(c.parts) {
		errs = append(errs, p.Shutdown(ctx))
	}
	return errors.Join(errs...)
}

// host lets the receiver reach engines in this process.
type host struct {
	component.Host
	net inProcess
}

var inProcessID = component.MustNewID("in_process")

func (h *host) GetExtensions() map[component.ID]component.Component {
	return map[component.ID]component.Component{inProcessID: h.net}
}

// inProcess is the network: services by host:port.
type inProcess map[string]http.Handler

var (
	_ extensionmiddleware.HTTPClient = inProcess{}
	_ http.RoundTripper              = inProcess{}
)

// Start implements [component.Component].
func (inProcess) Start(context.Context, component.Host) error { return nil }

// Shutdown implements [component.Component].
func (inProcess) Shutdown(context.Context) error { return nil }

// GetHTTPRoundTripper implements [extensionmiddleware.HTTPClient].
func (n inProcess) GetHTTPRoundTripper(context.Context) (extensionmiddleware.WrapHTTPRoundTripperFunc, error) {
	return func(context.Context, http.RoundTripper) (http.RoundTripper, error) { return n, nil }, nil
}

// RoundTrip implements [http.RoundTripper].
func (n inProcess) RoundTrip(req *http.Request) (*http.Response, error) {
	w := &answer{header: http.Header{}, status: http.StatusOK}
	if !served(n[req.URL.Host], w, req) {
		return nil, errUnreachable
	}
	// Services give up with the request's context.
	if err := req.Context().Err(); err != nil {
		return nil, err
	}
	return &http.Response{
		Status: http.StatusText(w.status), StatusCode: w.status, Proto: "HTTP/1.1", ProtoMajor: 1, ProtoMinor: 1,
		Header: w.header, Body: io.NopCloser(&w.body), ContentLength: int64(w.body.Len()), Request: req,
	}, nil
}

// served is false where a service hangs up, as a dead engine does.
func served(h http.Handler, w http.ResponseWriter, req *http.Request) (ok bool) {
	defer func() {
		r := recover()
		if err, _ := r.(error); r != nil && !errors.Is(err, http.ErrAbortHandler) {
			panic(r)
		}
	}()
	h.ServeHTTP(w, req)
	return true
}

// answer is a response in memory.
type answer struct {
	header http.Header
	body   bytes.Buffer
	status int
}

func (a *answer) Header() http.Header { return a.header }

func (a *answer) WriteHeader(status int) { a.status = status }

func (a *answer) Write(b []byte) (int, error) { return a.body.Write(b) }
