// Copyright The otelcol-sglang Authors
// SPDX-License-Identifier: Apache-2.0

package doctor // import "github.com/otelcol-sglang/otelcol-sglang/cmd/sglangctl/internal/doctor"

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/otelcol-sglang/otelcol-sglang/cmd/sglangctl/internal/request"
	"github.com/otelcol-sglang/otelcol-sglang/internal/sglang"
)

// checkSpans: does anything come on the OTLP ports?
func checkSpans(f *Facts) Result {
	if len(f.up()) == 0 {
		return unknown("no collector answered", "")
	}
	if spans := f.sum(metricAccepted); spans > 0 {
		grown := 0.0
		for _, c := range f.up() {
			grown += c.grown(metricAccepted)
		}
		return ok("%s arrived (%s)", count(spans, "span"), during(f, grown))
	}
	const do = "start the engine with --enable-trace and --otlp-traces-endpoint at the collector's gRPC address; is SGLANG_TRACE_LEVEL 0, " +
		"opentelemetry not installed (pip install \"sglang[tracing]\"), or does the caller send an unsampled traceparent?"
	finished := 0.0
	for i := range f.Engines {
		n, _ := f.Engines[i].Page.total(sglang.FamilyNumRequestsTotal)
		finished += n
	}
	if finished > 0 {
		return fail(fmt.Sprintf("no span ever arrived, though pages show %s that finished", count(finished, "request")), do)
	}
	return unknown("no span has arrived, and no page shows a request that finished", "send one request and look again")
}

// pagePatience is how long genai awaits an engine's page after its spans, and its spans
// after the first requests that the page counts; a while is for the scrape.
const pagePatience = time.Minute + 15*time.Second

// checkSpansPage is what genai's metrics pipeline says of each engine.
func checkSpansPage(_ *Facts, c *Collector) Result {
	states := c.After.SumBy(metricGenaiEngines, "state")
	for state, n := range states {
		if n == 0 {
			delete(states, state)
		}
	}
	uptime, known := c.After.Sum(metricUptime)
	switch {
	case len(states) == 0 && known && uptime < pagePatience.Seconds():
		return unknown("it does not tell yet: an engine's spans and page await each other for a minute", "look again after it")
	case len(states) == 0:
		return unknown("it does not tell: no request within 5 minutes, or genai is in no metrics pipeline", "put the same genai into the metrics pipeline")
	case states["page_only"] > 0:
		return fail(fmt.Sprintf("of %s only the page comes, no spans", count(states["page_only"], "engine")),
			"start it with --enable-trace and --otlp-traces-endpoint; is its trace level 0?")
	case states["spans_only"] > 0:
		return fail(fmt.Sprintf("of %s only spans come, no page", count(states["spans_only"], "engine")),
			"start it with --enable-metrics and list its page under `engines`; the lines page and scrape say what is wrong with one that is listed")
	case states["ambiguous"] > 0:
		return warn(fmt.Sprintf("of %s nothing says which page belongs to which spans", count(states["ambiguous"], "engine")),
			"set the same service.instance.id or k8s.pod.name in OTEL_RESOURCE_ATTRIBUTES of the engine and in the page's resource_attributes")
	}
	return ok("of %s both spans and page come", count(states["both"], "engine"))
}

// expected is the number of scheduler processes of all engines that were asked.
func (f *Facts) expected() (n int, known bool) {
	for i := range f.Engines {
		info := &f.Engines[i].Info
		if info.Err != nil {
			return 0, false
		}
		n += info.schedulers()
	}
	return n, len(f.Engines) > 0
}

