// Copyright The otelcol-sglang Authors
// SPDX-License-Identifier: Apache-2.0

package memory

import (
	"fmt"
	"slices"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/otelcol-sglang/otelcol-sglang/engine/args"
	"github.com/otelcol-sglang/otelcol-sglang/engine/clock"
	"github.com/otelcol-sglang/otelcol-sglang/engine/hicache"
	"github.com/otelcol-sglang/otelcol-sglang/engine/ledger"
	"github.com/otelcol-sglang/otelcol-sglang/internal/sglang"
)

// machine drives a memory by random steps and compares it with a plain model: the
// list of sequences that were ever given to the tree.
type machine struct {
	m    *Memory
	loop *clock.Loop
	book *book
	a    args.Args

	running  []*running
	waiting  []*running
	reserved []int
	known    map[string][][]int32 // by adapter
	slots    map[string][]int32   // by session: what its last turn left
	made     int
}

type running struct {
	r      *ledger.Request
	h      ledger.Holding
	tokens []int32 // prompt, and what it made so far
	alloc  int
	prefix int
}

func newMachine(t *rapid.T) *machine {
	mc := &machine{loop: clock.NewVirtual(time.Unix(0, 0)), book: &book{}, known: make(map[string][][]int32), slots: make(map[string][]int32)}
	mc.a = args.Default()
	mc.a.PageSize = rapid.SampledFrom([]int{1, 4, 16}).Draw(t, "page")
	mc.a.DisableRadixCache = rapid.IntRange(0, 9).Draw(t, "cacheOff") == 0
	mc.a.EnableStreamingSession = true
	s := Sizes{Tokens: rapid.SampledFrom([]int{64, 320, 800, 1600}).Draw(t, "pool"), BytesPerToken: 1 << 17}
	if rapid.Bool().Draw(t, "window") {
		s.Window = rapid.IntRange(1, 40).Draw(t, "windowSize")
		s.WindowTokens = max(s.Window, 16) + rapid.SampledFrom([]int{16, 300, 900}).Draw(t, "windowPool")
		s.WindowRings = rapid.Bool().Draw(t, "rings")
		s.WindowBytesPerToken = 1 << 16
	}
	if rapid.Bool().Draw(t, "mamba") {
		s.States = rapid.IntRange(1, 12).Draw(t, "states")
		s.StateBytes = 1 << 20
		if rapid.Bool().Draw(t, "int8") {
			s.Checkpoints = rapid.IntRange(1, 12).Draw(t, "checkpoints")
		}
	}
	mc.hierarchy(t, &s)
	var err error
	if mc.m, err = New(&mc.a, s, mc.loop, mc.book, &mc.book.storage); err != nil {
		t.Fatal(err)
	}
	return mc
}

func (mc *machine) hierarchy(t *rapid.T, s *Sizes) {
	mc.a.EnableHierarchicalCache = rapid.Bool().Draw(t, "hierarchical")
	mc.a.HiCacheWritePolicy = rapid.SampledFrom([]string{
		sglang.WriteThrough, sglang.WriteThroughSelective, sglang.WriteBack,
	}).Draw(t, "write")
	mc.a.HiCacheStoragePrefetch = rapid.SampledFrom([]string{
		sglang.PrefetchBestEffort, sglang.PrefetchWaitComplete, sglang.PrefetchTimeout,
	}).Draw(t, "prefetch")
	mc.a.HiCacheRatio = rapid.SampledFrom([]float64{0.3, 1, 4}).Draw(t, "ratio")
	if rapid.Bool().Draw(t, "storage") {
		mc.a.HiCacheStorageBackend = "file"
		s.Storage = hicache.NewStorage(64*rapid.IntRange(1, 40).Draw(t, "storagePages"), mc.a.PageSize)
	}
}

// prompt shares a prefix with one of few texts, so that all of match, split and
// eviction happen.
func (mc *machine) prompt(t *rapid.T) []int32 {
	text := rapid.IntRange(0, 2).Draw(t, "text")
	n := rapid.SampledFrom([]int{1, 5, 17, 64, 130, 300, 330, 600}).Draw(t, "length")
	quarters := rapid.IntRange(0, 4).Draw(t, "common")
	branch := rapid.IntRange(1, 2).Draw(t, "branch")
	tokens := make([]int32, n)
	for i := range tokens {
		tokens[i] = int32(text*1000 + i)
		if i >= n*quarters/4 {
			tokens[i] += int32(10000 * branch)
		}
	}
	return tokens
}

