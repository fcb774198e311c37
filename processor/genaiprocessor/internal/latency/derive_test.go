// Copyright The otelcol-sglang Authors
// SPDX-License-Identifier: Apache-2.0

package latency

import (
	"math"
	"slices"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"github.com/otelcol-sglang/otelcol-sglang/internal/sglang"
	"github.com/otelcol-sglang/otelcol-sglang/processor/genaiprocessor/internal/budget"
)

const (
	ms    = int64(1e6)
	epoch = int64(1_700_000_000_000_000_000)
)

func top(stage sglang.Stage, from, to int64) Slice {
	return Slice{Stage: stage, Start: epoch + from*ms, End: epoch + to*ms}
}

func in(parent, stage sglang.Stage, from, to int64) Slice {
	s := top(stage, from, to)
	s.In = parent
	return s
}

// timeline is an ordinary request of a second.
func timeline(scheduler ...Slice) *Timeline {
	return &Timeline{
		Start: epoch, End: epoch + 1000*ms,
		Front:         []Slice{top(sglang.StageTokenize, 0, 2), top(sglang.StageAPIServerDispatch, 2, 3)},
		Scheduler:     scheduler,
		SchedulerSeen: len(scheduler) > 0, ThreadSeen: len(scheduler) > 0, Complete: true,
		Facts: Facts{OutputTokens: 11},
	}
}

func ordinary() *Timeline {
	return timeline(top(sglang.StageRequestProcess, 4, 5), top(sglang.StagePrefillWaiting, 5, 105),
		top(sglang.StagePrefillForward, 105, 200), top(sglang.StageDecodeForward, 200, 999))
}

func given(s float64) Number { return Number{Value: s, Given: true} }

func assertSeconds(t *testing.T, want float64, got Value) {
	t.Helper()
	assert.True(t, got.Known)
	assert.InDelta(t, want, got.Seconds, 1e-9)
}

func TestFromTheScheduler(t *testing.T) {
	r := Derive(ordinary(), Reported{})
	assertSeconds(t, 0.2, r.TTFT)
	assert.Equal(t, sglang.TTFTSourceScheduler, r.TTFTSource)
	assertSeconds(t, 0.08, r.TPOT)
	assertSeconds(t, 1, r.E2E)
	assertSeconds(t, 0.1, r.Queue)
	assertSeconds(t, 0.8, r.Decode)
	assertSeconds(t, 0.197, r.Prefill)
	assertSeconds(t, 0.997, r.Inference)
	assertSeconds(t, 0.095, r.PrefillCompute)
	assertSeconds(t, 0.799, r.DecodeCompute)
	assert.Zero(t, r.Retractions)
	assert.EqualValues(t, Unknown, r.Chunks)
	assert.Empty(t, r.Refused)
	assert.Equal(t, budget.Budget{
		budget.Tokenize: 2 * ms, budget.Dispatch: ms, budget.Intake: ms, budget.Queue: 100 * ms,
		budget.Prefill: 95 * ms, budget.Decode: 799 * ms, budget.Finish: ms, budget.Unattributed: ms,
	}, r.Budget)
}

func TestRetraction(t *testing.T) {
	decode := sglang.StageDecodeForward
	tl := timeline(top(sglang.StagePrefillWaiting, 5, 105), top(sglang.StagePrefillForward, 105, 200),
		top(decode, 200, 999), in(decode, sglang.StagePrefillForward, 400, 450),
		in(sglang.StagePrefillForward, sglang.StageChunkedPrefill, 400, 450))
	tl.Retracts = []int64{epoch + 900*ms, epoch + 300*ms}
	r := Derive(tl, Reported{})
	assert.EqualValues(t, 2, r.Retractions)
	assert.EqualValues(t, 1, r.Chunks)
	assertSeconds(t, 0.1+0.1+0.1, r.Queue) // the second one never ran again
	assert.Equal(t, 200*ms, r.Budget[budget.RetractWait])
	assert.Equal(t, 50*ms, r.Budget[budget.Reprefill])
	assert.Equal(t, (799-50-100-99)*ms, r.Budget[budget.Decode])
	assertSeconds(t, 0.55, r.DecodeCompute)
	assert.Equal(t, 1000*ms, r.Budget.Total())

	tl.Complete = false
	assert.False(t, Derive(tl, Reported{}).Queue.Known, "the prefill that ends the wait may be missing")
	tl.Complete, tl.ThreadSeen = true, false
	r = Derive(tl, Reported{})
	assert.False(t, r.Queue.Known, "only the thread knows of retractions")
	assert.EqualValues(t, Unknown, r.Retractions)
}

