// Copyright The otelcol-sglang Authors
// SPDX-License-Identifier: Apache-2.0

// Package up runs programs as children: it checks that the ports are free, starts a
// child, waits until it is healthy, notices its death and ends it.
package up // import "github.com/otelcol-sglang/otelcol-sglang/cmd/sglangctl/internal/up"
