// Copyright The otelcol-sglang Authors
// SPDX-License-Identifier: Apache-2.0

package series // import "github.com/otelcol-sglang/otelcol-sglang/processor/rankdedupprocessor/internal/series"

import (
	"math"
	"strconv"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/otelcol-sglang/otelcol-sglang/internal/sglang"
)

const second = uint64(time.Second)

var (
	first = Rule{Reduce: sglang.ReduceFirst}
	sum   = Rule{Reduce: sglang.ReduceSum}
	most  = Rule{Reduce: sglang.ReduceMax}
	keep  = Rule{Reduce: sglang.ReduceKeep}
)

// page folds scrapes of one engine.
type page struct {
	t     testing.TB
	store *Store
	now   time.Time
	batch Batch
}

func newPage(t testing.TB) *page {
	return &page{t: t, store: NewStore(Limits{MaxSeries: 10000, Idle: time.Hour}), now: time.Unix(1000, 0)}
}

type sample struct {
	key  string
	rule Rule
	p    Point
}

// fold returns what leaves, in input order: emitted and passed points.
func (pg *page) fold(samples ...sample) []Point {
	e := pg.store.Acquire([]byte("engine"), pg.now)
	defer e.Release()
	pg.batch.Reset()
	for _, s := range samples {
		pg.batch.Add(e, []byte(s.key), s.rule, s.p)
	}
	pg.batch.Fold(e)
	var out []Point
	for _, p := range pg.batch.Points {
		if p.Verdict != Drop {
			out = append(out, p)
		}
	}
	return out
}

// one folds samples of one series.
func (pg *page) one(samples ...sample) Point {
	pg.t.Helper()
	out := pg.fold(samples...)
	require.Len(pg.t, out, 1)
	assert.Equal(pg.t, Emit, out[0].Verdict)
	return out[0]
}

func rankOf(tp int64) Rank { return Rank{TP: tp, EP: 0, PID: NoRank} }

func gauge(r Rule, tp int64, v float64) sample {
	return sample{"g", r, Point{Rank: rankOf(tp), Process: uint64(tp), Value: Value{Sum: v}}}
}

func counter(r Rule, tp int64, ts uint64, v float64) sample {
	return sample{"c", r, Point{Kind: Counter, Rank: rankOf(tp), Process: uint64(tp), TS: ts * second, Start: second, Value: Value{Sum: v}}}
}

func histogram(r Rule, tp int64, ts uint64, bounds []float64, buckets ...int64) sample {
	v := Value{Buckets: buckets}
	for i, b := range buckets {
		v.Count += b
		v.Sum += float64(b) * float64(i)
	}
	return sample{"h", r, Point{Kind: Histogram, Rank: rankOf(tp), Process: uint64(tp), TS: ts * second, Start: second, Value: v, Bounds: bounds}}
}

func TestGauges(t *testing.T) {
	nan := math.NaN()
	for name, tc := range map[string]struct {
		rule   Rule
		in     []float64 // by rank
		want   float64
		rank   int64
		minus1 bool
	}{
		"first":                        {first, []float64{3, 4}, 3, 0, false},
		"never multiplied":             {first, []float64{5, 5, 5, 5, 5, 5, 5, 5}, 5, 0, false},
		"zero of a silent rank":        {first, []float64{0, 0, 7, 9}, 7, 2, false},
		"nobody reports":               {first, []float64{0, 0}, 0, 0, false},
		"not measured on rank 0":       {first, []float64{nan, 0.5}, 0.5, 1, false},
		"zero before sentinel":         {first, []float64{nan, 0}, 0, 1, false},
		"-1 is a value":                {first, []float64{-1, 3}, -1, 0, false},
		"-1 is a sentinel":             {Rule{Reduce: sglang.ReduceFirst, MinusOne: true}, []float64{-1, 3}, 3, 1, false},
		"only sentinels":               {Rule{Reduce: sglang.ReduceFirst, MinusOne: true}, []float64{-1, -1}, -1, 0, false},
		"sum":                          {sum, []float64{1, 2, 4}, 7, 0, false},
		"sum leaves out NaN":           {sum, []float64{nan, 2, 4}, 6, 1, false},
		"max":                          {most, []float64{1, 9, 4}, 9, 1, false},
		"max of negatives leaves NaNs": {most, []float64{nan, -9, -4}, -4, 2, false},
	} {
		t.Run(name, func(t *testing.T) {
			var in []sample
			for r, v := range tc.in {
				in = append(in, gauge(tc.rule, int64(r), v))
			}
			got := newPage(t).one(in...)
			assert.Equal(t, tc.want, got.Value.Sum)
			assert.Equal(t, tc.rank, got.Rank.TP)
		})
	}
}

