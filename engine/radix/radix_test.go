// Copyright The otelcol-sglang Authors
// SPDX-License-Identifier: Apache-2.0

package radix

import (
	"slices"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"github.com/otelcol-sglang/otelcol-sglang/engine/kv"
)

// rig is a tree with its pools.
type rig struct {
	*Tree
	t require.TestingT
}

func newRig(t require.TestingT, tokens, pageSize int, more ...func(*Config)) *rig {
	c := Config{PageSize: pageSize}
	c.Device[Full] = kv.NewPages(tokens, pageSize)
	for _, f := range more {
		f(&c)
	}
	return &rig{Tree: New(c), t: t}
}

func withWindow(window, tokens int) func(*Config) {
	return func(c *Config) { c.Window, c.Device[SWA] = window, kv.NewPages(tokens, c.PageSize) }
}

func withMamba(states int) func(*Config) {
	return func(c *Config) { c.Device[Mamba] = kv.NewPages(states, 1) }
}

func withHost(tokens int) func(*Config) {
	return func(c *Config) {
		for p, pages := range c.Device {
			if pages != nil {
				c.Host[p] = kv.NewPages(tokens, pages.Size())
			}
		}
	}
}

// put gives the tree all whole pages of tokens, with all parts.
func (r *rig) put(extra string, tokens ...int32) *Node {
	tokens = tokens[:r.Aligned(len(tokens))]
	run := Run{Tokens: tokens}
	for _, p := range [...]Part{Full, SWA} {
		if pages := r.Device[p]; pages != nil {
			run.Pages[p] = pages.Append(nil, len(tokens)/r.PageSize)
		}
	}
	if m := r.Device[Mamba]; m != nil {
		run.Pages[Mamba] = m.Append(nil, 1)
	}
	n := r.Insert(r.Root(extra), run)
	r.check()
	return n
}

func (r *rig) find(extra string, tokens ...int32) Match {
	m := r.Match(r.Root(extra), tokens)
	r.check()
	return m
}

func (r *rig) check() {
	require.NoError(r.t, r.Check())
	for p := range Parts {
		dev, host := r.Owned(p)
		for i, pages := range [...]*kv.Pages{r.Device[p], r.Host[p]} {
			if pages == nil {
				continue
			}
			a := pages.Audit("pool")
			for _, l := range [...][][]int32{dev, host}[i] {
				a.Own("the tree", l)
			}
			require.NoError(r.t, a.Err())
		}
	}
}

// seq is the tokens from through to.
func seq(from, to int32) []int32 {
	var s []int32
	for i := from; i <= to; i++ {
		s = append(s, i)
	}
	return s
}

func TestMatchSplitsAndFollows(t *testing.T) {
	r := newRig(t, 100, 1)
	r.put("", seq(1, 10)...)
	r.put("", append(seq(1, 5), 60, 61)...)
	assert.Equal(t, 10, r.find("", seq(1, 20)...).Device)
	assert.Equal(t, 7, r.find("", append(seq(1, 5), 60, 61, 62)...).Device)
	assert.Equal(t, 3, r.find("", 1, 2, 3, 99).Device, "in the middle of a node")
	assert.Equal(t, 0, r.find("", 2, 3).Device)
	assert.Equal(t, 88, r.Device[Full].Free(), "the shared five tokens are there once")
}

func TestMatchTakesWholePages(t *testing.T) {
	r := newRig(t, 160, 4)
	r.put("", seq(1, 11)...)
	assert.Equal(t, 8, r.find("", seq(1, 11)...).Device)
	assert.Equal(t, 4, r.find("", append(seq(1, 7), 99)...).Device, "the second page differs at its end")
}

func TestNamespacesShareNothing(t *testing.T) {
	r := newRig(t, 100, 1)
	n := r.put("adapter", seq(1, 10)...)
	assert.Equal(t, "adapter", n.Extra())
	assert.Equal(t, 0, r.find("", seq(1, 10)...).Device)
	assert.Equal(t, 10, r.find("adapter", seq(1, 10)...).Device)
}

func TestEvictsTheLeastRecentlyUsedLeaf(t *testing.T) {
	r := newRig(t, 30, 1)
	r.put("", append(seq(1, 5), seq(11, 15)...)...)
	r.put("", append(seq(1, 5), seq(21, 25)...)...)
	r.put("", seq(31, 35)...)
	r.find("", append(seq(1, 5), seq(11, 15)...)...)

	assert.Equal(t, Evicted{Tokens: 5, Nodes: 1}, r.Evict(Full, 1))
	assert.Equal(t, 5, r.find("", append(seq(1, 5), seq(21, 25)...)...).Device, "the leaf that was longest unused went first, its parent stays")
	r.Evict(Full, 6)
	assert.Equal(t, 0, r.find("", seq(31, 35)...).Device)
	r.check()
}

