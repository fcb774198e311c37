// Copyright The otelcol-sglang Authors
// SPDX-License-Identifier: Apache-2.0

package explain // import "github.com/otelcol-sglang/otelcol-sglang/cmd/sglangctl/internal/explain"

import (
	"fmt"
	"io"
	"math"
	"slices"
	"strings"
	"time"

	"go.opentelemetry.io/collector/pdata/pcommon"
	"go.opentelemetry.io/collector/pdata/ptrace"

	"github.com/otelcol-sglang/otelcol-sglang/cmd/sglangctl/internal/request"
	"github.com/otelcol-sglang/otelcol-sglang/internal/sglang"
)

// rulesOf are the rules for the attributes of a span.
func rulesOf(span ptrace.Span) []rule {
	switch sglang.KindOf(span) {
	case sglang.KindRoot:
		return onRoot
	case sglang.KindThread:
		return onThread
	}
	return onDecode
}

// Explanation is about one attribute of one span.
type Explanation struct {
	Attribute string `json:"attribute"`
	// Span is the name of the span that it stands on.
	Span string `json:"span"`
	// Value is what the collector wrote, "" where it wrote nothing: Why says why.
	Value string  `json:"value,omitempty"`
	Why   string  `json:"why,omitempty"`
	Rule  string  `json:"rule"`
	From  []Input `json:"from,omitempty"`
	// Computed is the value computed once more, Agrees whether it is the written one;
	// both are absent where the spans at hand don't tell.
	Computed string `json:"computed,omitempty"`
	Agrees   *bool  `json:"agrees,omitempty"`
	// Reported is what the engine said and was refused, Refused why.
	Reported string `json:"reported,omitempty"`
	Refused  string `json:"refused,omitempty"`
	// Compared are the times to first token of engine, scheduler and client.
	Compared []Input `json:"compared,omitempty"`
}

// All explains what stands on a request's root and on the spans below it, and
// what of latencies does not. Client is the time to first token that a client
// measured, 0 if none was given.
func All(v *View, kept *Spans, client time.Duration) []Explanation {
	var out []Explanation
	for _, r := range onRoot {
		out = append(out, v.explain(v.root, r, client)...)
	}
	for _, span := range v.spansBelow(kept) {
		for _, r := range rulesOf(span) {
			out = append(out, v.on(span).explain(span, r, client)...)
		}
	}
	return out
}

// spansBelow are the threads and the folded decodes.
func (v *View) spansBelow(kept *Spans) []ptrace.Span {
	var out []ptrace.Span
	for _, thread := range kept.kids[v.root.SpanID()] {
		out = append(out, thread)
		for _, kid := range kept.kids[thread.SpanID()] {
			if _, folded := kid.Attributes().Get(sglang.AttrStepsCount); folded {
				out = append(out, kid)
			}
		}
	}
	return out
}

// explain gives one explanation for each attribute of the rule. A latency that is
// not there is explained too.
func (v *View) explain(span ptrace.Span, r rule, client time.Duration) []Explanation {
	var out []Explanation
	if strings.HasSuffix(r.key, ".") {
		for key := range span.Attributes().All() {
			if strings.HasPrefix(key, r.key) {
				out = append(out, v.explainOne(span, r, key, client))
			}
		}
		slices.SortFunc(out, func(a, b Explanation) int { return byStage(a.Attribute) - byStage(b.Attribute) })
		return out
	}
	_, there := span.Attributes().Get(r.key)
	if there || strings.HasPrefix(r.key, latencyPrefix) {
		out = append(out, v.explainOne(span, r, r.key, client))
	}
	return out
}

func byStage(key string) int {
	return slices.Index(stageOrder, strings.TrimPrefix(key, sglang.AttrBudgetPrefix))
}

func (v *View) explainOne(span ptrace.Span, r rule, key string, client time.Duration) Explanation {
	e := Explanation{Attribute: key, Span: strings.TrimSpace(span.Name()), Rule: r.text}
	written, there := span.Attributes().Get(key)
	if there {
		e.Value = show(key, written)
	}
	if r.compute != nil {
		e.recompute(r.compute(v, key), written, there)
	}
	if name, isLatency := strings.CutPrefix(key, latencyPrefix); isLatency {
		v.refusal(&e, name, key)
	}
	if key == sglang.AttrLatencyTTFT {
		e.Compared = v.threeTTFTs(client)
	}
	return e
}

func (e *Explanation) recompute(a answer, written pcommon.Value, there bool) {
	e.Why, e.From = a.why, a.inputs
	if a.unsure {
		return
	}
	agrees := a.known == there
	if a.known {
		e.Why = ""
		e.Computed = showNumber(e.Attribute, a.value)
		if a.word != "" {
			e.Computed = a.word
		}
	}
	if a.known && there {
		agrees = same(a, written)
	}
	e.Agrees = &agrees
}

// exactness is what seconds may differ by: below the engine's clock.
const exactness = 1e-8

func same(a answer, written pcommon.Value) bool {
	switch written.Type() {
	case pcommon.ValueTypeDouble:
		return math.Abs(a.value-written.Double()) <= exactness
	case pcommon.ValueTypeInt:
		return a.value == float64(written.Int())
	}
	return a.word == written.AsString()
}

// refusal says what the engine reported and was not believed.
func (v *View) refusal(e *Explanation, name, key string) {
	reason := v.refused(name)
	if reason == "" {
		return
	}
	e.Refused = reason
	if text := Reasons[reason]; text != "" {
		e.Refused += ": " + text
	}
	if v.hasSent {
		if sent, ok := v.sent.Attributes().Get(key); ok {
			e.Reported = show(key, sent)
		}
	}
}

