// Copyright The otelcol-sglang Authors
// SPDX-License-Identifier: Apache-2.0

// Package metricfold applies package series to pdata: it reads the points of each
// resource, and writes what the folding decided back in place.
package metricfold // import "github.com/otelcol-sglang/otelcol-sglang/processor/rankdedupprocessor/internal/metricfold"