func TestLockedNodesStay(t *testing.T) {
	r := newRig(t, 30, 1)
	n := r.put("", seq(1, 10)...)
	l := r.Lock(n)
	r.put("", seq(11, 20)...)
	assert.Equal(t, 10, r.Evictable(Full))
	assert.Equal(t, 10, r.Locked(Full))
	r.find("", 1, 2, 3) // splits what is locked
	r.Evict(Full, 30)
	assert.Equal(t, 10, r.find("", seq(1, 10)...).Device)
	assert.Equal(t, 0, r.Evictable(Full))
	r.Unlock(&l)
	r.check()
	assert.Equal(t, 10, r.Evictable(Full), "evictable are the unlocked nodes")
}

func TestWindowDecidesWhatCanBeUsed(t *testing.T) {
	r := newRig(t, 100, 1, withWindow(4, 100))
	r.put("", seq(1, 10)...)
	long := r.put("", seq(1, 20)...)
	assert.Equal(t, 20, r.find("", seq(1, 20)...).Device)

	l := r.Lock(long)
	assert.Equal(t, 10, r.Locked(SWA), "nodes of the last window")
	assert.Equal(t, 10, r.Evictable(SWA), "tokens outside the window can go")
	assert.Equal(t, 20, r.Locked(Full))
	r.Evict(SWA, 10)
	r.check()
	assert.Equal(t, 90, r.Device[SWA].Free())
	assert.Equal(t, 20, r.find("", seq(1, 20)...).Device, "the last window is there")
	assert.Equal(t, 0, r.find("", append(seq(1, 10), 99)...).Device, "that window is gone")
	r.find("", seq(1, 15)...) // splits inside of what the window locks
	r.Unlock(&l)
	r.check()
	assert.Equal(t, 10, r.Evictable(SWA))
	r.Evict(SWA, 10)
	assert.Equal(t, 0, r.Locked(SWA)+r.Evictable(SWA))
	r.check()
}

func TestInsertMendsALostWindow(t *testing.T) {
	r := newRig(t, 100, 1, withWindow(4, 100))
	r.put("", seq(1, 10)...)
	l := r.Lock(r.put("", seq(1, 20)...))
	r.Evict(SWA, 10)
	r.put("", seq(1, 10)...)
	assert.Equal(t, 10, r.find("", append(seq(1, 10), 99)...).Device)
	r.Unlock(&l)
	r.check()
}

func TestInsertWithHolesMakesTwoNodes(t *testing.T) {
	r := newRig(t, 100, 2, withWindow(4, 100))
	run := Run{Tokens: seq(1, 10)}
	run.Pages[Full] = r.Device[Full].Append(nil, 5)
	run.Pages[SWA] = append([]int32{kv.Hole, kv.Hole}, r.Device[SWA].Append(nil, 3)...)
	r.Insert(r.Root(""), run)
	assert.Equal(t, 3, r.Evictable(SWA))
	assert.Equal(t, 5, r.Evictable(Full))
	assert.Equal(t, 10, r.find("", seq(1, 10)...).Device)
	assert.Equal(t, 0, r.find("", seq(1, 4)...).Device)
}

func TestStateDecidesWhatCanBeUsed(t *testing.T) {
	r := newRig(t, 100, 1, withMamba(4))
	r.put("", seq(1, 10)...)
	r.put("", seq(1, 20)...)
	assert.Equal(t, 10, r.find("", seq(1, 15)...).Device, "there is a state after 10 tokens, none after 15")
	r.Evict(Mamba, 1)
	r.check()
	assert.Equal(t, 10, r.find("", seq(1, 20)...).Device, "a leaf without its state is of no use and goes")
	assert.Equal(t, 85, r.Device[Full].Free(), "five of its tokens, as 11 to 15 were split off")
	l := r.Lock(r.put("", seq(1, 20)...))
	r.Evict(Mamba, 1)
	r.check()
	assert.Equal(t, 0, r.find("", seq(1, 12)...).Device, "an inner node loses the state alone")
	assert.Equal(t, 20, r.find("", seq(1, 20)...).Device)
	r.Unlock(&l)
}

func TestTailIsComputedAgain(t *testing.T) {
	r := newRig(t, 100, 2, func(c *Config) { c.Tail = 3 })
	r.put("", seq(1, 10)...)
	m := r.find("", seq(1, 20)...)
	assert.Equal(t, 6, m.Device)
	assert.Equal(t, 6, r.At(r.Root(""), seq(1, 6)).Device)
	assert.Equal(t, 0, r.find("", seq(1, 2)...).Device)
}

// backUp gives a node and all above it copies on the host.
func (r *rig) backUp(n *Node) {
	for ; n.Parent() != nil; n = n.Parent() {
		for p := range Parts {
			if n.OnDevice(p) && !n.OnHost(p) {
				r.SetHost(n, p, r.Host[p].Append(nil, n.Pages(p)))
			}
		}
	}
}

