// Copyright The otelcol-sglang Authors
// SPDX-License-Identifier: Apache-2.0

package replay

import (
	"testing"
	"time"

	"github.com/stretchr/testify/assert"

	"github.com/otelcol-sglang/otelcol-sglang/internal/capture"
)

func at(offsets ...time.Duration) []capture.Export {
	exports := make([]capture.Export, len(offsets))
	for i, d := range offsets {
		exports[i].At = time.Unix(1000, 0).Add(d)
	}
	return exports
}

func TestSchedule(t *testing.T) {
	recorded := at(0, time.Second, time.Second, 11*time.Second)
	for _, tc := range []struct {
		name   string
		speed  float64
		maxGap time.Duration
		want   []time.Duration
	}{
		{"real time", 1, time.Hour, []time.Duration{0, time.Second, time.Second, 11 * time.Second}},
		{"twice as fast", 2, time.Hour, []time.Duration{0, time.Second / 2, time.Second / 2, 11 * time.Second / 2}},
		{"long pause cut", 1, 2 * time.Second, []time.Duration{0, time.Second, time.Second, 3 * time.Second}},
	} {
		t.Run(tc.name, func(t *testing.T) {
			assert.Equal(t, tc.want, schedule(recorded, tc.speed, tc.maxGap))
		})
	}
}

func TestShiftPutsNothingIntoTheFuture(t *testing.T) {
	recorded := at(0, time.Second, 11*time.Second)
	start := time.Unix(5000, 0)
	for _, speed := range []float64{0.5, 1, 3, 1000} {
		e := &engine{exports: recorded, due: schedule(recorded, speed, 2*time.Second)}
		shift, touched := e.shift(start), false
		for i, x := range recorded {
			late := start.Add(e.due[i]).Sub(x.At.Add(shift))
			assert.GreaterOrEqual(t, late, time.Duration(0))
			touched = touched || late == 0
		}
		assert.True(t, touched, "times are as late as they may be")
	}
}

func TestStartOf(t *testing.T) {
	assert.Zero(t, startOf(5, 0))
	assert.Equal(t, 2500*time.Millisecond, startOf(5, 2))
	assert.Equal(t, 1, overlap(0))
	assert.Equal(t, maxOverlap, overlap(1))
}
