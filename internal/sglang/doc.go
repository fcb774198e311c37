// Copyright The otelcol-sglang Authors
// SPDX-License-Identifier: Apache-2.0

// Package sglang holds the vocabulary of SGLang's own telemetry, once: the
// stages of a request, the names of spans and attributes, how to tell a
// request's root, thread and slice spans apart, the aliases of older releases,
// and the catalogue of the metric families on the engine's page. It is data and
// lookups; nothing here holds state or knows a pipeline.
//
// Facts are those of SGLang 0.5.23 (srt/observability) unless a comment names
// another release.
package sglang // import "github.com/otelcol-sglang/otelcol-sglang/internal/sglang"
