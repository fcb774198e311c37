// Copyright The otelcol-sglang Authors
// SPDX-License-Identifier: Apache-2.0

package doctor

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"go.opentelemetry.io/collector/pdata/ptrace/ptraceotlp"
	"go.uber.org/goleak"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	own "github.com/otelcol-sglang/otelcol-sglang/cmd/sglangctl/internal/status"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// well is the collector's page while all is well.
const well = `
otelcol_process_uptime 100
otelcol_receiver_accepted_spans{receiver="otlp/sglang",transport="grpc"} 3000
otelcol_processor_memory_limiter_accepted_spans{processor="memory_limiter"} 3000
otelcol_processor_rankdedup_senders{state="known"} 4
otelcol_processor_rankdedup_senders{state="unknown"} 1
otelcol_processor_rankdedup_senders{state="ambiguous"} 0
otelcol_processor_genai_held_roots 0
otelcol_processor_genai_roots{completeness="complete",engine="e"} 40
otelcol_processor_genai_engines{engine="e",page="host:30000",state="both"} 1
otelcol_connector_genaimetrics_roots{outcome="counted"} 40
otelcol_receiver_sglang_engine_up{engine="host:30000"} 1
otelcol_receiver_sglang_scrape_age{engine="host:30000"} 2.5
otelcol_exporter_queue_size{exporter="otlp"} 10
otelcol_exporter_queue_capacity{exporter="otlp"} 1000
`

const enginePage = `# TYPE sglang:num_requests_total counter
sglang:num_requests_total 40
# TYPE sglang:num_running_reqs gauge
sglang:num_running_reqs{dp_rank="0",tp_rank="0"} 3
sglang:num_running_reqs{dp_rank="1",tp_rank="2"} 3
# TYPE sglang:fwd_occupancy gauge
sglang:fwd_occupancy{tp_rank="0"} NaN
# TYPE sglang:prompt_tokens_total counter
sglang:prompt_tokens_total 9000
# TYPE sglang:queue_time_seconds histogram
sglang:queue_time_seconds_bucket{le="+Inf"} 40
sglang:queue_time_seconds_sum 4
sglang:queue_time_seconds_count 40
# TYPE sglang:e2e_request_latency_seconds histogram
sglang:e2e_request_latency_seconds_bucket{le="+Inf"} 40
sglang:e2e_request_latency_seconds_sum 4
sglang:e2e_request_latency_seconds_count 40
`

const info = `{"version":"0.5.23","tp_size":4,"dp_size":2,"pp_size":1,"enable_dp_attention":true,"enable_metrics":true,
"enable_trace":true,"enable_metrics_for_all_schedulers":false,"enable_hierarchical_cache":false,"speculative_algorithm":null,
"enable_priority_scheduling":true,"enable_mfu_metrics":false,"tokenizer_worker_num":1}`

func pageOf(t *testing.T, text string) own.Page {
	t.Helper()
	p, err := own.Parse(strings.NewReader(text))
	require.NoError(t, err)
	return p
}

// edit makes facts other than those of a set-up in which all is well. Lines of a
// collector's page stand in for those with the same name and labels.
type edit func(*testing.T, *Facts)

func collectorPage(lines ...string) edit {
	return func(t *testing.T, f *Facts) { f.Collectors[0].After = pageOf(t, patch(well, lines)) }
}

func both(lines ...string) edit {
	return func(t *testing.T, f *Facts) {
		p := pageOf(t, patch(well, lines))
		f.Collectors[0].Before, f.Collectors[0].After = p, p
	}
}

func patch(page string, lines []string) string {
	out := map[string]string{}
	for _, line := range append(strings.Split(strings.TrimSpace(page), "\n"), lines...) {
		at := strings.LastIndexByte(line, ' ')
		out[line[:at]] = line[at:]
	}
	var b strings.Builder
	for _, series := range slices.Sorted(maps.Keys(out)) {
		if out[series] != " -" {
			b.WriteString(series + out[series] + "\n")
		}
	}
	return b.String()
}

func engineText(text string) edit {
	return func(_ *testing.T, f *Facts) {
		p := &f.Engines[0].Page
		p.Err, p.Families, p.Underscored, p.Size = nil, nil, false, len(text)
		p.parse([]byte(text))
	}
}

func settings(text string) edit {
	return func(t *testing.T, f *Facts) {
		require.NoError(t, json.Unmarshal([]byte(text), &f.Engines[0].Info.Settings))
	}
}

