// Copyright The otelcol-sglang Authors
// SPDX-License-Identifier: Apache-2.0

package cli // import "github.com/otelcol-sglang/otelcol-sglang/cmd/sglangctl/internal/cli"

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"time"

	"github.com/spf13/cobra"

	"github.com/otelcol-sglang/otelcol-sglang/cmd/sglangctl/internal/request"
	"github.com/otelcol-sglang/otelcol-sglang/cmd/sglangctl/internal/sink"
)

func newTrace() *cobra.Command {
	var file string
	p := request.Printer{Location: time.Local}
	cmd := &cobra.Command{
		Use:   "trace ID|last|slowest",
		Short: "Print one request's spans and latencies from the file sink",
		Long: `Print one request's spans and latencies from the file sink of config/quickstart.yaml.

ID is a trace id (with or without its leading zeros), a request id, or the
beginning of one. A trace of several requests is printed request by request.`,
		Args: oneRequest,
		RunE: func(cmd *cobra.Command, args []string) error {
			p.W = cmd.OutOrStdout()
			return printTrace(cmd.Context(), p, sink.Sink{Path: file}, args[0], cmd.ErrOrStderr())
		},
	}
	cmd.Flags().StringVar(&file, "file", defaultSink, "file that the collector's file exporter writes")
	cmd.Flags().BoolVar(&p.All, "all", false, "print every span, also of long runs of equal ones")
	cmd.Flags().BoolVar(&p.Events, "events", false, "print the spans' events")
	return cmd
}

// oneRequest is what the command needs.
func oneRequest(_ *cobra.Command, args []string) error {
	if len(args) != 1 {
		return fmt.Errorf("name one request: its ID, last or slowest (got %d)", len(args))
	}
	return nil
}

func printTrace(ctx context.Context, p request.Printer, s sink.Sink, id string, warn io.Writer) error {
	var index request.Index
	skipped, err := s.Each(ctx, index.Add)
	if err != nil {
		return advise(err)
	}
	report(warn, skipped)
	found, err := index.Find(id)
	if err != nil {
		return err
	}
	tree := request.NewTree(found[0].TraceID)
	if _, err := s.Each(ctx, tree.Add); err != nil {
		return err
	}
	p.Print(tree, found)
	return nil
}

func newTraces() *cobra.Command {
	var (
		file    string
		n       int
		slowest bool
	)
	cmd := &cobra.Command{
		Use:   "traces",
		Short: "List the requests of the file sink, the latest first",
		Args:  cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			if n < 1 {
				return fmt.Errorf("n must be at least 1 (got %d)", n)
			}
			var index request.Index
			skipped, err := sink.Sink{Path: file}.Each(cmd.Context(), index.Add)
			if err != nil {
				return advise(err)
			}
			report(cmd.ErrOrStderr(), skipped)
			list := index.Recent(n)
			if len(list) == 0 {
				fmt.Fprintln(cmd.ErrOrStderr(), request.ErrNone)
			}
			if slowest {
				list = index.Slowest(n)
			}
			return request.Printer{W: cmd.OutOrStdout(), Location: time.Local}.List(list)
		},
	}
	cmd.Flags().StringVar(&file, "file", defaultSink, "file that the collector's file exporter writes")
	cmd.Flags().IntVarP(&n, "n", "n", 20, "number of requests")
	cmd.Flags().BoolVar(&slowest, "slowest", false, "the slowest first")
	return cmd
}

// advise adds what to do about a missing file.
func advise(err error) error {
	if errors.Is(err, fs.ErrNotExist) {
		return fmt.Errorf("%w (--file; config/quickstart.yaml writes it once `make run` is up)", err)
	}
	return err
}

func report(w io.Writer, s sink.Skipped) {
	if s.Broken > 0 {
		fmt.Fprintf(w, "left out %d lines that are no OTLP/JSON\n", s.Broken)
	}
	if s.Long > 0 {
		fmt.Fprintf(w, "left out %d lines that are too long\n", s.Long)
	}
}
