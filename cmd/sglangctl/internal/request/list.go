// Copyright The otelcol-sglang Authors
// SPDX-License-Identifier: Apache-2.0

package request // import "github.com/otelcol-sglang/otelcol-sglang/cmd/sglangctl/internal/request"

import (
	"fmt"
	"text/tabwriter"

	"go.opentelemetry.io/collector/pdata/pcommon"

	"github.com/otelcol-sglang/otelcol-sglang/internal/sglang"
)

// absent stands for a value that is not known; it is not 0.
const absent = "-"

// List prints one line for each request.
func (p Printer) List(requests []Request) error {
	w := tabwriter.NewWriter(p.W, 0, 0, 2, ' ', 0)
	fmt.Fprintln(w, "STARTED\tREQUEST\tTRACE\tIN\tOUT\tTTFT\tTPOT\tQUEUE\tE2E\tRESULT")
	for _, r := range requests {
		in, out := absent, absent
		if n, ok := tokenCount(r.Attrs, sglang.AttrPromptTokens, sglang.AttrInputTokens); ok {
			in = Count(n)
		}
		if n, ok := tokenCount(r.Attrs, sglang.AttrCompletionTokens, sglang.AttrOutputTokens); ok {
			out = Count(n)
		}
		result := r.result()
		if role := sglang.RoleOf(r.Name).String(); role != "" {
			result += ", " + role
		} else if role := text(r.Attrs, sglang.AttrPDRole); role != "" {
			result += ", " + role
		}
		fmt.Fprintf(w, "%s\t%s\t%s\t%s\t%s\t%s\t%s\t%s\t%s\t%s\n",
			r.Start.In(p.Location).Format("15:04:05.000"), short(r.ID(), 16), short(tail(r.TraceID), 16), in, out,
			orAbsent(r.Attrs, sglang.AttrLatencyTTFT), orAbsent(r.Attrs, sglang.AttrOutTPOT),
			orAbsent(r.Attrs, sglang.AttrLatencyInQueue), Duration(r.E2E()), result)
	}
	return w.Flush()
}

func orAbsent(attrs pcommon.Map, key string) string {
	v, ok := number(attrs, key)
	if !ok {
		return absent
	}
	return Duration(seconds(v))
}

func short(s string, n int) string { return s[:min(len(s), n)] }

// tail leaves out the leading zeros of the engine's trace ids; Find takes both.
func tail(id pcommon.TraceID) string {
	s := id.String()
	for len(s) > 1 && s[0] == '0' {
		s = s[1:]
	}
	return s
}
