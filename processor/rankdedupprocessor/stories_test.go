// Copyright The otelcol-sglang Authors
// SPDX-License-Identifier: Apache-2.0

package rankdedupprocessor

import (
	"context"
	"encoding/binary"
	"fmt"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"go.opentelemetry.io/collector/component/componenttest"
	"go.opentelemetry.io/collector/pdata/pcommon"
	"go.opentelemetry.io/collector/pdata/ptrace"

	"github.com/otelcol-sglang/otelcol-sglang/internal/sglang"
)

// fact is one span that an engine's process exports.
type fact struct {
	trace, id, parent, link uint64
	name                    string
	attrs                   map[string]any
}

// source is who exports it, as the resource tells.
type source struct{ instance, peer string }

// parcel is what one process exports at a time.
type parcel struct {
	from  source
	facts []fact
}

// engineModel serves requests and tells what its processes export.
type engineModel struct {
	name       string
	tp, level  int
	tokens     int
	role       string // of the labels: "Prefill ", "Decode "
	model      string
	first      []string // slices of a scheduler before decode
	fromFront  func() source
	fromRoot   func() source
	fromRank   func(rank int) source
	frontLabel string
	spelling   map[string]string // names of older releases
	bare       bool              // older: thread spans without pp_rank
	nextID     *uint64
}

var storyIDs uint64

func newEngineModel(name string, tp int) *engineModel {
	m := &engineModel{
		name: name, tp: tp, level: 3, tokens: 4, frontLabel: "Tokenizer", nextID: &storyIDs,
		first: []string{"request_process", "prefill_waiting", "prefill_forward"},
	}
	m.fromFront = func() source { return source{name + "-front", "10.0.0.1:" + name + "0"} }
	m.fromRank = func(rank int) source {
		return source{fmt.Sprintf("%s-rank%d", name, rank), fmt.Sprintf("10.0.0.1:%s%d", name, rank+1)}
	}
	return m
}

func (m *engineModel) id() uint64 { *m.nextID++; return *m.nextID*0x9e3779b97f4a7c15 | 1 }

func (m *engineModel) called(name string) string {
	if older := m.spelling[name]; older != "" {
		return older
	}
	return name
}

// front returns what the front end exports of a request: slices, then the root.
func (m *engineModel) front(trace, root uint64) (slices, last parcel, dispatch uint64) {
	tokenizer, tokenize := m.id(), m.id()
	dispatch = tokenize
	slices.from, last.from = m.fromFront(), m.fromFront()
	if m.fromRoot != nil {
		last.from = m.fromRoot()
	}
	slices.facts = []fact{{trace, tokenize, tokenizer, 0, "tokenize", nil}}
	if m.level >= 2 {
		dispatch = m.id()
		slices.facts = append(slices.facts, fact{trace, dispatch, tokenizer, tokenize, m.called("api_server_dispatch"), nil})
	}
	slices.facts = append(slices.facts, fact{trace, tokenizer, root, 0, m.frontLabel, map[string]any{sglang.AttrThreadLabel: m.frontLabel}})
	attrs := map[string]any{sglang.AttrRID: fmt.Sprintf("%x", root)}
	if m.model != "" {
		attrs[sglang.AttrResponseModel] = m.model
	}
	last.facts = []fact{{trace, root, 0, 0, " Req 0815", attrs}}
	return slices, last, dispatch
}

// rank returns what one scheduler exports of a request, slice by slice.
func (m *engineModel) rank(rank int, trace, root, dispatch uint64) []parcel {
	thread, decode, link := m.id(), m.id(), dispatch
	var out []parcel
	emit := func(f fact) { out = append(out, parcel{m.fromRank(rank), []fact{f}}) }
	for _, name := range m.first {
		if m.level < 2 && name == "request_process" {
			continue
		}
		id := m.id()
		emit(fact{trace, id, thread, link, m.called(name), nil})
		link = id
	}
	for ct := range m.tokens {
		if m.level >= 3 {
			emit(fact{trace, m.id(), decode, 0, m.called("decode_loop"), map[string]any{sglang.AttrDecodeCT: ct + 1}})
		}
	}
	emit(fact{trace, decode, thread, link, "decode_forward", nil})
	attrs := map[string]any{sglang.AttrThreadLabel: m.role + "Scheduler", sglang.AttrTPRank: rank}
	if !m.bare {
		attrs[sglang.AttrPPRank] = 0
	}
	emit(fact{trace, thread, root, 0, "Scheduler", attrs})
	return out
}

