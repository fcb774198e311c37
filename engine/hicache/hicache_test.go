// Copyright The otelcol-sglang Authors
// SPDX-License-Identifier: Apache-2.0

package hicache

import (
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
)

func TestStorageForgetsItsOldest(t *testing.T) {
	s := NewStorage(4*64, 1)
	s.put([]uint64{1, 2, 3}, contents{})
	assert.Equal(t, []uint64{4, 5}, s.missing([]uint64{1, 4, 5, 2}, 1))
	s.put([]uint64{4, 5}, contents{})
	assert.Len(t, s.pages, 4)
	assert.Equal(t, 0, s.leading([]uint64{1, 2}), "1 made room")
	assert.Equal(t, 2, s.leading([]uint64{2, 3, 9, 4}), "up to the gap")
	assert.Equal(t, 4, s.leading([]uint64{2, 3, 4, 5}))
	assert.Empty(t, s.missing(nil, 3))
}

func TestUnitIsWholeDevicePages(t *testing.T) {
	for pageSize, unit := range map[int]int{1: 64, 16: 64, 48: 96, 64: 64, 128: 128} {
		assert.Equal(t, unit, NewStorage(1000, pageSize).unit, pageSize)
	}
}

func TestStorageUsable(t *testing.T) {
	s := NewStorage(100*64, 1)
	s.put([]uint64{1, 2, 3}, contents{window: true, state: true})
	s.put([]uint64{4, 5}, contents{})
	s.put([]uint64{6}, contents{window: true})
	all := []uint64{1, 2, 3, 4, 5, 6}
	assert.Equal(t, 6, s.usable(all, 1, false))
	assert.Equal(t, 3, s.usable(all, 2, false), "a window of two pages")
	assert.Equal(t, 3, s.usable(all, 0, true), "the state is at the end of the first three")
	assert.Equal(t, 0, s.usable([]uint64{4, 5}, 1, false))
	assert.Equal(t, 2, s.usable(all[:2], 9, false), "from the start on, less than a window will do")
}

func TestHashesAreOfAllTokensBefore(t *testing.T) {
	tier := &Tier{Config: Config{Storage: NewStorage(1000, 1)}}
	tokens := make([]int32, 200)
	a := tier.hashes("", tokens)
	assert.Len(t, a, 3)
	tokens[70] = 1
	b := tier.hashes("", tokens)
	assert.Equal(t, a[0], b[0])
	assert.NotEqual(t, a[1], b[1])
	assert.NotEqual(t, a[2], b[2], "the third page's own tokens are the same")
	assert.NotEqual(t, a[0], tier.hashes("adapter", tokens)[0])
}

func TestLinkCarriesOneAfterTheOther(t *testing.T) {
	l := link{perSecond: 1000, latency: time.Millisecond}
	assert.Equal(t, 101*time.Millisecond, l.carry(0, 100))
	assert.Equal(t, 202*time.Millisecond, l.carry(50*time.Millisecond, 100), "it waits")
	assert.Equal(t, 1101*time.Millisecond, l.carry(time.Second, 100))
}
