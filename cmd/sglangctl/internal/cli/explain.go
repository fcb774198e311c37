// Copyright The otelcol-sglang Authors
// SPDX-License-Identifier: Apache-2.0

package cli // import "github.com/otelcol-sglang/otelcol-sglang/cmd/sglangctl/internal/cli"

import (
	"context"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/url"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"
	"go.opentelemetry.io/collector/pdata/pcommon"
	"go.opentelemetry.io/collector/pdata/ptrace"

	"github.com/otelcol-sglang/otelcol-sglang/cmd/sglangctl/internal/explain"
	"github.com/otelcol-sglang/otelcol-sglang/cmd/sglangctl/internal/request"
	"github.com/otelcol-sglang/otelcol-sglang/cmd/sglangctl/internal/sink"
	"github.com/otelcol-sglang/otelcol-sglang/cmd/sglangctl/internal/status"
	"github.com/otelcol-sglang/otelcol-sglang/internal/sglang"
)

// explainer are the flags of the command.
type explainer struct {
	file, raw string
	client    time.Duration
	asJSON    bool
	// series and where to find it.
	series, engine, collector string
	wait                      time.Duration
	out, warn                 io.Writer
}

func newExplain() *cobra.Command {
	x := &explainer{}
	cmd := &cobra.Command{
		Use:   "explain ID|last|slowest [ATTRIBUTE]",
		Short: "Say where a number of a request, or a folded series, comes from",
		Long: `Say where a number comes from: the rule that made it, the spans that went in,
and the value computed once more from them.

  sglangctl explain last                        all that is derived, one line each
  sglangctl explain slowest queue               attributes with "queue" in their name
  sglangctl explain ID gen_ai.latency.time_to_first_token --client-ttft 140ms
  sglangctl explain --series 'sglang:num_running_reqs{dp_rank="0"}'

With --raw, a file of what came in before ranks and steps were folded, it shows
what the engine reported too. A second traces pipeline writes one:

  exporters: {file/raw: {path: .data/raw.jsonl}}
  service: {pipelines: {traces/raw: {receivers: [sglang], exporters: [file/raw]}}}`,
		Args: cobra.MaximumNArgs(2),
		RunE: func(cmd *cobra.Command, args []string) error {
			x.out, x.warn = cmd.OutOrStdout(), cmd.ErrOrStderr()
			switch {
			case x.series != "" && len(args) == 0:
				return x.explainSeries(cmd.Context())
			case x.series == "" && len(args) > 0:
				return x.explainRequest(cmd.Context(), args[0], strings.Join(args[1:], ""))
			}
			return errors.New("name a request, or a series with --series")
		},
	}
	f := cmd.Flags()
	f.StringVar(&x.file, "file", defaultSink, "file that the collector's file exporter writes")
	f.StringVar(&x.raw, "raw", "", "file of the spans as they came in")
	f.DurationVar(&x.client, "client-ttft", 0, "the time to first token that the client measured, to compare")
	f.StringVar(&x.series, "series", "", `a series of the engine's page, as 'sglang:num_running_reqs{dp_rank="0"}'`)
	f.StringVar(&x.engine, "engine", "http://"+addrEngine, "base URL of the engine, for --series")
	f.StringVar(&x.collector, "collector", "http://"+addrMetrics+"/metrics", "the collector's page of metrics, for --series")
	f.DurationVar(&x.wait, "wait", 6*time.Second, "how long to wait for another scrape where values differ, for --series")
	f.BoolVar(&x.asJSON, "json", false, "print one JSON array")
	return cmd
}

func (x *explainer) explainRequest(ctx context.Context, name, attribute string) error {
	var index request.Index
	from := sink.Sink{Path: x.file}
	skipped, err := from.Each(ctx, index.Add)
	if err != nil {
		return advise(err)
	}
	report(x.warn, skipped)
	found, err := index.Find(name)
	if err != nil {
		return err
	}
	traces := tracesOf(found)
	kept, err := load(ctx, from, traces)
	if err != nil {
		return err
	}
	var raw *explain.Spans
	if x.raw != "" {
		if raw, err = load(ctx, sink.Sink{Path: x.raw}, traces); err != nil {
			return err
		}
	}
	return x.each(found, kept, raw, attribute)
}

