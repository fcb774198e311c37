// Copyright The otelcol-sglang Authors
// SPDX-License-Identifier: Apache-2.0

package explain // import "github.com/otelcol-sglang/otelcol-sglang/cmd/sglangctl/internal/explain"

import (
	"fmt"
	"math"
	"slices"
	"strings"
	"time"

	"go.opentelemetry.io/collector/pdata/pcommon"

	"github.com/otelcol-sglang/otelcol-sglang/cmd/sglangctl/internal/request"
	"github.com/otelcol-sglang/otelcol-sglang/internal/sglang"
)

// Input is something that went into a value.
type Input struct {
	What string `json:"what"`
	// Text is its value in words.
	Text string `json:"value"`
	Span string `json:"span_id,omitempty"`
}

func seconds(ns int64) float64 { return float64(ns) / 1e9 }

func known(ns int64, inputs ...Input) answer {
	return answer{value: seconds(ns), known: true, inputs: inputs}
}

func none(why string) answer { return answer{why: why} }

func unsure(why string) answer { return answer{why: why, unsure: true} }

// time writes a moment as counted from the request's start.
func (v *View) time(what string, at int64, span pcommon.SpanID) Input {
	return Input{What: what, Text: "at " + length(at-v.start), Span: id(span)}
}

func (v *View) from(s slice) Input {
	return Input{
		What: s.span.Name(), Span: id(s.span.SpanID()),
		Text: fmt.Sprintf("%s to %s, %s", length(s.start-v.start), length(s.end-v.start), length(s.end-s.start)),
	}
}

func length(ns int64) string { return request.Duration(time.Duration(ns)) }

func id(s pcommon.SpanID) string {
	if s.IsEmpty() {
		return ""
	}
	return s.String()
}

const latencyPrefix = "gen_ai.latency."

// reported is the engine's own value of a latency. Without a raw file what stands
// on the root is all there is to see.
func (v *View) reported(key string) (value float64, ok bool) {
	if v.hasSent {
		return number(v.sent, key)
	}
	if v.refused(strings.TrimPrefix(key, latencyPrefix)) != "" {
		return 0, false
	}
	return number(v.root, key)
}

// believed is reported, if it was.
func (v *View) believed(key string) (value float64, ok bool) {
	if v.refused(strings.TrimPrefix(key, latencyPrefix)) != "" {
		return 0, false
	}
	return v.reported(key)
}

func (v *View) engine(key string, value float64) answer {
	what := "the engine's " + key
	if !v.hasSent && key != sglang.AttrLatencyTTFT { // there sglang.latency.ttft_source tells
		what += " (as it stands on the root: without a file of what came in, --raw, it can't be told from a derived one)"
	}
	return answer{value: value, known: true, inputs: []Input{{What: what, Text: length(int64(value * 1e9))}}}
}

// own is E2E before a join.
func (v *View) own() float64 { return seconds(v.end - v.start) }

// shift is what a join put before the root's start.
func (v *View) shift() float64 { return seconds(v.start - v.begin()) }

func computeE2E(v *View, _ string) answer {
	if v.end < v.start {
		return none("the root ends before it starts")
	}
	a := known(v.end-v.begin(), v.time("root's start", v.start, v.root.SpanID()), v.time("root's end", v.end, v.root.SpanID()))
	if v.begin() != v.start {
		a.inputs = append(a.inputs, v.time("prefill root's start", v.begin(), v.peer.root.SpanID()))
	}
	return v.ofPair(a)
}

// ofPair: without the other half at hand a joined value can't be computed.
func (v *View) ofPair(a answer) answer {
	if v.joined() && v.peer == nil {
		return unsure("the other half is not in the file")
	}
	return a
}

// firstToken is when the scheduler had the first token.
func (v *View) firstToken() (at slice, when int64, ok bool) {
	if v.role != sglang.RoleDecode {
		s, ok := v.first(sglang.StagePrefillForward)
		return s, s.end, ok
	}
	if s, ok := v.any(sglang.StageFakeOutput); ok {
		return s, s.end, true
	}
	s, ok := v.first(sglang.StageDecodeForward)
	return s, s.start, ok
}

// ownFirstToken is it before a join.
func (v *View) ownFirstToken() answer {
	s, when, ok := v.firstToken()
	switch {
	case v.embedding() || v.encoder():
		return none("it generates nothing")
	case !ok:
		return none("no span of the scheduler tells")
	}
	when = min(when, v.end)
	if when <= v.start {
		return none("the scheduler's clock puts it before the root's start")
	}
	return known(when-v.start, v.from(s))
}

func computeFirstToken(v *View, _ string) answer { return v.shifted(v.ownFirstToken()) }