// A request may be retracted before its decode_forward opened.
func TestRetractedBeforeDecode(t *testing.T) {
	tl := timeline(top(sglang.StagePrefillWaiting, 5, 105), top(sglang.StagePrefillForward, 105, 200),
		top(sglang.StagePrefillForward, 300, 350), top(sglang.StageDecodeForward, 350, 999))
	tl.Retracts = []int64{epoch + 210*ms}
	r := Derive(tl, Reported{})
	assertSeconds(t, 0.2, r.TTFT)
	assertSeconds(t, 0.095, r.PrefillCompute)
	assertSeconds(t, 0.1+0.09, r.Queue)
	assert.Equal(t, 90*ms, r.Budget[budget.RetractWait])
	assert.Equal(t, 50*ms, r.Budget[budget.Reprefill])
	assert.Equal(t, 649*ms, r.Budget[budget.Decode])
}

// Values that a request has not by nature are no wrong values: what the engine
// reports of them goes without a word, unless it is wrong in itself.
func TestNoneByNature(t *testing.T) {
	half := timeline(top(sglang.StagePrefillWaiting, 5, 105), top(sglang.StagePrefillForward, 105, 200),
		top(sglang.StagePrefillTransferKVCache, 200, 999))
	half.Role, half.OutputTokens = sglang.RolePrefill, 1
	r := Derive(half, Reported{TTFT: given(0.999), Prefill: given(0.996), Decode: given(0.7), Inference: given(0.997)})
	assert.Empty(t, r.Refused)
	assert.False(t, r.TTFT.Known || r.TPOT.Known || r.Decode.Known)
	assertSeconds(t, 0.197, r.Prefill) // to the end of the prefill, not of the transfer
	r = Derive(half, Reported{TTFT: given(-1), Decode: given(math.NaN())})
	assert.ElementsMatch(t, []Refusal{{NameTTFT, ReasonNegative}, {NameDecode, ReasonNotFinite}}, r.Refused)

	embedding := timeline(top(sglang.StagePrefillWaiting, 5, 105), top(sglang.StagePrefillForward, 105, 200))
	embedding.Embedding, embedding.OutputTokens = true, Unknown
	r = Derive(embedding, Reported{TTFT: given(1), Prefill: given(0.997), Decode: given(0), Inference: given(0.997)})
	assert.Empty(t, r.Refused)
	assert.False(t, r.TTFT.Known || r.TPOT.Known || r.FirstTokenAtScheduler.Known)
	assertSeconds(t, 0.997, r.Prefill)

	encoder := timeline()
	encoder.Encoder = true
	r = Derive(encoder, Reported{TTFT: given(0.5)})
	assert.Empty(t, r.Refused)
	assert.False(t, r.TTFT.Known)
}

// Other processes have other clocks: numbers end where the request ends.
func TestComputeIsClamped(t *testing.T) {
	tl := timeline(top(sglang.StagePrefillForward, -50, 200), top(sglang.StageDecodeForward, 200, 1400))
	r := Derive(tl, Reported{})
	assertSeconds(t, 0.2, r.PrefillCompute)
	assertSeconds(t, 0.8, r.DecodeCompute)
	half := timeline(top(sglang.StageDecodeBootstrap, -10, 100), top(sglang.StageDecodeTransferred, 100, 2000))
	half.Role = sglang.RoleDecode
	r = Derive(half, Reported{})
	assertSeconds(t, 0.1, r.Bootstrap)
	assertSeconds(t, 0.9, r.KVTransfer)
}

func TestNoTimePerToken(t *testing.T) {
	late := timeline(top(sglang.StagePrefillForward, 105, 1005)) // no time is left to decode
	assert.False(t, Derive(late, Reported{}).TPOT.Known)
	for _, tokens := range []int64{Unknown, 0, 1} {
		tl := ordinary()
		tl.OutputTokens = tokens
		assert.False(t, Derive(tl, Reported{}).TPOT.Known, tokens)
	}
}

