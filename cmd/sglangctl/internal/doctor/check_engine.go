// Copyright The otelcol-sglang Authors
// SPDX-License-Identifier: Apache-2.0

package doctor // import "github.com/otelcol-sglang/otelcol-sglang/cmd/sglangctl/internal/doctor"

import (
	"errors"
	"fmt"
	"net/http"
	"os"
	"slices"
	"strings"
	"time"

	"github.com/otelcol-sglang/otelcol-sglang/cmd/sglangctl/internal/request"
	"github.com/otelcol-sglang/otelcol-sglang/internal/sglang"
)

func checkEngine(_ *Facts, e *Engine) Result {
	switch {
	case e.Info.Err == nil:
		version, _ := e.Info.setting("version")
		return ok("it answers: SGLang %v, tp %d, pp %d, dp %d", version,
			e.Info.number("tp_size"), e.Info.number("pp_size"), e.Info.number("dp_size"))
	case e.Page.Status != 0:
		return warn(fmt.Sprintf("its page answers, and /server_info does not: %v", cause(e.Info.Err)),
			"its flags and its number of ranks stay unknown; behind a gateway or a gRPC front end name the engine's own HTTP port")
	}
	return fail(fmt.Sprintf("it does not answer: %v", cause(e.Info.Err)), "is it up, and does --engine name its HTTP port as this machine reaches it?")
}

// slowPage is what a page may take before it is worth a word; the receiver's
// timeout is its collection interval, 5 s by default.
const slowPage = 2 * time.Second

func checkPage(_ *Facts, e *Engine) Result {
	p := &e.Page
	switch {
	case p.Err != nil:
		return badPage(p)
	case len(p.Families) == 0 && p.Size == 0:
		return fail("its page is empty: "+redirected(p), "start it with --enable-metrics; behind a proxy name the engine itself, or metrics_path: /metrics/")
	case len(p.Families) == 0:
		return fail(fmt.Sprintf("its page has %s and no family of an SGLang engine", count(float64(p.Size), "byte")),
			"is this another program's page? Name the engine's port, and start the engine with --enable-metrics")
	case p.Took > slowPage:
		return warn(fmt.Sprintf("its page took %s", request.Duration(p.Took)),
			"raise the receiver's timeout above it; a busy API server answers late (frontend-flood), and many series take long")
	case p.Location != "":
		return ok("%s; %s", pageSize(p), redirected(p))
	}
	return ok("%s", pageSize(p))
}

func pageSize(p *Page) string {
	return fmt.Sprintf("its page has %d families of the engine in %s, and took %s",
		len(p.Families), count(float64(p.Size), "byte"), request.Duration(p.Took))
}

func redirected(p *Page) string {
	if p.Location == "" {
		return "no redirect"
	}
	return "it redirects to " + p.Location + ", which was followed; metrics_path spares it"
}

func badPage(p *Page) Result {
	seen := fmt.Sprintf("its page could not be read: %v", cause(p.Err))
	switch {
	case errors.Is(p.Err, os.ErrDeadlineExceeded) || strings.Contains(p.Err.Error(), "Client.Timeout"):
		return fail(fmt.Sprintf("its page gave no answer within %s", request.Duration(p.Took)),
			"its API server is stuck or flooded: look at the engine's log; a longer timeout of the receiver only hides it")
	case p.Location != "":
		return fail(fmt.Sprintf("it redirects to %s, and that could not be read: %v", p.Location, cause(p.Err)),
			"name the page itself with metrics_path; behind a gateway, name the engine")
	case p.Status == http.StatusNotFound:
		return fail(seen, "start it with --enable-metrics: without it there is no page")
	case p.Status >= http.StatusInternalServerError:
		return fail(seen, "the engine's log says why; its metrics stop while it serves on, and no zero is put in their place")
	case p.Status == http.StatusUnauthorized, p.Status == http.StatusForbidden:
		return fail(seen, "the page wants credentials: give the receiver's engine `auth` or `headers`")
	}
	return fail(seen, "is it an engine's page, as text/plain 0.0.4?")
}

func checkNames(_ *Facts, e *Engine) Result {
	p := &e.Page
	if p.Underscored {
		return warn("its names come as sglang_..., not sglang:...",
			"a gateway's aggregate page spells them so: the collector gives them their colon back; do not scrape the engine's own page beside it, or all doubles")
	}
	if !strings.HasPrefix(p.ContentType, "text/plain") {
		return warn(fmt.Sprintf("its page says Content-Type %q though text/plain was asked for", p.ContentType),
			"something between changes the answer: scrape the engine itself")
	}
	return ok("names have their colon, the format is text")
}

// afterRequest are families that a finished request leaves on the page.
var afterRequest = []sglang.FamilyName{
	sglang.FamilyE2ERequestLatencySeconds, sglang.FamilyPromptTokensTotal, sglang.FamilyQueueTimeSeconds,
}

func checkFamilies(_ *Facts, e *Engine) Result {
	finished, known := e.Page.total(sglang.FamilyNumRequestsTotal)
	if !known || finished == 0 {
		return unknown("no request has finished: families that come with the first can't be missed yet", "send one request")
	}
	var absent, zero []string
	for _, name := range afterRequest {
		n, there := e.Page.total(name)
		switch {
		case !there:
			absent = append(absent, string(name))
		case n == 0:
			zero = append(zero, string(name))
		}
	}
	const do = "is this the engine's own page of a release from 0.5.3 on, and was it started with --enable-metrics? A page behind a gateway may leave families out"
	seen := count(finished, "request") + " finished"
	switch {
	case len(absent) > 0:
		return warn(seen+", and these are missing: "+strings.Join(absent, ", "), do)
	case len(zero) > 0:
		return warn(seen+", and these are 0 all the same: "+strings.Join(zero, ", "), do)
	}
	return ok("%s, and what comes with them is there", seen)
}

