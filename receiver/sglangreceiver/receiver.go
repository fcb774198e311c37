// Copyright The otelcol-sglang Authors
// SPDX-License-Identifier: Apache-2.0

package sglangreceiver // import "github.com/otelcol-sglang/otelcol-sglang/receiver/sglangreceiver"

import (
	"context"
	"errors"
	"sync"
	"sync/atomic"
	"time"

	"go.opentelemetry.io/collector/component"
	"go.opentelemetry.io/collector/receiver"
	"go.uber.org/zap"
)

// shutdownGrace bounds the shutdown of the servers, which else wait for ever for a
// sender that stands still in the middle of a request, and with them everything
// behind waits to be flushed.
const shutdownGrace = 10 * time.Second

// shared is what the receivers of one configuration have in common: the inner
// OTLP receiver's configuration, by whose address the core shares one instance of
// it between traces, metrics and logs.
type shared struct {
	cfg  *Config
	otlp component.Config
	// scraped: a metrics pipeline takes what the engines' pages say.
	scraped atomic.Bool
	warned  atomic.Bool
}

// instances holds *Config → *shared from the first creation to the first shutdown.
var instances sync.Map

func sharedOf(cfg *Config) *shared {
	if s, ok := instances.Load(cfg); ok {
		return s.(*shared)
	}
	s, _ := instances.LoadOrStore(cfg, &shared{cfg: cfg, otlp: otlpConfig(cfg.Protocols)})
	return s.(*shared)
}

// part is the receiver of one signal.
type part struct {
	shared  *shared
	logger  *zap.Logger
	otlp    component.Component
	engines *engines
	// grace is how long a shutdown waits for requests that are open.
	grace   time.Duration
	stop    sync.Once
	stopErr error
}

var (
	_ receiver.Traces  = (*part)(nil)
	_ receiver.Metrics = (*part)(nil)
	_ receiver.Logs    = (*part)(nil)
)

func newPart(s *shared, set receiver.Settings, otlp component.Component) *part {
	return &part{shared: s, logger: set.Logger, otlp: otlp, grace: shutdownGrace}
}

// Start starts the servers with the first signal's part; the core's shared
// receiver does nothing for the others but to report their status.
func (p *part) Start(ctx context.Context, host component.Host) error {
	if err := p.otlp.Start(ctx, newPeerHost(host)); err != nil {
		return err
	}
	if p.engines != nil {
		return p.engines.start(ctx, host)
	}
	s := p.shared
	if len(s.cfg.Engines) > 0 && !s.scraped.Load() && !s.warned.Swap(true) {
		p.logger.Warn("engines are configured and not scraped, as the receiver is in no metrics pipeline")
	}
	return nil
}

// Shutdown stops this signal's part, and with the first part the servers of all
// signals. Further calls do nothing.
func (p *part) Shutdown(ctx context.Context) error {
	p.stop.Do(func() {
		instances.CompareAndDelete(p.shared.cfg, p.shared)
		p.stopErr = p.stopServers(ctx)
		if p.engines != nil {
			p.stopErr = errors.Join(p.stopErr, p.engines.shutdown(ctx))
		}
	})
	return p.stopErr
}

func (p *part) stopServers(ctx context.Context) error {
	done := make(chan error, 1)
	go func() { done <- p.otlp.Shutdown(ctx) }()
	grace := time.NewTimer(p.grace)
	defer grace.Stop()
	select {
	case err := <-done:
		return err
	case <-ctx.Done():
		return ctx.Err()
	case <-grace.C:
		p.logger.Warn("senders have requests open that do not end, shutting down without them", zap.Duration("waited", p.grace))
		return nil
	}
}
