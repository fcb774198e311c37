// Copyright The otelcol-sglang Authors
// SPDX-License-Identifier: Apache-2.0

package genaimetricsconnector

import (
	"math"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"go.opentelemetry.io/collector/component"
	"go.opentelemetry.io/collector/confmap/confmaptest"

	"github.com/otelcol-sglang/otelcol-sglang/connector/genaimetricsconnector/internal/metadata"
)

func TestLoadConfig(t *testing.T) {
	conf, err := confmaptest.LoadConf(filepath.Join("testdata", "config.yaml"))
	require.NoError(t, err)
	for name, want := range map[string]*Config{
		"": createDefaultConfig().(*Config),
		"all": {
			Histogram: "exponential", MaxSeries: 500, Interval: 15 * time.Second,
			Buckets:         map[string][]float64{"gen_ai.server.time_to_first_token": {0.1, 1, 10}},
			ExponentialSize: 80, Dimensions: []string{"priority", "k8s.namespace.name"},
			InstanceFrom: []string{"k8s.statefulset.name"}, CollectorID: "gateway-0",
			SeriesExpiry: 24 * time.Hour, ResendWindow: time.Hour, MaxRemembered: 1000,
		},
	} {
		t.Run(name, func(t *testing.T) {
			sub, err := conf.Sub(component.NewIDWithName(metadata.Type, name).String())
			require.NoError(t, err)
			cfg := NewFactory().CreateDefaultConfig()
			require.NoError(t, sub.Unmarshal(cfg))
			assert.NoError(t, cfg.(*Config).Validate())
			assert.Equal(t, want, cfg)
		})
	}
}

func TestValidate(t *testing.T) {
	for _, tt := range []struct {
		name   string
		change func(*Config)
		want   string
	}{
		{"histogram", func(c *Config) { c.Histogram = "native" }, `histogram must be explicit or exponential, got "native"`},
		{"max_series", func(c *Config) { c.MaxSeries = 0 }, "max_series must be from 1 to 1000000, got 0"},
		{"interval", func(c *Config) { c.Interval = time.Millisecond }, "interval must be from 100ms to 10m0s, got 1ms"},
		{"size", func(c *Config) { c.ExponentialSize = 2 }, "exponential_size must be from 20 to 640, got 2"},
		{"expiry", func(c *Config) { c.SeriesExpiry = time.Second }, "series_expiry must be from 1m0s to 720h0m0s, got 1s"},
		{"expiry and interval", func(c *Config) {
			c.SeriesExpiry, c.Interval = time.Minute, 2*time.Minute
		}, "series_expiry must not be shorter than interval (2m0s), got 1m0s"},
		{"window", func(c *Config) { c.ResendWindow = 0 }, "resend_window must be from 1s to 24h0m0s, got 0s"},
		{"remembered", func(c *Config) { c.MaxRemembered = 1 }, "max_remembered must be from 100 to 10000000, got 1"},
		{"collector", func(c *Config) { c.CollectorID = "a\xff" }, `collector_id must be UTF-8 of at most 128 bytes, got "a\xff"`},
		{"buckets of a counter", func(c *Config) {
			c.Buckets = map[string][]float64{"sglang.request.tokens": {1}}
		}, `buckets must be for one of this connector's histograms, got "sglang.request.tokens"`},
		{"no buckets", func(c *Config) {
			c.Buckets = map[string][]float64{"sglang.ranks.skew": {}}
		}, "buckets::sglang.ranks.skew must have 1 to 200 bounds, got 0"},
		{"falling buckets", func(c *Config) {
			c.Buckets = map[string][]float64{"sglang.ranks.skew": {1, 1}}
		}, "buckets::sglang.ranks.skew must rise, got 1 after 1"},
		{"endless bucket", func(c *Config) {
			c.Buckets = map[string][]float64{"sglang.ranks.skew": {1, math.Inf(1)}}
		}, "buckets::sglang.ranks.skew must be finite and not negative, got +Inf"},
		{"many dimensions", func(c *Config) { c.Dimensions = make([]string, 9) }, "dimensions must be 8 at most, got 9"},
		{"empty dimension", func(c *Config) { c.Dimensions = []string{""} }, "dimensions[0] must not be empty"},
		{"dimension twice", func(c *Config) {
			c.Dimensions = []string{"a.b", "a_b"}
		}, `dimensions[1] must be another label than "a.b", got "a_b"`},
		{"own dimension", func(c *Config) {
			c.Dimensions = []string{"gen_ai_request.model"}
		}, `dimensions[0] must not be an attribute that series have already, got "gen_ai_request.model"`},
		{"label of the exporter", func(c *Config) {
			c.Dimensions = []string{"instance"}
		}, `dimensions[0] must not be an attribute that series have already, got "instance"`},
		{"request id", func(c *Config) {
			c.Dimensions = []string{"rid"}
		}, `dimensions[0] must not differ on each request, got "rid"`},
		{"long dimension", func(c *Config) {
			c.Dimensions = []string{strings.Repeat("a", 129)}
		}, "dimensions[0] must be UTF-8 of at most 128 bytes"},
		{"instance", func(c *Config) { c.InstanceFrom = []string{"a", ""} }, "instance_from must not have an empty entry"},
		{"many instances", func(c *Config) { c.InstanceFrom = make([]string, 9) }, "instance_from must be 8 at most, got 9"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			cfg := createDefaultConfig().(*Config)
			tt.change(cfg)
			assert.ErrorContains(t, cfg.Validate(), tt.want)
		})
	}
}

func TestValidateReportsAllMistakes(t *testing.T) {
	cfg := &Config{}
	err := cfg.Validate()
	for _, key := range []string{
		"histogram", "max_series", "interval", "exponential_size", "series_expiry", "resend_window", "max_remembered",
	} {
		assert.ErrorContains(t, err, key+" must")
	}
}
