// Copyright The otelcol-sglang Authors
// SPDX-License-Identifier: Apache-2.0

//go:build !linux

package rankdedupprocessor

import "time"

var began = time.Now()

// clock returns the time that has passed.
func clock() time.Duration { return time.Since(began) }
