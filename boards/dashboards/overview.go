// Copyright The otelcol-sglang Authors
// SPDX-License-Identifier: Apache-2.0

package dashboards // import "github.com/otelcol-sglang/otelcol-sglang/boards/dashboards"

// Colours of values that are worth a look, and of bad ones.
const (
	yellow = "yellow"
	red    = "red"
)

// Limits of a value against what it usually is, and of shares. There are none for
// seconds: what is slow depends on the model and the prompt.
var (
	worse      = []Limit{{1.5, yellow}, {3, red}}
	errLimits  = []Limit{{0.02, yellow}, {0.1, red}}
	fullLimits = []Limit{{0.85, yellow}, {0.95, red}}
	anyLimits  = []Limit{{1, red}}
)

// failed are requests with an error, of those that came with a filter.
func failed(window string, by ...string) string {
	return "(" + rate(duration+"_count", `@requests,error_type!=""`, window, by...) +
		"\n  or " + rate(duration+"_count", "@requests", window, by...) + " * 0)"
}

// waitShare is the part of the time to the first token in which a request only waits.
func waitShare(window string, by ...string) string {
	return ratio(rate(stages+"_sum", `@requests,stage=~"`+waiting+`"`, window, by...),
		rate(stages+"_sum", `@requests,stage=~"`+toFirstToken+`"`, window, by...))
}

func againstUsual(metric string, by ...string) string {
	p99 := quantile(0.99, metric, "@requests", recent, by...)
	return p99 + "\n/\n" + usual(p99)
}

func overview() *Board {
	return &Board{
		UID: "sglang-overview", Title: "SGLang / Overview", Own: true,
		About: "Is it bad, since when, queue or compute, which instance. The first row answers; the rows below have the numbers.",
		Rows:  []Row{verdict(), sinceWhen(), traffic(), capacity(), outcomes(), rawNumbers()},
	}
}

func verdict() Row {
	return Row{Title: "Is it bad?", Panels: []Panel{
		{
			Title: "TTFT P99", Show: Stat, Unit: Seconds, W: 4, H: 4, Needs: []Need{Traces},
			Says:    "Time to first token that 99 % of requests stayed below in the last 5 minutes, as the genai processor judged it: values of the engine that cannot be are not in it.",
			Queries: one(quantile(0.99, ttft, "@requests", recent), "P99"),
		},
		{
			Title: "TTFT P99 against usual", Show: Stat, Unit: Times, W: 4, H: 4, Needs: []Need{Traces}, Limits: worse,
			Says:    "The last 5 minutes' P99 over its median of the last 6 hours. 1 is as always; yellow from 1.5, red from 3. An engine that started a short time ago is compared with that time.",
			Queries: now(againstUsual(ttft), "× usual"),
		},
		{
			Title: "Time per token P99 against usual", Show: Stat, Unit: Times, W: 4, H: 4, Needs: []Need{Traces}, Limits: worse,
			Says:    "The same for the time per output token. Slow here and not at TTFT: decode is slow, see the board Ranks and DP, and Speculation.",
			Queries: now(againstUsual(tpot), "× usual"),
		},
		{
			Title: "Queue or compute: waiting share", Show: Stat, Unit: Percent, W: 4, H: 4, Needs: []Need{Traces},
			Says:    "Part of the time up to the first token in which requests only wait (queue, bootstrap, decode_wait); the rest is computing, moving KV and the front end. Most of it waiting: more requests come than are served, or memory is short, see Capacity. Little: the work itself is slow, see what a first token waits for.",
			Queries: one(waitShare(recent), "waiting"),
		},
		{
			Title: "Failed requests", Show: Stat, Unit: Percent, W: 4, H: 4, Needs: []Need{Traces}, Limits: errLimits,
			Says:    "Requests of the last 5 minutes that ended with an error or an abort, of all. Some clients always hang up: compare with the row Outcome.",
			Queries: one(ratio(failed(recent), rate(duration+"_count", "@requests", recent)), "failed"),
		},
		{
			Title: "Engines without a page", Show: Stat, Unit: Count, W: 4, H: 4, Needs: []Need{OwnMetrics}, Limits: anyLimits,
			Says:    "Engines whose last scrape failed. What the boards show of them is their past: a dead page is not zero load.",
			Queries: one(`sum (1 - otelcol_receiver_sglang_engine_up{@scraped})`, "dead pages"),
		},
	}}
}

