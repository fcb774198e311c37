// Copyright The otelcol-sglang Authors
// SPDX-License-Identifier: Apache-2.0

package dashboards // import "github.com/otelcol-sglang/otelcol-sglang/boards/dashboards"

import "fmt"

func latency() *Board {
	return &Board{
		UID: "sglang-latency", Title: "SGLang / Request latency budget",
		About: "Where the time of a request goes. The stages don't overlap and add up to its duration.",
		Rows:  []Row{budget(), changed(), distributions(), decodeBudget("Decode, per token"), comparisons()},
	}
}

func budget() Row {
	return Row{Title: "Where the time goes", Panels: []Panel{
		{
			Title: "TTFT budget", Show: Stack, Unit: Seconds, W: 8, H: 9, Needs: []Need{Traces, DispatchLvl},
			Says: "Mean seconds of a request in each stage up to its first token: tokenize, dispatch, intake, queue, prefill; of a prefill/decode pair also bootstrap, kv_transfer and decode_wait. The line is the mean time to first token: what it is above the stack, the first output took on its way to the user; aborted requests are in the stack and not in the line.",
			Queries: []Query{
				{Expr: perRequest(`,stage=~"`+toFirstToken+`"`, graph), Legend: "{{stage}}"},
				{Expr: mean(ttft, "@requests"), Legend: "mean TTFT", Line: true},
			},
		},
		{
			Title: "End-to-end budget", Show: Stack, Unit: Seconds, W: 8, H: 9, Needs: []Need{Traces, DispatchLvl},
			Says:    "Mean seconds of a request in each stage; the stack's height is the mean duration. unattributed: no span covers it, as at trace levels that lack some.",
			Queries: one(perRequest("", graph), "{{stage}}"),
		},
		{
			Title: "End-to-end budget, parts", Show: Stack, Unit: Percent, W: 8, H: 9, Max: 1, Needs: []Need{Traces, DispatchLvl},
			Says:    "The same as parts of the whole.",
			Queries: one(parts(stages+"_sum", "@requests", "stage"), "{{stage}}"),
		},
	}}
}

func changed() Row {
	latest := perRequest("", recent)
	return Row{Title: "What changed", Panels: []Panel{
		{
			Title: "Stages against usual", Show: Table, SortBy: "difference", Unit: Seconds, W: 12, H: 9, Needs: []Need{Traces},
			Says: "Mean seconds per request in the last 5 minutes, the median of the last 6 hours, and the difference: the stage with the largest one is what changed.",
			Queries: []Query{
				{Expr: latest, Legend: "last 5 min", Unit: Seconds},
				{Expr: usual(latest), Legend: "usual", Unit: Seconds},
				{Expr: "(" + latest + ")\n- " + usual(latest), Legend: "difference", Unit: Seconds},
			},
		},
		{
			Title: "P99 of each stage", Unit: Seconds, W: 12, H: 9, Needs: []Need{Traces},
			Says:    "What 99 % of the requests that were in a stage stayed below. These don't add up: the slowest of one stage are not those of another.",
			Queries: one(quantile(0.99, stages, "@requests", graph, "stage"), "{{stage}}"),
		},
	}}
}

func distributions() Row {
	return Row{Title: "Distributions", Panels: []Panel{
		{
			Title: "Time to first token", Show: Heat, Unit: Seconds, W: 8, H: 8, Needs: []Need{Traces},
			Says:    "Requests by time to first token. Two bands: two kinds of requests, as long and short prompts, or cache hits and misses. Dots lead to traces.",
			Queries: heat(ttft, "@requests"),
		},
		{
			Title: "Time per output token", Show: Heat, Unit: Seconds, W: 8, H: 8, Needs: []Need{Traces},
			Says:    "Requests by time per output token. All in the lowest row: the engine is faster than the first bucket, set buckets in the genaimetrics connector.",
			Queries: heat(tpot, "@requests"),
		},
		{
			Title: "End to end", Show: Heat, Unit: Seconds, W: 8, H: 8, Needs: []Need{Traces},
			Says:    "Requests by duration.",
			Queries: heat(duration, "@requests"),
		},
	}}
}

