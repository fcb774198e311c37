// Copyright The otelcol-sglang Authors
// SPDX-License-Identifier: Apache-2.0

package rankdedupprocessor // import "github.com/otelcol-sglang/otelcol-sglang/processor/rankdedupprocessor"

import (
	"errors"
	"fmt"
	"time"

	"go.opentelemetry.io/collector/component"
)

var _ component.Config = (*Config)(nil)

// Config of the processor.
type Config struct {
	// Wait is how long a copy waits for the kept rank's, and a request's root for
	// its thread spans. Longer than the engine's export delay (500 ms by default);
	// at a gateway longer than the agents' wait, their batching and any lag.
	Wait time.Duration `mapstructure:"wait"`
	// LearnWait is how long the spans of a sender wait whose rank is not known.
	LearnWait time.Duration `mapstructure:"learn_wait"`
	// MaxHeldMiB bounds what is held and remembered. At the limit spans leave
	// early: a duplicate may leave, data may not be lost.
	MaxHeldMiB int64 `mapstructure:"max_held_mib"`
	// ForgetAfter is the quiet time after which a sender is forgotten.
	ForgetAfter time.Duration `mapstructure:"forget_after"`
	// MaxSenders bounds the table of senders.
	MaxSenders int `mapstructure:"max_senders"`
	// Metrics is how the ranks' copies of series are folded.
	Metrics MetricsConfig `mapstructure:"metrics"`
}

func createDefaultConfig() component.Config {
	return &Config{
		Wait:        2 * time.Second,
		LearnWait:   30 * time.Second,
		MaxHeldMiB:  64,
		ForgetAfter: 30 * time.Minute,
		MaxSenders:  16384,
		Metrics:     defaultMetricsConfig(),
	}
}

// Validate reports every setting that is out of range.
func (c *Config) Validate() error {
	return errors.Join(
		inRange("wait", c.Wait, 10*time.Millisecond, 5*time.Minute),
		inRange("learn_wait", c.LearnWait, c.Wait, time.Hour),
		inRange("max_held_mib", c.MaxHeldMiB, 1, 1<<20),
		inRange("forget_after", c.ForgetAfter, time.Minute, 7*24*time.Hour),
		inRange("max_senders", c.MaxSenders, 16, 1<<20),
	)
}

func inRange[T int | int64 | time.Duration](key string, got, low, high T) error {
	if got >= low && got <= high {
		return nil
	}
	return fmt.Errorf("%s must be from %v to %v (got %v)", key, low, high, got)
}
