// Copyright The otelcol-sglang Authors
// SPDX-License-Identifier: Apache-2.0

// Package spanshape reduces an engine's spans to what two runs of it have in
// common: names, attributes and their types, flags, status, nesting, what links
// point to, events; without ids, times and numbers. Captures of the real engine
// and exports of the simulated one are compared so.
package spanshape // import "github.com/otelcol-sglang/otelcol-sglang/engine/internal/spanshape"