func traces(to Traces) edit {
	return func(_ *testing.T, f *Facts) {
		to.Path, to.Requests = "traces.jsonl", max(to.Requests, 1)
		f.Traces = &to
	}
}

func healthy(t *testing.T) Facts {
	t.Helper()
	f := Facts{
		Collectors: []Collector{{URL: "http://c:8888/metrics", Before: pageOf(t, well), After: pageOf(t, well)}},
		Engines:    []Engine{{URL: "http://host:30000"}},
		GRPC:       &Port{Address: "c:4317", Listens: true},
		HTTP:       &Port{Address: "c:4318", Listens: true},
		Traces:     &Traces{Path: "traces.jsonl", Requests: 40, Levels: map[int64]int{3: 40}, Ranks: map[string]int{"e": 4}, SkewKnown: true},
		Watched:    5 * time.Second,
	}
	e := &f.Engines[0]
	e.Page.Status, e.Page.ContentType = http.StatusOK, "text/plain; version=0.0.4; charset=utf-8"
	e.Info.Clock.Known = true
	engineText(enginePage)(t, &f)
	settings(info)(t, &f)
	return f
}

func TestAllIsWell(t *testing.T) {
	r := Examine(healthy(t))
	for _, result := range r.Results {
		assert.Equal(t, OK, result.Status, "%s: %s", result.Check, result.Seen)
		assert.Empty(t, result.Do, result.Check)
	}
	var seen []string
	for _, result := range r.Results {
		seen = append(seen, result.Check)
	}
	assert.Equal(t, IDs(), seen, "each check says something")
}

// TestNothingAnswers: what can't be told is neither well nor broken.
func TestNothingAnswers(t *testing.T) {
	down := errors.New("connection refused")
	f := Facts{
		Collectors: []Collector{{URL: "http://c:8888/metrics", Err: down}},
		Engines:    []Engine{{URL: "http://host:30000", Page: Page{Err: down}, Info: Info{Err: down}}},
		GRPC:       &Port{Address: "c:4317", Err: down}, HTTP: &Port{Address: "c:4318", Err: down},
	}
	var failed []string
	for _, result := range Examine(f).Results {
		assert.Contains(t, []Status{Fail, Unknown}, result.Status, result.Check)
		if result.Status == Fail {
			failed = append(failed, result.Check)
		}
	}
	assert.Equal(t, []string{"collector", "otlp-grpc", "otlp-http", "engine", "page"}, failed)
}

