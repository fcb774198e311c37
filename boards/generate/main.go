// Copyright The otelcol-sglang Authors
// SPDX-License-Identifier: Apache-2.0

// Command generate writes the dashboards to a folder, as Grafana imports them.
package main

import (
	"flag"
	"fmt"
	"os"
	"path/filepath"

	"github.com/otelcol-sglang/otelcol-sglang/boards/dashboards"
)

func main() {
	dir := flag.String("out", "../config/grafana/dashboards", "folder")
	flag.Parse()
	if err := write(*dir); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

func write(dir string) error {
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return err
	}
	for _, b := range dashboards.All() {
		out, err := b.JSON()
		if err != nil {
			return fmt.Errorf("board %s: %w", b.UID, err)
		}
		if err := os.WriteFile(filepath.Join(dir, b.UID+".json"), out, 0o644); err != nil {
			return err
		}
	}
	return nil
}
