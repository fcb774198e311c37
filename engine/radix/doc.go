// Copyright The otelcol-sglang Authors
// SPDX-License-Identifier: Apache-2.0

// Package radix is the prefix cache: a tree whose edges are runs of token ids in
// whole pages and whose nodes own the KV of their run, on the device, on the host,
// or on both. Requests lock the path to their node; what nobody locks is evicted,
// least recently used first, leaves before their parents.
//
// A node has up to three parts: KV of the full-attention layers, KV of the layers
// with a sliding window, and one state of the Mamba layers at the node's end. A
// prefix can be used if the first is there from the root on, the second for the
// last window of tokens, and the third at its end.
package radix // import "github.com/otelcol-sglang/otelcol-sglang/engine/radix"
