// Copyright The otelcol-sglang Authors
// SPDX-License-Identifier: Apache-2.0

package doctor // import "github.com/otelcol-sglang/otelcol-sglang/cmd/sglangctl/internal/doctor"

import (
	"encoding/json"
	"fmt"
	"io"
	"strings"

	"github.com/otelcol-sglang/otelcol-sglang/cmd/sglangctl/internal/request"
)

// Status is a check's verdict.
type Status string

// Verdicts.
const (
	OK   Status = "ok"
	Warn Status = "warn"
	Fail Status = "fail"
	// Unknown: there is no evidence for either.
	Unknown Status = "unknown"
)

// Result is one line of the report.
type Result struct {
	Check string `json:"check"`
	// Subject is the engine or collector that was looked at.
	Subject string `json:"subject,omitempty"`
	Status  Status `json:"status"`
	// Seen is the evidence, Do what to do about it.
	Seen string `json:"seen"`
	Do   string `json:"do,omitempty"`
}

func ok(format string, args ...any) Result {
	return Result{Status: OK, Seen: fmt.Sprintf(format, args...)}
}

func warn(seen, do string) Result { return Result{Status: Warn, Seen: seen, Do: do} }

func fail(seen, do string) Result { return Result{Status: Fail, Seen: seen, Do: do} }

// unknown says why it can't be told, and what would tell.
func unknown(why, do string) Result { return Result{Status: Unknown, Seen: why, Do: do} }

// Report is what all checks said, in their order.
type Report struct {
	Results []Result `json:"results"`
}

// Count is the number of results with a status.
func (r Report) Count(s Status) int {
	n := 0
	for _, result := range r.Results {
		if result.Status == s {
			n++
		}
	}
	return n
}

// JSON writes the report as one object.
func (r Report) JSON(w io.Writer) error {
	encoder := json.NewEncoder(w)
	encoder.SetIndent("", "  ")
	encoder.SetEscapeHTML(false)
	return encoder.Encode(r)
}

// Print writes a line for each result, with what to do below it.
func (r Report) Print(w io.Writer) {
	width := 0
	for _, result := range r.Results {
		width = max(width, len(result.Check))
	}
	for _, result := range r.Results {
		seen := result.Seen
		if result.Subject != "" {
			seen = result.Subject + ": " + seen
		}
		fmt.Fprintf(w, "%-8s %-*s  %s\n", result.Status, width, result.Check, seen)
		if result.Do != "" {
			fmt.Fprintf(w, "%s→ %s\n", strings.Repeat(" ", 9+width+2), result.Do)
		}
	}
	fmt.Fprintf(w, "\n%d ok, %d warnings, %d failed, %d unknown\n", r.Count(OK), r.Count(Warn), r.Count(Fail), r.Count(Unknown))
}

// count writes a number of things.
func count(n float64, one string) string {
	if n == 1 {
		return "1 " + one
	}
	return request.Count(int64(n)) + " " + one + "s"
}
