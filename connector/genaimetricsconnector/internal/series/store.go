// Copyright The otelcol-sglang Authors
// SPDX-License-Identifier: Apache-2.0

// Package series keeps a bounded number of cumulative series. What no series is
// left for goes to one overflow series per metric, so that totals stay right.
package series // import "github.com/otelcol-sglang/otelcol-sglang/connector/genaimetricsconnector/internal/series"

import (
	"encoding/binary"
	"slices"
	"strings"
	"time"

	"github.com/otelcol-sglang/otelcol-sglang/connector/genaimetricsconnector/internal/histogram"
	"github.com/otelcol-sglang/otelcol-sglang/internal/sglang"
)

// maxPath bounds Profile.path; a request has some 20 values.
const maxPath = 48

// Resource is who the series are of; empty strings where unknown.
type Resource struct{ Namespace, Service, Instance string }

// Attr is an attribute of a series.
type Attr struct{ Key, Value string }

// Slot is a series' place among those of one profile.
type Slot struct {
	Metric Metric
	// Variant is the value of Info.Variant; "" leaves the attribute out.
	Variant string
	// Role is sglang.AttrPDRole of a stage; "" leaves it out.
	Role string
}

// Series is one cumulative series.
type Series struct {
	Attrs []Attr
	// Start and Last are the first and the latest observation.
	Start, Last time.Time
	// Histogram is nil for a counter.
	Histogram *histogram.Histogram
	Total     int64

	profile *Profile
	slot    Slot
}

// Profile is what requests of one kind have in common: resource and attributes.
type Profile struct {
	key      string
	resource *resourceSeries
	who      Resource
	attrs    []Attr
	slots    map[Slot]*Series

	// path is the series in the order in which requests met them, step how far this
	// one is: requests go much the same way, and few steps need the map.
	path []*Series
	step int
}

type resourceSeries struct {
	who    Resource
	lists  [MetricCount][]*Series
	series int
}

// Settings bound a store.
type Settings struct {
	// Max is the number of series beside the overflow series.
	Max int
	// Expiry is how long a series stays without an observation.
	Expiry time.Duration
	// Shapes are those of the histograms.
	Shapes [MetricCount]histogram.Shape
}

// Store keeps series. It is not safe for concurrent use.
type Store struct {
	set       Settings
	profiles  map[string]*Profile
	resources map[Resource]*resourceSeries
	// order is resources in the order of their first series.
	order    []*resourceSeries
	overflow *resourceSeries
	full     *Profile
	live     int
	// key and clean are room to work in.
	key     []byte
	clean   []Attr
	spilled [MetricCount]int64
}

// NewStore returns an empty store.
func NewStore(set Settings) *Store {
	return &Store{
		set:       set,
		profiles:  make(map[string]*Profile),
		resources: make(map[Resource]*resourceSeries),
		overflow:  new(resourceSeries),
		full:      new(Profile),
	}
}

// Profile finds or makes the profile of a kind of request. Attributes with an
// empty value are as good as absent; their order matters. Values may be any text.
// Where there is no room for another series the profile is one that has none.
func (s *Store) Profile(who Resource, attrs []Attr) *Profile {
	// What is known is clean, so what is known as it stands needs no cleaning.
	if p, ok := s.known(who, attrs); ok {
		return p
	}
	who = Resource{Namespace: clean(who.Namespace), Service: clean(who.Service), Instance: clean(who.Instance)}
	s.clean = s.clean[:0]
	for _, a := range attrs {
		s.clean = append(s.clean, Attr{Key: a.Key, Value: clean(a.Value)})
	}
	if p, ok := s.known(who, s.clean); ok {
		return p
	}
	if s.live >= s.set.Max {
		return s.full
	}
	return newProfile(string(s.key), who, s.clean)
}

// newProfile keeps copies: the texts are parts of a batch of spans.
func newProfile(key string, who Resource, attrs []Attr) *Profile {
	p := &Profile{key: key, slots: make(map[Slot]*Series)}
	p.who = Resource{
		Namespace: strings.Clone(who.Namespace), Service: strings.Clone(who.Service), Instance: strings.Clone(who.Instance),
	}
	for _, a := range attrs {
		if a.Value != "" {
			p.attrs = append(p.attrs, Attr{Key: a.Key, Value: strings.Clone(a.Value)})
		}
	}
	return p
}

func (s *Store) known(who Resource, attrs []Attr) (*Profile, bool) {
	s.key = appendString(s.key[:0], who.Namespace)
	s.key = appendString(s.key, who.Service)
	s.key = appendString(s.key, who.Instance)
	for _, a := range attrs {
		s.key = appendString(s.key, a.Key)
		s.key = appendString(s.key, a.Value)
	}
	p, ok := s.profiles[string(s.key)]
	if ok {
		p.step = 0
	}
	return p, ok
}

// appendString writes the length first: no two lists of strings are written alike.
func appendString(b []byte, s string) []byte {
	return append(binary.AppendUvarint(b, uint64(len(s))), s...)
}

