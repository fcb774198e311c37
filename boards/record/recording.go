// Copyright The otelcol-sglang Authors
// SPDX-License-Identifier: Apache-2.0

package record // import "github.com/otelcol-sglang/otelcol-sglang/boards/record"

import (
	"math"
	"slices"
	"strings"
	"time"
)

// Label is a label of a series.
type Label struct{ Name, Value string }

// Series is one series as Prometheus stores it.
type Series struct {
	Name string
	// Labels are sorted by name; none is empty.
	Labels []Label
	// Values are one per step since the beginning; [Absent] where there was none.
	Values []float64
}

// Absent marks a step at which a series was not on the page. Other NaNs are values.
var Absent = math.Float64frombits(0x7ff8000000000bad)

// IsAbsent tells whether there is no value.
func IsAbsent(v float64) bool { return math.Float64bits(v) == math.Float64bits(Absent) }

// Recording is what Prometheus got.
type Recording struct {
	// Start is the time of the first step.
	Start time.Time
	Step  time.Duration
	// Steps is how many there are.
	Steps  int
	series map[string]*Series
}

func newRecording(start time.Time, step time.Duration) *Recording {
	return &Recording{Start: start, Step: step, series: map[string]*Series{}}
}

// End is the time of the last step.
func (r *Recording) End() time.Time { return r.Start.Add(time.Duration(r.Steps-1) * r.Step) }

// Series are all, sorted by name and labels.
func (r *Recording) Series() []*Series {
	out := make([]*Series, 0, len(r.series))
	for _, key := range sortedKeys(r.series) {
		out = append(out, r.series[key])
	}
	return out
}

// add notes a value at the current step.
func (r *Recording) add(s sample) {
	key := s.name + "{" + text(s.labels) + "}"
	have, ok := r.series[key]
	if !ok {
		have = &Series{Name: s.name, Labels: s.labels}
		r.series[key] = have
	}
	for len(have.Values) < r.Steps {
		have.Values = append(have.Values, Absent)
	}
	have.Values = append(have.Values, s.value)
}

// next ends a step.
func (r *Recording) next() { r.Steps++ }

// at is a series' value at a step.
func (s *Series) at(step int) float64 {
	if step >= len(s.Values) {
		return Absent
	}
	return s.Values[step]
}

// sample is a value of one series.
type sample struct {
	name   string
	labels []Label
	value  float64
}

// text is labels as PromQL writes them.
func text(labels []Label) string {
	var b strings.Builder
	for i, l := range labels {
		if i > 0 {
			b.WriteByte(',')
		}
		b.WriteString(l.Name)
		b.WriteString(`="`)
		b.WriteString(escaper.Replace(l.Value))
		b.WriteByte('"')
	}
	return b.String()
}

var escaper = strings.NewReplacer(`\`, `\\`, `"`, `\"`, "\n", `\n`)

// tidy sorts labels and leaves out empty ones, which Prometheus has not.
func tidy(labels []Label) []Label {
	labels = slices.DeleteFunc(labels, func(l Label) bool { return l.Value == "" })
	slices.SortFunc(labels, func(a, b Label) int { return strings.Compare(a.Name, b.Name) })
	return labels
}

// Only is the recording without the series whose names are not wanted.
func (r *Recording) Only(wanted func(name string) bool) *Recording {
	out := &Recording{Start: r.Start, Step: r.Step, Steps: r.Steps, series: map[string]*Series{}}
	for key, s := range r.series {
		if wanted(s.Name) {
			out.series[key] = s
		}
	}
	return out
}
