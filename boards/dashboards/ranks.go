// Copyright The otelcol-sglang Authors
// SPDX-License-Identifier: Apache-2.0

package dashboards // import "github.com/otelcol-sglang/otelcol-sglang/boards/dashboards"

// Of DP ranks, the largest against their mean, as the alerts have it: requests are uneven
// above the one and even below the other; lengths are uneven above the third.
const uneven, even, unevenLengths = "1.5", "1.15", "1.3"

func ranks() *Board {
	return &Board{
		UID: "sglang-ranks", Title: "SGLang / Ranks and DP", Own: true,
		About: "Is one rank slow, or overloaded? TP ranks of a group do the same work and are compared; DP ranks have work of their own and are kept apart.",
		Rows:  []Row{slowRanks(), spread(), perRank(), syncing()},
	}
}

func slowRanks() Row {
	busiest := `sum by (instance, dp_rank, tp_rank, pp_rank) (rate(sglang:scheduler_stage_seconds_total{@page,category="run_batch"}[5m]))`
	median := quantile(0.5, "sglang_ranks_skew", `@engine,sglang_ranks_slowest!=""`, recent, "instance", "sglang_ranks_slowest")
	overall := quantile(0.5, "sglang_ranks_skew", "@engine", recent, "instance")
	return Row{Title: "One slow rank?", Panels: []Panel{
		{
			Title: "Rank skew", Show: Heat, Unit: Seconds, W: 10, H: 9, Needs: []Need{Traces, TwoRanks},
			Says:    "How much later than the first the last TP rank ended a request's work. Ranks' clocks on one host differ by some milliseconds, so a steady band down there is clocks; a band that moves up is a rank that got slow.",
			Queries: heat("sglang_ranks_skew", "@engine"),
		},
		{
			Title: "Which rank was last", Show: Table, SortBy: "× usual", Unit: Count, W: 14, H: 9, Needs: []Need{Traces, TwoRanks, SlowestDim},
			Says:  "By engine and TP rank: of the requests of the last 5 minutes, the part in which this rank ended last most often by more than clocks differ, and by how much. One rank with nearly all of them and a skew far above what it usually has: it is slow. The skew of always: clocks. DP ranks are groups of their own, so each has its last one.",
			Empty: "no rank was last by more than clocks differ (or the collector's genaimetrics has no dimension sglang.ranks.slowest)",
			Queries: []Query{
				{Expr: `sum by (instance, sglang_ranks_slowest) (rate(sglang_ranks_skew_count{@engine,sglang_ranks_slowest!=""}[5m]))
/ on (instance) group_left ()
(sum by (instance) (rate(sglang_ranks_skew_count{@engine}[5m])) > 0)`, Legend: "last in", Unit: Percent},
				{Expr: median, Legend: "skew P50", Unit: Seconds},
				{Expr: median + "\n/ on (instance) group_left ()\n" + usual(overall), Legend: "× usual", Unit: Times, Limits: worse},
				{Expr: quantile(0.99, "sglang_ranks_skew", `@engine,sglang_ranks_slowest!=""`, recent, "instance", "sglang_ranks_slowest"), Legend: "skew P99", Unit: Seconds},
			},
		},
		{
			Title: "Rank skew P50 and P99", Unit: Seconds, W: 9, H: 7, Needs: []Need{Traces, TwoRanks},
			Says: "By engine: since when, and on which.",
			Queries: []Query{
				{Expr: quantile(0.99, "sglang_ranks_skew", "@engine", graph, "instance"), Legend: "{{instance}} P99", Exemplars: true},
				{Expr: quantile(0.5, "sglang_ranks_skew", "@engine", graph, "instance"), Legend: "{{instance}} P50"},
			},
		},
		{
			Title: "Silent ranks", Show: Stat, Unit: Count, W: 4, H: 7, Needs: []Need{OwnMetrics, Traces}, Limits: []Limit{{1, red}},
			Says:    "Ranks that send no spans while others of their engine do: the process is gone, or its exporter.",
			Queries: one("sum (otelcol_processor_rankdedup_silent_ranks{@own})", "silent"),
		},
		{
			Title: "Scheduler processes", Show: Table, Unit: Percent, W: 11, H: 7, Needs: []Need{Metrics, AllRanks},
			Says: "Of the last 5 minutes, the part in which each process prepared and launched batches, waited for results, and had no work. Processes of one DP group look alike; one that differs has its CPU to blame.",
			Queries: []Query{
				{Expr: busiest, Legend: "run batch", Unit: Percent},
				{Expr: `sum by (instance, dp_rank, tp_rank, pp_rank) (rate(sglang:scheduler_stage_seconds_total{@page,category="process_batch_result"}[5m]))`, Legend: "results", Unit: Percent},
				{Expr: `sum by (instance, dp_rank, tp_rank, pp_rank) (rate(sglang:scheduler_idle_seconds_total{@page}[5m]))`, Legend: "no work", Unit: Percent},
			},
		},
	}}
}

