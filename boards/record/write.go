// Copyright The otelcol-sglang Authors
// SPDX-License-Identifier: Apache-2.0

package record // import "github.com/otelcol-sglang/otelcol-sglang/boards/record"

import (
	"bufio"
	"cmp"
	"io"
	"maps"
	"slices"
	"strconv"
	"strings"
	"time"
)

func sortedKeys[K cmp.Ordered, V any](m map[K]V) []K { return slices.Sorted(maps.Keys(m)) }

// WriteOpenMetrics writes what `promtool tsdb create-blocks-from openmetrics` reads,
// shifted in time so that it begins at start. It has no staleness markers: a series
// that ended shows for five more minutes. Without types each sample name is a family of
// its own, which is all the same to a database.
func (r *Recording) WriteOpenMetrics(to io.Writer, start time.Time) error {
	w := bufio.NewWriter(to)
	for _, s := range r.Series() {
		head := s.Name
		if len(s.Labels) > 0 {
			head += "{" + text(s.Labels) + "}"
		}
		for step, v := range s.Values {
			if IsAbsent(v) {
				continue
			}
			at := start.Add(time.Duration(step) * r.Step)
			_, _ = w.WriteString(head + " " + number(v) + " " + strconv.FormatFloat(float64(at.UnixMilli())/1e3, 'f', 3, 64) + "\n")
		}
	}
	_, _ = w.WriteString("# EOF\n")
	return w.Flush()
}

// InputSeries writes the series as the input of `promtool test rules`, in its expanding
// notation.
func (r *Recording) InputSeries(w *strings.Builder) {
	for _, s := range r.Series() {
		w.WriteString("      - series: '" + strings.ReplaceAll(s.Name+"{"+text(s.Labels)+"}", "'", "''") + "'\n")
		w.WriteString("        values: '" + s.notation(r.Steps) + "'\n")
	}
}

// notation writes runs as axn: n more of a after the first.
func (s *Series) notation(steps int) string {
	var b strings.Builder
	for i := 0; i < steps; {
		n := 1
		for i+n < steps && same(s.at(i), s.at(i+n)) {
			n++
		}
		if i > 0 {
			b.WriteByte(' ')
		}
		s.run(&b, i, n)
		i += n
	}
	return b.String()
}

func (s *Series) run(b *strings.Builder, i, n int) {
	v := s.at(i)
	if IsAbsent(v) {
		// Prometheus marks the end of a series that was there.
		if i > 0 {
			b.WriteString("stale")
			if n--; n == 0 {
				return
			}
			b.WriteByte(' ')
		}
		b.WriteString("_x" + strconv.Itoa(n))
		return
	}
	b.WriteString(strconv.FormatFloat(v, 'g', -1, 64))
	if n > 1 {
		b.WriteString("x" + strconv.Itoa(n-1))
	}
}

func same(a, b float64) bool { return a == b || IsAbsent(a) && IsAbsent(b) }
