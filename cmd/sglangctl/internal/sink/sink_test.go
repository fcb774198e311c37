// Copyright The otelcol-sglang Authors
// SPDX-License-Identifier: Apache-2.0

package sink

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"go.opentelemetry.io/collector/pdata/ptrace"
)

// line is one batch with one span of the name.
func line(name string) string {
	return `{"resourceSpans":[{"scopeSpans":[{"spans":[{"name":"` + name + `"}]}]}]}`
}

func TestEach(t *testing.T) {
	for _, tc := range []struct {
		name    string
		files   map[string]string
		want    []string
		skipped Skipped
	}{
		{"whole", map[string]string{"traces.jsonl": line("a") + "\n" + line("b") + "\n"}, []string{"a", "b"}, Skipped{}},
		{"last line without an end", map[string]string{"traces.jsonl": line("a") + "\n" + line("b")}, []string{"a", "b"}, Skipped{}},
		{"last line cut", map[string]string{"traces.jsonl": line("a") + "\n" + line("b")[:30]}, []string{"a"}, Skipped{}},
		{"broken line between", map[string]string{"traces.jsonl": line("a") + "\nnonsense\n\n" + line("b") + "\r\n"}, []string{"a", "b"}, Skipped{Broken: 1}},
		{"empty", map[string]string{"traces.jsonl": ""}, nil, Skipped{}},
		{
			"rotated, the oldest first",
			map[string]string{
				"traces.jsonl":                         line("c"),
				"traces-2026-01-02T00-00-00.000.jsonl": line("b"),
				"traces-2026-01-01T00-00-00.000.jsonl": line("a"),
				"other.jsonl":                          line("x"),
			},
			[]string{"a", "b", "c"},
			Skipped{},
		},
	} {
		t.Run(tc.name, func(t *testing.T) {
			dir := t.TempDir()
			for name, text := range tc.files {
				require.NoError(t, os.WriteFile(filepath.Join(dir, name), []byte(text), 0o600))
			}
			var got []string
			skipped, err := Sink{Path: filepath.Join(dir, "traces.jsonl")}.Each(t.Context(), func(traces ptrace.Traces) {
				got = append(got, traces.ResourceSpans().At(0).ScopeSpans().At(0).Spans().At(0).Name())
			})
			require.NoError(t, err)
			assert.Equal(t, tc.want, got)
			assert.Equal(t, tc.skipped, skipped)
		})
	}
}

func TestEachWithoutFile(t *testing.T) {
	_, err := Sink{Path: filepath.Join(t.TempDir(), "traces.jsonl")}.Each(t.Context(), nil)
	require.ErrorIs(t, err, os.ErrNotExist)
}

func TestTooLongLineIsLeftOut(t *testing.T) {
	var skipped Skipped
	n := 0
	text := strings.NewReader(line("a") + "\n" + strings.Repeat("x", 101) + "\n" + line("b") + "\n")
	require.NoError(t, read(t.Context(), text, 100, func(ptrace.Traces) { n++ }, &skipped))
	assert.Equal(t, 2, n)
	assert.Equal(t, Skipped{Long: 1}, skipped)
}

func FuzzRead(f *testing.F) {
	f.Add([]byte(line("a") + "\n" + line("b")[:20]))
	f.Add([]byte("{}\n[]\nnull\n\x00"))
	f.Fuzz(func(t *testing.T, raw []byte) {
		var skipped Skipped
		require.NoError(t, read(t.Context(), strings.NewReader(string(raw)), maxLine, func(traces ptrace.Traces) { traces.SpanCount() }, &skipped))
	})
}
