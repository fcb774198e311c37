// Copyright The otelcol-sglang Authors
// SPDX-License-Identifier: Apache-2.0

package explain // import "github.com/otelcol-sglang/otelcol-sglang/cmd/sglangctl/internal/explain"

import (
	"cmp"
	"slices"

	"go.opentelemetry.io/collector/pdata/pcommon"
	"go.opentelemetry.io/collector/pdata/ptrace"

	"github.com/otelcol-sglang/otelcol-sglang/internal/sglang"
)

// Spans collects spans by id.
type Spans struct {
	byID map[pcommon.SpanID]ptrace.Span
	kids map[pcommon.SpanID][]ptrace.Span
}

// NewSpans returns an empty collection.
func NewSpans() *Spans {
	return &Spans{byID: map[pcommon.SpanID]ptrace.Span{}, kids: map[pcommon.SpanID][]ptrace.Span{}}
}

// Add takes the spans of the given traces out of a batch, each once; all of them
// where none is given.
func (s *Spans) Add(td ptrace.Traces, traces ...pcommon.TraceID) {
	for _, rs := range td.ResourceSpans().All() {
		for _, ss := range rs.ScopeSpans().All() {
			for _, span := range ss.Spans().All() {
				if len(traces) == 0 || slices.Contains(traces, span.TraceID()) {
					s.add(span)
				}
			}
		}
	}
}

func (s *Spans) add(span ptrace.Span) {
	if _, there := s.byID[span.SpanID()]; there {
		return
	}
	kept := ptrace.NewSpan()
	span.CopyTo(kept)
	s.byID[span.SpanID()] = kept
	s.kids[span.ParentSpanID()] = append(s.kids[span.ParentSpanID()], kept)
}

// Roots are the request roots, the earliest first.
func (s *Spans) Roots() []ptrace.Span {
	var out []ptrace.Span
	for _, span := range s.byID {
		if sglang.KindOf(span) == sglang.KindRoot {
			out = append(out, span)
		}
	}
	slices.SortFunc(out, earlier)
	return out
}

func earlier(a, b ptrace.Span) int {
	return cmp.Or(cmp.Compare(a.StartTimestamp(), b.StartTimestamp()), cmp.Compare(a.SpanID().String(), b.SpanID().String()))
}

// slice is one stage below a thread; times in nanoseconds since the epoch.
type slice struct {
	span  ptrace.Span
	stage sglang.Stage
	// in is the stage around it, StageUnknown right below a thread.
	in         sglang.Stage
	start, end int64
}

// View is one request as its spans show it.
type View struct {
	root       ptrace.Span
	start, end int64
	role       sglang.Role
	// sent is the root as the engine sent it; there is none without a raw file.
	sent    ptrace.Span
	hasSent bool
	// raw are the spans as the engine sent them, nil without a raw file.
	raw *Spans
	// front are slices of front end, controller and encoder, scheduler those of the
	// rank that the numbers come from.
	front, scheduler []slice
	// thread is that rank's thread span, if it came.
	thread    ptrace.Span
	hasThread bool
	retracts  []int64
	level     int64
	peer      *View
	// at is the span below the root that an attribute stands on.
	at ptrace.Span
}

// NewView reads a request out of kept spans; raw may be nil.
func NewView(root ptrace.Span, kept, raw *Spans) *View {
	v := newView(root, kept, raw)
	if id, ok := v.text(sglang.AttrPDPeerSpanID); ok {
		for _, span := range kept.Roots() {
			if span.SpanID().String() == id {
				v.peer = newView(span, kept, raw)
			}
		}
	}
	return v
}