func (mc *machine) Arrive(t *rapid.T) {
	mc.made++
	r := ledger.NewRequest(fmt.Sprint(mc.made), ledger.KindChat)
	r.LoRA = rapid.SampledFrom([]string{"", "", "a", "b"}).Draw(t, "adapter")
	r.Session = rapid.SampledFrom([]string{"", "", "", "s", "z"}).Draw(t, "session")
	tokens := mc.prompt(t)
	if slot := mc.slots[r.Session]; slot != nil && rapid.Bool().Draw(t, "continue") {
		tokens = append(slices.Clone(slot), tokens...)
	}
	w := &running{r: r, tokens: tokens}
	mc.match(t, w)
	mc.waiting = append(mc.waiting, w)
}

// match compares what the tree finds with the model: no more than was ever cached.
func (mc *machine) match(t *rapid.T, w *running) ledger.Prefix {
	p := mc.m.Match(w.r, w.tokens)
	total := p.Device + p.Host + p.Storage
	if total >= len(w.tokens) && total > 0 || min(p.Device, p.Host, p.Storage) < 0 {
		t.Fatalf("matched %+v of %d tokens", p, len(w.tokens))
	}
	if w.r.Session != "" {
		return p
	}
	if total%mc.a.PageSize != 0 || total > mc.longest(w) {
		t.Fatalf("matched %+v, the longest that was cached is %d", p, mc.longest(w))
	}
	return p
}

func (mc *machine) longest(w *running) int {
	best := 0
	for _, seq := range mc.known[w.r.LoRA] {
		n := 0
		for n < min(len(seq), len(w.tokens)) && seq[n] == w.tokens[n] {
			n++
		}
		best = max(best, n)
	}
	return best
}

func (mc *machine) note(w *running, n int) {
	mc.known[w.r.LoRA] = append(mc.known[w.r.LoRA], slices.Clone(w.tokens[:n]))
}

func (mc *machine) Begin(t *rapid.T) {
	w := pick(t, mc.waiting)
	p := mc.match(t, w)
	if !p.Ready {
		t.Skip("waits for its prefetch")
	}
	total := p.Device + p.Host + p.Storage
	extra := len(w.tokens) - total
	if rapid.Bool().Draw(t, "chunked") {
		extra = (extra + 1) / 2
	}
	full, swa, mamba := mc.m.Books()
	h, ok := mc.m.Begin(w.r, w.tokens, p, extra)
	if !ok {
		f, s, m := mc.m.Books()
		if f != full || s != swa || m != mamba {
			t.Fatalf("a refused begin changed the books: %+v %+v %+v, before %+v %+v %+v", f, s, m, full, swa, mamba)
		}
		if swa.Capacity == 0 && mamba.Capacity == 0 && w.r.Session+w.r.LoRA == "" && p.Host+p.Storage == 0 &&
			extra+mc.a.PageSize+p.Device <= mc.m.Room() {
			t.Fatalf("refused %d tokens with room for %d", extra, mc.m.Room())
		}
		return
	}
	mc.book.storage.used += p.Storage
	w.h, w.prefix, w.alloc = h, total, total+extra
	mc.waiting = remove(mc.waiting, w)
	mc.running = append(mc.running, w)
}

// Serve takes a request all the way, so that the memory fills within few steps.
func (mc *machine) Serve(t *rapid.T) {
	for range 3 {
		mc.Arrive(t)
		mc.loop.RunUntil(mc.loop.Now() + 100*time.Millisecond)
		w := mc.waiting[len(mc.waiting)-1]
		p := mc.match(t, w)
		if h, ok := mc.m.Begin(w.r, w.tokens, p, len(w.tokens)-p.Device-p.Host-p.Storage); ok {
			mc.book.storage.used += p.Storage
			mc.note(w, len(w.tokens))
			mc.m.Finish(h, w.tokens)
			mc.waiting = remove(mc.waiting, w)
			if w.r.Session != "" {
				mc.slots[w.r.Session] = slices.Clone(w.tokens)
			}
		}
		mc.Check(t)
	}
}

func (mc *machine) Extend(t *rapid.T) {
	w := pick(t, mc.running)
	n := rapid.SampledFrom([]int{1, 4, 60}).Draw(t, "more")
	if !mc.m.Extend(w.h, n) {
		return
	}
	w.alloc += n
	for len(w.tokens) < w.alloc {
		w.tokens = append(w.tokens, int32(50000+len(w.tokens)))
	}
}

func (mc *machine) Cache(t *rapid.T) {
	w := pick(t, mc.running)
	mc.m.Cache(w.h, w.tokens[:w.alloc])
	mc.note(w, w.alloc)
	if mc.a.DisableRadixCache {
		return
	}
	// Locked: others find it, and nothing evicts it. A sliding window, a ring or a
	// state may be missing.
	if mc.m.pools[1] == nil && mc.m.pools[2] == nil {
		other := &running{r: ledger.NewRequest("x", ledger.KindChat), tokens: append(slices.Clone(w.tokens[:w.alloc]), -1)}
		other.r.LoRA = w.r.LoRA
		if p := mc.m.Match(other.r, other.tokens); p.Device != w.alloc/mc.a.PageSize*mc.a.PageSize {
			t.Fatalf("%d tokens were cached and are locked, found %+v", w.alloc, p)
		}
		mc.m.Forget(other.r)
	}
}

