// Copyright The otelcol-sglang Authors
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

func TestGeneratedIsFresh(t *testing.T) {
	in, err := os.ReadFile("../../catalogue.yaml")
	require.NoError(t, err)
	want, err := generate(in)
	require.NoError(t, err)
	got, err := os.ReadFile("../../catalogue_generated.go")
	require.NoError(t, err)
	assert.Equal(t, string(want), string(got), "run: go generate ./internal/sglang")
}

func TestRun(t *testing.T) {
	out := filepath.Join(t.TempDir(), "out.go")
	require.NoError(t, run([]string{"../../catalogue.yaml", out}))
	assert.FileExists(t, out)
	require.Error(t, run([]string{"../../catalogue.yaml"}))
	require.Error(t, run([]string{"absent.yaml", out}))
}

func TestGenerateRefuses(t *testing.T) {
	const good = `type: gauge, source: http, default_emitters: none, across_tp: private, tp_reduce: keep, across_dp: sum`
	for name, tc := range map[string]struct{ in, err string }{
		"unknown key":     {`bogus: 1`, "bogus"},
		"unknown word":    {`families: [{name: "sglang:a", ` + good + `, sentinel: zero}]`, `sglang:a: sentinel is unknown (got "zero")`},
		"prefix":          {`families: [{name: "a", ` + good + `}]`, "a: name must begin with sglang:"},
		"twice":           {`families: [{name: "sglang:a", ` + good + `}, {name: "sglang:a", ` + good + `}]`, "sglang:a: listed twice"},
		"gauge's buckets": {`families: [{name: "sglang:a", ` + good + `, buckets: [1]}]`, "has buckets"},
		"unsorted":        {`families: [{name: "sglang:a", type: histogram, ` + good[13:] + `, buckets: [2, 1]}]`, "must ascend"},
		"histogram sum":   {`families: [{name: "sglang:a", type: histogram, source: http, default_emitters: none, across_tp: private, tp_reduce: sum, across_dp: sum, buckets: [1]}]`, `(got "sum")`},
		"rename":          {`renames: [{from: a, to: b}]`, "rename of a"},
		"type change":     {`type_changes: [{name: a, type: gauge}]`, "type change of a"},
	} {
		t.Run(name, func(t *testing.T) {
			_, err := generate([]byte(tc.in))
			require.ErrorContains(t, err, tc.err)
		})
	}
}
