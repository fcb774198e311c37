// Copyright The otelcol-sglang Authors
// SPDX-License-Identifier: Apache-2.0

// Package e2e starts the built collector with the configurations of config/ and
// real parts around it: OpenTelemetry SDKs in engine processes, a tracing
// backend, a Prometheus server.
package e2e // import "github.com/otelcol-sglang/otelcol-sglang/test"
