// Copyright The otelcol-sglang Authors
// SPDX-License-Identifier: Apache-2.0

package rules

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"
	"text/tabwriter"

	"github.com/otelcol-sglang/otelcol-sglang/boards/record"
)

// ownFault is why an alert fires on the fault that it is for.
const ownFault = "its own fault"

// expected are the alerts of each scenario, and why.
var expected = map[string]map[string]string{
	"healthy":        {},
	"healthy-bursts": {},
}

func keys(m map[string]string) []string { return slices.Sorted(maps.Keys(m)) }

// printMatrix logs which alert fired where: X its own fault, + expected with it.
func printMatrix(t *testing.T, fired map[string]map[string]string) {
	t.Helper()
	alerts := map[string]bool{}
	for _, of := range fired {
		for a := range of {
			alerts[a] = true
		}
	}
	var b strings.Builder
	w := tabwriter.NewWriter(&b, 0, 0, 1, ' ', 0)
	scenarios := record.Scenarios()
	for i, s := range scenarios {
		fmt.Fprintf(w, "%d\t%s\t%s\n", i, s.Name, s.About)
	}
	_ = w.Flush()
	fmt.Fprint(w, "\n")
	for i := range scenarios {
		fmt.Fprintf(w, "\t%d", i)
	}
	for _, a := range slices.Sorted(maps.Keys(alerts)) {
		fmt.Fprintf(w, "\n%s", a)
		for _, s := range scenarios {
			fmt.Fprintf(w, "\t%s", mark(fired[s.Name], a))
		}
	}
	_ = w.Flush()
	t.Logf("X: its own fault, +: expected with it, ?: not expected\n\n%s", b.String())
}

func mark(fired map[string]string, alert string) string {
	why, ok := fired[alert]
	switch {
	case !ok:
		return "."
	case why == ownFault:
		return "X"
	case why == "":
		return "?"
	}
	return "+"
}