// serve returns a request's parcels: ranks interleaved, the highest first, the
// root last. trace 0 is a trace of its own.
func (m *engineModel) serve(trace uint64) []parcel {
	if trace == 0 {
		trace = m.id()
	}
	root := m.id()
	begin, last, dispatch := m.front(trace, root)
	streams := [][]parcel{}
	for rank := m.tp - 1; rank >= 0; rank-- {
		streams = append(streams, m.rank(rank, trace, root, dispatch))
	}
	return append(append([]parcel{begin}, interleave(streams...)...), last)
}

// interleave takes one of each in turn.
func interleave(streams ...[]parcel) (out []parcel) {
	for i, more := 0, true; more; i++ {
		more = false
		for _, s := range streams {
			if i < len(s) {
				out, more = append(out, s[i]), true
			}
		}
	}
	return out
}

// batch makes the export.
func (p parcel) batch() ptrace.Traces {
	td := ptrace.NewTraces()
	rs := td.ResourceSpans().AppendEmpty()
	if p.from.instance != "" {
		rs.Resource().Attributes().PutStr(attrInstanceID, p.from.instance)
	}
	if p.from.peer != "" {
		rs.Resource().Attributes().PutStr(sglang.AttrExporterPeer, "collector/"+p.from.peer)
	}
	ss := rs.ScopeSpans().AppendEmpty()
	ss.Scope().SetName(sglang.ScopeName)
	for _, f := range p.facts {
		f.write(ss.Spans().AppendEmpty())
	}
	return td
}

func (f fact) write(s ptrace.Span) {
	var trace pcommon.TraceID
	binary.BigEndian.PutUint64(trace[8:], f.trace)
	s.SetTraceID(trace)
	s.SetSpanID(spanID(f.id))
	if f.parent != 0 {
		s.SetParentSpanID(spanID(f.parent))
	}
	if f.link != 0 {
		to := s.Links().AppendEmpty()
		to.SetTraceID(trace)
		to.SetSpanID(spanID(f.link))
	}
	s.SetName(f.name)
	s.SetStartTimestamp(pcommon.Timestamp(time.Now().UnixNano()))
	s.SetEndTimestamp(s.StartTimestamp() + 1e6)
	if err := s.Attributes().FromRaw(f.attrs); err != nil {
		panic(err)
	}
}

// story is a processor and what has come to it and left it since the last check.
type story struct {
	*testing.T
	p    *tracesProcessor
	tel  *componenttest.Telemetry
	sink *callSink
	in   []ptrace.Traces
	// dress changes what a resource tells of its sender.
	dress func(pcommon.Resource)
	// alter changes an export.
	alter func(ptrace.Traces)
}

func newStory(t *testing.T) *story {
	t.Helper()
	s := &story{T: t, sink: newCallSink()}
	s.p, s.tel = startWith(t, createDefaultConfig().(*Config), s.sink)
	return s
}

func (s *story) send(parcels ...parcel) {
	s.Helper()
	for _, p := range parcels {
		s.in = append(s.in, s.batch(p))
		require.NoError(s, s.p.ConsumeTraces(context.WithValue(context.Background(), inCall{}, true), s.batch(p)))
		time.Sleep(time.Millisecond)
	}
}

func (s *story) batch(p parcel) ptrace.Traces {
	td := p.batch()
	if s.dress != nil {
		s.dress(td.ResourceSpans().At(0).Resource())
	}
	if s.alter != nil {
		s.alter(td)
	}
	return td
}

