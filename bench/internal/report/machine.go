// Copyright The otelcol-sglang Authors
// SPDX-License-Identifier: Apache-2.0

package report // import "github.com/otelcol-sglang/otelcol-sglang/bench/internal/report"

import (
	"fmt"
	"os"
	"runtime"
	"strings"
)

// Machine describes where it was measured.
func Machine() string {
	return fmt.Sprintf("Machine: %s, %d cores, %s of memory, Linux %s, %s.\n",
		field("/proc/cpuinfo", "model name"), runtime.NumCPU(), field("/proc/meminfo", "MemTotal"),
		first("/proc/sys/kernel/osrelease"), runtime.Version())
}

// field is the value of the first line "name: value" of a file.
func field(file, name string) string {
	raw, err := os.ReadFile(file)
	if err != nil {
		return "unknown"
	}
	for line := range strings.Lines(string(raw)) {
		if key, value, ok := strings.Cut(line, ":"); ok && strings.TrimSpace(key) == name {
			return strings.TrimSpace(value)
		}
	}
	return "unknown"
}

// first is the first word of a file.
func first(file string) string {
	raw, err := os.ReadFile(file)
	if words := strings.Fields(string(raw)); err == nil && len(words) > 0 {
		return words[0]
	}
	return "unknown"
}

// LoadAverage is that of the last minute.
func LoadAverage() string { return first("/proc/loadavg") }
