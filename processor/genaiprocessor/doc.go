// Copyright The otelcol-sglang Authors
// SPDX-License-Identifier: Apache-2.0

//go:generate go tool mdatagen metadata.yaml

// Package genaiprocessor completes the root span of each request with its
// latencies, stage by stage, folds decode steps, and joins the halves of
// disaggregated requests.
package genaiprocessor // import "github.com/otelcol-sglang/otelcol-sglang/processor/genaiprocessor"
