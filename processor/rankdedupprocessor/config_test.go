// Copyright The otelcol-sglang Authors
// SPDX-License-Identifier: Apache-2.0

package rankdedupprocessor

import (
	"path/filepath"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"go.opentelemetry.io/collector/component"
	"go.opentelemetry.io/collector/confmap/confmaptest"
	"go.opentelemetry.io/collector/confmap/xconfmap"

	"github.com/otelcol-sglang/otelcol-sglang/processor/rankdedupprocessor/internal/metadata"
)

func loadConfig(t *testing.T, name string) *Config {
	t.Helper()
	all, err := confmaptest.LoadConf(filepath.Join("testdata", "config.yaml"))
	require.NoError(t, err)
	sub, err := all.Sub(component.NewIDWithName(metadata.Type, name).String())
	require.NoError(t, err)
	cfg := createDefaultConfig().(*Config)
	require.NoError(t, sub.Unmarshal(cfg))
	return cfg
}

func TestConfig(t *testing.T) {
	all := createDefaultConfig().(*Config)
	all.Wait, all.LearnWait, all.MaxHeldMiB = 5*time.Second, time.Minute, 256
	all.ForgetAfter, all.MaxSenders = 2*time.Hour, 1000
	all.Metrics.Overrides = map[string]string{"sglang:num_running_reqs": "max"}
	all.Metrics.KeepRankLabels, all.Metrics.Skew = true, true
	all.Metrics.MaxSeries, all.Metrics.IdleExpiry = 1000, 5*time.Minute
	for name, want := range map[string]*Config{"": createDefaultConfig().(*Config), "all": all} {
		cfg := loadConfig(t, name)
		require.NoError(t, xconfmap.Validate(cfg))
		assert.Equal(t, want, cfg)
	}
}

// TestConfigBounds: the ends of each range are within it, what is beyond is told
// with key, rule and value.
func TestConfigBounds(t *testing.T) {
	for name, tc := range map[string]struct {
		change func(*Config)
		want   string
	}{
		"wait, least":          {func(c *Config) { c.Wait = 10 * time.Millisecond }, ""},
		"wait, most":           {func(c *Config) { c.Wait, c.LearnWait = 5*time.Minute, time.Hour }, ""},
		"wait, too long":       {func(c *Config) { c.Wait, c.LearnWait = 5*time.Minute+1, time.Hour }, "wait must be from 10ms to 5m0s (got 5m0.000000001s)"},
		"learn_wait, least":    {func(c *Config) { c.LearnWait = c.Wait }, ""},
		"learn_wait, too low":  {func(c *Config) { c.LearnWait = time.Second }, "learn_wait must be from 2s to 1h0m0s (got 1s)"},
		"learn_wait, too long": {func(c *Config) { c.LearnWait = 2 * time.Hour }, "learn_wait must be from 2s to 1h0m0s (got 2h0m0s)"},
		"max_held_mib, ends":   {func(c *Config) { c.MaxHeldMiB = 1 << 20 }, ""},
		"max_held_mib, beyond": {func(c *Config) { c.MaxHeldMiB = 1<<20 + 1 }, "max_held_mib must be from 1 to 1048576 (got 1048577)"},
		"forget_after, ends":   {func(c *Config) { c.ForgetAfter = 168 * time.Hour }, ""},
		"forget_after, beyond": {func(c *Config) { c.ForgetAfter = 169 * time.Hour }, "forget_after must be from 1m0s to 168h0m0s (got 169h0m0s)"},
		"max_senders, ends":    {func(c *Config) { c.MaxSenders = 16 }, ""},
		"max_senders, beyond":  {func(c *Config) { c.MaxSenders = 1<<20 + 1 }, "max_senders must be from 16 to 1048576 (got 1048577)"},
		"max_series, least":    {func(c *Config) { c.Metrics.MaxSeries = 100 }, ""},
		"max_series, beyond":   {func(c *Config) { c.Metrics.MaxSeries = 10_000_001 }, "metrics: max_series must be from 100 to 10000000 (got 10000001)"},
		"idle_expiry, beyond":  {func(c *Config) { c.Metrics.IdleExpiry = 169 * time.Hour }, "metrics: idle_expiry must be from 1m0s to 168h0m0s (got 169h0m0s)"},
		"an override":          {func(c *Config) { c.Metrics.Overrides = map[string]string{"x": "mean"} }, `metrics: overrides: x must be first, max, sum or keep (got "mean")`},
	} {
		t.Run(name, func(t *testing.T) {
			cfg := createDefaultConfig().(*Config)
			tc.change(cfg)
			if err := xconfmap.Validate(cfg); tc.want == "" {
				assert.NoError(t, err)
			} else {
				assert.ErrorContains(t, err, tc.want)
			}
		})
	}
}

func TestConfigOutOfRange(t *testing.T) {
	err := xconfmap.Validate(loadConfig(t, "out_of_range"))
	require.Error(t, err)
	for _, want := range []string{
		"wait must be from 10ms to 5m0s (got 0s)",
		"learn_wait must be from 0s to 1h0m0s (got -1s)",
		"max_held_mib must be from 1 to 1048576 (got 0)",
		"forget_after must be from 1m0s to 168h0m0s (got 1s)",
		"max_senders must be from 16 to 1048576 (got 1)",
	} {
		assert.ErrorContains(t, err, want)
	}
}
