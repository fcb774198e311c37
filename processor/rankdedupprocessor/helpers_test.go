// Copyright The otelcol-sglang Authors
// SPDX-License-Identifier: Apache-2.0

package rankdedupprocessor

import "github.com/otelcol-sglang/otelcol-sglang/processor/rankdedupprocessor/internal/fold"

func heldSpans(s fold.Stats) int64 { return s.Held }
