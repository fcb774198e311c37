// Copyright The otelcol-sglang Authors
// SPDX-License-Identifier: Apache-2.0

// Package send exports a load as an engine's processes do: each over its own
// connection, one batch at a time.
package send // import "github.com/otelcol-sglang/otelcol-sglang/bench/internal/send"

import (
	"context"
	"fmt"
	"time"

	"golang.org/x/sync/errgroup"
	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials/insecure"

	"github.com/otelcol-sglang/otelcol-sglang/bench/internal/load"
)

const method = "/opentelemetry.proto.collector.trace.v1.TraceService/Export"

// Conns are an engine's connections to a collector, one per process.
type Conns []*grpc.ClientConn

// Dial opens n connections.
func Dial(endpoint string, n int) (Conns, error) {
	var conns Conns
	for range n {
		c, err := grpc.NewClient(endpoint, grpc.WithTransportCredentials(insecure.NewCredentials()),
			grpc.WithDefaultCallOptions(grpc.ForceCodec(raw{})))
		if err != nil {
			conns.Close()
			return nil, err
		}
		conns = append(conns, c)
	}
	return conns, nil
}

// Close closes all of them.
func (c Conns) Close() {
	for _, conn := range c {
		_ = conn.Close()
	}
}

// Send exports each batch when it is due, and later if the collector is slow. behind
// is how late the last one was acknowledged. A refused batch is an error.
func (c Conns) Send(ctx context.Context, l load.Load) (behind time.Duration, err error) {
	g, ctx := errgroup.WithContext(ctx)
	start := time.Now()
	for i, batches := range l.Processes {
		g.Go(func() error { return export(ctx, c[i], batches, start) })
	}
	err = g.Wait()
	return time.Since(start) - l.Duration(), err
}

func export(ctx context.Context, conn *grpc.ClientConn, batches []load.Batch, start time.Time) error {
	for i := range batches {
		if err := sleepUntil(ctx, start.Add(batches[i].Due)); err != nil {
			return err
		}
		var reply []byte
		if err := conn.Invoke(ctx, method, &batches[i].Body, &reply, grpc.WaitForReady(true)); err != nil {
			return fmt.Errorf("batch %d of %d: %w", i+1, len(batches), err)
		}
	}
	return nil
}

func sleepUntil(ctx context.Context, t time.Time) error {
	timer := time.NewTimer(time.Until(t))
	defer timer.Stop()
	select {
	case <-ctx.Done():
		return ctx.Err()
	case <-timer.C:
		return nil
	}
}

// raw passes encoded messages on.
type raw struct{}

func (raw) Name() string                  { return "proto" }
func (raw) Marshal(v any) ([]byte, error) { return *v.(*[]byte), nil }
func (raw) Unmarshal(data []byte, v any) error {
	*v.(*[]byte) = append([]byte(nil), data...)
	return nil
}