// decodeBudget asks where the time of an output token goes. Seconds of the busiest
// rank over tokens of all DP ranks.
func decodeBudget(title string) Row {
	tokens := `(sum by (instance) (max by (instance, dp_rank) (rate(sglang:realtime_tokens_total{@page,mode="decode"}[$__rate_interval]))) > 0)`
	return Row{Title: title, Panels: []Panel{
		{
			Title: "Decode budget per token", Unit: Seconds, W: 12, H: 8, Needs: []Need{Metrics, DeviceTimer},
			Says: "Seconds for each generated token of the engine: the GPU's decode steps (with speculation, the draft and verify passes by name), the scheduler's loop on the CPU where no forward pass hides it, and the wait for other DP ranks. The one that grew is the cause; GPU grew with a longer batch too (Running requests).",
			Queries: []Query{
				{Expr: `sum by (instance, category) (max by (instance, dp_rank, category) (rate(sglang:forward_execution_seconds_total{@page,category!~"extend|prefill.*"}[$__rate_interval])))
/ on (instance) group_left () ` + tokens, Legend: "{{instance}} GPU {{category}}"},
				{Expr: `sum by (instance) (max by (instance, dp_rank) (sum by (instance, dp_rank, tp_rank) (rate(sglang:scheduler_stage_seconds_total{@page,forward_overlap="none",category!="idle"}[$__rate_interval]))))
/ on (instance) ` + tokens, Legend: "{{instance}} scheduler, not overlapped"},
				{Expr: `sum by (instance) (max by (instance, dp_rank) (rate(sglang:dp_attention_sync_wait_seconds_sum{@page}[$__rate_interval])))
/ on (instance) ` + tokens, Legend: "{{instance}} wait for DP ranks"},
			},
		},
		{
			Title: "Scheduler's time by stage", Show: Stack, Unit: Percent, W: 6, H: 8, Max: 1, Needs: []Need{Metrics},
			Says:    "Seconds per second of the busiest scheduler process of the chosen instances, by stage of its loop. process_batch_result that overlaps a forward pass is waiting for the GPU: that is good. Much of get_next_batch_to_run, recv_requests or process_input_requests: the CPU holds the GPU up.",
			Queries: one(`max by (category) (sum by (instance, dp_rank, tp_rank, pp_rank, category) (rate(sglang:scheduler_stage_seconds_total{@page}[$__rate_interval])))`, "{{category}}"),
		},
		{
			Title: "GPU busy", Unit: Percent, W: 6, H: 8, Needs: []Need{Metrics, DeviceTimer}, Max: 1,
			Says:    "GPU time of forward passes over wall time, of the busiest DP rank. Low while requests run: the scheduler or a slow rank holds it up.",
			Queries: one(`clamp_max(max by (instance) (sum by (instance, dp_rank, pp_rank) (rate(sglang:forward_execution_seconds_total{@page}[$__rate_interval]))), 1)`, "{{instance}}"),
		},
	}}
}

func comparisons() Row {
	// Pages and spans of one engine share a target_info, and only the pages' has the
	// version: the exporter shows now the one, now the other.
	versions := ` * on (job, instance) group_left (sglang_version) topk by (job, instance) (1, max by (job, instance, sglang_version) (last_over_time(target_info{sglang_version!=""}[5m])))`
	return Row{Title: "Engine, gateway, version", Panels: []Panel{
		{
			Title: "Mean TTFT by who measures", Unit: Seconds, W: 8, H: 8, Needs: []Need{Metrics, Traces},
			Says: "page: the engine's histogram. spans: after judgement. scheduler: the stages up to the first token at the scheduler. spans above scheduler: the front end is late. A gateway or client that sees more than spans: it is between it and the engine.",
			Queries: []Query{
				{Expr: mean("sglang:time_to_first_token_seconds", "@page"), Legend: "page"},
				{Expr: mean(ttft, "@requests"), Legend: "spans"},
				{Expr: ratio(rate(stages+"_sum", `@requests,stage=~"`+toFirstToken+`"`, graph), rate(duration+"_count", "@requests", graph)), Legend: "scheduler"},
			},
		},
		{
			Title: "TTFT P99 by engine version", Unit: Seconds, W: 8, H: 8, Needs: []Need{Metrics, Traces, EngineInfo},
			Says:    "Before and after an upgrade, or two versions side by side. See how many requests each stands for, on the right.",
			Empty:   "pages don't say the engine's version, or spans and pages don't share an instance",
			Queries: one(fmt.Sprintf("histogram_quantile(0.99, sum by (le, sglang_version) (rate(%s_bucket{@requests}[$__rate_interval])%s))", ttft, versions), "{{sglang_version}}"),
		},
		{
			Title: "Requests by engine version", Show: Stack, Unit: PerSecond, W: 8, H: 8, Needs: []Need{Metrics, Traces, EngineInfo},
			Says:    "Finished requests of each version: a P99 of few requests says little.",
			Empty:   "pages don't say the engine's version, or spans and pages don't share an instance",
			Queries: one(fmt.Sprintf("sum by (sglang_version) (rate(%s_count{@requests}[$__rate_interval])%s)", duration, versions), "{{sglang_version}}"),
		},
	}}
}
