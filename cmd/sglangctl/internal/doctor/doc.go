// Copyright The otelcol-sglang Authors
// SPDX-License-Identifier: Apache-2.0

// Package doctor checks a running set-up: engines, collectors and what flows
// between them. First it looks ([Look]), which is all that touches the network;
// then checks judge what was seen ([Examine]). A check that lacks the evidence
// says "unknown", and why.
package doctor // import "github.com/otelcol-sglang/otelcol-sglang/cmd/sglangctl/internal/doctor"
