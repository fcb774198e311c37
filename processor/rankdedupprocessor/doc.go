// Copyright The otelcol-sglang Authors
// SPDX-License-Identifier: Apache-2.0

//go:generate go tool mdatagen metadata.yaml

// Package rankdedupprocessor makes one logical span and one logical series out
// of the copies that every rank of an SGLang engine reports.
package rankdedupprocessor // import "github.com/otelcol-sglang/otelcol-sglang/processor/rankdedupprocessor"
