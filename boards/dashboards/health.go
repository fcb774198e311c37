// Copyright The otelcol-sglang Authors
// SPDX-License-Identifier: Apache-2.0

package dashboards // import "github.com/otelcol-sglang/otelcol-sglang/boards/dashboards"

func health() *Board {
	return &Board{
		UID: "sglang-telemetry", Title: "SGLang / Telemetry health", Own: true,
		About: "Can the numbers be trusted, and what do they cost?",
		Rows:  []Row{trust(), missing(), losses(), judged(), bounds(), cost()},
	}
}

func trust() Row {
	stat := func(title, says, expr string, unit Unit, limits []Limit) Panel {
		return Panel{Title: title, Says: says, Show: Stat, Unit: unit, W: 4, H: 5, Needs: []Need{OwnMetrics}, Limits: limits, Queries: one(expr, title)}
	}
	return Row{Title: "Can the numbers be trusted?", Panels: []Panel{
		stat("Complete requests", "Part of the request roots of the last 5 minutes of which everything was derived.",
			ratio(rate("otelcol_processor_genai_roots", `@own,completeness="complete"`, recent), rate("otelcol_processor_genai_roots", "@own", recent)), Percent, nil),
		stat("Without scheduler spans", "Part of the request roots of the last 5 minutes without a span of a scheduler: several tokenizer workers, a rank's spans that are lost, or an engine whose schedulers don't trace. Their queue and prefill are unknown, never 0.",
			ratio("("+rate("otelcol_processor_genai_roots", `@own,completeness="no_scheduler_spans"`, recent)+" or "+rate("otelcol_processor_genai_roots", "@own", recent)+" * 0)",
				rate("otelcol_processor_genai_roots", "@own", recent)), Percent, []Limit{{0.01, yellow}, {0.2, red}}),
		stat("Age of the oldest page", "Seconds since the last good scrape, of the engine where it is longest.",
			"max (otelcol_receiver_sglang_scrape_age{@scraped})", Seconds, []Limit{{30, yellow}, {120, red}}),
		stat("Engines by spans and page", "Engines of which both arrive. Fewer than there are: see the table below.",
			`count (otelcol_processor_genai_engines{@own,state="both"} > 0)`, Count, nil),
		stat("Copies folded", "Spans that came in for each one that is kept, over the last 5 minutes: near the number of TP ranks of a DP group, if the schedulers' spans are most of all. 1 with several ranks: they are not recognised.",
			ratio(rate("otelcol_processor_rankdedup_spans_in", "@own", recent), "("+rate("otelcol_processor_rankdedup_spans_in", "@own", recent)+"\n- "+rate("otelcol_processor_rankdedup_spans_folded", "@own", recent)+")"), Times, nil),
		stat("Oldest open request", "Age of the request that is known for longest without its root. Older than any request can be: its root is lost, or it hangs.",
			"max (otelcol_processor_genai_oldest_open_request_age{@own})", Seconds, nil),
		{
			Title: "Engines", Show: Table, Unit: Count, W: 12, H: 7, Needs: []Need{OwnMetrics, Metrics, Traces},
			Says:    "What arrives of each engine. spans_only: its page is not scraped, or is not matched (give both one service.instance.id). page_only: no spans come.",
			Queries: one(`max by (engine, page, state) (otelcol_processor_genai_engines{@own} > 0)`, "known"),
		},
		{
			Title: "Pages", Show: Table, Unit: Count, W: 12, H: 7, Needs: []Need{OwnMetrics, Metrics},
			Says: "Each engine's metrics page.",
			Queries: []Query{
				{Expr: "max by (engine) (otelcol_receiver_sglang_engine_up{@scraped})", Legend: "up", Unit: Count},
				{Expr: "max by (engine) (otelcol_receiver_sglang_scrape_age{@scraped})", Legend: "age", Unit: Seconds, Limits: []Limit{{30, yellow}, {120, red}}},
				{Expr: "max by (engine) (otelcol_receiver_sglang_page_series{@scraped})", Legend: "series", Unit: Count},
				{Expr: "max by (engine) (otelcol_receiver_sglang_page_size{@scraped})", Legend: "size", Unit: Bytes},
				{Expr: quantile(0.99, "otelcol_receiver_sglang_scrape_duration", "@scraped", recent, "engine"), Legend: "scrape P99", Unit: Seconds},
			},
		},
	}}
}

