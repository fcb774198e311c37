// Copyright The otelcol-sglang Authors
// SPDX-License-Identifier: Apache-2.0

package sglangreceiver // import "github.com/otelcol-sglang/otelcol-sglang/receiver/sglangreceiver"

import (
	"context"
	"fmt"
	"sync"
	"sync/atomic"
	"time"

	"go.opentelemetry.io/collector/component"
	"go.opentelemetry.io/collector/consumer"
	"go.opentelemetry.io/collector/pdata/pcommon"
	"go.opentelemetry.io/collector/pdata/pmetric"
	"go.opentelemetry.io/collector/receiver"
	"go.opentelemetry.io/collector/scraper/scrapererror"
	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/metric"
	"go.uber.org/zap"

	"github.com/otelcol-sglang/otelcol-sglang/receiver/sglangreceiver/internal/metadata"
	"github.com/otelcol-sglang/otelcol-sglang/receiver/sglangreceiver/internal/page"
	"github.com/otelcol-sglang/otelcol-sglang/receiver/sglangreceiver/internal/scrape"
)

const (
	// staleLead puts a series' end before what takes its place at once, such as
	// the same name and labels with another type.
	staleLead = time.Millisecond
	// tellAgain is how often an engine that stays down is made an error of.
	tellAgain = 5 * time.Minute

	attrEngine = "engine"
	attrReason = "reason"
)

// engine scrapes one engine's page. What is not atomic belongs to its
// controller's goroutine, after start.
type engine struct {
	cfg       *EngineConfig
	id        string
	interval  time.Duration
	infoEvery time.Duration
	maxBytes  int64
	options   page.Options
	telemetry *metadata.TelemetryBuilder
	set       component.TelemetrySettings
	label     attribute.KeyValue
	attrs     metric.MeasurementOption
	now       func() time.Time

	pages   *scrape.Fetcher
	infos   *scrape.Fetcher
	tracker *scrape.Tracker
	// shown is the page that the next consumer took last; sent is what it is being given.
	shown, sent *page.Page
	live        map[uint64]struct{}
	down        bool
	// told is why and when a failed scrape was last made an error of.
	told struct {
		reason scrape.Reason
		at     time.Time
	}

	ctx      context.Context
	cancel   context.CancelFunc
	asking   sync.WaitGroup
	ask      chan struct{}
	infoDone chan struct{}
	info     atomic.Pointer[scrape.Info]
	lastGood atomic.Pointer[time.Time] // with its monotonic reading: the host's clock may be set
}

func newEngine(set receiver.Settings, cfg *Config, ec *EngineConfig, telemetry *metadata.TelemetryBuilder) *engine {
	e := &engine{
		cfg:       ec,
		id:        ec.instance(),
		interval:  cfg.CollectionInterval,
		infoEvery: cfg.ServerInfoInterval,
		maxBytes:  int64(cfg.MaxPageMiB) << 20,
		options:   page.Options{DropSentinels: cfg.DropSentinels},
		telemetry: telemetry,
		set:       set.TelemetrySettings,
		now:       time.Now,
		tracker:   scrape.NewTracker(),
		shown:     &page.Page{},
		live:      map[uint64]struct{}{},
		ask:       make(chan struct{}, 1),
		infoDone:  make(chan struct{}),
	}
	if ec.CollectionInterval != 0 {
		e.interval = ec.CollectionInterval
	}
	e.label = attribute.String(attrEngine, e.id)
	e.attrs = metric.WithAttributeSet(attribute.NewSet(e.label))
	e.ctx, e.cancel = context.WithCancel(context.Background())
	return e
}

func (e *engine) start(ctx context.Context, host component.Host) error {
	cc := e.cfg.ClientConfig
	// A GET has no body to compress; answers may be gzip without being asked.
	cc.Compression = ""
	if cc.Timeout == 0 {
		cc.Timeout = min(e.interval, maxTimeout)
	}
	client, err := cc.ToClient(ctx, host.GetExtensions(), e.set)
	if err != nil {
		return fmt.Errorf("engine %s: %w", e.id, err)
	}
	e.pages = scrape.NewFetcher(client, scrape.AcceptText, e.maxBytes)
	e.infos = scrape.NewFetcher(client, scrape.AcceptJSON, maxInfoBytes)
	begun := e.now()
	e.lastGood.Store(&begun)
	if e.infoEvery == 0 {
		close(e.infoDone)
		return nil
	}
	e.asking.Go(e.askLoop)
	return nil
}

// wait is for after cancel.
func (e *engine) wait() { e.asking.Wait() }

