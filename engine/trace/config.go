// Copyright The otelcol-sglang Authors
// SPDX-License-Identifier: Apache-2.0

package trace // import "github.com/otelcol-sglang/otelcol-sglang/engine/trace"

import (
	"errors"
	"fmt"
	"hash/fnv"
	"time"

	"github.com/otelcol-sglang/otelcol-sglang/engine/args"
	"github.com/otelcol-sglang/otelcol-sglang/engine/clock"
	"github.com/otelcol-sglang/otelcol-sglang/internal/sglang"
)

// Config are a tracer's settings. Zero values mean the engine's defaults, but for
// Loop, Sink and Level, which must be set.
type Config struct {
	Loop *clock.Loop
	Sink Sink

	// Mode is args.Unified, args.Prefill or args.Decode.
	Mode  string
	Model string
	// Level is SGLANG_TRACE_LEVEL, 0 (nothing) to 4.
	Level int
	// Modules are --trace-modules; nil is "request" alone.
	Modules []string
	// Workers is --tokenizer-worker-num.
	Workers int
	// EngineAPI tells that there is no HTTP server: "Prefill Tokenizer" with a blank.
	EngineAPI bool

	// Resource has OTEL_RESOURCE_ATTRIBUTES.
	ServiceName string
	Resource    map[string]string
	// InstanceID is one service.instance.id for all processes; "" gives each its own.
	InstanceID string
	HostID     string
	// Async is SGLANG_TRACE_ASYNC: threads and slices of a process leave through an
	// exporter daemon with a service.instance.id of its own, roots do not.
	Async bool

	// Seed and Name decide ids, delays and offsets: an engine that restarts needs
	// another seed, and two engines need names of their own.
	Seed uint64
	Name string
	// StepJitter is the largest delay with which a rank reads the clock.
	StepJitter time.Duration
	// ClockOffset is the largest error of a process' wall clock, either way.
	ClockOffset time.Duration

	BatchDelay             time.Duration
	BatchSpans, QueueSpans int
}

// FromArgs takes from an engine's arguments what they say about tracing.
func FromArgs(a *args.Args, loop *clock.Loop, sink Sink) Config {
	return Config{
		Loop: loop, Sink: sink, Mode: a.DisaggregationMode, Model: a.ServedModelName,
		Level: a.TraceLevel, Modules: a.TraceModules, Workers: a.TokenizerWorkerNum, Async: a.TraceAsync,
		ServiceName: a.OTLPServiceName, Seed: a.Seed, Name: a.Name(), StepJitter: a.StepJitter,
	}
}

// DefaultClockOffset is what two processes of a host differ by when each has
// calibrated its wall clock on its own.
const DefaultClockOffset = 300 * time.Microsecond

// maxDelay bounds delays and offsets, so that sums of times stay in range.
const maxDelay = time.Hour

func (c *Config) withDefaults() {
	name := fnv.New64a()
	name.Write([]byte(c.Name))
	c.Seed ^= name.Sum64()
	set(&c.Mode, args.Unified)
	set(&c.ServiceName, "sglang")
	set(&c.HostID, "0f0f0f0f0f0f0f0f0f0f0f0f0f0f0f0f")
	set(&c.Workers, 1)
	set(&c.ClockOffset, DefaultClockOffset)
	set(&c.BatchDelay, sglang.ExportDelayMS*time.Millisecond)
	set(&c.BatchSpans, sglang.ExportBatchSpans)
	set(&c.QueueSpans, sglang.ExportQueueSpans)
	if c.Modules == nil {
		c.Modules = []string{sglang.TraceModuleRequest}
	}
}

func set[T comparable](to *T, value T) {
	var zero T
	if *to == zero {
		*to = value
	}
}

func (c *Config) validate() error {
	var errs []error
	fail := func(ok bool, format string, a ...any) {
		if !ok {
			errs = append(errs, fmt.Errorf(format, a...))
		}
	}
	fail(c.Loop != nil, "loop must be set")
	fail(c.Sink != nil, "sink must be set")
	fail(c.Level >= 0, "level must not be negative (got %d)", c.Level)
	fail(c.Mode == args.Unified || c.Mode == args.Prefill || c.Mode == args.Decode,
		"mode must be %s, %s or %s (got %q)", args.Unified, args.Prefill, args.Decode, c.Mode)
	fail(c.Workers > 0, "workers must be positive (got %d)", c.Workers)
	fail(c.BatchSpans > 0 && c.BatchSpans <= c.QueueSpans,
		"batch must be of 1 to %d spans, the queue (got %d)", c.QueueSpans, c.BatchSpans)
	fail(c.BatchDelay > 0, "batch delay must be positive (got %s)", c.BatchDelay)
	for name, d := range map[string]time.Duration{"step jitter": c.StepJitter, "clock offset": c.ClockOffset} {
		fail(d >= 0 && d <= maxDelay, "%s must be from 0 to %s (got %s)", name, maxDelay, d)
	}
	return errors.Join(errs...)
}
