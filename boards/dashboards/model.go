// Copyright The otelcol-sglang Authors
// SPDX-License-Identifier: Apache-2.0

package dashboards // import "github.com/otelcol-sglang/otelcol-sglang/boards/dashboards"

import "strings"

// Board is one dashboard.
type Board struct {
	// UID is the last part of its address; links between boards use it.
	UID, Title string
	// About says which questions it answers.
	About string
	Rows  []Row
	// Own: the board asks for the collector's own telemetry too, so that it has the
	// variable collector.
	Own bool
}

// Row is a heading and the panels below it, from left to right, 24 units wide.
type Row struct {
	Title  string
	Panels []Panel
}

// Panel is one picture.
type Panel struct {
	Title string
	// Says is what the picture shows and how to read it.
	Says string
	// Needs are what must be switched on for it.
	Needs []Need
	// Empty is why there may be nothing to see although all that is needed is on. It
	// stands in the panel's place then.
	Empty string
	Show  Show
	// Unit is Grafana's name of it.
	Unit Unit
	// W and H are its size in the grid.
	W, H    uint32
	Queries []Query
	// Limits colour a value from there on, rising; below the first it is green, without
	// any it has no colour.
	Limits []Limit
	// Words stand for values.
	Words []Word
	// SortBy is a table's column, the largest value first; the first one if empty.
	SortBy string
	// Signed: values may be below 0.
	Signed bool
	// Max is the top of the axis; 0 leaves it to the values.
	Max float64
}

// Query is one PromQL expression of a panel.
type Query struct {
	// Expr has Grafana's variables, and the filters below.
	Expr string
	// Legend names its series; in a table, the column.
	Legend string
	// Unit of a table's column.
	Unit Unit
	// Limits of a table's column.
	Limits []Limit
	// Instant: only the latest value, as its past would be costly.
	Instant bool
	// Line: in a stack, a line over it.
	Line bool
	// Exemplars: dots that lead to traces.
	Exemplars bool
}

// Limit is where a colour begins.
type Limit struct {
	From  float64
	Color string
}

// Word is what a value means.
type Word struct {
	Value, Text, Color string
}

// Show is how a panel draws.
type Show int

// Ways to draw.
const (
	// Lines over time.
	Lines Show = iota
	// Stack is areas on top of each other, over time.
	Stack
	// Stat is the latest value, big, with its course behind it.
	Stat
	// Heat is a histogram over time.
	Heat
	// Table is the latest values by labels, a column per query.
	Table
)

// Unit is a unit of Grafana's.
type Unit string

// Units.
const (
	Seconds    Unit = "s"
	Millis     Unit = "ms"
	Times      Unit = "suffix: ×"
	Percent    Unit = "percentunit"
	Percent100 Unit = "percent"
	Count      Unit = "short"
	PerSecond  Unit = "reqps"
	TokensRate Unit = "suffix: tok/s"
	Tokens     Unit = "short"
	Bytes      Unit = "bytes"
	GiBRate    Unit = "suffix: GiB/s"
	MiB        Unit = "mbytes"
	Rate       Unit = "cps"
	Cores      Unit = "suffix: cores"
)

// Need is something that must be switched on, as a user would type it.
type Need string

// What panels need.
const (
	Metrics     Need = "`--enable-metrics` at the engine"
	AllRanks    Need = "`--enable-metrics-for-all-schedulers` at the engine, to tell all ranks apart"
	DeviceTimer Need = "`SGLANG_ENABLE_METRICS_DEVICE_TIMER=1` at the engine"
	Traces      Need = "`--enable-trace` at the engine (`SGLANG_TRACE_LEVEL=1` is enough)"
	DispatchLvl Need = "`SGLANG_TRACE_LEVEL=2` or more for dispatch and intake; at 1 they are in unattributed"
	TwoRanks    Need = "`--tp-size` above 1"
	SlowestDim  Need = "`dimensions: [sglang.ranks.slowest]` in the collector's genaimetrics"
	DPAttention Need = "`--enable-dp-attention` with `--dp-size` above 1"
	Replicas    Need = "`--dp-size` above 1"
	HostCache   Need = "`--enable-hierarchical-cache` at the engine"
	Storage     Need = "`--hicache-storage-backend` at the engine"
	Speculative Need = "`--speculative-algorithm` at the engine"
	Pair        Need = "`--disaggregation-mode prefill` and `decode`"
	PrefillSide Need = "`--disaggregation-mode prefill`"
	Balancer    Need = "`--enable-expert-distribution-metrics` of a MoE model"
	EngineInfo  Need = "a reachable `/server_info`, and one `service.instance.id` for spans and page"
	OwnMetrics  Need = "the collector's own metrics (`service::telemetry::metrics`) scraped"
	Detailed    Need = "`service::telemetry::metrics::level: detailed` in the collector"
	SendQueue   Need = "an exporter with a sending queue"
)

// description is a panel's text, with its needs.
func (p *Panel) description() string {
	var b strings.Builder
	b.WriteString(p.Says)
	if len(p.Needs) > 0 {
		b.WriteString("\n\nNeeds:")
		for _, n := range p.Needs {
			b.WriteString("\n- " + string(n))
		}
	}
	if p.Empty != "" {
		b.WriteString("\n\nEmpty: " + p.Empty + ".")
	}
	return b.String()
}

// Filters that an expression may have instead of label matchers.
var filters = strings.NewReplacer(
	// Series of an engine's page that have the model.
	"@page", `job=~"$job",instance=~"$instance",model_name=~"$model"`,
	// Series of an engine's page that have no model.
	"@engine", `job=~"$job",instance=~"$instance"`,
	// Series made of requests' spans.
	"@requests", `job=~"$job",instance=~"$instance",gen_ai_request_model=~"$model"`,
	// The collector's own series, and those of them that say which page they mean.
	"@own", `instance=~"$collector"`,
	"@scraped", `instance=~"$collector",engine=~"$instance"`,
)

// PromQL is the expression as Grafana gets it.
func (q *Query) PromQL() string { return filters.Replace(strings.TrimSpace(q.Expr)) }

// Panels are all of a board.
func (b *Board) Panels() (out []*Panel) {
	for i := range b.Rows {
		for j := range b.Rows[i].Panels {
			out = append(out, &b.Rows[i].Panels[j])
		}
	}
	return out
}

// LabelNames are the labels that tables show, in that order, and what they call them.
var LabelNames = []struct{ Label, Title string }{
	{"engine", "engine id"},
	{"page", "page"},
	{"instance", "engine"},
	{"state", "state"},
	{"stage", "stage"},
	{"dp_rank", "DP"},
	{"pp_rank", "PP"},
	{"tp_rank", "TP"},
	{"sglang_ranks_slowest", "TP rank"},
}

// All boards, in the order in which one reads them.
func All() []*Board {
	return []*Board{overview(), latency(), ranks(), cache(), disaggregation(), speculation(), health()}
}
