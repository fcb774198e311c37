// Copyright The otelcol-sglang Authors
// SPDX-License-Identifier: Apache-2.0

//go:build !unix

package trace

import "time"

func cpuTime() time.Duration { return 0 }
