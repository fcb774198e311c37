// Copyright The otelcol-sglang Authors
// SPDX-License-Identifier: Apache-2.0

package genaiprocessor // import "github.com/otelcol-sglang/otelcol-sglang/processor/genaiprocessor"

import (
	"context"
	"net"
	"strconv"
	"strings"
	"sync"

	"github.com/google/uuid"
	"go.opentelemetry.io/collector/component"
	"go.opentelemetry.io/collector/consumer"
	"go.opentelemetry.io/collector/pdata/pcommon"
	"go.opentelemetry.io/collector/pdata/pmetric"
	"go.opentelemetry.io/collector/processor"
	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/metric"

	"github.com/otelcol-sglang/otelcol-sglang/internal/sglang"
	"github.com/otelcol-sglang/otelcol-sglang/internal/steady"
	"github.com/otelcol-sglang/otelcol-sglang/processor/genaiprocessor/internal/metadata"
	"github.com/otelcol-sglang/otelcol-sglang/processor/genaiprocessor/internal/presence"
)

// The Collector makes one instance for each pipeline, all of one *Config. What
// those of traces and of metrics share is found by it.
var (
	sharedMu sync.Mutex
	shared   = map[*Config]*sharedPresence{} // guarded by sharedMu
)

type sharedPresence struct {
	table *presence.Table
	users int
}

// share returns the table of a configuration; release gives it back.
func share(cfg *Config) (table *presence.Table, release func()) {
	sharedMu.Lock()
	defer sharedMu.Unlock()
	s := shared[cfg]
	if s == nil {
		s = &sharedPresence{table: presence.New()}
		shared[cfg] = s
	}
	s.users++
	return s.table, sync.OnceFunc(func() {
		sharedMu.Lock()
		defer sharedMu.Unlock()
		if s.users--; s.users == 0 {
			delete(shared, cfg)
		}
	})
}

const attrServiceInstance = "service.instance.id"

// nameOf is the name that a resource attribute gives the engine. Newer SDKs give
// each process a random UUID, which names none.
func nameOf(key string, v pcommon.Value) string {
	text := v.AsString()
	if len(text) > maxText || key == attrServiceInstance && len(text) == 36 && uuid.Validate(text) == nil {
		return ""
	}
	return text
}

// setName keeps an attribute that names the engine.
func setName(names *presence.Names, keys []string, key string, v pcommon.Value) {
	for i := range keys {
		if keys[i] == key {
			names[i] = nameOf(key, v)
		}
	}
}

// pageWatcher passes metrics on untouched and notes which engines show a page.
type pageWatcher struct {
	next     consumer.Metrics
	clock    steady.Clock
	keys     []string
	presence *presence.Table
	builder  *metadata.TelemetryBuilder
	unwatch  func()
	release  func()
}

var _ processor.Metrics = (*pageWatcher)(nil)

func newPageWatcher(set processor.Settings, cfg *Config, next consumer.Metrics) (*pageWatcher, error) {
	b, err := metadata.NewTelemetryBuilder(set.TelemetrySettings)
	if err != nil {
		return nil, err
	}
	w := &pageWatcher{clock: steady.NewClock(), next: next, keys: cfg.InstanceFrom, builder: b}
	w.presence, w.release = share(cfg)
	w.unwatch = w.presence.Watch()
	return w, w.observe()
}

// Capabilities: nothing is changed.
func (*pageWatcher) Capabilities() consumer.Capabilities { return consumer.Capabilities{} }

// Start does nothing.
func (*pageWatcher) Start(context.Context, component.Host) error { return nil }

// Shutdown ends the watch.
func (w *pageWatcher) Shutdown(context.Context) error {
	w.unwatch()
	w.release()
	w.builder.Shutdown()
	return nil
}

// ConsumeMetrics notes the engines' pages among the metrics.
func (w *pageWatcher) ConsumeMetrics(ctx context.Context, md pmetric.Metrics) error {
	now := w.clock.Now()
	for _, rm := range md.ResourceMetrics().All() {
		if page, ok := w.read(rm); ok {
			w.presence.Saw(page, now)
		}
	}
	return w.next.ConsumeMetrics(ctx, md)
}

