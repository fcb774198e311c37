// Copyright The otelcol-sglang Authors
// SPDX-License-Identifier: Apache-2.0

package doctor // import "github.com/otelcol-sglang/otelcol-sglang/cmd/sglangctl/internal/doctor"

import (
	"fmt"
	"slices"
	"strings"
)

// check is one question. It is asked of each engine, of each collector, or once.
type check struct {
	id        string
	engine    func(*Facts, *Engine) Result
	collector func(*Facts, *Collector) Result
	all       func(*Facts) Result
}

// checks are in the order of the report: what others depend on comes first.
var checks = slices.Concat(
	[]check{
		{id: "collector", collector: checkCollector},
		{id: "otlp-grpc", all: func(f *Facts) Result { return checkPort(f.GRPC, "gRPC", "--grpc") }},
		{id: "otlp-http", all: func(f *Facts) Result { return checkPort(f.HTTP, "HTTP", "--http") }},
		{id: "memory", collector: alive(checkMemory)},
		{id: "refused", collector: alive(checkRefused)},
		{id: "queue", collector: alive(checkQueue)},
		{id: "lost", collector: alive(checkLost)},
		{id: "early", collector: alive(checkEarly)},
		{id: "counting", all: checkCounting},
		{id: "engine", engine: checkEngine},
		{id: "page", engine: checkPage},
		{id: "page-names", engine: readable(checkNames)},
		{id: "page-families", engine: readable(checkFamilies)},
		{id: "scrape", engine: checkScrape},
		{id: "dp-ranks", engine: checkDPRanks},
	},
	flagChecks(),
	[]check{
		{id: "tokenizer-workers", engine: checkTokenizers},
		{id: "clock-engine", engine: checkEngineClock},
		{id: "spans", all: checkSpans},
		{id: "spans-page", collector: alive(checkSpansPage)},
		{id: "ranks", all: checkRanks},
		{id: "senders", collector: alive(checkSenders)},
		{id: "scheduler-spans", collector: alive(checkSchedulerSpans)},
		{id: "trace-level", all: checkTraceLevel},
		{id: "clock-ranks", all: checkRankClocks},
		{id: "believed", collector: alive(checkBelieved)},
	},
)

// IDs are the checks' names, in the order of the report.
func IDs() []string {
	ids := make([]string, len(checks))
	for i, c := range checks {
		ids[i] = c.id
	}
	return ids
}

// Examine judges what was seen.
func Examine(f Facts) Report {
	var r Report
	add := func(id, subject string, result Result) {
		result.Check, result.Subject = id, subject
		r.Results = append(r.Results, result)
	}
	for _, c := range checks {
		switch {
		case c.engine != nil:
			for i := range f.Engines {
				add(c.id, f.Engines[i].Name(), c.engine(&f, &f.Engines[i]))
			}
		case c.collector != nil:
			for i := range f.Collectors {
				add(c.id, subject(f.Collectors, i), c.collector(&f, &f.Collectors[i]))
			}
		default:
			add(c.id, "", c.all(&f))
		}
	}
	return r
}

// subject names a collector where there are several.
func subject(list []Collector, i int) string {
	if len(list) == 1 {
		return ""
	}
	return list[i].URL
}

// alive asks only a collector that answered.
func alive(do func(*Facts, *Collector) Result) func(*Facts, *Collector) Result {
	return func(f *Facts, c *Collector) Result {
		if c.Err != nil {
			return unknown("the collector's own metrics could not be read", "")
		}
		return do(f, c)
	}
}

// readable asks only a page that has the engine's families.
func readable(do func(*Facts, *Engine) Result) func(*Facts, *Engine) Result {
	return func(f *Facts, e *Engine) Result {
		if len(e.Page.Families) == 0 {
			return unknown("the engine's page shows nothing", "")
		}
		return do(f, e)
	}
}

// up are the collectors that answered.
func (f *Facts) up() []*Collector {
	var out []*Collector
	for i := range f.Collectors {
		if f.Collectors[i].Err == nil {
			out = append(out, &f.Collectors[i])
		}
	}
	return out
}

// sum adds a metric up over the collectors that answered.
func (f *Facts) sum(name string, labels ...string) (sum float64) {
	for _, c := range f.up() {
		sum += c.sum(name, labels...)
	}
	return sum
}

// list writes what a sum consists of, without what is 0.
func list(parts map[string]float64) string {
	var out []string
	for key, n := range parts {
		if n > 0 && key != "" {
			out = append(out, fmt.Sprintf("%s %.0f", key, n))
		}
	}
	slices.Sort(out)
	return strings.Join(out, ", ")
}
