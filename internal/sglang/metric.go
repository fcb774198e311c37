// Copyright The otelcol-sglang Authors
// SPDX-License-Identifier: Apache-2.0

package sglang // import "github.com/otelcol-sglang/otelcol-sglang/internal/sglang"

// Metrics that this distribution makes from request spans. Durations in seconds.
const (
	MetricRequestDuration = "gen_ai.server.request.duration"
	MetricTTFT            = "gen_ai.server.time_to_first_token"
	MetricTPOT            = "gen_ai.server.time_per_output_token"
	MetricStageDuration   = "sglang.request.stage.duration"
	MetricTokens          = "sglang.request.tokens"
	MetricRetractions     = "sglang.request.retractions"
	MetricSpanRanksSkew   = "sglang.ranks.skew"
)

// Attributes of their points, beside those of the request.
const (
	// AttrStage is a stage of the budget: AttrBudgetPrefix without the prefix.
	AttrStage = "stage"
	// AttrTokenType is one of TokenInput, TokenCached (part of the input), TokenOutput.
	AttrTokenType = "gen_ai.token.type"
	TokenInput    = "input"
	TokenCached   = "cached"
	TokenOutput   = "output"
	// AttrOverflow marks the series that takes what no series is left for.
	AttrOverflow = "otel.metric.overflow"
	// AttrCollectorID tells the series of several collectors apart.
	AttrCollectorID = "sglang.collector.id"
)

// AttrEncoder is true on the root of a multimodal encoder's work: it is a part of
// another root's request.
const AttrEncoder = "sglang.request.encoder"