// threeTTFTs are those that people compare, and what lies between them.
func (v *View) threeTTFTs(client time.Duration) []Input {
	var out []Input
	engine, ok := v.reported(sglang.AttrLatencyTTFT)
	switch {
	case !ok && v.refused("time_to_first_token") != "":
		out = append(out, Input{What: "engine", Text: "refused; a file of what came in tells its value (--raw)"})
	case ok && (v.hasSent || v.trusts()):
		text := showSeconds(engine)
		if v.refused("time_to_first_token") != "" {
			text += ", refused"
		}
		out = append(out, Input{What: "engine", Text: text + ": from its front end's receipt to the first token there"})
	}
	scheduler := v.ownFirstToken()
	if scheduler.known {
		out = append(out, Input{What: "scheduler", Text: showSeconds(scheduler.value) + ": to the end of the first prefill (less is on the way back: see " + sglang.AttrTTFTLag + ")"})
	}
	if client > 0 {
		text := request.Duration(client) + ": as given; from the client's sending to its first chunk"
		if here, ok := number(v.root, sglang.AttrLatencyTTFT); ok {
			text += ". " + request.Duration(client-time.Duration(here*float64(time.Second))) + " more than the root's: network, gateway, waiting for a connection, the client itself"
		}
		out = append(out, Input{What: "client", Text: text})
	}
	return out
}

// show writes a value with its unit.
func show(key string, v pcommon.Value) string {
	switch v.Type() {
	case pcommon.ValueTypeDouble:
		return showNumber(key, v.Double())
	case pcommon.ValueTypeInt:
		return request.Count(v.Int())
	}
	return v.AsString()
}

// showNumber: what is no length of time is a count or a share.
func showNumber(key string, value float64) string {
	switch key {
	case sglang.AttrStepsTokens, sglang.AttrRanksSlowestShare:
		return fmt.Sprintf("%.3g", value)
	case sglang.AttrStepsCount, sglang.AttrRetractions, sglang.AttrChunks, sglang.AttrTraceLevel, sglang.AttrRanksCount,
		sglang.AttrInputTokens, sglang.AttrOutputTokens, sglang.AttrCacheReadInputTokens:
		return request.Count(int64(value))
	}
	return showSeconds(value)
}

func showSeconds(s float64) string { return request.Duration(time.Duration(s * float64(time.Second))) }

// Matching are the explanations of an attribute: its whole name, or a part of it.
func Matching(all []Explanation, attribute string) ([]Explanation, error) {
	var exact, part []Explanation
	for _, e := range all {
		switch {
		case e.Attribute == attribute:
			exact = append(exact, e)
		case strings.Contains(e.Attribute, attribute):
			part = append(part, e)
		}
	}
	if len(exact) > 0 {
		return exact, nil
	}
	if len(part) == 0 {
		return nil, fmt.Errorf("the request has no attribute that is explained and named like %q", attribute)
	}
	return part, nil
}

// List writes one line for each attribute.
func List(w io.Writer, all []Explanation) {
	span := ""
	for _, e := range all {
		if e.Span != span {
			span = e.Span
			fmt.Fprintf(w, "\n  on %s\n", span)
		}
		value := e.Value
		if value == "" {
			value = "-"
		}
		fmt.Fprintf(w, "    %-42s %12s", e.Attribute, value)
		switch {
		case e.Agrees != nil && !*e.Agrees:
			fmt.Fprintf(w, "   ✗ computed: %s", orWhy(e))
		case e.Refused != "":
			fmt.Fprintf(w, "   the engine's was refused (%s)", e.Refused)
		case e.Value == "":
			fmt.Fprintf(w, "   %s", e.Why)
		}
		fmt.Fprintln(w)
	}
}

func orWhy(e Explanation) string {
	if e.Computed != "" {
		return e.Computed
	}
	return e.Why
}

// ruleWidth is where a rule's text goes on in the next line.
const ruleWidth = 100

// wrap puts breaks between words so that lines stay below a width.
func wrap(text string, width int, br string) string {
	var b strings.Builder
	at := 0
	for i, word := range strings.Fields(text) {
		switch {
		case i == 0:
		case at+len(word) >= width:
			b.WriteString(br)
			at = 0
		default:
			b.WriteByte(' ')
			at++
		}
		b.WriteString(word)
		at += len(word)
	}
	return b.String()
}

// Print writes all that there is to say of each.
func Print(w io.Writer, all []Explanation) {
	for _, e := range all {
		value := e.Value
		if value == "" {
			value = "none: " + e.Why
		}
		fmt.Fprintf(w, "\n%s   %s   (on %s)\n", e.Attribute, value, e.Span)
		fmt.Fprintf(w, "  rule      %s\n", wrap(e.Rule, ruleWidth, "\n            "))
		for _, in := range e.From {
			fmt.Fprintf(w, "  from      %s: %s%s\n", in.What, in.Text, spanNote(in))
		}
		if e.Refused != "" {
			fmt.Fprintf(w, "  refused   the engine's %s: %s\n", e.Reported, e.Refused)
		}
		for _, in := range e.Compared {
			fmt.Fprintf(w, "  compare   %-10s%s\n", in.What, in.Text)
		}
		e.verdict(w)
	}
}

func spanNote(in Input) string {
	if in.Span == "" {
		return ""
	}
	return "   span " + in.Span
}

func (e Explanation) verdict(w io.Writer) {
	switch {
	case e.Agrees == nil && e.Why != "":
		fmt.Fprintf(w, "  computed  can't be told: %s\n", e.Why)
	case e.Agrees == nil:
	case !*e.Agrees:
		fmt.Fprintf(w, "  computed  ✗ %s: this is not what the rule gives\n", orWhy(e))
	case e.Computed != "":
		fmt.Fprintf(w, "  computed  %s, the same\n", e.Computed)
	}
}