// shifted counts from where the user's time begins.
func (v *View) shifted(a answer) answer {
	if !a.known {
		return a
	}
	if s := v.shift(); s != 0 {
		a.value += s
		a.inputs = append(a.inputs, Input{What: "from the prefill root's start to this root's", Text: length(v.start - v.begin())})
	}
	return v.ofPair(a)
}

// ownTTFT is it before a join, and whose it is.
func (v *View) ownTTFT() (a answer, source string) {
	switch {
	case v.tokenless():
		return none("it has no first token by nature"), ""
	case v.aborted() && v.output() <= 0:
		return none("it was aborted before a token"), ""
	}
	if value, ok := v.believed(sglang.AttrLatencyTTFT); ok && v.trusts() {
		if !v.hasSent {
			value -= v.shift()
		}
		return v.engine(sglang.AttrLatencyTTFT, min(value, v.own())), sglang.TTFTSourceEngine
	}
	a = v.ownFirstToken()
	if !a.known {
		return a, ""
	}
	return a, sglang.TTFTSourceScheduler
}

// trusts: without a raw file the root says whose value stands there.
func (v *View) trusts() bool {
	source, _ := v.text(sglang.AttrTTFTSource)
	return v.hasSent || source == sglang.TTFTSourceEngine
}

func computeTTFT(v *View, _ string) answer {
	a, _ := v.ownTTFT()
	return v.shifted(a)
}

func computeSource(v *View, _ string) answer {
	a, source := v.ownTTFT()
	if source == "" {
		return none(a.why)
	}
	return answer{word: source, known: true}
}

func computeLag(v *View, _ string) answer {
	ttft, source := v.ownTTFT()
	scheduler := v.ownFirstToken()
	if source != sglang.TTFTSourceEngine || !scheduler.known {
		return none("both the engine's and the scheduler's are needed")
	}
	return answer{value: ttft.value - scheduler.value, known: true, inputs: slices.Concat(ttft.inputs, scheduler.inputs)}
}

// rounding is what a double may lose on the way.
const rounding = 2e-6

func computeTPOT(v *View, _ string) answer {
	ttft, _ := v.ownTTFT()
	switch {
	case !ttft.known:
		return none("there is no time to first token: " + ttft.why)
	case v.output() <= 1:
		return none("there is no token after the first")
	case v.own()-ttft.value <= rounding:
		return none("the first token is at the very end")
	}
	n := v.output()
	return answer{
		value: (v.own() - ttft.value) / float64(n-1), known: true,
		inputs: []Input{
			{What: "E2E", Text: length(v.end - v.start)},
			{What: "TTFT", Text: length(int64(ttft.value * 1e9))},
			{What: "output tokens", Text: fmt.Sprint(n)},
		},
	}
}

func computeInference(v *View, key string) answer {
	dispatch, there := v.dispatch()
	derived := none("no api_server_dispatch (it needs trace level 2)")
	if there && dispatch.end > v.start && dispatch.end <= v.end {
		derived = known(v.end-dispatch.end, v.from(dispatch), v.time("root's end", v.end, v.root.SpanID()))
	}
	return v.engineOr(key, derived)
}

// engineOr prefers the engine's value. Without a raw file a value that spans give
// too is taken for theirs.
func (v *View) engineOr(key string, derived answer) answer {
	value, ok := v.believed(key)
	if !ok || !v.hasSent && derived.known && math.Abs(value-derived.value) < 1e-9 {
		return derived
	}
	return v.engine(key, value)
}

func computeDecode(v *View, key string) answer {
	ttft, _ := v.ownTTFT()
	derived := none("there is no time to first token: " + ttft.why)
	if ttft.known {
		derived = answer{
			value: max(0, v.own()-ttft.value), known: true,
			inputs: []Input{{What: "E2E", Text: length(v.end - v.start)}, {What: "TTFT", Text: length(int64(ttft.value * 1e9))}},
		}
	}
	if v.encoder() || v.role == sglang.RolePrefill {
		return none("what a prefill half or an encoder counts as decode is none")
	}
	return v.engineOr(key, derived)
}

func computePrefill(v *View, key string) answer {
	first, _ := v.ownTTFT()
	if v.role == sglang.RolePrefill {
		first = v.ownFirstToken()
	}
	inference := computeInference(v, sglang.AttrLatencyInInference)
	derived := none("it needs a first token and the end of the dispatch")
	if first.known && inference.known {
		if s := first.value - (v.own() - inference.value); s > 0 {
			derived = answer{value: s, known: true, inputs: slices.Concat(first.inputs, inference.inputs)}
		}
	}
	if v.encoder() || v.role == sglang.RolePrefill {
		return derived
	}
	return v.engineOr(key, derived)
}

func computePrefillCompute(v *View, _ string) answer { return v.lengthOf(sglang.StagePrefillForward) }

