// Copyright The otelcol-sglang Authors
// SPDX-License-Identifier: Apache-2.0

package genaiprocessor // import "github.com/otelcol-sglang/otelcol-sglang/processor/genaiprocessor"

import (
	"strings"

	"go.opentelemetry.io/collector/pdata/ptrace"

	"github.com/otelcol-sglang/otelcol-sglang/internal/sglang"
)

// normalizeName takes request, host and process out of a span's name, so that
// it can be a dimension. The engine's name stays in an attribute.
func normalizeName(span ptrace.Span, kind sglang.SpanKind) {
	name := span.Name()
	short := shortName(span, kind)
	if short == name || short == "" {
		return
	}
	if _, done := span.Attributes().Get(sglang.AttrOriginalName); done {
		return
	}
	span.Attributes().PutStr(sglang.AttrOriginalName, name)
	span.SetName(short)
}

func shortName(span ptrace.Span, kind sglang.SpanKind) string {
	switch kind {
	case sglang.KindRoot:
		if sglang.RoleOf(span.Name()) == sglang.RoleSender {
			return sglang.SpanNameSender
		}
		return sglang.SpanNameRequest
	case sglang.KindRoom:
		return sglang.SpanNameRoom
	case sglang.KindThread:
		if label, ok := span.Attributes().Get(sglang.AttrThreadLabel); ok {
			return shortLabel(label.Str())
		}
	}
	return ""
}

// shortLabel takes the number of a worker out of a thread's label:
// "PrefillMultiTokenizer-4711", "mooncake transfer worker 3".
func shortLabel(label string) string {
	if strings.HasPrefix(label, sglang.TransferWorkerLabelPrefix) {
		return sglang.TransferWorkerLabelPrefix
	}
	if at := strings.Index(label, sglang.MultiTokenizerLabelInfix); at >= 0 {
		return label[:at+len(sglang.MultiTokenizerLabelInfix)]
	}
	return label
}
