// Copyright The otelcol-sglang Authors
// SPDX-License-Identifier: Apache-2.0

package series // import "github.com/otelcol-sglang/otelcol-sglang/connector/genaimetricsconnector/internal/series"

import (
	"strings"
	"unicode/utf8"
)

// maxValue bounds an attribute's value, in bytes.
const maxValue = 256

// Clean makes a text fit to be an attribute's value: one invalid or endless text
// would make the whole page of an exporter fail, or hold its memory. It does not
// allocate where nothing is to be done.
func Clean(text string) string {
	if len(text) <= maxValue && utf8.ValidString(text) {
		return text
	}
	text = strings.ToValidUTF8(text[:min(len(text), 4*maxValue)], "\uFFFD")
	if len(text) <= maxValue {
		return text
	}
	end := maxValue
	for !utf8.RuneStart(text[end]) {
		end--
	}
	return text[:end]
}
