// Copyright The otelcol-sglang Authors
// SPDX-License-Identifier: Apache-2.0

package rankdedupprocessor

import (
	"context"
	"encoding/binary"
	"flag"
	"fmt"
	"maps"
	"os"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"go.opentelemetry.io/collector/consumer/consumertest"
	"go.opentelemetry.io/collector/pdata/pcommon"
	"go.opentelemetry.io/collector/pdata/ptrace"

	"github.com/otelcol-sglang/otelcol-sglang/internal/capture"
	"github.com/otelcol-sglang/otelcol-sglang/internal/sglang"
)

const capturesDir = "../../testdata/captures/traces"

// running is a processor under test; it lives in a synctest bubble, so its time
// passes at once.
type running struct {
	t        *testing.T
	p        *tracesProcessor
	sink     *callSink
	mostHeld int64
}

// inCall marks the context of a call, so that what leaves in it is told from
// what the processor's own goroutine hands on.
type inCall struct{}

// callSink remembers which spans left in the call that brought them.
type callSink struct {
	consumertest.TracesSink
	mu     sync.Mutex
	atOnce map[pcommon.SpanID]bool
}

func newCallSink() *callSink { return &callSink{atOnce: map[pcommon.SpanID]bool{}} }

func (s *callSink) ConsumeTraces(ctx context.Context, td ptrace.Traces) error {
	if ctx.Value(inCall{}) != nil {
		s.mu.Lock()
		eachSpan(td, func(_ ptrace.ResourceSpans, span ptrace.Span) { s.atOnce[span.SpanID()] = true })
		s.mu.Unlock()
	}
	return s.TracesSink.ConsumeTraces(ctx, td)
}

func (s *callSink) reset() {
	s.Reset()
	clear(s.atOnce)
}

func start(t *testing.T, cfg *Config) *running {
	t.Helper()
	sink := newCallSink()
	p, _ := startWith(t, cfg, sink)
	return &running{t: t, p: p, sink: sink}
}

func (r *running) consume(td ptrace.Traces) {
	require.NoError(r.t, r.p.ConsumeTraces(context.WithValue(context.Background(), inCall{}, true), td))
}

// stamp does what the receiver does.
func stamp(td ptrace.Traces, peer string) {
	for _, rs := range td.ResourceSpans().All() {
		rs.Resource().Attributes().PutStr(sglang.AttrExporterPeer, "collector/"+peer)
	}
}

// fresh copies a capture's export with ids of a further run: the same senders
// serve other requests.
func fresh(from ptrace.Traces, run uint64) ptrace.Traces {
	td := ptrace.NewTraces()
	from.CopyTo(td)
	if run == 0 {
		return td
	}
	traceID := func(id pcommon.TraceID) pcommon.TraceID {
		low := binary.BigEndian.Uint64(id[8:])
		binary.BigEndian.PutUint64(id[8:], low^(run*0x9e3779b97f4a7c15))
		return id
	}
	newID := func(id pcommon.SpanID) pcommon.SpanID {
		if id.IsEmpty() {
			return id
		}
		return spanID(idOf(id) ^ (run * 0x9e3779b97f4a7c15))
	}
	eachSpan(td, func(_ ptrace.ResourceSpans, s ptrace.Span) {
		s.SetTraceID(traceID(s.TraceID()))
		s.SetSpanID(newID(s.SpanID()))
		s.SetParentSpanID(newID(s.ParentSpanID()))
		for _, l := range s.Links().All() {
			l.SetTraceID(traceID(l.TraceID()))
			l.SetSpanID(newID(l.SpanID()))
		}
	})
	return td
}

func eachSpan(td ptrace.Traces, do func(ptrace.ResourceSpans, ptrace.Span)) {
	for _, rs := range td.ResourceSpans().All() {
		for _, ss := range rs.ScopeSpans().All() {
			for _, s := range ss.Spans().All() {
				do(rs, s)
			}
		}
	}
}

// sender puts on a batch what a deployment lets the processor see of its sender.
type sender func(td ptrace.Traces, e capture.Export)

func byPeer(td ptrace.Traces, e capture.Export) { stamp(td, e.Peer) }

