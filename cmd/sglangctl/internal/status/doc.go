// Copyright The otelcol-sglang Authors
// SPDX-License-Identifier: Apache-2.0

// Package status reads the collector's own telemetry and says in a few lines
// what came in, what went out and what is wrong.
package status // import "github.com/otelcol-sglang/otelcol-sglang/cmd/sglangctl/internal/status"
