// Copyright The otelcol-sglang Authors
// SPDX-License-Identifier: Apache-2.0

//go:build !unix

package cputime // import "github.com/otelcol-sglang/otelcol-sglang/engine/internal/cputime"

import "time"

// Used is not known here.
func Used() time.Duration { return 0 }
