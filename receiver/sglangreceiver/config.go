// Copyright The otelcol-sglang Authors
// SPDX-License-Identifier: Apache-2.0

package sglangreceiver // import "github.com/otelcol-sglang/otelcol-sglang/receiver/sglangreceiver"

import (
	"errors"
	"fmt"
	"maps"
	"net/url"
	"slices"
	"strings"
	"time"

	"go.opentelemetry.io/collector/component"
	"go.opentelemetry.io/collector/config/confighttp"
	"go.opentelemetry.io/collector/confmap"
	"go.opentelemetry.io/collector/receiver/otlpreceiver"
)

const (
	keyProtocols = "protocols"

	defaultInterval     = 5 * time.Second
	minInterval         = 100 * time.Millisecond
	maxInterval         = time.Hour
	maxTimeout          = 30 * time.Second
	defaultInfoInterval = 5 * time.Minute
	minInfoInterval     = time.Second
	maxInfoInterval     = 24 * time.Hour
	defaultMaxPageMiB   = 32
	maxMaxPageMiB       = 1024
	defaultMetricsPath  = "/metrics"
	defaultServiceName  = "sglang"

	attrServiceName     = "service.name"
	attrServiceInstance = "service.instance.id"
)

// Config of the receiver.
type Config struct {
	// Protocols are exactly the core OTLP receiver's. Where the key is absent both
	// are served on localhost; where it is there, only those that it names.
	Protocols otlpreceiver.Protocols `mapstructure:"protocols"`

	// Engines are the metrics pages to scrape. Empty: none.
	Engines []EngineConfig `mapstructure:"engines"`

	// CollectionInterval is the time between two scrapes of an engine. Default 5s.
	CollectionInterval time.Duration `mapstructure:"collection_interval"`
	// InitialDelay is the time from the start to an engine's first scrape. Default 0.
	InitialDelay time.Duration `mapstructure:"initial_delay"`
	// ServerInfoInterval is the time between two questions to an engine's
	// /server_info; a restart seen on its page asks at once. 0 never asks. Default 5m.
	ServerInfoInterval time.Duration `mapstructure:"server_info_interval"`
	// MaxPageMiB bounds an engine's page, after decompression. Default 32.
	MaxPageMiB int `mapstructure:"max_page_mib"`
	// DropSentinels leaves out the engine's values for "not measured": NaN, and -1
	// in the families that use it so. Default true.
	DropSentinels bool `mapstructure:"drop_sentinels"`
}

// EngineConfig is one metrics page.
type EngineConfig struct {
	// ClientConfig has the endpoint (`http://host:port`, required) and any other
	// HTTP client setting. A timeout of 0 means the collection interval, at most 30s.
	ClientConfig confighttp.ClientConfig `mapstructure:",squash"`

	// MetricsPath is the page's path, with a query if wanted. Default /metrics.
	MetricsPath string `mapstructure:"metrics_path"`
	// ResourceAttributes are added to the page's resource and win over what the
	// engine says of itself.
	ResourceAttributes map[string]string `mapstructure:"resource_attributes"`
	// CollectionInterval of this engine. 0: the receiver's.
	CollectionInterval time.Duration `mapstructure:"collection_interval"`
	// InitialDelay of this engine. Absent: the receiver's.
	InitialDelay *time.Duration `mapstructure:"initial_delay"`
}

var (
	_ component.Config    = (*Config)(nil)
	_ confmap.Unmarshaler = (*Config)(nil)
	_ confmap.Unmarshaler = (*EngineConfig)(nil)
)

func createDefaultConfig() component.Config {
	protocols := defaultProtocols()
	protocols.GRPC.GetOrInsertDefault()
	protocols.HTTP.GetOrInsertDefault()
	return &Config{
		Protocols:          protocols,
		CollectionInterval: defaultInterval,
		ServerInfoInterval: defaultInfoInterval,
		MaxPageMiB:         defaultMaxPageMiB,
		DropSentinels:      true,
	}
}

func defaultEngineConfig() EngineConfig {
	return EngineConfig{
		ClientConfig: confighttp.NewDefaultClientConfig(),
		MetricsPath:  defaultMetricsPath,
	}
}

// Unmarshal lets an explicit `protocols` choose among the protocols, as in the
// core OTLP receiver, though the default has both.
func (c *Config) Unmarshal(conf *confmap.Conf) error {
	if conf.IsSet(keyProtocols) {
		c.Protocols = defaultProtocols()
	}
	return conf.Unmarshal(c)
}

// Unmarshal gives each engine of the list its defaults.
func (e *EngineConfig) Unmarshal(conf *confmap.Conf) error {
	*e = defaultEngineConfig()
	return conf.Unmarshal(e)
}

