// Copyright The otelcol-sglang Authors
// SPDX-License-Identifier: Apache-2.0

package picture // import "github.com/otelcol-sglang/otelcol-sglang/boards/dashboards/picture"

import (
	"cmp"
	"image/color"
	"slices"
	"strconv"

	"github.com/prometheus/common/model"
	"gonum.org/v1/plot/vg"
	"gonum.org/v1/plot/vg/draw"

	"github.com/otelcol-sglang/otelcol-sglang/boards/dashboards"
	"github.com/otelcol-sglang/otelcol-sglang/boards/dashboards/ask"
)

// band is one bucket over time, without those below it.
type band struct {
	le     float64
	counts map[model.Time]float64
}

// heat draws a histogram over time: only the bands that have something, one more on
// either side.
func heat(c draw.Canvas, p *dashboards.Panel, answers []ask.Answer) {
	bands, most := bandsOf(answers)
	bands = busy(bands)
	if len(bands) == 0 || most == 0 {
		wrap(c, noData(p))
		return
	}
	times := timesOf(bands)
	c = box(c, c.Min.X+34, c.Min.Y+12, c.Max.X, c.Max.Y)
	w, h := (c.Max.X-c.Min.X)/vg.Length(len(times)), (c.Max.Y-c.Min.Y)/vg.Length(len(bands))
	for i, b := range bands {
		y := c.Min.Y + vg.Length(i)*h
		if h > small || i%2 == 0 {
			write(c, c.Min.X-32, y+h-small, small, faint, show(b.le, p.Unit))
		}
		for j, t := range times {
			if n := b.counts[t]; n > 0 {
				x := c.Min.X + vg.Length(j)*w
				fill(vg.Rectangle{Min: vg.Point{X: x, Y: y}, Max: vg.Point{X: x + w, Y: y + h - 0.5}}, heatColor(n/most), c)
			}
		}
	}
	for j := 0; j < len(times); j += max(1, len(times)/6) {
		write(c, c.Min.X+vg.Length(j)*w, c.Min.Y-10, small, faint, times[j].Time().UTC().Format("15:04"))
	}
}

func heatColor(share float64) color.Color {
	return color.RGBA{255, uint8(230 - 170*share), uint8(190 - 190*share), 255}
}

func bandsOf(answers []ask.Answer) (bands []band, most float64) {
	for _, s := range answers[0].Series {
		le, err := strconv.ParseFloat(string(s.Labels["le"]), 64)
		if err != nil {
			continue
		}
		b := band{le, map[model.Time]float64{}}
		for _, p := range s.Points {
			b.counts[p.Timestamp] = float64(p.Value)
		}
		bands = append(bands, b)
	}
	slices.SortFunc(bands, func(a, b band) int { return cmp.Compare(a.le, b.le) })
	for i := len(bands) - 1; i >= 0; i-- {
		for t, n := range bands[i].counts {
			if i > 0 {
				n -= bands[i-1].counts[t]
			}
			if n < 1e-6 { // what extrapolation leaves
				n = 0
			}
			bands[i].counts[t] = n
			most = max(most, n)
		}
	}
	return bands, most
}

func busy(bands []band) []band {
	has := func(b band) bool {
		for _, n := range b.counts {
			if n > 0 {
				return true
			}
		}
		return false
	}
	first := slices.IndexFunc(bands, has)
	if first < 0 {
		return nil
	}
	last := len(bands) - 1
	for last > first && !has(bands[last]) {
		last--
	}
	return bands[max(0, first-1):min(len(bands), last+2)]
}

func timesOf(bands []band) (out []model.Time) {
	seen := map[model.Time]bool{}
	for _, b := range bands {
		for t := range b.counts {
			if !seen[t] {
				seen[t] = true
				out = append(out, t)
			}
		}
	}
	slices.Sort(out)
	return out
}
