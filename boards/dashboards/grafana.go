// Copyright The otelcol-sglang Authors
// SPDX-License-Identifier: Apache-2.0

package dashboards // import "github.com/otelcol-sglang/otelcol-sglang/boards/dashboards"

import (
	"encoding/json"

	"github.com/grafana/grafana-foundation-sdk/go/cog"
	"github.com/grafana/grafana-foundation-sdk/go/cog/variants"
	"github.com/grafana/grafana-foundation-sdk/go/common"
	"github.com/grafana/grafana-foundation-sdk/go/dashboard"
	"github.com/grafana/grafana-foundation-sdk/go/heatmap"
	"github.com/grafana/grafana-foundation-sdk/go/prometheus"
	"github.com/grafana/grafana-foundation-sdk/go/stat"
	"github.com/grafana/grafana-foundation-sdk/go/table"
	"github.com/grafana/grafana-foundation-sdk/go/timeseries"
)

// Tag is on all boards; each links to the others by it.
const Tag = "sglang"

// JSON is the board as Grafana imports it.
func (b *Board) JSON() ([]byte, error) {
	//nolint:staticcheck // its successor's schema is no file that Grafana before 12 imports
	d := dashboard.NewDashboardBuilder(b.Title).
		Uid(b.UID).Description(b.About).Tags([]string{Tag}).
		Time("now-3h", "now").Refresh("30s").Timezone("browser").
		Tooltip(dashboard.DashboardCursorSyncCrosshair).
		Link(dashboard.NewDashboardLinkBuilder("SGLang boards").
			Type(dashboard.DashboardLinkTypeDashboards).Tags([]string{Tag}).IncludeVars(true).KeepTime(true))
	for _, v := range b.variables() {
		d.WithVariable(v)
	}
	d.Annotation(restarts())
	for i := range b.Rows {
		d.WithRow(dashboard.NewRowBuilder(b.Rows[i].Title))
		for j := range b.Rows[i].Panels {
			d.WithPanel(b.Rows[i].Panels[j].build())
		}
	}
	built, err := d.Build()
	if err != nil {
		return nil, err
	}
	finish(&built)
	out, err := json.MarshalIndent(built, "", "  ")
	return append(out, '\n'), err
}

// finish gives panels the ids that links need, and puts links and marks on the board:
// the library's default hides them in a menu.
func finish(d *dashboard.Dashboard) { //nolint:staticcheck // as above
	for i := range d.Panels {
		id := uint32(i + 1)
		if p := d.Panels[i].Panel; p != nil {
			p.Id = &id
		} else {
			d.Panels[i].RowPanel.Id = id
		}
	}
	for i := range d.Links {
		d.Links[i].Placement = nil
	}
	for i := range d.Annotations.List {
		d.Annotations.List[i].Placement = nil
	}
}

// source is the data source that the reader chose.
func source() common.DataSourceRef {
	return common.DataSourceRef{Type: cog.ToPtr("prometheus"), Uid: cog.ToPtr("$datasource")}
}

func (b *Board) variables() []cog.Builder[dashboard.VariableModel] {
	out := []cog.Builder[dashboard.VariableModel]{
		dashboard.NewDatasourceVariableBuilder("datasource").Label("Data source").Type("prometheus"),
		choice("job", "Job", `label_values({__name__=~"sglang:num_running_reqs|gen_ai_server_request_duration_count"}, job)`),
		choice("instance", "Engine", `label_values({__name__=~"sglang:num_running_reqs|gen_ai_server_request_duration_count", job=~"$job"}, instance)`),
		choice("model", "Model", `label_values(sglang:num_running_reqs{job=~"$job", instance=~"$instance"}, model_name)`),
	}
	if b.Own {
		out = append(out, choice("collector", "Collector", `label_values(otelcol_processor_rankdedup_pages, instance)`))
	}
	return out
}

// choice is a variable of which one may choose several values; all at first.
func choice(name, label, query string) cog.Builder[dashboard.VariableModel] {
	all := dashboard.StringOrArrayOfString{ArrayOfString: []string{"$__all"}}
	return dashboard.NewQueryVariableBuilder(name).Label(label).Datasource(source()).
		Query(dashboard.StringOrMap{String: &query}).Definition(query).
		Refresh(dashboard.VariableRefreshOnTimeRangeChanged).Sort(dashboard.VariableSortAlphabeticalAsc).
		Multi(true).IncludeAll(true).AllValue(".*").
		Current(dashboard.VariableOption{
			Selected: cog.ToPtr(true), Value: all,
			Text: dashboard.StringOrArrayOfString{ArrayOfString: []string{"All"}},
		})
}

