// Copyright The otelcol-sglang Authors
// SPDX-License-Identifier: Apache-2.0

package dashboards // import "github.com/otelcol-sglang/otelcol-sglang/boards/dashboards"

import (
	"fmt"
	"strings"
)

// Windows of rates. Graphs take Grafana's; a single value is of the last minutes,
// whatever the board's time range.
const (
	graph  = "$__rate_interval"
	recent = "5m"
)

// The histograms of requests.
const (
	ttft     = "gen_ai_server_time_to_first_token"
	tpot     = "gen_ai_server_time_per_output_token"
	duration = "gen_ai_server_request_duration"
	stages   = "sglang_request_stage_duration"
)

// Stages before the first token, and those of them in which nothing is computed for
// the request.
const (
	toFirstToken = "tokenize|dispatch|intake|bootstrap|queue|prefill|kv_transfer|decode_wait"
	waiting      = "bootstrap|queue|decode_wait"
)

// quantile of a histogram: of summed buckets, never of other quantiles.
func quantile(q float64, metric, filter, window string, by ...string) string {
	return fmt.Sprintf("histogram_quantile(%g, sum by (%s) (rate(%s_bucket{%s}[%s])))",
		q, strings.Join(append([]string{"le"}, by...), ", "), metric, filter, window)
}

// mean of a histogram, weighted by what it counted.
func mean(metric, filter string) string {
	return ratio(rate(metric+"_sum", filter, graph), rate(metric+"_count", filter, graph))
}

// rate summed by labels.
func rate(metric, filter, window string, by ...string) string {
	return fmt.Sprintf("%s (rate(%s{%s}[%s]))", sum(by), metric, filter, window)
}

func sum(by []string) string {
	if len(by) == 0 {
		return "sum"
	}
	return "sum by (" + strings.Join(by, ", ") + ")"
}

// ratio of two sums by the same labels; nothing where there is nothing to divide by.
func ratio(a, b string) string { return a + "\n/\n(" + b + " > 0)" }

// perRequest is seconds in stages over requests: a stage that took no time is on no
// request, so a stage's own count would not do.
func perRequest(filter, window string) string {
	return fmt.Sprintf(`sum by (stage) (rate(%s_sum{@requests%s}[%s]))
/ on () group_left ()
(sum (rate(%s_count{@requests}[%s])) > 0)`, stages, filter, window, duration, window)
}

// usual is the median of a value over the last hours, which an incident of less than
// half of them doesn't move.
func usual(expr string) string { return "quantile_over_time(0.5, (" + expr + ")[6h:5m])" }

// overDP is a gauge of requests or tokens, added up over the DP ranks. PP stages have
// the same requests, so the largest counts.
func overDP(metric, filter string) string {
	return fmt.Sprintf("sum by (job, instance) (max by (job, instance, dp_rank) (%s{%s}))", metric, filter)
}

// perDP is a gauge by DP rank.
func perDP(metric, filter string) string {
	return fmt.Sprintf("max by (job, instance, dp_rank) (%s{%s})", metric, filter)
}

// kvUse is the part of a DP rank's KV pool that is neither free nor could be evicted:
// what token_usage says, not rounded, and memory that something else took with it.
func kvUse() string {
	return "1 - (" + perDP("sglang:kv_available_tokens", "@page") + " + " + perDP("sglang:kv_evictable_tokens", "@page") +
		")\n/ (" + perDP("sglang:max_total_num_tokens", "@page") + " > 0)"
}

// quantiles of a histogram as lines, and its mean.
func quantiles(metric, filter string) []Query {
	return []Query{
		{Expr: quantile(0.99, metric, filter, graph), Legend: "P99", Exemplars: true},
		{Expr: quantile(0.9, metric, filter, graph), Legend: "P90"},
		{Expr: quantile(0.5, metric, filter, graph), Legend: "P50"},
		{Expr: mean(metric, filter), Legend: "mean"},
	}
}

// parts are a counter's rates by a label, of their sum.
func parts(metric, filter, by string) string {
	return rate(metric, filter, graph, by) + "\n/ on () group_left ()\n(" + rate(metric, filter, graph) + " > 0)"
}

// heat is a histogram's buckets over time.
func heat(metric, filter string) []Query {
	return []Query{{
		Expr:      fmt.Sprintf("sum by (le) (increase(%s_bucket{%s}[%s]))", metric, filter, graph),
		Legend:    "{{le}}",
		Exemplars: true,
	}}
}

// now is a panel's only query, of which only the latest value counts.
func now(expr, legend string) []Query { return []Query{{Expr: expr, Legend: legend, Instant: true}} }

// one is a panel's only query.
func one(expr, legend string) []Query { return []Query{{Expr: expr, Legend: legend}} }
