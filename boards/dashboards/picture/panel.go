// Copyright The otelcol-sglang Authors
// SPDX-License-Identifier: Apache-2.0

package picture // import "github.com/otelcol-sglang/otelcol-sglang/boards/dashboards/picture"

import (
	"cmp"
	"image/color"
	"math"
	"slices"
	"strconv"
	"time"

	"github.com/prometheus/common/model"
	"gonum.org/v1/plot"
	"gonum.org/v1/plot/font"
	"gonum.org/v1/plot/plotter"
	"gonum.org/v1/plot/vg"
	"gonum.org/v1/plot/vg/draw"

	"github.com/otelcol-sglang/otelcol-sglang/boards/dashboards"
	"github.com/otelcol-sglang/otelcol-sglang/boards/dashboards/ask"
)

// line is a series with its colour.
type line struct {
	ask.Series
	color color.Color
	// over: not a part of the stack.
	over bool
}

func lines(answers []ask.Answer) (out []line) {
	for _, a := range answers {
		for _, s := range a.Series {
			out = append(out, line{s, palette[len(out)%len(palette)], a.Query.Line})
		}
	}
	return out
}

// graph draws lines, or areas on top of each other.
func graph(c draw.Canvas, p *dashboards.Panel, answers []ask.Answer) {
	all := lines(answers)
	c = legendOf(c, p.Unit, all)
	pl := plot.New()
	axes(pl, p)
	if p.Show == dashboards.Lines {
		for _, l := range all {
			draws(pl, l, xys(l.Points))
		}
	} else {
		stack(pl, all)
	}
	if p.Max > 0 {
		pl.Y.Max = p.Max
	}
	if !p.Signed {
		pl.Y.Min = 0
	}
	if pl.Y.Max <= pl.Y.Min {
		pl.Y.Max = pl.Y.Min + 1
	}
	pl.Draw(c)
}

func axes(pl *plot.Plot, p *dashboards.Panel) {
	pl.BackgroundColor = nil
	for _, a := range []*plot.Axis{&pl.X, &pl.Y} {
		a.Tick.Label.Font = font.From(plot.DefaultFont, small)
		a.Tick.Label.Color, a.Color, a.Tick.Color = faint, color.Gray{200}, color.Gray{200}
	}
	pl.X.Tick.Marker = plot.TickerFunc(hours)
	pl.Y.Tick.Marker = plot.TickerFunc(func(lo, hi float64) []plot.Tick {
		ticks := plot.DefaultTicks{}.Ticks(lo, hi)
		for i := range ticks {
			if ticks[i].Label != "" {
				ticks[i].Label = show(ticks[i].Value, p.Unit)
			}
		}
		return ticks
	})
	grid := plotter.NewGrid()
	grid.Vertical.Color, grid.Horizontal.Color = color.Gray{235}, color.Gray{235}
	pl.Add(grid)
}

// hours marks about six round times.
func hours(lo, hi float64) (out []plot.Tick) {
	step := time.Minute
	for _, s := range []time.Duration{5, 10, 15, 30, 60, 180} {
		if (hi-lo)/step.Seconds() > 6 {
			step = s * time.Minute
		}
	}
	for t := math.Ceil(lo/step.Seconds()) * step.Seconds(); t <= hi; t += step.Seconds() {
		out = append(out, plot.Tick{Value: t, Label: time.Unix(int64(t), 0).UTC().Format("15:04")})
	}
	return out
}

// xys are the points that are numbers.
func xys(points []model.SamplePair) (out plotter.XYs) {
	for _, p := range points {
		if v := float64(p.Value); !math.IsNaN(v) && !math.IsInf(v, 0) {
			out = append(out, plotter.XY{X: float64(p.Timestamp) / 1e3, Y: v})
		}
	}
	return out
}

func draws(pl *plot.Plot, l line, points plotter.XYs) {
	if len(points) == 0 {
		return
	}
	drawn := &plotter.Line{XYs: points, LineStyle: draw.LineStyle{Color: l.color, Width: vg.Points(1.2)}}
	pl.Add(drawn)
}

// stack draws areas from the top one down, each to the ground.
func stack(pl *plot.Plot, all []line) {
	times, sums := map[model.Time]float64{}, []map[model.Time]float64{}
	for _, l := range all {
		at := map[model.Time]float64{}
		for _, p := range l.Points {
			if v := float64(p.Value); !l.over && !math.IsNaN(v) {
				times[p.Timestamp] += v
				at[p.Timestamp] = times[p.Timestamp]
			}
		}
		sums = append(sums, at)
	}
	for i, l := range slices.Backward(all) {
		var top plotter.XYs
		for _, p := range l.Points {
			v, ok := sums[i][p.Timestamp]
			if ok {
				top = append(top, plotter.XY{X: float64(p.Timestamp) / 1e3, Y: v})
			}
		}
		if len(top) > 0 {
			pl.Add(&plotter.Line{XYs: top, FillColor: l.color, LineStyle: draw.LineStyle{Color: l.color, Width: vg.Points(0.5)}})
		}
	}
	for _, l := range all {
		if l.over {
			l.color = ink
			draws(pl, l, xys(l.Points))
		}
	}
}

