// Copyright The otelcol-sglang Authors
// SPDX-License-Identifier: Apache-2.0

// Package cli is the command line of sglangctl: flags in, calls of the packages
// beside it, text out. cobra is what the Collector's own tools use, so it costs
// no module that is not here already.
package cli // import "github.com/otelcol-sglang/otelcol-sglang/cmd/sglangctl/internal/cli"

import (
	"fmt"

	"github.com/spf13/cobra"
)

// Addresses of config/quickstart.yaml.
const (
	addrGRPC     = "localhost:4317"
	addrHTTP     = "localhost:4318"
	addrEngine   = "localhost:30000"
	addrOwn      = "localhost:8888"
	addrMetrics  = "localhost:8889"
	addrHealth   = "localhost:13133"
	defaultData  = ".data"
	tracesFile   = "traces.jsonl"
	defaultSink  = defaultData + "/" + tracesFile
	capturesDir  = "testdata/captures"
	ownMetricURL = "http://" + addrOwn + "/metrics"
)

// New returns the command sglangctl.
func New() *cobra.Command {
	root := &cobra.Command{
		Use:          "sglangctl",
		Short:        "The tool beside the SGLang distribution of the OpenTelemetry Collector",
		SilenceUsage: true,
	}
	root.SetFlagErrorFunc(func(cmd *cobra.Command, err error) error {
		return fmt.Errorf("%w; see %s --help", err, cmd.CommandPath())
	})
	root.AddCommand(newUp(), newReplay(), newTrace(), newTraces(), newSummary(), newDoctor(), newExplain())
	return root
}
