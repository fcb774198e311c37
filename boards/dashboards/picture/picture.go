// Copyright The otelcol-sglang Authors
// SPDX-License-Identifier: Apache-2.0

// Package picture draws boards with their answers, so that one sees what a user sees.
// It is no Grafana: the grid, titles, units, legends and colours are the board's, the
// rest is plain.
package picture // import "github.com/otelcol-sglang/otelcol-sglang/boards/dashboards/picture"

import (
	"image/color"
	"io"
	"strings"

	"gonum.org/v1/plot"
	"gonum.org/v1/plot/font"
	"gonum.org/v1/plot/text"
	"gonum.org/v1/plot/vg"
	"gonum.org/v1/plot/vg/draw"
	"gonum.org/v1/plot/vg/vgimg"

	"github.com/otelcol-sglang/otelcol-sglang/boards/dashboards"
	"github.com/otelcol-sglang/otelcol-sglang/boards/dashboards/ask"
)

// Sizes in points: of a unit of the grid, of a row's heading, and of margins.
const (
	unitW, unitH vg.Length = 44, 24
	heading      vg.Length = 26
	margin       vg.Length = 5
	small        vg.Length = 7.5
)

var (
	ink   = color.Gray{40}
	faint = color.Gray{130}
	paper = color.Gray{236}
)

// named are the colours of limits and words.
var named = map[string]color.Color{
	"green": color.RGBA{20, 120, 60, 255}, "yellow": color.RGBA{190, 130, 0, 255}, "red": color.RGBA{200, 30, 45, 255},
}

// palette is Grafana's classic one, darkened for a white ground.
var palette = []color.Color{
	color.RGBA{86, 166, 75, 255},
	color.RGBA{242, 184, 7, 255},
	color.RGBA{51, 145, 210, 255},
	color.RGBA{250, 100, 0, 255},
	color.RGBA{224, 47, 68, 255},
	color.RGBA{60, 70, 160, 255},
	color.RGBA{163, 82, 204, 255},
	color.RGBA{110, 90, 60, 255},
	color.RGBA{0, 150, 150, 255},
	color.RGBA{180, 180, 60, 255},
	color.RGBA{230, 120, 170, 255},
	color.Gray{120},
}

// Board draws a board as PNG. Answers are by panel, in the order of [dashboards.Board.Panels].
func Board(w io.Writer, b *dashboards.Board, subtitle string, answers [][]ask.Answer) error {
	height := 2*margin + heading
	for i := range b.Rows {
		height += heading + vg.Length(rowHeight(&b.Rows[i]))*unitH
	}
	img := vgimg.NewWith(vgimg.UseWH(24*unitW+2*margin, height), vgimg.UseDPI(96))
	c := draw.New(img)
	fill(c.Rectangle, paper, c)
	write(c, c.Min.X+margin, c.Max.Y-heading+8, 14, ink, b.Title)
	write(c, c.Min.X+330, c.Max.Y-heading+8, 9, faint, subtitle)
	top, n := c.Max.Y-heading, 0
	for i := range b.Rows {
		write(c, c.Min.X+margin, top-heading+8, 11, ink, b.Rows[i].Title)
		top -= heading
		n = panels(c, &b.Rows[i], top, answers, n)
		top -= vg.Length(rowHeight(&b.Rows[i])) * unitH
	}
	_, err := vgimg.PngCanvas{Canvas: img}.WriteTo(w)
	return err
}

// panels draws a row's, whose answers begin at the nth, and returns where the next
// row's do.
func panels(c draw.Canvas, r *dashboards.Row, top vg.Length, answers [][]ask.Answer, n int) int {
	var x, y, line uint32
	for i := range r.Panels {
		p := &r.Panels[i]
		if x+p.W > 24 {
			x, y, line = 0, y+line, 0
		}
		line = max(line, p.H)
		left, upper := c.Min.X+margin+vg.Length(x)*unitW, top-vg.Length(y)*unitH
		panel(box(c, left+1, upper-vg.Length(p.H)*unitH+1, left+vg.Length(p.W)*unitW-1, upper-1), p, answers[n])
		x += p.W
		n++
	}
	return n
}