func missing() Row {
	return Row{Title: "Missing", Panels: []Panel{
		{
			Title: "Requests by completeness", Show: Stack, Unit: PerSecond, W: 6, H: 8, Needs: []Need{OwnMetrics, Traces},
			Says:    "Request roots by what could be derived of them.",
			Queries: one(rate("otelcol_processor_genai_roots", "@own", graph, "completeness"), "{{completeness}}"),
		},
		{
			Title: "Open requests", Unit: Count, W: 6, H: 8, Needs: []Need{OwnMetrics, Traces},
			Says:    "Requests of which spans came and no root yet, by engine (its id; the table above has the page). Like the running requests; more, and growing: roots are lost.",
			Queries: one("sum by (engine) (otelcol_processor_genai_open_requests{@own})", "{{engine}}"),
		},
		{
			Title: "Lost, late and dropped spans", Unit: Rate, W: 6, H: 8, Needs: []Need{OwnMetrics},
			Says:  "Spans each second that got lost in the collector, came after their request had left, or left early for want of room, with the reason. Late ones and early ones are not lost.",
			Empty: "nothing was lost, late or early",
			Queries: []Query{
				{Expr: rate("otelcol_processor_rankdedup_spans_lost", "@own", graph, "reason"), Legend: "rankdedup lost: {{reason}}"},
				{Expr: rate("otelcol_processor_genai_lost_spans", "@own", graph, "reason"), Legend: "genai lost: {{reason}}"},
				{Expr: rate("otelcol_processor_rankdedup_spans_late", "@own", graph, "reason"), Legend: "rankdedup late: {{reason}}"},
				{Expr: rate("otelcol_processor_genai_late_spans", "@own", graph, "kind"), Legend: "genai late: {{kind}}"},
				{Expr: rate("otelcol_processor_rankdedup_spans_early_release", "@own", graph, "reason"), Legend: "rankdedup early: {{reason}}"},
				{Expr: rate("otelcol_processor_genai_early_releases", "@own", graph, "reason"), Legend: "genai early: {{reason}}"},
			},
		},
		{
			Title: "Requests with a part missing", Unit: PerSecond, W: 6, H: 8, Needs: []Need{OwnMetrics},
			Says:  "Whose root never came; of which fewer ranks sent spans than the engine has.",
			Empty: "no request lacked its root or a rank",
			Queries: []Query{
				{Expr: rate("otelcol_processor_genai_requests_without_root", "@own", graph), Legend: "without root"},
				{Expr: rate("otelcol_processor_genai_requests_without_ranks", "@own", graph, "engine"), Legend: "{{engine}} without a rank"},
			},
		},
	}}
}

func losses() Row {
	return Row{Title: "What the collector refuses and gives up", Panels: []Panel{
		{
			Title: "Refused", Unit: Rate, W: 8, H: 8, Needs: []Need{OwnMetrics},
			Says:  "What the collector did not take, each second, where it entered; and which part refused. Engines send again for some seconds up to a minute, then drop without a word.",
			Empty: "nothing was refused",
			Queries: []Query{
				{Expr: rate("otelcol_receiver_refused_spans", "@own", graph, "receiver"), Legend: "spans at {{receiver}}"},
				{Expr: rate("otelcol_receiver_refused_metric_points", "@own", graph, "receiver"), Legend: "points at {{receiver}}"},
				{Expr: rate("otelcol_processor_memory_limiter_refused_spans", "@own", graph), Legend: "spans by memory_limiter"},
				{Expr: rate("otelcol_processor_rankdedup_spans_refused", "@own", graph), Legend: "spans by rankdedup"},
				{Expr: rate("otelcol_processor_genai_refused_batches", "@own", graph), Legend: "batches by genai"},
			},
		},
		{
			Title: "Sending queues", Unit: Percent, W: 8, H: 8, Needs: []Need{OwnMetrics, SendQueue}, Max: 1,
			Says:    "How full each exporter's queue is. Full: the backend is too slow or gone, and the collector refuses.",
			Empty:   "no exporter has a queue",
			Queries: one("max by (instance, exporter) (otelcol_exporter_queue_size{@own} / otelcol_exporter_queue_capacity{@own})", "{{instance}} {{exporter}}"),
		},
		{
			Title: "Given up by exporters", Unit: Rate, W: 8, H: 8, Needs: []Need{OwnMetrics, SendQueue},
			Says:  "Spans and points each second that an exporter gave up after all its attempts: gone. And those that found its queue full: what sent them holds them, or is refused.",
			Empty: "no exporter gave up",
			Queries: []Query{
				{Expr: rate("otelcol_exporter_send_failed_spans", "@own", graph, "exporter"), Legend: "{{exporter}} spans"},
				{Expr: rate("otelcol_exporter_send_failed_metric_points", "@own", graph, "exporter"), Legend: "{{exporter}} points"},
				{Expr: rate("otelcol_exporter_enqueue_failed_spans", "@own", graph, "exporter"), Legend: "{{exporter}} queue full"},
			},
		},
	}}
}