func TestOnlyNaNStaysNaN(t *testing.T) {
	got := newPage(t).one(gauge(sum, 0, math.NaN()), gauge(sum, 1, math.NaN()))
	assert.True(t, math.IsNaN(got.Value.Sum))
}

func TestKeepAndOrder(t *testing.T) {
	pg := newPage(t)
	out := pg.fold(gauge(keep, 1, 1), gauge(keep, 0, 2))
	require.Len(t, out, 2)
	assert.Equal(t, Pass, out[0].Verdict)
	assert.Equal(t, 3.0, pg.one(gauge(first, 5, 9), gauge(first, 1, 3)).Value.Sum)
}

func TestGaugeOfVanishedRankLeaves(t *testing.T) {
	pg := newPage(t)
	assert.Equal(t, 6.0, pg.one(gauge(sum, 0, 2), gauge(sum, 1, 4)).Value.Sum)
	assert.Equal(t, 2.0, pg.one(gauge(sum, 0, 2)).Value.Sum)
	assert.Equal(t, 4.0, pg.one(gauge(sum, 1, 4)).Value.Sum)
}

func TestReportingIsRemembered(t *testing.T) {
	pg := newPage(t)
	assert.Equal(t, 5.0, pg.one(gauge(first, 0, 5), gauge(first, 1, 5)).Value.Sum)
	// rank 0 has reported: its zero is a value, though rank 1 still shows the last one
	assert.Equal(t, 0.0, pg.one(gauge(first, 0, 0), gauge(first, 1, 5)).Value.Sum)
}

func TestCounterSum(t *testing.T) {
	pg := newPage(t)
	step := func(ts uint64, want float64, in ...sample) Point {
		t.Helper()
		got := pg.one(in...)
		assert.Equal(t, want, got.Value.Sum, "at %d", ts)
		return got
	}
	step(2, 30, counter(sum, 0, 2, 10), counter(sum, 1, 2, 20))
	step(3, 45, counter(sum, 0, 3, 20), counter(sum, 1, 3, 25))
	step(4, 48, counter(sum, 0, 4, 3), counter(sum, 1, 4, 25)) // rank 0 began anew
	assert.EqualValues(t, 1, pg.batch.Stats.RankResets)
	step(5, 50, counter(sum, 0, 5, 5), counter(sum, 1, 5, 25))
	step(6, 51, counter(sum, 0, 6, 6))                         // rank 1 vanished: its share stands
	step(7, 56, counter(sum, 0, 7, 6), counter(sum, 1, 7, 30)) // and is back
	step(8, 56, counter(sum, 0, 8, 6))
	got := step(9, 60, counter(sum, 0, 9, 6), counter(sum, 1, 9, 4)) // back from a reset
	assert.Equal(t, second, got.OutStart)
	step(10, 67, counter(sum, 0, 10, 6), counter(sum, 1, 10, 4), counter(sum, 2, 10, 7)) // a rank joins
	assert.Zero(t, pg.batch.Stats.Restarts)
}