func (mc *machine) Finish(t *rapid.T) {
	w := pick(t, mc.running)
	n := rapid.IntRange(w.prefix, w.alloc).Draw(t, "computed")
	mc.note(w, n)
	mc.note(w, w.alloc) // what Cache gave stays
	mc.m.Finish(w.h, w.tokens[:n])
	if w.r.Session != "" {
		mc.slots[w.r.Session] = slices.Clone(w.tokens[:n])
	}
	mc.running = remove(mc.running, w)
}

func (mc *machine) Release(t *rapid.T) {
	w := pick(t, mc.running)
	mc.m.Release(w.h)
	mc.running = remove(mc.running, w)
	if rapid.Bool().Draw(t, "again") {
		mc.waiting = append(mc.waiting, w)
	}
}

func (mc *machine) Abort(t *rapid.T) {
	w := pick(t, mc.waiting)
	mc.m.Forget(w.r)
	mc.waiting = remove(mc.waiting, w)
}

func (mc *machine) Reserve(t *rapid.T) {
	n := rapid.IntRange(1, 200).Draw(t, "tokens")
	if mc.m.Reserve(n) {
		mc.reserved = append(mc.reserved, n)
	}
}

func (mc *machine) Unreserve(t *rapid.T) {
	if len(mc.reserved) == 0 {
		t.Skip("nothing reserved")
	}
	mc.m.Unreserve(mc.reserved[0])
	mc.reserved = mc.reserved[1:]
}

func (mc *machine) Wait(t *rapid.T) {
	mc.loop.RunUntil(mc.loop.Now() + time.Duration(rapid.SampledFrom([]int{1, 10, 100, 3000}).Draw(t, "ms"))*time.Millisecond)
}

func (mc *machine) Rarely(t *rapid.T) {
	switch rapid.IntRange(0, 12).Draw(t, "what") {
	case 0:
		mc.m.Flush()
	case 1:
		mc.m.CloseSession(rapid.SampledFrom([]string{"s", "z"}).Draw(t, "closed"))
	case 2:
		mc.loop.RunUntil(mc.loop.Now() + sessionIdle)
	case 3:
		mc.m.SqueezeHost(rapid.IntRange(0, 300).Draw(t, "squeeze"))
	}
}

// Check runs after each step.
func (mc *machine) Check(t *rapid.T) {
	if err := mc.m.Check(); err != nil {
		t.Fatal(err)
	}
	if mc.m.Took() < 0 {
		t.Fatal("negative time")
	}
	if err := mc.book.check(); err != nil {
		t.Fatal(err)
	}
	for extra, seqs := range mc.known {
		mc.checkContent(t, extra, seqs)
	}
}

// checkContent: each leaf of the tree is the beginning of a sequence that it was given.
func (mc *machine) checkContent(t *rapid.T, extra string, seqs [][]int32) {
	for _, got := range mc.m.tree.Sequences(extra) {
		if !slices.ContainsFunc(seqs, func(s []int32) bool {
			return len(s) >= len(got) && slices.Equal(s[:len(got)], got)
		}) {
			t.Fatalf("the tree has %d tokens that nobody gave it", len(got))
		}
	}
}

func pick(t *rapid.T, from []*running) *running {
	if len(from) == 0 {
		t.Skip("none")
	}
	return from[rapid.IntRange(0, len(from)-1).Draw(t, "which")]
}

func remove(from []*running, w *running) []*running {
	return slices.DeleteFunc(from, func(x *running) bool { return x == w })
}

// drain ends all: nothing is used or reserved then, and storage's book closes.
func (mc *machine) drain(t *rapid.T) {
	for _, w := range mc.running {
		mc.m.Release(w.h)
	}
	for _, w := range mc.waiting {
		mc.m.Forget(w.r)
	}
	for _, n := range mc.reserved {
		mc.m.Unreserve(n)
	}
	mc.m.CloseSession("s")
	mc.m.CloseSession("z")
	mc.loop.RunUntil(mc.loop.Now() + time.Hour)
	mc.Check(t)
	full, swa, mamba := mc.m.Books()
	for _, p := range []ledger.Pool{full, swa, mamba} {
		if p.Used != 0 || p.Reserved != 0 {
			t.Fatalf("all has ended: %+v", p)
		}
	}
	if s := &mc.book.storage; s.hit != s.lost()+s.used {
		t.Fatalf("%d tokens hit, %d lost, %d used", s.hit, s.lost(), s.used)
	}
}

func TestMemoryKeepsItsBooks(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		mc := newMachine(t)
		t.Repeat(rapid.StateMachineActions(mc))
		mc.drain(t)
	})
}
