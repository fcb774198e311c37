// Copyright The otelcol-sglang Authors
// SPDX-License-Identifier: Apache-2.0

package sglangreceiver // import "github.com/otelcol-sglang/otelcol-sglang/receiver/sglangreceiver"

import (
	"context"
	"errors"

	"go.opentelemetry.io/collector/component"
	"go.opentelemetry.io/collector/consumer"
	"go.opentelemetry.io/collector/receiver"
	"go.opentelemetry.io/collector/scraper"
	"go.opentelemetry.io/collector/scraper/scraperhelper"
	"go.opentelemetry.io/otel/metric"

	"github.com/otelcol-sglang/otelcol-sglang/receiver/sglangreceiver/internal/metadata"
)

// engines scrapes each engine from a controller, and so a goroutine, of its own:
// one that hangs or fails does not touch the others.
type engines struct {
	all         []*engine
	controllers []receiver.Metrics
	telemetry   *metadata.TelemetryBuilder
}

func newEngines(set receiver.Settings, cfg *Config, next consumer.Metrics) (*engines, error) {
	telemetry, err := metadata.NewTelemetryBuilder(set.TelemetrySettings)
	if err != nil {
		return nil, err
	}
	es := &engines{telemetry: telemetry}
	for i := range cfg.Engines {
		if err := es.add(set, cfg, &cfg.Engines[i], next); err != nil {
			return nil, err
		}
	}
	return es, nil
}

func (es *engines) add(set receiver.Settings, cfg *Config, ec *EngineConfig, next consumer.Metrics) error {
	e := newEngine(set, cfg, ec, es.telemetry)
	s, err := scraper.NewMetrics(e.scrape, scraper.WithStart(e.start))
	if err != nil {
		return err
	}
	deliver, err := consumer.NewMetrics(e.deliverTo(next))
	if err != nil {
		return err
	}
	schedule := scraperhelper.NewDefaultControllerConfig()
	schedule.CollectionInterval = e.interval
	schedule.InitialDelay = cfg.InitialDelay
	if ec.InitialDelay != nil {
		schedule.InitialDelay = *ec.InitialDelay
	}
	c, err := scraperhelper.NewMetricsController(&schedule, set, deliver, scraperhelper.AddMetricsScraper(metadata.Type, s))
	if err != nil {
		return err
	}
	es.all = append(es.all, e)
	es.controllers = append(es.controllers, c)
	return nil
}

func (es *engines) start(ctx context.Context, host component.Host) error {
	if len(es.all) == 0 {
		return nil
	}
	err := es.telemetry.RegisterReceiverSglangScrapeAgeCallback(func(_ context.Context, o metric.Float64Observer) error {
		for _, e := range es.all {
			e.observeAge(o)
		}
		return nil
	})
	if err != nil {
		return err
	}
	for _, c := range es.controllers {
		if err := c.Start(ctx, host); err != nil {
			return err
		}
	}
	return nil
}

// shutdown is called once.
func (es *engines) shutdown(ctx context.Context) error {
	var errs []error
	for _, e := range es.all {
		e.cancel()
	}
	for i, c := range es.controllers {
		errs = append(errs, c.Shutdown(ctx))
		es.all[i].wait()
	}
	es.telemetry.Shutdown()
	return errors.Join(errs...)
}