func newView(root ptrace.Span, kept, raw *Spans) *View {
	v := &View{
		root: root, start: int64(root.StartTimestamp()), end: int64(root.EndTimestamp()),
		role: sglang.RoleOf(originalName(root)), raw: raw,
	}
	if raw != nil {
		v.sent, v.hasSent = raw.byID[root.SpanID()]
	}
	threads := slices.Clone(kept.kids[root.SpanID()])
	slices.SortFunc(threads, earlier)
	for _, span := range threads {
		if sglang.KindOf(span) == sglang.KindThread {
			v.addThread(span, kept)
		}
	}
	if v.hasThread {
		v.scheduler = v.walk(nil, v.thread.SpanID(), sglang.StageUnknown, kept, 0)
		v.retracts = retracts(v.thread)
		slices.Sort(v.retracts)
	} else if place, ok := v.place(kept); ok {
		v.scheduler = v.walk(nil, place, sglang.StageUnknown, kept, 0)
	}
	return v
}

// place finds where the scheduler's thread span should be, if that did not come:
// its slices name it as their parent, and the first of them links to the front end's last.
func (v *View) place(kept *Spans) (pcommon.SpanID, bool) {
	var found ptrace.Span
	ok := false
	for parent, kids := range kept.kids {
		if _, there := kept.byID[parent]; there || parent.IsEmpty() {
			continue
		}
		for _, kid := range kids {
			if v.linked(kid) && (!ok || earlier(kid, found) < 0) {
				found, ok = kid, true
			}
		}
	}
	if !ok {
		return pcommon.SpanID{}, false
	}
	return found.ParentSpanID(), true
}

func (v *View) linked(span ptrace.Span) bool {
	for _, link := range span.Links().All() {
		if slices.ContainsFunc(v.front, func(s slice) bool { return s.span.SpanID() == link.SpanID() }) {
			return sglang.StageOf(span.Name()).Info().Process == sglang.ProcessScheduler
		}
	}
	return false
}

func originalName(span ptrace.Span) string {
	if v, ok := span.Attributes().Get(sglang.AttrOriginalName); ok {
		return v.Str()
	}
	return span.Name()
}

// addThread takes the front end's slices in, and chooses the scheduler of the
// lowest pipeline stage and rank.
func (v *View) addThread(span ptrace.Span, kept *Spans) {
	t := sglang.ThreadOf(span.Attributes())
	switch sglang.ProcessOf(t.Label) {
	case sglang.ProcessFrontEnd, sglang.ProcessDPController, sglang.ProcessEncoder:
		v.front = v.walk(v.front, span.SpanID(), sglang.StageUnknown, kept, 0)
	case sglang.ProcessScheduler:
		if !v.hasThread || lower(t.Ranks, sglang.ThreadOf(v.thread.Attributes()).Ranks) {
			v.thread, v.hasThread = span, true
		}
	}
}

func lower(a, b sglang.Ranks) bool {
	return cmp.Or(cmp.Compare(max(0, a.PP), max(0, b.PP)), cmp.Compare(max(0, a.TP), max(0, b.TP))) < 0
}

// maxDepth bounds the walk: broken spans may name each other as parents.
const maxDepth = 16

// walk adds the slices below a span.
func (v *View) walk(out []slice, span pcommon.SpanID, in sglang.Stage, kept *Spans, depth int) []slice {
	if depth > maxDepth {
		return out
	}
	for _, kid := range kept.kids[span] {
		s := slice{
			span: kid, stage: sglang.StageOf(kid.Name()), in: in,
			start: int64(kid.StartTimestamp()), end: int64(kid.EndTimestamp()),
		}
		v.note(s)
		if v.sane(s) {
			out = append(out, s)
		}
		out = v.walk(out, kid.SpanID(), s.stage, kept, depth+1)
	}
	return out
}

// note is for what a slice tells beyond its time.
func (v *View) note(s slice) {
	v.level = max(v.level, int64(s.stage.Info().Level))
	if _, folded := s.span.Attributes().Get(sglang.AttrStepsCount); folded {
		v.level = max(v.level, int64(sglang.StageDecodeLoop.Info().Level))
	}
}

func retracts(span ptrace.Span) []int64 {
	var out []int64
	for _, e := range span.Events().All() {
		if e.Name() == sglang.EventRetract {
			out = append(out, int64(e.Timestamp()))
		}
	}
	return out
}

// maxSkew is how far a slice may begin before its root or after its end.
const maxSkew = int64(60e9)