// rest lets all waits end.
func (s *story) rest() {
	time.Sleep(40 * time.Second)
	synctest.Wait()
}

// check compares what left with what must have, and begins anew.
func (s *story) check() *tree {
	s.Helper()
	out := treeOf(s.sink.AllTraces())
	checkOutput(s.T, treeOf(s.in), out)
	assert.Zero(s, s.p.level(heldSpans), "held at the end")
	assert.Zero(s, value(s.T, s.tel, "spans_lost", ""))
	s.in = nil
	s.sink.reset()
	return out
}

func (s *story) early() int64 { return value(s.T, s.tel, "spans_early_release", "") }

// tell runs a story with a fake clock.
func tell(t *testing.T, name string, what func(*story)) {
	t.Helper()
	t.Run(name, func(t *testing.T) {
		synctest.Test(t, func(t *testing.T) { what(newStory(t)) })
	})
}

func TestStories(t *testing.T) {
	tell(t, "async tracing: root and slices under two instance ids", func(s *story) {
		m := newEngineModel("7", 2)
		m.fromRoot = func() source { return source{"7-caller", "10.0.0.1:7009"} }
		for range 3 {
			s.send(m.serve(0)...)
			s.rest()
			out := s.check()
			assert.Zero(s, s.early())
			checkEngines(s.T, out, 1)
		}
	})
	tell(t, "several tokenizers", func(s *story) {
		m := newEngineModel("7", 2)
		for worker := range 4 {
			m.frontLabel = fmt.Sprintf("MultiTokenizer-%d", 4711+worker)
			m.fromFront = func() source { return source{fmt.Sprintf("7-front%d", worker), "10.0.0.1:70" + m.frontLabel} }
			s.send(m.serve(0)...)
			s.rest()
			s.check()
		}
		assert.Zero(s, s.early())
		assert.EqualValues(s, 1, s.p.registry.Count().Engines)
	})
	tell(t, "several models, equal ranks, requests at the same time", func(s *story) {
		a, b := newEngineModel("7", 4), newEngineModel("8", 4)
		a.model, b.model = "small", "large"
		for range 2 {
			s.send(interleave(a.serve(0), b.serve(0), a.serve(0))...)
			s.rest()
			checkEngines(s.T, s.check(), 2)
		}
		assert.Zero(s, s.early())
	})
	tell(t, "prefill and decode share a traceparent", func(s *story) {
		prefill, decode := newEngineModel("7", 2), newEngineModel("8", 2)
		prefill.role, decode.role = "Prefill ", "Decode "
		prefill.first = []string{"prefill_prepare", "prefill_bootstrap", "prefill_waiting", "prefill_forward", "prefill_transfer_kv_cache"}
		decode.first = []string{"decode_prepare", "decode_bootstrap", "decode_waiting", "decode_transferred"}
		for range 3 {
			trace := prefill.id()
			s.send(interleave(prefill.serve(trace), decode.serve(trace))...)
			s.rest()
			checkEngines(s.T, s.check(), 2)
		}
		assert.Zero(s, s.early())
	})
	tell(t, "an agent's requests, one after the other", func(s *story) {
		m := newEngineModel("7", 2)
		s.send(m.serve(0)...)
		s.rest()
		trace := m.id()
		for range 20 {
			s.send(m.serve(trace)...)
			time.Sleep(5 * time.Second)
		}
		s.rest()
		s.check()
		assert.Zero(s, s.early())
	})
	tell(t, "an agent's requests side by side", func(s *story) {
		m := newEngineModel("7", 4)
		s.send(m.serve(0)...)
		s.rest()
		trace := m.id()
		s.send(interleave(m.serve(trace), m.serve(trace), m.serve(trace))...)
		s.rest()
		s.check()
	})
	tell(t, "an engine restarts", func(s *story) {
		before, after := newEngineModel("7", 2), newEngineModel("8", 2)
		s.send(before.serve(0)...)
		after.fromRank = func(rank int) source { return source{fmt.Sprintf("later-%d", rank), before.fromRank(rank).peer} }
		s.send(interleave(after.serve(0), before.serve(0))...)
		s.rest()
		checkEngines(s.T, s.check(), 2)
		assert.Zero(s, s.early())
	})
}