// Restarts is the query of the marks on all graphs.
const Restarts = `sum by (engine) (increase(otelcol_receiver_sglang_engine_restarts[2m])) > 0`

func restarts() cog.Builder[dashboard.AnnotationQuery] {
	return dashboard.NewAnnotationQueryBuilder().Name("Engine restarts").Datasource(source()).
		Enable(true).IconColor(red).Expr(Restarts).TitleFormat("{{engine}} restarted")
}

func (q *Query) target(i int, show Show) cog.Builder[variants.Dataquery] {
	t := prometheus.NewDataqueryBuilder().RefId(refID(i)).Expr(q.PromQL()).Datasource(source())
	switch show {
	case Table:
		return t.Instant().Format(prometheus.PromQueryFormatTable)
	case Heat:
		t.Format(prometheus.PromQueryFormatHeatmap)
	}
	if q.Instant {
		return t.Instant().LegendFormat(q.Legend)
	}
	return t.Range().LegendFormat(q.Legend).Exemplar(q.Exemplars)
}

func refID(i int) string { return string(rune('A' + i)) }

func (p *Panel) build() cog.Builder[dashboard.Panel] {
	switch p.Show {
	case Stat:
		return p.stat()
	case Heat:
		return p.heat()
	case Table:
		return p.table()
	default:
		return p.graph()
	}
}

func (p *Panel) targets() (out []cog.Builder[variants.Dataquery]) {
	for i := range p.Queries {
		out = append(out, p.Queries[i].target(i, p.Show))
	}
	return out
}

// noValue stands where there is no data.
func (p *Panel) noValue() string {
	if p.Empty == "" {
		return "No data"
	}
	return p.Empty
}

func (p *Panel) graph() cog.Builder[dashboard.Panel] {
	legend := common.NewVizLegendOptionsBuilder().ShowLegend(true).
		DisplayMode(common.LegendDisplayModeList).Placement(common.LegendPlacementBottom)
	b := timeseries.NewPanelBuilder().Title(p.Title).Description(p.description()).Datasource(source()).
		Height(p.H).Span(p.W).Unit(string(p.Unit)).NoValue(p.noValue()).Targets(p.targets()).Legend(legend).
		Tooltip(common.NewVizTooltipOptionsBuilder().Mode(common.TooltipDisplayModeMulti).Sort(common.SortOrderDescending)).
		LineWidth(1).ShowPoints(common.VisibilityModeNever)
	if !p.Signed {
		b.Min(0)
	}
	if p.Max > 0 {
		b.Max(p.Max)
	}
	switch p.Show {
	case Stack:
		b.FillOpacity(70).Stacking(common.NewStackingConfigBuilder().Mode(common.StackingModeNormal).Group("A"))
	default:
		b.FillOpacity(5)
	}
	for _, q := range p.Queries {
		if q.Line {
			b.OverrideByName(q.Legend, over)
		}
	}
	return b
}

// over draws a stack's Line: a line of its own.
var over = []dashboard.DynamicConfigValue{
	{Id: "custom.stacking", Value: map[string]any{"mode": "none"}},
	{Id: "custom.fillOpacity", Value: 0},
	{Id: "custom.lineWidth", Value: 2},
}

func (p *Panel) stat() cog.Builder[dashboard.Panel] {
	b := stat.NewPanelBuilder().Title(p.Title).Description(p.description()).Datasource(source()).
		Height(p.H).Span(p.W).Unit(string(p.Unit)).NoValue(p.noValue()).Targets(p.targets()).
		GraphMode(common.BigValueGraphModeArea).ColorMode(common.BigValueColorModeValue).
		ReduceOptions(common.NewReduceDataOptionsBuilder().Calcs([]string{"lastNotNull"})).
		Thresholds(thresholds(p.Limits))
	if len(p.Words) > 0 {
		b.Mappings([]dashboard.ValueMapping{{ValueMap: words(p.Words)}}).TextMode(common.BigValueTextModeValueAndName)
	}
	return b
}

