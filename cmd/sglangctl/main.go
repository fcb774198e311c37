// Copyright The otelcol-sglang Authors
// SPDX-License-Identifier: Apache-2.0

// Command sglangctl is the user's tool beside the collector: it replays recorded
// engine telemetry, prints requests, and says what the collector sees.
package main // import "github.com/otelcol-sglang/otelcol-sglang/cmd/sglangctl"

import (
	"context"
	"os"
	"os/signal"
	"syscall"

	"github.com/otelcol-sglang/otelcol-sglang/cmd/sglangctl/internal/cli"
)

func main() { os.Exit(run()) }

func run() int {
	// A closed pipe must not end the process before it has ended its child.
	signal.Ignore(syscall.SIGPIPE)
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM, syscall.SIGHUP)
	defer stop()
	if err := cli.New().ExecuteContext(ctx); err != nil {
		return 1
	}
	return 0
}
