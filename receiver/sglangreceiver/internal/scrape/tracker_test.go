// Copyright The otelcol-sglang Authors
// SPDX-License-Identifier: Apache-2.0

package scrape

import (
	"fmt"
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"github.com/otelcol-sglang/otelcol-sglang/receiver/sglangreceiver/internal/page"
)

const (
	capturesDir = "../../../../testdata/captures/metrics"
	contentText = "text/plain; version=0.0.4; charset=utf-8"
)

func capture(tb testing.TB, name string) *page.Page {
	tb.Helper()
	body, err := os.ReadFile(filepath.Join(capturesDir, name+".prom"))
	require.NoError(tb, err)
	p, err := page.Parse(body, contentText, page.Options{DropSentinels: true})
	require.NoError(tb, err)
	return p
}

// counters is a page of counters; a name's key is its first byte.
func counters(values map[string]float64) *page.Page {
	p := &page.Page{}
	for name, v := range values {
		p.Families = append(p.Families, &page.Family{
			Name: name, Kind: page.Counter,
			Series: []page.Series{{Key: uint64(name[0]), Value: v}},
		})
	}
	return p
}

func starts(p *page.Page) map[string]uint64 {
	out := map[string]uint64{}
	for _, f := range p.Families {
		out[f.Name] = f.Series[0].Start
	}
	return out
}

func TestTracker(t *testing.T) {
	type scan struct {
		at      uint64
		page    map[string]float64
		want    map[string]uint64
		restart bool
	}
	tests := []struct {
		name  string
		scans []scan
	}{
		{"growing", []scan{
			{10, map[string]float64{"a": 5}, map[string]uint64{"a": 10}, false},
			{20, map[string]float64{"a": 5}, map[string]uint64{"a": 10}, false},
			{30, map[string]float64{"a": 9}, map[string]uint64{"a": 10}, false},
		}},
		{"a series that turns up began after the page before", []scan{
			{10, map[string]float64{"a": 5}, map[string]uint64{"a": 10}, false},
			{20, map[string]float64{"a": 5, "b": 3}, map[string]uint64{"a": 10, "b": 10}, false},
		}},
		{"one series reset", []scan{
			{10, map[string]float64{"a": 5, "b": 5, "c": 5}, map[string]uint64{"a": 10, "b": 10, "c": 10}, false},
			{20, map[string]float64{"a": 1, "b": 6, "c": 6}, map[string]uint64{"a": 10, "b": 10, "c": 10}, false},
			{30, map[string]float64{"a": 0, "b": 6, "c": 6}, map[string]uint64{"a": 20, "b": 10, "c": 10}, false},
		}},
		{"restart moves what did not fall too", []scan{
			{10, map[string]float64{"a": 50, "b": 50, "c": 1, "d": 0}, map[string]uint64{"a": 10, "b": 10, "c": 10, "d": 10}, false},
			{20, map[string]float64{"a": 50, "b": 50, "c": 1, "d": 0}, map[string]uint64{"a": 10, "b": 10, "c": 10, "d": 10}, false},
			{30, map[string]float64{"a": 1, "c": 2, "d": 0}, map[string]uint64{"a": 20, "c": 20, "d": 20}, true},
			{40, map[string]float64{"a": 1, "b": 2, "c": 2}, map[string]uint64{"a": 20, "b": 30, "c": 20}, false},
		}},
		{"a series that was away goes on", []scan{
			{10, map[string]float64{"a": 5, "b": 7, "c": 7}, map[string]uint64{"a": 10, "b": 10, "c": 10}, false},
			{20, map[string]float64{"b": 7, "c": 7}, map[string]uint64{"b": 10, "c": 10}, false},
			{30, map[string]float64{"a": 6, "b": 7, "c": 7}, map[string]uint64{"a": 10, "b": 10, "c": 10}, false},
		}},
		{"nothing counted yet is no restart", []scan{
			{10, map[string]float64{"a": 0}, map[string]uint64{"a": 10}, false},
			{20, map[string]float64{"b": 0}, map[string]uint64{"b": 10}, false},
		}},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			tracker := NewTracker()
			for i, s := range tt.scans {
				p := counters(s.page)
				assert.Equal(t, s.restart, tracker.Observe(p, s.at), "page %d", i)
				assert.Equal(t, s.want, starts(p), "page %d", i)
			}
		})
	}
}

