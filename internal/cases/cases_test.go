// Copyright The otelcol-sglang Authors
// SPDX-License-Identifier: Apache-2.0

package cases

import (
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

const root = "../.."

var (
	row = regexp.MustCompile(`(?m)^\| (\d+) \| (.*?) \| (.*?) \|$`)
	// reference is `folder: TestName` or `folder: TestName/part of it`.
	reference = regexp.MustCompile("`([a-z0-9/]+): (Test\\w+)(?:/([^`]+))?`")
)

// tables are the rows of the two tables: by tests, and by rules.
func tables(t *testing.T) (tests, rules [][]string) {
	t.Helper()
	text, err := os.ReadFile("README.md")
	require.NoError(t, err)
	byTest, byRule, found := strings.Cut(string(text), "| Rule of")
	require.True(t, found)
	return row.FindAllStringSubmatch(byTest, -1), row.FindAllStringSubmatch(byRule, -1)
}

// TestEachCaseHasItsTest: what README.md names is there.
func TestEachCaseHasItsTest(t *testing.T) {
	rows, _ := tables(t)
	require.Greater(t, len(rows), 50)
	seen := map[string]bool{}
	for _, r := range rows {
		number, tests := r[1], r[3]
		assert.False(t, seen[number], "case %s is listed twice", number)
		seen[number] = true
		references := reference.FindAllStringSubmatch(tests, -1)
		assert.NotEmpty(t, references, "case %s names no test", number)
		assert.Len(t, references, strings.Count(tests, "`")/2, "case %s: %s", number, tests)
		for _, ref := range references {
			assert.True(t, exists(t, ref[1], ref[2], ref[3]), "case %s: no %s in %s has %q", number, ref[2], ref[1], ref[3])
		}
	}
}

// exists tells whether a folder's tests have the function, and the part's words in the same file.
func exists(t *testing.T, folder, name, part string) bool {
	t.Helper()
	files, err := filepath.Glob(filepath.Join(root, folder, "*_test.go"))
	require.NoError(t, err)
	for _, file := range files {
		source, err := os.ReadFile(file)
		require.NoError(t, err)
		if strings.Contains(string(source), "func "+name+"(t *testing.T)") {
			return strings.Contains(string(source), part)
		}
	}
	return false
}

func TestEachCaseHasItsRule(t *testing.T) {
	_, rows := tables(t)
	require.NotEmpty(t, rows)
	var all strings.Builder
	for _, file := range []string{"alerts.yaml", "recording.yaml"} {
		text, err := os.ReadFile(filepath.Join(root, "config", "prometheus", file))
		require.NoError(t, err)
		all.Write(text)
	}
	for _, r := range rows {
		for _, rule := range regexp.MustCompile("`([^`]+)`").FindAllStringSubmatch(r[3], -1) {
			assert.Regexp(t, `(?m)- (alert|record): `+regexp.QuoteMeta(rule[1])+"$", all.String(), "case %s", r[1])
		}
	}
}
