// Copyright The otelcol-sglang Authors
// SPDX-License-Identifier: Apache-2.0

// Package docs finds the shell commands that the documentation tells its readers to
// type: in fenced blocks, in code within a line, and in the heads of configurations.
package docs // import "github.com/otelcol-sglang/otelcol-sglang/test/internal/docs"

import (
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
)

// Command is a command of the documentation.
type Command struct {
	// Text has no comment, and one line.
	Text string
	// File is relative to the project's folder.
	File string
	Line int
}

// skipped are folders whose texts are not ours.
var skipped = []string{".git", ".cache", ".data", ".venv", "bin", "dist", "node_modules", "testdata"}

// Commands are those of all documents below root, in their order.
func Commands(root string) ([]Command, error) {
	var all []Command
	err := filepath.WalkDir(root, func(path string, entry fs.DirEntry, err error) error {
		switch {
		case err != nil:
			return err
		case entry.IsDir() && slices.Contains(skipped, entry.Name()):
			return filepath.SkipDir
		case entry.IsDir():
			return nil
		}
		find := finder(root, path)
		if find == nil {
			return nil
		}
		raw, err := os.ReadFile(path)
		if err != nil {
			return err
		}
		name, err := filepath.Rel(root, path)
		for _, c := range find(string(raw)) {
			c.File = filepath.ToSlash(name)
			all = append(all, c)
		}
		return err
	})
	return all, err
}

// finder is how commands stand in a file; nil where there are none.
func finder(root, path string) func(string) []Command {
	const historyOfReleases = "CHANGELOG.md"
	switch {
	case filepath.Base(path) == historyOfReleases:
		return nil
	case strings.HasSuffix(path, ".md"):
		return InMarkdown
	case strings.HasPrefix(path, filepath.Join(root, "config")), filepath.Base(path) == "Dockerfile":
		return InComments
	}
	return nil
}

var (
	fence    = regexp.MustCompile("^\\s*```(.*)$")
	codeSpan = regexp.MustCompile("`([^`]+)`")
	// program begins what is typed, and something follows it.
	program = regexp.MustCompile(`^(?:[A-Z_]+=\S+ )*(bin/[a-z-]+|scripts/\S+|\.ci/run|sglangctl|otelcol-sglang|sglang-sim|make|go|cd|curl|docker|helm|install|kubectl|pip|prometheus|promtool|python3?|systemctl)(\s+\S|$)`)
	// alone are programs that do something without an argument.
	alone = regexp.MustCompile(`^(?:[A-Z_]+=\S+ )*(bin/[a-z-]+|scripts/\S+|\.ci/run)$`)
	// remark is a comment after a command.
	remark = regexp.MustCompile(`\s+#\s.*$`)
	// shells are the languages of fenced blocks that are commands, line by line.
	shells = []string{"sh", "bash", "shell", "console"}
)

// InMarkdown gives the lines of shell blocks, whatever they are, and what looks like a
// command in other blocks and within lines.
func InMarkdown(text string) []Command {
	var all []Command
	language, fenced := "", false
	for number, line := range logicalLines(text) {
		if m := fence.FindStringSubmatch(line); m != nil {
			language, fenced = m[1], !fenced
			continue
		}
		switch {
		case fenced && slices.Contains(shells, language):
			all = appendCommand(all, line, number, anything)
		case fenced:
			all = appendCommand(all, strings.TrimPrefix(line, "$ "), number, isCommand)
		default:
			for _, m := range codeSpan.FindAllStringSubmatch(line, -1) {
				all = appendCommand(all, strings.ReplaceAll(m[1], `\|`, "|"), number, isCommand)
			}
		}
	}
	return all
}

// InComments gives the indented commands of a file's comments.
func InComments(text string) []Command {
	var all []Command
	for number, line := range logicalLines(text) {
		if rest, ok := strings.CutPrefix(line, "#   "); ok {
			all = appendCommand(all, rest, number, isCommand)
		}
	}
	return all
}

func anything(string) bool { return true }

func isCommand(text string) bool {
	m := program.FindStringSubmatch(text)
	return m != nil && (m[2] != "" || alone.MatchString(text))
}

func appendCommand(to []Command, line string, number int, wanted func(string) bool) []Command {
	text := strings.TrimSpace(remark.ReplaceAllString(line, ""))
	if text == "" || strings.HasPrefix(text, "#") || !wanted(text) {
		return to
	}
	return append(to, Command{Text: text, Line: number})
}

var continued = regexp.MustCompile(`\s*\\$`)

// logicalLines are lines joined at a backslash, each with the number of its first one.
func logicalLines(text string) func(func(int, string) bool) {
	return func(yield func(int, string) bool) {
		begun, first := "", 0
		for i, line := range strings.Split(text, "\n") {
			if begun == "" {
				first = i + 1
			} else {
				line = begun + strings.TrimSpace(line)
			}
			if continued.MatchString(line) {
				begun = continued.ReplaceAllString(line, " ")
				continue
			}
			begun = ""
			if !yield(first, line) {
				return
			}
		}
	}
}
