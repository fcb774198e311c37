// Copyright The otelcol-sglang Authors
// SPDX-License-Identifier: Apache-2.0

// Package load is an engine's clients: who comes when, with which prompts, and what
// they saw. It drives an engine in its own process, on the loop, or any engine over
// HTTP.
package load // import "github.com/otelcol-sglang/otelcol-sglang/engine/load"

import (
	"errors"
	"fmt"
	"maps"
	"math"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/otelcol-sglang/otelcol-sglang/engine/ledger"
)

// Source is one kind of client.
type Source struct {
	Kind ledger.Kind
	// Rate is conversations that begin per second, with exponential pauses (open
	// loop); 0: Clients of them go on all the time (closed loop).
	Rate    float64
	Clients int
	// Burst conversations begin at once, every Every (open loop, beside Rate).
	Burst int
	Every time.Duration

	// Turns of a conversation, whose prompts grow by what was said; Think is the pause
	// between them.
	Turns int
	Think time.Duration
	// Prefix tokens are shared by all conversations with the same of Prefixes prompts.
	Prefix, Prefixes int
	// Input and Output are medians of tokens, Spread the log-normal sigma of both; 0 is
	// always the median.
	Input, Output int
	Spread        float64
	// MaxInput and MaxOutput bound the draws.
	MaxInput, MaxOutput int

	// Shares of the requests, 0 to 1.
	Stream, Abort float64
	// AbortAfter is the mean time after which a client hangs up.
	AbortAfter time.Duration
	// Priorities are given in turn; none if empty.
	Priorities []int
	// LoRAs adapters and Keys routing keys are drawn from; 0 for none.
	LoRAs, Keys int
	// Samples is n.
	Samples int

	// Count ends the source after so many requests, For after so long; 0 never.
	Count int
	For   time.Duration
	// Start is when it begins.
	Start time.Duration
}

// presets are named workloads; "mixed" is several sources.
var presets = map[string][]Source{
	"chat": {chat},
	"rag": {{
		Kind: ledger.KindGenerate, Rate: 2, Turns: 1, Prefix: 512, Prefixes: 4,
		Input: 6000, Output: 120, Spread: 0.7, Stream: 1,
	}},
	"burst": {{
		Kind: ledger.KindCompletion, Rate: 1, Burst: 48, Every: 15 * time.Second, Turns: 1, Prefix: 64, Prefixes: 1,
		Input: 400, Output: 100, Spread: 0.5, Stream: 0.5,
	}},
	"agents": {{
		Kind: ledger.KindChat, Clients: 8, Turns: 12, Think: 300 * time.Millisecond, Prefix: 3000, Prefixes: 2,
		Input: 600, Output: 180, Spread: 0.9, Stream: 0.3, Keys: 8,
	}},
	"embed": {{Kind: ledger.KindEmbedding, Rate: 10, Turns: 1, Input: 200, Spread: 0.6}},
	"mixed": {
		chat,
		{
			Kind: ledger.KindGenerate, Rate: 0.5, Turns: 1, Prefix: 512, Prefixes: 4, Input: 5000, Output: 150,
			Spread: 0.6, Stream: 1, Priorities: []int{0},
		},
		{
			Kind: ledger.KindCompletion, Rate: 1, Turns: 1, Prefix: 200, Prefixes: 2, Input: 150, Output: 60, Spread: 0.8,
			Stream: 0, Priorities: []int{5}, Abort: 0.05, AbortAfter: 500 * time.Millisecond,
		},
	},
}

var chat = Source{
	Kind: ledger.KindChat, Rate: 2, Turns: 4, Think: 4 * time.Second, Prefix: 300, Prefixes: 3,
	Input: 120, Output: 160, Spread: 0.8, Stream: 0.9, Abort: 0.01, AbortAfter: 2 * time.Second,
}

// Presets are the names that [Parse] knows.
func Presets() []string { return slices.Sorted(maps.Keys(presets)) }

