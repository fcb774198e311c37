// Copyright The otelcol-sglang Authors
// SPDX-License-Identifier: Apache-2.0

// Package dashboards is the source of config/grafana: what boards there are, which
// questions they ask Prometheus, and what an answer means. Grafana's JSON is made of
// it (make generate), and a test asks each question to a Prometheus that the simulator
// filled.
package dashboards // import "github.com/otelcol-sglang/otelcol-sglang/boards/dashboards"
