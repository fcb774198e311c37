// Copyright The otelcol-sglang Authors
// SPDX-License-Identifier: Apache-2.0

package page // import "github.com/otelcol-sglang/otelcol-sglang/cmd/sglangctl/internal/page"

import (
	"bytes"
	"fmt"
	"math"
	"os"
	"path/filepath"
	"strconv"
	"strings"
)

const suffix = ".prom"

// Page is three recorded scrapes of one engine and what follows from them.
//
// Step 0, 1 and 2 are the scrapes t0 (idle), t1 (under load), t2 (idle again).
// The steps after them play t0 to t2 over and over on top of t2: counters and
// histograms grow by what they grew by in the recording, gauges take the values
// of t1 and t2 in turn. So every step is a true page: buckets, count and sum of
// a histogram agree, and nothing but a counter's reset ever falls.
type Page struct {
	raw   [3][]byte
	lines []line
}

// line is one line of t2. key is the whole line of what is not a sample.
type line struct {
	key        string
	sample     bool
	cumulative bool
	t1, t2     float64
	// half and full are the growth from t0 to t1 and from t0 to t2.
	half, full float64
}

// Names lists the pages in dir.
func Names(dir string) ([]string, error) {
	const last = ".t2" + suffix
	paths, err := filepath.Glob(filepath.Join(dir, "*"+last))
	for i, p := range paths {
		paths[i] = strings.TrimSuffix(filepath.Base(p), last)
	}
	return paths, err
}

// Load reads NAME.t0.prom, NAME.t1.prom and NAME.t2.prom.
func Load(dir, name string) (*Page, error) {
	p := &Page{}
	var values [3]map[string]float64
	for i := range p.raw {
		path := filepath.Join(dir, fmt.Sprintf("%s.t%d%s", name, i, suffix))
		raw, err := os.ReadFile(path)
		if err != nil {
			return nil, err
		}
		if values[i], err = samples(raw); err != nil {
			return nil, fmt.Errorf("%s: %w", path, err)
		}
		p.raw[i] = raw
	}
	p.lines = template(p.raw[2], values)
	return p, nil
}

// samples maps each series to its value.
func samples(raw []byte) (map[string]float64, error) {
	values := map[string]float64{}
	for text := range strings.Lines(string(raw)) {
		key, value, ok := cutSample(strings.TrimSuffix(text, "\n"))
		if !ok {
			continue
		}
		v, err := strconv.ParseFloat(value, 64)
		if err != nil {
			return nil, fmt.Errorf("series %s: %w", key, err)
		}
		values[key] = v
	}
	return values, nil
}

// cutSample splits a sample's line; ok is false for comments and empty lines.
// The recorded pages carry no timestamps.
func cutSample(text string) (key, value string, ok bool) {
	at := strings.LastIndexByte(text, ' ')
	if at < 0 || text[0] == '#' {
		return "", "", false
	}
	return text[:at], text[at+1:], true
}

func template(raw []byte, values [3]map[string]float64) []line {
	var lines []line
	types := map[string]string{}
	for text := range strings.Lines(string(raw)) {
		text = strings.TrimSuffix(text, "\n")
		key, _, ok := cutSample(text)
		if !ok {
			if f := strings.Fields(text); len(f) == 4 && f[1] == "TYPE" {
				types[f[2]] = f[3]
			}
			lines = append(lines, line{key: text})
			continue
		}
		lines = append(lines, newSample(key, cumulative(key, types), values))
	}
	return lines
}

func newSample(key string, cumulative bool, values [3]map[string]float64) line {
	l := line{key: key, sample: true, cumulative: cumulative, t2: values[2][key]}
	l.t1 = l.t2
	if v, ok := values[1][key]; ok {
		l.t1 = v
	}
	// A series that is absent has counted nothing so far.
	l.full = max(l.t2-values[0][key], 0)
	l.half = min(max(values[1][key]-values[0][key], 0), l.full)
	return l
}

// cumulative tells counters and the parts of histograms from gauges.
func cumulative(key string, types map[string]string) bool {
	name, _, _ := strings.Cut(key, "{")
	if kind, ok := types[name]; ok {
		return kind == "counter"
	}
	for _, part := range []string{"_bucket", "_count", "_sum"} {
		if family, ok := strings.CutSuffix(name, part); ok && types[family] == "histogram" {
			return true
		}
	}
	return false
}

// At returns the page at a step.
func (p *Page) At(step int) []byte {
	if step < len(p.raw) {
		return p.raw[max(step, 0)]
	}
	cycles, odd := math.Floor(float64(step-2)/2), step%2 == 1
	var b bytes.Buffer
	b.Grow(len(p.raw[2]) + len(p.raw[2])/8)
	for _, l := range p.lines {
		b.WriteString(l.key)
		if l.sample {
			b.WriteByte(' ')
			b.WriteString(formatFloat(l.at(cycles, odd)))
		}
		b.WriteByte('\n')
	}
	return b.Bytes()
}

func (l line) at(cycles float64, odd bool) float64 {
	switch {
	case l.cumulative && odd:
		return l.t2 + cycles*l.full + l.half
	case l.cumulative:
		return l.t2 + cycles*l.full
	case odd:
		return l.t1
	}
	return l.t2
}

// formatFloat writes a value as prometheus_client does: 1.0, 2.01326592e+08.
func formatFloat(v float64) string {
	const big = 1e6
	if math.IsNaN(v) || math.IsInf(v, 0) || math.Abs(v) >= big {
		return strconv.FormatFloat(v, 'g', -1, 64)
	}
	if v == math.Trunc(v) {
		return strconv.FormatFloat(v, 'f', 1, 64)
	}
	return strconv.FormatFloat(v, 'g', -1, 64)
}