// instanceOnly is a plain OTLP receiver in front: no stamp.
func instanceOnly(ptrace.Traces, capture.Export) {}

// peerOnly is an engine with an older SDK.
func peerOnly(td ptrace.Traces, e capture.Export) {
	setInstance(td, "")
	stamp(td, e.Peer)
}

// podInstance is an operator who set one service.instance.id for the whole pod.
func podInstance(td ptrace.Traces, e capture.Export) {
	setInstance(td, "pod-0")
	stamp(td, e.Peer)
}

// merged is a proxy that merges connections, for such a pod.
func merged(td ptrace.Traces, _ capture.Export) {
	setInstance(td, "pod-0")
	stamp(td, "10.0.0.1:4711")
}

func setInstance(td ptrace.Traces, id string) {
	for _, rs := range td.ResourceSpans().All() {
		rs.Resource().Attributes().Remove(attrInstanceID)
		if id != "" {
			rs.Resource().Attributes().PutStr(attrInstanceID, id)
		}
	}
}

// replay sends a capture in arrival order with its pauses, and returns the spans
// that left in the call that brought them, by id.
func (r *running) replay(exports []capture.Export, run uint64, as sender) map[pcommon.SpanID]bool {
	began := time.Now()
	for _, e := range exports {
		time.Sleep(e.At.Sub(exports[0].At) - time.Since(began))
		synctest.Wait()
		td := fresh(e.Traces, run)
		as(td, e)
		r.consume(td)
		synctest.Wait() // for what leaves by it on the processor's own goroutine
		r.mostHeld = max(r.mostHeld, r.p.level(heldSpans))
	}
	time.Sleep(10 * time.Second)
	synctest.Wait()
	return maps.Clone(r.sink.atOnce)
}

// tree is a set of spans by id.
type tree struct {
	spans map[pcommon.SpanID]ptrace.Span
	res   map[pcommon.SpanID]pcommon.Resource
	twice []pcommon.SpanID
}

func treeOf(tds []ptrace.Traces) *tree {
	out := &tree{spans: map[pcommon.SpanID]ptrace.Span{}, res: map[pcommon.SpanID]pcommon.Resource{}}
	for _, td := range tds {
		eachSpan(td, func(rs ptrace.ResourceSpans, s ptrace.Span) {
			if _, known := out.spans[s.SpanID()]; known {
				out.twice = append(out.twice, s.SpanID())
			}
			out.spans[s.SpanID()] = s
			out.res[s.SpanID()] = rs.Resource()
		})
	}
	return out
}

func inputTree(exports []capture.Export, run uint64) *tree {
	var tds []ptrace.Traces
	for _, e := range exports {
		tds = append(tds, fresh(e.Traces, run))
	}
	return treeOf(tds)
}

// thread returns the thread span above a span, itself included.
func (tr *tree) thread(s ptrace.Span) (ptrace.Span, bool) {
	for sglang.KindOf(s) != sglang.KindThread {
		up, ok := tr.spans[s.ParentSpanID()]
		if !ok {
			return s, false
		}
		s = up
	}
	return s, true
}

// keptRanks returns the rank to keep for each root and place: the lowest that
// has a thread span.
func (tr *tree) keptRanks() map[string]int32 {
	kept := map[string]int32{}
	for _, s := range tr.spans {
		if sglang.KindOf(s) != sglang.KindThread {
			continue
		}
		th := sglang.ThreadOf(s.Attributes())
		key := placeKey(s, th)
		if rank, known := kept[key]; !known || th.Ranks.TP < rank {
			kept[key] = th.Ranks.TP
		}
	}
	return kept
}

func placeKey(thread ptrace.Span, th sglang.Thread) string {
	return fmt.Sprintf("%s/%s/%s/%d/%d", thread.TraceID(), thread.ParentSpanID(), th.Label, th.Ranks.PP, th.Ranks.DP)
}

// expected are the ids of the spans that must leave: those of kept ranks, roots,
// and what no rank has a copy of.
func (tr *tree) expected() map[pcommon.SpanID]bool {
	kept := tr.keptRanks()
	want := map[pcommon.SpanID]bool{}
	for id, s := range tr.spans {
		if sglang.KindOf(s) == sglang.KindRoot {
			want[id] = true
			continue
		}
		thread, ok := tr.thread(s)
		if !ok {
			want[id] = true
			continue
		}
		th := sglang.ThreadOf(thread.Attributes())
		if kept[placeKey(thread, th)] == th.Ranks.TP {
			want[id] = true
		}
	}
	return want
}

