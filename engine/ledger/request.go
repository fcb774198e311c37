// Copyright The otelcol-sglang Authors
// SPDX-License-Identifier: Apache-2.0

package ledger // import "github.com/otelcol-sglang/otelcol-sglang/engine/ledger"

import "time"

// Kind is what the client asked for.
type Kind uint8

const (
	KindGenerate Kind = iota
	KindCompletion
	KindChat
	KindEmbedding
	// KindHealth is the engine's own probe: one token, HEALTH_CHECK_<uuid>.
	KindHealth
)

// FinishReason is why a request ended; empty while it runs.
type FinishReason string

const (
	FinishStop   FinishReason = "stop"
	FinishLength FinishReason = "length"
	FinishAbort  FinishReason = "abort"
)

// Request is one request on its way through one engine. The front end makes it
// and fills the first block; after dispatch it belongs to the scheduler, all on
// the loop's goroutine.
type Request struct {
	// ID is the whole request id.
	ID     string
	Kind   Kind
	Prompt []int32 // token ids
	// OutputLen is where the "model" stops, at most MaxTokens: there is no
	// language model, so the client or the load says it. 0 for embeddings.
	OutputLen int
	MaxTokens int
	// Temperature and others are what goes on the root span, as the client sent
	// them; nil when it did not.
	Temperature, TopP *float64
	// The client's JSON had an integer there.
	IntegerTemperature, IntegerTopP bool
	TopK, N                         int
	Stream                          bool
	// Priority is nil when none was given. Lower or higher first: args decide.
	Priority   *int
	Structured bool   // JSON schema, regex and such
	LoRA       string // adapter, "" for none
	Session    string // streaming session, "" for none
	RoutingKey string
	// BootstrapRoom pairs the halves under PD disaggregation; 0 is none.
	BootstrapRoom uint64
	// TraceParent is the client's header; "" for none.
	TraceParent string
	// CustomLabels are those of the client that the allow-list lets through.
	CustomLabels map[string]string

	// DPRank is the attention-DP group or replica that owns the request; -1
	// before dispatch and where DP is off.
	DPRank int

	// Output is what was generated so far; the scheduler appends.
	Output []int32
	Finish FinishReason
	// AbortMessage goes with FinishAbort; AbortStatus is the HTTP status, 0 for none.
	AbortMessage string
	AbortStatus  int

	Cached      CachedTokens
	Retractions int
	Chunks      int // prefill chunks, 0 when the prompt went in one piece
	VerifyCalls int // speculative verify steps
	DecodeSteps int // decode iterations; counts on across retractions

	Front FrontTimes
	Sched SchedTimes

	// Work is the scheduler's own state of the request, Trace the tracer's and
	// Reply the front end's; nobody else touches them.
	Work, Trace, Reply any
}

// CachedTokens are prompt tokens that were not computed, by where they were
// found. Re-processed tokens of a retraction are not in it.
type CachedTokens struct{ Device, Host, Storage int }

// Total is their sum.
func (c CachedTokens) Total() int { return c.Device + c.Host + c.Storage }

// Unset is a reading that was not taken. A duration with a missing endpoint is 0
// in the ledger: it did not happen.
const Unset time.Duration = -1

// Between is to − from, and 0 where one is Unset or the order is wrong.
func Between(from, to time.Duration) time.Duration {
	if from == Unset || to == Unset {
		return 0
	}
	return max(0, to-from)
}

// FrontTimes are the front end's readings (tokenizer process), in engine time.
type FrontTimes struct {
	Created, TokenizeFinish, DispatchStart, DispatchFinish time.Duration
	FirstToken, LastToken, Finished                        time.Duration
}

// SchedTimes are the scheduler's readings, in engine time. Queued is summed over
// all entries of the waiting queue, since a retracted request waits several times.
type SchedTimes struct {
	Received, FirstQueued, FirstForward, PrefillDone, DecodeStart, Done time.Duration
	Queued                                                              time.Duration

	// PD disaggregation only.
	BootstrapStart, BootstrapDone, TransferStart, TransferDone time.Duration
}

// NewRequest returns a request with all readings Unset.
func NewRequest(id string, kind Kind) *Request {
	u := Unset
	return &Request{
		ID: id, Kind: kind, DPRank: -1, N: 1,
		Front: FrontTimes{u, u, u, u, u, u, u},
		Sched: SchedTimes{
			Received: u, FirstQueued: u, FirstForward: u, PrefillDone: u, DecodeStart: u, Done: u,
			BootstrapStart: u, BootstrapDone: u, TransferStart: u, TransferDone: u,
		},
	}
}
