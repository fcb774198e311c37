// Copyright The otelcol-sglang Authors
// SPDX-License-Identifier: Apache-2.0

package genaimetricsconnector // import "github.com/otelcol-sglang/otelcol-sglang/connector/genaimetricsconnector"

import (
	"math"
	"strings"

	"go.opentelemetry.io/collector/pdata/pcommon"

	"github.com/otelcol-sglang/otelcol-sglang/connector/genaimetricsconnector/internal/series"
	"github.com/otelcol-sglang/otelcol-sglang/internal/sglang"
)

// Attributes of the semantic conventions on resources.
const (
	attrServiceNamespace = "service.namespace"
	attrServiceName      = "service.name"
	attrServiceInstance  = "service.instance.id"
	attrPodName          = "k8s.pod.name"
)

// Why a value enters no metric.
const (
	reasonNegative = "negative"
	reasonNotANum  = "not_a_number"
	reasonTooLarge = "too_large"
	reasonType     = "type"
	reasonZero     = "zero"
)

const (
	// maxSeconds (116 days) is far beyond any request; a unit was mistaken.
	maxSeconds = 1e7
	maxCount   = 1e12
	// maxStages bounds the budget entries that are read from one root.
	maxStages = 32
)

type refusal struct{ attribute, reason string }

type stage struct {
	name    string
	seconds float64
}

// reading is what one span says. Absent seconds are NaN, absent counts negative.
type reading struct {
	// root: a request's root; judged: its latencies were derived by genai.
	root, judged, thread    bool
	health, encoder, sender bool

	role, operation, provider, model, errorType string

	duration, ttft, tpot, skew         float64
	input, cached, output, retractions int64
	stages                             []stage
	refused                            []refusal
}

func (r *reading) reset() {
	nan := math.NaN()
	*r = reading{
		duration: nan, ttft: nan, tpot: nan, skew: nan,
		input: -1, cached: -1, output: -1, retractions: -1,
		stages: r.stages[:0], refused: r.refused[:0],
	}
}

// read tells what kind of span it is and what it says, by what the processors
// before wrote: spans may have lost their names and scopes on the way.
func (r *reading) read(attrs pcommon.Map) {
	r.reset()
	for key, v := range attrs.All() {
		switch {
		case key != "" && key[0] == 'g':
			r.readGenAI(key, v)
		case strings.HasPrefix(key, sglang.AttrBudgetPrefix):
			r.judged = true
			r.readStage(key, v)
		default:
			r.readOther(key, v)
		}
	}
}

func (r *reading) readGenAI(key string, v pcommon.Value) {
	switch key {
	case sglang.AttrLatencyE2E:
		r.duration = r.seconds(key, v, true)
	case sglang.AttrLatencyTTFT:
		r.ttft = r.seconds(key, v, false)
	case sglang.AttrOutTPOT:
		r.tpot = r.seconds(key, v, false)
	case sglang.AttrInputTokens:
		r.input = r.count(key, v)
	case sglang.AttrOutputTokens:
		r.output = r.count(key, v)
	case sglang.AttrCacheReadInputTokens:
		r.cached = r.count(key, v)
	case sglang.AttrOperationName:
		r.operation = text(v)
	case sglang.AttrProviderName:
		r.provider = text(v)
	case sglang.AttrRequestModel:
		r.model = text(v)
	}
}

func (r *reading) readOther(key string, v pcommon.Value) {
	switch key {
	case sglang.AttrModule:
		r.root = true
		r.sender = r.sender || v.Str() == sglang.ModuleMooncake
	case sglang.AttrRID:
		r.root = true
	case sglang.AttrCompleteness:
		r.judged = true
	case sglang.AttrThreadLabel:
		r.thread = true
	case sglang.AttrRanksSkew:
		r.skew = r.seconds(key, v, true)
	case sglang.AttrErrorType:
		r.errorType = text(v)
	case sglang.AttrPDRole:
		r.role = text(v)
	case sglang.AttrRetractions:
		r.retractions = r.count(key, v)
	case sglang.AttrHealthCheck:
		r.health = v.Type() == pcommon.ValueTypeBool && v.Bool()
	case sglang.AttrEncoder:
		r.encoder = v.Type() == pcommon.ValueTypeBool && v.Bool()
	}
}

