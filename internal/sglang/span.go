// Copyright The otelcol-sglang Authors
// SPDX-License-Identifier: Apache-2.0

package sglang // import "github.com/otelcol-sglang/otelcol-sglang/internal/sglang"

import (
	"strconv"
	"strings"

	"go.opentelemetry.io/collector/pdata/pcommon"
	"go.opentelemetry.io/collector/pdata/ptrace"
)

// ScopeName is the instrumentation scope of every span of the engine.
const ScopeName = "sglang server"

// SpanKind is a span's place in the engine's tree: root, thread, slice.
type SpanKind uint8

const (
	// KindForeign is a span that the engine did not make.
	KindForeign SpanKind = iota
	// KindRoot is a request's root, exported by the API server when the request ends.
	KindRoot
	// KindThread is a child of a root: one process (or worker thread) at work on
	// the request. It carries the ranks, ends last and so arrives last.
	KindThread
	// KindSlice is one stage, below a thread or another slice. It carries no rank.
	KindSlice
	// KindRoom is the "Bootstrap Room" span that releases 0.5.6 to 0.5.9 put above roots.
	KindRoom
)

// String names the kind.
func (k SpanKind) String() string {
	switch k {
	case KindRoot:
		return "root"
	case KindThread:
		return "thread"
	case KindSlice:
		return "slice"
	case KindRoom:
		return "room"
	}
	return "foreign"
}

// roomPrefix begins the name of the span above a root in 0.5.6 to 0.5.9, for
// requests without disaggregation too.
const roomPrefix = "Bootstrap Room "

// KindOf tells the place of a span of scope ScopeName in the engine's tree. It
// does not allocate. A slice with an unknown name is still a slice.
func KindOf(span ptrace.Span) SpanKind {
	kind := KindSlice
	for key := range span.Attributes().All() {
		switch key {
		case AttrThreadLabel:
			return KindThread
		case AttrModule, AttrRID:
			kind = KindRoot
		}
	}
	if kind == KindSlice && strings.HasPrefix(span.Name(), roomPrefix) {
		return KindRoom
	}
	return kind
}

// NoRank is the value of a rank that the engine did not give.
const NoRank = -1

// Ranks are a process's places in the engine's parallel groups; NoRank where absent.
// TP is the global tensor-parallel rank: under DP attention the ranks of group 1
// of a TP-4 engine are 2 and 3.
type Ranks struct{ TP, PP, DP int32 }

// NoRanks belongs to processes without ranks, such as tokenizers.
var NoRanks = Ranks{TP: NoRank, PP: NoRank, DP: NoRank}

// Thread is what a thread span says of its process.
type Thread struct {
	Label string
	Ranks Ranks
	// HostID is the machine id as the engine reads it; containers may share one.
	HostID string
}

// ThreadOf reads a thread span's attributes. It does not allocate.
func ThreadOf(attrs pcommon.Map) Thread {
	t := Thread{Ranks: NoRanks}
	for key, v := range attrs.All() {
		switch key {
		case AttrThreadLabel:
			t.Label = v.Str()
		case AttrHostID:
			t.HostID = v.Str()
		case AttrTPRank:
			t.Ranks.TP = RankOf(v)
		case AttrPPRank:
			t.Ranks.PP = RankOf(v)
		case AttrDPRank:
			t.Ranks.DP = RankOf(v)
		}
	}
	return t
}

// RankOf returns the rank that an attribute names, NoRank if it names none.
func RankOf(v pcommon.Value) int32 {
	const maxRank = 1 << 20
	if v.Type() != pcommon.ValueTypeInt || v.Int() < 0 || v.Int() > maxRank {
		return NoRank
	}
	return int32(v.Int())
}

// ProcessOf tells the kind of process from a thread label, in every spelling of
// the releases: "Scheduler", "Prefill Scheduler", "PrefillTokenizer",
// "Decode Tokenizer", "MultiTokenizer-4711", "DP Controller", "Encoder",
// "mooncake transfer worker 3".
func ProcessOf(label string) Process {
	switch {
	case strings.HasSuffix(label, "Scheduler"):
		return ProcessScheduler
	case strings.Contains(label, "Tokenizer"):
		return ProcessFrontEnd
	case strings.HasSuffix(label, "DP Controller"):
		return ProcessDPController
	case label == "Encoder":
		return ProcessEncoder
	case strings.HasPrefix(label, "mooncake"):
		return ProcessTransfer
	}
	return ProcessUnknown
}

// Role is an engine's part in PD disaggregation.
type Role uint8

const (
	// RoleUnified engines do prefill and decode.
	RoleUnified Role = iota
	// RolePrefill engines compute the prompt and hand its KV cache on.
	RolePrefill
	// RoleDecode engines receive the KV cache and generate.
	RoleDecode
	// RoleSender is the root that the Mooncake module makes of its own.
	RoleSender
)

// String is the value of AttrPDRole; "" for RoleUnified.
func (r Role) String() string {
	switch r {
	case RolePrefill:
		return "prefill"
	case RoleDecode:
		return "decode"
	case RoleSender:
		return "sender"
	}
	return ""
}

// RoleOf reads the role from a root's name: " Req 1b3f", "prefill Req 1b3f",
// "decode Req 1b3f", "Sender Req 0x31e1". Releases to 0.5.9 write "null Req"
// where there is no role.
func RoleOf(rootName string) Role {
	switch {
	case strings.HasPrefix(rootName, "prefill "):
		return RolePrefill
	case strings.HasPrefix(rootName, "decode "):
		return RoleDecode
	case strings.HasPrefix(rootName, "Sender "):
		return RoleSender
	}
	return RoleUnified
}

// BootstrapRoom returns the PD bootstrap room that a root names. Room 0 (health
// probes, requests without disaggregation) and "None" are no room.
func BootstrapRoom(attrs pcommon.Map) (room uint64, ok bool) {
	v, found := attrs.Get(AttrBootstrapRoom)
	if !found {
		return 0, false
	}
	switch v.Type() {
	case pcommon.ValueTypeInt:
		return uint64(v.Int()), v.Int() > 0
	case pcommon.ValueTypeStr:
		room, err := strconv.ParseUint(v.Str(), 0, 64)
		return room, err == nil && room != 0
	}
	return 0, false
}

// HealthCheckPrefix begins the request id of the engine's own probes. The root's
// AttrRID has lost it; only AttrRequestID shows it.
const HealthCheckPrefix = "HEALTH_CHECK"
