// Copyright The otelcol-sglang Authors
// SPDX-License-Identifier: Apache-2.0

package genaiprocessor

import (
	"path/filepath"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"go.opentelemetry.io/collector/component"
	"go.opentelemetry.io/collector/confmap/confmaptest"
	"go.opentelemetry.io/collector/confmap/xconfmap"

	"github.com/otelcol-sglang/otelcol-sglang/processor/genaiprocessor/internal/metadata"
)

func load(t *testing.T, name string) *Config {
	t.Helper()
	all, err := confmaptest.LoadConf(filepath.Join("testdata", "config.yaml"))
	require.NoError(t, err)
	sub, err := all.Sub(component.NewIDWithName(metadata.Type, name).String())
	require.NoError(t, err)
	cfg := NewFactory().CreateDefaultConfig()
	require.NoError(t, sub.Unmarshal(cfg))
	return cfg.(*Config)
}

func TestConfig(t *testing.T) {
	changed := createDefaultConfig().(*Config)
	changed.DecodeLoop = decodeLoopDrop
	for name, want := range map[string]*Config{
		"": {
			Wait: 6 * time.Second, PDWait: 10 * time.Second, DecodeLoop: "fold", WorstSteps: 3, Semconv: "add",
			SpanNames: "normalize", MaxRequestAge: 2 * time.Hour, MaxRequests: 100_000, MaxHeldMiB: 256,
			InstanceFrom: []string{"service.instance.id", "k8s.pod.name"},
		},
		"all": {
			Wait: 12 * time.Second, PDWait: 20 * time.Second, DecodeLoop: "keep", WorstSteps: 5, Semconv: "replace",
			SpanNames: "keep", MaxRequestAge: time.Hour, MaxRequests: 5000, MaxHeldMiB: 64,
			InstanceFrom: []string{"k8s.pod.uid"}, Attributes: Attributes{Allow: []string{"lora_name", "acme.*"}},
		},
		"drop": changed,
	} {
		t.Run(name, func(t *testing.T) {
			cfg := load(t, name)
			assert.Equal(t, want, cfg)
			assert.NoError(t, xconfmap.Validate(cfg))
		})
	}
}

func TestConfigMistakes(t *testing.T) {
	err := xconfmap.Validate(load(t, "wrong"))
	for _, want := range []string{
		"wait must be from 10ms to 10m0s, got 1ms",
		"pd_wait must be from 0s to 10m0s, got -1s",
		`decode_loop must be one of fold, keep, drop, got "forget"`,
		"worst_steps must be from 0 to 50, got 500",
		`semconv must be one of add, replace, got "both"`,
		`span_names must be one of normalize, keep, got "short"`,
		"max_request_age must be from 1s to 24h0m0s, got 1ms",
		"max_requests must be from 100 to 10000000, got 1",
		"max_held_mib must be from 1 to 1048576, got 0",
		"instance_from must have at most 8 attributes, got 9",
		`attributes::allow must have names with a * at their end at most, got "a*b"`,
	} {
		require.ErrorContains(t, err, want)
	}
	require.EqualError(t, xconfmap.Validate(load(t, "ages")),
		"max_request_age must not be shorter than wait (1m0s), got 30s")
	require.EqualError(t, xconfmap.Validate(load(t, "names")),
		`instance_from must not have empty names, got ["a" ""]`)
}
