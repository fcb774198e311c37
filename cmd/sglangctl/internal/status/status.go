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
	// received are spans that came in, kept those that rankdedup let go on.
	received, kept figure
	// requests are roots that left genai, processes the senders that rankdedup remembers.
	requests, processes figure
	// invalid are values of the engine that genai refused.
	invalid figure
	// engines are the scraped ones: 1 where the last scrape gave a whole page.
	engines map[string]float64
	// troubles are sentences about numbers that should be 0 and are not.
	troubles []string
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

func (p Page) figure(name string, labels ...string) figure {
	sum, known := p.Sum(name, labels...)
	return figure{sum, known}
}

// Of reads a page.
func Of(p Page) Status {
	s := Status{
		received:  p.figure(metricAccepted),
		kept:      p.figure(metricAtOnce).plus(p.figure(metricReleased)),
		requests:  p.figure(metricRoots),
		processes: p.figure(metricSenders),
		invalid:   p.figure(metricInvalid),
		engines:   p.SumBy(metricEngineUp, "engine"),
	}
	// A counter gets its series with its first event, a gauge at the start: where
	// a component shows its gauge, a counter that is not there is 0.
	s.kept.known = s.kept.known || s.processes.known
	s.received.known = s.received.known || s.processes.known
	genai := p.figure(metricHeldRoots).known
	s.requests.known = s.requests.known || genai
	s.invalid.known = s.invalid.known || genai
	for _, t := range troubles {
		if text := t.say(p); text != "" {
			s.troubles = append(s.troubles, text)
		}
	}
	return s
}

// plus adds what is known.
func (f figure) plus(g figure) figure {
	return figure{f.value + g.value, f.known || g.known}
}

// say returns "" where all is well.
func (t trouble) say(p Page) string {
	parts := p.SumBy(t.name, t.by, t.only...)
	total := 0.0
	for _, v := range parts {
		total += v
	}
	if total == 0 {
		return ""
	}
	text := request.Count(int64(total)) + " " + t.text
	if list := largestFirst(parts); list != "" {
		text += " (" + list + ")"
	}
	return text
}

// largestFirst lists what a sum consists of.
func largestFirst(parts map[string]float64) string {
	keys := slices.SortedFunc(maps.Keys(parts), func(a, b string) int {
		return cmp.Or(cmp.Compare(parts[b], parts[a]), cmp.Compare(a, b))
	})
	var list []string
	for _, key := range keys {
		if key != "" && parts[key] > 0 {
			list = append(list, key+" "+request.Count(int64(parts[key])))
		}
	}
	return strings.Join(list, ", ")
}

// Print writes one line, and one for each thing that is wrong.
func (s Status) Print(w io.Writer) {
	fmt.Fprintf(w, "received %s spans of %s requests from %s processes; kept %s; %s invalid\n",
		s.received, s.requests, s.processes, s.kept, s.invalid)
	down := 0
	for _, engine := range slices.Sorted(maps.Keys(s.engines)) {
		if s.engines[engine] == 0 {
			down++
			fmt.Fprintf(w, "  the metrics page of engine %s does not answer with a whole page\n", engine)
		}
	}
	if n := len(s.engines); n > 0 {
		fmt.Fprintf(w, "  scraped engines: %d of %d up\n", n-down, n)
	}
	if s.received.value == 0 {
		fmt.Fprintln(w, "  no span has arrived: does the engine run with --enable-trace and --otlp-traces-endpoint?")
	}
	for _, t := range s.troubles {
		fmt.Fprintf(w, "  %s\n", t)
	}
}
