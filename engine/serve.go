// Copyright The otelcol-sglang Authors
// SPDX-License-Identifier: Apache-2.0

package engine // import "github.com/otelcol-sglang/otelcol-sglang/engine"

import (
	"context"
	"errors"
	"maps"
	"net"
	"net/http"
	"sync"
	"time"

	"github.com/otelcol-sglang/otelcol-sglang/engine/page"
)

const (
	// grace is how long requests may go on after the engine was asked to end, and
	// flushTime how long their last spans may take.
	grace     = 5 * time.Second
	flushTime = 5 * time.Second
	// livePoll is how often it looks for live requests meanwhile.
	livePoll = 50 * time.Millisecond

	headerTimeout = 10 * time.Second
)

// Serve runs the engine in real time and answers on l until ctx is done; then it
// lets requests end, for a while, and sends what spans are left.
func (e *Engine) Serve(ctx context.Context, l net.Listener) error {
	server := &http.Server{Handler: e.Service, ReadHeaderTimeout: headerTimeout}
	failed := make(chan error, 1)
	running, stop := context.WithCancel(context.WithoutCancel(ctx))
	defer stop()
	var wg sync.WaitGroup
	wg.Go(func() { failed <- server.Serve(l) })
	wg.Go(func() { _ = e.Loop.Run(running) }) // it only ends with its context
	exporter, err := e.exportMetrics(running, &wg)
	if err != nil {
		stop()
		return errors.Join(err, server.Close(), e.close())
	}
	e.Loop.Post(e.Start)
	select {
	case <-ctx.Done():
	case err = <-failed:
	}
	e.drain(server)
	stop()
	wg.Wait()
	if exporter != nil {
		err = errors.Join(err, exporter.Close())
	}
	flush, cancel := context.WithTimeout(context.WithoutCancel(ctx), flushTime)
	defer cancel()
	return errors.Join(err, e.Shutdown(flush))
}

// exportMetrics sends the page as OTLP too, where the arguments ask for it; nil
// otherwise.
func (e *Engine) exportMetrics(ctx context.Context, wg *sync.WaitGroup) (*page.Exporter, error) {
	if e.Args.OTLPMetricsEndpoint == "" || !e.Args.EnableMetrics {
		return nil, nil
	}
	resource := map[string]string{attrServiceName: e.Args.OTLPServiceName}
	maps.Copy(resource, e.opts.Resource)
	x, err := page.NewExporter(e.Page.Store(), e.Args.OTLPMetricsEndpoint, resource, time.Now())
	if err != nil {
		return nil, err
	}
	e.Loop.Post(func() { e.onRestart = func() { x.Restarted(time.Now()) } })
	now := func() time.Time {
		e.Loop.Post(e.Settle) // for the next export at the latest
		return time.Now()
	}
	wg.Go(func() { x.Run(ctx, metricsInterval, now) })
	return x, nil
}

const (
	attrServiceName = "service.name"
	// metricsInterval is that of OpenTelemetry's SDKs, shortened as scrapes are.
	metricsInterval = 10 * time.Second
)

// drain waits for requests, and aborts those that take too long.
func (e *Engine) drain(server *http.Server) {
	e.Service.Close()
	ctx, cancel := context.WithTimeout(context.Background(), grace)
	defer cancel()
	e.Loop.Post(func() {
		if e.Clients != nil {
			e.Clients.Stop()
		}
	})
	e.awaitIdle(ctx)
	e.Loop.Post(func() { e.Front.AbortAll() })
	last, cancelLast := context.WithTimeout(context.Background(), time.Second)
	defer cancelLast()
	e.awaitIdle(last) // so that roots of the aborted end too
	if server.Shutdown(last) != nil {
		_ = server.Close() // whoever still listens does not read
	}
}

// awaitIdle waits until no request lives, or ctx ends.
func (e *Engine) awaitIdle(ctx context.Context) {
	poll := time.NewTicker(livePoll)
	defer poll.Stop()
	for ctx.Err() == nil && e.live() > 0 {
		select {
		case <-poll.C:
		case <-ctx.Done():
		}
	}
}

// live asks the loop.
func (e *Engine) live() int {
	n := make(chan int, 1)
	e.Loop.Post(func() { n <- e.Front.Live() })
	return <-n
}
