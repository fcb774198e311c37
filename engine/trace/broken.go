// Copyright The otelcol-sglang Authors
// SPDX-License-Identifier: Apache-2.0

package trace // import "github.com/otelcol-sglang/otelcol-sglang/engine/trace"

import (
	"context"

	"go.opentelemetry.io/collector/pdata/ptrace"
)

// broken stands for a connection that could not be made: all that is sent fails.
type broken struct{ err error }

func (b broken) Export(context.Context, ptrace.Traces) error { return b.err }

func (broken) Close() error { return nil }
