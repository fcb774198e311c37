// Copyright The otelcol-sglang Authors
// SPDX-License-Identifier: Apache-2.0

package series // import "github.com/otelcol-sglang/otelcol-sglang/connector/genaimetricsconnector/internal/series"

import (
	"strings"
	"unicode/utf8"
)

const (
	// maxValue bounds an attribute's value, in bytes.
	maxValue = 256
	// maxRaw bounds what is looked at of one.
	maxRaw = 4 * maxValue
)

// Cut shortens a text to what this package looks at.
func Cut(text string) string { return text[:min(len(text), maxRaw)] }

// clean makes a text fit to be an attribute's value: one invalid or endless text
// would make the whole page of an exporter fail, or hold its memory.
func clean(text string) string {
	if len(text) <= maxValue && utf8.ValidString(text) {
		return text
	}
	text = strings.ToValidUTF8(Cut(text), "\uFFFD")
	if len(text) <= maxValue {
		return text
	}
	end := maxValue
	for !utf8.RuneStart(text[end]) {
		end--
	}
	return text[:end]
}