// Validate reports all mistakes at once.
func (c *Config) Validate() error {
	var errs []error
	if !c.Protocols.GRPC.HasValue() && !c.Protocols.HTTP.HasValue() && len(c.Engines) == 0 {
		errs = append(errs, errors.New("protocols must name at least one of grpc and http if there are no engines (got none)"))
	}
	errs = append(errs,
		within("collection_interval", c.CollectionInterval, minInterval, maxInterval),
		within("initial_delay", c.InitialDelay, 0, maxInterval))
	if c.ServerInfoInterval != 0 {
		errs = append(errs, within("server_info_interval", c.ServerInfoInterval, minInfoInterval, maxInfoInterval))
	}
	if c.MaxPageMiB < 1 || c.MaxPageMiB > maxMaxPageMiB {
		errs = append(errs, fmt.Errorf("max_page_mib must be from 1 to %d (got %d)", maxMaxPageMiB, c.MaxPageMiB))
	}
	seen := map[string]int{}
	for i := range c.Engines {
		e := &c.Engines[i]
		key := fmt.Sprintf("engines[%d]", i)
		errs = append(errs, e.check(key))
		if first, dup := seen[e.identity()]; dup {
			errs = append(errs, fmt.Errorf("%s.endpoint must differ from that of engines[%d], or have its own service.instance.id in resource_attributes (got %q)",
				key, first, e.instance()))
			continue
		}
		seen[e.identity()] = i
	}
	return errors.Join(errs...)
}

func (e *EngineConfig) check(key string) error {
	errs := []error{e.checkEndpoint(key)}
	if !strings.HasPrefix(e.MetricsPath, "/") || strings.Contains(e.MetricsPath, "#") {
		errs = append(errs, fmt.Errorf("%s.metrics_path must begin with / and have no # (got %q)", key, e.MetricsPath))
	}
	if e.ClientConfig.Timeout < 0 {
		errs = append(errs, fmt.Errorf("%s.timeout must not be negative (got %s)", key, e.ClientConfig.Timeout))
	}
	if e.CollectionInterval != 0 {
		errs = append(errs, within(key+".collection_interval", e.CollectionInterval, minInterval, maxInterval))
	}
	if e.InitialDelay != nil {
		errs = append(errs, within(key+".initial_delay", *e.InitialDelay, 0, maxInterval))
	}
	for _, k := range slices.Sorted(maps.Keys(e.ResourceAttributes)) {
		if k == "" || e.ResourceAttributes[k] == "" {
			errs = append(errs, fmt.Errorf("%s.resource_attributes must have no empty keys and values (got %q: %q)", key, k, e.ResourceAttributes[k]))
		}
	}
	return errors.Join(errs...)
}

// checkEndpoint keeps an endpoint with credentials out of its error.
func (e *EngineConfig) checkEndpoint(key string) error {
	u, err := url.Parse(e.ClientConfig.Endpoint)
	switch {
	case e.ClientConfig.Endpoint == "":
		return fmt.Errorf(`%s.endpoint must be set (got "")`, key)
	case err != nil:
		return fmt.Errorf("%s.endpoint must be a URL (got one that cannot be parsed)", key)
	case u.User != nil:
		return fmt.Errorf("%s.endpoint must have no credentials, use auth or headers (got a URL with some)", key)
	case (u.Scheme != "http" && u.Scheme != "https") || u.Host == "":
		return fmt.Errorf("%s.endpoint must be http://host:port or https://host:port (got %q)", key, e.ClientConfig.Endpoint)
	case u.RawQuery != "" || u.Fragment != "":
		return fmt.Errorf("%s.endpoint must have no query and fragment, use metrics_path (got %q)", key, u.Scheme+"://"+u.Host+u.Path)
	}
	return nil
}

// instance is the engine's service.instance.id.
func (e *EngineConfig) instance() string {
	if id := e.ResourceAttributes[attrServiceInstance]; id != "" {
		return id
	}
	u, err := url.Parse(e.ClientConfig.Endpoint)
	if err != nil {
		return e.ClientConfig.Endpoint
	}
	return u.Host + strings.TrimRight(u.Path, "/")
}

// identity is what tells the engine's series from others' in Prometheus.
func (e *EngineConfig) identity() string { return e.service() + "\x00" + e.instance() }

func (e *EngineConfig) service() string {
	if name := e.ResourceAttributes[attrServiceName]; name != "" {
		return name
	}
	return defaultServiceName
}

func (e *EngineConfig) base() string { return strings.TrimRight(e.ClientConfig.Endpoint, "/") }

func within(key string, got, lo, hi time.Duration) error {
	if got < lo || got > hi {
		return fmt.Errorf("%s must be from %s to %s (got %s)", key, lo, hi, got)
	}
	return nil
}
