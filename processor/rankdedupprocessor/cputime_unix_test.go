// Copyright The otelcol-sglang Authors
// SPDX-License-Identifier: Apache-2.0

//go:build unix

package rankdedupprocessor

import (
	"syscall"
	"time"
)

// clock returns the CPU time that the process has used: unlike time on the wall it
// does not depend on what else runs.
func clock() time.Duration {
	var u syscall.Rusage
	if err := syscall.Getrusage(syscall.RUSAGE_SELF, &u); err != nil {
		panic(err)
	}
	return time.Duration(u.Utime.Nano() + u.Stime.Nano())
}