// read reports false for what is no engine's page, or one that has just gone.
func (w *pageWatcher) read(rm pmetric.ResourceMetrics) (page presence.Page, ok bool) {
	for _, sm := range rm.ScopeMetrics().All() {
		for _, m := range sm.Metrics().All() {
			if strings.HasPrefix(m.Name(), sglang.MetricPrefix) && readFamily(m, &page) {
				ok = true
			}
		}
	}
	if !ok {
		return page, false
	}
	for key, v := range rm.Resource().Attributes().All() {
		names := &page.Names
		if key == attrServiceInstance && isAddress(v.Str()) {
			names = &page.Addresses
		}
		setName(names, w.keys, key, v)
		switch key {
		case attrServiceInstance:
			page.Label = nameOf("", v)
		case sglang.AttrServerDPSize:
			page.Set = int(v.Int())
		}
	}
	return page, true
}

// isAddress: the receiver calls a page by its host and port where no one names it.
func isAddress(text string) bool {
	_, port, err := net.SplitHostPort(text)
	if err != nil {
		return false
	}
	_, err = strconv.ParseUint(port, 10, 16)
	return err == nil
}

// readFamily reports false where the family has no value. Finished requests tell
// that an engine is busy: their spans have come by then, or never will.
func readFamily(m pmetric.Metric, page *presence.Page) bool {
	var points pmetric.NumberDataPointSlice
	switch m.Type() {
	case pmetric.MetricTypeGauge:
		points = m.Gauge().DataPoints()
	case pmetric.MetricTypeSum:
		points = m.Sum().DataPoints()
	default:
		return false
	}
	finished := m.Name() == string(sglang.FamilyNumRequestsTotal)
	valued := false
	for _, dp := range points.All() {
		if dp.Flags().NoRecordedValue() {
			continue
		}
		valued = true
		if finished {
			page.Finished += valueOf(dp)
		}
		if v, ok := dp.Attributes().Get(sglang.LabelDPRank); ok {
			if rank, err := strconv.ParseUint(v.Str(), 10, 6); err == nil {
				page.Ranks |= 1 << rank
			}
		}
	}
	return valued
}

func valueOf(dp pmetric.NumberDataPoint) float64 {
	if dp.ValueType() == pmetric.NumberDataPointValueTypeInt {
		return float64(dp.IntValue())
	}
	return dp.DoubleValue()
}

func (w *pageWatcher) observe() error {
	if err := w.builder.RegisterProcessorGenaiEnginesCallback(func(_ context.Context, o metric.Int64Observer) error {
		for _, m := range w.presence.Matches(w.clock.Now()) {
			o.Observe(1, byEngine(m, "state", string(m.State)))
		}
		return nil
	}); err != nil {
		return err
	}
	return w.builder.RegisterProcessorGenaiDpRanksCallback(func(_ context.Context, o metric.Int64Observer) error {
		for _, m := range w.presence.Matches(w.clock.Now()) {
			observeRanks(o, m)
		}
		return nil
	})
}

// observeRanks: engines without data parallelism have no such ranks.
func observeRanks(o metric.Int64Observer, m presence.Match) {
	if m.SpanRanks+m.PageRanks == 0 && m.SetRanks <= 1 {
		return
	}
	if m.Engine != "" {
		o.Observe(int64(m.SpanRanks), byEngine(m, "source", "spans"))
	}
	if m.Page != "" {
		o.Observe(int64(m.PageRanks), byEngine(m, "source", "page"))
	}
	if m.SetRanks > 0 {
		o.Observe(int64(m.SetRanks), byEngine(m, "source", "settings"))
	}
}

func byEngine(m presence.Match, key, value string) metric.ObserveOption {
	return metric.WithAttributes(attribute.String("engine", m.Engine), attribute.String("page", m.Page), attribute.String(key, value))
}
