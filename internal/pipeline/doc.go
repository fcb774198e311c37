// Copyright The otelcol-sglang Authors
// SPDX-License-Identifier: Apache-2.0

// Package pipeline holds no code: its tests run the components together, as the
// configurations in config/ do, since components never import each other.
package pipeline // import "github.com/otelcol-sglang/otelcol-sglang/internal/pipeline"