// lengthOf is the length of the first slice of a stage.
func (v *View) lengthOf(stage sglang.Stage) answer {
	s, ok := v.first(stage)
	if !ok {
		return none("no " + stage.String() + " of the kept rank")
	}
	within := v.clamp(s.start, s.end)
	return known(within.end-within.start, v.from(s))
}

func computeDecodeCompute(v *View, _ string) answer {
	s, ok := v.first(sglang.StageDecodeForward)
	if !ok {
		return none("no decode_forward of the kept rank")
	}
	whole := v.clamp(s.start, s.end)
	inputs := []Input{v.from(s)}
	var without []stretch
	add := func(what string, w stretch) {
		w = stretch{max(w.start, whole.start), min(w.end, whole.end)}
		if w.end > w.start {
			without = append(without, w)
			inputs = append(inputs, Input{What: "without " + what, Text: length(w.end - w.start)})
		}
	}
	for _, w := range v.waits() {
		add("the wait after a retraction", w)
	}
	for _, s := range v.scheduler {
		if v.reprefill(s) && s.stage == sglang.StagePrefillForward || v.reprefill(s) && s.in == sglang.StageDecodeForward {
			add(s.span.Name()+" done again", stretch{s.start, s.end})
		}
	}
	return known(whole.end-whole.start-union(without), inputs...)
}

// ownQueue is it before a join.
func (v *View) ownQueue() answer {
	if !v.hasThread {
		return none("no thread span of the scheduler came: unknown, not 0")
	}
	waiting := sglang.StagePrefillWaiting
	if v.role == sglang.RoleDecode {
		waiting = sglang.StageDecodeWaiting
	}
	var stays []stretch
	var inputs []Input
	for _, s := range v.scheduler {
		if s.stage == waiting {
			stays = append(stays, v.clamp(s.start, s.end))
			inputs = append(inputs, v.from(s))
		}
	}
	last, stage := v.open()
	queued := stage == stageQueue || v.role == sglang.RoleDecode && stage == stageDecodeWait
	switch {
	case queued:
		stays = append(stays, v.clamp(last.end, v.end))
		inputs = append(inputs, v.from(last), v.time("aborted", v.end, v.root.SpanID()))
	case stage != "": // it never came to a queue
		stays = append(stays, stretch{})
	}
	if len(stays) == 0 {
		return none("no " + waiting.String() + " came: unknown, not 0")
	}
	if restarts := v.restarts(); !v.complete() && len(v.retracts) > restarts {
		return none("spans are missing: a retraction may have ended in one of them")
	}
	for _, w := range v.waits() {
		stays = append(stays, w)
		inputs = append(inputs, Input{What: "from a retraction until it ran again", Text: length(w.end - w.start)})
	}
	return known(union(stays), inputs...)
}

func (v *View) restarts() int {
	n := 0
	for _, s := range v.scheduler {
		if v.reprefill(s) {
			n++
		}
	}
	return n
}

func computeQueue(v *View, _ string) answer {
	a := v.ownQueue()
	if !v.joined() {
		return a
	}
	if v.peer == nil {
		return v.ofPair(a)
	}
	other := v.peer.ownQueue()
	if !a.known || !other.known {
		return none("of one half it is unknown: " + a.why + other.why)
	}
	a.value += other.value
	for _, input := range other.inputs {
		input.What += " of the prefill half"
		a.inputs = append(a.inputs, input)
	}
	return a
}

func computeBudget(v *View, key string) answer {
	stage := strings.TrimPrefix(key, sglang.AttrBudgetPrefix)
	a := v.ofPair(known(v.budget()[stage]))
	if a.unsure {
		return a
	}
	for _, p := range v.allPieces() {
		if p.stage == stage && p.end > p.start {
			a.inputs = append(a.inputs, Input{
				What: p.from, Text: fmt.Sprintf("%s to %s, %s", length(p.start-v.start), length(p.end-v.start), length(p.end-p.start)),
			})
		}
	}
	if a.value == 0 {
		return none("it took no time that is known")
	}
	return a
}

func computeBootstrap(v *View, _ string) answer {
	return v.half(stageBootstrap, sglang.StagePrefillBootstrap, sglang.StageDecodeBootstrap)
}

func computeTransfer(v *View, _ string) answer {
	return v.half(stageKVTransfer, sglang.StagePrefillTransferKVCache, sglang.StageDecodeTransferred)
}

func (v *View) half(stage string, prefill, decode sglang.Stage) answer {
	switch {
	case v.joined():
		return v.ofPair(answer{value: seconds(v.budget()[stage]), known: true})
	case v.role == sglang.RolePrefill:
		return v.lengthOf(prefill)
	case v.role == sglang.RoleDecode:
		return v.lengthOf(decode)
	}
	return none("the request is not disaggregated")
}

