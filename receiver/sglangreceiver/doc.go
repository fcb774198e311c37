// Copyright The otelcol-sglang Authors
// SPDX-License-Identifier: Apache-2.0

//go:generate go tool mdatagen metadata.yaml

// Package sglangreceiver takes in what an SGLang engine says about itself:
// spans, metrics and logs that its processes push over OTLP, and the metrics
// pages that it scrapes from any number of engines.
package sglangreceiver // import "github.com/otelcol-sglang/otelcol-sglang/receiver/sglangreceiver"
