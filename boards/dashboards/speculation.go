// Copyright The otelcol-sglang Authors
// SPDX-License-Identifier: Apache-2.0

package dashboards // import "github.com/otelcol-sglang/otelcol-sglang/boards/dashboards"

func speculation() *Board {
	// 0 stands for no speculation, so it is left out.
	accepted := `avg by (instance) (sglang:spec_accept_length{@page} > 0)`
	return &Board{
		UID: "sglang-speculation", Title: "SGLang / Speculation",
		About: "Are drafts worth it: did decode get slower because they are accepted less often?",
		Rows: []Row{
			{Title: "Do drafts help?", Panels: []Panel{
				{
					Title: "Tokens per verify step", Unit: Count, W: 8, H: 9, Needs: []Need{Metrics, Speculative},
					Says: "Tokens that a verify step yields, the bonus token included: 1 is no gain. steps: what the last window of decode says, averaged over DP ranks. finished: over finished requests, exact, later.",
					Queries: []Query{
						{Expr: accepted, Legend: "{{instance}} steps"},
						{Expr: ratio(rate("sglang:generation_tokens_total", "@page", graph, "instance"), rate("sglang:spec_verify_calls_total", "@page", graph, "instance")), Legend: "{{instance}} finished"},
					},
				},
				{
					Title: "Accepted draft tokens", Unit: Percent, W: 8, H: 9, Needs: []Need{Metrics, Speculative}, Max: 1,
					Says:    "Of those proposed. Falls while the traffic's kind is the same: the draft model no longer fits the model.",
					Queries: one(`avg by (instance) (sglang:spec_accept_rate{@page} and sglang:spec_num_draft_tokens > 0)`, "{{instance}}"),
				},
				{
					Title: "Time per output token", Unit: Seconds, W: 8, H: 9, Needs: []Need{Traces},
					Says: "By engine. Up while tokens per verify step fall: the drafts. Up at the same tokens per step: the step itself, below.",
					Queries: []Query{
						{Expr: quantile(0.99, tpot, "@requests", graph, "instance"), Legend: "{{instance}} P99", Exemplars: true},
						{Expr: quantile(0.5, tpot, "@requests", graph, "instance"), Legend: "{{instance}} P50"},
					},
				},
			}},
			{Title: "Steps", Panels: []Panel{
				{
					Title: "Verify steps of finished requests", Unit: Rate, W: 8, H: 8, Needs: []Need{Metrics, Speculative},
					Says:    "Each second, by engine, summed over their requests.",
					Queries: one(rate("sglang:spec_verify_calls_total", "@page", graph, "instance"), "{{instance}}"),
				},
				{
					Title: "Draft settings in force", Unit: Count, W: 8, H: 8, Needs: []Need{Metrics, Speculative},
					Says: "Draft steps, and draft tokens verified in a step. An adaptive engine changes them.",
					Queries: []Query{
						{Expr: `max by (instance) (sglang:spec_num_steps{@page} > 0)`, Legend: "{{instance}} steps"},
						{Expr: `max by (instance) (sglang:spec_num_draft_tokens{@page} > 0)`, Legend: "{{instance}} draft tokens"},
					},
				},
				{
					Title: "Generated tokens", Unit: TokensRate, W: 8, H: 8, Needs: []Need{Metrics},
					Says:    "Of engines with and without speculation; compare at equal running requests.",
					Queries: one(rate("sglang:realtime_tokens_total", `@page,mode="decode"`, graph, "instance"), "{{instance}}"),
				},
			}},
			decodeBudget("The step itself"),
		},
	}
}
