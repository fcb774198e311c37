// Copyright The otelcol-sglang Authors
// SPDX-License-Identifier: Apache-2.0

// Package pageshape tells what two metrics pages have in common beside their
// numbers: families, types, label sets, bucket bounds, and the way they are
// written. The simulated engine's page is held against recorded ones with it.
package pageshape // import "github.com/otelcol-sglang/otelcol-sglang/engine/internal/pageshape"

import (
	"errors"
	"fmt"
	"io"
	"maps"
	"mime"
	"slices"
	"strings"

	"github.com/prometheus/common/model"
	"github.com/prometheus/prometheus/model/labels"
	"github.com/prometheus/prometheus/model/textparse"

	"github.com/otelcol-sglang/otelcol-sglang/internal/sglang"
)

// Shape is a page without its numbers.
type Shape struct {
	// Families by the name of their metadata.
	Families map[string]*Family
	// Forms say how the page is written, by topic.
	Forms map[string]string
}

// Family is one family's shape.
type Family struct {
	Type string
	// Series are label sets, without le of buckets and with pids made equal.
	Series map[string]struct{}
	// Bounds are the upper bounds of a histogram, of all its series, as text.
	Bounds string
	bounds map[string][]string
}

// bounds that the engine computes differ in the last digits between languages.
const boundDigits = 12

// Parse reads a page of the given media type.
func Parse(page []byte, contentType string) (*Shape, error) {
	media, _, err := mime.ParseMediaType(contentType)
	if err != nil {
		return nil, fmt.Errorf("content type: %w", err)
	}
	parser, err := textparse.New(page, media, nil, textparse.ParserOptions{})
	if err != nil {
		return nil, err
	}
	s := &Shape{Families: map[string]*Family{}, Forms: formsOf(string(page))}
	if err := s.read(parser); err != nil {
		return nil, err
	}
	for _, f := range s.Families {
		f.closeBounds()
	}
	return s, nil
}

func (s *Shape) read(parser textparse.Parser) error {
	for {
		entry, err := parser.Next()
		switch {
		case errors.Is(err, io.EOF):
			return nil
		case err != nil:
			return err
		}
		switch entry {
		case textparse.EntryType:
			name, t := parser.Type()
			s.Families[string(name)] = &Family{Type: string(t), Series: map[string]struct{}{}, bounds: map[string][]string{}}
		case textparse.EntrySeries:
			var ls labels.Labels
			parser.Labels(&ls)
			if err := s.sample(ls); err != nil {
				return err
			}
		}
	}
}

func (s *Shape) sample(ls labels.Labels) error {
	name := colon(ls.Get(model.MetricNameLabel))
	f, suffix := s.family(name)
	if f == nil {
		return fmt.Errorf("sample %s has no TYPE line", name)
	}
	b := labels.NewBuilder(ls).Del(model.MetricNameLabel)
	if ls.Has(sglang.LabelPID) {
		b.Set(sglang.LabelPID, "*")
	}
	bucket := suffix == "_bucket"
	if bucket {
		b.Del(model.BucketLabel)
	}
	key := b.Labels().String()
	// A label may be there without a value.
	for _, l := range emptyLabels(ls) {
		key += " " + l
	}
	f.Series[key] = struct{}{}
	if bucket {
		f.bounds[key] = append(f.bounds[key], ls.Get(model.BucketLabel))
	}
	return nil
}

// emptyLabels are the names of labels without a value, which a builder drops.
func emptyLabels(ls labels.Labels) (names []string) {
	ls.Range(func(l labels.Label) {
		if l.Value == "" {
			names = append(names, l.Name)
		}
	})
	return names
}

// family finds whose sample it is.
func (s *Shape) family(sample string) (f *Family, suffix string) {
	if f = s.Families[sample]; f != nil {
		return f, ""
	}
	for _, suffix := range []string{"_total", "_bucket", "_sum", "_count", "_created"} {
		if base, ok := strings.CutSuffix(sample, suffix); ok && s.Families[base] != nil {
			return s.Families[base], suffix
		}
	}
	return nil, ""
}

// closeBounds tells of bounds once where all series have the same.
func (f *Family) closeBounds() {
	distinct := map[string]struct{}{}
	for _, b := range f.bounds {
		for i := range b {
			b[i] = number(b[i])
		}
		distinct[strings.Join(b, " ")] = struct{}{}
	}
	f.Bounds = strings.Join(slices.Sorted(maps.Keys(distinct)), " | ")
}

func colon(name string) string {
	if rest, ok := strings.CutPrefix(name, "sglang_"); ok {
		return sglang.MetricPrefix + rest
	}
	return name
}