func TestResendAndLate(t *testing.T) {
	pg := newPage(t)
	pg.one(counter(sum, 0, 2, 10), counter(sum, 1, 2, 20))
	for range 3 { // the next consumer refused: the same scrape again
		got := pg.one(counter(sum, 0, 3, 4), counter(sum, 1, 3, 21))
		assert.Equal(t, 35.0, got.Value.Sum)
	}
	assert.Empty(t, pg.fold(counter(sum, 0, 2, 10), counter(sum, 1, 2, 20)))
	assert.EqualValues(t, 2, pg.batch.Stats.Refused[Late])
	assert.Equal(t, 36.0, pg.one(counter(sum, 0, 4, 5), counter(sum, 1, 4, 21)).Value.Sum)
}

func TestEngineRestart(t *testing.T) {
	pg := newPage(t)
	pg.one(counter(sum, 0, 2, 10), counter(sum, 1, 2, 20))
	got := pg.one(counter(sum, 0, 3, 1)) // no other process goes on
	assert.Equal(t, 1.0, got.Value.Sum)
	assert.Equal(t, 2*second, got.OutStart, "the input's start is the former engine's")
	assert.EqualValues(t, 1, pg.batch.Stats.Restarts)
	got = pg.one(counter(sum, 0, 4, 2), counter(sum, 1, 4, 3))
	assert.Equal(t, 5.0, got.Value.Sum, "rank 1 appears after its first write")
	assert.Equal(t, 2*second, got.OutStart)

	in := counter(sum, 0, 5, 1)
	in.p.Start = 4*second + 1
	got = pg.one(in)
	assert.Equal(t, 4*second+1, got.OutStart, "the source knows better")
}

func TestRestartByStartTimeAlone(t *testing.T) {
	pg := newPage(t)
	pg.one(counter(sum, 0, 2, 10), counter(sum, 1, 2, 20))
	a, b := counter(sum, 0, 3, 15), counter(sum, 1, 3, 25)
	a.p.Start, b.p.Start = 2*second+5, 2*second+5
	got := pg.one(a, b)
	assert.Equal(t, 40.0, got.Value.Sum)
	assert.Equal(t, 2*second+5, got.OutStart)
	assert.EqualValues(t, 1, pg.batch.Stats.Restarts)

	// one series with a start of its own is no restart and is not added again
	a, b = counter(sum, 0, 4, 16), counter(sum, 1, 4, 25)
	a.p.Start, b.p.Start = 3*second+5, 2*second+5
	assert.Equal(t, 41.0, pg.one(a, b).Value.Sum)
	assert.Zero(t, pg.batch.Stats.Restarts)
}

// TestMovedStartOfAProcessThatGoesOn: a source may set a start of its own for a
// series that only came back.
func TestMovedStartOfAProcessThatGoesOn(t *testing.T) {
	pg := newPage(t)
	other := func(ts uint64, v float64) sample {
		s := counter(sum, 0, ts, v)
		s.key = "other"
		return s
	}
	pg.fold(counter(sum, 0, 2, 10), other(2, 5))
	moved := counter(sum, 0, 3, 11)
	moved.p.Start = 2*second + 5
	out := pg.fold(moved, other(3, 6)) // one process: the other series shows that it lives on
	require.Len(t, out, 2)
	assert.Zero(t, pg.batch.Stats.Restarts)
	assert.Equal(t, []float64{11, 6}, []float64{out[0].Value.Sum, out[1].Value.Sum})
	assert.Equal(t, second, out[0].OutStart)
}