func sinceWhen() Row {
	byInstance := []string{"job", "instance"}
	return Row{Title: "Since when, what, which instance", Panels: []Panel{
		{
			Title: "Time to first token", Unit: Seconds, W: 8, H: 8, Needs: []Need{Traces},
			Says:    "Over all chosen instances. A click on a dot opens the trace of a request that took that long.",
			Queries: quantiles(ttft, "@requests"),
		},
		{
			Title: "What a first token waits for", Show: Stack, Unit: Seconds, W: 8, H: 8, Needs: []Need{Traces, DispatchLvl},
			Says:    "Mean seconds of a request in each stage up to its first token. The stage that grew is the one to look into: queue, bootstrap and decode_wait are waiting, prefill is computing.",
			Queries: one(perRequest(`,stage=~"`+toFirstToken+`"`, graph), "{{stage}}"),
		},
		{
			Title: "Time per output token", Unit: Seconds, W: 8, H: 8, Needs: []Need{Traces},
			Says:    "Decode time over tokens: neither queue nor prefill is in it.",
			Queries: quantiles(tpot, "@requests"),
		},
		{
			Title: "Which instance", Show: Table, SortBy: "TTFT × usual", Unit: Count, W: 24, H: 6, Needs: []Need{Metrics, Traces},
			Says: "The last 5 minutes by engine. One red line: that engine (or its node). All red: the traffic, or what all share. Requests of engines whose spans don't say service.instance.id stand under the collector's instance.",
			Queries: []Query{
				{Expr: quantile(0.99, ttft, "@requests", recent, byInstance...), Legend: "TTFT P99", Unit: Seconds},
				{Expr: againstUsual(ttft, byInstance...), Legend: "TTFT × usual", Unit: Times, Limits: worse},
				{Expr: againstUsual(tpot, byInstance...), Legend: "TPOT × usual", Unit: Times, Limits: worse},
				{Expr: waitShare(recent, byInstance...), Legend: "waiting share", Unit: Percent},
				{Expr: rate(duration+"_count", "@requests", recent, byInstance...), Legend: "requests", Unit: PerSecond},
				{Expr: ratio(failed(recent, byInstance...), rate(duration+"_count", "@requests", recent, byInstance...)), Legend: "failed", Unit: Percent, Limits: errLimits},
				{Expr: overDP("sglang:num_running_reqs", `@page,priority=""`), Legend: "running", Unit: Count},
				{Expr: overDP("sglang:num_queue_reqs", `@page,priority=""`), Legend: "queued", Unit: Count},
				{Expr: "max by (job, instance) (" + kvUse() + ")", Legend: "KV used", Unit: Percent, Limits: fullLimits},
			},
		},
	}}
}

func traffic() Row {
	return Row{Title: "Traffic and queue", Panels: []Panel{
		{
			Title: "Finished requests", Unit: PerSecond, W: 6, H: 7, Needs: []Need{Traces},
			Says:    "Requests that ended, by engine. Of a prefill/decode pair the decode half counts, so that a request is one.",
			Queries: one(rate(duration+"_count", "@requests", graph, "instance"), "{{instance}}"),
		},
		{
			Title: "Running requests", Unit: Count, W: 6, H: 7, Needs: []Need{Metrics},
			Says:    "Requests in the running batch, summed over DP ranks; parts by priority are left out, since the total holds them. Flat at a ceiling while the queue grows: the limit of the batch (max-running-requests) or of KV memory.",
			Queries: one(overDP("sglang:num_running_reqs", `@page,priority=""`), "{{instance}}"),
		},
		{
			Title: "Queued requests", Unit: Count, W: 6, H: 7, Needs: []Need{Metrics},
			Says:    "Requests that wait for a place in the batch, summed over DP ranks.",
			Queries: one(overDP("sglang:num_queue_reqs", `@page,priority=""`), "{{instance}}"),
		},
		{
			Title: "Expected wait", Unit: Seconds, W: 6, H: 7, Needs: []Need{Metrics},
			Says:    "How long the queue would take at the rate at which requests finish (Little's law): the wait that a request joining now has to expect. Against a patience, not a threshold of requests.",
			Queries: one(ratio(overDP("sglang:num_queue_reqs", `@page,priority=""`), rate("sglang:num_requests_total", "@page", graph, "job", "instance")), "{{instance}}"),
		},
	}}
}

func capacity() Row {
	return Row{Title: "Capacity", Panels: []Panel{
		{
			Title: "KV memory in use", Unit: Percent, W: 6, H: 7, Needs: []Need{Metrics}, Max: 1,
			Says:    "The fullest DP rank of each engine: what is neither free nor cache that could be evicted. Near 1 requests wait for memory, then lose their KV: Retractions.",
			Queries: one("max by (job, instance) ("+kvUse()+")", "{{instance}}"),
		},
		{
			Title: "Retractions per request", Unit: Count, W: 6, H: 7, Needs: []Need{Traces},
			Says:    "How often a running request lost its KV memory, on average; it waits again and is prefilled again. Above 0.1 memory is short: fewer running requests, or more memory.",
			Empty:   "no request was retracted since the engine's start",
			Queries: one(ratio(rate("sglang_request_retractions", "@requests", graph, "instance"), rate(duration+"_count", "@requests", graph, "instance")), "{{instance}}"),
		},
		{
			Title: "Generated tokens", Unit: TokensRate, W: 6, H: 7, Needs: []Need{Metrics},
			Says:    "From a counter that each decode step moves. The gauge gen_throughput holds its last value for up to 30 s when an engine stops.",
			Queries: one(rate("sglang:realtime_tokens_total", `@page,mode="decode"`, graph, "instance"), "{{instance}}"),
		},
		{
			Title: "Prompt tokens from a cache", Unit: Percent, W: 6, H: 7, Needs: []Need{Metrics}, Max: 1,
			Says:    "Part of the prompt tokens that was found in a cache, weighted by tokens. The gauge cache_hit_rate is of the last batch alone. By tier: board KV and cache.",
			Queries: one(ratio(rate("sglang:cached_tokens_total", "@page", graph, "instance"), rate("sglang:prompt_tokens_total", "@page", graph, "instance")), "{{instance}}"),
		},
	}}
}