// On a decode half the batch that takes the prefill half's token over ends with
// the first token; at a level without it, decoding begins with it.
func TestFirstTokenOfDecodeHalf(t *testing.T) {
	tl := timeline(top(sglang.StageDecodeWaiting, 300, 310), top(sglang.StageDecodeForward, 310, 999))
	tl.Role = sglang.RoleDecode
	assertSeconds(t, 0.310, Derive(tl, Reported{}).FirstTokenAtScheduler)
	tl.Scheduler = append(tl.Scheduler, in(sglang.StageDecodeForward, sglang.StageFakeOutput, 310, 325))
	r := Derive(tl, Reported{})
	assertSeconds(t, 0.325, r.FirstTokenAtScheduler)
	assertSeconds(t, 0.010, r.Queue) // unjoined: its own
}

// A request may come with any number of slices: the work stays in proportion,
// and each fault is named once.
func TestManySlices(t *testing.T) {
	const n = 200_000
	tl := ordinary()
	tl.End = tl.Start + 3600*1000*ms
	for i := range int64(n) {
		tl.Scheduler = append(tl.Scheduler,
			Slice{Stage: sglang.StagePrefillForward, Start: epoch + i*ms, End: epoch + (n+i)*ms},
			Slice{Stage: sglang.StageChunkedPrefill, Start: 1, End: 2})
		tl.Retracts = append(tl.Retracts, epoch+i*ms)
	}
	r := Derive(tl, Reported{})
	assert.Equal(t, tl.End-tl.Start, r.Budget.Total())
	assert.Equal(t, []Refusal{{NameSlice, ReasonTimestamp}}, r.Refused)
}

func TestAbortedWhileWaiting(t *testing.T) {
	for name, tt := range map[string]struct {
		role  sglang.Role
		last  sglang.Stage
		stage budget.Stage
		queue float64
	}{
		"in the queue":                  {sglang.RoleUnified, sglang.StageRequestProcess, budget.Queue, 0.995},
		"prefill: bootstrap failed":     {sglang.RolePrefill, sglang.StagePrefillPrepare, budget.Bootstrap, 0},
		"prefill: in the queue":         {sglang.RolePrefill, sglang.StagePrefillBootstrap, budget.Queue, 0.995},
		"decode: bootstrap failed":      {sglang.RoleDecode, sglang.StageDecodePrepare, budget.Bootstrap, 0},
		"decode: transfer failed":       {sglang.RoleDecode, sglang.StageDecodeBootstrap, budget.KVTransfer, 0},
		"decode: waiting for its batch": {sglang.RoleDecode, sglang.StageDecodeTransferred, budget.DecodeWait, 0.995},
	} {
		t.Run(name, func(t *testing.T) {
			tl := timeline(top(tt.last, 4, 5))
			tl.Role, tl.Aborted, tl.OutputTokens = tt.role, true, Unknown
			r := Derive(tl, Reported{TTFT: given(0.9)})
			assert.Equal(t, 995*ms, r.Budget[tt.stage])
			assert.False(t, r.TTFT.Known)
			assert.False(t, r.TPOT.Known)
			assertSeconds(t, tt.queue, r.Queue)
			tl.ThreadSeen, tl.Complete = false, false // the thread ends when the engine collects its garbage
			assertSeconds(t, tt.queue, Derive(tl, Reported{}).Queue)
			tl.OutputTokens = 5
			r = Derive(tl, Reported{})
			assert.False(t, r.Queue.Known, "it ran: slices are missing")
			assert.Zero(t, r.Budget[budget.Queue])
		})
	}
}

func TestUnknownIsNotZero(t *testing.T) {
	r := Derive(timeline(), Reported{})
	for name, v := range map[string]Value{
		"ttft": r.TTFT, "tpot": r.TPOT, "queue": r.Queue, "prefill": r.Prefill, "decode": r.Decode,
		"prefill_compute": r.PrefillCompute, "decode_compute": r.DecodeCompute,
		"first_token_at_scheduler": r.FirstTokenAtScheduler, "lag": r.TTFTLag,
	} {
		assert.False(t, v.Known, name)
	}
	assertSeconds(t, 1, r.E2E)
	assertSeconds(t, 0.997, r.Inference)
	assert.Equal(t, 1000*ms, r.Budget.Total())
}