// rowHeight is how many units of the grid a row's panels take.
func rowHeight(r *dashboards.Row) uint32 {
	var x, y, line uint32
	for i := range r.Panels {
		if x+r.Panels[i].W > 24 {
			x, y, line = 0, y+line, 0
		}
		line = max(line, r.Panels[i].H)
		x += r.Panels[i].W
	}
	return y + line
}

func panel(c draw.Canvas, p *dashboards.Panel, answers []ask.Answer) {
	fill(c.Rectangle, color.White, c)
	write(c, c.Min.X+margin, c.Max.Y-13, 9, ink, p.Title)
	c = box(c, c.Min.X+margin, c.Min.Y+margin, c.Max.X-margin, c.Max.Y-18)
	if !something(answers) {
		wrap(c, noData(p))
		return
	}
	switch p.Show {
	case dashboards.Stat:
		stat(c, p, answers)
	case dashboards.Table:
		table(c, p, answers)
	case dashboards.Heat:
		heat(c, p, answers)
	default:
		graph(c, p, answers)
	}
}

func noData(p *dashboards.Panel) string {
	if p.Empty != "" {
		return p.Empty
	}
	return "No data"
}

// something tells whether there is something to draw.
func something(answers []ask.Answer) bool {
	for _, a := range answers {
		for i := range a.Series {
			if _, ok := a.Series[i].Last(); ok {
				return true
			}
		}
	}
	return false
}

func box(c draw.Canvas, left, bottom, right, top vg.Length) draw.Canvas {
	return draw.Canvas{Canvas: c.Canvas, Rectangle: vg.Rectangle{Min: vg.Point{X: left, Y: bottom}, Max: vg.Point{X: right, Y: top}}}
}

func fill(r vg.Rectangle, col color.Color, c draw.Canvas) {
	c.FillPolygon(col, []vg.Point{r.Min, {X: r.Max.X, Y: r.Min.Y}, r.Max, {X: r.Min.X, Y: r.Max.Y}})
}

func style(size vg.Length, col color.Color) text.Style {
	return text.Style{Color: col, Font: font.From(plot.DefaultFont, size), Handler: plot.DefaultTextHandler}
}

func init() { plot.DefaultFont = font.Font{Typeface: "Liberation", Variant: "Sans"} }

func write(c draw.Canvas, x, y, size vg.Length, col color.Color, s string) {
	c.FillText(style(size, col), vg.Point{X: x, Y: y}, s)
}

// wrap writes a text in the middle, as many lines as it takes.
func wrap(c draw.Canvas, s string) {
	y, line := (c.Min.Y+c.Max.Y)/2, ""
	for _, word := range strings.Fields(s) {
		if next := strings.TrimSpace(line + " " + word); style(8.5, faint).Width(next) < c.Max.X-c.Min.X-8 {
			line = next
			continue
		}
		write(c, c.Min.X+4, y, 8.5, faint, line)
		y, line = y-11, word
	}
	write(c, c.Min.X+4, y, 8.5, faint, line)
}

// fit cuts a text to a width.
func fit(s string, size, width vg.Length) string {
	st := style(size, ink)
	if st.Width(s) <= width {
		return s
	}
	for r := []rune(s); len(r) > 1; r = r[:len(r)-1] {
		if cut := string(r) + "…"; st.Width(cut) <= width {
			return cut
		}
	}
	return ""
}

// shade is the colour of a value by its limits.
func shade(v float64, limits []dashboards.Limit) color.Color {
	if len(limits) == 0 {
		return ink
	}
	col := named["green"]
	for _, l := range limits {
		if v >= l.From {
			col = named[l.Color]
		}
	}
	return col
}
