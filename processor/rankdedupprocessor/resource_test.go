// Copyright The otelcol-sglang Authors
// SPDX-License-Identifier: Apache-2.0

package rankdedupprocessor

import (
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"go.opentelemetry.io/collector/pdata/pcommon"

	"github.com/otelcol-sglang/otelcol-sglang/internal/capture"
	"github.com/otelcol-sglang/otelcol-sglang/internal/sglang"
	"github.com/otelcol-sglang/otelcol-sglang/processor/rankdedupprocessor/internal/identity"
)

// TestKeyOf: what tells a sender, in the order of the design.
func TestKeyOf(t *testing.T) {
	long := strings.Repeat("x", maxKey)
	for name, tc := range map[string]struct {
		attrs map[string]any
		want  identity.Key
	}{
		"nothing":                  {map[string]any{"service.name": "sglang"}, identity.Key{}},
		"instance":                 {map[string]any{attrInstanceID: "i", attrHostID: "h", attrPID: 7}, identity.Key{Instance: "i"}},
		"instance and peer":        {map[string]any{attrInstanceID: "i", sglang.AttrExporterPeer: "c/1:2"}, identity.Key{Instance: "i", Peer: "c/1:2"}},
		"host id and process":      {map[string]any{attrHostID: "h", attrHostName: "n", attrPID: 7}, identity.Key{Instance: "h/7"}},
		"host name and process":    {map[string]any{attrHostName: "n", attrPID: "7"}, identity.Key{Instance: "n/7"}},
		"a process without host":   {map[string]any{attrPID: 7}, identity.Key{Instance: "/7"}},
		"a host is no process":     {map[string]any{attrHostID: "h", attrHostName: "n"}, identity.Key{}},
		"peer alone":               {map[string]any{sglang.AttrExporterPeer: "c/1:2"}, identity.Key{Peer: "c/1:2"}},
		"as long as is remembered": {map[string]any{attrInstanceID: long}, identity.Key{Instance: long}},
	} {
		t.Run(name, func(t *testing.T) {
			attrs := pcommon.NewMap()
			require.NoError(t, attrs.FromRaw(tc.attrs))
			tc.want.Ranks = sglang.NoRanks
			assert.Equal(t, tc.want, keyOf(attrs))
		})
	}
	earlier := pcommon.NewMap()
	require.NoError(t, earlier.FromRaw(map[string]any{
		sglang.AttrEngineID: "e", sglang.AttrResourceTPRank: 3, sglang.AttrResourcePPRank: 1, sglang.AttrResourceDPRank: 2,
	}))
	assert.Equal(t, identity.Key{Engine: "e", Ranks: sglang.Ranks{TP: 3, PP: 1, DP: 2}}, keyOf(earlier))
	assert.Equal(t, identity.Key{Ranks: sglang.NoRanks}, keyOf(pcommon.NewMap()))
	assert.NotEqual(t, bounded(long+"1"), bounded(long+"2"))
	assert.Less(t, len(bounded(strings.Repeat(long, 100))), maxKey)
}

// TestRanksOnResources: what leaves names its process's ranks and engine as its
// thread span does; the front end has none.
func TestRanksOnResources(t *testing.T) {
	for _, name := range []string{"dp-attention-tp4-dp2", "dp2-tp2", "unified-tp2-pp2", "pd-prefill-tp2-decode-tp2"} {
		exports, err := capture.Load(capturesDir, "traces-"+name)
		require.NoError(t, err)
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				r := start(t, createDefaultConfig().(*Config))
				for run := range uint64(2) {
					r.sink.reset()
					r.replay(exports, run, byPeer)
					checkResources(t, treeOf(r.sink.AllTraces()))
				}
			})
		})
	}
}

func checkResources(t *testing.T, out *tree) {
	t.Helper()
	scheduled := 0
	for id, span := range out.spans {
		attrs := out.res[id].Attributes()
		_, stamped := attrs.Get(sglang.AttrExporterPeer)
		assert.False(t, stamped, "%s: the stamp is not needed any more", span.Name())
		want := sglang.NoRanks
		if thread, ok := out.thread(span); ok {
			if th := sglang.ThreadOf(thread.Attributes()); sglang.ProcessOf(th.Label) == sglang.ProcessScheduler {
				want = th.Ranks
				scheduled++
			}
		}
		key := keyOf(attrs)
		assert.Equal(t, want, key.Ranks, "ranks of %s", span.Name())
		assert.NotEmpty(t, key.Engine, "engine of %s", span.Name())
	}
	assert.Positive(t, scheduled)
}