func TestToken50(t *testing.T) {
	long := func(marks bool) *Timeline {
		tl := timeline(top(sglang.StagePrefillWaiting, 5, 105), top(sglang.StagePrefillForward, 105, 200),
			top(sglang.StageDecodeForward, 200, 990))
		tl.OutputTokens = 80
		if marks {
			tl.MarkedEnds = [2]int64{epoch + 690*ms, epoch + 700*ms}
		}
		return tl
	}
	for name, tt := range map[string]struct {
		marks   bool
		ttft    float64
		refused bool
	}{
		"just after the step":         {true, 0.6906, true},
		"the step after":              {true, 0.7006, true},
		"between steps, truly late":   {true, 0.697, false},
		"streamed":                    {true, 0.2005, false},
		"no steps: about token 50":    {false, 0.6906, true},
		"no steps: truly late":        {false, 0.5, false},
		"no steps: streamed":          {false, 0.2005, false},
		"no steps: streamed and slow": {false, 0.26, false},
	} {
		t.Run(name, func(t *testing.T) {
			r := Derive(long(tt.marks), Reported{TTFT: given(tt.ttft)})
			if tt.refused {
				assert.Contains(t, r.Refused, Refusal{NameTTFT, ReasonToken50})
				assertSeconds(t, 0.2, r.TTFT)
				return
			}
			assert.Empty(t, r.Refused)
			assertSeconds(t, tt.ttft, r.TTFT)
			assert.Equal(t, tt.ttft > 0.31, r.Suspect)
		})
	}
	short := ordinary()
	short.OutputTokens, short.MarkedEnds = 49, [2]int64{epoch + 690*ms}
	assert.Empty(t, Derive(short, Reported{TTFT: given(0.6906)}).Refused, "there was no token 50")

	// 10 ms a step, so that token 50 comes after half a second of forty.
	longest := timeline(top(sglang.StagePrefillForward, 105, 200), top(sglang.StageDecodeForward, 200, 40_190))
	longest.OutputTokens = 4000
	assert.Empty(t, Derive(longest, Reported{TTFT: given(0.2005)}).Refused, "a long answer's stream")
	assert.Contains(t, Derive(longest, Reported{TTFT: given(0.69)}).Refused, Refusal{NameTTFT, ReasonToken50})
}

func TestEqualsE2E(t *testing.T) {
	one := ordinary()
	one.OutputTokens = 1
	r := Derive(one, Reported{TTFT: given(1), Decode: given(0)})
	assertSeconds(t, 1, r.TTFT)
	assert.False(t, r.TPOT.Known)
	assert.Empty(t, r.Refused, "right for a single token")

	r = Derive(ordinary(), Reported{TTFT: given(1), Decode: given(0), Prefill: given(0.997), Inference: given(0.997)})
	assert.ElementsMatch(t, []Refusal{
		{NameTTFT, ReasonEqualsE2E}, {NameDecode, ReasonFirstToken}, {NamePrefill, ReasonFirstToken},
	}, r.Refused)
	assertSeconds(t, 0.2, r.TTFT)
	assertSeconds(t, 0.8, r.Decode)
	assertSeconds(t, 0.197, r.Prefill)
}

func TestRefusedValues(t *testing.T) {
	for _, tt := range []struct {
		n      Number
		reason Reason
	}{
		{given(-1.7e9), ReasonNegative},
		{given(1.5), ReasonExceedsE2E},
		{given(3e8), ReasonUnit},
		{given(math.NaN()), ReasonNotFinite},
		{given(math.Inf(1)), ReasonNotFinite},
		{Number{Given: true, Odd: true}, ReasonType},
	} {
		r := Derive(ordinary(), Reported{
			TTFT: tt.n, Queue: tt.n, Prefill: tt.n, Decode: tt.n, Inference: tt.n,
		})
		for _, name := range []string{NameTTFT, NameQueue, NamePrefill, NameDecode, NameInference} {
			assert.Contains(t, r.Refused, Refusal{name, tt.reason})
		}
		assertSeconds(t, 0.2, r.TTFT)
		assertSeconds(t, 0.1, r.Queue)
	}
	assert.Contains(t, Derive(ordinary(), Reported{E2E: given(1e9)}).Refused, Refusal{NameE2E, ReasonUnit})
	assert.Contains(t, Derive(ordinary(), Reported{E2E: given(0.5)}).Refused, Refusal{NameE2E, ReasonDiffersE2E})
}

