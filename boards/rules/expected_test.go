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

// longAnswers is why a healthy engine breaks the objective for whole answers.
const longAnswers = "answers of a thousand tokens take longer than the objective allows: it wants another bound there"

// ownFault is why an alert fires on the fault that it is for.
const ownFault = "its own fault"

// expected are the alerts of each scenario, and why.
var expected = map[string]map[string]string{
	"healthy":        {},
	"healthy-bursts": {},
	"overload": {
		"SGLangQueueGrowth":           ownFault,
		"SGLangTTFTBudgetBurn":        "first tokens wait in the queue",
		"SGLangTTFTBudgetBurn (page)": ownFault,
		"SGLangE2EBudgetBurn (page)":  "the wait is a part of the answer's time",
	},
	"queue-full": {
		"SGLangAvailabilityBudgetBurn (page)": ownFault,
		"SGLangQueueGrowth":                   "a full queue is a long one",
		"SGLangTTFTBudgetBurn":                "first tokens wait in the queue",
		"SGLangTTFTBudgetBurn (page)":         "first tokens wait in the queue",
	},
	"kv-pressure": {
		"SGLangKVPressure":            ownFault,
		"SGLangQueueGrowth":           "requests wait for the pool",
		"SGLangTTFTBudgetBurn":        "requests wait for the pool",
		"SGLangTTFTBudgetBurn (page)": "requests wait for the pool",
		"SGLangE2EBudgetBurn (page)":  "the wait is a part of the answer's time",
	},
	"retractions": {
		"SGLangRetractionStorm":       ownFault,
		"SGLangKVPressure":            "a full pool is why",
		"SGLangQueueGrowth":           "requests wait for the pool",
		"SGLangTTFTBudgetBurn (page)": "requests wait for the pool",
		"SGLangE2EBudgetBurn":         longAnswers,
		"SGLangE2EBudgetBurn (page)":  longAnswers,
	},
	"cache-drift": {
		"SGLangCacheDrift":            ownFault,
		"SGLangKVPressure":            "the pool that holds no prefixes holds few requests",
		"SGLangQueueGrowth":           "requests wait for the pool",
		"SGLangTTFTBudgetBurn":        "requests wait for the pool",
		"SGLangTTFTBudgetBurn (page)": "requests wait for the pool",
	},
	"slow-rank": {
		"SGLangRankSkew": ownFault,
	},
	"clock-skew": {
		"SGLangRankSkew": "clocks that jump apart look the same; the runbook tells them apart",
	},
	"dead-rank": {
		"SGLangRanksSilent": ownFault,
	},
	"dead-rank-of-8": {
		"SGLangRanksSilent": ownFault,
	},
	"dp-skew-routing": {
		"SGLangDPSkewRouting": ownFault,
	},
	"dp-skew-length": {
		"SGLangDPSkewLength": ownFault,
	},
	"worse-drafts": {
		"SGLangWorseDrafts": ownFault,
	},
	"scheduler-stall": {
		"SGLangSchedulerStall": ownFault,
	},
	"slow-steps": {
		"SGLangSchedulerStall":        "a longer stall",
		"SGLangTPOTBudgetBurn":        "each step is late",
		"SGLangTPOTBudgetBurn (page)": ownFault,
		"SGLangE2EBudgetBurn (page)":  ownFault,
	},
	"stuck": {
		"SGLangSchedulerStuck (page)":       ownFault,
		"SGLangRequestsNotFinishing (page)": ownFault,
		"SGLangRequestsOpenTooLong":         ownFault,
	},
	"slow-transfer": {
		"SGLangPDTransferSlow": ownFault,
	},
	"failing-transfer": {
		"SGLangPDTransferFailures":            ownFault,
		"SGLangAvailabilityBudgetBurn":        "users get errors, though spans call them aborts",
		"SGLangAvailabilityBudgetBurn (page)": "users get errors, though spans call them aborts",
	},
	"frontend-flood": {
		"SGLangFrontendFlood": ownFault,
	},
	"restart": {
		"SGLangEngineRestarted":     ownFault,
		"SGLangRequestsOpenTooLong": "what was open when it crashed never ends",
	},
	"page-500": {
		"SGLangEnginePageDown":   ownFault,
		"SGLangSpansWithoutPage": "that is what is left",
	},
	"page-slow": {
		"SGLangEnginePageDown":   ownFault,
		"SGLangSpansWithoutPage": "that is what is left",
	},
	"page-empty": {
		"SGLangEnginePageDown":   ownFault,
		"SGLangSpansWithoutPage": "that is what is left",
	},
	"no-spans": {
		"SGLangPageWithoutSpans":    ownFault,
		"SGLangRequestsOpenTooLong": "the ends of what was open never come",
	},
	"no-collector": {
		"SGLangCollectorDown (page)": ownFault,
	},
	"no-backend": {
		"SGLangTelemetryRefused":    ownFault,
		"SGLangRequestsOpenTooLong": "the ends of what was open never come",
	},
	"no-scheduler-spans": {
		"SGLangSchedulerSpansMissing": ownFault,
	},
	"exporter-overload": {
		"SGLangIncompleteRoots":       ownFault,
		"SGLangSchedulerSpansMissing": "where all of a request's are lost",
	},
	"metrics-off": {
		"SGLangInvalidValues":    ownFault,
		"SGLangSpansWithoutPage": ownFault,
		"SGLangEnginePageDown":   "an engine without metrics has no page",
	},
	"coarse-buckets": {
		"SGLangHistogramOverflow": ownFault,
	},
}

// early are alerts that fire before the fault, and why.
var early = map[string]map[string]string{
	"retractions": {
		"SGLangE2EBudgetBurn":        longAnswers,
		"SGLangE2EBudgetBurn (page)": longAnswers,
	},
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
