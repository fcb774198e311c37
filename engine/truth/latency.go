// Copyright The otelcol-sglang Authors
// SPDX-License-Identifier: Apache-2.0

package truth // import "github.com/otelcol-sglang/otelcol-sglang/engine/truth"

import (
	"time"

	"github.com/otelcol-sglang/otelcol-sglang/engine/ledger"
	"github.com/otelcol-sglang/otelcol-sglang/internal/sglang"
)

// Latencies are what a collector should derive of a request that finished, in
// seconds by attribute. What does not apply is absent.
func (r *Record) Latencies() map[string]float64 {
	out := map[string]float64{sglang.AttrLatencyE2E: seconds(r.Finished)}
	put := func(attr string, ns int64) {
		if ns >= 0 {
			out[attr] = seconds(ns)
		}
	}
	budget := func(stage string, ns int64) {
		if ns > 0 {
			out[sglang.AttrBudgetPrefix+stage] = seconds(ns)
		}
	}
	waits, again := r.retractions()
	queue := r.total(sglang.StagePrefillWaiting)
	ready := r.total(sglang.StageDecodeWaiting) * r.decodes()
	put(sglang.AttrLatencyInQueue, queue+ready+waits)
	budget("queue", queue)
	budget("decode_wait", ready)
	budget("retract_wait", waits)
	budget("reprefill", again)
	budget("tokenize", r.Tokenized)
	prefill := r.length(sglang.StagePrefillForward)
	put(sglang.AttrPrefillCompute, prefill)
	budget("prefill", prefill)
	if decode := r.length(sglang.StageDecodeForward); decode > 0 {
		put(sglang.AttrDecodeCompute, decode-waits-again)
		budget("decode", decode-waits-again)
	}
	if r.Role == sglang.RolePrefill.String() || r.Kind == kinds[ledger.KindEmbedding] {
		return out
	}
	put(sglang.AttrFirstTokenAtScheduler, r.FirstTokenAtScheduler)
	put(sglang.AttrLatencyTTFT, r.FirstToken)
	if n := int64(r.OutputTokens) - 1; n > 0 && r.FirstToken >= 0 && r.Finished > r.FirstToken {
		out[sglang.AttrOutTPOT] = seconds(r.Finished-r.FirstToken) / float64(n)
	}
	return out
}

// Joined are those of a decode half together with its prefill half: the user's, who
// waits in both queues. Both halves began at once. As in the budget, the transfer is
// what the decode half waited for without the prefill half queueing or computing: so
// the prefill half's own bootstrap is in it.
func (r *Record) Joined(prefill *Record) map[string]float64 {
	out := r.Latencies()
	waits, _ := r.retractions()
	queue := prefill.total(sglang.StagePrefillWaiting)
	out[sglang.AttrLatencyInQueue] = seconds(queue + r.total(sglang.StageDecodeWaiting) + waits)
	out[sglang.AttrBudgetPrefix+"queue"] = seconds(queue)
	out[sglang.AttrBudgetPrefix+"prefill"] = seconds(prefill.length(sglang.StagePrefillForward))
	if wait, ok := r.stay(sglang.StageDecodeTransferred); ok {
		out[sglang.AttrKVTransfer] = seconds(wait.To - wait.From - r.during(wait, prefill))
	}
	return out
}

// during is how much of a stay the prefill half queued or computed.
func (r *Record) during(wait Stage, prefill *Record) (ns int64) {
	later := prefill.CreatedUnixNano - r.CreatedUnixNano
	for _, s := range []sglang.Stage{sglang.StagePrefillWaiting, sglang.StagePrefillForward} {
		if st, ok := prefill.stay(s); ok {
			ns += max(0, min(st.To+later, wait.To)-max(st.From+later, wait.From))
		}
	}
	return ns
}

// stay is the first in a stage that ended.
func (r *Record) stay(s sglang.Stage) (Stage, bool) {
	for _, st := range r.Stages {
		if st.Stage == s.String() && st.To >= 0 {
			return st, true
		}
	}
	return Stage{}, false
}

func seconds(ns int64) float64 { return time.Duration(ns).Seconds() }

// decodes is 1 on a decode node, where the wait before decoding is one in the queue.
func (r *Record) decodes() int64 {
	if r.Role == sglang.RoleDecode.String() {
		return 1
	}
	return 0
}

// length of the first stay in a stage, -1 if there was none that ended.
func (r *Record) length(s sglang.Stage) int64 {
	st, ok := r.stay(s)
	if !ok {
		return -1
	}
	return st.To - st.From
}

func (r *Record) total(s sglang.Stage) (ns int64) {
	for _, st := range r.Stages {
		if st.Stage == s.String() && st.To >= 0 {
			ns += st.To - st.From
		}
	}
	return ns
}

// retractions sums the waits after each, until the prompt is computed again, and
// those computations.
func (r *Record) retractions() (waits, again int64) {
	for _, at := range r.Retracted {
		next := Stage{From: r.Finished, To: r.Finished}
		for _, st := range r.Stages {
			if st.Stage == sglang.StagePrefillForward.String() && st.From >= at && st.From < next.From {
				next = st
			}
		}
		waits += next.From - at
		again += next.To - next.From
	}
	return waits, again
}
