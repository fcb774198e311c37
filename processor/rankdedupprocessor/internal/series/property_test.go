// Copyright The otelcol-sglang Authors
// SPDX-License-Identifier: Apache-2.0

package series // import "github.com/otelcol-sglang/otelcol-sglang/processor/rankdedupprocessor/internal/series"

import (
	"slices"
	"testing"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"github.com/otelcol-sglang/otelcol-sglang/internal/sglang"
)

// world is an engine whose ranks count two families, and what a reader should see.
type world struct {
	ranks []int64
	// raw are the ranks' counters since their last reset, by family.
	raw map[int64][2]int64
	// total is what a rank counted since the engine's start, as far as a reader of
	// the page can know; absent before its first point.
	total map[int64][2]int64
	// shown is the raw value of the last scrape.
	shown  map[int64][2]int64
	ts     uint64
	starts uint64
}

func newWorld(ranks int) *world {
	w := &world{ts: 10}
	for r := range ranks {
		w.ranks = append(w.ranks, int64(r))
	}
	w.restart()
	return w
}

func (w *world) restart() {
	w.raw, w.total, w.shown = map[int64][2]int64{}, map[int64][2]int64{}, map[int64][2]int64{}
	w.starts = w.ts
}

// work adds to a rank's counters, so much that no value comes back by chance.
func (w *world) work(t *rapid.T, r int64, least int) {
	v := w.raw[r]
	for i := range v {
		v[i] += int64(rapid.IntRange(least, 50).Draw(t, "work"))
	}
	w.raw[r] = v
}

// scrape gives the page with the ranks present, in any order.
func (w *world) scrape(t *rapid.T, rules [2]Rule, present []int64) []sample {
	w.ts++
	var in []sample
	for _, r := range present {
		for i, raw := range w.raw[r] {
			s := counter(rules[i], r, w.ts, float64(raw))
			s.key = []string{"a", "b"}[i]
			in = append(in, s)
		}
		w.see(r)
	}
	return rapid.Permutation(in).Draw(t, "order")
}

func (w *world) see(r int64) {
	raw, shown, total := w.raw[r], w.shown[r], w.total[r]
	for i := range raw {
		if raw[i] < shown[i] {
			shown[i] = 0
		}
		total[i] += raw[i] - shown[i]
	}
	w.shown[r], w.total[r] = raw, total
}

func (w *world) sum(i int) (n float64) {
	for _, v := range w.total {
		n += float64(v[i])
	}
	return n
}

// TestCounterSumProperty: whatever ranks restart, vanish and return, in any order
// of series, the sum is what all ranks counted; it never goes back but at the
// engine's restart, which is a new start time.
func TestCounterSumProperty(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		w := newWorld(rapid.IntRange(2, 6).Draw(t, "ranks"))
		pg := newPage(nil)
		rules := [2]Rule{sum, sum}
		start, last := uint64(0), [2]float64{}
		for range rapid.IntRange(1, 25).Draw(t, "scrapes") {
			// rank 0 lives as long as the engine: while it goes on, a fall is one rank's
			w.work(t, 0, 1)
			present := []int64{0}
			for _, r := range w.ranks[1:] {
				switch rapid.SampledFrom([]string{"work", "work", "idle", "reset", "vanish"}).Draw(t, "fate") {
				case "work":
					w.work(t, r, 0)
				case "reset":
					w.raw[r] = [2]int64{}
				case "vanish":
					continue
				}
				present = append(present, r)
			}
			if rapid.IntRange(0, 9).Draw(t, "restart") == 0 && w.shown[0][0] > 0 {
				w.restart()
				present = present[:1]
				last = [2]float64{}
			}
			out := pg.foldAt(t, w.scrape(t, rules, present))
			for i, key := range []string{"a", "b"} {
				got := out[key]
				require.Equal(t, w.sum(i), got.Value.Sum)
				require.GreaterOrEqual(t, got.Value.Sum, last[i])
				last[i] = got.Value.Sum
				require.GreaterOrEqual(t, got.OutStart, start)
				start = got.OutStart
			}
			require.Equal(t, max(second, w.starts*second*b2u(w.starts > 10)), start)
		}
	})
}

func b2u(b bool) uint64 {
	if b {
		return 1
	}
	return 0
}

