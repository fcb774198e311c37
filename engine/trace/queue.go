// Copyright The otelcol-sglang Authors
// SPDX-License-Identifier: Apache-2.0

package trace // import "github.com/otelcol-sglang/otelcol-sglang/engine/trace"

// queue is a bounded ring of spans that grows on demand.
type queue struct {
	ring    []span
	head, n int
	limit   int
}

// push adds a span; it says whether the oldest one had to go for it.
func (q *queue) push(s *span) (dropped bool) {
	if q.n == q.limit {
		q.head = (q.head + 1) % len(q.ring)
		q.n--
		dropped = true
	}
	if q.n == len(q.ring) {
		q.grow()
	}
	q.ring[(q.head+q.n)%len(q.ring)] = *s
	q.n++
	return dropped
}

func (q *queue) grow() {
	ring := make([]span, min(q.limit, max(16, 2*len(q.ring))))
	for i := range q.n {
		ring[i] = q.ring[(q.head+i)%len(q.ring)]
	}
	q.ring, q.head = ring, 0
}

// clear drops all, and tells how many.
func (q *queue) clear() uint64 {
	n := q.n
	*q = queue{limit: q.limit}
	return uint64(n)
}

// take moves up to most spans, the oldest first, to the end of into.
func (q *queue) take(into []span, most int) []span {
	for range min(most, q.n) {
		into = append(into, q.ring[q.head])
		q.ring[q.head] = span{}
		q.head = (q.head + 1) % len(q.ring)
		q.n--
	}
	return into
}
