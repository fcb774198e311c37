// Copyright The otelcol-sglang Authors
// SPDX-License-Identifier: Apache-2.0

package rules

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/prometheus/common/model"
	"github.com/prometheus/prometheus/model/labels"
	"github.com/prometheus/prometheus/promql/parser"
	"github.com/stretchr/testify/require"
	"go.yaml.in/yaml/v3"

	"github.com/otelcol-sglang/otelcol-sglang/boards/record"
)

// rule is one of a rule file.
type rule struct {
	Record, Alert, Expr, For string
	Labels, Annotations      map[string]string
}

// files are those of config/prometheus, in the order in which they need each other.
func files() []string {
	var out []string
	for _, name := range []string{"recording.yaml", "slo.yaml", "alerts.yaml"} {
		out = append(out, filepath.Join(record.Root(), "config", "prometheus", name))
	}
	return out
}

func readRules(t *testing.T) (all []rule) {
	t.Helper()
	for _, name := range files() {
		raw, err := os.ReadFile(name)
		require.NoError(t, err)
		var f struct{ Groups []struct{ Rules []rule } }
		require.NoError(t, yaml.Unmarshal(raw, &f))
		for _, g := range f.Groups {
			all = append(all, g.Rules...)
		}
	}
	return all
}

// recorded are the names that recording rules make.
func recorded(rules []rule) map[string]bool {
	out := map[string]bool{}
	for _, r := range rules {
		if r.Record != "" {
			out[r.Record] = true
		}
	}
	return out
}

// namesIn are the series' names that a query reads.
func namesIn(t *testing.T, query string) (names []string) {
	t.Helper()
	expr, err := parser.NewParser(parser.Options{}).ParseExpr(query)
	require.NoError(t, err, query)
	parser.Inspect(expr, func(n parser.Node, _ []parser.Node) error {
		s, ok := n.(*parser.VectorSelector)
		if !ok {
			return nil
		}
		name := s.Name
		for _, m := range s.LabelMatchers {
			if m.Name == model.MetricNameLabel && m.Type == labels.MatchEqual {
				name = m.Value
			}
		}
		names = append(names, name)
		return nil
	})
	return names
}
