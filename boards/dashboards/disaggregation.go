// Copyright The otelcol-sglang Authors
// SPDX-License-Identifier: Apache-2.0

package dashboards // import "github.com/otelcol-sglang/otelcol-sglang/boards/dashboards"

func disaggregation() *Board {
	return &Board{
		UID: "sglang-pd", Title: "SGLang / Prefill and decode engines", Own: true,
		About: "Which hop of a disaggregated request takes the time? One budget over both engines, then each hop's own numbers.",
		Rows:  []Row{hops(), transfer(), sides()},
	}
}

func hops() Row {
	joined := `,sglang_pd_role="decode"`
	return Row{Title: "Which hop?", Panels: []Panel{
		{
			Title: "TTFT budget of a pair", Show: Stack, Unit: Seconds, W: 9, H: 9, Needs: []Need{Traces, Pair},
			Says: "Mean seconds of a request up to its first token at the decode engine: bootstrap (the engines find each other, and what a router lets pass between them), queue and prefill at the prefill engine, kv_transfer, decode_wait (its turn at the decode engine).",
			Queries: one(`sum by (stage) (rate(`+stages+`_sum{@requests,stage=~"`+toFirstToken+`"`+joined+`}[$__rate_interval]))
/ on () group_left ()
(sum (rate(`+stages+`_count{@requests,stage="decode"`+joined+`}[$__rate_interval])) > 0)`, "{{stage}}"),
		},
		{
			Title: "P99 of each hop", Unit: Seconds, W: 9, H: 9, Needs: []Need{Traces, Pair},
			Says:    "What 99 % of the requests stayed below in each stage. These don't add up.",
			Queries: one(quantile(0.99, stages, `@requests,stage=~"bootstrap|queue|prefill|kv_transfer|decode_wait"`+joined, graph, "stage"), "{{stage}}"),
		},
		{
			Title: "Halves that found each other", Unit: PerSecond, W: 6, H: 9, Needs: []Need{OwnMetrics, Traces, Pair},
			Says:    "Halves of requests each second: joined, unjoined (the other half did not come within pd_wait, or passes another gateway), not joinable. Only of joined ones is the budget whole.",
			Queries: one(rate("otelcol_processor_genai_pd_halves", "@own", graph, "outcome"), "{{outcome}}"),
		},
	}}
}

func transfer() Row {
	pd := func(metric string) []Query {
		return []Query{
			{Expr: quantile(0.99, metric, "@page", graph, "instance"), Legend: "{{instance}} P99"},
			{Expr: quantile(0.5, metric, "@page", graph, "instance"), Legend: "{{instance}} P50"},
		}
	}
	return Row{Title: "KV transfer", Panels: []Panel{
		{
			Title: "Time of a transfer", Unit: Millis, W: 6, H: 8, Needs: []Need{Metrics, PrefillSide},
			Says:    "Of a request's KV cache, at the prefill engine. Longer: more bytes, or less speed; both on the right.",
			Queries: pd("sglang:kv_transfer_latency_ms"),
		},
		{
			Title: "Speed, slowest 1 % and median", Unit: GiBRate, W: 6, H: 8, Needs: []Need{Metrics, PrefillSide},
			Says: "Of each rank's shard. Down on one TP rank: its link or NIC; down on all: the network, or too many transfers at once.",
			Queries: []Query{
				{Expr: quantile(0.01, "sglang:kv_transfer_speed_gb_s", "@page", graph, "instance", "tp_rank"), Legend: "{{instance}} TP {{tp_rank}} P1"},
				{Expr: quantile(0.5, "sglang:kv_transfer_speed_gb_s", "@page", graph, "instance", "tp_rank"), Legend: "{{instance}} TP {{tp_rank}} P50"},
			},
		},
		{
			Title: "Size of a rank's shard", Unit: MiB, W: 6, H: 8, Needs: []Need{Metrics, PrefillSide},
			Says:    "Moved per request. Longer prompts, larger shards.",
			Queries: pd("sglang:kv_transfer_total_mb"),
		},
		{
			Title: "Before the transfer", Unit: Millis, W: 6, H: 8, Needs: []Need{Metrics, Pair},
			Says: "P99 of the handshake and, after it, of the wait for KV memory. Long alloc at the decode engine: its memory is short.",
			Queries: []Query{
				{Expr: quantile(0.99, "sglang:kv_transfer_bootstrap_ms", "@page", graph, "instance"), Legend: "{{instance}} bootstrap"},
				{Expr: quantile(0.99, "sglang:kv_transfer_alloc_ms", "@page", graph, "instance"), Legend: "{{instance}} alloc"},
			},
		},
	}}
}

func sides() Row {
	return Row{Title: "Queues of the hops", Panels: []Panel{
		{
			Title: "Prefill engines", Unit: Count, W: 8, H: 8, Needs: []Need{Metrics, PrefillSide},
			Says: "Requests that wait for the handshake, for prefill, and whose transfer is under way.",
			Queries: []Query{
				{Expr: overDP("sglang:num_prefill_bootstrap_queue_reqs", `@page,engine_type="prefill"`), Legend: "{{instance}} bootstrap"},
				{Expr: overDP("sglang:num_queue_reqs", `@page,priority="",engine_type="prefill"`), Legend: "{{instance}} queue"},
				{Expr: overDP("sglang:num_prefill_inflight_queue_reqs", `@page,engine_type="prefill"`), Legend: "{{instance}} transfer"},
			},
		},
		{
			Title: "Decode engines", Unit: Count, W: 8, H: 8, Needs: []Need{Metrics, Pair},
			Says: "Requests that wait for memory and handshake, for the transfer, for their turn; and running ones.",
			Queries: []Query{
				{Expr: overDP("sglang:num_decode_prealloc_queue_reqs", `@page,engine_type="decode"`), Legend: "{{instance}} memory"},
				{Expr: overDP("sglang:num_decode_transfer_queue_reqs", `@page,engine_type="decode"`), Legend: "{{instance}} transfer"},
				{Expr: overDP("sglang:num_queue_reqs", `@page,priority="",engine_type="decode"`), Legend: "{{instance}} queue"},
				{Expr: overDP("sglang:num_running_reqs", `@page,priority="",engine_type="decode"`), Legend: "{{instance}} running"},
			},
		},
		{
			Title: "Failed handshakes and transfers", Unit: Rate, W: 8, H: 8, Needs: []Need{Metrics, Pair},
			Says:  "Each second. The ranks of an engine count their own; the largest counts.",
			Empty: "no handshake or transfer has failed",
			Queries: []Query{
				{Expr: `sum by (instance) (max by (instance, dp_rank) (rate(sglang:num_bootstrap_failed_reqs_total{@page}[$__rate_interval])))`, Legend: "{{instance}} bootstrap"},
				{Expr: `sum by (instance) (max by (instance, dp_rank) (rate(sglang:num_transfer_failed_reqs_total{@page}[$__rate_interval])))`, Legend: "{{instance}} transfer"},
			},
		},
	}}
}
