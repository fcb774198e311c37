// Copyright The otelcol-sglang Authors
// SPDX-License-Identifier: Apache-2.0

package explain // import "github.com/otelcol-sglang/otelcol-sglang/cmd/sglangctl/internal/explain"

import (
	"cmp"
	"fmt"
	"io"
	"maps"
	"math"
	"slices"
	"strconv"
	"strings"

	dto "github.com/prometheus/client_model/go"
	"github.com/prometheus/common/expfmt"
	"github.com/prometheus/common/model"

	"github.com/otelcol-sglang/otelcol-sglang/internal/sglang"
)

// Families are a page's families by name.
type Families = map[string]*dto.MetricFamily

// Selector is a series' name with some of its labels.
type Selector struct {
	name   string
	suffix string
	labels map[string]string
}

// suffixes are what samples of a histogram append to its name.
var suffixes = []string{"_count", "_sum"}

// ParseSelector reads `name{label="value",...}`: the form of a line of a page.
func ParseSelector(text string) (Selector, error) {
	parser := expfmt.NewTextParser(model.UTF8Validation)
	families, err := parser.TextToMetricFamilies(strings.NewReader(strings.TrimSpace(text) + " 0\n"))
	if err != nil || len(families) != 1 {
		return Selector{}, fmt.Errorf("series must be a name with labels, such as sglang:num_running_reqs{dp_rank=\"0\"} (got %q)", text)
	}
	s := Selector{labels: map[string]string{}}
	for name, f := range families {
		s.name = sglang.CanonicalName(name)
		for _, l := range f.GetMetric()[0].GetLabel() {
			s.labels[l.GetName()] = l.GetValue()
		}
	}
	if base, bucket := strings.CutSuffix(s.name, "_bucket"); bucket {
		return Selector{}, fmt.Errorf("series must not be a bucket: %s_count and %s_sum go the same way (got %q)", base, base, text)
	}
	for _, suffix := range suffixes {
		base, cut := strings.CutSuffix(s.name, suffix)
		if _, known := sglang.FamilyOf(s.name); cut && !known {
			s.name, s.suffix = base, suffix
		}
	}
	return s, nil
}

// Raw is one series of the engine's page.
type Raw struct {
	Labels string  `json:"labels"`
	Value  float64 `json:"-"`
	Text   string  `json:"value"`
	rank   [3]int64
	// reports: it has shown something other than nothing.
	reports bool
}

// Folded is what became of the ranks' series with otherwise equal labels.
type Folded struct {
	Series string `json:"series"`
	Rule   string `json:"rule"`
	Raw    []Raw  `json:"raw"`
	// Result is what the rule gives, Shown what the collector's page has; "" for none.
	Result string `json:"result"`
	Shown  string `json:"shown"`
	// Agrees is absent where the values move while they are read.
	Agrees *bool  `json:"agrees,omitempty"`
	Note   string `json:"note,omitempty"`

	result, later, shown float64
	there                bool
	cumulative           bool
}

// ruleTexts say what each rule of the catalogue does.
var ruleTexts = map[sglang.TPReduce]string{
	sglang.ReduceFirst: "first: the ranks show copies of one value; the lowest rank that reports stands. A rank that only ever showed 0 or NaN does not report",
	sglang.ReduceMax:   "max: the largest of the ranks' values",
	sglang.ReduceSum:   "sum: each rank has a share; they are added",
	sglang.ReduceKeep:  "keep: each rank measures its own; a series per rank stays",
}

const (
	passText     = "pass: the catalogue doesn't know the family, so that it passes as it came"
	unrankedText = "pass: the family has no ranks"
)

