// Copyright The otelcol-sglang Authors
// SPDX-License-Identifier: Apache-2.0

// Package rules holds config/prometheus and docs/runbooks against simulated engines:
// each alert fires on its fault and on nothing else, each query gives something.
package rules // import "github.com/otelcol-sglang/otelcol-sglang/boards/rules"
