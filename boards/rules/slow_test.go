// Copyright The otelcol-sglang Authors
// SPDX-License-Identifier: Apache-2.0

package rules

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// TestSlowBurn: what takes longer than a scenario. One request a second; four of a
// hundred are late for three hours, which is a ticket and no page; and the times per token
// have no bucket with the objective's bound.
func TestSlowBurn(t *testing.T) {
	const labels = `job="sglang",instance="engine-0",gen_ai_request_model="m"`
	series := map[string]string{
		`gen_ai_server_time_to_first_token_count{` + labels + `}`:                             "0+60x180",
		`gen_ai_server_time_to_first_token_bucket{` + labels + `,le="2.5"}`:                   "0+57.6x180",
		`gen_ai_server_time_to_first_token_bucket{` + labels + `,le="5.0"}`:                   "0+60x180",
		`gen_ai_server_time_per_output_token_count{` + labels + `}`:                           "0+60x180",
		`gen_ai_server_time_per_output_token_bucket{` + labels + `,le="0.12"}`:                "0+60x180",
		`gen_ai_server_request_duration_count{` + labels + `}`:                                "0+60x180",
		`gen_ai_server_request_duration_bucket{` + labels + `,le="40.96"}`:                    "0+60x180",
		`gen_ai_server_request_duration_count{error_type="abort",` + labels + `}`:             "0+6x180",
		`gen_ai_server_request_duration_bucket{error_type="abort",` + labels + `,le="40.96"}`: "0+6x180",
	}
	var b strings.Builder
	b.WriteString("rule_files:\n")
	for _, f := range files() {
		fmt.Fprintf(&b, "  - %s\n", f)
	}
	b.WriteString("evaluation_interval: 30s\ntests:\n  - interval: 1m\n    input_series:\n")
	for _, s := range sorted(series) {
		fmt.Fprintf(&b, "      - {series: '%s', values: '%s'}\n", s, series[s])
	}
	fmt.Fprintf(&b, "    promql_expr_test:\n      - expr: '"+firing+"'\n        eval_time: 3h\n        exp_samples:\n", "3h")
	for _, alert := range []string{"SGLangSLOObjectiveMissing", "SGLangTTFTBudgetBurn"} {
		fmt.Fprintf(&b, "          - {labels: '{alertname=\"%s\", severity=\"ticket\"}', value: 1}\n", alert)
	}
	file := filepath.Join(t.TempDir(), "test.yaml")
	require.NoError(t, os.WriteFile(file, []byte(b.String()), 0o600))
	out, err := exec.CommandContext(t.Context(), need(t, "promtool"), "test", "rules", file).CombinedOutput()
	require.NoError(t, err, "%s", out)
}
