// Copyright The otelcol-sglang Authors
// SPDX-License-Identifier: Apache-2.0

package genaimetricsconnector // import "github.com/otelcol-sglang/otelcol-sglang/connector/genaimetricsconnector"

import (
	"errors"
	"fmt"
	"maps"
	"math"
	"slices"
	"strings"
	"time"
	"unicode/utf8"

	"go.opentelemetry.io/collector/component"

	"github.com/otelcol-sglang/otelcol-sglang/connector/genaimetricsconnector/internal/series"
	"github.com/otelcol-sglang/otelcol-sglang/internal/sglang"
)

// Values of Config.Histogram.
const (
	histogramExplicit    = "explicit"
	histogramExponential = "exponential"
)

// Limits of lists and texts in the settings.
const (
	maxBuckets    = 200
	maxDimensions = 8
	maxInstance   = 8
	maxText       = 128
)

// Config is the connector's settings.
type Config struct {
	// Histogram: explicit has fixed buckets, exponential adapts base-2 buckets.
	Histogram string `mapstructure:"histogram"`
	// MaxSeries bounds the series; what is beyond goes to one overflow series per metric.
	MaxSeries int `mapstructure:"max_series"`
	// Exemplars keeps the latest trace and span id of each bucket.
	Exemplars bool `mapstructure:"exemplars"`
	// Interval is how often the metrics leave.
	Interval time.Duration `mapstructure:"interval"`
	// Buckets are upper bounds, in seconds, by the histogram's name; others keep theirs.
	Buckets map[string][]float64 `mapstructure:"buckets"`
	// ExponentialSize is the most buckets that an exponential histogram has.
	ExponentialSize int `mapstructure:"exponential_size"`
	// Dimensions are further attributes of the span, or else of its resource, that
	// the series are split by.
	Dimensions []string `mapstructure:"dimensions"`
	// InstanceFrom are the resource attributes of which the first that is set names
	// the engine (service.instance.id of the metrics). Random UUIDs name nothing.
	InstanceFrom []string `mapstructure:"instance_from"`
	// CollectorID is put on each series, to tell several collectors apart; empty: none.
	CollectorID string `mapstructure:"collector_id"`
	// SeriesExpiry is how long a series stays without an observation.
	SeriesExpiry time.Duration `mapstructure:"series_expiry"`
	// ResendWindow is for how long a span that comes again counts once.
	ResendWindow time.Duration `mapstructure:"resend_window"`
	// MaxRemembered bounds the spans remembered for it.
	MaxRemembered int `mapstructure:"max_remembered"`
}

var _ component.Config = (*Config)(nil)

func createDefaultConfig() component.Config {
	return &Config{
		Histogram:       histogramExplicit,
		MaxSeries:       2000,
		Exemplars:       true,
		Interval:        5 * time.Second,
		ExponentialSize: 160,
		InstanceFrom:    []string{attrServiceInstance, attrPodName},
		SeriesExpiry:    6 * time.Hour,
		ResendWindow:    10 * time.Minute,
		MaxRemembered:   200_000,
	}
}

// Validate reports all mistakes at once.
func (c *Config) Validate() error {
	return errors.Join(
		c.validateHistogram(),
		between("max_series", c.MaxSeries, 1, 1_000_000),
		between("interval", c.Interval, 100*time.Millisecond, 10*time.Minute),
		c.validateBuckets(),
		between("exponential_size", c.ExponentialSize, 20, 640),
		c.validateDimensions(),
		c.validateInstance(),
		validateText("collector_id", c.CollectorID),
		between("series_expiry", c.SeriesExpiry, time.Minute, 30*24*time.Hour),
		c.validateExpiry(),
		between("resend_window", c.ResendWindow, time.Second, 24*time.Hour),
		between("max_remembered", c.MaxRemembered, 100, 10_000_000),
	)
}

func (c *Config) validateHistogram() error {
	if c.Histogram != histogramExplicit && c.Histogram != histogramExponential {
		return fmt.Errorf("histogram must be %s or %s, got %q", histogramExplicit, histogramExponential, c.Histogram)
	}
	return nil
}

func (c *Config) validateExpiry() error {
	if c.SeriesExpiry < c.Interval {
		return fmt.Errorf("series_expiry must not be shorter than interval (%v), got %v", c.Interval, c.SeriesExpiry)
	}
	return nil
}

