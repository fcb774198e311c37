// Copyright The otelcol-sglang Authors
// SPDX-License-Identifier: Apache-2.0

// Package page records what the engine's parts tell it as the metrics that SGLang
// has: each role's collector writes its own families, with the labels, the rank
// gates and the bucket bounds of the catalogue, and does not know where they go. A
// [Backend] takes the series: the [Store] behind the page at /metrics (which is
// sent as OTLP, too), or what a test records.
//
// Facts are those of SGLang 0.5.23 (srt/observability/metrics_collector.py).
package page // import "github.com/otelcol-sglang/otelcol-sglang/engine/page"
