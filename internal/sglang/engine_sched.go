// Copyright The otelcol-sglang Authors
// SPDX-License-Identifier: Apache-2.0

package sglang // import "github.com/otelcol-sglang/otelcol-sglang/internal/sglang"

// Values of LabelCategory on the families of forward execution: ForwardMode's
// names in small letters (the code of 0.5.23; not captured).
const (
	ForwardExtend = "extend"
)

// Values of LabelOutcome on the family of deferred KV releases.
const (
	ReleaseDrained = "drained"
	ReleaseTimeout = "timeout"
	ReleaseError   = "error"
)