func computeRetractions(v *View, _ string) answer {
	if !v.hasThread {
		return none("no thread span of the scheduler came")
	}
	return answer{value: float64(len(v.retracts)), known: true}
}

func computeChunks(v *View, _ string) answer {
	n := 0
	for _, s := range v.scheduler {
		if s.stage == sglang.StageChunkedPrefill {
			n++
		}
	}
	if n == 0 {
		return none("no chunk was seen (they need trace level 3)")
	}
	return answer{value: float64(n), known: true}
}

func computeLevel(v *View, _ string) answer {
	switch {
	case v.level == 0:
		return none("no slice came")
	case !v.complete():
		return unsure("spans are missing here that the collector had seen")
	}
	return answer{value: float64(v.level), known: true}
}

// copyOf is the engine's attribute under another name.
func copyOf(key string) func(*View, string) answer {
	return func(v *View, _ string) answer {
		span := v.root
		if v.hasSent {
			span = v.sent
		}
		value, ok := span.Attributes().Get(key)
		if !ok {
			if v.hasSent {
				return none("the engine gives no " + key)
			}
			return unsure("the engine's " + key + " is not there any more (semconv: replace)")
		}
		input := Input{What: "the engine's " + key, Text: value.AsString()}
		if n, isNumber := number(span, key); isNumber {
			return answer{value: n, known: true, inputs: []Input{input}}
		}
		return answer{word: value.AsString(), known: true, inputs: []Input{input}}
	}
}

// computeSteps sums the raw steps up. v is a view on a decode_forward: see [View.on].
func computeSteps(v *View, key string) answer {
	if v.raw == nil {
		return unsure("the steps were folded; a file of what came in tells (--raw)")
	}
	var steps []int64
	for _, kid := range v.raw.kids[v.at.SpanID()] {
		if sglang.StageOf(kid.Name()) == sglang.StageDecodeLoop {
			steps = append(steps, max(0, int64(kid.EndTimestamp())-int64(kid.StartTimestamp())))
		}
	}
	if len(steps) == 0 {
		return none("no step came")
	}
	slices.Sort(steps)
	var sum int64
	for _, s := range steps {
		sum += s
	}
	at := func(q float64) int64 { return steps[max(1, int(math.Ceil(q*float64(len(steps)))))-1] }
	inputs := []Input{{What: "decode_loop spans that came in", Text: fmt.Sprintf("%d, %s together", len(steps), length(sum))}}
	switch key {
	case sglang.AttrStepsCount:
		return answer{value: float64(len(steps)), known: true, inputs: inputs}
	case sglang.AttrStepsSum:
		return known(sum, inputs...)
	case sglang.AttrStepsMin:
		return known(steps[0], inputs...)
	case sglang.AttrStepsMax:
		return known(steps[len(steps)-1], inputs...)
	case sglang.AttrStepsP50:
		return known(at(0.50), inputs...)
	case sglang.AttrStepsP95:
		return known(at(0.95), inputs...)
	case sglang.AttrStepsP99:
		return known(at(0.99), inputs...)
	}
	return v.perToken(key, len(steps), sum, inputs)
}

func (v *View) perToken(key string, steps int, sum int64, inputs []Input) answer {
	after := float64(v.output() - 1)
	if after <= 0 {
		return none("there is no token after the first")
	}
	inputs = append(inputs, Input{What: "output tokens", Text: fmt.Sprint(v.output())})
	if key == sglang.AttrStepsTokens {
		return answer{value: after / float64(steps), known: true, inputs: inputs}
	}
	return answer{value: seconds(sum) / after, known: true, inputs: inputs}
}

// computeRanks counts the raw thread spans beside this one.
func computeRanks(v *View, _ string) answer {
	if v.raw == nil {
		return unsure("the copies were folded; a file of what came in tells (--raw)")
	}
	self := sglang.ThreadOf(v.at.Attributes())
	var inputs []Input
	for _, kid := range v.raw.kids[v.at.ParentSpanID()] {
		if sglang.KindOf(kid) != sglang.KindThread {
			continue
		}
		t := sglang.ThreadOf(kid.Attributes())
		if t.Label == self.Label && t.Ranks.PP == self.Ranks.PP && t.Ranks.DP == self.Ranks.DP {
			from, to := int64(kid.StartTimestamp()), int64(kid.EndTimestamp())
			inputs = append(inputs, Input{
				What: fmt.Sprintf("%s TP%d", t.Label, t.Ranks.TP), Span: id(kid.SpanID()),
				Text: length(to-from) + ", ended at " + length(to-v.start),
			})
		}
	}
	return answer{value: float64(len(inputs)), known: true, inputs: inputs}
}