func TestClocks(t *testing.T) {
	tl := ordinary()
	for i := range tl.Scheduler { // a scheduler whose clock is far behind
		tl.Scheduler[i].Start -= 300 * ms
		tl.Scheduler[i].End -= 300 * ms
	}
	r := Derive(tl, Reported{})
	assert.False(t, r.TTFT.Known, "a first token before the request")
	assert.Equal(t, 1000*ms, r.Budget.Total())

	tl = ordinary()
	tl.Scheduler[1].Start = 12345 // a timestamp that was never set
	r = Derive(tl, Reported{})
	assert.Contains(t, r.Refused, Refusal{NameSlice, ReasonTimestamp})
	assert.False(t, r.Queue.Known)

	tl = ordinary()
	tl.End = tl.Start - 1
	r = Derive(tl, Reported{TTFT: given(0.1)})
	assert.False(t, r.E2E.Known || r.TTFT.Known)
	assert.Contains(t, r.Refused, Refusal{NameE2E, ReasonTimestamp})
}

func TestTrustedValuesStay(t *testing.T) {
	r := Derive(ordinary(), Reported{TTFT: given(1), Decode: given(0), E2E: given(3), Trusted: true})
	assertSeconds(t, 1, r.TTFT)
	assertSeconds(t, 0, r.Decode)
	assertSeconds(t, 3, r.E2E)
	assertSeconds(t, 0.1, r.Queue)
	assert.Empty(t, r.Refused)
	assert.Empty(t, r.TTFTSource, "whoever judged it wrote the source")

	r = Derive(ordinary(), Reported{TTFT: given(math.NaN()), Trusted: true})
	assertSeconds(t, 0.2, r.TTFT)
	assertSeconds(t, 0.8, r.Decode)
}

func TestJoin(t *testing.T) {
	prefill := timeline(top(sglang.StagePrefillPrepare, 4, 5), top(sglang.StagePrefillBootstrap, 5, 20),
		top(sglang.StagePrefillWaiting, 20, 50), top(sglang.StagePrefillForward, 50, 250),
		top(sglang.StagePrefillTransferKVCache, 250, 2260))
	prefill.Role, prefill.End = sglang.RolePrefill, epoch+2300*ms
	decode := timeline(top(sglang.StageDecodePrepare, 4, 5), top(sglang.StageDecodeBootstrap, 5, 21),
		top(sglang.StageDecodeTransferred, 21, 2255), top(sglang.StageDecodeWaiting, 2255, 2260),
		top(sglang.StageDecodeForward, 2260, 4999), in(sglang.StageDecodeForward, sglang.StageFakeOutput, 2260, 2360))
	decode.Role, decode.End = sglang.RoleDecode, epoch+5000*ms
	p, d := Derive(prefill, Reported{}), Derive(decode, Reported{})
	assert.False(t, p.TTFT.Known || p.TPOT.Known)
	assertSeconds(t, 2.36, d.TTFT) // case 36: prefill, transfer and the first decode
	Join(&d, &p)
	assertSeconds(t, 5, d.E2E)
	assertSeconds(t, 2.36, d.TTFT)
	assertSeconds(t, 0.035, d.Queue)
	assert.Equal(t, budget.Budget{
		budget.Tokenize: 2 * ms, budget.Dispatch: ms, budget.Intake: ms, budget.Bootstrap: 15 * ms,
		budget.Queue: 30 * ms, budget.Prefill: 200 * ms, budget.KVTransfer: 2005 * ms, budget.DecodeWait: 5 * ms,
		budget.Decode: 2739 * ms, budget.Finish: ms, budget.Unattributed: ms,
	}, d.Budget)
	assertSeconds(t, 2.005, d.KVTransfer)
}