// asOlderSDK takes the instance id away and tells host and process instead, as
// SDKs do that set none.
func asOlderSDK(res pcommon.Resource) {
	instance, _ := res.Attributes().Get(attrInstanceID)
	pid := instance.Str()
	res.Attributes().Clear()
	res.Attributes().PutStr(attrHostID, "one host")
	res.Attributes().PutStr(attrPID, pid)
}

// asLongIDs makes instance ids that differ beyond what is remembered.
func asLongIDs(res pcommon.Resource) {
	instance, _ := res.Attributes().Get(attrInstanceID)
	id := strings.Repeat("x", 2*maxKey) + instance.Str()
	res.Attributes().Clear()
	res.Attributes().PutStr(attrInstanceID, id)
}

// asMerged makes all processes look like one.
func asMerged(res pcommon.Resource) {
	res.Attributes().Clear()
	res.Attributes().PutStr(attrInstanceID, "pod")
	res.Attributes().PutStr(sglang.AttrExporterPeer, "collector/10.0.0.1:1")
}

func TestStoriesOfResources(t *testing.T) {
	for name, dress := range map[string]func(pcommon.Resource){"host and process": asOlderSDK, "long instance ids": asLongIDs} {
		tell(t, "two engines with equal ranks on one host: "+name, func(s *story) {
			s.dress = dress
			a, b := newEngineModel("7", 3), newEngineModel("8", 3)
			for round := range 3 {
				s.send(interleave(a.serve(0), b.serve(0), a.serve(0))...)
				s.rest()
				out := treeOf(s.sink.AllTraces())
				if round > 0 {
					checkAtOnce(s.T, out, s.sink.atOnce)
				}
				checkEngines(s.T, s.check(), 2)
			}
			assert.Zero(s, s.early())
			assert.Zero(s, s.p.registry.Count().Ambiguous)
			assert.EqualValues(s, 2*3, s.p.registry.Count().Known)
		})
	}
	tell(t, "one engine over two hosts", func(s *story) {
		m := newEngineModel("7", 4)
		s.dress = func(res pcommon.Resource) {
			instance, _ := res.Attributes().Get(attrInstanceID)
			host := "near"
			if instance.Str() == "7-rank2" || instance.Str() == "7-rank3" {
				host = "far"
			}
			res.Attributes().PutStr(attrHostName, host)
			res.Attributes().PutStr("k8s.pod.name", "pod-"+host)
		}
		for range 3 {
			s.send(m.serve(0)...)
			s.rest()
			checkEngines(s.T, s.check(), 1)
		}
		assert.Zero(s, s.early())
	})
	tell(t, "everything merged shows before any thread span", func(s *story) {
		s.dress = asMerged
		m := newEngineModel("7", 2)
		all := m.serve(0)
		for _, p := range all {
			if p.is("request_process") {
				s.send(p)
			}
		}
		assert.EqualValues(s, 1, s.p.registry.Count().Ambiguous)
		s.send(drop(all, func(p parcel) bool { return p.is("request_process") })...)
		s.rest()
		s.check()
		assert.Zero(s, s.early())
	})
	tell(t, "an engine's id stays while it lives", func(s *story) {
		m := newEngineModel("7", 2)
		ids := map[string]bool{}
		round := func() {
			s.send(m.serve(0)...)
			s.rest()
			out := treeOf(s.sink.AllTraces())
			s.check()
			for id := range out.spans {
				ids[keyOf(out.res[id].Attributes()).Engine] = true
			}
		}
		round()
		require.Len(s, ids, 1)
		m.tp = 3 // a rank that had said nothing yet
		round()
		from := m.fromRank
		m.fromRank = func(rank int) source { f := from(rank); return source{f.instance + " anew", f.peer + "5"} }
		round()
		front := m.fromFront
		m.fromFront = func() source { f := front(); return source{f.instance + " anew", f.peer + "5"} }
		round()
		require.Len(s, ids, 2, "processes that are all new are another engine")
	})
	tell(t, "an instance id elsewhere counts once it was free of contradiction", func(s *story) {
		// The id moves to another port at once: nobody says that it is the same process.
		m := newEngineModel("7", 2)
		s.send(m.serve(0)...)
		time.Sleep(5 * time.Second)
		synctest.Wait()
		s.check()
		from := m.fromRank
		m.fromRank = func(rank int) source { f := from(rank); f.peer += "5"; return f }
		all := m.serve(0)
		firsts := 1 + m.tp // the front end's, then the first slice of each rank
		s.send(all[:firsts]...)
		assert.EqualValues(s, m.tp, s.p.registry.Count().Known)
		assert.EqualValues(s, m.tp, s.p.level(heldSpans), "they wait for their thread spans")
		s.send(all[firsts:]...)
		s.rest()
		s.check()
	})
}
