// Copyright The otelcol-sglang Authors
// SPDX-License-Identifier: Apache-2.0

//go:build unix

// Package cputime is for benchmarks on machines that others use too.
package cputime // import "github.com/otelcol-sglang/otelcol-sglang/engine/internal/cputime"

import (
	"syscall"
	"time"
)

// Used is what this process has used; 0 where that is not known.
func Used() time.Duration {
	var u syscall.Rusage
	if syscall.Getrusage(syscall.RUSAGE_SELF, &u) != nil {
		return 0
	}
	return time.Duration(u.Utime.Nano() + u.Stime.Nano())
}
