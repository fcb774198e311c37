// Copyright The otelcol-sglang Authors
// SPDX-License-Identifier: Apache-2.0

package clock

import (
	"cmp"
	"context"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"
)

func TestVirtualOrder(t *testing.T) {
	l := NewVirtual(time.Unix(100, 0))
	var got []string
	note := func(s string) func() { return func() { got = append(got, s+" "+l.Now().String()) } }
	l.At(2*time.Second, note("b"))
	l.At(2*time.Second, note("c"))
	l.At(time.Second, func() {
		note("a")()
		l.At(0, note("late"))
		l.After(2*time.Second, note("d"))
	})
	require.NoError(t, l.Run(context.Background()))
	assert.Equal(t, []string{"a 1s", "late 1s", "b 2s", "c 2s", "d 3s"}, got)
	assert.Equal(t, time.Unix(103, 0), l.Wall(l.Now()))
}

// Whatever is asked for, things happen by time, and those of one time in turn.
func TestOrder(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		l := NewVirtual(time.Unix(0, 0))
		type due struct{ at, asked int }
		var got []due
		asked := 0
		var ask func(depth int)
		ask = func(depth int) {
			for _, ms := range rapid.SliceOfN(rapid.IntRange(0, 20), 0, 20).Draw(t, "after") {
				d := due{int(l.Now()/time.Millisecond) + ms, asked}
				asked++
				l.After(time.Duration(ms)*time.Millisecond, func() {
					got = append(got, d)
					if depth > 0 && ms%7 == 0 {
						ask(depth - 1)
					}
				})
			}
		}
		ask(2)
		require.NoError(t, l.Run(context.Background()))
		require.Len(t, got, asked)
		require.True(t, slices.IsSortedFunc(got, func(a, b due) int {
			return cmp.Or(cmp.Compare(a.at, b.at), cmp.Compare(a.asked, b.asked))
		}), "%v", got)
	})
}

func TestRunUntil(t *testing.T) {
	l := NewVirtual(time.Unix(0, 0))
	ran := 0
	l.At(time.Second, func() { ran++ })
	l.At(3*time.Second, func() { ran++ })
	l.RunUntil(2 * time.Second)
	assert.Equal(t, 1, ran)
	assert.Equal(t, 2*time.Second, l.Now())
}

func TestRealTimeScaled(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := NewReal(10)
		ctx, cancel := context.WithCancel(t.Context())
		began := time.Now()
		var took time.Duration
		l.At(20*time.Second, func() { took = time.Since(began); cancel() })
		require.NoError(t, l.Run(ctx))
		assert.Equal(t, 2*time.Second, took)
	})
}

func TestPostWakes(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := NewReal(1)
		ctx, cancel := context.WithCancel(t.Context())
		go func() {
			time.Sleep(5 * time.Second)
			l.Post(cancel)
		}()
		require.NoError(t, l.Run(ctx))
		assert.Equal(t, 5*time.Second, l.Now())
	})
}