// judged are set-ups with one thing amiss, and what the check says of it.
var judged = []struct {
	check  string
	status Status
	seen   string
	do     string
	edits  []edit
}{
	{"collector", Warn, "neither rankdedup nor genai", "of this distribution", []edit{func(t *testing.T, f *Facts) {
		f.Collectors[0].After = pageOf(t, "otelcol_process_uptime 3\n")
	}}},
	{"otlp-grpc", Fail, "nothing listens on c:4317", "localhost by default", []edit{port(Port{Err: errors.New("refused")})}},
	{"otlp-grpc", Fail, "takes no OTLP", "something else listens", []edit{port(Port{Err: errors.New("EOF"), Listens: true})}},
	{"otlp-grpc", Unknown, "speaks TLS", "", []edit{port(Port{Err: errors.New("EOF"), Listens: true, TLS: true})}},
	{"otlp-grpc", OK, "wants credentials", "", []edit{port(Port{Err: errors.New("401"), Listens: true, Auth: true})}},
	{"otlp-grpc", Unknown, "no address", "--grpc", []edit{func(_ *testing.T, f *Facts) { f.GRPC = nil }}},
	{"memory", Fail, "refused 7 items (7 of them in the last 5s)", "limit_mib", []edit{collectorPage("otelcol_processor_memory_limiter_refused_spans 7")}},
	{"memory", Warn, "none in the last", "limit_mib", []edit{both("otelcol_processor_memory_limiter_refused_spans 7")}},
	{"memory", Unknown, "no memory limiter", "put memory_limiter first", []edit{
		collectorPage(`otelcol_processor_memory_limiter_accepted_spans{processor="memory_limiter"} -`),
	}},
	{"refused", Fail, "receiver_refused_spans 7", "sent again", []edit{collectorPage("otelcol_receiver_refused_spans 7")}},
	{"refused", Warn, "receiver_refused_spans 7", "sent again", []edit{both("otelcol_receiver_refused_spans 7")}},
	{"queue", Warn, "otlp 900 of 1000 (+890)", "backend", []edit{collectorPage(`otelcol_exporter_queue_size{exporter="otlp"} 900`)}},
	{"queue", OK, "no exporter has", "", []edit{
		collectorPage(`otelcol_exporter_queue_size{exporter="otlp"} -`, `otelcol_exporter_queue_capacity{exporter="otlp"} -`),
	}},
	{"lost", Fail, "processor_rankdedup_spans_lost 3", "queue on disk", []edit{
		both(`otelcol_processor_rankdedup_spans_lost{reason="permanent"} 3`),
	}},
	{"early", Warn, "5 spans left rankdedup", "max_held_mib", []edit{both(`otelcol_processor_rankdedup_spans_early_release{reason="limit"} 5`)}},
	{"early", OK, "first minute", "", []edit{
		both(`otelcol_processor_rankdedup_spans_early_release{reason="learn"} 5`, "otelcol_process_uptime 20"),
	}},
	{"counting", Warn, "several collectors count", "last tier", []edit{func(t *testing.T, f *Facts) {
		f.Collectors = append(f.Collectors, Collector{URL: "http://d:8888/metrics", After: pageOf(t, well)})
	}}},
	{"counting", Unknown, "has counted", "", []edit{collectorPage(`otelcol_connector_genaimetrics_roots{outcome="counted"} -`)}},
	{"engine", Warn, "/server_info does not", "own HTTP port", []edit{func(_ *testing.T, f *Facts) {
		f.Engines[0].Info = Info{Err: errors.New("HTTP status 404")}
	}}},
	{"page", Fail, "is empty", "--enable-metrics", []edit{engineText("")}},
	{"page", Fail, "no family of an SGLang engine", "another program", []edit{engineText("up 1\n")}},
	{"page", Warn, "took 3.00 s", "timeout", []edit{func(_ *testing.T, f *Facts) { f.Engines[0].Page.Took = 3 * time.Second }}},
	{"page", OK, "redirects to http://host/metrics/", "", []edit{func(_ *testing.T, f *Facts) {
		f.Engines[0].Page.Location = "http://host/metrics/"
	}}},
	{"page-names", Warn, "sglang_", "gateway", []edit{engineText(strings.ReplaceAll(enginePage, "sglang:", "sglang_"))}},
	{"page-names", Warn, "openmetrics", "between", []edit{func(_ *testing.T, f *Facts) {
		f.Engines[0].Page.ContentType = "application/openmetrics-text"
	}}},
	{"page-families", Unknown, "no request has finished", "send one", []edit{engineText("sglang:num_running_reqs 0\n")}},
	// Promised metrics are absent, or 0 while requests finish.
	{"page-families", Warn, "missing: sglang:queue_time_seconds", "--enable-metrics", []edit{
		engineText(strings.ReplaceAll(enginePage, "queue_time", "other_time")),
	}},
	{"page-families", Warn, "0 all the same: sglang:prompt_tokens_total", "gateway", []edit{
		engineText(strings.ReplaceAll(enginePage, "total 9000", "total 0")),
	}},
	{"scrape", Fail, "gave no page", "addresses", []edit{both(`otelcol_receiver_sglang_engine_up{engine="host:30000"} 0`)}},
	{"scrape", Warn, "2 scrapes failed (http_status 2", "at times", []edit{
		both(`otelcol_receiver_sglang_failed_scrapes{engine="host:30000",reason="http_status"} 2`),
	}},
	{"scrape", Warn, "others: other:1", "engines", []edit{
		both(`otelcol_receiver_sglang_engine_up{engine="host:30000"} -`, `otelcol_receiver_sglang_engine_up{engine="other:1"} 1`),
	}},
	{"scrape", Fail, "scrapes no engine", "engines", []edit{both(`otelcol_receiver_sglang_engine_up{engine="host:30000"} -`)}},
	{"dp-ranks", Warn, "shows 1 of 2, its spans 2", "--nnodes", []edit{
		engineText(strings.ReplaceAll(enginePage, `dp_rank="1",`, `dp_rank="0",`)),
		both(`otelcol_processor_genai_dp_ranks{engine="e",page="host:30000",source="spans"} 2`),
	}},
	{"dp-ranks", OK, "there is one", "", []edit{settings(`{"dp_size":1}`)}},
	{"flag-metrics", Fail, "no page", "--enable-metrics", []edit{settings(`{"enable_metrics":false}`)}},
	{"flag-trace", Fail, "no request has a trace", "--enable-trace", []edit{settings(`{"enable_trace":false}`)}},
	{"flag-device-timer", OK, "off", "", nil},
	{"flag-device-timer", OK, "on (sglang:fwd_occupancy", "", []edit{engineText(strings.ReplaceAll(enginePage, "NaN", "0.7"))}},
	{"flag-ranks", Fail, "mostly rank 0", "--enable-metrics-for-all-schedulers", []edit{func(_ *testing.T, f *Facts) {
		f.Want = []string{"ranks"}
	}}},
	{"flag-speculation", OK, "on (speculative_algorithm", "", []edit{settings(`{"speculative_algorithm":"EAGLE"}`)}},
	{"tokenizer-workers", Warn, "8 tokenizer workers", "#38210|one tokenizer worker", []edit{settings(`{"tokenizer_worker_num":8}`)}},
	{"clock-engine", Warn, "10.0 s ahead", "NTP", []edit{engineClock(10*time.Second, 11*time.Second)}},
	{"clock-engine", Warn, "10.0 s behind", "NTP", []edit{engineClock(-11*time.Second, -10*time.Second)}},
	// The page works, and nothing ever came on the OTLP port.
	{"spans", Fail, "no span ever arrived, though pages show 40 requests", "--otlp-traces-endpoint", []edit{noSpans()}},
	{"spans", Unknown, "no span has arrived", "send one", []edit{noSpans(), engineText("sglang:num_running_reqs 0\n")}},
	{"spans-page", Fail, "only the page", "--enable-trace", []edit{engineState("page_only")}},
	{"spans-page", Fail, "only spans", "--enable-metrics", []edit{engineState("spans_only")}},
	{"spans-page", Warn, "which page belongs", "OTEL_RESOURCE_ATTRIBUTES", []edit{engineState("ambiguous")}},
	{"spans-page", Unknown, "genai is in no metrics pipeline", "metrics pipeline", []edit{
		both(`otelcol_processor_genai_engines{engine="e",page="host:30000",state="both"} -`),
	}},
	{"ranks", Fail, "3 requests had fewer ranks", "rank's process", []edit{
		collectorPage(`otelcol_processor_genai_requests_without_ranks{engine="e"} 3`),
	}},
	{"ranks", Fail, "show 3 of 4 ranks", "rank's process", []edit{traces(Traces{Ranks: map[string]int{"e": 3}})}},
	{"ranks", Unknown, "2 of 4 schedulers", "idle, or silent|send some", []edit{
		traces(Traces{Ranks: map[string]int{"e": 4, "other": 2}}), both(`otelcol_processor_rankdedup_senders{state="known"} 2`),
	}},
	{"ranks", Warn, "3 requests had fewer ranks", "rank's process", []edit{both(`otelcol_processor_genai_requests_without_ranks{engine="e"} 3`)}},
	{"ranks", Unknown, "without /server_info", "", []edit{func(_ *testing.T, f *Facts) { f.Engines[0].Info.Err = errors.New("404") }}},
	{"ranks", OK, "4 schedulers are known, of 4", "", []edit{func(_ *testing.T, f *Facts) { f.Traces = nil }}},
	// One service.instance.id for a whole pod behind a proxy.
	{"senders", Warn, "2 senders of 7", "service.instance.id", []edit{both(`otelcol_processor_rankdedup_senders{state="ambiguous"} 2`)}},
	{"senders", Unknown, "no sender", "", []edit{
		both(`otelcol_processor_rankdedup_senders{state="known"} 0`, `otelcol_processor_rankdedup_senders{state="unknown"} 0`),
	}},
	// Several tokenizer workers.
	{"scheduler-spans", Fail, "30 of 70 requests are incomplete: no_scheduler_spans 30", "tokenizer workers", []edit{
		collectorPage(`otelcol_processor_genai_roots{completeness="no_scheduler_spans",engine="e"} 30`),
	}},
	{"scheduler-spans", Warn, "spans_missing 1", "OTEL_BSP_MAX_QUEUE_SIZE", []edit{
		collectorPage(`otelcol_processor_genai_roots{completeness="spans_missing",engine="e"} 1`),
	}},
	{"trace-level", Warn, "decode_steps 40 (level 1: 40 requests)", "SGLANG_TRACE_LEVEL", []edit{
		both(`otelcol_processor_genai_unknown_values{attribute="decode_steps",engine="e",reason="trace_level"} 40`),
		traces(Traces{Levels: map[int64]int{1: 40}}),
	}},
	{"clock-ranks", Warn, "250 ms apart", "NTP", []edit{traces(Traces{Skew: 250 * time.Millisecond, SkewKnown: true})}},
	{"clock-ranks", Warn, "before its request came", "NTP", []edit{traces(Traces{Lead: 40 * time.Millisecond})}},
	{"clock-ranks", Unknown, "no file", "--traces", []edit{func(_ *testing.T, f *Facts) { f.Traces = nil }}},
	{"believed", Warn, "9 values of the engine", "--enable-metrics", []edit{
		both(`otelcol_processor_genai_invalid_values{attribute="time_to_first_token",reason="equals_e2e"} 9`),
	}},
}

