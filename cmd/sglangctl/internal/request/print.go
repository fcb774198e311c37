// Copyright The otelcol-sglang Authors
// SPDX-License-Identifier: Apache-2.0

package request // import "github.com/otelcol-sglang/otelcol-sglang/cmd/sglangctl/internal/request"

import (
	"fmt"
	"io"
	"strings"
	"time"

	"go.opentelemetry.io/collector/pdata/pcommon"

	"github.com/otelcol-sglang/otelcol-sglang/internal/sglang"
)

// Printer writes requests. Times of day are shown in Location.
type Printer struct {
	W        io.Writer
	Location *time.Location
	// All shows every span; without it long runs of equal ones are cut short.
	All bool
	// Events shows the spans' events.
	Events bool
}

// Print writes the tree's requests one after the other, then the spans of the
// trace that belong to none of them.
func (p Printer) Print(t *Tree, requests []Request) {
	orphans := t.link()
	for i, r := range requests {
		if i > 0 {
			fmt.Fprintln(p.W)
		}
		p.header(r)
		p.budget(r)
		if root := t.nodes[r.SpanID]; root != nil {
			p.spans(root, r.Start, r.E2E())
		}
	}
	if len(orphans) == 0 || len(requests) == 0 {
		return
	}
	fmt.Fprintf(p.W, "\n  %s of this trace without their parent in the file\n", plural(len(orphans), "span"))
	for _, n := range orphans {
		p.spans(n, requests[0].Start, requests[0].E2E())
	}
}

func (p Printer) header(r Request) {
	fmt.Fprintf(p.W, "request  %s", r.ID())
	if model := text(r.Attrs, sglang.AttrResponseModel, sglang.AttrRequestModel); model != "" {
		fmt.Fprintf(p.W, "   %s", model)
	}
	fmt.Fprintf(p.W, "\ntrace    %s   started %s\n\n", r.TraceID, r.Start.In(p.Location).Format("2006-01-02 15:04:05.000"))
	p.field("result", r.result())
	p.field("tokens", r.tokens())
	p.field("latency", r.latency())
	p.field("inside", r.inside())
	p.field("pair", r.pair())
	p.field("refused", refused(r.Attrs))
	p.field("complete", incomplete(r.Attrs))
}

func (p Printer) field(name, value string) {
	if value != "" {
		fmt.Fprintf(p.W, "  %s%s\n", padRight(name, 10), value)
	}
}

// result is why the request ended; the engine sets no status on roots.
func (r Request) result() string {
	out := "unknown"
	if v, ok := r.Attrs.Get(sglang.AttrFinishReasons); ok {
		out = strings.Trim(strings.ReplaceAll(v.AsString(), `"`, ""), "[]")
	}
	if kind := text(r.Attrs, sglang.AttrErrorType); kind != "" {
		out += " (error " + kind + ")"
	}
	if n, ok := number(r.Attrs, sglang.AttrRetractions); ok && n > 0 {
		out += ", " + plural(int(n), "retraction")
	}
	return out
}

func (r Request) tokens() string {
	var parts []string
	if n, ok := tokenCount(r.Attrs, sglang.AttrPromptTokens, sglang.AttrInputTokens); ok {
		in := Count(n) + " in"
		if cached, ok := tokenCount(r.Attrs, sglang.AttrCachedTokens, sglang.AttrCacheReadInputTokens); ok && cached > 0 {
			in += " (" + Count(cached) + " from the cache)"
		}
		if chunks, ok := number(r.Attrs, sglang.AttrChunks); ok && chunks > 1 {
			in += fmt.Sprintf(" in %.0f chunks", chunks)
		}
		parts = append(parts, in)
	}
	if n, ok := tokenCount(r.Attrs, sglang.AttrCompletionTokens, sglang.AttrOutputTokens); ok {
		parts = append(parts, Count(n)+" out")
	}
	return strings.Join(parts, ", ")
}

// tokenCount reads the engine's key or that of the semantic conventions.
func tokenCount(attrs pcommon.Map, keys ...string) (int64, bool) {
	for _, key := range keys {
		if n, ok := number(attrs, key); ok {
			return int64(n), true
		}
	}
	return 0, false
}

