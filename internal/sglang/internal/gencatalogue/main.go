// Copyright The otelcol-sglang Authors
// SPDX-License-Identifier: Apache-2.0

// Command gencatalogue writes the Go tables of the metric catalogue:
//
//	gencatalogue catalogue.yaml catalogue_generated.go
package main // import "github.com/otelcol-sglang/otelcol-sglang/internal/sglang/internal/gencatalogue"

import (
	"fmt"
	"os"
)

func main() {
	if err := run(os.Args[1:]); err != nil {
		fmt.Fprintln(os.Stderr, "gencatalogue:", err)
		os.Exit(1)
	}
}

func run(args []string) error {
	if len(args) != 2 {
		return fmt.Errorf("want the paths of the catalogue and of the output (got %d arguments)", len(args))
	}
	in, err := os.ReadFile(args[0])
	if err != nil {
		return err
	}
	out, err := generate(in)
	if err != nil {
		return fmt.Errorf("%s: %w", args[0], err)
	}
	return os.WriteFile(args[1], out, 0o644)
}