func checkEngines(t *testing.T, out *tree, want int) {
	t.Helper()
	engines := map[string]bool{}
	for id := range out.spans {
		v, _ := out.res[id].Attributes().Get(sglang.AttrEngineID)
		engines[v.AsString()] = true
		_, stamped := out.res[id].Attributes().Get(sglang.AttrExporterPeer)
		assert.False(t, stamped && v.AsString() != "", "the receiver's stamp is not needed any more")
	}
	assert.Len(t, engines, want, "engines: %v", engines)
}

func TestStoriesOfIdentity(t *testing.T) {
	tell(t, "a sender connects anew", func(s *story) {
		m := newEngineModel("7", 2)
		s.send(m.serve(0)...)
		s.rest() // longer than the instance id must stay without contradiction
		from := m.fromRank
		m.fromRank = func(rank int) source { f := from(rank); f.peer += "5"; return f }
		s.check()
		s.send(m.serve(0)...)
		s.rest()
		checkAtOnce(s.T, treeOf(s.sink.AllTraces()), s.sink.atOnce)
		s.check()
		assert.Zero(s, s.early())
	})
	tell(t, "an instance id that was trusted is another rank's too", func(s *story) {
		m := newEngineModel("7", 1)
		from := m.fromRank
		m.fromRank = func(rank int) source { f := from(rank); f.instance = "pod"; return f }
		s.send(m.serve(0)...)
		s.rest()
		m.tp = 3
		s.send(m.serve(0)...)
		s.rest()
		// Taken for one rank at first, so that duplicates may leave.
		assert.Zero(s, value(s.T, s.tel, "spans_lost", ""))
		s.in = nil
		s.sink.reset()
		for range 2 {
			s.send(m.serve(0)...)
			s.rest()
			s.check()
		}
		// The one that was right may be blamed too; it then costs more to hold.
		assert.GreaterOrEqual(s, s.p.registry.Count().Known, int64(2))
	})
	tell(t, "front end and schedulers share an instance id", func(s *story) {
		m := newEngineModel("7", 1)
		m.fromFront = func() source { return source{"pod", "10.0.0.1:70"} }
		m.fromRank = func(int) source { return source{"pod", "10.0.0.1:71"} }
		s.send(m.serve(0)...)
		s.rest()
		s.check()
		m.fromFront = func() source { return source{"pod", "10.0.0.1:79"} }
		for range 2 {
			s.send(m.serve(0)...)
			s.rest()
			out := s.check()
			for id, span := range out.spans {
				_, ranked := out.res[id].Attributes().Get(sglang.AttrResourceTPRank)
				ofFront := sglang.KindOf(span) == sglang.KindRoot || span.Name() == "tokenize" || span.Name() == "Tokenizer"
				assert.False(s, ofFront && ranked, "%s has a rank", span.Name())
			}
		}
		assert.EqualValues(s, 1, s.p.registry.Count().Known)
	})
}

// mooncake returns what a prefill rank exports of one KV transfer: a root of its
// own, a thread and the transfer worker's.
func mooncake(m *engineModel, rank int) []parcel {
	trace, root, thread, send, worker, moved := m.id(), m.id(), m.id(), m.id(), m.id(), m.id()
	return []parcel{{m.fromRank(rank), []fact{
		{trace, send, thread, 0, "mooncake_send", nil},
		{trace, m.id(), moved, 0, "mooncake_worker_send_session", nil},
		{trace, moved, worker, send, "mooncake_worker_send", nil},
		{trace, worker, root, 0, "worker", map[string]any{sglang.AttrThreadLabel: "mooncake transfer worker 0", sglang.AttrTPRank: rank, sglang.AttrDPRank: 0}},
		{trace, thread, root, 0, "Prefill Scheduler", map[string]any{sglang.AttrThreadLabel: "Prefill Scheduler", sglang.AttrTPRank: rank, sglang.AttrPPRank: 0}},
		{trace, root, 0, 0, "Sender Req 0x1", map[string]any{sglang.AttrRID: "0x1", sglang.AttrModule: sglang.ModuleMooncake}},
	}}}
}

