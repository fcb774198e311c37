// Copyright The otelcol-sglang Authors
// SPDX-License-Identifier: Apache-2.0

// Package report makes tables of what was measured.
package report // import "github.com/otelcol-sglang/otelcol-sglang/bench/internal/report"

import (
	"fmt"
	"os"
	"slices"
	"strconv"
	"strings"
	"time"
)

// Run is one pipeline's turn.
type Run struct {
	SpansIn, SpansOut, BytesOut int
	// CPU is user and system time of the collector, from the load's start to its end.
	CPU time.Duration
	// Peak is the most resident memory, in bytes.
	Peak int64
	// Behind is how late the load's last batch was acknowledged.
	Behind time.Duration
}

// Pipeline is what was measured of one, by round.
type Pipeline struct {
	Name string
	Runs []Run
}

// Ratio compares the CPU time of two pipelines, round by round.
type Ratio struct {
	Name   string
	Of, To Pipeline
	AtMost float64
}

// Table has a line of medians for each pipeline.
func Table(ps []Pipeline) string {
	var b strings.Builder
	b.WriteString("| Pipeline | Spans in | Spans out | MB out | CPU s (lowest to highest) | CPU ms per 1 000 spans in | Peak memory MiB | Behind s |\n")
	b.WriteString("|---|---:|---:|---:|---:|---:|---:|---:|\n")
	for _, p := range ps {
		cpu := each(p.Runs, func(r Run) float64 { return r.CPU.Seconds() })
		in := each(p.Runs, func(r Run) float64 { return float64(r.SpansIn) })
		fmt.Fprintf(&b, "| %s | %.0f | %.0f | %.1f | %.2f (%.2f to %.2f) | %.2f | %.0f | %.1f |\n", p.Name, Median(in),
			Median(each(p.Runs, func(r Run) float64 { return float64(r.SpansOut) })),
			Median(each(p.Runs, func(r Run) float64 { return float64(r.BytesOut) / 1e6 })),
			Median(cpu), slices.Min(cpu), slices.Max(cpu), Median(cpu)*1e6/Median(in),
			Median(each(p.Runs, func(r Run) float64 { return float64(r.Peak) / (1 << 20) })),
			Median(each(p.Runs, func(r Run) float64 { return r.Behind.Seconds() })))
	}
	return b.String()
}

// Ratios has a line for each ratio.
func Ratios(rs []Ratio) string {
	var b strings.Builder
	b.WriteString("| CPU time | Median | Lowest | Highest | Goal at most | Rounds |\n|---|---:|---:|---:|---:|---:|\n")
	for _, r := range rs {
		v := r.values()
		fmt.Fprintf(&b, "| %s | %.2f | %.2f | %.2f | %.2f | %d |\n", r.Name, Median(v), slices.Min(v), slices.Max(v), r.AtMost, len(v))
	}
	return b.String()
}

func (r Ratio) values() []float64 {
	var v []float64
	for i := range min(len(r.Of.Runs), len(r.To.Runs)) {
		v = append(v, r.Of.Runs[i].CPU.Seconds()/r.To.Runs[i].CPU.Seconds())
	}
	return v
}

// Median of a list that is not empty.
func Median(v []float64) float64 {
	s := slices.Sorted(slices.Values(v))
	n := len(s)
	return (s[(n-1)/2] + s[n/2]) / 2
}

func each(runs []Run, f func(Run) float64) []float64 {
	v := make([]float64, len(runs))
	for i, r := range runs {
		v[i] = f(r)
	}
	return v
}

// Sum of a metric's series on a Prometheus page.
func Sum(page, metric string) float64 {
	var sum float64
	for line := range strings.Lines(page) {
		rest, ok := strings.CutPrefix(line, metric)
		if !ok || !strings.HasPrefix(rest, "{") && !strings.HasPrefix(rest, " ") {
			continue
		}
		rest = rest[strings.LastIndexByte(rest, '}')+1:]
		v, err := strconv.ParseFloat(strings.TrimSpace(rest), 64)
		if err == nil {
			sum += v
		}
	}
	return sum
}

// marks stand around the part of a document that a program generates.
func marks(program string) (begin, end string) {
	return "<!-- " + program + ": generated -->\n", "<!-- " + program + ": end -->\n"
}

// Into replaces the part of a document that a program generates.
func Into(doc, program, text string) (string, error) {
	begin, end := marks(program)
	head, rest, ok := strings.Cut(doc, begin)
	_, tail, ok2 := strings.Cut(rest, end)
	if !ok || !ok2 {
		return "", fmt.Errorf("the document has no lines %q and %q", strings.TrimSpace(begin), strings.TrimSpace(end))
	}
	return head + begin + text + end + tail, nil
}

// Write replaces it in a file.
func Write(file, program, text string) error {
	doc, err := os.ReadFile(file)
	if err != nil {
		return err
	}
	filled, err := Into(string(doc), program, text)
	if err != nil {
		return err
	}
	return os.WriteFile(file, []byte(filled), 0o644)
}