func port(p Port) edit {
	return func(_ *testing.T, f *Facts) {
		p.Address = "c:4317"
		f.GRPC = &p
	}
}

func engineClock(from, to time.Duration) edit {
	return func(_ *testing.T, f *Facts) { f.Engines[0].Info.Clock.Min, f.Engines[0].Info.Clock.Max = from, to }
}

func noSpans() edit {
	return both(`otelcol_receiver_accepted_spans{receiver="otlp/sglang",transport="grpc"} 0`)
}

func engineState(state string) edit {
	return both(`otelcol_processor_genai_engines{engine="e",page="host:30000",state="both"} 0`,
		fmt.Sprintf("otelcol_processor_genai_engines{state=%q} 1", state))
}

func TestJudged(t *testing.T) {
	for _, tc := range judged {
		t.Run(tc.check+"/"+string(tc.status), func(t *testing.T) {
			f := healthy(t)
			for _, change := range tc.edits {
				change(t, &f)
			}
			r := of(t, Examine(f), tc.check)
			assert.Equal(t, tc.status, r.Status, r.Seen)
			assert.Contains(t, r.Seen, tc.seen)
			if tc.do == "" {
				return
			}
			assert.Regexp(t, tc.do, r.Do+r.Seen)
		})
	}
}

func of(t *testing.T, r Report, check string) Result {
	t.Helper()
	for _, result := range r.Results {
		if result.Check == check {
			return result
		}
	}
	t.Fatalf("no result of %q", check)
	return Result{}
}