// checkRanks: does each rank send its spans?
func checkRanks(f *Facts) Result {
	if len(f.up()) == 0 && f.Traces == nil {
		return unknown("no collector answered, and there is no file of traces", "")
	}
	const do = "look at that rank's process and its log: is it alive, does it reach the collector (each rank exports by itself, also from other nodes), " +
		"does its export queue overflow (OTEL_BSP_MAX_QUEUE_SIZE)?"
	want, known := f.expected()
	without, grown := f.sum(metricWithoutRanks), 0.0
	for _, c := range f.up() {
		grown += c.grown(metricWithoutRanks)
	}
	seen := f.seenRanks()
	text := fmt.Sprintf("%s had fewer ranks than their engine (%s)", count(without, "request"), during(f, grown))
	switch {
	case grown > 0:
		return fail(text, do)
	case known && seen.latest >= 0 && seen.latest < want:
		return fail(fmt.Sprintf("the latest requests in %s show %d of %d ranks; %s", f.Traces.Path, seen.latest, want, text), do)
	case known && seen.latest < 0 && int(seen.senders) < want:
		return unknown(fmt.Sprintf("the ranks of %.0f of %d schedulers are known: others are idle, or silent", seen.senders, want),
			"send some requests and look again; --traces shows the ranks of each request")
	case without > 0:
		return warn(text, do)
	case !known:
		return unknown("how many ranks there are can't be told without /server_info; no request lacked one that was seen before", "")
	case seen.latest < 0:
		return ok("%.0f schedulers are known, of %d; no request lacked a rank", seen.senders, want)
	}
	return ok("all %d ranks show in the latest requests; no request lacked one", want)
}

type ranksSeen struct {
	// latest are those that the latest requests of the file showed, -1 if it can't
	// be told: no file, or traces of other engines in it.
	latest  int
	senders float64
}

func (f *Facts) seenRanks() ranksSeen {
	s := ranksSeen{latest: -1, senders: f.sum(metricSenders, "state", "known")}
	if f.Traces == nil || f.Traces.Requests == 0 || len(f.Traces.Ranks) != len(f.Engines) {
		return s
	}
	s.latest = 0
	for _, n := range f.Traces.Ranks {
		s.latest += n
	}
	return s
}

// checkSenders: can each process be told from the others?
func checkSenders(_ *Facts, c *Collector) Result {
	senders := c.After.SumBy(metricSenders, "state")
	total := 0.0
	for _, n := range senders {
		total += n
	}
	switch {
	case !c.has(metricSenders):
		return unknown("rankdedup is not there", "")
	case total == 0:
		return unknown("no sender is known: nothing came lately", "")
	case senders["ambiguous"] > 0:
		return warn(fmt.Sprintf("%s of %.0f show more than one rank, so that whole requests are held until their thread spans come", count(senders["ambiguous"], "sender"), total),
			"give each process its own service.instance.id: no fixed one in OTEL_RESOURCE_ATTRIBUTES of a pod; and no proxy or other collector between the engine "+
				"and this one that merges connections, or run the agent's rankdedup in front of it")
	}
	return ok("each of %s is told apart", count(total, "sender"))
}

// checkSchedulerSpans: do roots have their scheduler's spans?
func checkSchedulerSpans(f *Facts, c *Collector) Result {
	roots := c.After.SumBy(metricRoots, "completeness")
	total, bad := 0.0, 0.0
	for completeness, n := range roots {
		total += n
		if completeness != sglang.CompletenessComplete {
			bad += n
		}
	}
	grown := 0.0
	for _, completeness := range slices.Sorted(maps.Keys(roots)) {
		if completeness != sglang.CompletenessComplete {
			grown += c.grown(metricRoots, "completeness", completeness)
		}
	}
	delete(roots, sglang.CompletenessComplete)
	switch {
	case total == 0:
		return unknown("no request has ended yet", "send one request")
	case bad == 0:
		return ok("all %s are complete", count(total, "request"))
	}
	seen := fmt.Sprintf("%.0f of %.0f requests are incomplete: %s (%s)", bad, total, list(roots), during(f, grown))
	do := "spans_missing, thread_span_missing: an exporter's queue overflows: raise OTEL_BSP_MAX_QUEUE_SIZE, or take a lower SGLANG_TRACE_LEVEL; " +
		"requests aborted while they queued look so too"
	if roots[sglang.CompletenessNoScheduler] > bad/2 {
		do = "no_scheduler_spans: with several tokenizer workers (--tokenizer-worker-num) the schedulers' spans are lost (sglang #38210): use one, or a release with the fix; " +
			"else the schedulers don't reach the collector. Their queue and prefill are unknown, not 0"
	}
	if grown > 0 && bad/total > 0.05 {
		return fail(seen, do)
	}
	return warn(seen, do)
}