func TestTrackerOtherBounds(t *testing.T) {
	histogram := func(count uint64, bounds ...float64) *page.Page {
		return &page.Page{Families: []*page.Family{{Name: "h", Kind: page.Histogram, Series: []page.Series{{
			Key: 1, Dist: &page.Dist{Count: count, Bounds: bounds, Counts: make([]uint64, len(bounds)+1)},
		}}}}}
	}
	tracker := NewTracker()
	tracker.Observe(histogram(3, 1, 2), 10)
	tracker.Observe(histogram(3, 1, 2), 20)
	p := histogram(9, 1, 2, 3)
	tracker.Observe(p, 30)
	assert.Equal(t, uint64(20), p.Families[0].Series[0].Start)
}

// TestTrackerCapturedRestart: in this capture the engine was restarted between
// t2 and after-restart-t0.
func TestTrackerCapturedRestart(t *testing.T) {
	tracker := NewTracker()
	pages := []string{"t0", "t1", "t2", "after-restart-t0", "after-restart-t1"}
	for i, name := range pages {
		p := capture(t, "metrics-unified-tp1."+name)
		at := uint64(i+1) * 10
		assert.Equal(t, name == "after-restart-t0", tracker.Observe(p, at), name)
		each(p, func(s *page.Series) {
			if i < 3 {
				assert.LessOrEqual(t, s.Start, uint64(20), name)
			} else {
				assert.GreaterOrEqual(t, s.Start, uint64(30), name)
			}
			assert.LessOrEqual(t, s.Start, at, name)
		})
	}
}

func TestTrackerIsBounded(t *testing.T) {
	tracker := NewTracker()
	stays := page.Series{Key: 1, Value: 1}
	for i := range 50 {
		p := &page.Page{Families: []*page.Family{{Name: "a", Kind: page.Counter, Series: []page.Series{stays}}}}
		for j := range 100 {
			p.Families[0].Series = append(p.Families[0].Series, page.Series{Key: uint64(1000 + i*100 + j)})
		}
		tracker.Observe(p, uint64(10*(i+1)))
		require.LessOrEqual(t, len(tracker.points), 2*101+spareStates)
	}
	// What was forgotten may have counted before: it begins without a past.
	p := counters(map[string]float64{"\x01": 1, "z": 7})
	tracker.Observe(p, 1000)
	assert.Equal(t, map[string]uint64{"\x01": 10, "z": 1000}, starts(p))
}

// TestTrackerStarts: whatever an engine does, a start never lies after its page or
// before an earlier start, and moves only where the series fell back or the engine
// was restarted.
func TestTrackerStarts(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		tracker := NewTracker()
		values := map[string]float64{}
		last := map[string]uint64{}
		// shownLast is what each series last showed since the last restart seen.
		shownLast := map[string]float64{}
		for i := range rapid.IntRange(1, 20).Draw(t, "pages") {
			shown := drawPage(t, values)
			p := counters(shown)
			at := uint64(i+1) * 10
			if tracker.Observe(p, at) {
				clear(shownLast)
			}
			for n, start := range starts(p) {
				if start > at || start < last[n] {
					t.Fatalf("%s starts at %d on the page of %d, at %d before", n, start, at, last[n])
				}
				if v, ok := shownLast[n]; ok && shown[n] >= v && start != last[n] {
					t.Fatalf("%s moved from %d to %d though it did not fall back", n, last[n], start)
				}
				last[n], shownLast[n] = start, shown[n]
			}
		}
	})
}

// drawPage moves the engine's counters on, or restarts it, and hides some of them.
func drawPage(t *rapid.T, values map[string]float64) map[string]float64 {
	restart := rapid.IntRange(0, 9).Draw(t, "restart") == 0
	shown := map[string]float64{}
	for _, n := range []string{"a", "b", "c", "d"} {
		if restart {
			values[n] = 0
		}
		values[n] += float64(rapid.IntRange(0, 5).Draw(t, "step"))
		if rapid.IntRange(0, 4).Draw(t, "shown") > 0 {
			shown[n] = values[n]
		}
	}
	return shown
}

func BenchmarkTracker(b *testing.B) {
	for _, n := range []int{600, 10_000, 100_000} {
		p := &page.Page{Families: []*page.Family{{Name: "a", Kind: page.Counter}}}
		for i := range n {
			p.Families[0].Series = append(p.Families[0].Series, page.Series{Key: uint64(i), Value: 1})
		}
		b.Run(fmt.Sprintf("series=%d", n), func(b *testing.B) {
			tracker := NewTracker()
			b.ReportAllocs()
			for i := 0; b.Loop(); i++ {
				tracker.Observe(p, uint64(i))
			}
		})
	}
}
