// Copyright The otelcol-sglang Authors
// SPDX-License-Identifier: Apache-2.0

// Package trace records requests as the spans that SGLang 0.5.23 exports. Every
// process of the engine (front end, DP controller, each scheduler rank, encoder)
// is an exporter of its own: resource, connection, batches, and a queue that drops
// its oldest spans when full, as OpenTelemetry's Python SDK does.
//
// Sources of what is told here about the engine: srt/observability/{trace,
// req_time_stats,mooncake_trace}.py and the captures in testdata/captures/traces.
package trace // import "github.com/otelcol-sglang/otelcol-sglang/engine/trace"
