// Copyright The otelcol-sglang Authors
// SPDX-License-Identifier: Apache-2.0

// Package cli is sglang-sim's command line.
package cli // import "github.com/otelcol-sglang/otelcol-sglang/cmd/sglang-sim/internal/cli"

import (
	"context"
	"fmt"
	"io"
	"net"
	"os"
	"slices"
	"strconv"
	"strings"

	"github.com/spf13/cobra"

	"github.com/otelcol-sglang/otelcol-sglang/engine"
	"github.com/otelcol-sglang/otelcol-sglang/engine/args"
	"github.com/otelcol-sglang/otelcol-sglang/engine/fault"
)

const listFaults = "list"

// New returns the command.
func New() *cobra.Command {
	a := args.Default()
	// What the environment gets wrong is said when the engine is to start.
	envErr := environment(&a)
	parts := groups(&a)
	cmd := &cobra.Command{
		Use:   "sglang-sim",
		Short: "A simulated SGLang engine",
		Long: `A simulated SGLang engine: its HTTP service, its spans and its metrics page, in
real time, without a GPU or a model. Settings are those of SGLang ` + "`launch_server`" + `.`,
		Example: `  sglang-sim --tp-size 4 --enable-metrics --enable-trace --load chat
  sglang-sim --tp-size 4 --dp-size 2 --enable-dp-attention --enable-metrics --fault slow-rank:rank=3,after=30s
  sglang-sim load --target http://localhost:30000 --load rag:rate=5,for=60s
  sglang-sim --fault list`,
		Args: cobra.NoArgs, SilenceUsage: true,
		RunE: func(cmd *cobra.Command, _ []string) error {
			if slices.Contains(a.Faults, listFaults) {
				return fault.List(cmd.OutOrStdout())
			}
			if envErr != nil {
				return envErr
			}
			return serve(cmd.Context(), cmd.OutOrStdout(), a)
		},
	}
	for _, g := range parts {
		cmd.Flags().AddFlagSet(g.flags)
	}
	plain := cmd.UsageFunc()
	cmd.SetUsageFunc(func(c *cobra.Command) error {
		if c != cmd {
			return plain(c)
		}
		return usage(c.OutOrStderr(), c, parts)
	})
	cmd.AddCommand(newLoad())
	cmd.CompletionOptions.HiddenDefaultCmd = true
	return cmd
}

// usage prints flags by group.
func usage(w io.Writer, cmd *cobra.Command, parts []group) error {
	fmt.Fprintf(w, "Usage:\n  %s [flags]\n  %s load [flags]\n\nExamples:\n%s\n", cmd.Name(), cmd.Name(), cmd.Example)
	for _, g := range parts {
		fmt.Fprintf(w, "\n%s:\n%s", g.title, g.flags.FlagUsages())
	}
	_, err := fmt.Fprintf(w, "\nEnvironment: %s, OTEL_EXPORTER_OTLP_TRACES_PROTOCOL\n",
		strings.Join([]string{envLevel, envAsync, envDeviceTimer, envHitWindow, envEviction, envService, envResource}, ", "))
	return err
}

func serve(ctx context.Context, out io.Writer, a args.Args) error {
	l, err := net.Listen("tcp", net.JoinHostPort(a.Host, strconv.Itoa(a.Port)))
	if err != nil {
		return err
	}
	if addr, ok := l.Addr().(*net.TCPAddr); ok {
		a.Port = addr.Port
	}
	e, err := engine.New(ctx, a, engine.Options{Resource: resource(), LaunchCommand: strings.Join(os.Args, " ")})
	if err != nil {
		_ = l.Close()
		return err
	}
	welcome(out, e.Args, l.Addr().String())
	err = e.Serve(ctx, l)
	if e.Clients != nil {
		fmt.Fprintln(out, "\nwhat the built-in clients saw:")
		if err := e.Clients.Results.Report().WriteTable(out); err != nil {
			return err
		}
	}
	return err
}

// welcome says what is served and how to look at it.
func welcome(w io.Writer, a *args.Args, addr string) {
	fmt.Fprintf(w, "%s on http://%s: tp %d, dp %d, pp %d%s\n", a.ServedModelName, addr, a.TPSize, a.DPSize, a.PPSize, mode(a))
	line := func(what, how string) { fmt.Fprintf(w, "  %-9s %s\n", what, how) }
	line("ask", fmt.Sprintf(`curl http://%s/v1/chat/completions -H 'Content-Type: application/json' -d '{"messages":[{"role":"user","content":"Hello"}],"stream":true}'`, addr))
	line("settings", fmt.Sprintf("curl http://%s/server_info", addr))
	if a.EnableMetrics {
		line("metrics", fmt.Sprintf("curl http://%s/metrics", addr))
	}
	if a.EnableTrace {
		line("spans", fmt.Sprintf("to %s at level %d, one exporter for each of the ranks", a.OTLPTracesEndpoint, a.TraceLevel))
	}
	if a.Load != "" {
		line("load", a.Load)
	}
	for _, f := range a.Faults {
		line("fault", f)
	}
	fmt.Fprintln(w, "Ctrl-C ends it.")
}

func mode(a *args.Args) string {
	var s string
	if a.EnableDPAttention {
		s += ", DP attention"
	}
	if a.Speculative() {
		s += ", " + a.SpeculativeAlgorithm
	}
	if a.DisaggregationMode != args.Unified {
		s += ", " + a.DisaggregationMode
	}
	return s
}
