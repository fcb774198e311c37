// Copyright The otelcol-sglang Authors
// SPDX-License-Identifier: Apache-2.0

package page

import (
	"bytes"
	"flag"
	"fmt"
	"math"
	"os"
	"path/filepath"
	"sort"
	"strings"
	"testing"

	dto "github.com/prometheus/client_model/go"
	"github.com/prometheus/common/expfmt"
	"github.com/prometheus/common/model"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

var update = flag.Bool("update", false, "rewrite the golden files")

const (
	contentOpenMetrics = "application/openmetrics-text; version=1.0.0; charset=utf-8"
	openMetricsSuffix  = ".openmetrics.txt"
)

func captures(tb testing.TB, pattern string) []string {
	tb.Helper()
	paths, err := filepath.Glob(filepath.Join(capturesDir, pattern))
	require.NoError(tb, err)
	require.NotEmpty(tb, paths)
	return paths
}

func contentOf(path string) string {
	if strings.HasSuffix(path, openMetricsSuffix) {
		return contentOpenMetrics
	}
	return contentText
}

func parseFile(tb testing.TB, path string, opts Options) *Page {
	tb.Helper()
	body, err := os.ReadFile(path)
	require.NoError(tb, err)
	p, err := Parse(body, contentOf(path), opts)
	require.NoError(tb, err, path)
	return p
}

// render is a page as text, in an order that does not depend on the page's.
func render(p *Page) []string {
	var out []string
	for _, f := range p.Families {
		for i := range f.Series {
			s := &f.Series[i]
			out = append(out, fmt.Sprintf("%s %s%v %s", kindName(f.Kind), f.Name, s.Labels, renderValue(s)))
		}
	}
	sort.Strings(out)
	return out
}

func renderValue(s *Series) string {
	if s.Dist == nil {
		return fmt.Sprint(s.Value)
	}
	return fmt.Sprintf("count=%d sum=%v bounds=%v counts=%v quantiles=%v", s.Dist.Count, s.Dist.Sum, s.Dist.Bounds, s.Dist.Counts, s.Dist.Quantiles)
}

func kindName(k Kind) string { return [...]string{"gauge", "counter", "histogram", "summary"}[k] }

// TestCapturesGolden keeps one line per family of every captured page.
func TestCapturesGolden(t *testing.T) {
	for _, path := range captures(t, "*") {
		name := filepath.Base(path)
		t.Run(name, func(t *testing.T) {
			p := parseFile(t, path, Options{DropSentinels: true})
			got := []byte(summary(p))
			golden := filepath.Join("testdata", "captures", name+".golden")
			if *update {
				require.NoError(t, os.MkdirAll(filepath.Dir(golden), 0o755))
				require.NoError(t, os.WriteFile(golden, got, 0o600))
			}
			want, err := os.ReadFile(golden)
			require.NoError(t, err)
			assert.Equal(t, string(want), string(got))
		})
	}
}

func summary(p *Page) string {
	lines := make([]string, 0, len(p.Families)+2)
	for _, f := range p.Families {
		total, observed := 0.0, uint64(0)
		for i := range f.Series {
			if d := f.Series[i].Dist; d != nil {
				total += d.Sum
				observed += d.Count
				continue
			}
			total += f.Series[i].Value
		}
		lines = append(lines, fmt.Sprintf("%s %s series=%d sum=%.9g observed=%d", f.Name, kindName(f.Kind), len(f.Series), total, observed))
	}
	sort.Strings(lines)
	lines = append(lines, fmt.Sprintf("samples=%d refused=%v", p.Samples, p.Refused))
	return strings.Join(lines, "\n") + "\n"
}

// TestCapturesAgainstAnotherParser compares every sample of every text page with
// what the Prometheus library's other parser reads.
func TestCapturesAgainstAnotherParser(t *testing.T) {
	for _, path := range captures(t, "*.prom") {
		body, err := os.ReadFile(path)
		require.NoError(t, err)
		parser := expfmt.NewTextParser(model.UTF8Validation)
		families, err := parser.TextToMetricFamilies(bytes.NewReader(body))
		require.NoError(t, err, path)
		got := render(parseFile(t, path, Options{}))
		assert.Equal(t, renderOther(families), got, path)
	}
}

func renderOther(families map[string]*dto.MetricFamily) []string {
	var out []string
	for _, f := range families {
		for _, m := range f.GetMetric() {
			var ls []Label
			for _, l := range m.GetLabel() {
				if l.GetValue() != "" && l.GetName() != "pid" {
					ls = append(ls, Label{l.GetName(), l.GetValue()})
				}
			}
			s := Series{Labels: ls}
			kind := strings.ToLower(f.GetType().String())
			switch f.GetType() {
			case dto.MetricType_COUNTER:
				s.Value = m.GetCounter().GetValue()
			case dto.MetricType_GAUGE:
				s.Value = m.GetGauge().GetValue()
			case dto.MetricType_HISTOGRAM:
				s.Dist = otherHistogram(m.GetHistogram())
			case dto.MetricType_SUMMARY:
				s.Dist = &Dist{Count: m.GetSummary().GetSampleCount(), Sum: m.GetSummary().GetSampleSum()}
			}
			out = append(out, fmt.Sprintf("%s %s%v %s", kind, f.GetName(), ls, renderValue(&s)))
		}
	}
	sort.Strings(out)
	return out
}

func otherHistogram(h *dto.Histogram) *Dist {
	d := &Dist{Count: h.GetSampleCount(), Sum: h.GetSampleSum()}
	below := uint64(0)
	for _, b := range h.GetBucket() {
		if !math.IsInf(b.GetUpperBound(), 1) {
			d.Bounds = append(d.Bounds, b.GetUpperBound())
		}
		d.Counts = append(d.Counts, b.GetCumulativeCount()-below)
		below = b.GetCumulativeCount()
	}
	return d
}

// The two pages were read one after the other: a few values differ, no series does
// (but for the scrape's own HTTP counters on the first pages).
func TestOpenMetricsReadsLikeText(t *testing.T) {
	for _, path := range captures(t, "*"+openMetricsSuffix) {
		got := shape(parseFile(t, path, Options{DropSentinels: true}))
		want := shape(parseFile(t, strings.TrimSuffix(path, openMetricsSuffix)+".prom", Options{DropSentinels: true}))
		for _, s := range want {
			assert.Contains(t, got, s, path)
		}
		for _, s := range got {
			if !strings.HasPrefix(s, "counter sglang:http_") {
				assert.Contains(t, want, s, path)
			}
		}
	}
}

func shape(p *Page) []string {
	var out []string
	for _, f := range p.Families {
		for i := range f.Series {
			out = append(out, fmt.Sprintf("%s %s%v", kindName(f.Kind), f.Name, f.Series[i].Labels))
		}
	}
	return out
}

// TestSpellings: public reports name dashboards that broke behind a router that
// spells `sglang_`.
func TestSpellings(t *testing.T) {
	for _, path := range captures(t, "*.prom") {
		colon, err := os.ReadFile(path)
		require.NoError(t, err)
		underscore := bytes.ReplaceAll(colon, []byte("sglang:"), []byte("sglang_"))
		want := parseFile(t, path, Options{DropSentinels: true})

		alone, err := Parse(underscore, contentText, Options{DropSentinels: true})
		require.NoError(t, err)
		assert.Equal(t, render(want), render(alone), path)

		both, err := Parse(append(append([]byte{}, colon...), underscore...), contentText, Options{DropSentinels: true})
		require.NoError(t, err)
		assert.Equal(t, render(want), render(both), path)
		assert.Equal(t, want.Samples-want.Refused[RefusedSentinel], both.Refused[RefusedDuplicate], path)
	}
}

func TestParse(t *testing.T) {
	tests := []struct {
		name    string
		page    string
		content string
		keep    bool // sentinels
		want    []string
		refused map[Reason]int
	}{
		{
			name: "gauges with bounds as labels stay gauges",
			page: "# TYPE sglang:routing_key_running_req_count gauge\n" +
				"sglang:routing_key_running_req_count{gt=\"0\",le=\"1\"} 3\n" +
				"sglang:routing_key_running_req_count{gt=\"1\",le=\"+Inf\"} 2\n",
			want: []string{
				"gauge sglang:routing_key_running_req_count[{gt 0} {le 1}] 3",
				"gauge sglang:routing_key_running_req_count[{gt 1} {le +Inf}] 2",
			},
		},
		{
			name: "an empty label is a missing one",
			page: "# TYPE sglang:num_running_reqs gauge\n" +
				"sglang:num_running_reqs{priority=\"\",tp_rank=\"0\"} 10\n" +
				"sglang:num_running_reqs{priority=\"1\",tp_rank=\"0\"} 4\n" +
				"sglang:num_running_reqs{tp_rank=\"0\"} 99\n",
			want: []string{
				"gauge sglang:num_running_reqs[{priority 1} {tp_rank 0}] 4",
				"gauge sglang:num_running_reqs[{tp_rank 0}] 10",
			},
			refused: map[Reason]int{RefusedDuplicate: 1},
		},
		{
			name: "without the accidental pid the youngest process stays",
			page: "# TYPE sglang:num_retracted_reqs gauge\n" +
				"sglang:num_retracted_reqs{pid=\"90\",tp_rank=\"0\"} 7\n" +
				"sglang:num_retracted_reqs{pid=\"1200\",tp_rank=\"0\"} 2\n" +
				"sglang:num_retracted_reqs{pid=\"500\",tp_rank=\"0\"} 5\n" +
				"sglang:num_retracted_reqs{pid=\"501\",tp_rank=\"1\"} 1\n",
			want: []string{
				"gauge sglang:num_retracted_reqs[{tp_rank 0}] 2",
				"gauge sglang:num_retracted_reqs[{tp_rank 1}] 1",
			},
			refused: map[Reason]int{RefusedDeadProcess: 2},
		},
		{
			name: "another engine's pid is no accident",
			page: "# TYPE vllm:x gauge\nvllm:x{pid=\"1\"} 0.5\nvllm:x{pid=\"2\"} 0.5\n",
			want: []string{"gauge vllm:x[{pid 1}] 0.5", "gauge vllm:x[{pid 2}] 0.5"},
		},
		{
			name: "sentinels",
			page: "# TYPE sglang:fwd_occupancy gauge\nsglang:fwd_occupancy NaN\n" +
				"# TYPE sglang:utilization gauge\nsglang:utilization -1.0\n" +
				"# TYPE sglang:other gauge\nsglang:other -1\n" +
				"# TYPE vllm:y gauge\nvllm:y NaN\n",
			want:    []string{"gauge sglang:other[] -1", "gauge vllm:y[] NaN"},
			refused: map[Reason]int{RefusedSentinel: 2},
		},
		{
			name: "sentinels kept",
			page: "# TYPE sglang:utilization gauge\nsglang:utilization -1.0\n",
			keep: true,
			want: []string{"gauge sglang:utilization[] -1"},
		},
		{
			name: "counters that cannot be",
			page: "# TYPE sglang:a_total counter\nsglang:a_total{x=\"1\"} -3\nsglang:a_total{x=\"2\"} NaN\nsglang:a_total{x=\"3\"} +Inf\nsglang:a_total{x=\"4\"} 0\n",
			want: []string{"counter sglang:a_total[{x 4}] 0"}, refused: map[Reason]int{RefusedValue: 3},
		},
		{
			name: "histograms keep their own bounds, in any order of lines",
			page: "# TYPE sglang:h histogram\n" +
				"sglang:h_sum 1.5\nsglang:h_bucket{le=\"+Inf\"} 4\nsglang:h_bucket{le=\"0.1\"} 1\n" +
				"sglang:h_count 4\nsglang:h_bucket{le=\"0.0016200000000000001\"} 1\n",
			want: []string{"histogram sglang:h[] count=4 sum=1.5 bounds=[0.0016200000000000001 0.1] counts=[1 0 3] quantiles=[]"},
		},
		{
			name: "a histogram that stands twice",
			page: strings.Repeat("# TYPE h histogram\nh_bucket{le=\"1\"} 1\nh_bucket{le=\"+Inf\"} 2\nh_sum 3\nh_count 2\n", 2),
			want: []string{"histogram h[] count=2 sum=3 bounds=[1] counts=[1 1] quantiles=[]"}, refused: map[Reason]int{RefusedDuplicate: 4},
		},
		{
			name: "a histogram without its +Inf bucket has the count's",
			page: "# TYPE h histogram\nh_bucket{le=\"1\"} 1\nh_sum 3\nh_count 2\n",
			want: []string{"histogram h[] count=2 sum=3 bounds=[1] counts=[1 1] quantiles=[]"},
		},
		{
			name: "histograms that contradict themselves",
			page: "# TYPE h histogram\n" +
				"h_bucket{k=\"falls\",le=\"1\"} 3\nh_bucket{k=\"falls\",le=\"2\"} 2\nh_bucket{k=\"falls\",le=\"+Inf\"} 3\nh_sum{k=\"falls\"} 1\nh_count{k=\"falls\"} 3\n" +
				"h_bucket{k=\"count\",le=\"+Inf\"} 3\nh_sum{k=\"count\"} 1\nh_count{k=\"count\"} 4\n" +
				"h_bucket{k=\"half\",le=\"+Inf\"} 1.5\nh_sum{k=\"half\"} 1\n" +
				"h_bucket{k=\"le\",le=\"x\"} 1\nh_sum{k=\"le\"} 1\nh_count{k=\"le\"} 1\n" +
				"h_bucket{k=\"twice\",le=\"1\"} 1\nh_bucket{k=\"twice\",le=\"1.0\"} 2\nh_sum{k=\"twice\"} 1\nh_count{k=\"twice\"} 2\n" +
				"h 5\ng 1\n",
			want: []string{"gauge g[] 1"}, refused: map[Reason]int{RefusedHistogram: 5 + 3 + 2 + 3 + 4 + 1},
		},
		{
			name: "a histogram that lacks a part is none",
			page: "# TYPE h histogram\nh_bucket{le=\"1\"} 1\nh_count 1\n# TYPE g gauge\ng 1\n",
			want: []string{"gauge g[] 1"}, refused: map[Reason]int{RefusedIncomplete: 2},
		},
		{
			name: "a proxy lost the TYPE lines: the catalogue knows",
			page: "sglang:num_requests_total 4\nsglang:num_queue_reqs 1\n" +
				"sglang:e2e_request_latency_seconds_bucket{le=\"+Inf\"} 1\nsglang:e2e_request_latency_seconds_sum 2\nsglang:e2e_request_latency_seconds_count 1\n" +
				"unheard_bucket{le=\"1\"} 1\n",
			want: []string{
				"counter sglang:num_requests_total[] 4",
				"gauge sglang:num_queue_reqs[] 1",
				"gauge unheard_bucket[{le 1}] 1",
				"histogram sglang:e2e_request_latency_seconds[] count=1 sum=2 bounds=[] counts=[1] quantiles=[]",
			},
		},
		{
			name: "others' families pass as they are",
			page: "# TYPE python_gc_objects counter\npython_gc_objects{generation=\"0\"} 5\n" +
				"# TYPE rpc summary\nrpc{quantile=\"0.5\"} 1\nrpc_sum 9\nrpc_count 3\n" +
				"# TYPE sglang:spec__x gauge\nsglang:spec__x 1\n{\"dotted.name\",a=\"b\"} 2\n",
			want: []string{
				"counter python_gc_objects[{generation 0}] 5",
				"gauge dotted.name[{a b}] 2",
				"gauge sglang:spec__x[] 1",
				"summary rpc[] count=3 sum=9 bounds=[] counts=[] quantiles=[{0.5 1}]",
			},
		},
		{
			name: "the loads page has other names",
			page: "# TYPE sglang_num_total_tokens gauge\nsglang_num_total_tokens{dp_rank=\"0\"} 1\n",
			want: []string{"gauge sglang_num_total_tokens[{dp_rank 0}] 1"},
		},
		{
			name:    "OpenMetrics, spelled wrong",
			content: contentOpenMetrics,
			page: "# HELP sglang:num_requests Requests\n# TYPE sglang:num_requests counter\n" +
				"sglang_num_requests_total{model_name=\"m\"} 3 # {trace_id=\"a\"} 1\nsglang_num_requests_created{model_name=\"m\"} 1.7e9\n" +
				"# TYPE build info\nbuild_info{v=\"1\"} 1\n# EOF\n",
			want: []string{"counter sglang:num_requests_total[{model_name m}] 3", "gauge build_info[{v 1}] 1"},
		},
		{
			name: "timestamps of the page and repeated metadata do not matter",
			page: "# HELP a One\n# TYPE a gauge\na 1 1700000000000\n# HELP a Two\n# TYPE a counter\n",
			want: []string{"gauge a[] 1"},
		},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			content := tt.content
			if content == "" {
				content = contentText
			}
			p, err := Parse([]byte(tt.page), content, Options{DropSentinels: !tt.keep})
			require.NoError(t, err)
			assert.Equal(t, tt.want, render(p))
			if tt.refused == nil {
				tt.refused = map[Reason]int{}
			}
			assert.Equal(t, tt.refused, p.Refused)
		})
	}
}