func judged() Row {
	return Row{Title: "Values that are refused or missing", Panels: []Panel{
		{
			Title: "Invalid values of the engine", Unit: Rate, W: 6, H: 8, Needs: []Need{OwnMetrics, Traces},
			Says:    "Reported latencies that cannot be, by attribute and reason; the scheduler's time stands in for them. equals_e2e and token_50: start the engine with --enable-metrics.",
			Empty:   "no value was refused: a healthy engine has none",
			Queries: one(rate("otelcol_processor_genai_invalid_values", "@own", graph, "attribute", "reason"), "{{attribute}}: {{reason}}"),
		},
		{
			Title: "Values that requests lack", Unit: Rate, W: 6, H: 8, Needs: []Need{OwnMetrics, Traces},
			Says:    "By attribute and reason. trace_level: the engine's level is too low for it.",
			Empty:   "requests have all values of their kind",
			Queries: one(rate("otelcol_processor_genai_unknown_values", "@own", graph, "attribute", "reason"), "{{attribute}}: {{reason}}"),
		},
		{
			Title: "First tokens late at the front end", Unit: Rate, W: 6, H: 8, Needs: []Need{OwnMetrics, Traces},
			Says:    "Requests each second whose reported first token came more than 0.1 s after the scheduler had it: true for the user, and the front end's fault.",
			Empty:   "no first token was late",
			Queries: one(rate("otelcol_processor_genai_suspect_ttft", "@own", graph), "late"),
		},
		{
			Title: "Refused samples and failed scrapes", Unit: Rate, W: 6, H: 8, Needs: []Need{OwnMetrics},
			Says:  "Of the pages, by engine and reason. sentinel: the engine's word for no value (utilization −1, fwd_occupancy NaN), rightly left out.",
			Empty: "all samples and scrapes were good",
			Queries: []Query{
				{Expr: rate("otelcol_receiver_sglang_refused_samples", "@scraped", graph, "engine", "reason"), Legend: "{{engine}} sample: {{reason}}"},
				{Expr: rate("otelcol_receiver_sglang_failed_scrapes", "@scraped", graph, "engine", "reason"), Legend: "{{engine}} scrape: {{reason}}"},
			},
		},
	}}
}

// beyond is the part of a histogram's values in its last bucket, which has no upper
// bound: a quantile in there is not known.
func beyond(metric, filter string) string {
	return "round(clamp_min(1 - " + ratio(
		`sum (max by (job, instance, model_name, gen_ai_request_model, engine_type, is_streaming, stage, error_type, dp_rank) (rate(`+metric+`_bucket{`+filter+`,le!="+Inf"}[$__rate_interval])))`,
		`sum (max by (job, instance, model_name, gen_ai_request_model, engine_type, is_streaming, stage, error_type, dp_rank) (rate(`+metric+`_count{`+filter+`}[$__rate_interval])))`) + ", 0), 0.000001)"
}

func bounds() Row {
	return Row{Title: "Histograms", Panels: []Panel{
		{
			Title: "Beyond the last bucket: requests", Unit: Percent, W: 8, H: 7, Needs: []Need{Traces}, Max: 1,
			Says: "Part of the values above the last bound. From 1 % on a P99 is no number, but the bound: set buckets in the genaimetrics connector.",
			Queries: []Query{
				{Expr: beyond(ttft, "@requests"), Legend: "time to first token"},
				{Expr: beyond(tpot, "@requests"), Legend: "time per output token"},
				{Expr: beyond(duration, "@requests"), Legend: "duration"},
				{Expr: beyond(stages, "@requests"), Legend: "stages"},
				{Expr: beyond("sglang_ranks_skew", "@engine"), Legend: "rank skew"},
			},
		},
		{
			Title: "Beyond the last bucket: pages", Unit: Percent, W: 8, H: 7, Needs: []Need{Metrics}, Max: 1,
			Says: "The same of the engine's own histograms; their bounds are flags of the engine (--bucket-time-to-first-token and others).",
			Queries: []Query{
				{Expr: beyond("sglang:time_to_first_token_seconds", "@page"), Legend: "time to first token"},
				{Expr: beyond("sglang:inter_token_latency_seconds", "@page"), Legend: "inter-token latency"},
				{Expr: beyond("sglang:e2e_request_latency_seconds", "@page"), Legend: "end to end"},
				{Expr: beyond("sglang:queue_time_seconds", "@page"), Legend: "queue"},
			},
		},
		{
			Title: "Accepted minus counted, 1 h", Unit: Count, Signed: true, W: 8, H: 7, Needs: []Need{Metrics, Traces},
			Says: "Requests of an hour that the front ends accepted less those whose root was counted. Requests that run make it a little positive; spans come up to a scrape of the page earlier, which makes it a little negative in an engine's first hour. With sampled traces, or spans that are lost, it grows.",
			Queries: one(`sum by (job, instance) (increase(sglang:http_requests_total{@engine,endpoint=~"/generate|/v1/(chat/)?completions|/v1/embeddings"}[1h])
  unless on (job, instance) sglang:num_requests_total{engine_type="prefill"})
- sum by (job, instance) (increase(`+duration+`_count{@requests}[1h]))`, "{{instance}}"),
		},
	}}
}

