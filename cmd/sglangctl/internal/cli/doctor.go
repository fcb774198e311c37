// Copyright The otelcol-sglang Authors
// SPDX-License-Identifier: Apache-2.0

package cli // import "github.com/otelcol-sglang/otelcol-sglang/cmd/sglangctl/internal/cli"

import (
	"fmt"
	"net/url"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/otelcol-sglang/otelcol-sglang/cmd/sglangctl/internal/doctor"
)

func newDoctor() *cobra.Command {
	var asJSON bool
	o := doctor.Options{}
	cmd := &cobra.Command{
		Use:   "doctor",
		Short: "Check engines, collector and what flows between them",
		Long: `Check engines, collector and what flows between them: one line per check with
what was seen and what to do. "unknown" says that there is no evidence, and why.
It sends one export of nothing to each OTLP port and reads pages; it sends no
request to an engine. The exit code is 1 if a check fails.

docs/troubleshooting.md explains each check.`,
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			if err := checkDoctor(&o); err != nil {
				return err
			}
			facts := doctor.Look(cmd.Context(), o)
			if err := cmd.Context().Err(); err != nil {
				return err // what was not asked any more has not failed
			}
			report := doctor.Examine(facts)
			if asJSON {
				if err := report.JSON(cmd.OutOrStdout()); err != nil {
					return err
				}
			} else {
				report.Print(cmd.OutOrStdout())
			}
			if n := report.Count(doctor.Fail); n > 0 {
				cmd.SilenceErrors = true
				return fmt.Errorf("%d checks failed", n)
			}
			return nil
		},
	}
	f := cmd.Flags()
	f.StringSliceVar(&o.Engines, "engine", []string{"http://" + addrEngine}, "base URL of an engine, may be repeated")
	f.StringSliceVar(&o.Collectors, "collector", []string{ownMetricURL}, "URL of a collector's own metrics, may be repeated")
	f.StringVar(&o.GRPC, "grpc", addrGRPC, `the collector's OTLP/gRPC address, "" for none`)
	f.StringVar(&o.HTTP, "http", addrHTTP, `the collector's OTLP/HTTP address, "" for none`)
	f.StringVar(&o.Traces, "traces", defaultSink, `the quickstart's file of traces, if there is one`)
	f.StringSliceVar(&o.Want, "want", nil, "flags that must be on: "+strings.Join(doctor.Wants(), ", "))
	f.DurationVar(&o.Watch, "watch", 5*time.Second, "time between the two readings of the collector's metrics")
	f.DurationVar(&o.Timeout, "timeout", 10*time.Second, "for each question")
	f.BoolVar(&asJSON, "json", false, "print one JSON object")
	return cmd
}

func checkDoctor(o *doctor.Options) error {
	for _, engine := range o.Engines {
		if !isURL(engine) {
			return fmt.Errorf("engine must be a URL such as http://host:30000 (got %q)", engine)
		}
	}
	for i, collector := range o.Collectors {
		if !isURL(collector) {
			return fmt.Errorf("collector must be a URL such as %s (got %q)", ownMetricURL, collector)
		}
		if u, _ := url.Parse(collector); u.Path == "" || u.Path == "/" {
			o.Collectors[i] = u.JoinPath("metrics").String()
		}
	}
	for _, want := range o.Want {
		if !slices.Contains(doctor.Wants(), want) {
			return fmt.Errorf("want must be of %s (got %q)", strings.Join(doctor.Wants(), ", "), want)
		}
	}
	if o.Watch < 0 || o.Timeout <= 0 {
		return fmt.Errorf("watch must not be negative and timeout greater than 0 (got %s, %s)", o.Watch, o.Timeout)
	}
	return nil
}

func isURL(s string) bool {
	u, err := url.Parse(s)
	return err == nil && u.Host != "" && (u.Scheme == "http" || u.Scheme == "https")
}