func TestParseErrors(t *testing.T) {
	html := "<html><body>502 Bad Gateway</body></html>\n"
	tests := []struct {
		name, page, content string
		want                error
	}{
		{"html by its type", html, "text/html; charset=utf-8", ErrContentType},
		{"html as text", html, contentText, ErrSyntax},
		{"json", "{}\n", "application/json", ErrContentType},
		{"broken type", "a 1\n", "text/plain; =", ErrContentType},
		{"empty", "", contentText, ErrEmpty},
		{"blank", "\n \n", contentText, ErrEmpty},
		{"comments only", "# TYPE a gauge\n", contentText, ErrEmpty},
		{"cut in a line", "a 1\nb 12", contentText, ErrTruncated},
		{"OpenMetrics without an end", "a 1\n", contentOpenMetrics, ErrTruncated},
		{"no value", "a 1\nb\n", contentText, ErrSyntax},
		{"open label", "a{b=\"c} 1\n", contentText, ErrSyntax},
		{"long garbage", strings.Repeat("~", 1<<20) + "\n", contentText, ErrSyntax},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			p, err := Parse([]byte(tt.page), tt.content, Options{})
			require.ErrorIs(t, err, tt.want)
			assert.Nil(t, p)
			assert.Less(t, len(err.Error()), 400)
		})
	}
}

func TestOpenEnd(t *testing.T) {
	body, err := os.ReadFile(filepath.Join(capturesDir, "metrics-unified-tp1.t2.prom"))
	require.NoError(t, err)
	whole, err := Parse(body, contentText, Options{})
	require.NoError(t, err)
	assert.False(t, whole.OpenEnd)

	cut := body[:bytes.LastIndex(body, []byte("_bucket{"))]
	cut = cut[:bytes.LastIndexByte(cut, '\n')+1]
	p, err := Parse(cut, contentText, Options{})
	require.NoError(t, err)
	assert.True(t, p.OpenEnd)
}

func TestAbsentIsNotZero(t *testing.T) {
	first := parseFile(t, filepath.Join(capturesDir, "metrics-unified-tp1.t0.prom"), Options{})
	for _, f := range first.Families {
		assert.NotEqual(t, "sglang:num_requests_total", f.Name)
		assert.NotEqual(t, "sglang:num_aborted_requests_total", f.Name)
	}
}
