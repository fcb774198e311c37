// Copyright The otelcol-sglang Authors
// SPDX-License-Identifier: Apache-2.0

package cli // import "github.com/otelcol-sglang/otelcol-sglang/cmd/sglangctl/internal/cli"

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/otelcol-sglang/otelcol-sglang/cmd/sglangctl/internal/status"
	"github.com/otelcol-sglang/otelcol-sglang/cmd/sglangctl/internal/up"
)

// environment variables that config/quickstart.yaml reads.
const (
	envEngine = "ENGINE"
	envData   = "SGLANG_DATA"
)

// demo is the collector with its quickstart, and something that feeds it.
type demo struct {
	source
	binary, config, data, engine string
	// sim is the simulated engine's binary, simArgs its settings.
	sim     string
	simArgs []string
	pd      bool
	// replays tells that captures were asked for.
	replays bool
	// settle is how long after the first requests the collector may take to let them
	// go: rankdedup's and genai's waits, the file's flush.
	settle time.Duration
	// every is the time between two lines about what came in.
	every time.Duration
}

// feeder is what sends to the collector.
type feeder interface {
	// engineURL is the page that the collector scrapes.
	engineURL() string
	// configs are configurations beside the quickstart.
	configs() []string
	// prepare is before the collector starts, begin after. Done is called once the
	// first requests are through.
	prepare(ctx context.Context) error
	begin(ctx context.Context, out io.Writer, done func()) error
	// died gets an error if it ends by itself.
	died() <-chan error
	stop() error
}

func newUp() *cobra.Command {
	d := &demo{}
	recorded := pflag.NewFlagSet("", pflag.ContinueOnError)
	d.flags(recorded)
	recorded.Float64Var(&d.Rate, "rate", 0.2, "repetitions that each replayed engine starts in a second")
	cmd := &cobra.Command{
		Use:   "up [flags] [-- flags of sglang-sim]",
		Short: "Run the collector with the quickstart and feed it, until interrupted",
		Long: `Run the collector with config/quickstart.yaml until interrupted. It is fed by
a simulated engine under load (what follows "--" are its flags), with --pd by a
prefill and a decode engine, with --captures by recorded telemetry of real
engines; with --engine it scrapes that engine's metrics page and waits for its spans.`,
		RunE: func(cmd *cobra.Command, args []string) error {
			d.simArgs = args
			d.replays = cmd.Flags().Changed("captures")
			if (d.replays || d.pd) && !cmd.Flags().Changed("engine") {
				d.engine = "" // a flag wins over the environment
			}
			if err := d.checkRecorded(recorded); err != nil {
				return err
			}
			return d.run(cmd.Context(), cmd.OutOrStdout())
		},
	}
	f := cmd.Flags()
	f.AddFlagSet(recorded)
	f.StringVar(&d.binary, "collector", "", "the collector's binary (default otelcol-sglang beside this one)")
	f.StringVar(&d.sim, "sim", "", "the simulated engine's binary (default sglang-sim beside this one)")
	f.StringVar(&d.config, "config", "config/quickstart.yaml", "the collector's configuration")
	f.StringVar(&d.data, "data", defaultData, "folder for the traces and the logs")
	f.StringVar(&d.engine, "engine", os.Getenv(envEngine), "a real engine, such as http://host:30000 (env "+envEngine+")")
	f.BoolVar(&d.pd, "pd", false, "a prefill and a decode engine that hand requests on")
	f.DurationVar(&d.settle, "settle", 4*time.Second, "pause between the first requests and the summary")
	f.DurationVar(&d.every, "every", 30*time.Second, "time between two summaries")
	cmd.MarkFlagsMutuallyExclusive("engine", "pd", "captures")
	return cmd
}

// checkRecorded refuses flags of replays where nothing is replayed.
func (d *demo) checkRecorded(recorded *pflag.FlagSet) error {
	var errs []error
	recorded.VisitAll(func(f *pflag.Flag) {
		if f.Changed && !d.replays {
			errs = append(errs, fmt.Errorf("%s goes with --captures (got %q)", f.Name, f.Value))
		}
	})
	return errors.Join(errs...)
}