// TestJoinSequential: a router that runs the halves one after the other. The gap
// is bootstrap, the user's time begins at the prefill root, and a lead of less than
// 20 ms may be the hosts' clocks.
func TestJoinSequential(t *testing.T) {
	joined := func(prefillEnd, decodeStart int64) Result {
		prefill := timeline(top(sglang.StagePrefillWaiting, 4, 10), top(sglang.StagePrefillForward, 10, prefillEnd-1))
		prefill.Role, prefill.End = sglang.RolePrefill, epoch+prefillEnd*ms
		decode := timeline(top(sglang.StageDecodeForward, decodeStart+10, 999))
		decode.Front, decode.Role, decode.Start = nil, sglang.RoleDecode, epoch+decodeStart*ms
		p, d := Derive(prefill, Reported{}), Derive(decode, Reported{})
		Join(&d, &p)
		return d
	}
	d := joined(100, 150)
	assertSeconds(t, 1, d.E2E)
	assertSeconds(t, 0.16, d.TTFT)
	assertSeconds(t, 0.16, d.FirstTokenAtScheduler)
	assertSeconds(t, 0.05, d.Bootstrap)
	assert.Equal(t, 50*ms, d.Budget[budget.Bootstrap])
	assert.Equal(t, 1000*ms, d.Budget.Total())

	d = joined(100, 21)
	assertSeconds(t, 1, d.E2E)
	d = joined(100, 19)
	assertSeconds(t, 0.981, d.E2E)
	assertSeconds(t, 0.01, d.TTFT)
}

// TestJoinShort: a prefill half that was over before the decode half began came
// first, however short it was.
func TestJoinShort(t *testing.T) {
	prefill := timeline(top(sglang.StagePrefillWaiting, 4, 5), top(sglang.StagePrefillForward, 5, 14))
	prefill.Role, prefill.End = sglang.RolePrefill, epoch+15*ms
	decode := timeline(top(sglang.StageDecodeForward, 18, 999))
	decode.Front, decode.Role, decode.Start = nil, sglang.RoleDecode, epoch+16*ms
	p, d := Derive(prefill, Reported{}), Derive(decode, Reported{})
	Join(&d, &p)
	assertSeconds(t, 1, d.E2E)
	assertSeconds(t, 0.018, d.TTFT)
	assert.Equal(t, ms, d.Budget[budget.Bootstrap], "between the two")
}

// TestJoinedQueue: what one half does not know of its queue the pair does not know.
func TestJoinedQueue(t *testing.T) {
	halves := func() (d, p Result) {
		prefill := timeline(top(sglang.StagePrefillWaiting, 4, 10), top(sglang.StagePrefillForward, 10, 90))
		prefill.Role = sglang.RolePrefill
		decode := timeline(top(sglang.StageDecodeWaiting, 100, 120), top(sglang.StageDecodeForward, 120, 999))
		decode.Role = sglang.RoleDecode
		return Derive(decode, Reported{}), Derive(prefill, Reported{})
	}
	d, p := halves()
	Join(&d, &p)
	assertSeconds(t, 0.026, d.Queue)
	d, p = halves()
	p.Queue = Value{}
	Join(&d, &p)
	assert.False(t, d.Queue.Known)
	d, p = halves()
	d.Queue = Value{}
	Join(&d, &p)
	assert.False(t, d.Queue.Known)
}

// TestJoinedWaits: only the prefill half's queue, prefill and transfer stand before
// the decode half's waits: not its way to the scheduler, nor its end.
func TestJoinedWaits(t *testing.T) {
	prefill := timeline(top(sglang.StagePrefillBootstrap, 32, 40), top(sglang.StagePrefillWaiting, 40, 50),
		top(sglang.StagePrefillForward, 50, 100), top(sglang.StagePrefillTransferKVCache, 100, 200))
	prefill.Front = []Slice{top(sglang.StageTokenize, 0, 20), top(sglang.StageAPIServerDispatch, 20, 30)}
	prefill.Role, prefill.End = sglang.RolePrefill, epoch+290*ms
	decode := timeline(top(sglang.StageDecodeBootstrap, 5, 45), top(sglang.StageDecodeTransferred, 45, 300),
		top(sglang.StageDecodeForward, 300, 1000))
	decode.Front, decode.Role = []Slice{top(sglang.StageTokenize, 0, 5)}, sglang.RoleDecode
	p, d := Derive(prefill, Reported{}), Derive(decode, Reported{})
	Join(&d, &p)
	assert.Equal(t, budget.Budget{
		budget.Tokenize: 5 * ms, budget.Bootstrap: 35 * ms, budget.Queue: 10 * ms, budget.Prefill: 50 * ms,
		budget.KVTransfer: 200 * ms, budget.Decode: 700 * ms,
	}, d.Budget)
}

