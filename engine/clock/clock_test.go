// Copyright The otelcol-sglang Authors
// SPDX-License-Identifier: Apache-2.0

package clock

import (
	"context"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
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
