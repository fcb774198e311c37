// Copyright The otelcol-sglang Authors
// SPDX-License-Identifier: Apache-2.0

package rankdedupprocessor // import "github.com/otelcol-sglang/otelcol-sglang/processor/rankdedupprocessor"

import (
	"errors"
	"fmt"
	"maps"
	"slices"
	"time"

	"github.com/otelcol-sglang/otelcol-sglang/internal/sglang"
)

// MetricsConfig is how the copies of TP ranks become one series.
type MetricsConfig struct {
	// Overrides say what to do with the ranks' series of a family, by its name:
	// first, max, sum or keep. They go before the catalogue, and fold families that
	// the catalogue does not know.
	Overrides map[string]string `mapstructure:"overrides"`
	// KeepRankLabels leaves tp_rank and moe_ep_rank on folded series: those of the
	// rank whose value it is, of a sum those of its lowest rank. A series then
	// changes its labels when another rank takes over.
	KeepRankLabels bool `mapstructure:"keep_rank_labels"`
	// Skew adds sglang.series.skew and sglang.series.skew_rank for the families in
	// which a straggling rank shows.
	Skew bool `mapstructure:"skew"`
	// MaxSeries bounds the series that are remembered, one per rank. What is beyond
	// is folded from each scrape alone: a reset of one rank then shows in its sum.
	MaxSeries int64 `mapstructure:"max_series"`
	// IdleExpiry is how long a series is remembered that no scrape shows.
	IdleExpiry time.Duration `mapstructure:"idle_expiry"`
}

func defaultMetricsConfig() MetricsConfig {
	return MetricsConfig{MaxSeries: 50_000, IdleExpiry: 30 * time.Minute}
}

// Validate reports every setting that is out of range.
func (c *MetricsConfig) Validate() error {
	errs := []error{
		inRange("max_series", c.MaxSeries, 100, 10_000_000),
		inRange("idle_expiry", c.IdleExpiry, time.Minute, 7*24*time.Hour),
	}
	for _, name := range slices.Sorted(maps.Keys(c.Overrides)) {
		errs = append(errs, validateOverride(name, c.Overrides[name]))
	}
	return errors.Join(errs...)
}

func validateOverride(name, value string) error {
	reduce, ok := sglang.ParseTPReduce(value)
	if name == "" {
		return fmt.Errorf("overrides: the name of a family must not be empty (got %q: %q)", name, value)
	}
	if !ok {
		return fmt.Errorf("overrides: %s must be first, max, sum or keep (got %q)", name, value)
	}
	_, f := sglang.Resolve(name, sglang.TypeUntyped)
	if f == nil {
		return nil
	}
	switch {
	case f.Type == sglang.TypeHistogram && reduce == sglang.ReduceMax:
		return fmt.Errorf("overrides: %s must be first, sum or keep, being a histogram (got %q)", name, value)
	case f.Type == sglang.TypeSummary && reduce != sglang.ReduceFirst && reduce != sglang.ReduceKeep:
		return fmt.Errorf("overrides: %s must be first or keep, being a summary (got %q)", name, value)
	}
	return nil
}
