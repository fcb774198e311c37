// Copyright The otelcol-sglang Authors
// SPDX-License-Identifier: Apache-2.0

// Package cases holds no code: README.md lists the public reports that this
// distribution was built against and the test of each, and the test here checks
// that they exist.
package cases // import "github.com/otelcol-sglang/otelcol-sglang/internal/cases"
