// Copyright The otelcol-sglang Authors
// SPDX-License-Identifier: Apache-2.0

package assembly

import (
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"github.com/otelcol-sglang/otelcol-sglang/internal/sglang"
)

// TestSharedTraceAges: a conversation that is never idle for hours has requests
// that end, each whole, and one that never does, which alone is let go.
func TestSharedTraceAges(t *testing.T) {
	table, left := NewTable(limits), []Left(nil)
	at := now
	begin := func(base uint64) []*Record {
		records := request(shared, base)
		for _, r := range records[1:] { // the root comes last
			table.Apply(r, at)
		}
		return records[:1]
	}
	hangs := request(shared, 1)
	for _, r := range hangs[2:] { // neither root nor its front end's thread
		table.Apply(r, at)
	}
	root := begin(1000)
	for i := range uint64(30) {
		at = now.Add(time.Duration(i+1) * 10 * time.Minute)
		next := begin(1000 * (i + 2))
		table.Apply(root[0], at)
		table.Settle(shared, at, collectLeft(&left))
		table.Expire(at, collectLeft(&left))
		root = next
		since := at
		table.Open(at, func(_ string, n int, from time.Time) {
			since = from
			assert.Equal(t, 1, n)
		})
		assert.Equal(t, at, since.Truncate(time.Second), "after %v", at.Sub(now))
	}
	var complete, aged int
	for _, l := range left {
		switch {
		case l.Request != nil:
			require.Equal(t, sglang.CompletenessComplete, l.Request.Completeness)
			require.Empty(t, l.Why)
			complete++
		case l.Why == WhyMaxAge:
			require.Empty(t, l.Folded, "its decode_forward left before, without a root")
			aged++
		}
	}
	assert.Equal(t, 30, complete)
	assert.Equal(t, 1, aged)

	table.Apply(root[0], at)
	table.Settle(shared, at, collectLeft(&left))
	assert.Zero(t, table.Traces())
	assert.Zero(t, table.Bytes())
}

// TestSharedTraceIsThinned: at the limit the older requests of a conversation leave,
// each with what there is of it and counted; those that have just begun stay and
// leave whole.
func TestSharedTraceIsThinned(t *testing.T) {
	table, left := NewTable(limits), []Left(nil)
	var roots []*Record
	const n = 8
	for i := range uint64(n) {
		records := request(shared, 1000*(i+1))
		records[6].Payload = span(i + 1)
		roots = append(roots, records[0])
		for _, r := range records[1:] {
			table.Apply(r, now.Add(time.Duration(i)*time.Minute))
		}
	}
	at := now.Add(n * time.Minute)
	noThread := request(shared, 1000*(n+1)) // its root waits, and is the youngest
	table.Apply(noThread[0], at)
	require.True(t, table.Evict(WhyLimit, at, collectLeft(&left)))
	const old = (n + 2) / 2
	require.Len(t, left, old)
	for i, l := range left {
		assert.Nil(t, l.Request)
		assert.Equal(t, WhyLimit, l.Why)
		require.Len(t, l.Folded, 1)
		assert.Equal(t, span(i+1), l.Folded[0].DecodeForward, "the oldest first")
	}

	left = nil
	for _, root := range roots[old:] {
		table.Apply(root, at)
		table.Settle(shared, at, collectLeft(&left))
	}
	require.Len(t, left, n-old)
	for _, l := range left {
		assert.Equal(t, sglang.CompletenessComplete, l.Request.Completeness)
		assert.Len(t, l.Request.Folded, 1)
	}

	left = nil
	for table.Evict(WhyShutdown, at, collectLeft(&left)) {
	}
	require.Len(t, left, 1)
	assert.Equal(t, WhyShutdown, left[0].Why)
	assert.NotNil(t, left[0].Request)
	assert.Zero(t, table.Traces())
	assert.Zero(t, table.Bytes())
}

// TestAgesInOrder: however many requests of however many traces there are, each is
// kept for the age and none much longer, and nothing stays behind.
func TestAgesInOrder(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		table, at := NewTable(limits), now
		born := map[uint64]time.Time{} // by the id of the request's decode_forward
		gone := 0
		take := func(l Left) {
			for _, f := range l.Folded {
				id := uint64(f.DecodeForward.Bytes())
				age := at.Sub(born[id])
				if l.Why == WhyMaxAge && (age < limits.MaxAge || age > limits.MaxAge+2*time.Minute) {
					t.Fatalf("request %d let go after %v", id, age)
				}
				delete(born, id)
				gone++
			}
		}
		n := rapid.IntRange(1, 40).Draw(t, "requests")
		for i := range uint64(n) {
			trace := TraceID{0: 1, 15: byte(rapid.IntRange(1, 3).Draw(t, "trace"))}
			records := request(trace, 1000*(i+1))
			records[6].Payload = span(i + 1)
			born[i+1] = at
			for _, r := range []*Record{records[6], records[7]} { // a decode_forward and a step
				table.Apply(r, at)
			}
			for range rapid.IntRange(0, 30).Draw(t, "minutes") {
				at = at.Add(time.Minute)
				ageOnly(table, at, take)
			}
		}
		for range 62 {
			at = at.Add(time.Minute)
			ageOnly(table, at, take)
		}
		if gone != n || table.Traces() != 0 || table.Bytes() != 0 || table.oldest != nil || table.newest != nil {
			t.Fatalf("%d of %d, %d traces and %d bytes stay", gone, n, table.Traces(), table.Bytes())
		}
	})
}

// ageOnly is Expire without the wait of a decode_forward for its root.
func ageOnly(table *Table, at time.Time, take func(Left)) {
	table.timers = nil
	table.Expire(at, take)
}