// TestOverlappingStays: two slices of one wait are one wait.
func TestOverlappingStays(t *testing.T) {
	r := Derive(timeline(top(sglang.StagePrefillWaiting, 5, 105), top(sglang.StagePrefillWaiting, 55, 110),
		top(sglang.StagePrefillForward, 110, 200), top(sglang.StageDecodeForward, 200, 999)), Reported{})
	assertSeconds(t, 0.105, r.Queue)
}

// TestZeroTTFT: a first token before any time has passed is refused.
func TestZeroTTFT(t *testing.T) {
	r := Derive(ordinary(), Reported{TTFT: given(0)})
	assert.Equal(t, []Refusal{{NameTTFT, ReasonZero}}, r.Refused)
	assertSeconds(t, 0.2, r.TTFT)
	assert.Equal(t, sglang.TTFTSourceScheduler, r.TTFTSource)
}

// TestSuspect: late by more than a tenth of a second, and kept all the same.
func TestSuspect(t *testing.T) {
	for lag, suspect := range map[float64]bool{0.009: false, 0.099: false, 0.101: true, 0.5: true} {
		r := Derive(ordinary(), Reported{TTFT: given(0.2 + lag)})
		assertSeconds(t, 0.2+lag, r.TTFT)
		assertSeconds(t, lag, r.TTFTLag)
		assert.Equal(t, suspect, r.Suspect, "%v s late", lag)
		assert.Empty(t, r.Refused)
	}
}

// anyTimeline draws a request with gaps, overlaps, clock offsets, retractions
// and missing spans.
func anyTimeline(t *rapid.T) *Timeline {
	skew := rapid.Int64Range(-4*ms, 4*ms).Draw(t, "skew")
	at := epoch
	next := func(label string, most int64) int64 {
		at += rapid.Int64Range(0, most).Draw(t, label)
		return at
	}
	tl := &Timeline{Start: at, SchedulerSeen: true, ThreadSeen: true, Complete: true}
	tl.Front = []Slice{{Stage: sglang.StageTokenize, Start: at, End: next("tokenize", 5*ms)}}
	tl.Front = append(tl.Front, Slice{Stage: sglang.StageAPIServerDispatch, Start: at, End: next("dispatch", 2*ms)})
	sched := func(stage sglang.Stage, in sglang.Stage, from, to int64) {
		tl.Scheduler = append(tl.Scheduler, Slice{Stage: stage, In: in, Start: from + skew, End: to + skew})
	}
	from := next("gap", 5*ms)
	sched(sglang.StageRequestProcess, 0, from, next("intake", 2*ms))
	from = at
	sched(sglang.StagePrefillWaiting, 0, from, next("wait", 300*ms))
	from = at
	sched(sglang.StagePrefillForward, 0, from, next("prefill", 300*ms))
	sched(sglang.StageChunkedPrefill, sglang.StagePrefillForward, from, at)
	if rapid.Bool().Draw(t, "waits") {
		from = at
		sched(sglang.StageDecodeWaiting, 0, from, next("decode wait", 50*ms))
	}
	from = at
	for range rapid.IntRange(0, 3).Draw(t, "retractions") {
		tl.Retracts = append(tl.Retracts, next("until", 100*ms)+skew)
		again := next("retracted", 100*ms)
		end := next("again", 50*ms)
		sched(sglang.StagePrefillForward, sglang.StageDecodeForward, again, end)
		sched(sglang.StageChunkedPrefill, sglang.StagePrefillForward, again, end)
	}
	sched(sglang.StageDecodeForward, 0, from, next("decode", 900*ms))
	at -= rapid.Int64Range(0, 2*ms).Draw(t, "ends after the root")
	tl.End = max(tl.Start, at+rapid.Int64Range(0, 5*ms).Draw(t, "finish"))
	tl.OutputTokens = rapid.Int64Range(-1, 200).Draw(t, "tokens")
	tl.Aborted = rapid.IntRange(0, 9).Draw(t, "aborted") == 0
	return tl
}

