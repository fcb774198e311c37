// Copyright The otelcol-sglang Authors
// SPDX-License-Identifier: Apache-2.0

package series

import (
	"fmt"
	"strings"
	"testing"
	"time"
	"unicode/utf8"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"github.com/otelcol-sglang/otelcol-sglang/connector/genaimetricsconnector/internal/histogram"
)

var start = time.Unix(1000, 0)

func newStore(limit int) *Store {
	set := Settings{Max: limit, Expiry: time.Hour}
	for m := range MetricCount {
		set.Shapes[m] = histogram.Shape{Bounds: m.Info().Bounds, Exemplars: true}
	}
	return NewStore(set)
}

type totals struct {
	series, overflow int
	total            int64
	count            uint64
	sum              float64
}

func totalsOf(s *Store) (t totals) {
	s.Each(func(_ Resource, _ Metric, list []*Series, overflow bool) {
		for _, one := range list {
			if overflow {
				t.overflow++
			} else {
				t.series++
			}
			t.total += one.Total
			if one.Histogram != nil {
				t.count += one.Histogram.Count
				t.sum += one.Histogram.Sum
			}
		}
	})
	return t
}

func model(name string) []Attr { return []Attr{{"gen_ai.request.model", name}} }

// TestOverflowKeepsTotals: limit 10, 1000 streams of 1 each (contrib #39645).
func TestOverflowKeepsTotals(t *testing.T) {
	s := newStore(10)
	for i := range 1000 {
		p := s.Profile(Resource{Service: "sglang"}, model(fmt.Sprint(i)))
		s.Add(p, Slot{Metric: Retractions}, start, 1)
	}
	assert.Equal(t, totals{series: 10, overflow: 1, total: 1000}, totalsOf(s))
	assert.Equal(t, int64(990), s.TakeSpilled()[Retractions])
	assert.Zero(t, s.TakeSpilled()[Retractions])
}

// TestEndlessNames: 200 000 names of models, services and instances (contrib #27654):
// what is kept is bounded.
func TestEndlessNames(t *testing.T) {
	s := newStore(100)
	for i := range 200_000 {
		name := fmt.Sprint(i)
		p := s.Profile(Resource{Service: name, Instance: name}, model(name))
		s.Observe(p, Slot{Metric: TTFT}, start, histogram.Exemplar{Value: 1})
	}
	assert.Equal(t, totals{series: 100, overflow: 1, count: 200_000, sum: 200_000}, totalsOf(s))
	assert.Len(t, s.profiles, 100)
	assert.Len(t, s.resources, 100)
	assert.Len(t, s.order, 100)
}

func TestProfilesWithoutSeriesAreNotKept(t *testing.T) {
	s := newStore(100)
	for i := range 1000 {
		s.Profile(Resource{}, model(fmt.Sprint(i)))
	}
	assert.Empty(t, s.profiles)
	assert.Empty(t, s.resources)
}

func TestValuesDoNotRunTogether(t *testing.T) {
	s := newStore(100)
	for _, attrs := range [][]Attr{
		{{"a", "xy"}, {"b", "z"}},
		{{"a", "x"}, {"b", "yz"}},
		{{"a", ""}, {"b", "xyz"}},
	} {
		s.Add(s.Profile(Resource{}, attrs), Slot{Metric: Retractions}, start, 1)
	}
	s.Add(s.Profile(Resource{Service: "x", Instance: "yz"}, nil), Slot{Metric: Retractions}, start, 1)
	s.Add(s.Profile(Resource{Service: "xy", Instance: "z"}, nil), Slot{Metric: Retractions}, start, 1)
	assert.Equal(t, 5, s.Len())
}

func TestSeriesExpireOneByOne(t *testing.T) {
	s := newStore(100)
	who := Resource{Service: "sglang"}
	s.Add(s.Profile(who, model("a")), Slot{Metric: Retractions}, start, 1)
	s.Add(s.Profile(who, model("a")), Slot{Metric: Tokens, Variant: "input"}, start.Add(30*time.Minute), 5)
	assert.Zero(t, s.Expire(start.Add(59*time.Minute)))
	assert.Equal(t, 1, s.Expire(start.Add(time.Hour)))
	assert.Equal(t, totals{series: 1, total: 5}, totalsOf(s))
	assert.Equal(t, 1, s.Expire(start.Add(2*time.Hour)))
	assert.Empty(t, s.profiles)
	assert.Empty(t, s.resources)
	assert.Empty(t, s.order)

	again := start.Add(3 * time.Hour)
	s.Add(s.Profile(who, model("a")), Slot{Metric: Retractions}, again, 2)
	s.Each(func(_ Resource, _ Metric, list []*Series, _ bool) {
		assert.Equal(t, again, list[0].Start, "begins anew")
		assert.Equal(t, int64(2), list[0].Total)
	})
}

func TestRoomThatExpiredIsUsedAgain(t *testing.T) {
	s := newStore(1)
	s.Add(s.Profile(Resource{}, model("a")), Slot{Metric: Retractions}, start, 1)
	s.Add(s.Profile(Resource{}, model("b")), Slot{Metric: Retractions}, start, 1)
	later := start.Add(time.Hour)
	assert.Equal(t, 1, s.Expire(later))
	s.Add(s.Profile(Resource{}, model("b")), Slot{Metric: Retractions}, later, 1)
	assert.Equal(t, totals{series: 1, overflow: 1, total: 2}, totalsOf(s))
}

