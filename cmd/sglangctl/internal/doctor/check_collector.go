// Copyright The otelcol-sglang Authors
// SPDX-License-Identifier: Apache-2.0

package doctor // import "github.com/otelcol-sglang/otelcol-sglang/cmd/sglangctl/internal/doctor"

import (
	"errors"
	"fmt"
	"maps"
	"net/url"
	"slices"
	"strings"
	"time"

	"github.com/otelcol-sglang/otelcol-sglang/cmd/sglangctl/internal/request"
)

func checkCollector(_ *Facts, c *Collector) Result {
	if c.Err != nil {
		return fail(fmt.Sprintf("%s: %v", c.URL, cause(c.Err)),
			"start the collector, or name its own metrics with --collector (service: telemetry: metrics: readers in its configuration)")
	}
	if !c.has(metricSenders) && !c.has(metricHeldRoots) {
		return warn(c.URL+" answers, and shows neither rankdedup nor genai",
			"is this the collector of this distribution, with both processors in its traces pipeline?")
	}
	if uptime, known := c.After.Sum(metricUptime); known {
		return ok("%s answers, up for %s", c.URL, request.Duration(time.Duration(uptime*float64(time.Second))))
	}
	return ok("%s answers", c.URL)
}

// cause leaves out what an HTTP client puts in front: the line names the URL.
func cause(err error) error {
	var u *url.Error
	if errors.As(err, &u) {
		return u.Err
	}
	return err
}

func checkPort(p *Port, protocol, flag string) Result {
	switch {
	case p == nil:
		return unknown("no address was named", "name it with "+flag)
	case p.Err == nil:
		return ok("%s takes an export over %s", p.Address, protocol)
	case p.Auth:
		return ok("%s answers over %s and wants credentials, which the engine's exporters must send", p.Address, protocol)
	case p.TLS:
		return unknown(p.Address+" speaks TLS: whether it takes an export can't be told without the certificates",
			"the engine's exporter uses no TLS over gRPC: put a plain receiver on localhost beside it")
	case p.Listens:
		return fail(fmt.Sprintf("%s is open and takes no OTLP over %s: %v", p.Address, protocol, p.Err),
			"something else listens there: compare with the receiver's endpoint")
	}
	return fail(fmt.Sprintf("nothing listens on %s (OTLP over %s)", p.Address, protocol),
		"compare with `receivers: sglang: protocols:`, whose endpoints are localhost by default: an engine on another host needs an address that it reaches")
}

// during tells whether something goes on, or is past.
func during(f *Facts, grown float64) string {
	if grown > 0 {
		return fmt.Sprintf("%s of them in the last %s", request.Count(int64(grown)), f.Watched)
	}
	return "none in the last " + f.Watched.String()
}

func checkMemory(f *Facts, c *Collector) Result {
	total := c.sum(metricLimiterSpans) + c.sum(metricLimiterPoints)
	grown := c.grown(metricLimiterSpans) + c.grown(metricLimiterPoints)
	const do = "raise the memory limiter's limit_mib (docs/sizing.md), lower max_held_mib, or see why what follows is slow; engines send refused spans again for some seconds"
	switch seen := fmt.Sprintf("the memory limiter refused %s (%s)", count(total, "item"), during(f, grown)); {
	case grown > 0:
		return fail(seen, do)
	case total > 0:
		return warn(seen, do)
	case !c.has("processor_memory_limiter_accepted_spans") && !c.has("processor_memory_limiter_accepted_metric_points"):
		return unknown("no memory limiter has seen anything: none is there, or nothing came", "put memory_limiter first in each pipeline")
	}
	return ok("the memory limiter refused nothing")
}

func checkRefused(f *Facts, c *Collector) Result {
	names := []string{metricRefused, metricRefusedPoints, metricDedupRefused, metricGenaiRefused, metricSendersRefused}
	parts, total, grown := tally(c, names)
	if total == 0 {
		return ok("nothing was refused")
	}
	r := warn(fmt.Sprintf("refused: %s (%s)", parts, during(f, grown)),
		"a refused batch is sent again by its engine, for some seconds only: see the lines memory, queue and lost for why")
	if grown > 0 {
		r.Status = Fail
	}
	return r
}

