// Copyright The otelcol-sglang Authors
// SPDX-License-Identifier: Apache-2.0

//go:generate go tool mdatagen metadata.yaml

// Package genaimetricsconnector makes metrics with exemplars of the request
// spans that leave the genai processor.
package genaimetricsconnector // import "github.com/otelcol-sglang/otelcol-sglang/connector/genaimetricsconnector"
