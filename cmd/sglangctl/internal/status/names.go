// Copyright The otelcol-sglang Authors
// SPDX-License-Identifier: Apache-2.0

package status // import "github.com/otelcol-sglang/otelcol-sglang/cmd/sglangctl/internal/status"

// metricAccepted is the Collector's own; the others are in the metadata.yaml of
// the components.
const (
	metricAccepted = "receiver_accepted_spans"
	metricEngineUp = "receiver_sglang_engine_up"
	metricKept     = "processor_rankdedup_kept_spans"
	metricSenders  = "processor_rankdedup_senders"
	metricRequests = "processor_genai_requests"
	metricInvalid  = "processor_genai_invalid_values"
)

// trouble is a counter that stays 0 while all is well. label splits it.
type trouble struct{ name, label, text string }

var troubleMetrics = []trouble{
	{"receiver_refused_spans", "", "spans were refused and sent again by the engine"},
	{"receiver_failed_spans", "", "spans failed in the pipeline"},
	{"receiver_sglang_failed_scrapes", "reason", "scrapes gave no whole page"},
	{"exporter_send_failed_spans", "exporter", "spans could not be exported"},
	{"exporter_enqueue_failed_spans", "exporter", "spans did not fit into the export queue"},
	{"exporter_send_failed_metric_points", "exporter", "metric points could not be exported"},
}