// tally adds counters up.
func tally(c *Collector, names []string) (parts string, total, grown float64) {
	by := map[string]float64{}
	for _, name := range names {
		by[name] = c.sum(name)
		total += c.sum(name)
		grown += c.grown(name)
	}
	return list(by), total, grown
}

// almostFull is the share of a queue above which it fills.
const almostFull = 0.8

func checkQueue(_ *Facts, c *Collector) Result {
	sizes, capacities := c.After.SumBy(metricQueueSize, "exporter"), c.After.SumBy(metricQueueCapacity, "exporter")
	before := c.Before.SumBy(metricQueueSize, "exporter")
	if len(capacities) == 0 {
		return ok("no exporter has a sending queue")
	}
	var full []string
	for _, exporter := range slices.Sorted(maps.Keys(capacities)) {
		if size := sizes[exporter]; capacities[exporter] > 0 && size/capacities[exporter] >= almostFull {
			full = append(full, fmt.Sprintf("%s %.0f of %.0f (%+.0f)", exporter, size, capacities[exporter], size-before[exporter]))
		}
	}
	if len(full) > 0 {
		return warn("queues are almost full: "+strings.Join(full, ", "),
			"the backend takes less than comes: is it up (exporter_send_failed_spans)? Give the exporter more consumers, or its queue more room on disk (docs/delivery.md)")
	}
	return ok("the queues of %s have room", count(float64(len(capacities)), "exporter"))
}

func checkLost(f *Facts, c *Collector) Result {
	parts, total, grown := tally(c, []string{
		metricDedupLost, metricGenaiLost, metricGenaiLostSteps,
		metricSendFailed, metricEnqueueFailed, metricPointsFailed, metricPointsEnqueue,
	})
	if total == 0 {
		return ok("nothing was lost on the way out")
	}
	return fail(fmt.Sprintf("lost: %s (%s)", parts, during(f, grown)),
		"the collector's log says what the exporter answered; a queue on disk with retries keeps data over a backend's outage (docs/delivery.md)")
}

// settled is how long after its start a collector may not know all ranks.
const settled = time.Minute

func checkEarly(f *Facts, c *Collector) Result {
	released, roots := c.sum(metricEarlyRelease), c.sum(metricGenaiEarly)
	grown := c.grown(metricEarlyRelease) + c.grown(metricGenaiEarly)
	uptime, _ := c.After.Sum(metricUptime)
	seen := fmt.Sprintf("%s left rankdedup and %s genai before all had come (%s)",
		count(released, "span"), count(roots, "span"), during(f, grown))
	by := c.After.SumBy(metricEarlyRelease, "reason")
	for reason, n := range c.After.SumBy(metricGenaiEarly, "reason") {
		by["genai "+reason] += n
	}
	switch {
	case released+roots == 0:
		return ok("nothing had to leave early")
	case grown == 0 && uptime < settled.Seconds():
		return ok("%s; in the first minute that is normal", seen)
	}
	return warn(seen+": "+list(by),
		"reason limit: raise max_held_mib; wait: spans come late or never, see ranks and scheduler-spans; learn or ambiguous: see senders")
}

// checkCounting: requests must be counted at one tier.
func checkCounting(f *Facts) Result {
	var counting []string
	for _, c := range f.up() {
		if c.sum(metricCounted, "outcome", "counted") > 0 {
			counting = append(counting, c.URL)
		}
	}
	resent := f.sum(metricCounted, "outcome", "resent")
	again := ""
	if resent > 0 {
		again = fmt.Sprintf(" (%s came again and counted once)", count(resent, "request"))
	}
	switch {
	case len(f.up()) == 0:
		return unknown("no collector answered", "")
	case len(counting) > 1:
		return warn("several collectors count requests: "+strings.Join(counting, ", ")+again,
			"side by side that is right; where one sends its spans to the other each request counts twice: keep genaimetrics at the last tier only")
	case len(f.Collectors) == 1 && len(counting) == 1:
		return ok("this collector counts requests%s; others were not asked (--collector may be repeated)", again)
	case len(counting) == 0:
		return unknown("no collector has counted a request yet", "")
	}
	return ok("one collector counts requests%s", again)
}