func TestFirstCounter(t *testing.T) {
	pg := newPage(t)
	step := func(ts uint64, want float64, in ...sample) {
		t.Helper()
		assert.Equal(t, want, pg.one(in...).Value.Sum, "at %d", ts)
	}
	step(2, 0, counter(first, 0, 2, 0), counter(first, 1, 2, 0))
	step(3, 5, counter(first, 0, 3, 0), counter(first, 1, 3, 5)) // rank 0 is pre-seeded
	step(4, 7, counter(first, 0, 4, 2), counter(first, 1, 4, 7)) // begins to report: no step back
	step(5, 9, counter(first, 0, 5, 9), counter(first, 1, 5, 9)) // equal: the lowest leads
	step(6, 11, counter(first, 0, 6, 11), counter(first, 1, 6, 10))
	step(7, 11, counter(first, 1, 7, 11))
	step(8, 12, counter(first, 1, 8, 12))
	step(9, 13, counter(first, 0, 9, 13), counter(first, 1, 9, 13))
	step(10, 14, counter(first, 0, 10, 1), counter(first, 1, 10, 14)) // rank 0 began anew
	step(11, 15, counter(first, 0, 11, 2), counter(first, 1, 11, 15))
}

func TestFirstCounterOfPrivateRanks(t *testing.T) {
	private := Rule{Reduce: sglang.ReduceFirst, Private: true}
	pg := newPage(t)
	assert.Equal(t, 5.0, pg.one(counter(private, 0, 2, 5), counter(private, 1, 2, 5000)).Value.Sum)
	assert.Equal(t, 15.0, pg.one(counter(private, 1, 3, 5010)).Value.Sum, "only the increase continues")
	assert.Equal(t, 17.0, pg.one(counter(private, 0, 4, 6), counter(private, 1, 4, 5012)).Value.Sum)
}

func TestMaxCounter(t *testing.T) {
	pg := newPage(t)
	assert.Equal(t, 20.0, pg.one(counter(most, 0, 2, 10), counter(most, 1, 2, 20)).Value.Sum)
	assert.Equal(t, 22.0, pg.one(counter(most, 0, 3, 11), counter(most, 1, 3, 2)).Value.Sum)
	assert.Equal(t, 22.0, pg.one(counter(most, 0, 4, 12)).Value.Sum)
	assert.Equal(t, 30.0, pg.one(counter(most, 0, 5, 30)).Value.Sum)
}

