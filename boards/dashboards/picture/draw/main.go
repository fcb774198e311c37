// Copyright The otelcol-sglang Authors
// SPDX-License-Identifier: Apache-2.0

// Command draw draws all boards from a running Prometheus.
package main

import (
	"context"
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"time"

	"github.com/prometheus/client_golang/api"
	v1 "github.com/prometheus/client_golang/api/prometheus/v1"

	"github.com/otelcol-sglang/otelcol-sglang/boards/dashboards"
	"github.com/otelcol-sglang/otelcol-sglang/boards/dashboards/ask"
	"github.com/otelcol-sglang/otelcol-sglang/boards/dashboards/picture"
)

func main() {
	url := flag.String("prometheus", "http://localhost:9090", "its address")
	dir := flag.String("out", ".", "folder of the pictures")
	span := flag.Duration("last", time.Hour, "time that the boards show")
	scrape := flag.Duration("scrape", 15*time.Second, "Prometheus' scrape interval")
	flag.Parse()
	now := time.Now()
	view := ask.View{Start: now.Add(-*span), End: now, Scrape: *scrape, Points: 400}
	if err := boards(*url, *dir, &view); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

func boards(url, dir string, view *ask.View) error {
	client, err := api.NewClient(api.Config{Address: url})
	if err != nil {
		return err
	}
	for _, b := range dashboards.All() {
		answers, err := view.Board(context.Background(), v1.NewAPI(client), b)
		if err != nil {
			return err
		}
		f, err := os.Create(filepath.Join(dir, b.UID+".png"))
		if err != nil {
			return err
		}
		if err := picture.Board(f, b, view.End.UTC().Format(time.DateTime), answers); err != nil {
			return err
		}
		if err := f.Close(); err != nil {
			return err
		}
	}
	return nil
}
