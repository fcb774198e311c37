// Copyright The otelcol-sglang Authors
// SPDX-License-Identifier: Apache-2.0

package sglangreceiver

import (
	"path/filepath"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"go.opentelemetry.io/collector/component"
	"go.opentelemetry.io/collector/config/configopaque"
	"go.opentelemetry.io/collector/confmap/confmaptest"
	"go.opentelemetry.io/collector/confmap/xconfmap"
	"go.opentelemetry.io/collector/receiver/otlpreceiver"

	"github.com/otelcol-sglang/otelcol-sglang/receiver/sglangreceiver/internal/metadata"
)

func loadConfig(t *testing.T, name string) (*Config, error) {
	t.Helper()
	conf, err := confmaptest.LoadConf(filepath.Join("testdata", "config.yaml"))
	require.NoError(t, err)
	sub, err := conf.Sub(component.NewIDWithName(metadata.Type, name).String())
	require.NoError(t, err)
	cfg := createDefaultConfig()
	require.NoError(t, sub.Unmarshal(cfg))
	return cfg.(*Config), xconfmap.Validate(cfg)
}

func TestLoadConfig(t *testing.T) {
	defaults := func(change func(*Config)) *Config {
		cfg := createDefaultConfig().(*Config)
		change(cfg)
		return cfg
	}
	engineOf := func(endpoint string, change func(*EngineConfig)) EngineConfig {
		e := defaultEngineConfig()
		e.ClientConfig.Endpoint = endpoint
		change(&e)
		return e
	}
	delay := 500 * time.Millisecond
	tests := []struct {
		name string
		want *Config
	}{
		{"", defaults(func(*Config) {})},
		{"empty", defaults(func(*Config) {})},
		{"grpc_only", defaults(func(c *Config) { c.Protocols.HTTP = defaultProtocols().HTTP })},
		{"http_elsewhere", defaults(func(c *Config) {
			c.Protocols.GRPC = defaultProtocols().GRPC
			c.Protocols.HTTP.Get().ServerConfig.NetAddr.Endpoint = "0.0.0.0:14318"
			c.Protocols.HTTP.Get().ServerConfig.MaxRequestBodySize = 1 << 20
		})},
		{"scrape_only", defaults(func(c *Config) {
			c.Protocols = defaultProtocols()
			c.Engines = []EngineConfig{engineOf("http://localhost:30000", func(*EngineConfig) {})}
		})},
		{"all", defaults(func(c *Config) {
			c.Protocols.GRPC.Get().NetAddr.Endpoint = "0.0.0.0:4317"
			c.Protocols.GRPC.Get().MaxRecvMsgSizeMiB = 8
			c.Engines = []EngineConfig{
				engineOf("http://engine-0:30000", func(e *EngineConfig) {
					e.ResourceAttributes = map[string]string{"k8s.pod.name": "engine-0"}
				}),
				engineOf("https://engine-1:30000/behind/a/path/", func(e *EngineConfig) {
					e.MetricsPath = "/metrics?x=1"
					e.ClientConfig.Timeout = 2 * time.Second
					e.ClientConfig.Headers = configopaque.MapList{{Name: "authorization", Value: "Bearer token"}}
					e.ClientConfig.TLS.InsecureSkipVerify = true
					e.CollectionInterval = time.Second
					e.InitialDelay = &delay
					e.ResourceAttributes = map[string]string{"service.name": "llama", "service.instance.id": "engine-1"}
				}),
			}
			c.CollectionInterval = 10 * time.Second
			c.InitialDelay = time.Second
			c.ServerInfoInterval = 0
			c.MaxPageMiB = 64
			c.DropSentinels = false
		})},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			cfg, err := loadConfig(t, tt.name)
			require.NoError(t, err)
			assert.Equal(t, tt.want, cfg)
		})
	}
}

