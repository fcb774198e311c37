// Copyright The otelcol-sglang Authors
// SPDX-License-Identifier: Apache-2.0

package process

import (
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

func TestCPUOf(t *testing.T) {
	got, err := cpuOf("18630 (a) b (c) R 18627 18627 14893 0 -1 4194304 98 0 0 0 123 45 7 8 20 0 1")
	require.NoError(t, err)
	assert.Equal(t, 1680*time.Millisecond, got)
	for _, stat := range []string{"", "1 (x) R 1 2 3", "1 (x) R 0 0 0 0 0 0 0 0 0 0 many 1", "1 (x) R 0 0 0 0 0 0 0 0 0 0 1 many"} {
		_, err := cpuOf(stat)
		assert.Error(t, err, "%q", stat)
	}
}

func TestPeakOf(t *testing.T) {
	got, err := peakOf("Name:\tx\nVmPeak:\t  9 kB\nVmHWM:\t    2028 kB\nVmRSS:\t 1 kB\n")
	require.NoError(t, err)
	assert.EqualValues(t, 2028<<10, got)
	for _, status := range []string{"", "VmHWM:\t x kB\n"} {
		_, err := peakOf(status)
		assert.Error(t, err, "%q", status)
	}
}

func TestFreePorts(t *testing.T) {
	ports, err := freePorts(4)
	require.NoError(t, err)
	seen := map[int]bool{}
	for _, p := range ports {
		assert.Positive(t, p)
		seen[p] = true
	}
	assert.Len(t, seen, 4)
}