// legendOf writes the legend with latest values at the bottom, at most a third of the
// panel, and returns what remains.
func legendOf(c draw.Canvas, unit dashboards.Unit, all []line) draw.Canvas {
	const high = 10
	x, y, rows := c.Min.X, vg.Length(0), 1
	type entry struct {
		x   vg.Length
		row int
		s   string
		col color.Color
	}
	var entries []entry
	for _, l := range all {
		s := l.Name
		if v, ok := l.Last(); ok {
			s += "  " + show(v, unit)
		}
		s = fit(s, small, c.Max.X-c.Min.X-12)
		w := style(small, ink).Width(s) + 20
		if x+w > c.Max.X && x > c.Min.X {
			x, rows = c.Min.X, rows+1
		}
		col := l.color
		if l.over {
			col = ink
		}
		entries = append(entries, entry{x, rows, s, col})
		x += w
	}
	most := max(1, int((c.Max.Y-c.Min.Y)/3/high))
	shown := min(rows, most)
	for _, e := range entries {
		if e.row > shown {
			break
		}
		y = c.Min.Y + vg.Length(shown-e.row)*high
		fill(vg.Rectangle{Min: vg.Point{X: e.x, Y: y + 2}, Max: vg.Point{X: e.x + 8, Y: y + 4}}, e.col, c)
		write(c, e.x+10, y, small, ink, e.s)
	}
	return box(c, c.Min.X, c.Min.Y+vg.Length(shown)*high+4, c.Max.X, c.Max.Y)
}

// stat writes the latest value of each series, its course behind it.
func stat(c draw.Canvas, p *dashboards.Panel, answers []ask.Answer) {
	all := lines(answers)
	width := (c.Max.X - c.Min.X) / vg.Length(min(len(all), 3))
	for i, l := range all {
		v, ok := l.Last()
		if !ok {
			continue
		}
		x, y := c.Min.X+vg.Length(i%3)*width, c.Max.Y-24-vg.Length(i/3)*34
		value, col := show(v, p.Unit), shade(v, p.Limits)
		for _, w := range p.Words {
			if w.Value == strconv.FormatFloat(v, 'g', -1, 64) {
				value, col = w.Text, named[w.Color]
			}
		}
		write(c, x, y, 18, col, value)
		if len(all) > 1 {
			write(c, x, y-11, small, faint, fit(l.Name, small, width-4))
		}
	}
	if len(all) == 1 && len(all[0].Points) > 1 {
		pl := plot.New()
		pl.HideAxes()
		pl.BackgroundColor = nil
		draws(pl, line{all[0].Series, color.Gray{170}, false}, xys(all[0].Points))
		pl.Draw(box(c, c.Min.X, c.Min.Y, c.Max.X, c.Max.Y-30))
	}
}

// table joins the answers by their labels.
func table(c draw.Canvas, p *dashboards.Panel, answers []ask.Answer) {
	labels, rows := join(answers)
	sortBy := max(0, slices.IndexFunc(answers, func(a ask.Answer) bool { return a.Query.Legend == p.SortBy }))
	slices.SortStableFunc(rows, func(a, b row) int { return -compare(a.values[sortBy], b.values[sortBy]) })
	n := len(labels) + len(answers)
	width := (c.Max.X - c.Min.X) / vg.Length(n)
	cell := func(row, col int, ink color.Color, s string) {
		write(c, c.Min.X+vg.Length(col)*width, c.Max.Y-9-vg.Length(row)*13, 8, ink, fit(s, 8, width-6))
	}
	for i, l := range labels {
		cell(0, i, faint, title(l))
	}
	for i, a := range answers {
		cell(0, len(labels)+i, faint, a.Query.Legend)
	}
	for i, r := range rows {
		if c.Max.Y-9-vg.Length(i+1)*13 < c.Min.Y {
			return
		}
		for j, l := range labels {
			cell(i+1, j, ink, r.labels[l])
		}
		for j, a := range answers {
			if v := r.values[j]; !math.IsNaN(v) {
				col := color.Color(ink)
				if len(a.Query.Limits) > 0 {
					col = shade(v, a.Query.Limits)
				}
				cell(i+1, len(labels)+j, col, show(v, a.Query.Unit))
			}
		}
	}
}

// row is a line of a table; a value that is not there is NaN.
type row struct {
	labels map[string]string
	values []float64
}

func join(answers []ask.Answer) (labels []string, rows []row) {
	at := map[string]int{}
	for i, a := range answers {
		for _, s := range a.Series {
			key := s.Labels.String()
			if _, ok := at[key]; !ok {
				at[key] = len(rows)
				rows = append(rows, newRow(s.Labels, len(answers), &labels))
			}
			rows[at[key]].values[i] = float64(s.Points[0].Value)
		}
	}
	slices.SortFunc(labels, func(a, b string) int { return cmp.Compare(place(a), place(b)) })
	return labels, rows
}

// place is a label's among a table's columns.
func place(label string) int {
	return slices.IndexFunc(dashboards.LabelNames, func(l struct{ Label, Title string }) bool { return l.Label == label })
}

func title(label string) string {
	if i := place(label); i >= 0 {
		return dashboards.LabelNames[i].Title
	}
	return label
}

func newRow(m model.Metric, n int, labels *[]string) row {
	r := row{labels: map[string]string{}, values: make([]float64, n)}
	for i := range r.values {
		r.values[i] = math.NaN()
	}
	for name, value := range m {
		r.labels[string(name)] = string(value)
		if name != "job" && !slices.Contains(*labels, string(name)) {
			*labels = append(*labels, string(name))
		}
	}
	return r
}

// compare puts what is no number last.
func compare(a, b float64) int {
	switch {
	case a < b || math.IsNaN(a) && !math.IsNaN(b):
		return -1
	case a > b || math.IsNaN(b) && !math.IsNaN(a):
		return 1
	}
	return 0
}
