// Copyright The otelcol-sglang Authors
// SPDX-License-Identifier: Apache-2.0

package dashboards // import "github.com/otelcol-sglang/otelcol-sglang/boards/dashboards"

func cache() *Board {
	return &Board{
		UID: "sglang-cache", Title: "SGLang / KV and cache",
		About: "Cache hits look good and TTFT doesn't fall: why? And is KV memory short?",
		Rows:  []Row{hits(), memory(), tiers()},
	}
}

func hits() Row {
	return Row{Title: "Does the cache save time?", Panels: []Panel{
		{
			Title: "Prompt tokens: computed or found", Show: Stack, Unit: TokensRate, W: 8, H: 9, Needs: []Need{Metrics},
			Says:    "Prompt tokens each second by where they came from: input was computed, the others were found in a tier's cache. Host and storage hits cost a transfer. What a retraction makes the engine compute again is not in it.",
			Queries: one(`sum by (mode) (max by (instance, dp_rank, mode) (rate(sglang:prefill_effective_tokens_total{@page}[$__rate_interval])))`, "{{mode}}"),
		},
		{
			Title: "Time to first token, and prefill in it", Unit: Seconds, W: 8, H: 9, Needs: []Need{Traces},
			Says: "Next to the tokens on the left. Hits are up and the mean prefill is not down: they come from slower tiers, or the long prompts miss (on the right).",
			Queries: []Query{
				{Expr: quantile(0.99, ttft, "@requests", graph), Legend: "TTFT P99", Exemplars: true},
				{Expr: mean(ttft, "@requests"), Legend: "TTFT mean"},
				{Expr: ratio(rate(stages+"_sum", `@requests,stage="prefill"`, graph), rate(duration+"_count", "@requests", graph)), Legend: "prefill mean"},
			},
		},
		{
			Title: "Uncached part of prompts", Unit: Tokens, W: 8, H: 9, Needs: []Need{Metrics},
			Says: "Tokens of a prompt that no cache had. A few long misses make the P99 of TTFT, whatever the mean hit rate is.",
			Queries: []Query{
				{Expr: quantile(0.99, "sglang:uncached_prompt_tokens_histogram", "@page", graph), Legend: "uncached P99"},
				{Expr: quantile(0.5, "sglang:uncached_prompt_tokens_histogram", "@page", graph), Legend: "uncached P50"},
				{Expr: quantile(0.99, "sglang:prompt_tokens_histogram", "@page", graph), Legend: "prompt P99"},
				{Expr: quantile(0.5, "sglang:prompt_tokens_histogram", "@page", graph), Legend: "prompt P50"},
			},
		},
		{
			Title: "Cached tokens by source", Show: Stack, Unit: Percent, W: 8, H: 8, Needs: []Need{Metrics}, Max: 1,
			Says:    "Of the cached tokens of finished requests, those from each tier. total: engines that don't split them. Moves from device to host or storage: the cache drifts away from the GPU.",
			Queries: one(parts("sglang:cached_tokens_total", "@page", "cache_source"), "{{cache_source}}"),
		},
		{
			Title: "Prompt tokens from a cache", Unit: Percent, W: 8, H: 8, Needs: []Need{Metrics}, Max: 1,
			Says:    "Of all prompt tokens, by engine, weighted by tokens.",
			Queries: one(ratio(rate("sglang:cached_tokens_total", "@page", graph, "instance"), rate("sglang:prompt_tokens_total", "@page", graph, "instance")), "{{instance}}"),
		},
		{
			Title: "Computed again", Unit: Seconds, W: 8, H: 8, Needs: []Need{Traces},
			Says:    "Mean seconds per request that retracted requests wait for memory again (retract_wait) and are prefilled again (reprefill). With a good hit rate: the hits are the engine's own evicted work.",
			Empty:   "no request was retracted since the engine's start",
			Queries: one(perRequest(`,stage=~"retract_wait|reprefill"`, graph), "{{stage}}"),
		},
	}}
}

