// Copyright The otelcol-sglang Authors
// SPDX-License-Identifier: Apache-2.0

package ledger // import "github.com/otelcol-sglang/otelcol-sglang/engine/ledger"

import (
	"time"

	"github.com/otelcol-sglang/otelcol-sglang/internal/sglang"
)

// Reading is a moment of a scheduler as its ranks read it. The ranks of one group
// take the same decisions in lockstep, so one scheduler runs for all of them; each
// rank reads the clock a little later than At, by a delay that depends on the rank
// and on Step, the scheduler's loop iteration.
type Reading struct {
	At   time.Duration
	Step uint64
}

// Place is where a scheduler runs: the group of ranks that work in lockstep.
type Place struct {
	// DPRank is -1 where DP is off. PPRank is the pipeline stage.
	DPRank, PPRank int
	// TPRanks are the global ranks of the group, ascending: 2 and 3 for the second
	// of two attention-DP groups at tp 4.
	TPRanks []int
}

// NoDecodeCT is for slices without an iteration number.
const NoDecodeCT = -1

// Batch is one forward pass, as the `schedule` event tells of it.
type Batch struct {
	ID   uint64
	Size int
	Mode string // sglang's forward_mode: prefill, decode, prebuilt
}

// Tracer records one request's way as spans. The front end calls the first group,
// the DP controller the second, a scheduler the third.
type Tracer interface {
	// Start opens the root and the front end's thread.
	Start(r *Request, at time.Duration)
	// FrontEnd is a slice of the front end: tokenize, api_server_dispatch. The end
	// of the latter ends the front end's thread.
	FrontEnd(r *Request, s sglang.Stage, from, to time.Duration)
	// Finish ends the root: r.Finish, r.Front and the token counts are set.
	Finish(r *Request, at time.Duration)
	// Forget drops a request whose root is never exported (a health probe that its
	// handler popped, a request aborted in a crash).
	Forget(r *Request)

	// Dispatch is the DP controller's slice, in its own process.
	Dispatch(r *Request, from, to time.Duration)

	// Slice is a stage of the scheduler's that took [from, to); ct is the decode
	// iteration or NoDecodeCT. Nested stages go under the slice that is open.
	Slice(r *Request, p *Place, s sglang.Stage, from, to Reading, ct int)
	// Open begins a stage that nested ones may follow (prefill_forward,
	// decode_forward); Close ends it.
	Open(r *Request, p *Place, s sglang.Stage, from Reading)
	Close(r *Request, p *Place, s sglang.Stage, to Reading)
	// Schedule says that the request goes into a forward pass.
	Schedule(r *Request, p *Place, b *Batch, at Reading)
	// Retract says that the request lost its KV and goes back to the queue.
	Retract(r *Request, p *Place, at Reading)
	// EndThread ends the scheduler's thread of the request; r.Finish says how.
	// With autoClosed the request object was only garbage-collected.
	EndThread(r *Request, p *Place, at Reading, autoClosed bool)
}
