// Copyright The otelcol-sglang Authors
// SPDX-License-Identifier: Apache-2.0

package main // import "github.com/otelcol-sglang/otelcol-sglang/internal/sglang/internal/gencatalogue"

import (
	"bytes"
	"errors"
	"fmt"
	"slices"
	"strings"

	"go.yaml.in/yaml/v3"
)

type catalogue struct {
	Version     string            `yaml:"sglang_version"`
	Sources     map[string]source `yaml:"sources"`
	Families    []family          `yaml:"families"`
	Former      []family          `yaml:"former_families"`
	Renames     []rename          `yaml:"renames"`
	TypeChanges []typeChange      `yaml:"type_changes"`
	Loads       []loads           `yaml:"loads"`
}

type source struct {
	Labels   []string `yaml:"labels"`
	Optional []string `yaml:"optional"`
	Extra    bool     `yaml:"extra"`
	Ranks    string   `yaml:"ranks"`
}

type family struct {
	Name                string       `yaml:"name"`
	Type                string       `yaml:"type"`
	Source              string       `yaml:"source"`
	Labels              []string     `yaml:"labels"`
	Unit                string       `yaml:"unit"`
	Emitters            string       `yaml:"default_emitters"`
	AcrossTP            string       `yaml:"across_tp"`
	TPReduce            string       `yaml:"tp_reduce"`
	AcrossDP            string       `yaml:"across_dp"`
	MultiprocessMode    string       `yaml:"multiprocess_mode"`
	Preseeded           bool         `yaml:"preseeded"`
	Skew                bool         `yaml:"skew"`
	Sentinel            string       `yaml:"sentinel"`
	Series              []seriesRule `yaml:"series"`
	BucketsConfigurable bool         `yaml:"buckets_configurable"`
	Buckets             []float64    `yaml:"buckets"`
	Until               string       `yaml:"until"`
	Meaning             string       `yaml:"meaning"`

	scrapedAs string
}

type seriesRule struct {
	Label    string `yaml:"label"`
	Prefix   string `yaml:"prefix"`
	Emitters string `yaml:"default_emitters"`
}

type rename struct {
	From  string `yaml:"from"`
	To    string `yaml:"to"`
	Until string `yaml:"until"`
}

type typeChange struct {
	Name  string `yaml:"name"`
	Type  string `yaml:"type"`
	Until string `yaml:"until"`
}

type loads struct {
	Name     string `yaml:"name"`
	AcrossDP string `yaml:"across_dp"`
}

// idents maps the catalogue's words to the constants of package sglang.
var idents = map[string]map[string]string{
	"type": {"gauge": "TypeGauge", "counter": "TypeCounter", "histogram": "TypeHistogram", "summary": "TypeSummary"},
	"source": {
		"scheduler": "SourceScheduler", "tokenizer": "SourceTokenizer", "storage": "SourceStorage",
		"radix_cache": "SourceRadixCache", "expert_dispatch": "SourceExpertDispatch", "encoder": "SourceEncoder",
		"encoder_dispatcher": "SourceEncoderDispatcher", "http": "SourceHTTP", "func_timer": "SourceFuncTimer",
		"startup_timer": "SourceStartupTimer", "cpu_monitor": "SourceCPUMonitor", "mooncake": "SourceMooncake",
		"diffusion": "SourceDiffusion",
	},
	"ranks":            {"none": "RanksNone", "global": "RanksGlobal", "attention": "RanksAttention"},
	"default_emitters": {"not_ranked": "EmitUnranked", "rank0_only": "EmitRank0Only", "all_ranks": "EmitAllRanks", "none": "EmitNever"},
	"across_tp":        {"rank0_only": "TPRank0Only", "replicated": "TPReplicated", "private": "TPPrivate", "partitioned": "TPPartitioned"},
	"tp_reduce":        {"first": "ReduceFirst", "max": "ReduceMax", "sum": "ReduceSum", "keep": "ReduceKeep"},
	"across_dp":        {"sum": "DPSum", "max": "DPMax", "mean": "DPMean", "replicated": "DPReplicated", "rank0_only": "DPRank0Only"},
	"sentinel":         {"": "SentinelNone", "nan": "SentinelNaN", "minus_one": "SentinelMinusOne"},
}

func parse(in []byte) (*catalogue, error) {
	var c catalogue
	d := yaml.NewDecoder(bytes.NewReader(in))
	d.KnownFields(true)
	if err := d.Decode(&c); err != nil {
		return nil, err
	}
	c.Families = append(c.Families, c.Former...)
	if err := c.validate(); err != nil {
		return nil, err
	}
	return &c, c.addVariants()
}

func (c *catalogue) validate() error {
	var errs []error
	seen := map[string]bool{}
	for i := range c.Families {
		f := &c.Families[i]
		if seen[f.Name] {
			errs = append(errs, fmt.Errorf("%s: listed twice", f.Name))
		}
		seen[f.Name] = true
		errs = append(errs, c.validateFamily(f))
	}
	for _, r := range c.Renames {
		if !seen[r.To] || seen[r.From] {
			errs = append(errs, fmt.Errorf("rename of %s: must lead from a name outside the catalogue to one inside (got %s)", r.From, r.To))
		}
	}
	return errors.Join(errs...)
}

func (c *catalogue) validateFamily(f *family) error {
	var errs []error
	fail := func(format string, args ...any) {
		errs = append(errs, fmt.Errorf(f.Name+": "+format, args...))
	}
	if !strings.HasPrefix(f.Name, "sglang:") {
		fail("name must begin with sglang:")
	}
	for key, word := range f.words() {
		if _, ok := idents[key][word]; !ok {
			fail("%s is unknown (got %q)", key, word)
		}
	}
	if (f.Type == "histogram") != (len(f.Buckets) > 0) {
		fail("a histogram, and nothing else, has buckets (got %d)", len(f.Buckets))
	}
	if !slices.IsSorted(f.Buckets) {
		fail("buckets must ascend")
	}
	if f.Type == "histogram" && (f.TPReduce == "sum" || f.TPReduce == "max") {
		fail("a histogram's ranks are kept or one is taken (got %q)", f.TPReduce)
	}
	return errors.Join(errs...)
}

// words are the fields that hold a word of idents.
func (f *family) words() map[string]string {
	return map[string]string{
		"type": f.Type, "source": f.Source, "default_emitters": f.Emitters, "across_tp": f.AcrossTP,
		"tp_reduce": f.TPReduce, "across_dp": f.AcrossDP, "sentinel": f.Sentinel,
	}
}

// addVariants appends a family for each type that a name had before.
func (c *catalogue) addVariants() error {
	for _, t := range c.TypeChanges {
		i := slices.IndexFunc(c.Families, func(f family) bool { return f.Name == t.Name })
		if i < 0 {
			return fmt.Errorf("type change of %s: not in the catalogue", t.Name)
		}
		v := c.Families[i]
		v.scrapedAs, v.Until = v.Name, t.Until
		v.Name, v.Type = v.Name+"_"+t.Type, t.Type
		v.Buckets, v.BucketsConfigurable = nil, false
		if t.Type == "gauge" {
			v.MultiprocessMode = "mostrecent"
		}
		c.Families = append(c.Families, v)
	}
	return nil
}
