// Copyright The otelcol-sglang Authors
// SPDX-License-Identifier: Apache-2.0

package cli // import "github.com/otelcol-sglang/otelcol-sglang/cmd/sglang-sim/internal/cli"

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/url"
	"strings"

	"github.com/spf13/cobra"

	"github.com/otelcol-sglang/otelcol-sglang/engine/clock"
	"github.com/otelcol-sglang/otelcol-sglang/engine/load"
)

// loading is the subcommand's settings.
type loading struct {
	target, prefill, spec, model, key string
	seed                              uint64
	json                              bool
}

func newLoad() *cobra.Command {
	l := &loading{}
	cmd := &cobra.Command{
		Use:   "load",
		Short: "Clients for an engine, and what they saw",
		Long: `Clients for an engine behind HTTP, until they have done what they were to do or
are interrupted, and then the latencies that they saw.`,
		Args: cobra.NoArgs, SilenceUsage: true,
		RunE: func(cmd *cobra.Command, _ []string) error { return l.run(cmd.Context(), cmd.OutOrStdout()) },
	}
	f := cmd.Flags()
	f.SortFlags = false
	f.StringVar(&l.target, "target", "http://localhost:30000", "the engine; of a PD pair the decode engine")
	f.StringVar(&l.prefill, "prefill", "", "the prefill engine of a PD pair: both get each request, with one bootstrap room")
	f.StringVar(&l.spec, "load", "chat", "NAME[:key=value,...] of "+strings.Join(load.Presets(), ", "))
	f.StringVar(&l.model, "model", "", "the model to ask for")
	f.StringVar(&l.key, "api-key", "", "bearer token")
	f.Uint64Var(&l.seed, "seed", 1, "the same seed makes the same requests")
	f.BoolVar(&l.json, "json", false, "report as one line of JSON")
	return cmd
}

func (l *loading) run(ctx context.Context, out io.Writer) error {
	err := errors.Join(checkURL("target", l.target), l.checkPrefill())
	if err != nil {
		return err
	}
	sources, err := load.Parse(l.spec)
	if err != nil {
		return err
	}
	results, err := l.drive(ctx, sources)
	if err != nil {
		return err
	}
	r := results.Report()
	if l.json {
		return r.WriteJSON(out)
	}
	return r.WriteTable(out)
}

func (l *loading) checkPrefill() error {
	if l.prefill == "" {
		return nil
	}
	return checkURL("prefill", l.prefill)
}

func checkURL(flag, text string) error {
	u, err := url.Parse(text)
	if err != nil || u.Host == "" || (u.Scheme != "http" && u.Scheme != "https") {
		return fmt.Errorf("%s must be a URL such as http://localhost:30000 (got %q)", flag, text)
	}
	return nil
}

// drive runs the clients until they are done or ctx ends; then they hang up.
func (l *loading) drive(ctx context.Context, sources []load.Source) (*load.Results, error) {
	ctx, over := context.WithCancel(ctx)
	defer over()
	loop := clock.NewReal(1)
	target := load.NewRemote(ctx, loop, l.target)
	target.Model, target.APIKey, target.Prefill = l.model, l.key, strings.TrimRight(l.prefill, "/")
	d := load.New(loop, target, sources, l.seed)
	if l.prefill != "" {
		d.Rooms()
	}
	d.Over = over
	// The loop outlives ctx: it books how the last requests ended.
	running, stop := context.WithCancel(context.WithoutCancel(ctx))
	defer stop()
	context.AfterFunc(ctx, func() {
		stopped := make(chan struct{})
		loop.Post(func() {
			d.Stop()
			close(stopped)
		})
		<-stopped
		target.Wait()
		loop.Post(stop)
	})
	loop.Post(d.Start)
	return d.Results, loop.Run(running)
}