// skewOf is the largest DP rank's value over the mean of all.
func skewOf(perRank string) string {
	return "max by (instance) (" + perRank + ") / (avg by (instance) (" + perRank + ") > 0)"
}

func spread() Row {
	requests := `max by (instance, dp_rank) (increase(sglang:queue_time_seconds_count{@page,dp_rank!=""}[10m]))`
	tokens := `max by (instance, dp_rank) (sum by (instance, dp_rank, pp_rank) (increase(sglang:realtime_tokens_total{@page,dp_rank!="",mode=~"prefill_.+"}[10m])))`
	return Row{Title: "DP: routing or lengths?", Panels: []Panel{
		{
			Title: "DP verdict", Show: Stat, Unit: Count, W: 6, H: 7, Needs: []Need{Metrics, Replicas},
			Says:  "Of 10 minutes. routing: one rank began more than 1.5 times the mean rank's requests, so they are sent unevenly. lengths: requests are even (below 1.15), but one rank prefilled more than 1.3 times the mean rank's tokens: it gets the long prompts. even: neither. The alerts judge alike.",
			Empty: "fewer than 100 requests in 10 minutes",
			Queries: now(`(2 * (`+skewOf(requests)+` > bool `+uneven+`)
+ (`+skewOf(requests)+` < bool `+even+`) * (`+skewOf(tokens)+` > bool `+unevenLengths+`))
and on (instance) sum by (instance) (`+requests+`) > 100`, "{{instance}}"),
			Words: []Word{{"0", "even", "green"}, {"1", "lengths", yellow}, {"2", "routing", red}},
		},
		{
			Title: "DP queue spread", Unit: Count, W: 9, H: 7, Needs: []Need{Metrics, Replicas},
			Says: "Queued and running requests of the DP rank with most, less those of the one with fewest. Grows and stays: uneven.",
			Queries: []Query{
				{Expr: spreadOf("sglang:num_queue_reqs", `@page,priority="",dp_rank!=""`), Legend: "{{instance}} queued"},
				{Expr: spreadOf("sglang:num_running_reqs", `@page,priority="",dp_rank!=""`), Legend: "{{instance}} running"},
			},
		},
		{
			Title: "Most against mean", Unit: Times, W: 9, H: 7, Needs: []Need{Metrics, Replicas},
			Says: "The DP rank that began most requests, and the one that prefilled most tokens, over the mean of all, 10 minutes each. What the verdict judges.",
			Queries: []Query{
				{Expr: skewOf(requests), Legend: "{{instance}} requests"},
				{Expr: skewOf(tokens), Legend: "{{instance}} tokens"},
			},
		},
	}}
}

func spreadOf(metric, filter string) string {
	return "max by (job, instance) (" + perDP(metric, filter) + ")\n- min by (job, instance) (" + perDP(metric, filter) + ")"
}

