// Copyright The otelcol-sglang Authors
// SPDX-License-Identifier: Apache-2.0

// Command bench compares whole pipelines by the CPU time that the same input costs
// them (docs/performance.md). It is started by `make bench-compare`.
package main // import "github.com/otelcol-sglang/otelcol-sglang/bench"

import (
	"context"
	"flag"
	"fmt"
	"io"
	"os"
	"os/signal"
	"time"

	"github.com/otelcol-sglang/otelcol-sglang/bench/internal/load"
	"github.com/otelcol-sglang/otelcol-sglang/bench/internal/report"
	"github.com/otelcol-sglang/otelcol-sglang/bench/internal/sink"
)

// sinkMode is the argument of this program's process that is the sink.
const sinkMode = "sink"

type options struct {
	shape  load.Shape
	rounds int
	// binary is the collector of a and b, peer that of c.
	binary, peer string
	only         string
	doc          string
	// profile is a folder for CPU profiles of the pipelines; empty: none.
	profile string
}

func main() {
	if len(os.Args) == 2 && os.Args[1] == sinkMode {
		exit(sink.Serve(os.Stdin, os.Stdout))
	}
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
	defer stop()
	exit(run(ctx, os.Stdout, parse()))
}

func exit(err error) {
	if err != nil {
		fmt.Fprintln(os.Stderr, "bench:", err)
		os.Exit(1)
	}
	os.Exit(0)
}

func parse() options {
	o := options{}
	flag.IntVar(&o.shape.TP, "tp", 8, "tensor-parallel ranks")
	flag.IntVar(&o.shape.Slots, "slots", 16, "requests at a time")
	flag.IntVar(&o.shape.Requests, "requests", 112, "requests")
	flag.IntVar(&o.shape.MinTokens, "min-tokens", 200, "least decode steps of a request")
	flag.IntVar(&o.shape.MaxTokens, "max-tokens", 500, "most decode steps of a request")
	flag.DurationVar(&o.shape.Step, "step", 12800*time.Microsecond, "time of a decode step")
	flag.IntVar(&o.shape.BatchSpans, "batch", 64, "spans in a batch")
	flag.DurationVar(&o.shape.Delay, "delay", 500*time.Millisecond, "most time that a span waits for its batch")
	flag.IntVar(&o.rounds, "rounds", 5, "runs of each pipeline")
	flag.StringVar(&o.binary, "binary", "../bin/otelcol-sglang", "collector of a and b")
	flag.StringVar(&o.peer, "peer", "otelcol-peer/otelcol-peer", "collector of c")
	flag.StringVar(&o.only, "only", "abc", "pipelines to run")
	flag.StringVar(&o.doc, "doc", "", "document whose generated part to replace")
	flag.StringVar(&o.profile, "profile", "", "folder for CPU profiles")
	flag.Parse()
	o.shape.Seed = 1
	return o
}

func run(ctx context.Context, out io.Writer, o options) error {
	b, err := newBench(out, o)
	if err != nil {
		return err
	}
	fmt.Fprintf(out, "load: %d requests, %d spans, %.1f MB, %.1f s\n", b.load.Requests, b.load.Spans, float64(b.load.Bytes)/1e6, b.load.Duration().Seconds())
	for round := range o.rounds {
		for i := range b.contestants {
			if err := b.turn(ctx, round, &b.contestants[i]); err != nil {
				return fmt.Errorf("round %d, %s: %w", round+1, b.contestants[i].name, err)
			}
		}
	}
	text := b.text()
	fmt.Fprint(out, "\n", text)
	if o.doc == "" {
		return nil
	}
	return report.Write(o.doc, "bench-compare", text)
}
