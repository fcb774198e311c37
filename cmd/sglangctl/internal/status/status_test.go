// Copyright The otelcol-sglang Authors
// SPDX-License-Identifier: Apache-2.0

package status

import (
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

const good = `# TYPE otelcol_receiver_accepted_spans counter
otelcol_receiver_accepted_spans{receiver="otlp/sglang",transport="grpc"} 3000
otelcol_receiver_accepted_spans{receiver="otlp/sglang",transport="http"} 700
# TYPE otelcol_processor_rankdedup_spans_at_once counter
otelcol_processor_rankdedup_spans_at_once{processor="rankdedup"} 900
# TYPE otelcol_processor_rankdedup_spans_released counter
otelcol_processor_rankdedup_spans_released{processor="rankdedup"} 200
# TYPE otelcol_processor_rankdedup_senders gauge
otelcol_processor_rankdedup_senders{state="known"} 8
otelcol_processor_rankdedup_senders{state="unknown"} 1
otelcol_processor_rankdedup_senders{state="ambiguous"} 0
# TYPE otelcol_processor_genai_roots counter
otelcol_processor_genai_roots{completeness="complete"} 27
otelcol_processor_genai_roots{completeness="no_scheduler"} 1
# TYPE otelcol_processor_genai_held_roots gauge
otelcol_processor_genai_held_roots{processor="genai"} 0
# TYPE otelcol_receiver_sglang_engine_up gauge
otelcol_receiver_sglang_engine_up{engine="localhost:30000"} 1
`

func TestPrint(t *testing.T) {
	for _, tc := range []struct{ name, page, want string }{
		{"all well", good, `received 3 700 spans of 28 requests from 9 processes; kept 1 100; 0 invalid
  scraped engines: 1 of 1 up
`},
		{
			"names with their type", strings.ReplaceAll(good, "otelcol_processor_genai_roots", "otelcol_processor_genai_roots_total"),
			`received 3 700 spans of 28 requests from 9 processes; kept 1 100; 0 invalid
  scraped engines: 1 of 1 up
`,
		},
		{
			"troubles", good + `# TYPE otelcol_processor_genai_invalid_values counter
otelcol_processor_genai_invalid_values{attribute="time_to_first_token",reason="equals_e2e"} 3
otelcol_processor_genai_invalid_values{attribute="e2e",reason="negative"} 1
# TYPE otelcol_exporter_send_failed_spans counter
otelcol_exporter_send_failed_spans{exporter="file"} 1200
otelcol_receiver_sglang_engine_up{engine="host-b:30000"} 0
otelcol_processor_rankdedup_senders{state="ambiguous"} 2
`,
			`received 3 700 spans of 28 requests from 11 processes; kept 1 100; 4 invalid
  the metrics page of engine host-b:30000 does not answer with a whole page
  scraped engines: 1 of 2 up
  2 senders show more than one rank: see "Identity of a sender" in docs/concepts.md
  4 values of the engine were not believed (equals_e2e 3, negative 1)
  1 200 spans could not be exported (file 1 200)
`,
		},
		{
			"nothing yet", "otelcol_processor_rankdedup_senders{state=\"known\"} 0\notelcol_processor_genai_held_roots 0\n",
			`received 0 spans of 0 requests from 0 processes; kept 0; 0 invalid
  no span has arrived: does the engine run with --enable-trace and --otlp-traces-endpoint?
`,
		},
		{"another collector", "otelcol_process_uptime 3\n", `received ? spans of ? requests from ? processes; kept ?; ? invalid
  no span has arrived: does the engine run with --enable-trace and --otlp-traces-endpoint?
`},
	} {
		t.Run(tc.name, func(t *testing.T) {
			page, err := Parse(strings.NewReader(tc.page))
			require.NoError(t, err)
			var b strings.Builder
			Of(page).Print(&b)
			assert.Equal(t, tc.want, b.String())
		})
	}
}

func TestFetch(t *testing.T) {
	answer, code := good, http.StatusOK
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		w.WriteHeader(code)
		_, _ = w.Write([]byte(answer))
	}))
	defer server.Close()
	page, err := Fetch(t.Context(), server.URL)
	require.NoError(t, err)
	assert.Equal(t, figure{28, true}, page.figure(metricRoots))
	assert.Equal(t, figure{1, true}, page.figure(metricRoots, "completeness", "no_scheduler"))
	assert.Equal(t, figure{}, page.figure("no_such_metric"))

	answer = "<html>"
	_, err = Fetch(t.Context(), server.URL)
	require.ErrorContains(t, err, "not a Prometheus page")
	answer = ""
	_, err = Fetch(t.Context(), server.URL)
	require.ErrorContains(t, err, "the page is empty")
	code = http.StatusNotFound
	_, err = Fetch(t.Context(), server.URL)
	require.ErrorContains(t, err, "HTTP status 404")
}
