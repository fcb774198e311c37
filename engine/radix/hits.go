// Copyright The otelcol-sglang Authors
// SPDX-License-Identifier: Apache-2.0

package radix // import "github.com/otelcol-sglang/otelcol-sglang/engine/radix"

import "time"

// HitWindow is the share of prompt tokens found in the cache over the last seconds,
// weighted by tokens: by it the work of waiting requests is estimated. Tokens that a retracted request
// computes again are in neither number.
type HitWindow struct {
	// Span is how far back it looks.
	Span time.Duration

	batches        []hitBatch // oldest first
	cached, inputs int
}

type hitBatch struct {
	at             time.Duration
	cached, inputs int
}

// Add is a prefill batch: tokens found of all its prompt tokens.
func (w *HitWindow) Add(at time.Duration, cached, inputs int) {
	w.batches = append(w.batches, hitBatch{at, cached, inputs})
	w.cached += cached
	w.inputs += inputs
	w.forget(at)
}

// Share is cached / inputs of the window that ends now; false if it is empty.
func (w *HitWindow) Share(now time.Duration) (float64, bool) {
	w.forget(now)
	if w.inputs == 0 {
		return 0, false
	}
	return float64(w.cached) / float64(w.inputs), true
}

func (w *HitWindow) forget(now time.Duration) {
	n := 0
	for n < len(w.batches) && w.batches[n].at < now-w.Span {
		w.cached -= w.batches[n].cached
		w.inputs -= w.batches[n].inputs
		n++
	}
	w.batches = w.batches[n:]
}