// TestEachCheckCanComplain: a check that says "ok" whatever comes is none.
func TestEachCheckCanComplain(t *testing.T) {
	complains := map[string]bool{"engine": true} // TestNothingAnswers
	for _, tc := range judged {
		complains[tc.check] = complains[tc.check] || tc.status == Warn || tc.status == Fail
	}
	for _, id := range IDs() {
		if !strings.HasPrefix(id, flagPrefix) && id != "otlp-http" { // one function serves all of them
			assert.True(t, complains[id], id)
		}
	}
}

func TestTroubleshootingNamesEachCheck(t *testing.T) {
	text, err := os.ReadFile(filepath.Join("..", "..", "..", "..", "docs", "troubleshooting.md"))
	require.NoError(t, err)
	for _, id := range IDs() {
		assert.Contains(t, string(text), "`"+id+"`", "docs/troubleshooting.md")
	}
}

// TestPages: what engines, and what stands in their place, may answer.
func TestPages(t *testing.T) {
	gone := make(chan struct{})
	for _, tc := range []struct {
		name   string
		answer http.HandlerFunc
		status Status
		seen   string
	}{
		{"page", func(w http.ResponseWriter, _ *http.Request) { _, _ = w.Write([]byte(enginePage)) }, OK, "6 families"},
		{"500", func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(http.StatusInternalServerError) }, Fail, "HTTP status 500"},
		{"404", func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(http.StatusNotFound) }, Fail, "HTTP status 404"},
		{"401", func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(http.StatusUnauthorized) }, Fail, "HTTP status 401"},
		{"empty", func(http.ResponseWriter, *http.Request) {}, Fail, "is empty"},
		{"html", func(w http.ResponseWriter, _ *http.Request) { _, _ = w.Write([]byte("<html>")) }, Fail, "no Prometheus page"},
		{"redirect", func(w http.ResponseWriter, r *http.Request) {
			if r.URL.Path == "/metrics" {
				http.Redirect(w, r, "/metrics/", http.StatusTemporaryRedirect)
				return
			}
			_, _ = w.Write([]byte(enginePage))
		}, OK, "/metrics/, which was followed"},
		{"redirect to nothing", func(w http.ResponseWriter, r *http.Request) {
			if r.URL.Path == "/metrics" {
				http.Redirect(w, r, "/metrics/", http.StatusTemporaryRedirect)
			}
		}, Fail, "is empty: it redirects"},
		{"redirect to a dead end", func(w http.ResponseWriter, r *http.Request) {
			if r.URL.Path == "/metrics" {
				http.Redirect(w, r, "/metrics/", http.StatusTemporaryRedirect)
				return
			}
			w.WriteHeader(http.StatusNotFound)
		}, Fail, "/metrics/, and that could not be read: HTTP status 404"},
		{"slow", func(_ http.ResponseWriter, r *http.Request) {
			select {
			case <-r.Context().Done():
			case <-gone:
			}
		}, Fail, "no answer within"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
				if r.URL.Path == "/server_info" {
					_, _ = w.Write([]byte(info))
					return
				}
				tc.answer(w, r)
			}))
			defer server.Close()
			f := Look(t.Context(), Options{Engines: []string{server.URL}, Timeout: 300 * time.Millisecond})
			r := of(t, Examine(f), "page")
			assert.Equal(t, tc.status, r.Status, r.Seen)
			assert.Contains(t, r.Seen, tc.seen)
			assert.Equal(t, OK, of(t, Examine(f), "engine").Status)
			assert.Equal(t, OK, of(t, Examine(f), "clock-engine").Status)
		})
	}
	close(gone)
}

