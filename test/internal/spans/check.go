// Copyright The otelcol-sglang Authors
// SPDX-License-Identifier: Apache-2.0

package spans // import "github.com/otelcol-sglang/otelcol-sglang/test/internal/spans"

import (
	"fmt"
	"slices"
	"testing"

	"github.com/stretchr/testify/assert"

	"github.com/otelcol-sglang/otelcol-sglang/internal/sglang"
)

// CheckKept compares what left with what came, span by span.
func CheckKept(t testing.TB, in, out *Tree) {
	t.Helper()
	assert.Empty(t, out.Twice, "spans left twice")
	want := in.Kept()
	assert.Empty(t, names(want, out), "missing")
	assert.Empty(t, names(out, want), "too many")
	assert.Subset(t, want.Dangling(), out.Dangling(), "dangling")
}

// names are the spans of a that b lacks.
func names(a, b *Tree) []string {
	var out []string
	for id, s := range a.Spans {
		if _, ok := b.Spans[id]; !ok {
			out = append(out, fmt.Sprintf("%s %s", s.Name(), id))
		}
	}
	slices.Sort(out)
	return out
}

// CheckLogical compares what left with what came, whichever rank's copy it is.
func CheckLogical(t testing.TB, in, out *Tree) {
	t.Helper()
	logical := in.Logical()
	left := map[string]int{}
	for id, s := range out.Spans {
		if logical[id] == "" {
			t.Errorf("nobody sent %s %s", s.Name(), id)
		}
		left[logical[id]]++
	}
	for name, n := range left {
		if n > 1 {
			t.Errorf("%d copies of %s", n, name)
		}
	}
	CheckNoLoss(t, in, out)
}

// CheckNoLoss says where nothing of what came left, as no copy.
func CheckNoLoss(t testing.TB, in, out *Tree) {
	t.Helper()
	assert.Empty(t, Lost(in, in, out), "lost")
}

// Lost says what of a part of an engine's spans did not leave as any of its
// copies. All the engine's spans tell which are copies of each other.
func Lost(all, part, out *Tree) []string {
	logical := all.Logical()
	left := map[string]bool{}
	for id := range out.Spans {
		left[logical[id]] = true
	}
	var lost []string
	for id := range part.Spans {
		if !left[logical[id]] {
			lost = append(lost, logical[id])
		}
	}
	slices.Sort(lost)
	return slices.Compact(lost)
}

// CheckShape says where not each request has one root, one thread of the front end where it
// had one, and one thread for each place.
func CheckShape(t testing.TB, in, out *Tree) {
	t.Helper()
	assert.Len(t, out.Roots(), len(in.Roots()), "roots")
	wantFrontEnds, frontEnds := frontEnds(in), frontEnds(out)
	for _, root := range out.Roots() {
		assert.Equal(t, min(wantFrontEnds[root.ID()], 1), frontEnds[root.ID()], "front ends of %s", root.ID())
	}
	places := map[place]int{}
	for _, s := range out.Threads() {
		places[placeOf(s)]++
	}
	for p, n := range places {
		// A KV transfer worker has a thread span for each of its turns.
		if sglang.ProcessOf(p.label) != sglang.ProcessTransfer {
			assert.Equal(t, 1, n, "threads of %+v", p)
		}
	}
	assert.Len(t, places, len(in.keptRanks()), "places")
}

func frontEnds(t *Tree) map[ID]int {
	count := map[ID]int{}
	for _, s := range t.Threads() {
		if sglang.ProcessOf(s.Thread().Label) == sglang.ProcessFrontEnd {
			count[s.Parent()]++
		}
	}
	return count
}
