// Copyright The otelcol-sglang Authors
// SPDX-License-Identifier: Apache-2.0

package main // import "github.com/otelcol-sglang/otelcol-sglang/bench/sizing"

import (
	"context"
	"fmt"
	"os"
	"strings"
	"time"

	"github.com/otelcol-sglang/otelcol-sglang/bench/internal/load"
	"github.com/otelcol-sglang/otelcol-sglang/bench/internal/send"
	"github.com/otelcol-sglang/otelcol-sglang/bench/internal/sink"
)

// quiet without a span at the sink means that all has been handed on: longer than the
// waits of both tiers.
const quiet = 25 * time.Second

// tierRun is what an agent and a gateway needed for one engine's spans.
type tierRun struct {
	Slots, Requests, SpansIn, SpansOut int
	Seconds                            float64
	// bytes on the network: into the agent, from it to the gateway, from there.
	In, Between, Out int
	Agent, Gateway   usage
	Behind           time.Duration
}

// measureTiers sends an engine's spans through agent-gateway.yaml and gateway.yaml.
func (o options) measureTiers(ctx context.Context, shape load.Shape) (tierRun, error) {
	self, err := os.Executable()
	if err != nil {
		return tierRun{}, err
	}
	to, err := sink.Start(self, sinkMode)
	if err != nil {
		return tierRun{}, err
	}
	defer func() { _ = to.Stop() }()
	gateway, err := o.start(ctx, "gateway.yaml", to.Address, "")
	if err != nil {
		return tierRun{}, err
	}
	defer gateway.close()
	between, err := startRelay(gateway.GRPC)
	if err != nil {
		return tierRun{}, err
	}
	defer between.Close()
	agent, err := o.start(ctx, "agent-gateway.yaml", between.Addr().String(), "[]")
	if err != nil {
		return tierRun{}, err
	}
	defer agent.close()
	return exchange(ctx, shape, agent, gateway, between, to)
}

func exchange(ctx context.Context, shape load.Shape, agent, gateway *instance, between *relay, to *sink.Process) (r tierRun, err error) {
	conns, err := send.Dial(agent.GRPC, shape.TP+1)
	if err != nil {
		return r, err
	}
	defer conns.Close()
	before, err := warmUp(ctx, shape, conns, to)
	if err != nil {
		return r, err
	}
	l, err := load.Make(shape, time.Now())
	if err != nil {
		return r, err
	}
	sent := between.bytes.Load()
	if err := agent.begin(); err != nil {
		return r, err
	}
	if err := gateway.begin(); err != nil {
		return r, err
	}
	if r.Behind, err = conns.Send(ctx, l); err != nil {
		return r, err
	}
	all, err := to.Quiet(ctx, quiet)
	if err != nil {
		return r, err
	}
	out := all.Sub(before)
	r.Slots, r.Requests, r.SpansIn, r.SpansOut = shape.Slots, l.Requests, l.Spans, out.Spans
	r.Seconds, r.In, r.Between, r.Out = l.Duration().Seconds(), l.Bytes, int(between.bytes.Load()-sent), out.Bytes
	if out.Roots != l.Requests {
		return r, fmt.Errorf("%d of %d requests came out", out.Roots, l.Requests)
	}
	if r.Agent, err = agent.end(l.Duration()); err != nil {
		return r, err
	}
	r.Gateway, err = gateway.end(l.Duration())
	return r, err
}

// warmUp makes the engine's ranks known.
func warmUp(ctx context.Context, s load.Shape, conns send.Conns, to *sink.Process) (sink.Counts, error) {
	s.Requests, s.MinTokens, s.MaxTokens, s.Seed = 2*s.Slots, 20, 60, 1000+s.Seed
	l, err := load.Make(s, time.Now())
	if err != nil {
		return sink.Counts{}, err
	}
	if _, err := conns.Send(ctx, l); err != nil {
		return sink.Counts{}, err
	}
	return to.Quiet(ctx, quiet)
}

func (o options) agentTable(runs []tierRun) string {
	var b strings.Builder
	fmt.Fprintf(&b, "Agent: an engine of TP 8 at trace level 3, requests of 200 to 500 decode steps, one step in %s, batches of 64 spans.\n\n", o.step)
	b.WriteString("| `agent-gateway.yaml`: requests at a time | Spans/s in | Requests/s | CPU, cores | Peak memory MiB | Mbit/s in | Mbit/s out | Behind s |\n")
	b.WriteString("|---:|---:|---:|---:|---:|---:|---:|---:|\n")
	for _, r := range runs {
		fmt.Fprintf(&b, "| %d | %.0f | %.1f | %.2f | %d | %.1f | %.2f | %.1f |\n", r.Slots, r.per(r.SpansIn), r.per(r.Requests),
			r.Agent.CPU, r.Agent.Peak>>20, r.mbit(r.In), r.mbit(r.Between), r.Behind.Seconds())
	}
	if len(runs) > 1 {
		first, last := runs[0], runs[len(runs)-1]
		fmt.Fprintf(&b, "\nEach 1 000 spans/s in cost %.3f cores more. A request is %.0f spans and %.0f kB on the way in, %.1f kB on the way out (gzip).\n",
			(last.Agent.CPU-first.Agent.CPU)/(last.per(last.SpansIn)-first.per(first.SpansIn))*1000,
			last.each(last.SpansIn), last.each(last.In)/1e3, last.each(last.Between)/1e3)
	}
	return b.String()
}

func (o options) gatewayTable(runs []tierRun) string {
	var b strings.Builder
	fmt.Fprintf(&b, "Gateway, behind an agent that folds: requests of 5 to 20 decode steps of an engine of TP 2, one step in %s. "+
		"How many steps a request has makes no difference here.\n\n", o.step)
	b.WriteString("| `gateway.yaml`: requests at a time | Requests/s | Spans/s out | CPU, cores | Peak memory MiB | Mbit/s in | Mbit/s out |\n")
	b.WriteString("|---:|---:|---:|---:|---:|---:|---:|\n")
	for _, r := range runs {
		fmt.Fprintf(&b, "| %d | %.0f | %.0f | %.3f | %d | %.2f | %.2f |\n", r.Slots, r.per(r.Requests), r.per(r.SpansOut),
			r.Gateway.CPU, r.Gateway.Peak>>20, r.mbit(r.Between), r.mbit(r.Out))
	}
	if len(runs) > 1 {
		first, last := runs[0], runs[len(runs)-1]
		fmt.Fprintf(&b, "\nEach 100 requests/s cost %.3f cores and %.0f MiB more.\n",
			(last.Gateway.CPU-first.Gateway.CPU)/(last.per(last.Requests)-first.per(first.Requests))*100,
			float64(last.Gateway.Peak-first.Gateway.Peak)/(1<<20)/(last.per(last.Requests)-first.per(first.Requests))*100)
	}
	return b.String()
}

func (r tierRun) per(count int) float64  { return float64(count) / r.Seconds }
func (r tierRun) mbit(bytes int) float64 { return float64(bytes) * 8 / 1e6 / r.Seconds }

// each is a request's share.
func (r tierRun) each(count int) float64 { return float64(count) / float64(r.Requests) }
