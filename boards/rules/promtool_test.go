// Copyright The otelcol-sglang Authors
// SPDX-License-Identifier: Apache-2.0

package rules

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/prometheus/common/model"
	"github.com/stretchr/testify/require"

	"github.com/otelcol-sglang/otelcol-sglang/boards/internal/prometheus"
)

// firing is what promtool is asked: alerts with their severity.
const firing = `group by (alertname, severity) (max_over_time(ALERTS{alertstate="firing"}[%s]))`

// firedBy gives the alerts that fired from the beginning to each of the times. input are
// series in promtool's notation. What promtool gets is no test of its own: it is asked
// to expect nothing, and what it got is read.
func firedBy(t *testing.T, step time.Duration, input string, times ...time.Duration) [][]string {
	t.Helper()
	var b strings.Builder
	b.WriteString("rule_files:\n")
	for _, f := range files() {
		fmt.Fprintf(&b, "  - %s\n", f)
	}
	fmt.Fprintf(&b, "evaluation_interval: 30s\ntests:\n  - interval: %s\n    input_series:\n%s    promql_expr_test:\n", step, input)
	for _, at := range times {
		fmt.Fprintf(&b, "      - expr: '"+firing+"'\n        eval_time: %s\n        exp_samples: []\n", at, at)
	}
	file := filepath.Join(t.TempDir(), "test.yaml")
	require.NoError(t, os.WriteFile(file, []byte(b.String()), 0o600))
	cmd := exec.CommandContext(t.Context(), prometheus.Need(t, "promtool"), "test", "rules", file)
	out, _ := cmd.CombinedOutput() // it fails where alerts fired
	var fired [][]string
	some := false
	for _, at := range times {
		alerts := alertsIn(string(out), at)
		some = some || len(alerts) > 0
		fired = append(fired, alerts)
	}
	if !some && !strings.Contains(string(out), "SUCCESS") {
		t.Fatalf("promtool: %.2000s", out)
	}
	return fired
}

// alertsIn reads what promtool got at a time.
func alertsIn(out string, at time.Duration) (alerts []string) {
	_, rest, ok := strings.Cut(out, "time: "+model.Duration(at).String())
	if !ok {
		return nil
	}
	_, rest, _ = strings.Cut(rest, "got:")
	rest, _, _ = strings.Cut(rest, "expr:")
	for _, part := range strings.Split(rest, "alertname=\"")[1:] {
		name, more, _ := strings.Cut(part, `"`)
		_, severity, _ := strings.Cut(more, `severity="`)
		severity, _, _ = strings.Cut(severity, `"`)
		if severity == "page" {
			name += pageSuffix
		}
		alerts = append(alerts, name)
	}
	slices.Sort(alerts)
	return alerts
}

// pageSuffix is on the names of alerts that wake someone up.
const pageSuffix = " (page)"

// made are series in promtool's notation, by name and labels.
func made(series map[string]string) string {
	var b strings.Builder
	for _, s := range sorted(series) {
		fmt.Fprintf(&b, "      - {series: '%s', values: '%s'}\n", s, series[s])
	}
	return b.String()
}