// checkScrape is about the collector's scrape of the engine; checkPage about ours.
func checkScrape(f *Facts, e *Engine) Result {
	up := f.up()
	if len(up) == 0 {
		return unknown("no collector answered", "")
	}
	var seen []string
	for _, c := range up {
		if r, there := scrapeOf(f, c, e.Name()); there {
			return r
		}
		for engine := range c.After.SumBy(metricEngineUp, "engine") {
			seen = append(seen, engine)
		}
	}
	if len(seen) == 0 {
		return fail("the collector scrapes no engine", "list it under `receivers: sglang: engines:`, and put the receiver into a metrics pipeline")
	}
	slices.Sort(seen)
	return warn("the collector scrapes others: "+strings.Join(seen, ", "),
		"list this one under `receivers: sglang: engines:`; where it is there under another name (service.instance.id, host), all is well")
}

func scrapeOf(f *Facts, c *Collector, engine string) (Result, bool) {
	state, there := c.After.Sum(metricEngineUp, "engine", engine)
	if !there {
		return Result{}, false
	}
	reasons := c.After.SumBy(metricFailedScrapes, "reason", "engine", engine)
	failed, grown := c.sum(metricFailedScrapes, "engine", engine), c.grown(metricFailedScrapes, "engine", engine)
	age := time.Duration(c.sum(metricScrapeAge, "engine", engine) * float64(time.Second))
	switch {
	case state == 0:
		return fail(fmt.Sprintf("the collector's last scrape gave no page; the last good one is %s old (%s)", request.Duration(age), list(reasons)),
			"what `page` says here holds for the collector too, if both reach the engine the same way; else compare addresses, TLS and credentials"), true
	case failed > 0:
		return warn(fmt.Sprintf("the collector scrapes it; %s failed (%s; %s)", count(failed, "scrape"), list(reasons), during(f, grown)),
			"reason timeout: the API server is busy at times; http_status, empty, parse: something answers in its place at times"), true
	}
	return ok("the collector scrapes it, the last page is %s old", request.Duration(age)), true
}

// checkDPRanks: a page that shows one DP rank of N hides the others.
func checkDPRanks(f *Facts, e *Engine) Result {
	dp := e.Info.number("dp_size")
	if e.Info.Err != nil {
		return unknown("/server_info does not tell how many there are", "")
	}
	if dp == 1 {
		return ok("there is one")
	}
	if len(e.Page.Families) == 0 {
		return unknown("the engine's page shows nothing", "")
	}
	shown := e.Page.dpRanks()
	where := fmt.Sprintf("its page shows %d of %d", len(shown), dp)
	for _, c := range f.up() {
		if n, known := c.After.Sum(metricDPRanks, "page", e.Name(), "source", "spans"); known {
			where += fmt.Sprintf(", its spans %.0f", n)
		}
	}
	if len(shown) >= dp {
		return ok("%s", where)
	}
	return warn(where, "sums over the page are too low. A DP rank without a request may not have written yet; DP ranks on other nodes "+
		"(--nnodes) have pages of their own: list them under `engines` too; else --enable-metrics-for-all-schedulers")
}

// dpRanks are the DP ranks that any of the families shows.
func (p *Page) dpRanks() map[string]bool {
	out := map[string]bool{}
	for _, f := range p.Families {
		for _, m := range f.GetMetric() {
			for _, l := range m.GetLabel() {
				if l.GetName() == sglang.LabelDPRank && l.GetValue() != "" {
					out[l.GetValue()] = true
				}
			}
		}
	}
	return out
}

// checkTokenizers: spans of schedulers are lost with several of them.
func checkTokenizers(_ *Facts, e *Engine) Result {
	v, there := e.Info.setting("tokenizer_worker_num")
	workers, _ := v.(float64)
	switch {
	case !there:
		return unknown("/server_info does not tell", "the line scheduler-spans shows what comes of it")
	case workers > 1:
		return warn(fmt.Sprintf("it runs %.0f tokenizer workers: spans of its schedulers are lost for most requests (sglang #38210), and /set_trace_level reaches one worker only", workers),
			"use one tokenizer worker while you trace, or a release with the fix; queue and prefill times are unknown meanwhile, not 0")
	}
	return ok("it runs one tokenizer worker")
}

// clockSlack is what a date in whole seconds and the way may hide.
const clockSlack = 2 * time.Second

func checkEngineClock(_ *Facts, e *Engine) Result {
	c := e.Info.Clock
	switch {
	case !c.Known:
		return unknown("it answered without a Date header", "")
	case c.Min > clockSlack:
		return warn(fmt.Sprintf("its clock is at least %s ahead of this machine's", request.Duration(c.Min)), ntp)
	case c.Max < -clockSlack:
		return warn(fmt.Sprintf("its clock is at least %s behind this machine's", request.Duration(-c.Max)), ntp)
	}
	return ok("its clock is within %.0f s of this machine's, by its Date header", clockSlack.Seconds())
}

const ntp = "keep clocks in step (chrony, NTP): latencies use span times, and those of one request come from several processes"
