// Copyright The otelcol-sglang Authors
// SPDX-License-Identifier: Apache-2.0

// Command sglang-sim is a simulated SGLang engine: its HTTP service, spans and
// metrics page, without a GPU or a model.
package main // import "github.com/otelcol-sglang/otelcol-sglang/cmd/sglang-sim"

import (
	"context"
	"os"
	"os/signal"
	"syscall"

	"github.com/otelcol-sglang/otelcol-sglang/cmd/sglang-sim/internal/cli"
)

func main() { os.Exit(run()) }

func run() int {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM, syscall.SIGHUP)
	defer stop()
	if err := cli.New().ExecuteContext(ctx); err != nil {
		return 1
	}
	return 0
}