// latency is what the user of the engine felt.
func (r Request) latency() string {
	ttft := named(r.Attrs, "TTFT", sglang.AttrLatencyTTFT)
	if source := text(r.Attrs, sglang.AttrTTFTSource); ttft != "" && source != "" {
		ttft += " (by the " + source + ")"
	}
	return join(ttft, named(r.Attrs, "TPOT", sglang.AttrOutTPOT), "E2E "+Duration(r.E2E()))
}

// inside is where the engine spent it.
func (r Request) inside() string {
	return join(
		named(r.Attrs, "queue", sglang.AttrLatencyInQueue),
		named(r.Attrs, "prefill", sglang.AttrPrefillCompute),
		named(r.Attrs, "decode", sglang.AttrDecodeCompute),
		named(r.Attrs, "bootstrap", sglang.AttrBootstrap),
		named(r.Attrs, "KV transfer", sglang.AttrKVTransfer),
	)
}

// pair is the request's place in PD disaggregation.
func (r Request) pair() string {
	role := text(r.Attrs, sglang.AttrPDRole)
	if role == "" {
		role = sglang.RoleOf(r.Name).String()
	}
	if role == "" {
		return ""
	}
	out := role + " half"
	if room := text(r.Attrs, sglang.AttrBootstrapRoom); room != "" {
		out += ", room " + room
	}
	switch peer := text(r.Attrs, sglang.AttrPDPeerTraceID); peer {
	case "":
	case r.TraceID.String():
		out += ", the other half is in this trace"
	default:
		out += ", the other half is in trace " + peer
	}
	if v, ok := r.Attrs.Get(sglang.AttrPDJoined); ok && v.AsString() == "false" {
		out += ", the other half did not arrive"
	}
	return out
}

// refused lists the engine's values that were not believed.
func refused(attrs pcommon.Map) string {
	v, ok := attrs.Get(sglang.AttrLatencyInvalid)
	if !ok {
		return ""
	}
	if v.Type() != pcommon.ValueTypeSlice {
		return v.AsString()
	}
	var all []string
	for _, item := range v.Slice().All() {
		all = append(all, item.AsString())
	}
	return strings.Join(all, ", ")
}

// incomplete is why values may be absent; "" where none should be.
func incomplete(attrs pcommon.Map) string {
	c := text(attrs, sglang.AttrCompleteness)
	if c == "" || c == sglang.CompletenessComplete {
		return ""
	}
	return "no, " + strings.ReplaceAll(c, "_", " ")
}

func named(attrs pcommon.Map, name, key string) string {
	v, ok := number(attrs, key)
	if !ok {
		return ""
	}
	return name + " " + Duration(seconds(v))
}

func join(parts ...string) string {
	var kept []string
	for _, p := range parts {
		if p != "" {
			kept = append(kept, p)
		}
	}
	return strings.Join(kept, "   ")
}

// budgetStages are the parts of a request's time, in the order in which it
// passes them (docs: processor/genaiprocessor/README.md).
var budgetStages = []string{
	"tokenize", "dispatch", "intake", "bootstrap", "queue", "prefill", "kv_transfer", "decode_wait",
	"decode", "retract_wait", "reprefill", "finish", "unattributed",
}

const budgetWidth = 40

// budget draws the stages that took time, each where the one before it ends.
func (p Printer) budget(r Request) {
	total := r.E2E().Seconds()
	if total <= 0 {
		return
	}
	at, heading := 0.0, "\n  where the time went\n"
	for _, stage := range budgetStages {
		v, ok := number(r.Attrs, sglang.AttrBudgetPrefix+stage)
		if !ok || v <= 0 {
			continue
		}
		fmt.Fprintf(p.W, "%s  %s%s  %s  ▕%s▏\n", heading, padRight(stage, 14), padLeft(Duration(seconds(v)), 9),
			padLeft(fmt.Sprintf("%.1f %%", 100*v/total), 7), bar(at/total, (at+v)/total, budgetWidth))
		at, heading = at+v, ""
	}
}