// dangling returns the spans whose parent or link the tree lacks.
func (tr *tree) dangling() []string {
	var out []string
	for _, s := range tr.spans {
		if p := s.ParentSpanID(); !p.IsEmpty() {
			if _, ok := tr.spans[p]; !ok {
				out = append(out, "parent of "+s.Name()+" "+s.SpanID().String())
			}
		}
		for _, l := range s.Links().All() {
			if _, ok := tr.spans[l.SpanID()]; !ok {
				out = append(out, "link of "+s.Name()+" "+s.SpanID().String())
			}
		}
	}
	return out
}

// row is what became of a capture.
type row struct {
	name                             string
	in, out, folded, filled, atOnce  int64
	cold, mostHeld, mostHeldWhenCold int64
}

func (r row) String() string {
	return fmt.Sprintf("| %s | %d | %d | %d | %d | %d | %d | %d | %d |",
		strings.TrimPrefix(r.name, "traces-"), r.in, r.out, r.folded, r.filled, r.cold, r.mostHeldWhenCold, r.atOnce, r.mostHeld)
}

// TestCaptures replays every capture twice on the same senders: once with no
// rank known, then with other requests.
func TestCaptures(t *testing.T) {
	names, err := capture.Names(capturesDir)
	require.NoError(t, err)
	require.NotEmpty(t, names)
	var rows []row
	for _, name := range names {
		exports, err := capture.Load(capturesDir, name)
		require.NoError(t, err)
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) { rows = append(rows, replayTwice(t, name, exports)) })
		})
	}
	checkTable(t, rows)
}

func replayTwice(t *testing.T, name string, exports []capture.Export) row {
	sink := newCallSink()
	p, tel := startWith(t, createDefaultConfig().(*Config), sink)
	r := &running{t: t, p: p, sink: sink}
	out := row{name: name}
	for run := range uint64(2) {
		r.sink.reset()
		r.mostHeld = 0
		in := inputTree(exports, run)
		atOnce := r.replay(exports, run, byPeer)
		left := treeOf(r.sink.AllTraces())
		checkOutput(t, in, left)
		checkDigests(t, in, left)
		assert.Zero(t, p.level(heldSpans), "spans are held after the end")
		if run == 0 {
			out.cold, out.mostHeldWhenCold = int64(len(atOnce)), r.mostHeld
			out.folded = value(t, tel, "spans_folded", "")
			assert.Len(t, in.spans, len(left.spans)+int(out.folded), "a span neither left nor was folded")
			continue
		}
		checkAtOnce(t, left, atOnce)
		out.in, out.out, out.atOnce, out.mostHeld = int64(len(in.spans)), int64(len(left.spans)), int64(len(atOnce)), r.mostHeld
		out.folded = value(t, tel, "spans_folded", "") - out.folded
		out.filled = value(t, tel, "spans_filled", "")
		assert.Equal(t, out.in, out.out+out.folded, "a span neither left nor was folded")
	}
	if !strings.Contains(name, "single-token-and-health") { // its probes have no root
		assert.Zero(t, value(t, tel, "spans_early_release", ""))
	}
	assert.Zero(t, value(t, tel, "spans_lost", ""))
	assert.Equal(t, 2*out.in, value(t, tel, "spans_in", ""))
	return out
}

