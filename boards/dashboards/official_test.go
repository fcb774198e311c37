// Copyright The otelcol-sglang Authors
// SPDX-License-Identifier: Apache-2.0

package dashboards_test

import (
	"fmt"

	"github.com/otelcol-sglang/otelcol-sglang/boards/dashboards"
)

// official are the panels of SGLang's own board
// (examples/monitoring/grafana/dashboards/json/sglang-dashboard.json): names and
// functions must go on working behind the collector.
func official() []*dashboards.Panel {
	quantiles := func(title, metric string) *dashboards.Panel {
		p := &dashboards.Panel{Title: title}
		for _, q := range []float64{0.99, 0.9, 0.5} {
			p.Queries = append(p.Queries, dashboards.Query{
				Expr:   fmt.Sprintf("histogram_quantile(%g, sum by (le) (rate(%s_bucket[$__rate_interval])))", q, metric),
				Legend: fmt.Sprintf("P%g", q*100),
			})
		}
		p.Queries = append(p.Queries, dashboards.Query{
			Expr: fmt.Sprintf("avg(rate(%s_sum[$__rate_interval]) / rate(%s_count[$__rate_interval]))", metric, metric), Legend: "Avg",
		})
		return p
	}
	heat := func(title, metric string) *dashboards.Panel {
		return &dashboards.Panel{Title: title, Show: dashboards.Heat, Queries: []dashboards.Query{{
			Expr: fmt.Sprintf(`sum by (le) (increase(%s_bucket{model_name=~"$model_name"}[$__rate_interval]))`, metric), Legend: "{{le}}",
		}}}
	}
	gauge := func(title, metric string) *dashboards.Panel {
		return &dashboards.Panel{Title: title, Queries: []dashboards.Query{{Expr: metric, Legend: "{{instance}}"}}}
	}
	return []*dashboards.Panel{
		quantiles("End-to-End Request Latency", "sglang:e2e_request_latency_seconds"),
		heat("End-to-End Request Latency(s) Heatmap", "sglang:e2e_request_latency_seconds"),
		quantiles("Time-To-First-Token Latency", "sglang:time_to_first_token_seconds"),
		heat("Time-To-First-Token Seconds Heatmap", "sglang:time_to_first_token_seconds"),
		gauge("Num Running Requests", "sglang:num_running_reqs"),
		gauge("Token Generation Throughput (Tokens / S)", "sglang:gen_throughput"),
		gauge("Cache Hit Rate", "sglang:cache_hit_rate"),
		gauge("Number Queued Requests", "sglang:num_queue_reqs"),
	}
}