func (c *Config) validateBuckets() error {
	var errs error
	for _, name := range slices.Sorted(maps.Keys(c.Buckets)) {
		if _, ok := series.HistogramOf(name); !ok {
			errs = errors.Join(errs, fmt.Errorf("buckets must be for one of this connector's histograms, got %q", name))
			continue
		}
		if err := validateBounds(c.Buckets[name]); err != nil {
			errs = errors.Join(errs, fmt.Errorf("buckets::%s %w", name, err))
		}
	}
	return errs
}

func validateBounds(bounds []float64) error {
	if len(bounds) == 0 || len(bounds) > maxBuckets {
		return fmt.Errorf("must have 1 to %d bounds, got %d", maxBuckets, len(bounds))
	}
	for i, b := range bounds {
		switch {
		case math.IsNaN(b) || math.IsInf(b, 0) || b < 0:
			return fmt.Errorf("must be finite and not negative, got %v", b)
		case i > 0 && b <= bounds[i-1]:
			return fmt.Errorf("must rise, got %v after %v", b, bounds[i-1])
		}
	}
	return nil
}

// perRequest are attributes that differ on each request: as a dimension they would
// make a series of each.
var perRequest = []string{
	sglang.AttrRID, sglang.AttrRequestID, sglang.AttrResponseID, sglang.AttrBootstrapRoom,
	sglang.AttrOriginalName, sglang.AttrPDPeerTraceID, sglang.AttrPDPeerSpanID, sglang.AttrLatencyE2E,
	sglang.AttrLatencyTTFT, sglang.AttrOutTPOT,
}

// reserved are label names, as Prometheus sees them, that are there already or
// have a meaning there.
var reserved = func() map[string]bool {
	names := []string{
		sglang.AttrOperationName, sglang.AttrProviderName, sglang.AttrRequestModel, sglang.AttrErrorType,
		sglang.AttrStage, sglang.AttrPDRole, sglang.AttrTokenType, sglang.AttrOverflow, sglang.AttrCollectorID,
		attrServiceNamespace, attrServiceName, attrServiceInstance,
		"job", "instance", "le", "quantile",
	}
	set := make(map[string]bool, len(names))
	for _, name := range names {
		set[labelOf(name)] = true
	}
	return set
}()

// labelOf is the name that Prometheus gives an attribute.
func labelOf(name string) string {
	return strings.Map(func(r rune) rune {
		if r == '_' || r >= 'a' && r <= 'z' || r >= 'A' && r <= 'Z' || r >= '0' && r <= '9' {
			return r
		}
		return '_'
	}, name)
}

func (c *Config) validateDimensions() error {
	if len(c.Dimensions) > maxDimensions {
		return fmt.Errorf("dimensions must be %d at most, got %d", maxDimensions, len(c.Dimensions))
	}
	var errs error
	taken := make(map[string]string)
	for i, name := range c.Dimensions {
		key, label := fmt.Sprintf("dimensions[%d]", i), labelOf(name)
		switch {
		case name == "":
			errs = errors.Join(errs, fmt.Errorf("%s must not be empty", key))
		case reserved[label]:
			errs = errors.Join(errs, fmt.Errorf("%s must not be an attribute that series have already, got %q", key, name))
		case slices.Contains(perRequest, name):
			errs = errors.Join(errs, fmt.Errorf("%s must not differ on each request, got %q", key, name))
		case taken[label] != "":
			errs = errors.Join(errs, fmt.Errorf("%s must be another label than %q, got %q", key, taken[label], name))
		}
		errs = errors.Join(errs, validateText(key, name))
		taken[label] = name
	}
	return errs
}

func (c *Config) validateInstance() error {
	if len(c.InstanceFrom) > maxInstance {
		return fmt.Errorf("instance_from must be %d at most, got %d", maxInstance, len(c.InstanceFrom))
	}
	if slices.Contains(c.InstanceFrom, "") {
		return errors.New("instance_from must not have an empty entry")
	}
	return nil
}

func validateText(key, text string) error {
	if len(text) > maxText || !utf8.ValidString(text) {
		return fmt.Errorf("%s must be UTF-8 of at most %d bytes, got %q", key, maxText, text)
	}
	return nil
}

func between[T int | time.Duration](key string, got, low, high T) error {
	if got < low || got > high {
		return fmt.Errorf("%s must be from %v to %v, got %v", key, low, high, got)
	}
	return nil
}