func TestStoriesOfRoles(t *testing.T) {
	tell(t, "transfer workers: each rank has a root of its own", func(s *story) {
		m := newEngineModel("7", 2)
		m.role = "Prefill "
		s.send(m.serve(0)...)
		s.rest()
		s.check()
		for range 3 {
			s.send(interleave(mooncake(m, 0), mooncake(m, 1), m.serve(0))...)
			synctest.Wait()
			assert.Zero(s, s.p.level(heldSpans), "nothing more can come")
			out := s.check()
			for id, span := range out.spans {
				if label := sglang.ThreadOf(span.Attributes()).Label; label != "mooncake transfer worker 0" {
					continue
				}
				_, has := out.res[id].Attributes().Get(sglang.AttrResourceDPRank)
				assert.False(s, has, "a worker's dp_rank is not its process's")
			}
		}
		assert.Zero(s, s.early())
		assert.EqualValues(s, 1, s.p.registry.Count().Engines)
	})
	tell(t, "an encoder's request", func(s *story) {
		m := newEngineModel("7", 0)
		trace, root := m.id(), m.id()
		begin, last, _ := m.front(trace, root)
		encoder := m.id()
		encode := parcel{source{"enc", "10.0.0.1:9"}, []fact{
			{trace, m.id(), encoder, begin.facts[0].id, "mm_encode", nil},
			{trace, encoder, root, 0, "Encoder", map[string]any{sglang.AttrThreadLabel: "Encoder"}},
		}}
		s.send(encode, begin, last)
		synctest.Wait()
		s.check()
		assert.Zero(s, s.early())
	})
	tell(t, "threads with another label are not folded", func(s *story) {
		m := newEngineModel("7", 2)
		s.send(m.serve(0)...)
		s.rest()
		s.check()
		trace, root := m.id(), m.id()
		begin, last, dispatch := m.front(trace, root)
		var streams [][]parcel
		for rank := range 2 {
			streams = append(streams, m.rank(rank, trace, root, dispatch), []parcel{{m.fromRank(rank), []fact{
				{trace, m.id(), root, 0, "Detokenizer", map[string]any{sglang.AttrThreadLabel: fmt.Sprintf("Helper %d", rank), sglang.AttrTPRank: rank}},
			}}})
		}
		s.send(append(append(interleave(streams...), begin), last)...)
		s.rest()
		s.check()
	})
}

// releases are the spellings of older releases.
var releases = map[string]func(*engineModel){
	"0.5.3": func(m *engineModel) {
		m.bare = true
		m.first = []string{"process req", "prefill"}
		m.spelling = map[string]string{"api_server_dispatch": "dispatch", "decode_loop": "decode loop"}
	},
	"0.5.9": func(m *engineModel) {
		m.bare = true
		m.spelling = map[string]string{"api_server_dispatch": "dispatch"}
	},
}

func TestStoriesOfReleases(t *testing.T) {
	for release, spell := range releases {
		tell(t, release, func(s *story) {
			m := newEngineModel("7", 3)
			spell(m)
			for range 3 {
				parcels := m.serve(0)
				root := &parcels[len(parcels)-1].facts[0]
				if release == "0.5.9" {
					root.parent = m.id()
					room := fact{root.trace, root.parent, 0, 0, "Bootstrap Room 0x0", nil}
					parcels = append(parcels, parcel{m.fromFront(), []fact{room}})
				}
				s.send(parcels...)
				s.rest()
				out := treeOf(s.sink.AllTraces())
				assert.Empty(s, out.twice)
				s.check()
			}
			assert.Zero(s, s.early())
		})
	}
}