func (r *reading) readStage(key string, v pcommon.Value) {
	if len(r.stages) >= maxStages {
		return
	}
	seconds := r.seconds(key, v, true)
	if name := series.Cut(key[len(sglang.AttrBudgetPrefix):]); name != "" && !math.IsNaN(seconds) {
		r.stages = append(r.stages, stage{name: name, seconds: seconds})
	}
}

func text(v pcommon.Value) string {
	if v.Type() != pcommon.ValueTypeStr {
		return ""
	}
	return series.Cut(v.Str())
}

// seconds returns NaN for what is no duration.
func (r *reading) seconds(key string, v pcommon.Value, zeroOK bool) float64 {
	var s float64
	switch v.Type() {
	case pcommon.ValueTypeDouble:
		s = v.Double()
	case pcommon.ValueTypeInt:
		s = float64(v.Int())
	default:
		return r.refuse(key, reasonType)
	}
	switch {
	case math.IsNaN(s):
		return r.refuse(key, reasonNotANum)
	case s < 0:
		return r.refuse(key, reasonNegative)
	case s > maxSeconds:
		return r.refuse(key, reasonTooLarge)
	case s == 0 && !zeroOK:
		return r.refuse(key, reasonZero)
	}
	return s
}

func (r *reading) count(key string, v pcommon.Value) int64 {
	switch {
	case v.Type() != pcommon.ValueTypeInt:
		r.refuse(key, reasonType)
	case v.Int() < 0:
		r.refuse(key, reasonNegative)
	case v.Int() > maxCount:
		r.refuse(key, reasonTooLarge)
	default:
		return v.Int()
	}
	return -1
}

// refuse notes the attribute; all stages count as one, as their names come from outside.
func (r *reading) refuse(key, reason string) float64 {
	if strings.HasPrefix(key, sglang.AttrBudgetPrefix) {
		key = sglang.AttrBudgetPrefix + "*"
	}
	r.refused = append(r.refused, refusal{attribute: key, reason: reason})
	return math.NaN()
}

// outcomeOf a root that is not known yet.
func (r *reading) outcomeOf() outcome {
	switch {
	case r.sender || r.role == sglang.RoleSender.String():
		return outcomeSender
	case !r.judged:
		return outcomeNotJudged
	case r.health:
		return outcomeHealthCheck
	case r.role == sglang.RolePrefill.String():
		return outcomePDPrefill
	case r.encoder:
		return outcomeEncoder
	}
	return outcomeCounted
}

// resourceReader reads who the engine is.
type resourceReader struct{ instanceFrom []string }

func (rr *resourceReader) read(attrs pcommon.Map) series.Resource {
	return series.Resource{
		Namespace: textOf(attrs, attrServiceNamespace),
		Service:   textOf(attrs, attrServiceName),
		Instance:  rr.instance(attrs),
	}
}

// instance skips random UUIDs, which SDKs set anew in each process: each restart
// would begin series that no one asked for.
func (rr *resourceReader) instance(attrs pcommon.Map) string {
	for _, key := range rr.instanceFrom {
		if name := textOf(attrs, key); name != "" && !isUUID(name) {
			return name
		}
	}
	return ""
}

func textOf(attrs pcommon.Map, key string) string {
	v, ok := attrs.Get(key)
	if !ok {
		return ""
	}
	return series.Cut(v.AsString())
}

func isUUID(s string) bool {
	if len(s) != 36 {
		return false
	}
	for i := range len(s) {
		c := s[i]
		if i == 8 || i == 13 || i == 18 || i == 23 {
			if c != '-' {
				return false
			}
		} else if !isHex(c) {
			return false
		}
	}
	return true
}

func isHex(c byte) bool {
	return c >= '0' && c <= '9' || c >= 'a' && c <= 'f' || c >= 'A' && c <= 'F'
}

// isUnjudged: the engine's own root, with no genai processor before. Other
// instrumentation has attributes of these names too.
func isUnjudged(r *reading, scope string) bool {
	return r.root && !r.judged && scope == sglang.ScopeName
}
