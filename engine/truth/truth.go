// Copyright The otelcol-sglang Authors
// SPDX-License-Identifier: Apache-2.0

// Package truth writes what really happened to each request, one line of JSON
// when it ends, so that what a collector derived can be compared with it. Times
// are those of the scheduler and the front end themselves: no rank's delay, no
// clock offset and no fault of an exporter is in them.
package truth // import "github.com/otelcol-sglang/otelcol-sglang/engine/truth"

import (
	"bufio"
	"encoding/json"
	"io"
	"strconv"
	"time"

	"github.com/otelcol-sglang/otelcol-sglang/engine/ledger"
	"github.com/otelcol-sglang/otelcol-sglang/internal/sglang"
)

// maxLive bounds the requests that are followed at once.
const maxLive = 1 << 17

// Record is one request's timeline. Times are nanoseconds after Created; -1 did
// not happen.
type Record struct {
	ID        string `json:"id"`
	Kind      string `json:"kind"`
	Role      string `json:"role,omitempty"` // prefill, decode
	Room      string `json:"bootstrap_room,omitempty"`
	Stream    bool   `json:"stream"`
	DPRank    int    `json:"dp_rank"`
	Finish    string `json:"finish,omitempty"`
	Forgotten bool   `json:"forgotten,omitempty"` // the root never leaves

	PromptTokens  int `json:"prompt_tokens"`
	OutputTokens  int `json:"output_tokens"`
	CachedDevice  int `json:"cached_device"`
	CachedHost    int `json:"cached_host"`
	CachedStorage int `json:"cached_storage"`

	CreatedUnixNano int64 `json:"created_unix_nano"`
	Tokenized       int64 `json:"tokenized"`
	Dispatched      int64 `json:"dispatched"`
	// FirstToken is when the front end could hand it to the client (or, of a request
	// that does not stream, what it takes for that); FirstTokenAtScheduler when it was
	// computed, on a decode node when it arrived there.
	FirstToken            int64 `json:"first_token"`
	FirstTokenAtScheduler int64 `json:"first_token_at_scheduler"`
	Finished              int64 `json:"finished"`

	// Stages of the scheduler in the order of their ends, without decode steps.
	Stages []Stage `json:"stages,omitempty"`
	// Retracted are the moments at which the request lost its KV.
	Retracted   []int64 `json:"retracted,omitempty"`
	DecodeSteps int     `json:"decode_steps"`
	DecodeStep  int64   `json:"decode_step_sum"`
	SchedDone   int64   `json:"scheduler_done"`
	VerifyCalls int     `json:"verify_calls,omitempty"`

	created time.Duration
}

// Stage is one stage's stay.
type Stage struct {
	Stage string `json:"stage"`
	From  int64  `json:"from"`
	To    int64  `json:"to"`
}

// Truth is a tracer that writes records. It belongs to the loop's goroutine.
type Truth struct {
	role  string
	wall  func(time.Duration) time.Time
	sink  func(*Record)
	live  map[*ledger.Request]*Record
	lost  int
	flush func() error
}

var _ ledger.Tracer = (*Truth)(nil)

// New hands records to sink; role is the PD role, "" for none, and wall converts
// engine time.
func New(role string, wall func(time.Duration) time.Time, sink func(*Record)) *Truth {
	return &Truth{
		role: role, wall: wall, sink: sink, live: map[*ledger.Request]*Record{},
		flush: func() error { return nil },
	}
}

// NewWriter writes lines to w; the first error comes from [Truth.Flush].
func NewWriter(role string, wall func(time.Duration) time.Time, w io.Writer) *Truth {
	b := bufio.NewWriterSize(w, 1<<16)
	enc := json.NewEncoder(b)
	var failed error
	t := New(role, wall, func(r *Record) {
		if err := enc.Encode(r); err != nil && failed == nil {
			failed = err
		}
	})
	t.flush = func() error {
		if failed != nil {
			return failed
		}
		return b.Flush()
	}
	return t
}

// Flush writes what is buffered.
func (t *Truth) Flush() error { return t.flush() }

// Lost is the number of requests that were not followed, since too many lived.
func (t *Truth) Lost() int { return t.lost }

var kinds = [...]string{
	ledger.KindGenerate: "generate", ledger.KindCompletion: "completion", ledger.KindChat: "chat",
	ledger.KindEmbedding: "embedding", ledger.KindHealth: "health",
}

// Start implements [ledger.Tracer].
func (t *Truth) Start(r *ledger.Request, at time.Duration) {
	if len(t.live) >= maxLive {
		t.lost++
		return
	}
	rec := &Record{
		ID: r.ID, Kind: kinds[r.Kind], Role: t.role, Stream: r.Stream, PromptTokens: len(r.Prompt),
		CreatedUnixNano: t.wall(at).UnixNano(), created: at, SchedDone: int64(ledger.Unset),
		FirstTokenAtScheduler: int64(ledger.Unset),
	}
	if r.BootstrapRoom != 0 {
		rec.Room = "0x" + strconv.FormatUint(r.BootstrapRoom, 16)
	}
	t.live[r] = rec
}