func TestBudgetAddsUp(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		tl := anyTimeline(t)
		tl.Scheduler = slices.DeleteFunc(tl.Scheduler, func(Slice) bool {
			return rapid.IntRange(0, 5).Draw(t, "lost") == 0
		})
		tl.Role = rapid.SampledFrom([]sglang.Role{sglang.RoleUnified, sglang.RolePrefill, sglang.RoleDecode}).Draw(t, "role")
		r := Derive(tl, Reported{TTFT: given(rapid.Float64().Draw(t, "ttft"))})
		checkSane(t, tl, &r)

		other := anyTimeline(t)
		other.Role = sglang.RolePrefill
		by := rapid.Int64Range(-2e9, 2e9).Draw(t, "earlier")
		shift(other, by)
		p := Derive(other, Reported{})
		d := r
		Join(&d, &p)
		if total := d.Budget.Total(); total != d.End-d.Start {
			t.Fatalf("joined: %d of %d ns", total, d.End-d.Start)
		}
		if d.E2E.ns() < r.E2E.ns() {
			t.Fatalf("joined is shorter: %v", d.E2E)
		}
	})
}

func shift(tl *Timeline, by int64) {
	tl.Start, tl.End = tl.Start+by, tl.End+by
	for _, list := range [][]Slice{tl.Front, tl.Scheduler} {
		for i := range list {
			list[i].Start, list[i].End = list[i].Start+by, list[i].End+by
		}
	}
}

func checkSane(t *rapid.T, tl *Timeline, r *Result) {
	if total := r.Budget.Total(); total != tl.End-tl.Start {
		t.Fatalf("stages add up to %d of %d ns", total, tl.End-tl.Start)
	}
	for name, v := range values(r) {
		if v.Known && (v.Seconds < 0 && name != "lag" || math.IsNaN(v.Seconds) || math.IsInf(v.Seconds, 0)) {
			t.Fatalf("%s is %v", name, v.Seconds)
		}
		if v.Known && name != "lag" && v.Seconds > r.E2E.Seconds+1e-6 {
			t.Fatalf("%s of %v is longer than the request of %v", name, v.Seconds, r.E2E.Seconds)
		}
	}
}

func values(r *Result) map[string]Value {
	return map[string]Value{
		"ttft": r.TTFT, "tpot": r.TPOT, "e2e": r.E2E, "queue": r.Queue, "prefill": r.Prefill,
		"decode": r.Decode, "inference": r.Inference, "first_token_at_scheduler": r.FirstTokenAtScheduler,
		"prefill_compute": r.PrefillCompute, "decode_compute": r.DecodeCompute, "lag": r.TTFTLag,
		"kv_transfer": r.KVTransfer, "bootstrap": r.Bootstrap,
	}
}

// TestLevels: at a lower trace level a value is the same or absent.
func TestLevels(t *testing.T) {
	absent := 0
	rapid.Check(t, func(t *rapid.T) {
		tl := anyTimeline(t)
		if rapid.IntRange(0, 5).Draw(t, "queued abort") == 0 {
			tl.Scheduler, tl.Aborted, tl.OutputTokens = tl.Scheduler[:1], true, Unknown
		}
		reported := Reported{}
		if rapid.Bool().Draw(t, "reports") {
			first := float64(tl.firstToken()-tl.Start)/1e9 + rapid.Float64Range(0, 0.01).Draw(t, "lag")
			reported.TTFT, reported.Inference = given(first), given(first/2)
		}
		all := Derive(tl, reported)
		full, cut := values(&all), all.Budget
		for level := 1; level <= 2; level++ {
			low := Derive(atLevel(tl, level), reported)
			for s, ns := range low.Budget {
				if s != int(budget.Unattributed) && s != int(budget.Finish) && ns > cut[s] {
					t.Fatalf("level %d: guessed %d ns of %s", level, ns-cut[s], budget.Stage(s))
				}
			}
			for name, v := range values(&low) {
				switch {
				case !v.Known:
					absent++
				case v != full[name]:
					t.Fatalf("level %d: %s is %v, at level 3 %v", level, name, v, full[name])
				}
			}
		}
	})
	require.Positive(t, absent)
}

func atLevel(tl *Timeline, level int) *Timeline {
	out := *tl
	keep := func(list []Slice) []Slice {
		return slices.DeleteFunc(slices.Clone(list), func(s Slice) bool { return s.Stage.Info().Level > level })
	}
	out.Front, out.Scheduler = keep(tl.Front), keep(tl.Scheduler)
	out.MarkedEnds = [2]int64{}
	return &out
}

func BenchmarkDerive(b *testing.B) {
	tl := ordinary()
	r := Reported{TTFT: given(0.201), E2E: given(1), Decode: given(0.799), Prefill: given(0.198), Inference: given(0.997)}
	b.ReportAllocs()
	for b.Loop() {
		Derive(tl, r)
	}
}
