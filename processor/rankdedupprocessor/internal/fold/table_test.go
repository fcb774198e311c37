// Copyright The otelcol-sglang Authors
// SPDX-License-Identifier: Apache-2.0

package fold

import (
	"testing"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"
)

// TestTable: a table does what a map does.
func TestTable(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		var got table[int]
		want := map[uint64]int{}
		for step := range rapid.IntRange(0, 200).Draw(t, "steps") {
			id := rapid.Uint64Range(0, 60).Draw(t, "id")
			switch rapid.IntRange(0, 20).Draw(t, "what") {
			case 0:
				got.clear()
				clear(want)
			case 1:
				got.deleteIf(func(other uint64, _ int) bool { return other%3 == id%3 })
				for other := range want {
					if other%3 == id%3 {
						delete(want, other)
					}
				}
			default:
				_, known := want[id]
				require.Equal(t, !known, got.set(id, step))
				want[id] = step
			}
			mine, known := got.get(id)
			theirs, expected := want[id]
			require.Equal(t, theirs, mine)
			require.Equal(t, expected, known)
			all := map[uint64]int{}
			got.all(func(id uint64, value int) bool { all[id] = value; return true })
			require.Equal(t, want, all)
			require.Equal(t, len(want), got.len())
		}
	})
}
