// Copyright The otelcol-sglang Authors
// SPDX-License-Identifier: Apache-2.0

// Package identity learns which engine process a sender of spans is: its ranks,
// the engine it belongs to, and which rank of a group is the one whose copies
// are kept. It knows nothing of pdata or of single requests.
//
// One engine process has one exporter and so is one sender. A sender's ranks
// are known once one of its thread spans has been seen. There is no engine id in
// the engine's spans: senders that appear under one request root are one engine.
package identity // import "github.com/otelcol-sglang/otelcol-sglang/processor/rankdedupprocessor/internal/identity"
