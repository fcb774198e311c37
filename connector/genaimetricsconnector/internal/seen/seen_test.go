// Copyright The otelcol-sglang Authors
// SPDX-License-Identifier: Apache-2.0

package seen

import (
	"encoding/binary"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"
)

func key(n int) (k Key) {
	binary.BigEndian.PutUint64(k.Span[:], uint64(n))
	return k
}

func TestRememberedForTheWindowAndNotForever(t *testing.T) {
	at := time.Unix(1000, 0)
	s := New(time.Minute, 100)
	assert.True(t, s.Add(key(1), at))
	assert.False(t, s.Add(key(1), at.Add(59*time.Second)))
	assert.True(t, s.Add(key(1), at.Add(10*time.Minute)))
	assert.Equal(t, 1, s.Len())
	assert.Zero(t, s.TakeForgottenEarly())
}

func TestSameSpanIDInAnotherTraceIsNew(t *testing.T) {
	at := time.Unix(1000, 0)
	s := New(time.Minute, 100)
	a, b := key(1), key(1)
	b.Trace[15] = 1
	assert.True(t, s.Add(a, at))
	assert.True(t, s.Add(b, at))
}

func TestFullForgetsEarlyAndSaysSo(t *testing.T) {
	at := time.Unix(1000, 0)
	s := New(time.Minute, 10)
	for i := range 11 {
		assert.True(t, s.Add(key(i), at))
	}
	assert.Equal(t, int64(5), s.TakeForgottenEarly())
	assert.Zero(t, s.TakeForgottenEarly())
	assert.LessOrEqual(t, s.Len(), 10)
	assert.False(t, s.Add(key(10), at))
	assert.True(t, s.Add(key(0), at), "forgotten")
}

// TestProperty: while nothing is forgotten early a key that comes again within the
// window is known, one that comes after two windows is not, and memory is bounded.
func TestProperty(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		const window = time.Minute
		limit := rapid.IntRange(2, 40).Draw(t, "limit")
		s, at := New(window, limit), time.Unix(1000, 0)
		last := make(map[int]time.Time)
		early := int64(0)
		for range rapid.IntRange(1, 200).Draw(t, "steps") {
			at = at.Add(time.Duration(rapid.IntRange(0, 30).Draw(t, "pause")) * time.Second)
			n := rapid.IntRange(0, 20).Draw(t, "key")
			fresh := s.Add(key(n), at)
			before, known := last[n]
			early += s.TakeForgottenEarly()
			switch {
			case !known || at.Sub(before) >= 2*window:
				require.True(t, fresh)
			case at.Sub(before) < window && early == 0:
				require.False(t, fresh)
			}
			if fresh {
				last[n] = at
			}
			require.LessOrEqual(t, s.Len(), limit)
		}
	})
}
