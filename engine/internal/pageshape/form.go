// Copyright The otelcol-sglang Authors
// SPDX-License-Identifier: Apache-2.0

package pageshape // import "github.com/otelcol-sglang/otelcol-sglang/engine/internal/pageshape"

import (
	"maps"
	"slices"
	"strings"

	"github.com/prometheus/common/model"
)

// Topics of [Shape.Forms].
const (
	formSamples  = "spelling of samples"
	formMetadata = "spelling of metadata"
	formHelp     = "HELP lines"
	formCreated  = "_created samples"
	formEnd      = "end"
	formNumbers  = "whole numbers"
	formCounts   = "whole counts of histograms"
	formBounds   = "whole bounds"
	formLabels   = "order of labels"
)

var topics = [...]string{
	formSamples, formMetadata, formHelp, formCreated, formEnd, formNumbers, formCounts, formBounds, formLabels,
}

const (
	typePrefix = "# TYPE "
	helpPrefix = "# HELP "
	endLine    = "# EOF"
	// prefixLen is the length of "sglang:" and "sglang_".
	prefixLen = len("sglang:")
)

// forms collects the ways in which things are written, by topic.
type forms map[string]map[string]struct{}

func (f forms) note(topic, form string) {
	if form == "" {
		return
	}
	if f[topic] == nil {
		f[topic] = map[string]struct{}{}
	}
	f[topic][form] = struct{}{}
}

func formsOf(page string) map[string]string {
	f := forms{}
	for line := range strings.Lines(page) {
		f.line(strings.TrimSuffix(line, "\n"))
	}
	out := map[string]string{}
	for topic, forms := range f {
		out[topic] = strings.Join(slices.Sorted(maps.Keys(forms)), ", ")
	}
	return out
}

func (f forms) line(line string) {
	switch {
	case strings.HasPrefix(line, typePrefix):
		f.note(formMetadata, prefixOf(line[len(typePrefix):]))
	case strings.HasPrefix(line, helpPrefix):
		f.note(formHelp, "yes")
	case line == endLine:
		f.note(formEnd, endLine)
	case !strings.HasPrefix(line, "#"):
		f.sample(line)
	}
}

func (f forms) sample(line string) {
	name := line[:max(0, strings.IndexAny(line, "{ "))]
	value := line[strings.LastIndexByte(line, ' ')+1:]
	topic := formNumbers
	switch {
	case strings.HasSuffix(name, "_bucket"), strings.HasSuffix(name, "_count"):
		topic = formCounts
	case strings.HasSuffix(name, "_created"):
		f.note(formCreated, "yes")
	}
	f.note(topic, wholeForm(value))
	f.note(formSamples, prefixOf(name))
	names, bound := rawLabels(line[len(name):])
	f.note(formBounds, wholeForm(bound))
	if slices.IsSorted(names) {
		f.note(formLabels, "by name")
	} else {
		f.note(formLabels, "not by name")
	}
}

func prefixOf(name string) string { return name[:min(len(name), prefixLen)] }

// rawLabels are the names in the order of the line, and the value of le. No value
// of the engine's has a quote or a brace in it.
func rawLabels(rest string) (names []string, bound string) {
	inside, _, _ := strings.Cut(strings.TrimPrefix(rest, "{"), "}")
	for pair := range strings.SplitSeq(inside, `",`) {
		name, value, ok := strings.Cut(pair, `="`)
		if !ok {
			continue
		}
		names = append(names, name)
		if name == model.BucketLabel {
			bound = strings.TrimSuffix(value, `"`)
		}
	}
	return names, bound
}

// wholeForm is how a number without a fraction or an exponent is written; "" for others.
func wholeForm(v string) string {
	whole, point := strings.CutSuffix(v, ".0")
	digits := strings.TrimPrefix(whole, "-")
	switch {
	case digits == "" || strings.Trim(digits, "0123456789") != "":
		return ""
	case point:
		return "1.0"
	default:
		return "1"
	}
}