func perRank() Row {
	legend := "{{instance}} DP {{dp_rank}}"
	return Row{Title: "By DP rank", Panels: []Panel{
		{
			Title: "Running requests", Unit: Count, W: 6, H: 7, Needs: []Need{Metrics},
			Says:    "In each DP rank's batch. Engines without DP have one line, without a rank.",
			Queries: one(perDP("sglang:num_running_reqs", `@page,priority=""`), legend),
		},
		{
			Title: "Queued requests", Unit: Count, W: 6, H: 7, Needs: []Need{Metrics},
			Says:    "Waiting at each DP rank.",
			Queries: one(perDP("sglang:num_queue_reqs", `@page,priority=""`), legend),
		},
		{
			Title: "KV memory in use", Unit: Percent, W: 6, H: 7, Needs: []Need{Metrics}, Max: 1,
			Says:    "Of each DP rank's pool.",
			Queries: one(kvUse(), legend),
		},
		{
			Title: "Generated tokens", Unit: TokensRate, W: 6, H: 7, Needs: []Need{Metrics},
			Says:    "By each DP rank.",
			Queries: one(`max by (job, instance, dp_rank) (rate(sglang:realtime_tokens_total{@page,mode="decode"}[$__rate_interval]))`, legend),
		},
	}}
}

func syncing() Row {
	legend := "{{instance}} DP {{dp_rank}}"
	share := func(metric, part, all string) string {
		return ratio(rate(metric, `@page,dp_rank!="",`+part, graph, "instance", "dp_rank"), rate(metric, `@page,dp_rank!=""`+all, graph, "instance", "dp_rank"))
	}
	return Row{Title: "DP attention and experts", Panels: []Panel{
		{
			Title: "Token slots lost to imbalance", Unit: Percent, W: 6, H: 7, Needs: []Need{Metrics, DPAttention}, Max: 1,
			Says:    "Each step takes as long as its busiest DP rank. The part of a rank's slots that stay empty because another one has more tokens.",
			Queries: one(share("sglang:dp_attention_tokens_total", `kind="imbalance"`, ""), legend),
		},
		{
			Title: "Steps without work", Unit: Percent, W: 6, H: 7, Needs: []Need{Metrics, DPAttention}, Max: 1,
			Says:    "Steps that a DP rank takes part in only because others have work. High on one rank alone: too few requests reach it.",
			Queries: one(share("sglang:dp_attention_steps_total", `rank_state="idle"`, ""), legend),
		},
		{
			Title: "Wait for the other ranks", Unit: Percent, W: 6, H: 7, Needs: []Need{Metrics, DPAttention},
			Says:    "Part of the time that a DP rank waits in the all-gather before a step. Low on one rank and high on the others: that one is late.",
			Queries: one(rate("sglang:dp_attention_sync_wait_seconds_sum", `@page,dp_rank!=""`, graph, "instance", "dp_rank"), legend),
		},
		{
			Title: "Experts' balance", Unit: Percent, W: 6, H: 7, Needs: []Need{Metrics, Balancer}, Max: 1,
			Says:    "Mean load of the GPUs' experts over that of the busiest GPU: 1 is even. Low together with long waits for other ranks: experts are why decode is slow.",
			Empty:   "the engine does not export expert balancedness",
			Queries: one(ratio(rate("sglang:eplb_balancedness_sum", "@page", graph, "instance", "forward_mode"), rate("sglang:eplb_balancedness_count", "@page", graph, "instance", "forward_mode")), "{{instance}} {{forward_mode}}"),
		},
		{
			Title: "DP ranks known to the collector", Show: Table, Unit: Count, W: 24, H: 5, Needs: []Need{OwnMetrics, Metrics, Traces},
			Says: "By its spans, its page, and its own settings. Fewer by spans: a rank's spans don't arrive, so its requests are missing. 0 by spans and 1 by page: no DP.",
			Queries: []Query{
				{Expr: `max by (engine, page) (otelcol_processor_genai_dp_ranks{@own,source="spans"})`, Legend: "by spans", Unit: Count},
				{Expr: `max by (engine, page) (otelcol_processor_genai_dp_ranks{@own,source="page"})`, Legend: "by page", Unit: Count},
				{Expr: `max by (engine, page) (otelcol_processor_genai_dp_ranks{@own,source="settings"})`, Legend: "by settings", Unit: Count},
			},
		},
	}}
}