// tracesOf are the requests' traces, with those of their other halves.
func tracesOf(found []request.Request) []pcommon.TraceID {
	var out []pcommon.TraceID
	for _, r := range found {
		out = append(out, r.TraceID)
		if v, ok := r.Attrs.Get(sglang.AttrPDPeerTraceID); ok {
			if peer, err := traceID(v.AsString()); err == nil {
				out = append(out, peer)
			}
		}
	}
	return out
}

func traceID(hexDigits string) (pcommon.TraceID, error) {
	var id pcommon.TraceID
	if len(hexDigits) != hex.EncodedLen(len(id)) {
		return id, errors.New("a trace id has 32 hex digits")
	}
	_, err := hex.Decode(id[:], []byte(hexDigits))
	return id, err
}

func load(ctx context.Context, from sink.Sink, traces []pcommon.TraceID) (*explain.Spans, error) {
	spans := explain.NewSpans()
	_, err := from.Each(ctx, func(td ptrace.Traces) { spans.Add(td, traces...) })
	return spans, err
}

func (x *explainer) each(found []request.Request, kept, raw *explain.Spans, attribute string) error {
	var all []explain.Explanation
	for _, root := range kept.Roots() {
		i := slices.IndexFunc(found, func(r request.Request) bool { return r.SpanID == root.SpanID() })
		if i < 0 {
			continue
		}
		list := explain.All(explain.NewView(root, kept, raw), kept, x.client)
		if attribute != "" {
			var err error
			if list, err = explain.Matching(list, attribute); err != nil {
				return err
			}
		}
		all = append(all, list...)
		if x.asJSON {
			continue
		}
		fmt.Fprintf(x.out, "request  %s\ntrace    %s\n", found[i].ID(), found[i].TraceID)
		if attribute == "" {
			explain.List(x.out, list)
		} else {
			explain.Print(x.out, list)
		}
	}
	if x.asJSON {
		return x.json(all)
	}
	return nil
}

func (x *explainer) json(v any) error {
	encoder := json.NewEncoder(x.out)
	encoder.SetIndent("", "  ")
	encoder.SetEscapeHTML(false)
	return encoder.Encode(v)
}

func (x *explainer) explainSeries(ctx context.Context) error {
	selector, err := explain.ParseSelector(x.series)
	if err != nil {
		return err
	}
	if !isURL(x.engine) {
		return fmt.Errorf("engine must be a URL such as http://host:30000 (got %q)", x.engine)
	}
	folded, err := x.read(ctx, selector, 0)
	if err != nil {
		return err
	}
	if slices.ContainsFunc(folded, func(f explain.Folded) bool { return f.Agrees == nil || !*f.Agrees }) {
		// The collector shows its last scrape, which may be older than the page.
		if folded, err = x.read(ctx, selector, x.wait); err != nil {
			return err
		}
	}
	if x.asJSON {
		return x.json(folded)
	}
	explain.PrintSeries(x.out, folded)
	return nil
}

// read reads the engine's page, after a while the collector's, and the engine's
// once more.
func (x *explainer) read(ctx context.Context, s explain.Selector, wait time.Duration) ([]explain.Folded, error) {
	const limit = 10 * time.Second
	ctx, cancel := context.WithTimeout(ctx, limit+wait)
	defer cancel()
	page := strings.TrimRight(x.engine, "/") + "/metrics"
	before, err := status.Fetch(ctx, page)
	if err != nil {
		return nil, fmt.Errorf("the engine's page (--engine): %w", err)
	}
	pause(ctx, wait)
	shown, err := status.Fetch(ctx, x.collector)
	if err != nil {
		return nil, fmt.Errorf("the collector's page (--collector): %w", err)
	}
	after, err := status.Fetch(ctx, page)
	if err != nil {
		return nil, fmt.Errorf("the engine's page (--engine): %w", err)
	}
	u, err := url.Parse(x.engine)
	if err != nil {
		return nil, err
	}
	return explain.Series(s, before.Families(), after.Families(), shown.Families(), u.Host)
}