func TestStoriesOfBatches(t *testing.T) {
	tell(t, "an earlier tier has stamped the spans", func(s *story) {
		m := newEngineModel("7", 3)
		s.send(m.serve(0)...)
		s.rest()
		first := s.sink.AllTraces()
		s.check()
		later := newStory(s.T)
		for _, td := range first {
			again := ptrace.NewTraces()
			td.CopyTo(again)
			later.in = append(later.in, again)
			require.NoError(s, later.p.ConsumeTraces(context.Background(), td))
		}
		later.rest()
		out := later.check()
		for _, span := range out.spans {
			if sglang.ThreadOf(span.Attributes()).Label == "Scheduler" {
				count, _ := span.Attributes().Get(sglang.AttrRanksCount)
				assert.EqualValues(s, 3, count.Int())
			}
		}
		checkEngines(s.T, out, 1)
	})
	tell(t, "foreign spans in the same batch", func(s *story) {
		m := newEngineModel("7", 2)
		s.send(m.serve(0)...)
		s.rest()
		s.check()
		const copies = 5
		foreign := 0
		for _, p := range m.serve(0) {
			td := p.batch()
			own := td.ResourceSpans().At(0)
			for range copies {
				ss := own.ScopeSpans().AppendEmpty()
				ss.Scope().SetName("http")
				ss.Spans().AppendEmpty().SetName("GET")
				rs := td.ResourceSpans().AppendEmpty()
				rs.Resource().Attributes().PutStr("service.name", "gateway")
				rs.ScopeSpans().AppendEmpty().Spans().AppendEmpty().SetName("GET")
				foreign += 2
			}
			require.NoError(s, s.p.ConsumeTraces(context.Background(), td))
		}
		got := 0
		for _, td := range s.sink.AllTraces() {
			eachSpan(td, func(rs ptrace.ResourceSpans, span ptrace.Span) {
				if span.Name() != "GET" {
					return
				}
				got++
				if name, ok := rs.Resource().Attributes().Get("service.name"); ok {
					assert.Equal(s, "gateway", name.Str())
					assert.Equal(s, 1, rs.Resource().Attributes().Len())
				}
			})
		}
		assert.Equal(s, foreign, got, "in the call that brought them")
	})
	tell(t, "spans without ids pass", func(s *story) {
		m := newEngineModel("7", 1)
		s.send(parcel{m.fromRank(0), []fact{{0, 0, 0, 0, "decode_loop", nil}, {0, 5, 0, 0, "decode_loop", nil}, {5, 0, 0, 0, "decode_loop", nil}}})
		assert.Equal(s, 3, s.sink.SpanCount())
		assert.Zero(s, s.p.level(heldSpans))
	})
	tell(t, "the trace level changes", func(s *story) {
		m := newEngineModel("7", 3)
		s.send(m.serve(0)...)
		s.rest()
		s.check()
		for _, level := range []int{3, 1, 1, 3, 2, 1, 3} {
			m.level = level
			s.send(m.serve(0)...)
			time.Sleep(500 * time.Millisecond)
			synctest.Wait()
			checkAtOnce(s.T, treeOf(s.sink.AllTraces()), s.sink.atOnce)
			s.rest()
			s.check()
		}
		assert.Zero(s, s.early())
	})
	tell(t, "a rank's exporter stops: nobody waits for it", func(s *story) {
		m := newEngineModel("7", 3)
		for range 2 {
			s.send(m.serve(0)...)
			s.rest()
			s.check()
		}
		m.tp = 2
		s.send(m.serve(0)...)
		s.rest()
		s.check()
		assert.Positive(s, value(s.T, s.tel, "spans_early_release", "thread_missing"))
		waited := s.early()
		s.send(m.serve(0)...)
		synctest.Wait()
		s.check()
		assert.Equal(s, waited, s.early())
		m.tp = 3
		s.send(m.serve(0)...)
		s.rest()
		s.check()
	})
}

