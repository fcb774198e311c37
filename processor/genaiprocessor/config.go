// Copyright The otelcol-sglang Authors
// SPDX-License-Identifier: Apache-2.0

package genaiprocessor // import "github.com/otelcol-sglang/otelcol-sglang/processor/genaiprocessor"

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"go.opentelemetry.io/collector/component"

	"github.com/otelcol-sglang/otelcol-sglang/processor/genaiprocessor/internal/presence"
)

// Values of Config.DecodeLoop.
const (
	decodeLoopFold = "fold"
	decodeLoopKeep = "keep"
	decodeLoopDrop = "drop"
)

// Values of Config.Semconv and Config.SpanNames.
const (
	semconvAdd     = "add"
	semconvReplace = "replace"
	namesNormalize = "normalize"
	namesKeep      = "keep"
)

// Config is the processor's settings.
type Config struct {
	// Wait is how long a root waits for the spans of its schedulers. It is the
	// failure path: make it longer than the tier before waits and exports.
	Wait time.Duration `mapstructure:"wait"`
	// PDWait is how long the root of one half of a disaggregated request waits
	// for the other; 0 sends each half on at once.
	PDWait time.Duration `mapstructure:"pd_wait"`
	// DecodeLoop: fold sums the decode_loop spans up on their decode_forward,
	// keep passes them, drop drops them.
	DecodeLoop string `mapstructure:"decode_loop"`
	// WorstSteps is how many of the slowest steps a folded decode_forward names.
	WorstSteps int `mapstructure:"worst_steps"`
	// Semconv: add puts the conventions' names beside the engine's, replace
	// removes the engine's.
	Semconv string `mapstructure:"semconv"`
	// SpanNames: normalize takes what differs per request and host out of span names.
	SpanNames string `mapstructure:"span_names"`
	// Attributes says which attributes of spans leave.
	Attributes Attributes `mapstructure:"attributes"`
	// MaxRequestAge is how long the numbers of a request without a root are kept. It
	// is for those whose root never comes: make it longer than any request takes, its
	// wait in the engine's queue included. Memory is bounded by MaxHeldMiB.
	MaxRequestAge time.Duration `mapstructure:"max_request_age"`
	// MaxRequests bounds the traces in flight; beyond it the oldest leave early.
	MaxRequests int `mapstructure:"max_requests"`
	// MaxHeldMiB bounds the memory; beyond it the oldest leave early.
	MaxHeldMiB int `mapstructure:"max_held_mib"`
	// InstanceFrom are the resource attributes that name an engine: spans and a
	// metrics page are one engine's if one of them has the same value on both.
	InstanceFrom []string `mapstructure:"instance_from"`
}

// Attributes says which attributes of spans leave.
type Attributes struct {
	// Allow are names that leave besides those of the engine and of this
	// distribution; a * at the end stands for any rest.
	Allow []string `mapstructure:"allow"`
}

var _ component.Config = (*Config)(nil)

func createDefaultConfig() component.Config {
	return &Config{
		Wait:          6 * time.Second,
		PDWait:        10 * time.Second,
		DecodeLoop:    decodeLoopFold,
		WorstSteps:    3,
		Semconv:       semconvAdd,
		SpanNames:     namesNormalize,
		MaxRequestAge: 2 * time.Hour,
		MaxRequests:   100_000,
		MaxHeldMiB:    256,
		InstanceFrom:  []string{attrServiceInstance, "k8s.pod.name"},
	}
}

// Validate reports all mistakes at once.
func (c *Config) Validate() error {
	return errors.Join(
		between("wait", c.Wait, 10*time.Millisecond, 10*time.Minute),
		between("pd_wait", c.PDWait, 0, 10*time.Minute),
		between("max_request_age", c.MaxRequestAge, time.Second, 24*time.Hour),
		between("worst_steps", c.WorstSteps, 0, 50),
		between("max_requests", c.MaxRequests, 100, 10_000_000),
		between("max_held_mib", c.MaxHeldMiB, 1, 1<<20),
		oneOf("decode_loop", c.DecodeLoop, decodeLoopFold, decodeLoopKeep, decodeLoopDrop),
		oneOf("semconv", c.Semconv, semconvAdd, semconvReplace),
		oneOf("span_names", c.SpanNames, namesNormalize, namesKeep),
		c.validateAges(),
		c.validateInstance(),
		c.Attributes.validate(),
	)
}

func (c *Config) validateAges() error {
	if c.MaxRequestAge < c.Wait {
		return fmt.Errorf("max_request_age must not be shorter than wait (%v), got %v", c.Wait, c.MaxRequestAge)
	}
	return nil
}

func (c *Config) validateInstance() error {
	if len(c.InstanceFrom) > presence.MaxKeys {
		return fmt.Errorf("instance_from must have at most %d attributes, got %d", presence.MaxKeys, len(c.InstanceFrom))
	}
	if slices.Contains(c.InstanceFrom, "") {
		return fmt.Errorf("instance_from must not have empty names, got %q", c.InstanceFrom)
	}
	return nil
}

// maxAllowed bounds the names that each attribute may be compared with.
const maxAllowed = 100

func (a *Attributes) validate() error {
	if len(a.Allow) > maxAllowed {
		return fmt.Errorf("attributes::allow must have at most %d names, got %d", maxAllowed, len(a.Allow))
	}
	for _, name := range a.Allow {
		if name == "" || strings.Contains(strings.TrimSuffix(name, "*"), "*") {
			return fmt.Errorf("attributes::allow must have names with a * at their end at most, got %q", name)
		}
	}
	return nil
}

func between[T int | time.Duration](key string, got, low, high T) error {
	if got < low || got > high {
		return fmt.Errorf("%s must be from %v to %v, got %v", key, low, high, got)
	}
	return nil
}

func oneOf(key, got string, allowed ...string) error {
	if !slices.Contains(allowed, got) {
		return fmt.Errorf("%s must be one of %s, got %q", key, strings.Join(allowed, ", "), got)
	}
	return nil
}