type grpcServer struct {
	ptraceotlp.UnimplementedGRPCServer
	code codes.Code
}

func (s *grpcServer) Export(context.Context, ptraceotlp.ExportRequest) (ptraceotlp.ExportResponse, error) {
	return ptraceotlp.NewExportResponse(), status.Error(s.code, "no")
}

// TestPorts: an export of nothing tells what listens.
func TestPorts(t *testing.T) {
	listener, err := net.Listen("tcp", "localhost:0")
	require.NoError(t, err)
	closed := listener.Addr().String()
	require.NoError(t, listener.Close())
	plain := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.Header.Get("Content-Type") != "application/x-protobuf" || r.URL.Path != "/v1/traces" {
			w.WriteHeader(http.StatusUnsupportedMediaType)
		}
	}))
	defer plain.Close()
	wants := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(http.StatusUnauthorized) }))
	defer wants.Close()
	secure := httptest.NewUnstartedServer(http.NotFoundHandler())
	secure.Config.ErrorLog = nil
	secure.StartTLS()
	defer secure.Close()
	address := func(s *httptest.Server) string { return s.Listener.Addr().String() }

	f := Look(t.Context(), Options{GRPC: closed, HTTP: address(plain), Timeout: time.Second})
	assert.False(t, f.GRPC.Listens)
	require.NoError(t, f.HTTP.Err)
	f = Look(t.Context(), Options{GRPC: address(plain), HTTP: address(wants), Timeout: time.Second})
	require.Error(t, f.GRPC.Err)
	assert.True(t, f.GRPC.Listens && !f.GRPC.TLS)
	assert.True(t, f.HTTP.Auth)
	f = Look(t.Context(), Options{GRPC: address(secure), HTTP: address(secure), Timeout: time.Second})
	assert.True(t, f.GRPC.TLS)
}

func TestGRPC(t *testing.T) {
	for code, want := range map[codes.Code]Status{codes.OK: OK, codes.Unauthenticated: OK, codes.Unimplemented: Fail} {
		listener, err := net.Listen("tcp", "localhost:0")
		require.NoError(t, err)
		server := grpc.NewServer()
		ptraceotlp.RegisterGRPCServer(server, &grpcServer{code: code})
		done := make(chan struct{})
		go func() {
			defer close(done)
			_ = server.Serve(listener)
		}()
		f := Look(t.Context(), Options{GRPC: listener.Addr().String(), Timeout: time.Second})
		server.Stop()
		<-done
		assert.Equal(t, want, of(t, Examine(f), "otlp-grpc").Status, code)
	}
}

func TestPrint(t *testing.T) {
	r := Report{Results: []Result{
		{Check: "page", Subject: "host:30000", Status: Fail, Seen: "its page is empty", Do: "start it with --enable-metrics"},
		{Check: "spans-page", Status: OK, Seen: "of 1 engine both spans and page come"},
	}}
	var b strings.Builder
	r.Print(&b)
	assert.Equal(t, `fail     page        host:30000: its page is empty
                     → start it with --enable-metrics
ok       spans-page  of 1 engine both spans and page come

1 ok, 0 warnings, 1 failed, 0 unknown
`, b.String())
	b.Reset()
	require.NoError(t, r.JSON(&b))
	var back Report
	require.NoError(t, json.Unmarshal([]byte(b.String()), &back))
	assert.Equal(t, r, back)
}
