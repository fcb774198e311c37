// Copyright The otelcol-sglang Authors
// SPDX-License-Identifier: Apache-2.0

package status // import "github.com/otelcol-sglang/otelcol-sglang/cmd/sglangctl/internal/status"

// metricAccepted is the Collector's own; the others are in the metadata.yaml of
// the components.
const (
	metricAccepted = "receiver_accepted_spans"
	metricEngineUp = "receiver_sglang_engine_up"
	metricSenders  = "processor_rankdedup_senders"
	metricAtOnce   = "processor_rankdedup_spans_at_once"
	metricReleased = "processor_rankdedup_spans_released"
	metricRoots    = "processor_genai_roots"
	metricInvalid  = "processor_genai_invalid_values"
	// metricHeldRoots is a gauge.
	metricHeldRoots = "processor_genai_held_roots"
)

// trouble is a number that is 0 while all is well. only restricts it to series with
// a label's value, by splits it.
type trouble struct {
	name string
	only []string
	by   string
	text string
}

var troubles = []trouble{
	{name: "receiver_refused_spans", text: "spans were refused; the engine's exporters send them again"},
	{name: "receiver_failed_spans", text: "spans failed in the pipeline"},
	{name: "receiver_sglang_failed_scrapes", by: "reason", text: "scrapes gave no whole page"},
	{name: "receiver_sglang_engine_restarts", by: "engine", text: "restarts of engines"},
	{name: metricSenders, only: []string{"state", "ambiguous"}, text: "senders show more than one rank: see \"Identity of a sender\" in docs/concepts.md"},
	{name: "processor_rankdedup_spans_lost", by: "reason", text: "spans were lost in rankdedup"},
	{name: "processor_rankdedup_spans_early_release", by: "reason", text: "spans left rankdedup early, perhaps next to a copy"},
	{name: metricInvalid, by: "reason", text: "values of the engine were not believed"},
	{name: "processor_genai_lost_spans", by: "reason", text: "spans were lost in genai"},
	{name: "processor_genai_refused_batches", text: "batches were refused by genai, as the exporter takes nothing"},
	{name: "processor_genai_requests_without_root", text: "requests ended without a root: health probes, or lost by the engine"},
	{name: "exporter_send_failed_spans", by: "exporter", text: "spans could not be exported"},
	{name: "exporter_enqueue_failed_spans", by: "exporter", text: "spans did not fit into the export queue"},
	{name: "exporter_send_failed_metric_points", by: "exporter", text: "metric points could not be exported"},
}
