// Copyright The otelcol-sglang Authors
// SPDX-License-Identifier: Apache-2.0

package main // import "github.com/otelcol-sglang/otelcol-sglang/bench/sizing"

import (
	"context"
	"fmt"
	"time"

	"github.com/otelcol-sglang/otelcol-sglang/bench/internal/load"
	"github.com/otelcol-sglang/otelcol-sglang/bench/internal/report"
	"github.com/otelcol-sglang/otelcol-sglang/bench/internal/send"
)

// queueBound is queue_size of the configurations that ship, in bytes.
const queueBound = 256 << 20

// queueRun is what waits on disk while the backend is away.
type queueRun struct {
	Requests int
	Bytes    float64
}

// measureQueue sends requests to agent-gateway.yaml in front of nothing.
func (o options) measureQueue(ctx context.Context) (queueRun, error) {
	agent, err := o.start(ctx, "agent-gateway.yaml", "localhost:1", "[]")
	if err != nil {
		return queueRun{}, err
	}
	defer agent.close()
	shape := o.longRequests(8)
	conns, err := send.Dial(agent.GRPC, shape.TP+1)
	if err != nil {
		return queueRun{}, err
	}
	defer conns.Close()
	l, err := load.Make(shape, time.Now())
	if err != nil {
		return queueRun{}, err
	}
	if _, err := conns.Send(ctx, l); err != nil {
		return queueRun{}, err
	}
	const held = 10 * time.Second // longer than the agent's waits
	if err := sleep(ctx, held); err != nil {
		return queueRun{}, err
	}
	text, err := get(ctx, "http://"+agent.Own+"/metrics")
	return queueRun{Requests: l.Requests, Bytes: report.Sum(text, "otelcol_exporter_queue_size")}, err
}

func (r queueRun) text() string {
	each := r.Bytes / float64(r.Requests)
	return fmt.Sprintf("Queue on disk: %.1f kB for each request while the backend is away, so the bound of 256 MiB holds %.0f requests: "+
		"%.1f hours at 5 requests/s. The file may grow to twice the bound.\n", each/1e3, queueBound/each, queueBound/each/5/3600)
}
