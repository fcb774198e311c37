// Copyright The otelcol-sglang Authors
// SPDX-License-Identifier: Apache-2.0

// Command sizing measures what an instance of the configurations that ship costs at
// several loads: CPU, memory, network (docs/sizing.md). It is started by `make sizing`.
package main // import "github.com/otelcol-sglang/otelcol-sglang/bench/sizing"

import (
	"context"
	"flag"
	"fmt"
	"io"
	"os"
	"os/signal"
	"strconv"
	"strings"
	"time"

	"github.com/otelcol-sglang/otelcol-sglang/bench/internal/load"
	"github.com/otelcol-sglang/otelcol-sglang/bench/internal/report"
	"github.com/otelcol-sglang/otelcol-sglang/bench/internal/sink"
)

// sinkMode is the argument of this program's process that is the sink.
const sinkMode = "sink"

type options struct {
	binary, root, doc string
	// long and short are the loads of spans: how many long or short requests an engine
	// decodes at a time.
	long, short []int
	// engines are the loads of metrics: pages that a collector scrapes.
	engines []int
	step    time.Duration
	// length of a measurement.
	length time.Duration
}

func main() {
	if len(os.Args) == 2 && os.Args[1] == sinkMode {
		exit(sink.Serve(os.Stdin, os.Stdout))
	}
	o, err := parse()
	if err != nil {
		exit(err)
	}
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
	defer stop()
	exit(run(ctx, os.Stdout, o))
}

func exit(err error) {
	if err != nil {
		fmt.Fprintln(os.Stderr, "sizing:", err)
		os.Exit(1)
	}
	os.Exit(0)
}

func parse() (options, error) {
	o := options{}
	long := flag.String("long", "4,8,16,32", "loads of an agent: long requests of an engine of TP 8 at a time")
	short := flag.String("short", "4,16,48", "loads of a gateway: short requests of an engine of TP 2 at a time")
	engines := flag.String("engines", "1,10,40", "loads of metrics: engines whose pages are scraped")
	flag.DurationVar(&o.step, "step", 12800*time.Microsecond, "time of a decode step")
	flag.DurationVar(&o.length, "length", 20*time.Second, "length of a measurement, about")
	flag.StringVar(&o.root, "root", "..", "the project's folder")
	flag.StringVar(&o.binary, "binary", "../bin/otelcol-sglang", "collector")
	flag.StringVar(&o.doc, "doc", "", "document whose generated part to replace")
	flag.Parse()
	var err error
	if o.long, err = numbers(*long); err != nil {
		return o, err
	}
	if o.short, err = numbers(*short); err != nil {
		return o, err
	}
	o.engines, err = numbers(*engines)
	return o, err
}

func numbers(text string) ([]int, error) {
	var out []int
	for part := range strings.SplitSeq(text, ",") {
		n, err := strconv.Atoi(part)
		if err != nil || n < 1 {
			return nil, fmt.Errorf("%q is no list of positive numbers", text)
		}
		out = append(out, n)
	}
	return out, nil
}

// longRequests are many spans for few requests: what an agent has to do.
func (o options) longRequests(slots int) load.Shape { return o.shape(8, slots, 200, 500) }

// shortRequests are many requests: what a gateway has to do.
func (o options) shortRequests(slots int) load.Shape { return o.shape(2, slots, 5, 20) }

// shape is a load that lasts about as long as wanted.
func (o options) shape(tp, slots, minTokens, maxTokens int) load.Shape {
	each := o.step.Seconds() * float64(minTokens+maxTokens) / 2
	return load.Shape{
		TP: tp, Slots: slots, Requests: max(int(float64(slots)*o.length.Seconds()/each), slots),
		MinTokens: minTokens, MaxTokens: maxTokens,
		Step: o.step, BatchSpans: 64, Delay: 500 * time.Millisecond, Seed: uint64(slots),
	}
}

func (o options) tiers(ctx context.Context, out io.Writer, slots []int, shape func(int) load.Shape) ([]tierRun, error) {
	var runs []tierRun
	for _, n := range slots {
		r, err := o.measureTiers(ctx, shape(n))
		if err != nil {
			return nil, fmt.Errorf("%d requests at a time: %w", n, err)
		}
		fmt.Fprintf(out, "%+v\n", r)
		runs = append(runs, r)
	}
	return runs, nil
}

func run(ctx context.Context, out io.Writer, o options) error {
	long, err := o.tiers(ctx, out, o.long, o.longRequests)
	if err != nil {
		return err
	}
	short, err := o.tiers(ctx, out, o.short, o.shortRequests)
	if err != nil {
		return err
	}
	var pages []pageRun
	for _, engines := range o.engines {
		r, err := o.measurePages(ctx, engines)
		if err != nil {
			return fmt.Errorf("%d engines: %w", engines, err)
		}
		fmt.Fprintf(out, "%+v\n", r)
		pages = append(pages, r)
	}
	queue, err := o.measureQueue(ctx)
	if err != nil {
		return fmt.Errorf("queue: %w", err)
	}
	text := report.Machine() + "\n" + o.agentTable(long) + "\n" + o.gatewayTable(short) + "\n" + pageTable(pages) + "\n" + queue.text()
	fmt.Fprint(out, "\n", text)
	if o.doc == "" {
		return nil
	}
	return report.Write(o.doc, "sizing", text)
}