func words(all []Word) *dashboard.ValueMap {
	m := &dashboard.ValueMap{Type: dashboard.MappingTypeValueToText, Options: map[string]dashboard.ValueMappingResult{}}
	for i, w := range all {
		m.Options[w.Value] = dashboard.ValueMappingResult{Text: &w.Text, Color: &w.Color, Index: cog.ToPtr(int32(i))}
	}
	return m
}

func steps(limits []Limit) []dashboard.Threshold {
	out := []dashboard.Threshold{{Color: "green"}}
	if len(limits) == 0 {
		out[0].Color = "text"
	}
	for _, l := range limits {
		out = append(out, dashboard.Threshold{Value: &l.From, Color: l.Color})
	}
	return out
}

func thresholds(limits []Limit) cog.Builder[dashboard.ThresholdsConfig] {
	return dashboard.NewThresholdsConfigBuilder().Mode(dashboard.ThresholdsModeAbsolute).Steps(steps(limits))
}

func (p *Panel) heat() cog.Builder[dashboard.Panel] {
	return heatmap.NewPanelBuilder().Title(p.Title).Description(p.description()).Datasource(source()).
		Height(p.H).Span(p.W).NoValue(p.noValue()).Targets(p.targets()).Calculate(false).
		Color(heatmap.NewHeatmapColorOptionsBuilder().Mode(heatmap.HeatmapColorModeScheme).Scheme("Oranges").Steps(64)).
		YAxis(heatmap.NewYAxisConfigBuilder().Unit(string(p.Unit))).
		FilterValues(heatmap.NewFilterValueRangeBuilder().Le(1e-9)).
		CellValues(heatmap.NewCellValuesBuilder().Unit(string(Count))).ShowLegend()
}

// table joins its queries' latest values by their labels: one column each.
func (p *Panel) table() cog.Builder[dashboard.Panel] {
	b := table.NewPanelBuilder().Title(p.Title).Description(p.description()).Datasource(source()).
		Height(p.H).Span(p.W).NoValue(p.noValue()).Targets(p.targets()).Filterable(true).
		WithTransformation(dashboard.DataTransformerConfig{Id: "merge", Options: map[string]any{}})
	renamed, order := map[string]string{}, map[string]int{}
	for i, l := range LabelNames {
		renamed[l.Label], order[l.Label] = l.Title, i
	}
	for i, q := range p.Queries {
		renamed[p.column(i)], order[p.column(i)] = q.Legend, len(LabelNames)+i
		b.OverrideByName(q.Legend, columnConfig(&q))
	}
	b.WithTransformation(dashboard.DataTransformerConfig{Id: "organize", Options: map[string]any{
		"excludeByName": map[string]bool{"Time": true, "job": true}, "renameByName": renamed, "indexByName": order,
	}})
	b.OverrideByName("engine", []dashboard.DynamicConfigValue{{Id: "links", Value: []map[string]any{{
		"title": "Latency budget of this engine",
		"url":   "/d/sglang-latency?${datasource:queryparam}&var-instance=${__value.raw}&${__url_time_range}",
	}}}})
	return b.SortBy([]cog.Builder[common.TableSortByFieldState]{
		common.NewTableSortByFieldStateBuilder().DisplayName(p.sorted()).Desc(true),
	})
}

// sorted is the column by which a table is sorted, largest first.
func (p *Panel) sorted() string {
	if p.SortBy != "" {
		return p.SortBy
	}
	return p.Queries[0].Legend
}

// column is Grafana's name for a query's values in a table.
func (p *Panel) column(i int) string {
	if len(p.Queries) == 1 {
		return "Value"
	}
	return "Value #" + refID(i)
}

func columnConfig(q *Query) []dashboard.DynamicConfigValue {
	out := []dashboard.DynamicConfigValue{{Id: "unit", Value: string(q.Unit)}}
	if len(q.Limits) > 0 {
		out = append(out,
			dashboard.DynamicConfigValue{Id: "thresholds", Value: map[string]any{"mode": "absolute", "steps": steps(q.Limits)}},
			dashboard.DynamicConfigValue{Id: "custom.cellOptions", Value: map[string]any{"type": "color-text"}})
	}
	return out
}