// scrape gives the page's metrics and the ends of series that were there before.
// On an error these ends are all there is, and the error is a partial one. An
// engine that stays down is an error, which the controller logs, once in
// tellAgain; every failed scrape is counted.
func (e *engine) scrape(ctx context.Context) (pmetric.Metrics, error) {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	defer context.AfterFunc(e.ctx, cancel)()
	e.awaitInfo(ctx)
	at := e.now()
	p, err := e.read(ctx)
	if e.ctx.Err() != nil {
		return pmetric.NewMetrics(), e.ctx.Err()
	}
	e.telemetry.ReceiverSglangScrapeDuration.Record(ctx, e.now().Sub(at).Seconds(), e.attrs)
	if err != nil {
		return e.failed(ctx, at, err)
	}
	e.good(ctx, p, at)
	md := e.metrics(p, at)
	return md, nil
}

func (e *engine) read(ctx context.Context) (*page.Page, error) {
	a, err := e.pages.Get(ctx, e.cfg.base()+e.cfg.MetricsPath)
	if err != nil {
		return nil, err
	}
	p, err := page.Parse(a.Body, a.ContentType, e.options)
	if err == nil && p.OpenEnd && !a.Framed {
		err = page.ErrTruncated
	}
	if err != nil {
		return nil, scrape.PageError(err)
	}
	e.telemetry.ReceiverSglangPageSize.Record(ctx, int64(len(a.Body)), e.attrs)
	return p, nil
}

func (e *engine) failed(ctx context.Context, at time.Time, err error) (pmetric.Metrics, error) {
	reason := scrape.ReasonOf(err)
	again := e.down && e.told.reason == reason && at.Sub(e.told.at) < tellAgain
	e.down = true
	e.telemetry.ReceiverSglangEngineUp.Record(ctx, 0, e.attrs)
	e.telemetry.ReceiverSglangFailedScrapes.Add(ctx, 1, e.because(string(reason)))
	md := e.metrics(&page.Page{}, at)
	if again {
		e.set.Logger.Debug("Engine is still down", zap.String(attrEngine, e.id), zap.Error(err))
		return md, nil
	}
	e.told.reason, e.told.at = reason, at
	return md, scrapererror.NewPartialScrapeError(fmt.Errorf("engine %s: %w", e.id, err), e.shown.SeriesCount())
}

func (e *engine) good(ctx context.Context, p *page.Page, at time.Time) {
	restarted := e.tracker.Observe(p, uint64(at.UnixNano()))
	if restarted {
		e.telemetry.ReceiverSglangEngineRestarts.Add(ctx, 1, e.attrs)
	}
	if restarted || e.down {
		e.askSoon()
	}
	if e.down {
		e.set.Logger.Info("Engine is up again", zap.String(attrEngine, e.id))
	}
	e.down = false
	e.lastGood.Store(&at)
	e.telemetry.ReceiverSglangEngineUp.Record(ctx, 1, e.attrs)
	e.telemetry.ReceiverSglangPageSeries.Record(ctx, int64(p.SeriesCount()), e.attrs)
	for reason, n := range p.Refused {
		e.telemetry.ReceiverSglangRefusedSamples.Add(ctx, int64(n), e.because(string(reason)))
	}
}

func (e *engine) because(reason string) metric.MeasurementOption {
	return metric.WithAttributeSet(attribute.NewSet(e.label, attribute.String(attrReason, reason)))
}

// metrics is p and a stale point for each series of the page shown before that is not in p.
func (e *engine) metrics(p *page.Page, at time.Time) pmetric.Metrics {
	md := pmetric.NewMetrics()
	rm := md.ResourceMetrics().AppendEmpty()
	sm := rm.ScopeMetrics().AppendEmpty()
	sm.Scope().SetName(metadata.ScopeName)
	clear(e.live)
	for _, f := range p.Families {
		for i := range f.Series {
			e.live[f.Series[i].Key] = struct{}{}
		}
	}
	scrape.AppendStale(sm.Metrics(), e.shown, e.live, pcommon.NewTimestampFromTime(at.Add(-staleLead)))
	scrape.Append(sm.Metrics(), p, pcommon.NewTimestampFromTime(at))
	e.sent = p
	if sm.Metrics().Len() == 0 {
		return pmetric.NewMetrics()
	}
	e.resource(rm.Resource().Attributes())
	return md
}

func (e *engine) resource(attrs pcommon.Map) {
	attrs.PutStr(attrServiceName, e.cfg.service())
	attrs.PutStr(attrServiceInstance, e.id)
	e.info.Load().Put(attrs)
	for k, v := range e.cfg.ResourceAttributes {
		attrs.PutStr(k, v)
	}
}

// deliverTo remembers which page the next consumer took: what it refused was not
// shown, and does not end series a second time or too early.
func (e *engine) deliverTo(next consumer.Metrics) consumer.ConsumeMetricsFunc {
	return func(ctx context.Context, md pmetric.Metrics) error {
		err := next.ConsumeMetrics(ctx, md)
		if err == nil && e.sent != nil {
			e.shown = e.sent
		}
		e.sent = nil
		return err
	}
}

func (e *engine) observeAge(o metric.Float64Observer) {
	last := e.lastGood.Load()
	if last == nil {
		return
	}
	o.Observe(e.now().Sub(*last).Seconds(), e.attrs)
}