func TestHostKeepsWhatTheDeviceEvicts(t *testing.T) {
	r := newRig(t, 40, 1, withHost(40), func(c *Config) {
		c.MinHost, c.Keep = 3, func(n *Node) bool { return n.OnHost(Full) }
	})
	r.backUp(r.put("", seq(1, 10)...))
	r.put("", seq(1, 20)...)
	r.Evict(Full, 20)
	m := r.find("", seq(1, 20)...)
	assert.Equal(t, 0, m.Device)
	assert.Equal(t, 10, m.Host, "the second half had no copy")

	l := r.Lock(m.Node)
	assert.Equal(t, [Parts]int{Full: 10}, r.Missing(m.Node))
	r.EvictHost(40)
	assert.Equal(t, 30, r.Host[Full].Free(), "what a request is about to load stays")
	r.Load(m.Node)
	r.Unlock(&l)
	r.check()
	assert.Equal(t, 10, r.find("", seq(1, 20)...).Device)
	r.Evict(Full, 10)
	r.EvictHost(31)
	assert.Equal(t, Match{Node: r.Root("")}, r.find("", seq(1, 20)...))
	assert.Equal(t, 40, r.Host[Full].Free())
}

func TestCopiesGoLast(t *testing.T) {
	r := newRig(t, 40, 1, withHost(30), func(c *Config) { c.Keep = func(n *Node) bool { return n.OnHost(Full) } })
	r.backUp(r.put("", seq(1, 10)...))
	r.Evict(Full, 10)
	low := r.put("", seq(11, 20)...)
	leaf := r.put("", seq(11, 30)...)
	r.backUp(leaf)
	b := r.StartBackup(leaf)
	r.EvictHost(10)
	r.check()
	assert.Zero(t, r.find("", seq(1, 10)...).Host, "what is on the host alone goes first")
	r.EvictHost(30)
	r.check()
	assert.True(t, low.OnHost(Full), "a copy is under way below it")
	r.EndBackup(b)
	r.EvictHost(11)
	r.check()
	assert.False(t, leaf.OnHost(Full))
	assert.True(t, low.OnHost(Full))
	assert.Equal(t, 20, r.find("", seq(11, 30)...).Device)
}

func TestFewTokensOnTheHostAreLeft(t *testing.T) {
	r := newRig(t, 40, 1, withHost(40), func(c *Config) { c.MinHost, c.Keep = 10, func(*Node) bool { return true } })
	r.backUp(r.put("", seq(1, 9)...))
	r.Evict(Full, 9)
	assert.Equal(t, 0, r.find("", seq(1, 9)...).Host)
}

func TestInsertHostOverlaps(t *testing.T) {
	r := newRig(t, 40, 1, withHost(40))
	r.backUp(r.put("", seq(1, 6)...))
	run := Run{Tokens: seq(1, 10)}
	run.Pages[Full] = r.Host[Full].Append(nil, 10)
	n, o := r.InsertHost(r.Root(""), run)
	r.check()
	assert.Equal(t, Overlap{Device: 6}, o)
	assert.Equal(t, 10, n.End())
	m := r.find("", seq(1, 10)...)
	assert.Equal(t, [2]int{6, 4}, [2]int{m.Device, m.Host})
	r.put("", seq(1, 10)...)
	assert.Equal(t, 10, r.find("", seq(1, 10)...).Device, "computed after all")
}

func TestHostLockOutlivesItsNode(t *testing.T) {
	r := newRig(t, 40, 1, withHost(40))
	r.put("", seq(1, 5)...)
	n := r.put("", seq(1, 10)...)
	r.LockHost(n)
	r.Evict(Full, 5) // without a copy: dropped, with its lock
	assert.True(t, n.Dead())
	r.UnlockHost(n)
	r.check()
	for _, c := range r.Root("").kids.list {
		assert.Zero(t, c.hostLock)
	}
}

func TestSplitKeepsTheHostLock(t *testing.T) {
	r := newRig(t, 40, 1, withHost(40), func(c *Config) { c.Keep = func(n *Node) bool { return n.OnHost(Full) } })
	n := r.put("", seq(1, 10)...)
	r.backUp(n)
	r.LockHost(n)
	r.find("", seq(1, 4)...)
	r.Evict(Full, 10)
	r.EvictHost(40)
	assert.Equal(t, 10, r.find("", seq(1, 10)...).Host)
	r.UnlockHost(n)
	r.EvictHost(40)
	r.check()
	assert.Equal(t, 40, r.Host[Full].Free())
}