// checkTraceLevel: is it high enough for every value?
func checkTraceLevel(f *Facts) Result {
	values := map[string]float64{}
	for _, c := range f.up() {
		for attribute, n := range c.After.SumBy(metricUnknownValues, "attribute", "reason", "trace_level") {
			values[attribute] += n
		}
	}
	levels := ""
	if f.Traces != nil {
		var parts []string
		for _, level := range slices.Sorted(maps.Keys(f.Traces.Levels)) {
			if level > 0 {
				parts = append(parts, fmt.Sprintf("level %d: %s", level, count(float64(f.Traces.Levels[level]), "request")))
			}
		}
		levels = strings.Join(parts, ", ")
	}
	switch {
	case list(values) != "":
		seen := "the trace level is too low for " + list(values)
		if levels != "" {
			seen += " (" + levels + ")"
		}
		return warn(seen, "time_in_model_inference needs SGLANG_TRACE_LEVEL 2, decode_steps 3: raise it if you want them, or POST /set_trace_level?level=N; "+
			"latencies need 1 only, and level 3 costs a span per step and rank")
	case f.sum(metricRoots) == 0:
		return unknown("no request has ended yet", "")
	case levels != "":
		return ok("high enough for all values (%s)", levels)
	}
	return ok("high enough for all values")
}

const (
	// clockNoise is how far the clocks of one host's processes may lie apart.
	clockNoise = 20 * time.Millisecond
	// leadNoise is how much a scheduler may seem to begin before its request came.
	leadNoise = 3 * time.Millisecond
)

// checkRankClocks reads the spans: what all stages of a request show alike is no
// slow rank, but a clock.
func checkRankClocks(f *Facts) Result {
	t := f.Traces
	switch {
	case t == nil:
		return unknown("only spans tell, and there is no file of traces", "name it with --traces")
	case t.Err != nil:
		return unknown(fmt.Sprintf("the file of traces could not be read: %v", t.Err), "")
	case t.Requests == 0:
		return unknown("the file has no request of the last minutes", "")
	case t.SkewKnown && t.Skew > clockNoise:
		return warn(fmt.Sprintf("in all stages alike the ranks lie %s apart: a clock is off", request.Duration(t.Skew)), ntp)
	case t.Lead > leadNoise:
		return warn(fmt.Sprintf("a scheduler seems to begin %s before its request came: the front end's clock is ahead of it by as much or more", request.Duration(t.Lead)), ntp)
	case !t.SkewKnown:
		return ok("no scheduler begins before its request came; there are no ranks to compare")
	}
	return ok("the ranks' clocks are within %s", request.Duration(max(t.Skew, time.Microsecond)))
}

func checkBelieved(f *Facts, c *Collector) Result {
	reasons := c.After.SumBy(metricInvalid, "reason")
	total, grown := c.sum(metricInvalid), c.grown(metricInvalid)
	switch {
	case c.sum(metricRoots) == 0:
		return unknown("no request has ended yet", "")
	case total == 0:
		return ok("all values of the engine could be true")
	}
	return warn(fmt.Sprintf("%s of the engine could not be true: %s (%s)", count(total, "value"), list(reasons), during(f, grown)),
		"equals_e2e, token_50, first_token: start the engine with --enable-metrics. The scheduler's time stands in their place; `sglangctl explain` shows both")
}
