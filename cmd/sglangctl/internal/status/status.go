// Copyright The otelcol-sglang Authors
// SPDX-License-Identifier: Apache-2.0

package status // import "github.com/otelcol-sglang/otelcol-sglang/cmd/sglangctl/internal/status"

import (
	"cmp"
	"fmt"
	"io"
	"maps"
	"slices"
	"strings"

	"github.com/otelcol-sglang/otelcol-sglang/cmd/sglangctl/internal/request"
)

// Status is what the collector's own telemetry says.
type Status struct {
	// Received are spans that the sglang receiver took in, Kept those that
	// rankdedup let go on.
	Received, Kept figure
	// Requests are roots that genai completed, Processes senders that rankdedup knows.
	Requests, Processes figure
	// Invalid are values of the engine that genai refused.
	Invalid figure
	// Engines are the scraped engines: 1 where the last scrape gave a whole page.
	Engines map[string]float64
	// Troubles are counters that should be 0 and are not.
	Troubles []string
}

// figure is a number that may be unknown; unknown is not 0.
type figure struct {
	value float64
	known bool
}

func (f figure) String() string {
	if !f.known {
		return "?"
	}
	return request.Count(int64(f.value))
}

func figureOf(value float64, known bool) figure { return figure{value, known} }

// Of reads a page. A counter without a series has counted nothing, as the
// collector makes series on first use; that holds only where the component runs,
// which another of its series shows.
func Of(p Page) Status {
	received := figureOf(p.sum(metricAccepted, match{}))
	kept := figureOf(p.sum(metricKept, match{}))
	s := Status{
		Received:  received,
		Kept:      kept,
		Requests:  figureOf(p.sum(metricRequests, match{})),
		Processes: figureOf(p.sum(metricSenders, match{})),
		Engines:   p.by(metricEngineUp, "engine"),
	}
	s.Invalid = figureOf(p.sum(metricInvalid, match{}))
	if !s.Invalid.known && s.Requests.known {
		s.Invalid = figure{0, true}
	}
	s.Troubles = troubles(p)
	return s
}

func troubles(p Page) []string {
	var out []string
	for _, t := range troubleMetrics {
		by := p.by(t.name, t.label)
		total := 0.0
		for _, v := range by {
			total += v
		}
		if total == 0 {
			continue
		}
		text := request.Count(int64(total)) + " " + t.text
		if reasons := reasonsOf(by); t.label != "" && reasons != "" {
			text += " (" + reasons + ")"
		}
		out = append(out, text)
	}
	return out
}

// reasonsOf lists what a sum consists of, the largest part first.
func reasonsOf(by map[string]float64) string {
	keys := slices.SortedFunc(maps.Keys(by), func(a, b string) int {
		return cmp.Or(cmp.Compare(by[b], by[a]), cmp.Compare(a, b))
	})
	var parts []string
	for _, key := range keys {
		if key != "" && by[key] > 0 {
			parts = append(parts, fmt.Sprintf("%s %s", key, request.Count(int64(by[key]))))
		}
	}
	return strings.Join(parts, ", ")
}

// Print writes one line, and one for each thing that is wrong.
func (s Status) Print(w io.Writer) {
	fmt.Fprintf(w, "received %s spans of %s requests from %s processes; kept %s; %s invalid\n",
		s.Received, s.Requests, s.Processes, s.Kept, s.Invalid)
	down := 0
	for _, engine := range slices.Sorted(maps.Keys(s.Engines)) {
		if s.Engines[engine] == 0 {
			down++
			fmt.Fprintf(w, "  the metrics page of engine %s does not answer with a whole page\n", engine)
		}
	}
	if n := len(s.Engines); n > 0 {
		fmt.Fprintf(w, "  scraped engines: %d of %d up\n", n-down, n)
	}
	if s.Received.known && s.Received.value == 0 || !s.Received.known {
		fmt.Fprintln(w, "  no span has arrived: does the engine run with --enable-trace and --otlp-traces-endpoint?")
	}
	for _, t := range s.Troubles {
		fmt.Fprintf(w, "  %s\n", t)
	}
}
