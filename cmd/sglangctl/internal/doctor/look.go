// Copyright The otelcol-sglang Authors
// SPDX-License-Identifier: Apache-2.0

package doctor // import "github.com/otelcol-sglang/otelcol-sglang/cmd/sglangctl/internal/doctor"

import (
	"context"
	"sync"
	"time"

	"github.com/otelcol-sglang/otelcol-sglang/cmd/sglangctl/internal/sink"
)

// Options say where to look.
type Options struct {
	// Engines are base URLs, Collectors URLs of collectors' own metrics.
	Engines, Collectors []string
	// GRPC and HTTP are the OTLP receiver's addresses; empty ones are not looked at.
	GRPC, HTTP string
	// Traces is the file of the quickstart's traces, "" for none.
	Traces string
	// Want names flag checks, without "flag-", that fail where the flag is off.
	Want []string
	// Watch is the time between two readings, which tell what goes on from what is past.
	Watch time.Duration
	// Timeout is for each single question.
	Timeout time.Duration
}

// Facts are what was seen. They are all that the checks know.
type Facts struct {
	Collectors []Collector
	Engines    []Engine
	GRPC, HTTP *Port
	// Traces is nil without a file.
	Traces *Traces
	Want   []string
	// Watched is the time between the two readings.
	Watched time.Duration
}

// Look asks everybody, twice where numbers move.
func Look(ctx context.Context, o Options) Facts {
	f := Facts{
		Collectors: make([]Collector, len(o.Collectors)),
		Engines:    make([]Engine, len(o.Engines)),
		Want:       o.Want, Watched: o.Watch,
	}
	client := newClient(o.Timeout)
	defer client.CloseIdleConnections()
	var asking sync.WaitGroup
	for i, url := range o.Collectors {
		asking.Go(func() { f.Collectors[i].read(ctx, url, o) })
	}
	for i, url := range o.Engines {
		asking.Go(func() { f.Engines[i].read(ctx, client, url) })
	}
	asking.Go(func() { f.GRPC = lookGRPC(ctx, o.GRPC, o.Timeout) })
	asking.Go(func() { f.HTTP = lookHTTP(ctx, client, o.HTTP) })
	asking.Wait()
	// Last, so that what came meanwhile is in the file.
	f.Traces = readTraces(ctx, sink.Sink{Path: o.Traces})
	return f
}

// pause waits, or returns false when ctx ends.
func pause(ctx context.Context, d time.Duration) bool {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
		return true
	case <-ctx.Done():
		return false
	}
}