func TestInvalidConfig(t *testing.T) {
	tests := []struct {
		name string
		want []string
	}{
		{"invalid", []string{
			"protocols must name at least one of grpc and http if there are no engines (got none)",
			"collection_interval must be from 100ms to 1h0m0s (got 10ms)",
			"initial_delay must be from 0s to 1h0m0s (got -1s)",
			"server_info_interval must be from 1s to 24h0m0s (got 1ms)",
			"max_page_mib must be from 1 to 1024 (got 0)",
		}},
		{"invalid_engines", []string{
			`engines[0].endpoint must be set (got "")`,
			`engines[1].endpoint must be http://host:port or https://host:port (got "localhost:30000")`,
			"engines[2].endpoint must have no credentials, use auth or headers (got a URL with some)",
			`engines[3].endpoint must have no query and fragment, use metrics_path (got "http://localhost:30000")`,
			`engines[4].metrics_path must begin with / and have no # (got "metrics")`,
			"engines[4].timeout must not be negative (got -1s)",
			"engines[4].collection_interval must be from 100ms to 1h0m0s (got 2h0m0s)",
			"engines[4].initial_delay must be from 0s to 1h0m0s (got -1s)",
			`engines[4].resource_attributes must have no empty keys and values (got "pod": "")`,
			`engines[5].endpoint must differ from that of engines[4], or have its own service.instance.id in resource_attributes (got "localhost:30001")`,
		}},
		{"invalid_tls", []string{"protocols::grpc", "min_version"}},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			_, err := loadConfig(t, tt.name)
			require.Error(t, err)
			for _, want := range tt.want {
				require.ErrorContains(t, err, want)
			}
			assert.NotContains(t, err.Error(), "secret")
		})
	}
}

// TestProtocolsAreTheCores: whatever the core's receiver takes under `protocols`
// this one takes, with the same result but for the bounds on sizes and times, and for zstd.
func TestProtocolsAreTheCores(t *testing.T) {
	for _, name := range []string{"grpc_only", "http_elsewhere", "all"} {
		conf, err := confmaptest.LoadConf(filepath.Join("testdata", "config.yaml"))
		require.NoError(t, err)
		sub, err := conf.Sub("sglang/" + name + "::protocols")
		require.NoError(t, err)
		core := otlpreceiver.NewFactory().CreateDefaultConfig().(*otlpreceiver.Config)
		require.NoError(t, sub.Unmarshal(&core.Protocols))

		cfg, err := loadConfig(t, name)
		require.NoError(t, err)
		if grpc := core.Protocols.GRPC.Get(); grpc != nil {
			grpc.MaxRecvMsgSizeMiB = cfg.Protocols.GRPC.Get().MaxRecvMsgSizeMiB
			assert.Equal(t, grpc, cfg.Protocols.GRPC.Get())
		}
		if http := core.Protocols.HTTP.Get(); http != nil {
			http.ServerConfig.MaxRequestBodySize = cfg.Protocols.HTTP.Get().ServerConfig.MaxRequestBodySize
			http.ServerConfig.ReadHeaderTimeout = headerTimeout
			http.ServerConfig.CompressionAlgorithms = compressions
			assert.Equal(t, http, cfg.Protocols.HTTP.Get())
		}
		assert.Equal(t, core.Protocols.GRPC.HasValue(), cfg.Protocols.GRPC.HasValue())
		assert.Equal(t, core.Protocols.HTTP.HasValue(), cfg.Protocols.HTTP.HasValue())
	}
}

func TestDefaultsAreSafe(t *testing.T) {
	cfg := createDefaultConfig().(*Config)
	assert.Equal(t, "localhost:4317", cfg.Protocols.GRPC.Get().NetAddr.Endpoint)
	assert.Equal(t, "localhost:4318", cfg.Protocols.HTTP.Get().ServerConfig.NetAddr.Endpoint)
	assert.Equal(t, maxMessageMiB, cfg.Protocols.GRPC.Get().MaxRecvMsgSizeMiB)
	assert.EqualValues(t, maxMessageMiB<<20, cfg.Protocols.HTTP.Get().ServerConfig.MaxRequestBodySize)
	assert.NotContains(t, cfg.Protocols.HTTP.Get().ServerConfig.CompressionAlgorithms, "zstd")
	// A sender that has to connect again is a new peer.
	assert.Zero(t, cfg.Protocols.HTTP.Get().ServerConfig.IdleTimeout)
}

// The inner receiver's settings are a copy: the private middleware is not in the user's.
func TestOTLPConfig(t *testing.T) {
	cfg := createDefaultConfig().(*Config)
	inner := otlpConfig(cfg.Protocols).(*otlpreceiver.Config)
	assert.Empty(t, cfg.Protocols.HTTP.Get().ServerConfig.Middlewares)
	require.Len(t, inner.Protocols.HTTP.Get().ServerConfig.Middlewares, 1)
	assert.Equal(t, peerID, inner.Protocols.HTTP.Get().ServerConfig.Middlewares[0].ID)
}
