// Copyright The otelcol-sglang Authors
// SPDX-License-Identifier: Apache-2.0

package genaiprocessor // import "github.com/otelcol-sglang/otelcol-sglang/processor/genaiprocessor"

import (
	"strings"
	"sync"

	"go.opentelemetry.io/collector/pdata/pcommon"
	"go.opentelemetry.io/collector/pdata/ptrace"
	"go.uber.org/zap"

	"github.com/otelcol-sglang/otelcol-sglang/internal/sglang"
)

// Values of the attribute reason of the counter of stripped attributes.
const (
	strippedUnknown = "unknown"
	strippedContent = "content"
)

// stripper takes attributes off spans that are not meant to leave: on spans of the
// engine whatever is not known, elsewhere what is known to be content.
type stripper struct {
	exact    map[string]struct{}
	prefixes []string
	tel      *telemetry
	logger   *zap.Logger

	mu sync.Mutex
	// named are the attributes that the log has named, at most maxNamed; guarded by mu.
	named map[string]struct{}
}

// maxNamed bounds the lines in the log: senders choose the names.
const maxNamed = 32

func newStripper(allow []string, tel *telemetry, logger *zap.Logger) *stripper {
	s := &stripper{exact: map[string]struct{}{}, tel: tel, logger: logger, named: map[string]struct{}{}}
	for _, name := range allow {
		if prefix, ok := strings.CutSuffix(name, "*"); ok {
			s.prefixes = append(s.prefixes, prefix)
		} else {
			s.exact[name] = struct{}{}
		}
	}
	return s
}

// allowed tells whether the settings let an attribute pass.
func (s *stripper) allowed(key string) bool {
	if _, ok := s.exact[key]; ok {
		return true
	}
	for _, prefix := range s.prefixes {
		if strings.HasPrefix(key, prefix) {
			return true
		}
	}
	return false
}

// Tests of what must not leave.
type unwanted func(key string) bool

func unknown(key string) bool { return !sglang.KnownAttribute(key) }

func anything(string) bool { return true }

// engine strips a span of the engine.
func (s *stripper) engine(span ptrace.Span) {
	s.strip(span.Attributes(), unknown, strippedUnknown)
	for _, event := range span.Events().All() {
		s.strip(event.Attributes(), unknown, strippedUnknown)
	}
	for _, link := range span.Links().All() {
		s.strip(link.Attributes(), unknown, strippedUnknown)
	}
}

// foreign strips a span that someone else made.
func (s *stripper) foreign(span ptrace.Span) {
	s.strip(span.Attributes(), sglang.ContentAttribute, strippedContent)
	for _, event := range span.Events().All() {
		if strings.HasPrefix(event.Name(), sglang.ContentEventPrefix) {
			s.strip(event.Attributes(), anything, strippedContent)
		} else {
			s.strip(event.Attributes(), sglang.ContentAttribute, strippedContent)
		}
	}
	for _, link := range span.Links().All() {
		s.strip(link.Attributes(), sglang.ContentAttribute, strippedContent)
	}
}

// resource strips a resource or a scope: they are the operator's, so only content goes.
func (s *stripper) resource(attrs pcommon.Map) {
	s.strip(attrs, sglang.ContentAttribute, strippedContent)
}

// strip leaves attributes alone that are all wanted, as nearly always.
func (s *stripper) strip(attrs pcommon.Map, bad unwanted, reason string) {
	for key := range attrs.All() {
		if bad(key) && !s.allowed(key) {
			s.remove(attrs, bad, reason)
			return
		}
	}
}

func (s *stripper) remove(attrs pcommon.Map, bad unwanted, reason string) {
	before := attrs.Len()
	attrs.RemoveIf(func(key string, _ pcommon.Value) bool {
		if !bad(key) || s.allowed(key) {
			return false
		}
		s.note(key, reason)
		return true
	})
	s.tel.stripped.add(reason, int64(before-attrs.Len()))
}

// note names each attribute once in the log, never its value.
func (s *stripper) note(key, reason string) {
	key = key[:min(len(key), maxText)]
	s.mu.Lock()
	_, known := s.named[key]
	isNew := !known && len(s.named) < maxNamed
	if isNew {
		s.named[strings.Clone(key)] = struct{}{}
	}
	s.mu.Unlock()
	if isNew {
		s.logger.Warn("spans carry an attribute that does not leave; attributes::allow lets it",
			zap.String("attribute", key), zap.String("reason", reason))
	}
}