func TestManyChildrenAndTheirHashes(t *testing.T) {
	r := newRig(t, 800, 2)
	for i := range int32(200) {
		r.put("", i, i, i)
	}
	for i := range int32(200) {
		require.Equal(t, 2, r.find("", i, i).Device)
	}
	assert.NotNil(t, r.Root("").kids.index)
	r.Evict(Full, 140)
	r.check()
	assert.Equal(t, 0, r.find("", 3, 3).Device)
	assert.Equal(t, 2, r.find("", 199, 199).Device)
}

func TestEqualHashesGoLinear(t *testing.T) {
	var k kids
	for i := range int32(fewKids + 1) {
		k.add(&Node{key: []int32{i, i}}, 2)
	}
	require.NotNil(t, k.index)
	// A child whose first page pretends to have the hash of another's.
	k.index[hashPage([]int32{77, 77})] = 0
	k.add(&Node{key: []int32{77, 77}}, 2)
	assert.Nil(t, k.index)
	for _, c := range k.list {
		assert.Same(t, c, k.find(c.key))
	}
}

func TestHitWindowWeighsByTokens(t *testing.T) {
	w := HitWindow{Span: 10 * time.Second}
	_, ok := w.Share(0)
	assert.False(t, ok, "nothing yet is not 0")
	w.Add(time.Second, 900, 1000)
	w.Add(2*time.Second, 0, 200)
	got, _ := w.Share(3 * time.Second)
	assert.InDelta(t, 0.75, got, 1e-9, "not the mean of 0.9 and 0")
	got, ok = w.Share(12 * time.Second)
	assert.True(t, ok)
	assert.Zero(t, got)
	_, ok = w.Share(20 * time.Second)
	assert.False(t, ok)
}

// TestModel compares the tree with a list of sequences: without eviction a match is
// the longest prefix that any of them shares; with it, never more, and never less
// than what is locked.
func TestModel(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		pageSize := rapid.SampledFrom([]int{1, 2, 4}).Draw(t, "page")
		r := newRig(t, 400*pageSize, pageSize)
		var model [][]int32
		var locks []Lock
		evicted := false
		tokens := func(t *rapid.T) []int32 {
			return rapid.SliceOfN(rapid.Int32Range(0, 1), 1, 24).Draw(t, "tokens")
		}
		t.Repeat(map[string]func(*rapid.T){
			"insert": func(t *rapid.T) {
				s := tokens(t)
				if r.Device[Full].Free() < len(s) {
					t.Skip("full")
				}
				n := r.put("", s...)
				model = append(model, s[:r.Aligned(len(s))])
				if n.Parent() != nil && rapid.Bool().Draw(t, "lock") {
					locks = append(locks, r.Lock(n))
				}
			},
			"match": func(t *rapid.T) {
				s := tokens(t)
				got := r.find("", s...).Device
				want := longest(model, s, pageSize)
				if got > want || !evicted && got < want {
					t.Fatalf("matched %d of %v, want %d", got, s, want)
				}
			},
			"evict": func(t *rapid.T) {
				before := r.Device[Full].Free()
				n := rapid.IntRange(1, 30).Draw(t, "pages")
				possible := r.Evictable(Full)
				r.Evict(Full, n)
				evicted = true
				if freed := r.Device[Full].Free() - before; freed < min(n, possible) {
					t.Fatalf("freed %d of %d, %d were evictable", freed, n, possible)
				}
				for _, l := range locks {
					if got := r.find("", l.Node.Tokens(nil)...).Device; got < l.Node.End() {
						t.Fatalf("%d locked tokens, found %d", l.Node.End(), got)
					}
				}
			},
			"unlock": func(t *rapid.T) {
				if len(locks) == 0 {
					t.Skip("none")
				}
				r.Unlock(&locks[0])
				locks = slices.Delete(locks, 0, 1)
			},
			"flush": func(t *rapid.T) {
				r.Flush()
				evicted = true
				if r.Evictable(Full) != 0 {
					t.Fatalf("%d evictable after a flush", r.Evictable(Full))
				}
			},
			"": func(*rapid.T) { r.check() },
		})
	})
}

func longest(model [][]int32, tokens []int32, pageSize int) int {
	best := 0
	for _, s := range model {
		best = max(best, common(s, tokens)/pageSize*pageSize)
	}
	return best
}

func BenchmarkMatch(b *testing.B) {
	r := New(Config{PageSize: 1, Device: [Parts]*kv.Pages{kv.NewPages(1<<20, 1)}})
	for i := range int32(100) {
		s := append(seq(0, 4000), seq(10000*i, 10000*i+200)...)
		r.Insert(r.Root(""), Run{Tokens: s, Pages: [Parts][]int32{r.Device[Full].Append(nil, len(s))}})
	}
	tokens := append(seq(0, 4000), seq(500000, 500200)...)
	b.ReportAllocs()
	for b.Loop() {
		if r.Match(r.Root(""), tokens).Device < 4000 {
			b.Fatal("lost")
		}
	}
}