func cost() Row {
	return Row{Title: "What telemetry costs", Panels: []Panel{
		{
			Title: "Spans in and out", Unit: Rate, W: 6, H: 8, Needs: []Need{OwnMetrics, Traces},
			Says: "Each second: received, and left after copies and decode steps were folded. The second is what a tracing backend is paid for.",
			Queries: []Query{
				{Expr: rate("otelcol_processor_rankdedup_spans_in", "@own", graph), Legend: "in"},
				{Expr: rate("otelcol_processor_rankdedup_spans_in", "@own", graph) + "\n- " + rate("otelcol_processor_rankdedup_spans_folded", "@own", graph) +
					"\n- (" + rate("otelcol_processor_genai_folded_steps", "@own", graph) + " or vector(0))", Legend: "out"},
			},
		},
		{
			Title: "Spans per request", Unit: Count, W: 6, H: 8, Needs: []Need{OwnMetrics, Traces},
			Says: "Received, and left. At trace level 3 the first is about ranks × (4 + tokens); level 1 or 2 has every latency too.",
			Queries: []Query{
				{Expr: ratio(rate("otelcol_processor_rankdedup_spans_in", "@own", graph), rate("otelcol_processor_genai_roots", "@own", graph)), Legend: "in"},
				{Expr: ratio("("+rate("otelcol_processor_rankdedup_spans_in", "@own", graph)+"\n- "+rate("otelcol_processor_rankdedup_spans_folded", "@own", graph)+
					"\n- ("+rate("otelcol_processor_genai_folded_steps", "@own", graph)+" or vector(0)))", rate("otelcol_processor_genai_roots", "@own", graph)), Legend: "out"},
			},
		},
		{
			Title: "Bytes per request to the backend", Unit: Bytes, W: 6, H: 8, Needs: []Need{OwnMetrics, Traces, Detailed, SendQueue},
			Says:  "Bytes of the batches that each exporter sent over the requests, before compression.",
			Empty: "the collector counts no bytes: its own metrics are not detailed, or no exporter has a queue",
			Queries: one(`sum by (exporter) (rate(otelcol_exporter_queue_batch_send_size_bytes_sum{@own}[$__rate_interval]))
/ on () group_left ()
(`+rate("otelcol_processor_genai_roots", "@own", graph)+" > 0)", "{{exporter}}"),
		},
		{
			Title: "Series", Unit: Count, W: 6, H: 8, Needs: []Need{OwnMetrics},
			Says: "Series of the pages as scraped, those that rankdedup keeps of them, and those of requests. The first two tell what folding ranks saves.",
			Queries: []Query{
				{Expr: "sum (otelcol_receiver_sglang_page_series{@scraped})", Legend: "pages"},
				{Expr: "sum (otelcol_processor_rankdedup_series{@own})", Legend: "after folding"},
				{Expr: "sum (otelcol_connector_genaimetrics_series{@own})", Legend: "requests"},
			},
		},
		{
			Title: "The collector's CPU", Unit: Cores, W: 8, H: 7, Needs: []Need{OwnMetrics},
			Says:    "Seconds of CPU time each second, by collector.",
			Empty:   "the collector's own metrics are not scraped",
			Queries: one(rate("otelcol_process_cpu_seconds", "@own", graph, "instance"), "{{instance}}"),
		},
		{
			Title: "The collector's memory", Unit: Bytes, W: 8, H: 7, Needs: []Need{OwnMetrics},
			Says:  "Resident, and of it what the processors hold until requests end.",
			Empty: "the collector's own metrics are not scraped",
			Queries: []Query{
				{Expr: "sum by (instance) (otelcol_process_memory_rss{@own})", Legend: "{{instance}} resident"},
				{Expr: "sum by (instance) (otelcol_processor_rankdedup_held_bytes{@own})", Legend: "{{instance}} held by rankdedup"},
				{Expr: "sum by (instance) (otelcol_processor_genai_held_bytes{@own})", Legend: "{{instance}} held by genai"},
			},
		},
		{
			Title: "Requests counted, and not", Show: Stack, Unit: PerSecond, W: 8, H: 7, Needs: []Need{OwnMetrics, Traces},
			Says:    "Request roots at the genaimetrics connector by what became of them. not_judged: genai is missing in front. resent: the sender repeated it.",
			Queries: one(rate("otelcol_connector_genaimetrics_roots", "@own", graph, "outcome"), "{{outcome}}"),
		},
	}}
}