func TestInfos(t *testing.T) {
	names := make(map[string]bool)
	for m := range MetricCount {
		info := m.Info()
		assert.NotEmpty(t, info.Description)
		assert.NotEmpty(t, info.Unit)
		assert.False(t, names[info.Name], info.Name)
		names[info.Name] = true
		assert.IsIncreasing(t, append([]float64{-1}, info.Bounds...))
		found, ok := HistogramOf(info.Name)
		assert.Equal(t, m.IsHistogram(), ok)
		if ok {
			assert.Equal(t, m, found)
		}
	}
	assert.Empty(t, MetricCount.String())
}

// advisory bounds of the conventions (semconv gen-ai-metrics, 1.37).
func TestBoundsBeginAsAdvisedAndGoOn(t *testing.T) {
	for m, advised := range map[Metric][]float64{
		RequestDuration: {0.01, 0.02, 0.04, 0.08, 0.16, 0.32, 0.64, 1.28, 2.56, 5.12, 10.24, 20.48, 40.96, 81.92},
		TTFT:            {0.001, 0.005, 0.01, 0.02, 0.04, 0.06, 0.08, 0.1, 0.25, 0.5, 0.75, 1, 2.5, 5, 7.5, 10},
		TPOT:            {0.01, 0.025, 0.05, 0.075, 0.1, 0.15, 0.2, 0.3, 0.4, 0.5, 0.75, 1, 2.5},
	} {
		bounds := m.Info().Bounds
		require.Greater(t, len(bounds), len(advised))
		assert.Equal(t, advised, bounds[:len(advised)])
	}
	assert.InDelta(t, 400, TTFT.Info().Bounds[len(TTFT.Info().Bounds)-1], 0)
}

func TestClean(t *testing.T) {
	assert.Equal(t, "llama", clean("llama"))
	assert.Equal(t, "a\uFFFDb", clean("a\xffb"))
	long := clean(strings.Repeat("é", 1<<20))
	assert.True(t, utf8.ValidString(long))
	assert.LessOrEqual(t, len(long), maxValue)
	assert.Len(t, Cut(strings.Repeat("x", 1<<20)), maxRaw)
}

// TestCleanedAlike: texts that are alike once they are clean are one series.
func TestCleanedAlike(t *testing.T) {
	s := newStore(100)
	for _, text := range []string{"a\xff", "a\xfe", "a\uFFFD"} {
		p := s.Profile(Resource{Service: text}, model(text))
		s.Observe(p, Slot{Metric: StageDuration, Variant: text, Role: text}, start, histogram.Exemplar{Value: 1})
	}
	assert.Equal(t, totals{series: 1, count: 3, sum: 3}, totalsOf(s))
}

func TestKnownSeriesCostNothing(t *testing.T) {
	s := newStore(100)
	attrs := model("meta-llama/Llama-3.1-8B-Instruct")
	ways := [][]string{{"queue", "prefill", "decode"}, {"queue", "decode"}, {"decode", "retract_wait", "prefill"}}
	n := 0
	observe := func() {
		n++
		p := s.Profile(Resource{Service: "sglang"}, attrs)
		for _, stage := range ways[n%len(ways)] {
			s.Observe(p, Slot{Metric: StageDuration, Variant: stage}, start, histogram.Exemplar{Value: 1})
		}
	}
	for range 200 {
		observe()
	}
	assert.Zero(t, testing.AllocsPerRun(100, observe))
}

// TestProperty: whatever comes in whatever order, what is in the series and in the
// overflow adds up to what was observed since, and no two series are alike.
func TestProperty(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		limit := rapid.IntRange(1, 30).Draw(t, "limit")
		s := newStore(limit)
		var want totals
		spilled := int64(0)
		for range rapid.IntRange(1, 150).Draw(t, "steps") {
			who := Resource{Service: rapid.SampledFrom([]string{"", "a", "b"}).Draw(t, "service")}
			p := s.Profile(who, model(rapid.SampledFrom([]string{"", "x", "y", "z"}).Draw(t, "model")))
			m := Metric(rapid.IntRange(0, int(MetricCount)-1).Draw(t, "metric"))
			slot := Slot{Metric: m, Variant: rapid.SampledFrom([]string{"", "v", "w"}).Draw(t, "variant")}
			if m.Info().Variant == "" {
				slot.Variant = ""
			}
			if m.IsHistogram() {
				v := float64(rapid.IntRange(0, 1000).Draw(t, "value"))
				s.Observe(p, slot, start, histogram.Exemplar{Value: v})
				want.count++
				want.sum += v
			} else {
				n := int64(rapid.IntRange(0, 1000).Draw(t, "n"))
				s.Add(p, slot, start, n)
				want.total += n
			}
			for _, n := range s.TakeSpilled() {
				spilled += n
			}
		}
		got := totalsOf(s)
		require.LessOrEqual(t, got.series, limit)
		require.Equal(t, s.Len(), got.series)
		require.Equal(t, spilled > 0, got.overflow > 0)
		want.series, want.overflow = got.series, got.overflow
		require.Equal(t, want, got)
		requireDistinct(t, s)
	})
}

func requireDistinct(t *rapid.T, s *Store) {
	have := make(map[string]bool)
	s.Each(func(who Resource, m Metric, list []*Series, overflow bool) {
		for _, one := range list {
			id := fmt.Sprint(who, m, one.Attrs, overflow)
			require.False(t, have[id], id)
			have[id] = true
		}
	})
}
