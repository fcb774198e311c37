// Copyright The otelcol-sglang Authors
// SPDX-License-Identifier: Apache-2.0

// Package ask puts panels' queries to a Prometheus, as Grafana does.
package ask // import "github.com/otelcol-sglang/otelcol-sglang/boards/dashboards/ask"

import (
	"context"
	"fmt"
	"math"
	"regexp"
	"sort"
	"strings"
	"time"

	v1 "github.com/prometheus/client_golang/api/prometheus/v1"
	"github.com/prometheus/common/model"

	"github.com/otelcol-sglang/otelcol-sglang/boards/dashboards"
)

// View is what a reader of a board has chosen.
type View struct {
	Start, End time.Time
	// Scrape is the scrape interval that the data source is told.
	Scrape time.Duration
	// Points is the width of a graph.
	Points int
	// Vars are the board's variables; those that are not there are All.
	Vars map[string]string
}

// Answer is what a query gave.
type Answer struct {
	Query  *dashboards.Query
	Series []Series
}

// Series is a line, or a row of a table.
type Series struct {
	// Name is the legend, filled in.
	Name   string
	Labels model.Metric
	Points []model.SamplePair
}

// Last is the latest value that is a number.
func (s *Series) Last() (float64, bool) {
	for i := len(s.Points) - 1; i >= 0; i-- {
		if v := float64(s.Points[i].Value); !math.IsNaN(v) {
			return v, true
		}
	}
	return 0, false
}

// step is the time between two points.
func (v *View) step() time.Duration {
	return max(v.Scrape, v.End.Sub(v.Start)/time.Duration(v.Points)).Truncate(time.Second)
}

var reference = regexp.MustCompile(`\$(\w+)`)

// Expand puts the view's values for Grafana's variables and the board's.
func (v *View) Expand(expr string) string {
	return reference.ReplaceAllStringFunc(expr, func(ref string) string {
		switch name := ref[1:]; name {
		case "__rate_interval":
			return seconds(max(v.step()+v.Scrape, 4*v.Scrape))
		case "__interval":
			return seconds(v.step())
		case "__range":
			return seconds(v.End.Sub(v.Start))
		default:
			if value, ok := v.Vars[name]; ok {
				return value
			}
			return ".*"
		}
	})
}

func seconds(d time.Duration) string { return fmt.Sprintf("%ds", int(d.Seconds())) }

// Panel asks all queries of a panel. A query that Prometheus refuses is an error.
func (v *View) Panel(ctx context.Context, api v1.API, p *dashboards.Panel) ([]Answer, error) {
	var out []Answer
	for i := range p.Queries {
		q := &p.Queries[i]
		series, err := v.ask(ctx, api, q.PromQL(), p.Show == dashboards.Table || q.Instant)
		if err != nil {
			return nil, fmt.Errorf("%s: query %d: %w\n%s", p.Title, i, err, v.Expand(q.PromQL()))
		}
		for j := range series {
			series[j].Name = legend(q.Legend, series[j].Labels)
		}
		out = append(out, Answer{Query: q, Series: series})
	}
	return out, nil
}

func (v *View) ask(ctx context.Context, api v1.API, expr string, instant bool) ([]Series, error) {
	if instant {
		value, _, err := api.Query(ctx, v.Expand(expr), v.End)
		return latest(value), err
	}
	value, _, err := api.QueryRange(ctx, v.Expand(expr), v1.Range{Start: v.Start, End: v.End, Step: v.step()})
	if err != nil {
		return nil, err
	}
	var out []Series
	for _, s := range value.(model.Matrix) {
		out = append(out, Series{Labels: s.Metric, Points: s.Values})
	}
	return out, nil
}

func latest(value model.Value) (out []Series) {
	vector, _ := value.(model.Vector)
	for _, s := range vector {
		out = append(out, Series{Labels: s.Metric, Points: []model.SamplePair{{Timestamp: s.Timestamp, Value: s.Value}}})
	}
	sort.Slice(out, func(i, j int) bool { return out[i].Labels.String() < out[j].Labels.String() })
	return out
}

var placeholder = regexp.MustCompile(`\{\{\s*(\w+)\s*\}\}`)

// legend fills a legend's labels in.
func legend(format string, labels model.Metric) string {
	return strings.TrimSpace(placeholder.ReplaceAllStringFunc(format, func(ref string) string {
		return string(labels[model.LabelName(placeholder.FindStringSubmatch(ref)[1])])
	}))
}

// Board asks all panels of a board, in the order of [dashboards.Board.Panels].
func (v *View) Board(ctx context.Context, api v1.API, b *dashboards.Board) ([][]Answer, error) {
	var out [][]Answer
	for _, p := range b.Panels() {
		answers, err := v.Panel(ctx, api, p)
		if err != nil {
			return nil, err
		}
		out = append(out, answers)
	}
	return out, nil
}
