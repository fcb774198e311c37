// Copyright The otelcol-sglang Authors
// SPDX-License-Identifier: Apache-2.0

package latency

import (
	"math"

	"github.com/otelcol-sglang/otelcol-sglang/internal/sglang"
)

// Reason is why a reported value was refused.
type Reason string

// Reasons.
const (
	ReasonType       Reason = "type"
	ReasonNotFinite  Reason = "not_finite"
	ReasonNegative   Reason = "negative"
	ReasonZero       Reason = "zero"
	ReasonUnit       Reason = "unit"
	ReasonExceedsE2E Reason = "exceeds_e2e"
	ReasonEqualsE2E  Reason = "equals_e2e"
	ReasonToken50    Reason = "token_50"
	ReasonFirstToken Reason = "first_token"
	ReasonAbort      Reason = "abort"
	ReasonDiffersE2E Reason = "differs"
	ReasonTimestamp  Reason = "timestamp"
)

// Refusal is a reported value that was not believed.
type Refusal struct {
	// Attribute is the key without its prefix "gen_ai.latency.".
	Attribute string
	Reason    Reason
}

// String is an entry of the root's list.
func (r Refusal) String() string { return r.Attribute + ":" + string(r.Reason) }

// Attributes that refusals name.
const (
	NameTTFT      = "time_to_first_token"
	NameE2E       = "e2e"
	NameQueue     = "time_in_queue"
	NamePrefill   = "time_in_model_prefill"
	NameDecode    = "time_in_model_decode"
	NameInference = "time_in_model_inference"
	NameSlice     = "slice"
)

// tolerance is what rounding to a double and back may add, in seconds.
const tolerance = 2e-6

// unitFactor: a value so many times the request's length is in milliseconds or
// smaller, not seconds.
const unitFactor = 100

// plausible checks what holds for any stretch of a request of length e2e.
func plausible(n Number, e2e float64) (Reason, bool) {
	switch {
	case n.Odd:
		return ReasonType, false
	case math.IsNaN(n.Value) || math.IsInf(n.Value, 0):
		return ReasonNotFinite, false
	case n.Value < 0:
		return ReasonNegative, false
	case n.Value > e2e+tolerance && n.Value >= unitFactor*e2e:
		return ReasonUnit, false
	case n.Value > e2e+tolerance:
		return ReasonExceedsE2E, false
	}
	return "", true
}

// believeTTFT judges the engine's time to first token. Only positive evidence
// refuses: a late one may be true, when the front end is flooded.
func (d *deriver) believeTTFT(n Number) (Reason, bool) {
	e2e := d.out.E2E.Seconds
	if reason, ok := plausible(n, e2e); !ok {
		return reason, false
	}
	switch {
	case d.t.tokenless():
		return "", true
	case d.t.abortedBeforeToken():
		return ReasonAbort, false
	case n.Value == 0:
		return ReasonZero, false
	case d.t.OutputTokens > 1 && n.Value >= e2e-tolerance:
		return ReasonEqualsE2E, false
	case d.isToken50(n.Value):
		return ReasonToken50, false
	}
	return "", true
}

// The front end hears of a non-streaming request first at this token.
const forcedToken = 50

// isToken50 says that the reported first token is the arrival of token 50: a
// non-streaming request on an engine without metrics.
func (d *deriver) isToken50(ttft float64) bool {
	if d.t.OutputTokens < forcedToken || d.firstToken == 0 {
		return false
	}
	at := d.t.Start + int64(math.Round(ttft*1e9))
	decode := d.t.first(sglang.StageDecodeForward)
	if decode == nil {
		return false
	}
	step := (decode.End - decode.Start) / (d.t.OutputTokens - 1)
	if d.t.MarkedEnds[0] != 0 || d.t.MarkedEnds[1] != 0 {
		return d.nearMark(at, step)
	}
	// Steps vary in length: the longer the decode, the wider the guess. But never so
	// wide that it reaches the first token, where a stream's is.
	wait := (forcedToken - 1) * step
	guess := decode.Start + wait
	slack := min(2*step+(decode.End-decode.Start)/33, wait/2)
	return at >= guess-slack && at <= guess+slack
}

// nearMark allows for the way from the scheduler to the front end, but for less
// than a step. Under speculation a step gives several tokens, and the marked
// steps are not those of token 50: then nothing coincides.
func (d *deriver) nearMark(at, step int64) bool {
	late := min(max(step/2, 1e6), 10e6)
	const early = 1e6
	for _, end := range d.t.MarkedEnds {
		if end != 0 && at >= end-early && at <= end+late {
			return true
		}
	}
	return false
}
