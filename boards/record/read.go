// Copyright The otelcol-sglang Authors
// SPDX-License-Identifier: Apache-2.0

package record // import "github.com/otelcol-sglang/otelcol-sglang/boards/record"

import (
	"bufio"
	"errors"
	"fmt"
	"io"
	"strconv"
	"strings"
	"time"
)

// maxLine bounds a line of a recording's file.
const maxLine = 1 << 20

// Read reads what [Recording.WriteOpenMetrics] wrote.
func Read(from io.Reader) (*Recording, error) {
	r := newRecording(time.Time{}, Step)
	lines := bufio.NewScanner(from)
	lines.Buffer(nil, maxLine)
	type line struct {
		head string
		v    float64
		at   time.Time
	}
	var all []line
	for lines.Scan() {
		text := lines.Text()
		if strings.HasPrefix(text, "#") {
			continue
		}
		head, v, at, err := cut(text)
		if err != nil {
			return nil, fmt.Errorf("%w: %s", err, text)
		}
		if r.Start.IsZero() || at.Before(r.Start) {
			r.Start = at
		}
		all = append(all, line{head, v, at})
	}
	if err := lines.Err(); err != nil {
		return nil, err
	}
	for _, l := range all {
		step := int(l.at.Sub(r.Start) / r.Step)
		s, ok := r.series[l.head]
		if !ok {
			s = &Series{}
			s.Name, s.Labels = parse(l.head)
			r.series[l.head] = s
		}
		for len(s.Values) < step {
			s.Values = append(s.Values, Absent)
		}
		s.Values = append(s.Values, l.v)
		r.Steps = max(r.Steps, step+1)
	}
	return r, nil
}

var errLine = errors.New("not a line of a recording")

// cut takes a line apart: what stands before the value names the series.
func cut(line string) (head string, v float64, at time.Time, err error) {
	rest, seconds, ok := cutLast(line)
	head, value, ok2 := cutLast(rest)
	if !ok || !ok2 {
		return "", 0, at, errLine
	}
	v, err = strconv.ParseFloat(value, 64)
	if err != nil {
		return "", 0, at, errLine
	}
	s, err := strconv.ParseFloat(seconds, 64)
	if err != nil {
		return "", 0, at, errLine
	}
	return head, v, time.UnixMilli(int64(s * 1e3)).UTC(), nil
}

func cutLast(s string) (before, after string, ok bool) {
	i := strings.LastIndexByte(s, ' ')
	if i < 0 {
		return "", "", false
	}
	return s[:i], s[i+1:], true
}

// parse reads name{label="value",...}.
func parse(head string) (name string, labels []Label) {
	name, rest, _ := strings.Cut(head, "{")
	for rest != "" && rest != "}" {
		label, quoted, _ := strings.Cut(rest, "=")
		end := 1
		for end < len(quoted) && quoted[end] != '"' {
			if quoted[end] == '\\' {
				end++
			}
			end++
		}
		value, err := strconv.Unquote(quoted[:min(end+1, len(quoted))])
		if err != nil {
			return name, labels
		}
		labels = append(labels, Label{label, value})
		rest = strings.TrimPrefix(quoted[end+1:], ",")
	}
	return name, labels
}
