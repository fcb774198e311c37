// Copyright The otelcol-sglang Authors
// SPDX-License-Identifier: Apache-2.0

package lora

import (
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"github.com/otelcol-sglang/otelcol-sglang/engine/ledger"
)

func TestLoadAndEvict(t *testing.T) {
	p := New(2, 100, 1000)
	acquire := func(id string) time.Duration {
		d, ok := p.Acquire(id)
		require.True(t, ok)
		require.NoError(t, p.Check())
		return d
	}
	assert.Equal(t, 100*time.Millisecond, acquire("a"))
	assert.Zero(t, acquire("a"), "it is there")
	acquire("b")
	assert.Zero(t, acquire(""), "the base model needs no slot")
	assert.Equal(t, ledger.LoRASlots{Used: 2, Total: 2}, p.Slots())
	assert.False(t, p.Fits("c"), "a batch mixes no more adapters than there are slots")
	_, ok := p.Acquire("c")
	assert.False(t, ok)

	p.Release("a")
	assert.False(t, p.Fits("c"), "another request still uses it")
	p.Release("a")
	p.Release("b")
	assert.Equal(t, ledger.LoRASlots{Used: 0, Total: 2}, p.Slots())
	acquire("a")
	acquire("c")
	assert.False(t, p.Loaded("b"), "the idle one went")
	loads, evictions := p.Moves()
	assert.Equal(t, [2]int{3, 1}, [2]int{loads, evictions})
}

func TestTheLeastRecentlyUsedGoes(t *testing.T) {
	p := New(2, 1, 1)
	for _, id := range []string{"a", "b", "a", "c"} {
		_, ok := p.Acquire(id)
		require.True(t, ok)
		p.Release(id)
	}
	assert.True(t, p.Loaded("a"))
	assert.False(t, p.Loaded("b"))
}

func TestBooks(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		p := New(rapid.IntRange(1, 4).Draw(t, "slots"), 10, 10)
		running := map[string]int{}
		id := rapid.SampledFrom([]string{"", "a", "b", "c", "d", "e"})
		t.Repeat(map[string]func(*rapid.T){
			"acquire": func(t *rapid.T) {
				id := id.Draw(t, "id")
				fits := p.Fits(id)
				if _, ok := p.Acquire(id); ok != fits {
					t.Fatalf("fits %v, acquired %v", fits, ok)
				} else if ok && id != "" {
					running[id]++
				}
			},
			"release": func(t *rapid.T) {
				id := id.Draw(t, "id")
				if running[id] == 0 {
					t.Skip("not running")
				}
				p.Release(id)
				if running[id]--; running[id] == 0 {
					delete(running, id)
				}
			},
			"": func(t *rapid.T) {
				if err := p.Check(); err != nil {
					t.Fatal(err)
				}
				if p.Slots().Used != len(running) {
					t.Fatalf("%d in use, %d run", p.Slots().Used, len(running))
				}
				for id := range running {
					if !p.Loaded(id) {
						t.Fatalf("%s runs and is not loaded", id)
					}
				}
			},
		})
	})
}