// checkDigests compares the number of ranks on each kept thread span with the
// thread spans that came, and the number of slices with those that left.
func checkDigests(t *testing.T, in, out *tree) {
	t.Helper()
	ranks := map[string]int64{}
	for _, s := range in.spans {
		if sglang.KindOf(s) == sglang.KindThread {
			ranks[placeKey(s, sglang.ThreadOf(s.Attributes()))]++
		}
	}
	slices := map[pcommon.SpanID]int64{}
	for _, s := range out.spans {
		if sglang.KindOf(s) != sglang.KindSlice {
			continue
		}
		if thread, ok := out.thread(s); ok {
			slices[thread.SpanID()]++
		}
	}
	for id, s := range out.spans {
		th := sglang.ThreadOf(s.Attributes())
		if sglang.KindOf(s) != sglang.KindThread || sglang.ProcessOf(th.Label) != sglang.ProcessScheduler {
			continue
		}
		count, ok := s.Attributes().Get(sglang.AttrRanksCount)
		if !ok {
			t.Errorf("no digest on %s %s", s.Name(), id)
			continue
		}
		assert.Equal(t, ranks[placeKey(s, th)], count.Int(), "ranks of %s", s.Name())
		n, _ := s.Attributes().Get(sglang.AttrThreadSpans)
		assert.Equal(t, slices[id], n.Int(), "slices of %s", s.Name())
	}
}

var update = flag.Bool("update", false, "rewrite the README's table")

const (
	tableBegin = "<!-- captures: written by go test -run TestCaptures -update -->\n"
	tableHead  = "| capture | in | out | folded | filled | cold: at once | cold: most held | warm: at once | warm: most held |\n|---|---|---|---|---|---|---|---|---|\n"
	tableEnd   = "<!-- end of captures -->"
)

// checkTable compares the README's table with what became of the captures.
func checkTable(t *testing.T, rows []row) {
	t.Helper()
	var table strings.Builder
	table.WriteString(tableHead)
	for _, r := range rows {
		t.Log(r)
		fmt.Fprintln(&table, r)
	}
	readme, err := os.ReadFile("README.md")
	require.NoError(t, err)
	before, rest, ok := strings.Cut(string(readme), tableBegin)
	require.True(t, ok)
	was, after, ok := strings.Cut(rest, tableEnd)
	require.True(t, ok)
	if *update {
		require.NoError(t, os.WriteFile("README.md", []byte(before+tableBegin+table.String()+tableEnd+after), 0o600))
		return
	}
	assert.Equal(t, table.String(), was)
}

// TestSenders: however little the resources tell of the senders, the same spans
// leave; only what must be held differs.
func TestSenders(t *testing.T) {
	names, err := capture.Names(capturesDir)
	require.NoError(t, err)
	for kind, as := range map[string]sender{
		"instance only": instanceOnly, "peer only": peerOnly, "one instance per pod": podInstance, "merged": merged,
	} {
		for _, name := range names {
			exports, err := capture.Load(capturesDir, name)
			require.NoError(t, err)
			t.Run(kind+"/"+name, func(t *testing.T) {
				synctest.Test(t, func(t *testing.T) {
					r := start(t, createDefaultConfig().(*Config))
					for run := range uint64(2) {
						r.sink.reset()
						in := inputTree(exports, run)
						r.replay(exports, run, as)
						time.Sleep(time.Minute)
						synctest.Wait()
						checkOutput(t, in, treeOf(r.sink.AllTraces()))
					}
				})
			})
		}
	}
}

func checkOutput(t *testing.T, in, out *tree) {
	t.Helper()
	assert.Empty(t, out.twice, "spans left twice")
	want := in.expected()
	for id := range want {
		if _, ok := out.spans[id]; !ok {
			s := in.spans[id]
			t.Errorf("missing: %s %s of trace %s", s.Name(), id, s.TraceID())
		}
	}
	for id, s := range out.spans {
		if !want[id] {
			t.Errorf("too many: %s %s of trace %s", s.Name(), id, s.TraceID())
		}
	}
	// What dangles in the output must dangle in the input.
	assert.ElementsMatch(t, danglingOf(in, want), out.dangling())
}

func danglingOf(in *tree, want map[pcommon.SpanID]bool) []string {
	kept := &tree{spans: map[pcommon.SpanID]ptrace.Span{}}
	for id := range want {
		kept.spans[id] = in.spans[id]
	}
	return kept.dangling()
}

// checkAtOnce: with known senders every slice leaves in the call that brought it.
func checkAtOnce(t *testing.T, out *tree, atOnce map[pcommon.SpanID]bool) {
	t.Helper()
	for id, s := range out.spans {
		if sglang.KindOf(s) == sglang.KindSlice && !atOnce[id] {
			t.Errorf("not at once: %s %s", s.Name(), id)
		}
	}
}