// Series explains the series that a selector means. The engine's page was read
// before the collector's, and once more after it: before and after.
func Series(s Selector, before, after, shown Families, instance string) ([]Folded, error) {
	raw := familyOf(before, s.name)
	if raw == nil {
		return nil, fmt.Errorf("the engine's page has no family %s: a family comes with its first value, and some need a flag (sglangctl doctor)", s.name)
	}
	name, f := sglang.Resolve(s.name, typeOf(raw))
	groups := group(s, raw, f)
	if len(groups) == 0 {
		return nil, fmt.Errorf("no series of %s has these labels", s.name)
	}
	later := group(s, familyOf(after, s.name), f)
	out := make([]Folded, 0, len(groups))
	for _, key := range slices.Sorted(maps.Keys(groups)) {
		folded := fold(f, groups[key])
		folded.Series = name + s.suffix + "{" + key + "}"
		folded.cumulative = typeOf(raw) == sglang.TypeCounter || typeOf(raw) == sglang.TypeHistogram
		folded.later = folded.result
		if series := later[key]; len(series) > 0 {
			folded.later = fold(f, series).result
		}
		folded.shown, folded.there = lookup(familyOf(shown, name), s.suffix, key, instance)
		folded.judge(f)
		out = append(out, folded)
	}
	return out, nil
}

// familyOf finds a family in either spelling.
func familyOf(page Families, name string) *dto.MetricFamily {
	if f := page[name]; f != nil {
		return f
	}
	for spelled, f := range page {
		if sglang.CanonicalName(spelled) == name {
			return f
		}
	}
	return nil
}

func typeOf(f *dto.MetricFamily) sglang.MetricType {
	switch f.GetType() {
	case dto.MetricType_GAUGE:
		return sglang.TypeGauge
	case dto.MetricType_COUNTER:
		return sglang.TypeCounter
	case dto.MetricType_HISTOGRAM:
		return sglang.TypeHistogram
	}
	return sglang.TypeUntyped
}

// foldedOver are the labels that a fold takes off, in the order of ranks.
var foldedOver = [3]string{sglang.LabelTPRank, sglang.LabelMoEEPRank, sglang.LabelPID}

// group puts the series together that become one, by the labels that stay.
func group(s Selector, f *dto.MetricFamily, known *sglang.Family) map[string][]Raw {
	folds := known != nil && known.TPReduce != sglang.ReduceKeep && known.Ranks != sglang.RanksNone
	out := map[string][]Raw{}
	for _, m := range f.GetMetric() {
		labels := map[string]string{}
		for _, l := range m.GetLabel() {
			if l.GetValue() != "" {
				labels[l.GetName()] = l.GetValue()
			}
		}
		if !s.matches(labels) {
			continue
		}
		r := Raw{Labels: labelText(labels), Value: value(m, s.suffix)}
		r.Text = format(r.Value)
		r.reports = r.Value != 0 && !math.IsNaN(r.Value) && (known == nil || !known.IsSentinel(r.Value))
		if h := m.GetHistogram(); h != nil {
			r.reports = h.GetSampleCount() > 0
		}
		for i, label := range foldedOver {
			r.rank[i], _ = strconv.ParseInt(labels[label], 10, 64)
			if folds {
				delete(labels, label)
			}
		}
		key := labelText(labels)
		out[key] = append(out[key], r)
	}
	return out
}

func (s Selector) matches(labels map[string]string) bool {
	for name, want := range s.labels {
		if labels[name] != want {
			return false
		}
	}
	return true
}

// labelText writes labels in order.
func labelText(labels map[string]string) string {
	var out []string
	for _, name := range slices.Sorted(maps.Keys(labels)) {
		out = append(out, fmt.Sprintf("%s=%q", name, labels[name]))
	}
	return strings.Join(out, ",")
}

func value(m *dto.Metric, suffix string) float64 {
	switch {
	case m.GetHistogram() != nil && suffix == "_sum":
		return m.GetHistogram().GetSampleSum()
	case m.GetHistogram() != nil:
		return float64(m.GetHistogram().GetSampleCount())
	case m.GetCounter() != nil:
		return m.GetCounter().GetValue()
	case m.GetGauge() != nil:
		return m.GetGauge().GetValue()
	}
	return m.GetUntyped().GetValue()
}

func format(v float64) string { return strconv.FormatFloat(v, 'g', -1, 64) }