func TestHistograms(t *testing.T) {
	ab, ac := []float64{1, 2}, []float64{1, 3}
	t.Run("first", func(t *testing.T) {
		pg := newPage(t)
		got := pg.one(histogram(first, 0, 2, ab, 0, 0, 0), histogram(first, 1, 2, ab, 1, 2, 3))
		assert.Equal(t, []int64{1, 2, 3}, got.Value.Buckets, "an empty one is pre-seeded")
		assert.False(t, got.Rewrite)
	})
	t.Run("first continues with another rank", func(t *testing.T) {
		pg := newPage(t)
		pg.one(histogram(first, 0, 2, ab, 5, 0, 0), histogram(first, 1, 2, ab, 4, 0, 0))
		got := pg.one(histogram(first, 1, 3, ab, 4, 2, 0))
		assert.Equal(t, []int64{5, 2, 0}, got.Value.Buckets)
		assert.True(t, got.Rewrite)
	})
	t.Run("sum", func(t *testing.T) {
		pg := newPage(t)
		got := pg.one(histogram(sum, 0, 2, ab, 1, 2, 3), histogram(sum, 1, 2, ab, 1, 0, 0))
		assert.Equal(t, Value{Count: 7, Sum: 8, Buckets: []int64{2, 2, 3}}, got.Value)
		got = pg.one(histogram(sum, 0, 3, ab, 0, 1, 0), histogram(sum, 1, 3, ab, 1, 0, 1))
		assert.Equal(t, []int64{2, 3, 4}, got.Value.Buckets, "rank 0 began anew")
	})
	t.Run("other bounds stay apart", func(t *testing.T) {
		pg := newPage(t)
		out := pg.fold(histogram(sum, 0, 2, ab, 1, 2, 3), histogram(sum, 1, 2, ac, 1, 0, 0))
		require.Len(t, out, 2)
		assert.Equal(t, Pass, out[0].Verdict)
		assert.Equal(t, Pass, out[1].Verdict)
		assert.EqualValues(t, 2, pg.batch.Stats.Refused[BoundsDiffer])
	})
	t.Run("bounds change on one rank", func(t *testing.T) {
		pg := newPage(t)
		pg.one(histogram(sum, 0, 2, ab, 1, 2, 3), histogram(sum, 1, 2, ab, 1, 0, 0))
		got := pg.one(histogram(sum, 1, 3, ac, 2, 0, 0)) // nothing else goes on: a restart
		assert.Equal(t, []int64{2, 0, 0}, got.Value.Buckets)
		assert.Equal(t, 2*second, got.OutStart)
	})
	t.Run("bounds change while another process goes on", func(t *testing.T) {
		pg := newPage(t)
		pg.fold(histogram(sum, 0, 2, ab, 1, 2, 3), histogram(sum, 1, 2, ab, 1, 0, 0), counter(sum, 5, 2, 9))
		out := pg.fold(histogram(sum, 1, 3, ac, 2, 0, 0), counter(sum, 5, 3, 9))
		require.Len(t, out, 2)
		assert.Equal(t, []int64{2, 0, 0}, out[0].Value.Buckets)
		assert.Equal(t, 2*second, out[0].OutStart)
		assert.Equal(t, second, out[1].OutStart)
	})
	t.Run("first continues with a rank of other bounds", func(t *testing.T) {
		pg := newPage(t)
		pg.fold(histogram(first, 0, 2, ab, 5, 0, 0), histogram(first, 1, 2, ac, 4, 0, 0), counter(sum, 5, 2, 9))
		out := pg.fold(histogram(first, 1, 3, ac, 4, 2, 0), counter(sum, 5, 3, 9))
		require.Len(t, out, 2)
		assert.Equal(t, []int64{4, 2, 0}, out[0].Value.Buckets, "buckets of other bounds add up to nothing")
		assert.Equal(t, 2*second, out[0].OutStart)
		assert.Equal(t, second, out[1].OutStart, "one series began anew, not the engine")
	})
	t.Run("max", func(t *testing.T) {
		pg := newPage(t)
		require.Len(t, pg.fold(histogram(most, 0, 2, ab, 1, 2, 3), histogram(most, 1, 2, ab, 1, 0, 0)), 2)
		assert.EqualValues(t, 2, pg.batch.Stats.Refused[NotReducible])
	})
}

func TestMissing(t *testing.T) {
	gone := func(s sample) sample {
		s.p.Missing, s.p.Value = true, Value{}
		return s
	}
	pg := newPage(t)
	pg.one(counter(sum, 0, 2, 10), counter(sum, 1, 2, 20))
	got := pg.one(gone(counter(sum, 0, 3, 0)), counter(sum, 1, 3, 21))
	assert.Equal(t, 31.0, got.Value.Sum, "one rank's end is not the series'")
	got = pg.one(gone(counter(sum, 0, 4, 0)), gone(counter(sum, 1, 4, 0)))
	assert.True(t, got.Missing)
	assert.EqualValues(t, 0, got.Rank.TP)
	got = pg.one(counter(sum, 0, 5, 1), counter(sum, 1, 5, 2))
	assert.Equal(t, 3.0, got.Value.Sum)
	assert.EqualValues(t, 1, pg.batch.Stats.Restarts)
	assert.Len(t, pg.fold(gone(gauge(keep, 0, 0)), gone(gauge(keep, 1, 0))), 2)
}

// TestEndAndValueTogether: a source may end a series just before its next value.
func TestEndAndValueTogether(t *testing.T) {
	end := counter(sum, 0, 2, 0)
	end.p.Missing, end.p.TS = true, end.p.TS-1
	got := newPage(t).one(end, counter(sum, 0, 2, 1), counter(sum, 1, 2, 2))
	assert.Equal(t, 3.0, got.Value.Sum)

	pg := newPage(t)
	end = counter(sum, 0, 3, 0)
	end.p.Missing = true
	out := pg.fold(counter(sum, 0, 2, 1), end) // the other way round it is one
	require.Len(t, out, 2)
	assert.True(t, out[1].Missing)
}