func outcomes() Row {
	return Row{Title: "Outcome", Panels: []Panel{
		{
			Title: "Failed requests by error", Unit: PerSecond, W: 6, H: 7, Needs: []Need{Traces},
			Says:  "Requests that ended with an error, by error.type. abort: the client left, or the engine gave up in a stream that had begun; spans don't tell. Of the aborts, decode engines' pages know those whose KV transfer or handshake failed: the rest are clients.",
			Empty: "no request has failed",
			Queries: []Query{
				{Expr: rate(duration+"_count", `@requests,error_type!=""`, graph, "error_type"), Legend: "{{error_type}}"},
				{Expr: pdFailed("transfer"), Legend: "of the aborts: KV transfer failed"},
				{Expr: pdFailed("bootstrap"), Legend: "of the aborts: handshake failed"},
			},
		},
		{
			Title: "HTTP answers other than 2xx", Unit: PerSecond, W: 6, H: 7, Needs: []Need{Metrics},
			Says:    "By the front end, with the endpoint. 503 and no failed request: refused before they were requests.",
			Empty:   "all answers were 2xx",
			Queries: one(rate("sglang:http_responses_total", `@engine,status_code!~"2.."`, graph, "instance", "endpoint", "status_code"), "{{instance}} {{endpoint}} {{status_code}}"),
		},
		{
			Title: "Requests in the front end", Unit: Count, W: 6, H: 7, Needs: []Need{Metrics},
			Says:    "HTTP requests in flight by endpoint. Many that are not generate or completions: the front end is flooded, and first tokens reach clients late though the scheduler had them.",
			Queries: one("sum by (endpoint) (sglang:http_requests_active{@engine})", "{{endpoint}}"),
		},
		{
			Title: "Accepted minus finished", Unit: Count, Signed: true, W: 6, H: 7, Needs: []Need{Metrics},
			Says: "Requests that the front ends accepted in 15 minutes less those that they finished: as many as more run now than then. Grows: requests wait, hang, get lost or are refused. Those whose spans don't arrive: board Telemetry health.",
			Queries: one(`sum (increase(sglang:http_requests_total{@engine,endpoint=~"/generate|/v1/(chat/)?completions|/v1/embeddings"}[15m])
  unless on (job, instance) sglang:num_requests_total{engine_type="prefill"})
- sum (increase(sglang:num_requests_total{@page,engine_type!="prefill"}[15m]))`, "accepted − finished"),
		},
	}}
}

// pdFailed are the requests of which a decode engine did not get the KV cache. Prefill
// engines count the same ones.
func pdFailed(hop string) string {
	return "sum (max by (instance, dp_rank) (rate(sglang:num_" + hop + `_failed_reqs_total{@page,engine_type="decode"}[$__rate_interval])))`
}

func rawNumbers() Row {
	return Row{Title: "As the engine says it", Panels: []Panel{
		{
			Title: "End-to-end latency", Unit: Seconds, W: 8, H: 7, Needs: []Need{Traces},
			Says:    "From the request's arrival at the API server to its last token.",
			Queries: quantiles(duration, "@requests"),
		},
		{
			Title: "TTFT P99: engine's page and spans", Unit: Seconds, W: 8, H: 7, Needs: []Need{Metrics, Traces},
			Says: "Two clocks, same requests. The page's histogram has other buckets and no judgement; apart by much: see invalid values in board Telemetry health.",
			Queries: []Query{
				{Expr: quantile(0.99, "sglang:time_to_first_token_seconds", "@page", graph), Legend: "page"},
				{Expr: quantile(0.99, ttft, "@requests", graph), Legend: "spans", Exemplars: true},
			},
		},
		{
			Title: "First wait P99, at the scheduler", Unit: Seconds, W: 8, H: 7, Needs: []Need{Metrics},
			Says:    "The wait before the first forward pass. What a retracted request waits again is not in it; it is in the stage retract_wait.",
			Queries: one(quantile(0.99, "sglang:queue_time_seconds", "@page", graph, "instance"), "{{instance}}"),
		},
	}}
}
