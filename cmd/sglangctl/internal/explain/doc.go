// Copyright The otelcol-sglang Authors
// SPDX-License-Identifier: Apache-2.0

// Package explain says where a number comes from: for an attribute that the
// collector wrote on a request, the rule, the spans that went in and the value
// computed once more from them; for a folded series, the ranks' series on the
// engine's page and the catalogue's rule.
//
// It computes by itself, from what left the collector (and, if there is a file of
// it, from what came in), with none of the processors' code: where the two
// disagree, one of them is wrong, and it says so.
package explain // import "github.com/otelcol-sglang/otelcol-sglang/cmd/sglangctl/internal/explain"