// foldAt folds and gives what left by key.
func (pg *page) foldAt(t require.TestingT, in []sample) map[string]Point {
	e := pg.store.Acquire([]byte("engine"), pg.now)
	defer e.Release()
	pg.batch.Reset()
	for _, s := range in {
		pg.batch.Add(e, []byte(s.key), s.rule, s.p)
	}
	pg.batch.Fold(e)
	out := map[string]Point{}
	for i, p := range pg.batch.Points {
		if p.Verdict == Emit {
			_, twice := out[in[i].key]
			require.False(t, twice, "%s left twice", in[i].key)
			out[in[i].key] = p
		}
	}
	return out
}

// TestFirstProperty: of ranks that count the same with some lag, one monotonic
// series leaves that lies within what the ranks show, whoever comes and goes. Of
// private ones only the increase is followed.
func TestFirstProperty(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		pg := newPage(nil)
		ranks := rapid.IntRange(1, 6).Draw(t, "ranks")
		private := rapid.Bool().Draw(t, "private")
		rule := Rule{Reduce: sglang.ReduceFirst, Private: private}
		truth, last := 1.0, 0.0
		for ts := uint64(2); ts < 20; ts++ {
			before := truth
			truth += float64(rapid.IntRange(0, 9).Draw(t, "work"))
			var in []sample
			for r := range int64(ranks) {
				if r > 0 && rapid.IntRange(0, 3).Draw(t, "gone") == 0 {
					continue
				}
				v := truth
				if rapid.Bool().Draw(t, "lags") {
					v = before
				}
				in = append(in, counter(rule, r, ts, v))
			}
			in = rapid.Permutation(in).Draw(t, "order")
			got := pg.foldAt(t, in)["c"].Value.Sum
			require.GreaterOrEqual(t, got, last)
			if !private {
				require.GreaterOrEqual(t, got, before)
				require.LessOrEqual(t, got, truth)
			}
			last = got
		}
	})
}

// TestRoundingIsNoReset: going over to another rank whose value stands still
// leaves the value as it was, to the last bit.
func TestRoundingIsNoReset(t *testing.T) {
	private := Rule{Reduce: sglang.ReduceFirst, Private: true}
	rapid.Check(t, func(t *rapid.T) {
		pg := newPage(nil)
		value := rapid.Float64Range(0.001, 1e6)
		a, b := value.Draw(t, "a"), value.Draw(t, "b")
		last := 0.0
		for ts := uint64(2); ts < 20; ts++ {
			in := []sample{counter(private, 0, ts, a), counter(private, 1, ts, b)}
			if ts%2 == 1 {
				in = in[ts/2%2 : ts/2%2+1]
			}
			got := pg.foldAt(t, in)["c"].Value.Sum
			require.GreaterOrEqual(t, got, last)
			last = got
			a += rapid.Float64Range(0, 1).Draw(t, "da") * float64(ts%3)
		}
	})
}

// TestHistogramSumProperty: buckets, count and sum of the folded histogram are
// those of the ranks' observations, over resets.
func TestHistogramSumProperty(t *testing.T) {
	bounds := []float64{1, 2, 4}
	rapid.Check(t, func(t *rapid.T) {
		pg := newPage(nil)
		ranks := int64(rapid.IntRange(2, 4).Draw(t, "ranks"))
		raw, shown, want := map[int64][]int64{}, map[int64][]int64{}, make([]int64, 4)
		for ts := uint64(2); ts < 12; ts++ {
			var in []sample
			for r := range ranks {
				if raw[r] == nil || r > 0 && rapid.IntRange(0, 5).Draw(t, "reset") == 0 {
					raw[r] = make([]int64, 4)
				}
				raw[0][0]++ // rank 0 goes on: no restart of the engine
				for i := range raw[r] {
					raw[r][i] += int64(rapid.IntRange(0, 3).Draw(t, "n"))
				}
			}
			for r := range ranks {
				for i, d := range increase(raw[r], shown[r]) {
					want[i] += d
				}
				shown[r] = slices.Clone(raw[r])
				in = append(in, histogram(sum, r, ts, bounds, slices.Clone(raw[r])...))
			}
			got := pg.foldAt(t, rapid.Permutation(in).Draw(t, "order"))["h"]
			require.Equal(t, want, got.Value.Buckets)
			require.Equal(t, want[0]+want[1]+want[2]+want[3], got.Value.Count)
			require.Equal(t, float64(want[1]+2*want[2]+3*want[3]), got.Value.Sum)
			require.Equal(t, second, got.OutStart)
		}
	})
}

// increase is what a reader of the page knows: a bucket that fell tells of a reset.
func increase(raw, shown []int64) []int64 {
	d := slices.Clone(raw)
	for i := range shown {
		if raw[i] < shown[i] {
			return slices.Clone(raw)
		}
		d[i] -= shown[i]
	}
	return d
}