func memory() Row {
	return Row{Title: "KV memory of the device", Panels: []Panel{
		{
			Title: "Tokens in the pool", Show: Stack, Unit: Tokens, W: 8, H: 8, Needs: []Need{Metrics},
			Says: "Of the chosen engines: held by running requests, cached and evictable, free. No free ones is normal: the cache takes what is there. No evictable ones either: requests wait.",
			Queries: []Query{
				{Expr: "sum (max by (instance, dp_rank, pp_rank) (sglang:kv_used_tokens{@page}))", Legend: "used"},
				{Expr: "sum (max by (instance, dp_rank, pp_rank) (sglang:kv_evictable_tokens{@page}))", Legend: "evictable"},
				{Expr: "sum (max by (instance, dp_rank, pp_rank) (sglang:kv_available_tokens{@page}))", Legend: "free"},
			},
		},
		{
			Title: "In use", Unit: Percent, W: 8, H: 8, Needs: []Need{Metrics}, Max: 1,
			Says: "By DP rank: what is neither free nor could be evicted, and what the engine says (token_usage, in whole percents). Apart: something else than running requests takes memory.",
			Queries: []Query{
				{Expr: kvUse(), Legend: "{{instance}} DP {{dp_rank}}"},
				{Expr: perDP("sglang:token_usage", "@page"), Legend: "{{instance}} DP {{dp_rank}}, by the engine"},
			},
		},
		{
			Title: "Retractions", Unit: Rate, W: 8, H: 8, Needs: []Need{Metrics},
			Says:    "Running requests that lost their KV memory, each second, by engine. Each TP rank reports it; the copies are folded.",
			Empty:   "no request was retracted since the engine's start",
			Queries: one(`sum by (instance) (max by (instance, dp_rank) (rate(sglang:num_retracted_requests_total{@page}[$__rate_interval])))`, "{{instance}}"),
		},
	}}
}

func tiers() Row {
	// These families have no model_name, and the ranks of a DP group.
	perGroup := func(metric, by string) string {
		return `sum by (instance` + by + `) (max by (instance, dp_rank` + by + `) (rate(` + metric + `{@engine}[$__rate_interval])))`
	}
	return Row{Title: "Tiers", Panels: []Panel{
		{
			Title: "Host tier in use", Unit: Percent, W: 6, H: 8, Needs: []Need{Metrics, HostCache}, Max: 1,
			Says:    "Of the host's pool. Full is normal; it then evicts.",
			Queries: one(ratio(perDP("sglang:hicache_host_used_tokens", "@page"), perDP("sglang:hicache_host_total_tokens", "@page")), "{{instance}} DP {{dp_rank}}"),
		},
		{
			Title: "Evicted from the device, loaded back", Unit: TokensRate, W: 6, H: 8, Needs: []Need{Metrics},
			Says:  "Tokens each second. Both high: the working set doesn't fit into the device's memory, and each hit costs a copy.",
			Empty: "nothing was evicted since the engine's start",
			Queries: []Query{
				{Expr: perGroup("sglang:evicted_tokens_total", ""), Legend: "{{instance}} evicted"},
				{Expr: perGroup("sglang:load_back_tokens_total", ""), Legend: "{{instance}} loaded back"},
			},
		},
		{
			Title: "What moving takes, P99", Unit: Seconds, W: 6, H: 8, Needs: []Need{Metrics, HostCache},
			Says:  "Time of a load from the host, of an eviction pass, and of a copy to the host.",
			Empty: "nothing was moved since the engine's start",
			Queries: []Query{
				{Expr: quantile(0.99, "sglang:load_back_duration_seconds", "@engine", graph), Legend: "load back"},
				{Expr: quantile(0.99, "sglang:eviction_duration_seconds", "@engine", graph), Legend: "evict"},
				{Expr: quantile(0.99, "sglang:hicache_backup_duration_seconds", "@engine", graph), Legend: "back up"},
			},
		},
		{
			Title: "Storage tier", Unit: TokensRate, W: 6, H: 8, Needs: []Need{Metrics, HostCache, Storage},
			Says:  "Tokens each second that are written to storage, prefetched from it, and that a prefetch did not bring, with the reason.",
			Empty: "nothing was written or prefetched since the engine's start",
			Queries: []Query{
				{Expr: perGroup("sglang:backuped_tokens_total", ""), Legend: "{{instance}} written"},
				{Expr: perGroup("sglang:prefetched_tokens_total", ""), Legend: "{{instance}} prefetched"},
				{Expr: `(` + perGroup("sglang:storage_prefetch_unfulfilled_tokens_total", ", reason") + `) > 0`, Legend: "{{instance}} not brought: {{reason}}"},
			},
		},
	}}
}
