// Copyright The otelcol-sglang Authors
// SPDX-License-Identifier: Apache-2.0

package steady

import (
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
)

// TestNow: numbers of its times are apart as the times are. That it does not jump is
// seen with a collector whose clock does (make e2e-clock).
func TestNow(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := NewClock()
		began := c.Now()
		assert.Equal(t, time.Now().UnixNano(), began.UnixNano())
		time.Sleep(time.Hour)
		assert.Equal(t, time.Hour.Nanoseconds(), c.Now().UnixNano()-began.UnixNano())
	})
}