func TestRefusals(t *testing.T) {
	t.Run("unranked among ranked", func(t *testing.T) {
		pg := newPage(t)
		total := gauge(sum, 0, 10)
		total.p.Rank = NoRanks
		assert.Len(t, pg.fold(total, gauge(sum, 0, 4), gauge(sum, 1, 6)), 3)
		assert.EqualValues(t, 3, pg.batch.Stats.Refused[MixedRanks])
		total.rule = first
		assert.Equal(t, 10.0, pg.one(total, gauge(first, 0, 4)).Value.Sum)
	})
	t.Run("duplicate", func(t *testing.T) {
		pg := newPage(t)
		assert.Equal(t, 5.0, pg.one(gauge(sum, 0, 5), gauge(sum, 0, 5)).Value.Sum)
		assert.EqualValues(t, 1, pg.batch.Stats.Refused[Duplicate])
	})
	t.Run("summary", func(t *testing.T) {
		pg := newPage(t)
		a, b := gauge(sum, 0, 1), gauge(sum, 1, 1)
		a.p.Kind, b.p.Kind = Opaque, Opaque
		assert.Len(t, pg.fold(a, b), 2)
		assert.EqualValues(t, 2, pg.batch.Stats.Refused[NotReducible])
	})
	t.Run("too many ranks", func(t *testing.T) {
		pg := newPage(t)
		var in []sample
		for r := range int64(maxRanks + 5) {
			in = append(in, gauge(sum, r, 1))
		}
		assert.Len(t, pg.fold(in...), maxRanks+5)
		assert.EqualValues(t, maxRanks+5, pg.batch.Stats.Refused[TooManyRanks])
		assert.EqualValues(t, maxRanks, pg.store.Tracked())
		assert.Len(t, pg.fold(in[:2]...), 1, "and folded again, once there are fewer")
	})
	t.Run("refused and not", func(t *testing.T) {
		pg := newPage(t)
		total := counter(sum, 0, 2, 10)
		total.p.Rank = NoRanks
		out := pg.fold(total, counter(sum, 0, 2, 4), counter(sum, 0, 3, 5), counter(sum, 1, 3, 6))
		require.Len(t, out, 4)
		assert.Equal(t, 5.0, out[2].Value.Sum)
	})
	for r := range ReasonCount {
		assert.NotEmpty(t, r.String())
	}
}

func TestTwoProcessesOfOneRank(t *testing.T) {
	pid := func(p int64, v float64) sample {
		s := gauge(first, 0, v)
		s.p.Rank.PID = p
		return s
	}
	assert.Equal(t, 2.0, newPage(t).one(pid(100, 1), pid(200, 2)).Value.Sum, "the dead process stays on the page")
	assert.Equal(t, 1.0, newPage(t).one(pid(100, 1), pid(200, 0)).Value.Sum)
}

func TestScrapesInOneBatch(t *testing.T) {
	pg := newPage(t)
	out := pg.fold(counter(sum, 0, 2, 10), counter(sum, 1, 2, 20), counter(sum, 0, 3, 11), counter(sum, 1, 3, 22),
		counter(sum, 0, 4, 1), counter(sum, 1, 4, 2))
	require.Len(t, out, 3)
	assert.Equal(t, []float64{30, 33, 3}, []float64{out[0].Value.Sum, out[1].Value.Sum, out[2].Value.Sum})
	assert.Equal(t, 3*second, out[2].OutStart)
}

