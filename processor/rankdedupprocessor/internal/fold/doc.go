// Copyright The otelcol-sglang Authors
// SPDX-License-Identifier: Apache-2.0

// Package fold decides, span by span, which of the ranks' copies of a logical
// span leaves and what becomes of the others. It sees plain structs, never
// pdata, and never waits: time is handed in.
//
// A trace holds logical threads (one per request, data-parallel rank and
// pipeline stage), these hold nodes (slices that others may name as parent or
// link target), and nodes hold slots (leaves: decode steps, prefill chunks). A
// node, thread or slot leaves once. Every rank knows a node by an id of its own;
// the first id that a released span names is the node's public id, and whatever
// is released later takes or names that one.
package fold // import "github.com/otelcol-sglang/otelcol-sglang/processor/rankdedupprocessor/internal/fold"
