// Copyright The otelcol-sglang Authors
// SPDX-License-Identifier: Apache-2.0

package pageshape // import "github.com/otelcol-sglang/otelcol-sglang/engine/internal/pageshape"

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"
)

// Kind is what differs.
type Kind string

const (
	MissingFamily Kind = "family is missing"
	ExtraFamily   Kind = "family should not be there"
	OtherType     Kind = "type"
	MissingSeries Kind = "series is missing"
	ExtraSeries   Kind = "series should not be there"
	OtherBounds   Kind = "bounds"
	OtherForm     Kind = "form"
)

// Difference is one thing in which a page is not like another. What is the family,
// or the topic of a form.
type Difference struct {
	Kind         Kind
	What, Detail string
}

func (d Difference) String() string { return fmt.Sprintf("%s: %s: %s", d.Kind, d.What, d.Detail) }

// Compare says in what got is not like want, in a fixed order.
func Compare(want, got *Shape) []Difference {
	var out []Difference
	for name, w := range want.Families {
		g := got.Families[name]
		if g == nil {
			out = append(out, Difference{MissingFamily, name, w.Type})
			continue
		}
		out = append(out, compareFamily(name, w, g)...)
	}
	for name, g := range got.Families {
		if want.Families[name] == nil {
			out = append(out, Difference{ExtraFamily, name, g.Type})
		}
	}
	for _, topic := range topics {
		if w, g := want.Forms[topic], got.Forms[topic]; g != w {
			out = append(out, Difference{OtherForm, topic, fmt.Sprintf("want %q, got %q", w, g)})
		}
	}
	slices.SortFunc(out, func(a, b Difference) int {
		return cmp.Or(cmp.Compare(a.Kind, b.Kind), cmp.Compare(a.What, b.What), cmp.Compare(a.Detail, b.Detail))
	})
	return out
}

func compareFamily(name string, w, g *Family) []Difference {
	var out []Difference
	if w.Type != g.Type {
		out = append(out, Difference{OtherType, name, w.Type + " became " + g.Type})
	}
	if w.Bounds != g.Bounds {
		out = append(out, Difference{OtherBounds, name, w.Bounds + " became " + g.Bounds})
	}
	for s := range without(w.Series, g.Series) {
		out = append(out, Difference{MissingSeries, name, s})
	}
	for s := range without(g.Series, w.Series) {
		out = append(out, Difference{ExtraSeries, name, s})
	}
	return out
}

func without(a, b map[string]struct{}) map[string]struct{} {
	out := maps.Clone(a)
	maps.DeleteFunc(out, func(k string, _ struct{}) bool { _, ok := b[k]; return ok })
	return out
}

// Accepted is a difference that is known, with the reason for it.
type Accepted struct {
	// Page is where it is: a part of the name of the comparison, "" for all.
	Page string
	Kind Kind
	// What and Detail are parts of the difference's, "" for any.
	What, Detail string
	Reason       string
}

func (a *Accepted) covers(page string, d Difference) bool {
	return a.Kind == d.Kind && strings.Contains(page, a.Page) &&
		strings.Contains(d.What, a.What) && strings.Contains(d.Detail, a.Detail)
}

// Table holds the accepted differences, and remembers which were met.
type Table struct {
	accepted []Accepted
	met      []bool
}

// NewTable makes a table.
func NewTable(accepted ...Accepted) *Table {
	return &Table{accepted, make([]bool, len(accepted))}
}

// Unknown are the differences of one comparison that no entry covers.
func (t *Table) Unknown(page string, ds []Difference) []Difference {
	var out []Difference
	for _, d := range ds {
		known := false
		for i := range t.accepted {
			if t.accepted[i].covers(page, d) {
				known, t.met[i] = true, true
			}
		}
		if !known {
			out = append(out, d)
		}
	}
	return out
}

// Stale are the entries that no comparison met.
func (t *Table) Stale() []Accepted {
	var out []Accepted
	for i, met := range t.met {
		if !met {
			out = append(out, t.accepted[i])
		}
	}
	return out
}

// number is a bound without the form in which it is written.
func number(s string) string {
	v, err := strconv.ParseFloat(s, 64)
	if err != nil {
		return s
	}
	return strconv.FormatFloat(v, 'g', boundDigits, 64)
}
