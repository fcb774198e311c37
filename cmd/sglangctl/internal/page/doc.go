// Copyright The otelcol-sglang Authors
// SPDX-License-Identifier: Apache-2.0

// Package page serves recorded metrics pages as an engine would, with counters
// that keep on moving by what was recorded.
package page // import "github.com/otelcol-sglang/otelcol-sglang/cmd/sglangctl/internal/page"