// setters are the keys of a specification. They change every source of a preset;
// rate and count are shared out among them.
var setters = map[string]func(s *Source, share float64, v string) error{
	"rate":     func(s *Source, share float64, v string) error { return float(&s.Rate, v, 1e6, share) },
	"clients":  func(s *Source, _ float64, v string) error { return whole(&s.Clients, v, 0, 1e6) },
	"burst":    func(s *Source, _ float64, v string) error { return whole(&s.Burst, v, 0, 1e6) },
	"every":    func(s *Source, _ float64, v string) error { return duration(&s.Every, v) },
	"turns":    func(s *Source, _ float64, v string) error { return whole(&s.Turns, v, 1, 1000) },
	"think":    func(s *Source, _ float64, v string) error { return duration(&s.Think, v) },
	"prefix":   func(s *Source, _ float64, v string) error { return whole(&s.Prefix, v, 0, 1e6) },
	"prefixes": func(s *Source, _ float64, v string) error { return whole(&s.Prefixes, v, 1, 1e6) },
	"input":    func(s *Source, _ float64, v string) error { return whole(&s.Input, v, 1, 1e6) },
	"output":   func(s *Source, _ float64, v string) error { return whole(&s.Output, v, 1, 1e6) },
	"spread":   func(s *Source, _ float64, v string) error { return float(&s.Spread, v, 3, 1) },
	"stream":   func(s *Source, _ float64, v string) error { return float(&s.Stream, v, 1, 1) },
	"abort":    func(s *Source, _ float64, v string) error { return float(&s.Abort, v, 1, 1) },
	"after":    func(s *Source, _ float64, v string) error { return duration(&s.AbortAfter, v) },
	"loras":    func(s *Source, _ float64, v string) error { return whole(&s.LoRAs, v, 0, 1000) },
	"keys":     func(s *Source, _ float64, v string) error { return whole(&s.Keys, v, 0, 1e6) },
	"n":        func(s *Source, _ float64, v string) error { return whole(&s.Samples, v, 1, 128) },
	"count":    func(s *Source, share float64, v string) error { return shared(&s.Count, v, share) },
	"for":      func(s *Source, _ float64, v string) error { return duration(&s.For, v) },
	"start":    func(s *Source, _ float64, v string) error { return duration(&s.Start, v) },
	"priority": func(s *Source, _ float64, v string) error { return integers(&s.Priorities, v) },
	"kind":     func(s *Source, _ float64, v string) error { return kind(&s.Kind, v) },
}

// Parse reads "name:key=value,key=value". Several, apart by ";", come together.
func Parse(text string) ([]Source, error) {
	var all []Source
	var errs []error
	for one := range strings.SplitSeq(text, ";") {
		sources, err := parseOne(strings.TrimSpace(one))
		errs = append(errs, err)
		all = append(all, sources...)
	}
	return all, errors.Join(errs...)
}

func parseOne(text string) ([]Source, error) {
	name, settings, _ := strings.Cut(text, ":")
	preset, ok := presets[name]
	if !ok {
		return nil, fmt.Errorf("load must be one of %s (got %q)", strings.Join(Presets(), ", "), name)
	}
	sources := slices.Clone(preset)
	var errs []error
	for pair := range strings.SplitSeq(settings, ",") {
		if pair == "" {
			continue
		}
		key, value, _ := strings.Cut(pair, "=")
		errs = append(errs, set(sources, strings.TrimSpace(key), strings.TrimSpace(value)))
	}
	for i := range sources {
		errs = append(errs, sources[i].validate())
	}
	return sources, errors.Join(errs...)
}

func set(sources []Source, key, value string) error {
	f, ok := setters[key]
	if !ok {
		return fmt.Errorf("load has no setting %q; it has %s", key, strings.Join(slices.Sorted(maps.Keys(setters)), ", "))
	}
	var total float64
	for i := range sources {
		total += sources[i].Rate
	}
	for i := range sources {
		share := 1 / float64(len(sources))
		if total > 0 {
			share = sources[i].Rate / total
		}
		if err := f(&sources[i], share, value); err != nil {
			return fmt.Errorf("load's %s %w (got %q)", key, err, value)
		}
	}
	return nil
}

func (s *Source) validate() error {
	switch {
	case s.Rate == 0 && s.Clients == 0 && s.Burst == 0:
		return errors.New("load must have a rate, clients or a burst (got none)")
	case s.Burst > 0 && s.Every <= 0:
		return fmt.Errorf("load's every must be above 0 with a burst (got %s)", s.Every)
	}
	return nil
}

func float(to *float64, v string, high, share float64) error {
	f, err := strconv.ParseFloat(v, 64)
	if err != nil || !(f >= 0 && f <= high) {
		return fmt.Errorf("must be a number from 0 to %v", high)
	}
	*to = f * share
	return nil
}

func whole(to *int, v string, low, high int) error {
	n, err := strconv.Atoi(v)
	if err != nil || n < low || n > high {
		return fmt.Errorf("must be a whole number from %d to %d", low, high)
	}
	*to = n
	return nil
}

// shared is a part of a whole number, at least 1.
func shared(to *int, v string, share float64) error {
	var n int
	if err := whole(&n, v, 1, 1e9); err != nil {
		return err
	}
	*to = max(1, int(math.Round(float64(n)*share)))
	return nil
}

func duration(to *time.Duration, v string) error {
	d, err := time.ParseDuration(v)
	if err != nil || d < 0 {
		return errors.New("must be a duration such as 30s")
	}
	*to = d
	return nil
}

// integers are apart by "|".
func integers(to *[]int, v string) error {
	*to = nil
	for s := range strings.SplitSeq(v, "|") {
		n, err := strconv.Atoi(s)
		if err != nil {
			return errors.New(`must be whole numbers apart by "|"`)
		}
		*to = append(*to, n)
	}
	return nil
}

var kindNames = map[string]ledger.Kind{
	"generate": ledger.KindGenerate, "completion": ledger.KindCompletion,
	"chat": ledger.KindChat, "embedding": ledger.KindEmbedding,
}

func kind(to *ledger.Kind, v string) error {
	k, ok := kindNames[v]
	if !ok {
		return fmt.Errorf("must be one of %s", strings.Join(slices.Sorted(maps.Keys(kindNames)), ", "))
	}
	*to = k
	return nil
}
