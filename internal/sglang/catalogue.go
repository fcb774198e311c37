// Copyright The otelcol-sglang Authors
// SPDX-License-Identifier: Apache-2.0

package sglang // import "github.com/otelcol-sglang/otelcol-sglang/internal/sglang"

import (
	"iter"
	"math"
	"strings"
)

//go:generate go run ./internal/gencatalogue catalogue.yaml catalogue_generated.go

// MetricType is the type of a family on the engine's page.
type MetricType uint8

const (
	// TypeUntyped is a family whose page did not say; the catalogue's type holds.
	TypeUntyped MetricType = iota
	TypeGauge
	TypeCounter
	TypeHistogram
	TypeSummary
)

func (t MetricType) String() string { return nameOf(metricTypeNames[:], t) }

var metricTypeNames = [...]string{"untyped", "gauge", "counter", "histogram", "summary"}

// MetricSource is the engine's collector that writes a family.
type MetricSource uint8

const (
	SourceScheduler MetricSource = iota
	SourceTokenizer
	SourceStorage
	SourceRadixCache
	SourceExpertDispatch
	SourceEncoder
	SourceEncoderDispatcher
	SourceHTTP
	SourceFuncTimer
	SourceStartupTimer
	SourceCPUMonitor
	SourceMooncake
	SourceDiffusion
)

func (s MetricSource) String() string { return nameOf(metricSourceNames[:], s) }

var metricSourceNames = [...]string{
	"scheduler", "tokenizer", "storage", "radix_cache", "expert_dispatch", "encoder", "encoder_dispatcher",
	"http", "func_timer", "startup_timer", "cpu_monitor", "mooncake", "diffusion",
}

// RankScope says what a family's tp_rank counts.
type RankScope uint8

const (
	// RanksNone: no tp_rank label.
	RanksNone RankScope = iota
	// RanksGlobal: the rank in the whole TP group; group 1 of tp=4 with two
	// attention-DP groups has 2 and 3.
	RanksGlobal
	// RanksAttention: the rank inside its attention-DP group; the same processes
	// have 0 and 1 with dp_rank 1.
	RanksAttention
)

// Emitters are the schedulers that write a family by default (without
// --enable-metrics-for-all-schedulers).
type Emitters uint8

const (
	EmitUnranked Emitters = iota
	EmitRank0Only
	EmitAllRanks
	// EmitNever: declared by the engine, written by nothing.
	EmitNever
)

// AcrossTP says how the series of the TP ranks of one attention-DP group relate.
type AcrossTP uint8

const (
	// TPRank0Only: only one process can have it.
	TPRank0Only AcrossTP = iota
	// TPReplicated: the same logical value on each rank.
	TPReplicated
	// TPPrivate: each rank measures its own thing.
	TPPrivate
	// TPPartitioned: each rank owns a share.
	TPPartitioned
)

// TPReduce says what makes one series of the TP ranks' series.
type TPReduce uint8

const (
	// ReduceFirst takes the lowest rank that reports.
	ReduceFirst TPReduce = iota
	ReduceMax
	ReduceSum
	// ReduceKeep leaves a series per rank.
	ReduceKeep
)

func (r TPReduce) String() string { return nameOf(tpReduceNames[:], r) }

var tpReduceNames = [...]string{"first", "max", "sum", "keep"}

// ParseTPReduce is the reverse of [TPReduce.String].
func ParseTPReduce(s string) (TPReduce, bool) {
	for i, n := range tpReduceNames {
		if n == s {
			return TPReduce(i), true
		}
	}
	return 0, false
}

// AcrossDP says how attention-DP groups or DP replicas combine, should a user
// want them to.
type AcrossDP uint8

const (
	DPSum AcrossDP = iota
	DPMax
	DPMean
	DPReplicated
	DPRank0Only
)

// Sentinel is a value that means "not measured".
type Sentinel uint8

const (
	SentinelNone Sentinel = iota
	SentinelNaN
	SentinelMinusOne
)

// SeriesRule is an exception for those series of a family whose Label's value
// begins with Prefix.
type SeriesRule struct {
	Label, Prefix string
	Emitters      Emitters
}

// Family is what is known of one metric family of the engine. Its slices are
// shared and must not be changed.
type Family struct {
	// Name is canonical: with the colon.
	Name string
	// ScrapedAs is the name on the page where that is not Name: a family that had
	// another type under the same name.
	ScrapedAs string
	Type      MetricType
	Source    MetricSource
	// Labels are always there, in this release; OptionalLabels depend on the
	// engine's flags.
	Labels, OptionalLabels []string
	// ExtraLabels: the keys of --extra-metric-labels are on it too.
	ExtraLabels bool
	Ranks       RankScope
	// Unit is the catalogue's word for it; scraped families carry no unit.
	Unit     string
	Emitters Emitters
	AcrossTP AcrossTP
	TPReduce TPReduce
	AcrossDP AcrossDP
	// MultiprocessMode is prometheus_client's, for gauges; "all" brings an
	// accidental pid label and leaves dead processes on the page.
	MultiprocessMode string
	// Preseeded: zero-valued series exist from ranks that never report.
	Preseeded bool
	// Skew: a straggling rank shows here.
	Skew     bool
	Sentinel Sentinel
	Series   []SeriesRule
	// Buckets are the upper bounds without +Inf, to ten digits: what the page
	// shows may differ beyond them (0.006887475360000002), so pages are compared
	// with each other, not with this.
	Buckets []float64
	// BucketsConfigurable: two engines may have other bounds.
	BucketsConfigurable bool
	// Until is the first release without the family; empty for this release's.
	Until   string
	Meaning string
}

