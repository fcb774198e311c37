// Copyright The otelcol-sglang Authors
// SPDX-License-Identifier: Apache-2.0

// Package fault makes an engine go wrong in the ways that a collector must show.
// Each fault turns knobs of the parts that do the work; nothing is made up.
package fault // import "github.com/otelcol-sglang/otelcol-sglang/engine/fault"

import (
	"errors"
	"fmt"
	"io"
	"maps"
	"slices"
	"strconv"
	"strings"
	"text/tabwriter"
	"time"

	"github.com/otelcol-sglang/otelcol-sglang/engine/api"
	"github.com/otelcol-sglang/otelcol-sglang/engine/args"
	"github.com/otelcol-sglang/otelcol-sglang/engine/clock"
	"github.com/otelcol-sglang/otelcol-sglang/engine/cost"
	"github.com/otelcol-sglang/otelcol-sglang/engine/dp"
	"github.com/otelcol-sglang/otelcol-sglang/engine/front"
	"github.com/otelcol-sglang/otelcol-sglang/engine/ledger"
	"github.com/otelcol-sglang/otelcol-sglang/engine/moe"
	"github.com/otelcol-sglang/otelcol-sglang/engine/page"
	"github.com/otelcol-sglang/otelcol-sglang/engine/sched"
	"github.com/otelcol-sglang/otelcol-sglang/engine/spec"
	"github.com/otelcol-sglang/otelcol-sglang/engine/trace"
)

// Parts are what can go wrong. A part that the engine has not is nil or empty.
type Parts struct {
	Args       *args.Args
	Loop       *clock.Loop
	Front      *front.Front
	Schedulers []*sched.Scheduler
	Controller *dp.Controller
	// Models price passes: one per replica, one for all groups of attention DP.
	Models   []*cost.Model
	Drafters []*spec.Drafter
	// Experts are a MoE model's: one per replica, one for all groups of attention DP.
	Experts  []*moe.Dispatch
	Memories []ledger.Memory
	Tracer   *trace.Tracer
	Page     *page.Page
	Service  *api.Service
	// Hide leaves out the scheduler's spans of a share of the requests.
	Hide func(share float64)
	// ByLength gives each DP rank its band of prompt lengths.
	ByLength func(on bool)
	// Crash ends the engine at once; another starts after the given time.
	Crash func(down time.Duration)
}

// Fault is one way in which things go wrong.
type Fault struct {
	Name, About string
	// Defaults of its own arguments; "after" and "for" are everyone's.
	Defaults map[string]string
	// prepare reads the arguments and returns what begins it and what ends it.
	prepare func(p *Parts, v *values) (on, off func(), err error)
}

// Spec is a fault with its arguments.
type Spec struct {
	*Fault
	values     values
	after, len time.Duration
	// begin is what begins it; active while it holds.
	begin  func()
	active bool
}

// forEver is the default of "for".
const forEver = "ever"

// Parse reads "name:key=value,key=value".
func Parse(text string) (Spec, error) {
	name, settings, _ := strings.Cut(text, ":")
	i := slices.IndexFunc(faults, func(f Fault) bool { return f.Name == name })
	if i < 0 {
		return Spec{}, fmt.Errorf("fault must be one of %s (got %q)", strings.Join(Names(), ", "), name)
	}
	f := &faults[i]
	s := Spec{Fault: f, values: values{set: maps.Clone(f.Defaults)}}
	if s.values.set == nil {
		s.values.set = map[string]string{}
	}
	s.values.set["after"], s.values.set["for"] = "0s", forEver
	for pair := range strings.SplitSeq(settings, ",") {
		if pair == "" {
			continue
		}
		key, value, _ := strings.Cut(pair, "=")
		key, value = strings.TrimSpace(key), strings.TrimSpace(value)
		if _, ok := s.values.set[key]; !ok {
			return Spec{}, fmt.Errorf("fault %s has no argument %q; it has %s", name, key, strings.Join(slices.Sorted(maps.Keys(s.values.set)), ", "))
		}
		s.values.set[key] = value
	}
	s.after = s.values.duration("after")
	if s.values.set["for"] != forEver {
		s.len = s.values.duration("for")
	}
	if err := s.values.err(); err != nil {
		return Spec{}, fmt.Errorf("fault %s: %w", name, err)
	}
	return s, nil
}

// Names are those of all faults.
func Names() []string {
	names := make([]string, len(faults))
	for i := range faults {
		names[i] = faults[i].Name
	}
	return names
}

// List writes all faults for people.
func List(w io.Writer) error {
	t := tabwriter.NewWriter(w, 0, 0, 2, ' ', 0)
	for i := range faults {
		f := &faults[i]
		var defaults []string
		for _, k := range slices.Sorted(maps.Keys(f.Defaults)) {
			defaults = append(defaults, k+"="+f.Defaults[k])
		}
		fmt.Fprintf(t, "%s\t%s\t%s\n", f.Name, strings.Join(defaults, ","), f.About)
	}
	if err := t.Flush(); err != nil {
		return err
	}
	_, err := fmt.Fprintln(w, "\nAll take after=30s (from the start) and for=60s (default: for ever), as in --fault slow-rank:rank=3,after=30s,for=60s")
	return err
}

// Schedule makes it happen in its time. Where it can't befall the engine, or an
// argument is wrong, that is said at once.
func (s *Spec) Schedule(p *Parts) error {
	on, off, err := s.prepare(p, &s.values)
	if err = errors.Join(err, s.values.err()); err != nil {
		return fmt.Errorf("fault %s: %w", s.Name, err)
	}
	s.begin = on
	p.Loop.After(s.after, func() {
		s.active = true
		on()
	})
	if s.len > 0 {
		p.Loop.After(s.after+s.len, func() {
			s.active = false
			off()
		})
	}
	return nil
}

// Restarted begins a fault that holds anew, with the parts of the process that took
// over.
func (s *Spec) Restarted() {
	if s.active {
		s.begin()
	}
}

// values are arguments as text; what can't be read is kept as an error.
type values struct {
	set  map[string]string
	errs []error
}

func (v *values) err() error {
	err := errors.Join(v.errs...)
	v.errs = nil
	return err
}

func (v *values) wrong(key, rule string) {
	v.errs = append(v.errs, fmt.Errorf("%s must be %s (got %q)", key, rule, v.set[key]))
}

func (v *values) duration(key string) time.Duration {
	d, err := time.ParseDuration(v.set[key])
	if err != nil {
		v.wrong(key, "a duration such as 30s")
	}
	return d
}

func (v *values) float(key string, low, high float64) float64 {
	f, err := strconv.ParseFloat(v.set[key], 64)
	if err != nil || !(f >= low && f <= high) {
		v.wrong(key, fmt.Sprintf("a number from %v to %v", low, high))
	}
	return f
}

func (v *values) whole(key string, low, high int) int {
	n, err := strconv.Atoi(v.set[key])
	if err != nil || n < low || n > high {
		v.wrong(key, fmt.Sprintf("a whole number from %d to %d", low, high))
	}
	return n
}