// Observe counts a value of a histogram.
func (s *Store) Observe(p *Profile, slot Slot, at time.Time, e histogram.Exemplar) {
	s.of(p, slot, at).Histogram.Observe(e)
}

// Add adds to a counter; n is not negative.
func (s *Store) Add(p *Profile, slot Slot, at time.Time, n int64) {
	s.of(p, slot, at).Total += n
}

func (s *Store) of(p *Profile, slot Slot, at time.Time) *Series {
	one, slot := p.find(slot)
	switch {
	case one != nil:
	case p == s.full || s.live >= s.set.Max:
		one = s.overflowOf(slot.Metric, at)
	default:
		one = s.create(p, slot, at)
	}
	one.Last = at
	return one
}

// find returns the series in the slot, if there is one, and the slot with a clean
// variant and role.
func (p *Profile) find(slot Slot) (*Series, Slot) {
	for i := p.step; i < len(p.path); i++ {
		if p.path[i].slot == slot {
			p.step = i + 1
			return p.path[i], slot
		}
	}
	slot.Variant, slot.Role = clean(slot.Variant), clean(slot.Role)
	one := p.slots[slot]
	if one != nil && len(p.path) < maxPath {
		p.path = slices.Insert(p.path, p.step, one)
		p.step++
	}
	return one, slot
}

// create adds a series; the profile is remembered from its first series on.
func (s *Store) create(p *Profile, slot Slot, at time.Time) *Series {
	slot.Variant, slot.Role = strings.Clone(slot.Variant), strings.Clone(slot.Role)
	if len(p.slots) == 0 {
		s.profiles[p.key] = p
		p.resource = s.resourceOf(p.who)
	}
	one := s.newSeries(slot.Metric, at)
	one.Attrs = attrsOf(p.attrs, slot)
	one.profile, one.slot = p, slot
	p.slots[slot] = one
	p.resource.lists[slot.Metric] = append(p.resource.lists[slot.Metric], one)
	p.resource.series++
	s.live++
	return one
}

func (s *Store) resourceOf(who Resource) *resourceSeries {
	r, ok := s.resources[who]
	if !ok {
		r = &resourceSeries{who: who}
		s.resources[who] = r
		s.order = append(s.order, r)
	}
	return r
}

func attrsOf(common []Attr, slot Slot) []Attr {
	attrs := slices.Clone(common)
	if slot.Variant != "" {
		attrs = append(attrs, Attr{slot.Metric.Info().Variant, slot.Variant})
	}
	if slot.Role != "" {
		attrs = append(attrs, Attr{sglang.AttrPDRole, slot.Role})
	}
	return attrs
}

func (s *Store) newSeries(m Metric, at time.Time) *Series {
	one := &Series{Start: at}
	if m.IsHistogram() {
		one.Histogram = histogram.New(s.set.Shapes[m])
	}
	return one
}

func (s *Store) overflowOf(m Metric, at time.Time) *Series {
	s.spilled[m]++
	if list := s.overflow.lists[m]; len(list) > 0 {
		return list[0]
	}
	one := s.newSeries(m, at)
	s.overflow.lists[m] = []*Series{one}
	return one
}

// Expire ends the series that saw no observation for the expiry and returns their
// number. Overflow series stay.
func (s *Store) Expire(now time.Time) int {
	before := s.live
	for _, r := range s.order {
		for m := range r.lists {
			r.lists[m] = slices.DeleteFunc(r.lists[m], func(one *Series) bool {
				return now.Sub(one.Last) >= s.set.Expiry && s.end(r, one)
			})
		}
	}
	s.order = slices.DeleteFunc(s.order, func(r *resourceSeries) bool {
		if r.series == 0 {
			delete(s.resources, r.who)
		}
		return r.series == 0
	})
	return before - s.live
}

func (s *Store) end(r *resourceSeries, one *Series) bool {
	p := one.profile
	p.path, p.step = nil, 0
	delete(p.slots, one.slot)
	if len(p.slots) == 0 {
		delete(s.profiles, p.key)
	}
	r.series--
	s.live--
	return true
}

// Len is the number of series, without the overflow series.
func (s *Store) Len() int { return s.live }

// Each calls do for every metric of every resource, the overflow last.
func (s *Store) Each(do func(who Resource, m Metric, list []*Series, overflow bool)) {
	for _, r := range s.order {
		r.each(do, false)
	}
	s.overflow.each(do, true)
}

func (r *resourceSeries) each(do func(Resource, Metric, []*Series, bool), overflow bool) {
	for m := range MetricCount {
		if len(r.lists[m]) > 0 {
			do(r.who, m, r.lists[m], overflow)
		}
	}
}

// TakeSpilled returns how many observations went to the overflow series of each
// metric since the last call.
func (s *Store) TakeSpilled() [MetricCount]int64 {
	n := s.spilled
	s.spilled = [MetricCount]int64{}
	return n
}