func fold(f *sglang.Family, raw []Raw) Folded {
	slices.SortFunc(raw, func(a, b Raw) int { return slices.Compare(a.rank[:], b.rank[:]) })
	out := Folded{Raw: raw, Rule: passText, result: raw[0].Value}
	switch {
	case f == nil:
		return out
	case f.Ranks == sglang.RanksNone:
		out.Rule = unrankedText
		return out
	}
	out.Rule = ruleTexts[f.TPReduce]
	switch f.TPReduce {
	case sglang.ReduceFirst:
		if i := slices.IndexFunc(raw, func(r Raw) bool { return r.reports }); i >= 0 {
			out.result = raw[i].Value
		}
	case sglang.ReduceMax:
		out.result = slices.MaxFunc(raw, func(a, b Raw) int { return cmp.Compare(a.Value, b.Value) }).Value
	case sglang.ReduceSum:
		out.result = 0
		for _, r := range raw {
			out.result += r.Value
		}
	}
	return out
}

// lookup finds a series on the collector's page. Its exporter adds job and instance.
func lookup(f *dto.MetricFamily, suffix, key, instance string) (float64, bool) {
	for _, m := range f.GetMetric() {
		labels := map[string]string{}
		for _, l := range m.GetLabel() {
			if l.GetValue() != "" {
				labels[l.GetName()] = l.GetValue()
			}
		}
		if from := labels["instance"]; from != instance && instance != "" {
			continue
		}
		delete(labels, "job")
		delete(labels, "instance")
		if labelText(labels) == key {
			return value(m, suffix), true
		}
	}
	return 0, false
}

// judge compares: what grows may lie between the two readings of the engine's page.
func (f *Folded) judge(family *sglang.Family) {
	f.Result = format(f.result)
	agrees := false
	switch {
	case !f.there && family != nil && family.IsSentinel(f.result):
		f.Note = "this value means \"not measured\": the point is dropped"
		agrees = true
	case !f.there:
		f.Note = "the collector's page has no such series: has it scraped the engine (sglangctl doctor), or is another instance or spelling there?"
	default:
		f.Shown = format(f.shown)
		agrees = equal(f.shown, f.result) || equal(f.shown, f.later) ||
			f.cumulative && f.result <= f.shown && f.shown <= f.later
		switch {
		case agrees:
		case f.reportedBefore():
			f.Note = "the lowest rank shows nothing at this moment; it has reported before, and so stands"
			agrees = true
		case f.cumulative && f.shown > f.later:
			f.Note = "the collector carries a counter on where one rank began anew: the engine's page has lost what was before"
		case f.result != f.later:
			f.Note = "it moves: the collector shows its last scrape"
			return
		default:
			f.Note = "the rule does not give what the collector shows: is there an override (rankdedup: metrics: overrides), or a restart of a rank behind it?"
		}
	}
	f.Agrees = &agrees
}

// reportedBefore: the page can't show that a rank once reported; the collector knows.
func (f *Folded) reportedBefore() bool {
	lowest := f.Raw[0]
	return f.Rule == ruleTexts[sglang.ReduceFirst] && !lowest.reports && equal(f.shown, lowest.Value)
}

func equal(a, b float64) bool {
	return a == b || math.IsNaN(a) && math.IsNaN(b) || math.Abs(a-b) <= 1e-9*math.Max(math.Abs(a), math.Abs(b))
}

// PrintSeries writes the explanations.
func PrintSeries(w io.Writer, all []Folded) {
	for _, f := range all {
		fmt.Fprintf(w, "\n%s\n  rule    %s\n", f.Series, f.Rule)
		for _, r := range f.Raw {
			note := ""
			if !r.reports {
				note = "   (does not report)"
			}
			fmt.Fprintf(w, "  page    {%s} %s%s\n", r.Labels, r.Text, note)
		}
		shown := f.Shown
		if shown == "" {
			shown = "nothing"
		}
		fmt.Fprintf(w, "  result  %s; the collector shows %s\n", f.Result, shown)
		if f.Note != "" {
			fmt.Fprintf(w, "  note    %s\n", f.Note)
		}
	}
}
