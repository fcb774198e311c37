// Copyright The otelcol-sglang Authors
// SPDX-License-Identifier: Apache-2.0

package cli // import "github.com/otelcol-sglang/otelcol-sglang/cmd/sglangctl/internal/cli"

import (
	"context"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"net/url"
	"os"
	"path/filepath"
	"sync"
	"time"

	"github.com/spf13/cobra"

	"github.com/otelcol-sglang/otelcol-sglang/cmd/sglangctl/internal/replay"
	"github.com/otelcol-sglang/otelcol-sglang/cmd/sglangctl/internal/status"
	"github.com/otelcol-sglang/otelcol-sglang/cmd/sglangctl/internal/up"
)

// environment variables that config/quickstart.yaml reads.
const (
	envEngine = "ENGINE"
	envData   = "SGLANG_DATA"
)

// demo is the collector with its quickstart, and an engine or a replay.
type demo struct {
	source
	binary, config, data, engine string
	// settle is how long after the first round of requests the collector may
	// take to let the last of them go: rankdedup's and genai's waits, the file's flush.
	settle time.Duration
	// every is the time between two lines about what came in.
	every time.Duration
}

func newUp() *cobra.Command {
	d := &demo{}
	cmd := &cobra.Command{
		Use:   "up",
		Short: "Run the collector with the quickstart and feed it, until interrupted",
		Long: `Run the collector with config/quickstart.yaml until interrupted. Without --engine
it is fed recorded engine telemetry; with --engine it scrapes that engine's
metrics page and waits for its spans.`,
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			return d.run(cmd.Context(), cmd.OutOrStdout())
		},
	}
	f := cmd.Flags()
	d.flags(f)
	f.StringVar(&d.binary, "collector", "", "the collector's binary (default otelcol-sglang beside this one)")
	f.StringVar(&d.config, "config", "config/quickstart.yaml", "the collector's configuration")
	f.StringVar(&d.data, "data", defaultData, "folder for the traces and the collector's log")
	f.StringVar(&d.engine, "engine", os.Getenv(envEngine), "a real engine, such as http://host:30000 (env "+envEngine+")")
	f.Float64Var(&d.Rate, "rate", 0.2, "repetitions that each replayed engine starts in a second")
	f.DurationVar(&d.settle, "settle", 4*time.Second, "pause between the first round of requests and the summary")
	f.DurationVar(&d.every, "every", 30*time.Second, "time between two summaries")
	return cmd
}

func (d *demo) run(ctx context.Context, out io.Writer) error {
	if err := d.check(); err != nil {
		return err
	}
	// The engine's page is there before the first scrape.
	if d.engine == "" {
		stop, err := d.servePage(ctx)
		if err != nil {
			return err
		}
		defer stop()
	}
	collector, err := up.Start(ctx, d.collector())
	if err != nil {
		return err
	}
	fmt.Fprintf(out, "collector is up, its log is %s\n", d.log())
	err = d.feed(ctx, out, collector)
	fmt.Fprintln(out, "\nstopping the collector, so that it writes what it holds")
	return errors.Join(err, collector.Stop())
}

func (d *demo) check() error {
	if d.binary == "" {
		self, err := os.Executable()
		if err != nil {
			return err
		}
		d.binary = filepath.Join(filepath.Dir(self), "otelcol-sglang")
	}
	if d.every <= 0 || d.settle < 0 {
		return fmt.Errorf("every must be greater than 0 and settle not negative (got %s, %s)", d.every, d.settle)
	}
	if d.engine != "" {
		u, err := url.Parse(d.engine)
		if err != nil || u.Host == "" || (u.Scheme != "http" && u.Scheme != "https") {
			return fmt.Errorf("engine must be a URL such as http://host:30000 (got %q)", d.engine)
		}
		return nil
	}
	d.loop, d.Seed = true, rand.Uint64()
	d.Protocol, d.Endpoint = replay.ProtocolGRPC, addrGRPC
	return d.resolve()
}

func (d *demo) log() string { return filepath.Join(d.data, "collector.log") }

func (d *demo) collector() up.Collector {
	const grace = 20 * time.Second
	c := up.Collector{
		Binary: d.binary, Config: d.config, Log: d.log(), Health: "http://" + addrHealth + "/", Grace: grace,
		Ports: []string{addrGRPC, addrHTTP, addrOwn, addrMetrics, addrHealth},
		Env:   []string{envData + "=" + d.data},
	}
	engine := d.engine
	if engine == "" {
		engine = "http://" + d.metricsListen
	}
	c.Env = append(c.Env, envEngine+"="+engine)
	return c
}

// feed returns when ctx ends, with nil, or when the collector dies.
func (d *demo) feed(ctx context.Context, out io.Writer, collector *up.Process) error {
	ctx, cancel := context.WithCancel(ctx)
	var running sync.WaitGroup
	defer running.Wait()
	defer cancel()
	ready := make(chan struct{})
	if d.engine == "" {
		if err := d.replay(ctx, out, &running, func() { close(ready) }); err != nil {
			return err
		}
	} else {
		fmt.Fprintf(out, "scraping %s; waiting for its spans on %s (gRPC) and %s (HTTP)\n", d.engine, addrGRPC, addrHTTP)
		close(ready)
	}
	running.Go(func() { d.tell(ctx, out, ready) })
	select {
	case <-ctx.Done():
		return nil
	case <-collector.Done():
		return collector.Death()
	}
}

// replay starts the engines; first is called after the first round of requests.
func (d *demo) replay(ctx context.Context, out io.Writer, running *sync.WaitGroup, first func()) error {
	d.OnFirst = func(s replay.Stats) {
		fmt.Fprintln(out, sent(s))
		first()
	}
	player, err := replay.New(d.Options)
	if err != nil {
		return err
	}
	fmt.Fprintf(out, "replaying %d captures of real engines, their metrics page is http://%s/metrics\n", len(d.Captures), d.metricsListen)
	running.Go(func() {
		if err := errors.Join(player.Run(ctx), player.Close()); err != nil && ctx.Err() == nil {
			fmt.Fprintln(out, "replay:", err)
		}
	})
	return nil
}

// tell prints where to look, then every so often what came in.
func (d *demo) tell(ctx context.Context, out io.Writer, ready <-chan struct{}) {
	select {
	case <-ready:
	case <-ctx.Done():
		return
	}
	if !pause(ctx, d.settle) {
		return
	}
	d.summary(ctx, out)
	fmt.Fprintf(out, `
  metrics    http://%s/metrics     for Prometheus (honor_labels: true)
  traces     %s     one line of OTLP/JSON per batch
  collector  http://%s/metrics     its own telemetry

  bin/sglangctl traces           the requests
  bin/sglangctl trace slowest    one request, stage by stage
  bin/sglangctl summary          what came in, went out, was refused

Ctrl-C ends it.
`, addrMetrics, filepath.Join(d.data, tracesFile), addrOwn)
	for pause(ctx, d.every) {
		d.summary(ctx, out)
	}
}

func (d *demo) summary(ctx context.Context, out io.Writer) {
	page, err := status.Fetch(ctx, ownMetricURL)
	if err != nil {
		if ctx.Err() == nil {
			fmt.Fprintln(out, "the collector's own telemetry does not answer:", err)
		}
		return
	}
	status.Of(page).Print(out)
}

// pause returns false where ctx ended first.
func pause(ctx context.Context, d time.Duration) bool {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-ctx.Done():
		return false
	case <-timer.C:
		return true
	}
}