func (v *View) sane(s slice) bool {
	return s.end >= s.start && s.start >= v.start-maxSkew && s.start <= v.end+maxSkew
}

func (v *View) text(key string) (string, bool) { return text(v.root, key) }

func text(span ptrace.Span, key string) (string, bool) {
	value, ok := span.Attributes().Get(key)
	if !ok {
		return "", false
	}
	return value.AsString(), true
}

func number(span ptrace.Span, key string) (float64, bool) {
	value, ok := span.Attributes().Get(key)
	if !ok {
		return 0, false
	}
	switch value.Type() {
	case pcommon.ValueTypeDouble:
		return value.Double(), true
	case pcommon.ValueTypeInt:
		return float64(value.Int()), true
	}
	return 0, false
}

func (v *View) flag(key string) bool {
	value, ok := v.root.Attributes().Get(key)
	return ok && value.Type() == pcommon.ValueTypeBool && value.Bool()
}

// output is the number of output tokens, -1 if it is not said.
func (v *View) output() int64 {
	for _, key := range []string{sglang.AttrCompletionTokens, sglang.AttrOutputTokens} {
		if n, ok := number(v.root, key); ok {
			return int64(n)
		}
	}
	return -1
}

func (v *View) aborted() bool {
	_, failed := v.text(sglang.AttrErrorType)
	return failed
}

func (v *View) encoder() bool { return v.flag(sglang.AttrEncoder) }

func (v *View) embedding() bool {
	operation, _ := v.text(sglang.AttrOperationName)
	return operation == sglang.OperationEmbeddings
}

// tokenless: it has no first token by nature.
func (v *View) tokenless() bool {
	return v.encoder() || v.embedding() || v.role == sglang.RolePrefill
}

func (v *View) complete() bool {
	completeness, _ := v.text(sglang.AttrCompleteness)
	return completeness == sglang.CompletenessComplete
}

// joined: its numbers are of both halves.
func (v *View) joined() bool { return v.role == sglang.RoleDecode && v.flag(sglang.AttrPDJoined) }

// refused is why a value that the engine reported was not believed, "" if it was.
func (v *View) refused(name string) string {
	list, ok := v.root.Attributes().Get(sglang.AttrLatencyInvalid)
	if !ok || list.Type() != pcommon.ValueTypeSlice {
		return ""
	}
	for _, item := range list.Slice().All() {
		if attribute, reason, _ := cutLast(item.AsString()); attribute == name {
			return reason
		}
	}
	return ""
}

// first is the earliest slice of a stage right below the thread.
func (v *View) first(stage sglang.Stage) (slice, bool) {
	var found slice
	ok := false
	for _, s := range v.scheduler {
		if s.stage == stage && s.in == sglang.StageUnknown && (!ok || s.start < found.start) {
			found, ok = s, true
		}
	}
	return found, ok
}

func (v *View) any(stage sglang.Stage) (slice, bool) {
	i := slices.IndexFunc(v.scheduler, func(s slice) bool { return s.stage == stage })
	if i < 0 {
		return slice{}, false
	}
	return v.scheduler[i], true
}

func (v *View) dispatch() (slice, bool) {
	i := slices.IndexFunc(v.front, func(s slice) bool { return s.stage == sglang.StageAPIServerDispatch })
	if i < 0 {
		return slice{}, false
	}
	return v.front[i], true
}

// clamp cuts a stretch to the request's time: clocks of processes differ.
func (v *View) clamp(start, end int64) stretch {
	from, to := max(start, v.start), min(end, v.end)
	return stretch{from, max(from, to)}
}

// on returns a view for the attributes of one of the request's spans.
func (v *View) on(span ptrace.Span) *View {
	w := *v
	w.at = span
	return &w
}

// owns: the span is one of the request's threads, or right below the one that the
// numbers come from.
func (v *View) owns(span ptrace.Span) bool {
	parent := span.ParentSpanID()
	return parent == v.root.SpanID() || v.hasThread && parent == v.thread.SpanID()
}
