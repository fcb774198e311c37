// Copyright The otelcol-sglang Authors
// SPDX-License-Identifier: Apache-2.0

package kv

import (
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"github.com/otelcol-sglang/otelcol-sglang/engine/ledger"
)

func TestPaddingPageIsNeverHandedOut(t *testing.T) {
	p := NewPages(100, 16)
	assert.Equal(t, 6, p.Total(), "whole pages only")
	got := p.Append(nil, 6)
	assert.NotContains(t, got, int32(Hole))
	assert.Equal(t, 0, p.Free())
	assert.Equal(t, 2, p.Round(17), "a page that is begun is taken")
}

func TestBook(t *testing.T) {
	p := NewPool(10*4, 4)
	own := p.Take(nil, 5)
	p.HandOver(2)
	p.Reserve(1)
	p.Park(1)
	assert.Equal(t, ledger.Pool{Capacity: 40, Available: 16, Evictable: 4, Used: 12, Reserved: 8}, p.Book(1, 1))
	assert.True(t, p.Book(1, 1).Balanced())
	require.NoError(t, p.Audit("p", [][]int32{own[:2]}, [][]int32{own[2:3]}, [][]int32{own[3:]}))
	p.Unpark(1)
	p.Unreserve(1)
	p.Give(own[:3])
	assert.Equal(t, ledger.Pool{Capacity: 40, Available: 32, Evictable: 8}, p.Book(2, 0))
}

func TestAuditFindsWhatIsWrong(t *testing.T) {
	p := NewPool(4, 1)
	own := p.Take(nil, 3)
	for name, c := range map[string]struct {
		private, tree [][]int32
		says          string
	}{
		"lost":     {[][]int32{own[:2]}, nil, "requests hold 2 pages, the book says 3"},
		"twice":    {[][]int32{own}, [][]int32{own[:1]}, "is in a request and in the tree"},
		"not free": {[][]int32{own}, [][]int32{{1}}, "is in"},
		"unknown":  {[][]int32{own}, [][]int32{{99}}, "page 99 of the tree does not exist"},
	} {
		t.Run(name, func(t *testing.T) {
			assert.ErrorContains(t, p.Audit("p", c.private, nil, c.tree), c.says)
		})
	}
	p.HandOver(3)
	assert.ErrorContains(t, p.Audit("p", nil, nil, nil), "is lost")
}

func TestPagesComeBack(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		p := NewPages(rapid.IntRange(1, 64).Draw(t, "tokens"), 1)
		var out []int32
		t.Repeat(map[string]func(*rapid.T){
			"append": func(t *rapid.T) { out = p.Append(out, rapid.IntRange(0, p.Free()).Draw(t, "n")) },
			"return": func(t *rapid.T) {
				n := rapid.IntRange(0, len(out)).Draw(t, "n")
				p.Return(append([]int32{Hole}, out[:n]...))
				out = out[n:]
			},
			"": func(t *rapid.T) {
				a := p.Audit("p")
				a.Own("out", out)
				if err := a.Err(); err != nil {
					t.Fatal(err)
				}
			},
		})
	})
}
