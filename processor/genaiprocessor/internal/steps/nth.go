// Copyright The otelcol-sglang Authors
// SPDX-License-Identifier: Apache-2.0

package steps

import (
	"math/bits"
	"slices"
)

// buckets is how many buckets selectAll throws a list into.
const buckets = 256

// selectAll returns what would stand at each of the places, which rise, if the
// list were sorted; lowest and highest bound what is in it. To throw all into
// buckets and look into those that matter costs half of what it costs to select
// them one by one. It mixes the list up.
func selectAll(list []uint32, lowest, highest uint32, places []int, out []uint32) {
	var count [buckets]uint32
	shift := max(0, bits.Len32(highest-lowest)-bits.Len(buckets-1))
	for _, v := range list {
		count[(v-lowest)>>shift&(buckets-1)]++
	}
	bin, before := uint32(0), 0 // how many are in the buckets before it
	for i, k := range places {
		for ; before+int(count[bin]) <= k; bin++ {
			before += int(count[bin])
		}
		out[i] = nth(gather(list, lowest, shift, bin), k-before)
	}
}

// gather moves what is in a bucket to the front of the list and returns it.
func gather(list []uint32, lowest uint32, shift int, bin uint32) []uint32 {
	n := 0
	for i, v := range list {
		if (v-lowest)>>shift == bin {
			list[i], list[n] = list[n], v
			n++
		}
	}
	return list[:n]
}

// nth returns what would stand at place k if the list were sorted, and moves what
// is smaller before it and the rest behind it.
func nth(list []uint32, k int) uint32 {
	const few, tries = 12, 64
	all, at := list, k
	for range tries {
		if len(list) <= few {
			slices.Sort(list)
			return list[k]
		}
		pivot := middle(list)
		less := smallerFirst(list, pivot)
		if k < less {
			list = list[:less]
			continue
		}
		list, k = list[less:], k-less
		same := sameFirst(list, pivot)
		if k < same {
			return pivot
		}
		list, k = list[same:], k-same
	}
	slices.Sort(all) // an order that was made to be slow
	return all[at]
}

// middle is one of three, neither the smallest nor the largest.
func middle(list []uint32) uint32 {
	a, b, c := list[0], list[len(list)/2], list[len(list)-1]
	return max(min(a, b), min(max(a, b), c))
}

// smallerFirst moves what is less than the pivot to the front and tells how many
// these are. It has no branch that depends on the numbers: a processor would guess
// half of them wrong.
func smallerFirst(list []uint32, pivot uint32) int {
	less := 0
	for i, v := range list {
		list[i], list[less] = list[less], v
		less += int((uint64(v) - uint64(pivot)) >> 63)
	}
	return less
}

// sameFirst does so with what is the same as the pivot.
func sameFirst(list []uint32, pivot uint32) int {
	same := 0
	for i, v := range list {
		list[i], list[same] = list[same], v
		same += int((uint64(v^pivot) - 1) >> 63)
	}
	return same
}