func TestSpread(t *testing.T) {
	skewed := Rule{Reduce: sglang.ReduceKeep, Skew: true}
	pg := newPage(t)
	pg.fold(counter(skewed, 0, 2, 100), counter(skewed, 1, 2, 900))
	assert.Empty(t, pg.batch.Spreads, "an increase needs two scrapes")
	pg.fold(counter(skewed, 0, 3, 110), counter(skewed, 1, 3, 903))
	require.Len(t, pg.batch.Spreads, 1)
	assert.Equal(t, Spread{Point: 0, Width: 7, TPRank: 0}, pg.batch.Spreads[0])
	pg.fold(counter(skewed, 0, 3, 110), counter(skewed, 1, 3, 903))
	assert.Equal(t, Spread{Point: 0, Width: 7, TPRank: 0}, pg.batch.Spreads[0], "a resend is no scrape")

	pg.fold(gauge(skewed, 3, 4), gauge(skewed, 1, 4), gauge(skewed, 2, 3))
	assert.Equal(t, Spread{Point: 1, Width: 1, TPRank: 1}, pg.batch.Spreads[0], "of equals the lowest")

	pg.fold(gauge(skewed, 0, 1), gauge(skewed, 1, 4), gauge(skewed, 2, 3))
	assert.Equal(t, Spread{Point: 1, Width: 3, TPRank: 1}, pg.batch.Spreads[0])
	pg.fold(gauge(skewed, 0, 1))
	assert.Empty(t, pg.batch.Spreads)

	bounds := []float64{1}
	firstSkew := Rule{Reduce: sglang.ReduceFirst, Skew: true}
	pg.fold(histogram(firstSkew, 0, 2, bounds, 1, 0), histogram(firstSkew, 1, 2, bounds, 1, 0))
	pg.fold(histogram(firstSkew, 0, 3, bounds, 2, 0), histogram(firstSkew, 1, 3, bounds, 1, 2))
	assert.Equal(t, Spread{Point: 1, Width: 1, TPRank: 1}, pg.batch.Spreads[0])
}

func TestBounds(t *testing.T) {
	pg := newPage(t)
	pg.store = NewStore(Limits{MaxSeries: 10, Idle: time.Minute})
	var in []sample
	for i := range 20 {
		for tp := range int64(2) {
			s := counter(sum, tp, 2, 1)
			s.key = strconv.Itoa(i)
			in = append(in, s)
		}
	}
	out := pg.fold(in...)
	assert.Len(t, out, 20, "what can't be remembered is folded all the same")
	for _, p := range out {
		assert.Equal(t, 2.0, p.Value.Sum)
	}
	assert.EqualValues(t, 10, pg.store.Tracked())
	assert.EqualValues(t, 30, pg.batch.Stats.Refused[Untracked])
	e := pg.store.Acquire([]byte("engine"), pg.now)
	assert.Len(t, e.groups, 5)
	e.Release()

	untracked := []sample{counter(sum, 0, 2, 1), counter(sum, 1, 2, 2), counter(sum, 0, 3, 3), counter(sum, 1, 3, 4)}
	out = pg.fold(untracked...)
	require.Len(t, out, 2, "two scrapes at once")
	assert.Equal(t, 7.0, out[1].Value.Sum)

	pg.now = pg.now.Add(45 * time.Second)
	pg.fold(in[:4]...)
	pg.now = pg.now.Add(45 * time.Second)
	pg.fold(in[:4]...)
	assert.EqualValues(t, 4, pg.store.Tracked(), "idle series are forgotten")
	assert.EqualValues(t, 1, pg.store.Engines())
	pg.now = pg.now.Add(2 * time.Minute)
	pg.store.Acquire([]byte("other"), pg.now).Release()
	assert.EqualValues(t, 1, pg.store.Engines(), "and idle engines")
	assert.Zero(t, pg.store.Tracked())
}

func TestRestartForgetsDeadProcesses(t *testing.T) {
	pg := newPage(t)
	for i := range int64(50) {
		c := counter(first, 0, uint64(2+i), float64(100-i))
		c.p.Rank.PID = 1000 + i
		d := counter(first, 0, uint64(2+i), float64(100-i))
		d.key = "d"
		pg.fold(c, d)
	}
	assert.LessOrEqual(t, pg.store.Tracked(), int64(3))
}