// HasPID tells of the accidental pid label.
func (f *Family) HasPID() bool { return f.MultiprocessMode == multiprocessAll }

const multiprocessAll = "all"

// IsSentinel tells whether v means "not measured" in this family.
func (f *Family) IsSentinel(v float64) bool {
	switch f.Sentinel {
	case SentinelNaN:
		return math.IsNaN(v)
	case SentinelMinusOne:
		return v == -1
	default:
		return false
	}
}

// EmittersOf is who by default writes the series with the given labels.
func (f *Family) EmittersOf(label func(name string) string) Emitters {
	for _, r := range f.Series {
		if strings.HasPrefix(label(r.Label), r.Prefix) {
			return r.Emitters
		}
	}
	return f.Emitters
}

// Labels of the engine's metrics that name a rank or process.
const (
	LabelTPRank    = "tp_rank"
	LabelMoEEPRank = "moe_ep_rank"
	LabelPPRank    = "pp_rank"
	LabelDPRank    = "dp_rank"
	LabelPID       = "pid"
	// LabelPriority is "" on a total of the scheduler's, to which its parts must
	// never be added, and "" for "none given" on the tokenizer's.
	LabelPriority = "priority"
)

// Metrics that this distribution derives from the ranks' series; LabelFamily names
// the family they are about.
const (
	// MetricSeriesSkew is the largest value over the ranks less the smallest.
	MetricSeriesSkew = "sglang.series.skew"
	// MetricSeriesSkewRank is the tp_rank that has the largest value.
	MetricSeriesSkewRank = "sglang.series.skew_rank"
	LabelFamily          = "family"
)

const (
	// MetricPrefix begins every family on the engine's page.
	MetricPrefix = "sglang:"
	// metricPrefixUnderscore is MetricPrefix after a proxy, or after a content
	// negotiation that escapes the colon.
	metricPrefixUnderscore = "sglang_"
)

var familyIndex = func() map[string]*Family {
	m := make(map[string]*Family, len(families))
	for i := range families {
		m[families[i].Name] = &families[i]
	}
	return m
}()

// FamilyOf finds a family by its canonical name.
func FamilyOf(name string) (*Family, bool) {
	f, ok := familyIndex[name]
	return f, ok
}

// Families yields all families, in the catalogue's order.
func Families() iter.Seq[*Family] {
	return func(yield func(*Family) bool) {
		for i := range families {
			if !yield(&families[i]) {
				return
			}
		}
	}
}

// CanonicalName gives the spelling with the colon: only the character after the
// leading "sglang" changes, whatever follows stays. It takes names of families as
// well as of samples (`_bucket` and such). A name that does not begin with
// `sglang_` is returned as it is, and so are the names of the loads page that no
// family of the metrics page has.
func CanonicalName(scraped string) string {
	rest, ok := strings.CutPrefix(scraped, metricPrefixUnderscore)
	if !ok {
		return scraped
	}
	canonical := MetricPrefix + rest
	if _, loads := LoadsFamilyOf(scraped); loads && familyIndex[canonical] == nil {
		return scraped
	}
	return canonical
}

// Resolve gives the one name under which a family of the given type leaves:
// canonical spelling, the name of this release for one of an older release,
// `_total` for a counter whose OpenMetrics TYPE line dropped it, and a name with
// the type appended where the catalogue knows the name with another type.
// The family is nil for a name the catalogue doesn't know; a family met with
// another type than its own keeps its facts under the other name.
func Resolve(scraped string, t MetricType) (name string, f *Family) {
	name = CanonicalName(scraped)
	if !strings.HasPrefix(name, MetricPrefix) {
		return name, nil
	}
	if to, ok := renames[name]; ok {
		name = to
	}
	f = familyIndex[name]
	if f == nil && (t == TypeCounter || t == TypeUntyped) {
		f = familyIndex[name+counterSuffix]
	}
	if f == nil {
		return name, otherTyped(name, t)
	}
	if t == TypeUntyped || t == f.Type {
		return f.Name, f
	}
	name = f.Name + typeSuffixes[t]
	if v := familyIndex[name]; v != nil {
		return v.Name, v
	}
	return name, f
}

// otherTyped finds the family behind a name that [Resolve] gave before.
func otherTyped(name string, t MetricType) *Family {
	if int(t) >= len(typeSuffixes) {
		return nil
	}
	base, ok := strings.CutSuffix(name, typeSuffixes[t])
	if !ok {
		return nil
	}
	return familyIndex[base]
}

const counterSuffix = "_total"

var typeSuffixes = [...]string{"", "_gauge", "_counter", "_histogram", "_summary"}

// LoadsFamily is one of `/v1/loads?format=prometheus`: a gauge with the label
// dp_rank, written by one process.
type LoadsFamily struct {
	Name     string
	AcrossDP AcrossDP
}

var loadsIndex = func() map[string]*LoadsFamily {
	m := make(map[string]*LoadsFamily, len(loadsFamilies))
	for i := range loadsFamilies {
		m[loadsFamilies[i].Name] = &loadsFamilies[i]
	}
	return m
}()

// LoadsFamilyOf finds a family of the loads page by its name there.
func LoadsFamilyOf(name string) (*LoadsFamily, bool) {
	f, ok := loadsIndex[name]
	return f, ok
}

func nameOf[T ~uint8](names []string, v T) string {
	if int(v) < len(names) {
		return names[v]
	}
	return "invalid"
}