func (d *demo) run(ctx context.Context, out io.Writer) error {
	if err := d.check(); err != nil {
		return err
	}
	feed, err := d.feeder()
	if err != nil {
		return err
	}
	collector, err := d.start(ctx, feed)
	if err != nil {
		if ctx.Err() != nil {
			err = nil // interrupted before all ran
		}
		return errors.Join(err, feed.stop())
	}
	fmt.Fprintf(out, "collector is up, its log is %s\n", d.log("collector"))
	err = d.watch(ctx, out, collector, feed)
	// Those who send end first, so that the collector gets all.
	err = errors.Join(err, feed.stop())
	select {
	case <-collector.Done():
	default:
		fmt.Fprintln(out, "\nstopping the collector, so that it writes what it holds")
	}
	return errors.Join(err, collector.Stop())
}

func (d *demo) start(ctx context.Context, feed feeder) (*up.Process, error) {
	if err := feed.prepare(ctx); err != nil {
		return nil, err
	}
	return up.Start(ctx, d.collector(feed))
}

func (d *demo) check() error {
	self, err := os.Executable()
	if err != nil {
		return err
	}
	for path, name := range map[*string]string{&d.binary: "otelcol-sglang", &d.sim: "sglang-sim"} {
		if *path == "" {
			*path = filepath.Join(filepath.Dir(self), name)
		}
	}
	if d.every <= 0 || d.settle < 0 {
		return fmt.Errorf("every must be greater than 0 and settle not negative (got %s, %s)", d.every, d.settle)
	}
	return nil
}

func (d *demo) feeder() (feeder, error) {
	if len(d.simArgs) > 0 && (d.engine != "" || d.replays || d.pd) {
		return nil, fmt.Errorf("flags of sglang-sim go with one simulated engine alone (got %q)", strings.Join(d.simArgs, " "))
	}
	switch {
	case d.engine != "":
		u, err := url.Parse(d.engine)
		if err != nil || u.Host == "" || (u.Scheme != "http" && u.Scheme != "https") {
			return nil, fmt.Errorf("engine must be a URL such as http://host:30000 (got %q)", d.engine)
		}
		return realEngine(d.engine), nil
	case d.replays:
		return newReplays(d)
	case d.pd:
		return newPair(d), nil
	default:
		return newSimulated(d), nil
	}
}

func (d *demo) log(name string) string { return filepath.Join(d.data, name+".log") }

// grace is how long a child may take to end.
const grace = 20 * time.Second

func (d *demo) collector(feed feeder) up.Child {
	c := up.Child{
		Name: "the collector", Binary: d.binary, Log: d.log("collector"), Health: "http://" + addrHealth + "/", Grace: grace,
		Ports: []string{addrGRPC, addrHTTP, addrOwn, addrMetrics, addrHealth},
		Env:   []string{envData + "=" + d.data, envEngine + "=" + feed.engineURL()},
	}
	for _, config := range append([]string{d.config}, feed.configs()...) {
		c.Args = append(c.Args, "--config="+config)
	}
	return c
}

// watch returns when ctx ends, with nil, or when the collector or the feeder dies.
func (d *demo) watch(ctx context.Context, out io.Writer, collector *up.Process, feed feeder) error {
	ctx, cancel := context.WithCancel(ctx)
	ready, told := make(chan struct{}), make(chan struct{})
	go func() {
		defer close(told)
		d.tell(ctx, out, ready)
	}()
	defer func() { cancel(); <-told }()
	if err := feed.begin(ctx, out, func() { close(ready) }); err != nil {
		return err
	}
	select {
	case <-ctx.Done():
		return nil
	case err := <-feed.died():
		return err
	case <-collector.Done():
		if ctx.Err() != nil {
			return nil // the signal reached it too
		}
		return collector.Death()
	}
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
	traces, file := filepath.Join(d.data, tracesFile), ""
	if d.data != defaultData {
		file = " --file " + traces
	}
	fmt.Fprintf(out, `
  metrics    http://%s/metrics     for Prometheus (honor_labels: true)
  traces     %s     one line of OTLP/JSON per batch
  collector  http://%s/metrics     its own telemetry

  bin/sglangctl traces%[4]s           the requests
  bin/sglangctl trace slowest%[4]s    one request, stage by stage
  bin/sglangctl summary          what came in, went out, was refused

Ctrl-C ends it.
`, addrMetrics, traces, addrOwn, file)
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
