// Copyright The otelcol-sglang Authors
// SPDX-License-Identifier: Apache-2.0

package cli // import "github.com/otelcol-sglang/otelcol-sglang/cmd/sglangctl/internal/cli"

import (
	"context"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"net"
	"net/http"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/otelcol-sglang/otelcol-sglang/cmd/sglangctl/internal/page"
	"github.com/otelcol-sglang/otelcol-sglang/cmd/sglangctl/internal/replay"
	"github.com/otelcol-sglang/otelcol-sglang/cmd/sglangctl/internal/request"
	"github.com/otelcol-sglang/otelcol-sglang/internal/capture"
)

// all stands for every capture there is.
const all = "all"

// defaultMix shows each kind of engine once: tensor parallel, DP attention,
// disaggregated prefill and decode, retraction, chunked prefill, speculation,
// aborts, and an engine that reports a wrong TTFT.
var defaultMix = []string{
	"traces-unified-tp4-level3", "traces-dp-attention-tp4-dp2", "traces-pd-prefill-tp2-decode-tp2",
	"traces-retraction-tp2", "traces-chunked-prefill-tp2", "traces-spec-ngram-tp2",
	"traces-abort-tp2", "traces-nonstream-tp2-metrics-off",
}

// source is what a replay sends, and where.
type source struct {
	replay.Options
	captures string
	loop     bool
	// metricsPage is the name of the page to serve, metricsListen where.
	metricsPage, metricsListen string
	metricsStep                time.Duration
}

func (s *source) flags(f *pflag.FlagSet) {
	f.StringVar(&s.captures, "captures-dir", capturesDir, "folder with the captures, traces/ and metrics/ in it")
	f.StringSliceVar(&s.Captures, "captures", defaultMix, `captures to replay side by side, or "all"`)
	f.IntVar(&s.Engines, "engines", 1, "copies of each capture that run side by side, each with processes of its own")
	f.Float64Var(&s.Speed, "speed", 1, "divides the recorded pauses; 1 is real time")
	f.DurationVar(&s.MaxGap, "max-gap", 2*time.Second, "longest recorded pause to keep")
	f.StringVar(&s.metricsPage, "metrics", "metrics-tp4-all-schedulers", `metrics page to serve; "" serves none`)
	f.StringVar(&s.metricsListen, "metrics-listen", addrEngine, "address at which the metrics page is served")
	f.DurationVar(&s.metricsStep, "metrics-step", 5*time.Second, "time from one recorded page to the next")
}

// resolve turns flags into options.
func (s *source) resolve() error {
	s.Dir = filepath.Join(s.captures, "traces")
	names, err := capture.Names(s.Dir)
	if err != nil {
		return err
	}
	if len(names) == 0 {
		return fmt.Errorf("captures-dir must hold captures in traces/ (got %q)", s.captures)
	}
	if slices.Equal(s.Captures, []string{all}) {
		s.Captures = names
	}
	for _, name := range s.Captures {
		if !slices.Contains(names, name) {
			return fmt.Errorf("captures must be among %s (got %q)", strings.Join(names, ", "), name)
		}
	}
	if s.metricsStep <= 0 {
		return fmt.Errorf("metrics-step must be greater than 0 (got %s)", s.metricsStep)
	}
	if s.loop {
		s.Repeat = 0
	} else if s.Repeat < 1 {
		return fmt.Errorf("repeat must be at least 1 (got %d)", s.Repeat)
	}
	return s.Validate()
}

// servePage serves the metrics page until the returned function is called.
func (s *source) servePage(ctx context.Context) (stop func(), err error) {
	if s.metricsPage == "" {
		return func() {}, nil
	}
	p, err := page.Load(filepath.Join(s.captures, "metrics"), s.metricsPage)
	if err != nil {
		return nil, err
	}
	var lc net.ListenConfig
	listener, err := lc.Listen(ctx, "tcp", s.metricsListen)
	if err != nil {
		return nil, fmt.Errorf("cannot serve the engine's metrics page (metrics-listen): %w", err)
	}
	const headers = 5 * time.Second
	server := &http.Server{Handler: p.Handler(s.metricsStep), ReadHeaderTimeout: headers}
	done := make(chan struct{})
	go func() {
		defer close(done)
		_ = server.Serve(listener)
	}()
	return func() {
		_ = server.Close()
		<-done
	}, nil
}

func newReplay() *cobra.Command {
	s := &source{}
	cmd := &cobra.Command{
		Use:   "replay",
		Short: "Send recorded engine telemetry as the engine's processes would",
		Long: `Send recorded engine telemetry as the engine's processes would: one connection
per process, the recorded batches in their order and at their pace, with current
times. Each repetition has trace, span and request ids of its own. Meanwhile the
engine's metrics page is served, with counters that move.

It sends only to --endpoint.`,
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			if s.Endpoint == "" {
				s.Endpoint = map[string]string{replay.ProtocolHTTP: addrHTTP}[s.Protocol]
			}
			if s.Endpoint == "" {
				s.Endpoint = addrGRPC
			}
			if s.Seed == 0 {
				s.Seed = rand.Uint64()
			}
			return runReplay(cmd.Context(), cmd.OutOrStdout(), s)
		},
	}
	s.flags(cmd.Flags())
	cmd.Flags().StringVar(&s.Protocol, "protocol", replay.ProtocolGRPC, "grpc or http")
	cmd.Flags().StringVar(&s.Endpoint, "endpoint", "", "receiver of OTLP (default "+addrGRPC+", with http "+addrHTTP+")")
	cmd.Flags().IntVar(&s.Repeat, "repeat", 1, "number of repetitions")
	cmd.Flags().BoolVar(&s.loop, "loop", false, "repeat until interrupted")
	cmd.Flags().Float64Var(&s.Rate, "rate", 0, "repetitions that each engine starts in a second; 0 plays one after the other")
	cmd.Flags().Uint64Var(&s.Seed, "seed", 0, "makes the ids; 0 takes another one each time")
	return cmd
}

func runReplay(ctx context.Context, out io.Writer, s *source) error {
	if err := s.resolve(); err != nil {
		return err
	}
	stop, err := s.servePage(ctx)
	if err != nil {
		return err
	}
	defer stop()
	player, err := replay.New(s.Options)
	if err != nil {
		return err
	}
	err = player.Run(ctx)
	if err != nil && ctx.Err() == nil {
		err = fmt.Errorf("does %s take OTLP over %s? (--endpoint, --protocol) %w", s.Endpoint, s.Protocol, err)
	}
	fmt.Fprintln(out, sent(player.Stats()))
	return errors.Join(err, player.Close())
}

// sent is the closing line of a replay.
func sent(s replay.Stats) string {
	line := fmt.Sprintf("sent %s spans of %s requests from %s processes",
		request.Count(s.Spans), request.Count(s.Requests), request.Count(int64(s.Processes)))
	if s.Refused > 0 {
		line += fmt.Sprintf("; %s refused by the receiver", request.Count(s.Refused))
	}
	if s.Lost > 0 {
		line += fmt.Sprintf("; %s could not be sent", request.Count(s.Lost))
	}
	return line
}