// FrontEnd implements [ledger.Tracer]; the request's own readings say the same.
func (*Truth) FrontEnd(*ledger.Request, sglang.Stage, time.Duration, time.Duration) {}

// Dispatch implements [ledger.Tracer].
func (t *Truth) Dispatch(r *ledger.Request, from, to time.Duration) {
	if rec := t.live[r]; rec != nil {
		rec.add(sglang.StageDPCDispatch, from, to)
	}
}

// Finish implements [ledger.Tracer].
func (t *Truth) Finish(r *ledger.Request, at time.Duration) {
	rec := t.live[r]
	if rec == nil {
		return
	}
	f := &r.Front
	rec.Finished = rec.since(at)
	rec.Tokenized, rec.Dispatched, rec.FirstToken = rec.since(f.TokenizeFinish), rec.since(f.DispatchFinish), rec.since(f.FirstToken)
	t.end(r, rec)
}

// Forget implements [ledger.Tracer].
func (t *Truth) Forget(r *ledger.Request) {
	rec := t.live[r]
	if rec == nil {
		return
	}
	rec.Forgotten, rec.Finished = true, int64(ledger.Unset)
	t.end(r, rec)
}

func (t *Truth) end(r *ledger.Request, rec *Record) {
	delete(t.live, r)
	rec.Finish, rec.DPRank = string(r.Finish), r.DPRank
	rec.OutputTokens, rec.VerifyCalls = len(r.Output), r.VerifyCalls
	rec.CachedDevice, rec.CachedHost, rec.CachedStorage = r.Cached.Device, r.Cached.Host, r.Cached.Storage
	t.sink(rec)
}

// of finds the record of a scheduler's call; later pipeline stages tell nothing that
// the first did not.
func (t *Truth) of(r *ledger.Request, p *ledger.Place) *Record {
	if p.PPRank > 0 {
		return nil
	}
	return t.live[r]
}

// Slice implements [ledger.Tracer].
func (t *Truth) Slice(r *ledger.Request, p *ledger.Place, s sglang.Stage, from, to ledger.Reading, _ int) {
	rec := t.of(r, p)
	if rec == nil {
		return
	}
	if s == sglang.StageDecodeLoop {
		rec.DecodeSteps++
		rec.DecodeStep += int64(to.At - from.At)
		return
	}
	rec.add(s, from.At, to.At)
	rec.first(s, to.At)
}

// Open implements [ledger.Tracer]: the stage has an end that is not known yet.
func (t *Truth) Open(r *ledger.Request, p *ledger.Place, s sglang.Stage, from ledger.Reading) {
	if rec := t.of(r, p); rec != nil {
		rec.Stages = append(rec.Stages, Stage{Stage: s.String(), From: rec.since(from.At), To: int64(ledger.Unset)})
	}
}

// Close implements [ledger.Tracer].
func (t *Truth) Close(r *ledger.Request, p *ledger.Place, s sglang.Stage, to ledger.Reading) {
	rec := t.of(r, p)
	if rec == nil {
		return
	}
	for i := len(rec.Stages) - 1; i >= 0; i-- {
		if st := &rec.Stages[i]; st.Stage == s.String() && st.To == int64(ledger.Unset) {
			st.To = rec.since(to.At)
			break
		}
	}
	rec.first(s, to.At)
}

// Schedule implements [ledger.Tracer].
func (*Truth) Schedule(*ledger.Request, *ledger.Place, *ledger.Batch, ledger.Reading) {}

// Retract implements [ledger.Tracer].
func (t *Truth) Retract(r *ledger.Request, p *ledger.Place, at ledger.Reading) {
	if rec := t.of(r, p); rec != nil {
		rec.Retracted = append(rec.Retracted, rec.since(at.At))
	}
}

// EndThread implements [ledger.Tracer].
func (t *Truth) EndThread(r *ledger.Request, p *ledger.Place, at ledger.Reading, _ bool) {
	if rec := t.of(r, p); rec != nil {
		rec.SchedDone = rec.since(at.At)
	}
}

func (r *Record) add(s sglang.Stage, from, to time.Duration) {
	r.Stages = append(r.Stages, Stage{Stage: s.String(), From: r.since(from), To: r.since(to)})
}

// first notes the first token: the end of the first prefill, on a decode node that
// of the batch which was prefilled elsewhere.
func (r *Record) first(s sglang.Stage, at time.Duration) {
	want := sglang.StagePrefillForward
	if r.Role == sglang.RoleDecode.String() {
		want = sglang.StageFakeOutput
	}
	if s == want && r.FirstTokenAtScheduler == int64(ledger.Unset) {
		r.FirstTokenAtScheduler = r.since(at)
	}
}

func (r *Record) since(at time.Duration) int64 {
	if at == ledger.Unset {
		return int64(ledger.Unset)
	}
	return int64(at - r.created)
}