// TestStoriesOfLateRanks: a process whose first export comes after its requests
// have left, as in a cold start. Its copies are known as such.
func TestStoriesOfLateRanks(t *testing.T) {
	const ranks = 3
	for _, level := range []int{1, 3} {
		for late := range ranks {
			tell(t, fmt.Sprintf("cold, level %d, rank %d comes 5 s late", level, late), func(s *story) {
				m := newEngineModel("7", ranks)
				m.level = level
				var inTime, after []parcel
				for range 2 {
					for _, p := range m.serve(0) {
						if p.from == m.fromRank(late) {
							after = append(after, p)
						} else {
							inTime = append(inTime, p)
						}
					}
				}
				s.send(inTime...)
				time.Sleep(5 * time.Second)
				synctest.Wait()
				left := s.sink.SpanCount()
				s.send(after...)
				s.rest()
				out := treeOf(s.sink.AllTraces())
				assert.Empty(s, out.twice)
				assert.Empty(s, out.dangling())
				assert.Len(s, out.spans, left, "a late copy left again")
				assert.EqualValues(s, len(after), value(s.T, s.tel, "spans_late", "folded"))
				assert.Zero(s, value(s.T, s.tel, "spans_lost", ""))
				s.in = nil
				s.sink.reset()
				s.send(m.serve(0)...)
				s.rest()
				s.check()
				assert.Zero(s, s.early())
			})
		}
	}
	tell(t, "slices that only a late rank has are passed, below what left", func(s *story) {
		m := newEngineModel("7", 2)
		s.send(m.serve(0)...)
		s.rest()
		s.check()
		var after []parcel
		for _, p := range m.serve(0) {
			switch {
			case p.from == m.fromRank(0):
				after = append(after, p)
			case p.facts[0].name != "prefill_forward" && p.facts[0].attrs[sglang.AttrDecodeCT] != 2:
				s.send(p)
			}
		}
		time.Sleep(5 * time.Second)
		synctest.Wait()
		s.send(after...)
		s.rest()
		out := treeOf(s.sink.AllTraces())
		assert.Empty(s, out.twice)
		assert.Empty(s, out.dangling())
		assert.Len(s, out.spans, 4+1+4+4)
		assert.EqualValues(s, 2, value(s.T, s.tel, "spans_late", "passed"))
	})
}

func TestStoriesOfLimits(t *testing.T) {
	tell(t, "more senders than the table takes", func(s *story) {
		cfg := createDefaultConfig().(*Config)
		cfg.MaxSenders = 16
		s.p, s.tel = startWith(s.T, cfg, s.sink)
		m := newEngineModel("7", 24)
		s.send(m.serve(0)...)
		s.rest()
		folded := value(s.T, s.tel, "spans_folded", "")
		assert.EqualValues(s, len(treeOf(s.in).spans), int64(s.sink.SpanCount())+folded)
		assert.Positive(s, folded)
		assert.Positive(s, value(s.T, s.tel, "senders_refused", ""))
		assert.Zero(s, s.p.level(heldSpans))
	})
	tell(t, "more requests of one trace than are told apart", func(s *story) {
		const requests = 4200
		m := newEngineModel("7", 2)
		s.send(m.serve(0)...)
		s.rest()
		s.check()
		trace := m.id()
		for i := range 2 * requests {
			rank := i % 2
			s.send(parcel{m.fromRank(rank), []fact{{trace, m.id(), m.id(), 1000 + uint64(i/2), "request_process", nil}}})
		}
		s.rest()
		time.Sleep(time.Hour)
		synctest.Wait()
		byLink := map[uint64]bool{}
		for _, span := range treeOf(s.sink.AllTraces()).spans {
			byLink[idOf(span.Links().At(0).SpanID())] = true
		}
		assert.Len(s, byLink, requests)
		assert.Less(s, s.sink.SpanCount(), 2*requests, "those that are told apart are folded")
		assert.Zero(s, s.p.level(heldSpans))
		assert.Zero(s, value(s.T, s.tel, "spans_lost", ""))
	})
}
