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
