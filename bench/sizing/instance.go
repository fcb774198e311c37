// Copyright The otelcol-sglang Authors
// SPDX-License-Identifier: Apache-2.0

package main // import "github.com/otelcol-sglang/otelcol-sglang/bench/sizing"

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/otelcol-sglang/otelcol-sglang/bench/internal/process"
)

// instance is a collector that runs a configuration that ships.
type instance struct {
	*process.Collector
	dir string
	// cpu and at are what it had used when the measurement began, and when that was.
	cpu time.Duration
	at  time.Time
}

// usage is what an instance needed during a measurement.
type usage struct {
	// CPU is in cores, Peak in bytes.
	CPU  float64
	Peak int64
}

// start runs a configuration in front of a sink. Scraped engines are a flow list of YAML.
func (o options) start(ctx context.Context, config, to, engines string) (*instance, error) {
	raw, err := os.ReadFile(filepath.Join(o.root, "config", config))
	if err != nil {
		return nil, err
	}
	dir, err := os.MkdirTemp("", "sizing")
	if err != nil {
		return nil, err
	}
	text := strings.NewReplacer(
		"${env:OTLP_LISTEN:-localhost}:4317", "${env:BENCH_GRPC}",
		"localhost:4317", "${env:BENCH_GRPC}",
		"${env:OTLP_LISTEN:-localhost}:4318", "localhost:0",
		"localhost:4318", "localhost:0",
		"localhost:13133", "localhost:0",
		"port: 8888", "port: ${env:BENCH_OWN_PORT}",
		"${env:SGLANG_METRICS_ADDR:-localhost:8889}", "${env:BENCH_METRICS}",
		"${env:OTLP_ENDPOINT:-localhost:14317}", "${env:BENCH_SINK}",
		"${env:OTLP_INSECURE:-false}", "true",
		"${env:SGLANG_QUEUE:-/var/lib/otelcol-sglang}", dir,
		"      - endpoint: ${env:ENGINE:-http://localhost:30000}", "      "+engines,
	).Replace(string(raw))
	file := filepath.Join(dir, "config.yaml")
	if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
		return nil, errors.Join(err, os.RemoveAll(dir))
	}
	c, err := process.Start(ctx, o.binary, file, to)
	if err != nil {
		return nil, errors.Join(err, os.RemoveAll(dir))
	}
	return &instance{Collector: c, dir: dir}, nil
}

// begin starts the measurement.
func (i *instance) begin() (err error) {
	i.at = time.Now()
	i.cpu, err = i.CPU()
	return err
}

// end is the mean CPU usage over a time, and the highest memory so far.
func (i *instance) end(over time.Duration) (usage, error) {
	cpu, err := i.CPU()
	if err != nil {
		return usage{}, err
	}
	peak, err := i.Peak()
	return usage{CPU: (cpu - i.cpu).Seconds() / over.Seconds(), Peak: peak}, err
}

// close ends the instance and removes its data.
func (i *instance) close() {
	_ = i.Kill()
	_ = os.RemoveAll(i.dir)
}
