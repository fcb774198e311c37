// Copyright The otelcol-sglang Authors
// SPDX-License-Identifier: Apache-2.0

// Package request finds requests in a sink and prints them for people.
package request // import "github.com/otelcol-sglang/otelcol-sglang/cmd/sglangctl/internal/request"
