// Copyright The otelcol-sglang Authors
// SPDX-License-Identifier: Apache-2.0

package e2e

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"go.opentelemetry.io/collector/pdata/pcommon"

	"github.com/otelcol-sglang/otelcol-sglang/internal/sglang"
	"github.com/otelcol-sglang/otelcol-sglang/test/internal/collector"
	"github.com/otelcol-sglang/otelcol-sglang/test/internal/engine"
	"github.com/otelcol-sglang/otelcol-sglang/test/internal/prometheus"
	"github.com/otelcol-sglang/otelcol-sglang/test/internal/sender"
	"github.com/otelcol-sglang/otelcol-sglang/test/internal/sink"
	"github.com/otelcol-sglang/otelcol-sglang/test/internal/spans"
	"github.com/otelcol-sglang/otelcol-sglang/test/internal/tool"
)

// overlays are files of config/ that are merged on top of another one.
var overlays = map[string]string{"quickstart-pd.yaml": "quickstart.yaml"}

// TestConfigurations: each one that ships is valid as it is, starts, and is healthy
// without anything around it.
func TestConfigurations(t *testing.T) {
	dir := filepath.Join(tool.Root(), "config")
	files, err := filepath.Glob(filepath.Join(dir, "*.yaml"))
	require.NoError(t, err)
	require.NotEmpty(t, files)
	for _, file := range files {
		name := filepath.Base(file)
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			o := collector.Options{Config: name}
			args := []string{"validate", "--config", file}
			if base, ok := overlays[name]; ok {
				raw, err := os.ReadFile(file)
				require.NoError(t, err)
				o = collector.Options{Config: base, Overlay: string(raw)}
				args = []string{"validate", "--config", filepath.Join(dir, base), "--config", file}
			}
			out, err := exec.Command(tool.Binary(t, "otelcol-sglang"), args...).CombinedOutput()
			require.NoError(t, err, "%s", out)
			assert.Empty(t, string(out))
			collector.Start(t, o)
		})
	}
}

// TestRouting: an agent in front of two gateways sends each trace to one of them, by
// the last digit of its id.
func TestRouting(t *testing.T) {
	t.Parallel()
	backends := []*sink.Sink{sink.Start(t), sink.Start(t)}
	gateways := []*collector.Collector{gateway(t, backends[0], ""), gateway(t, backends[1], "")}
	a := collector.Start(t, collector.Options{Config: "agent-routing.yaml", Env: []string{
		"OTLP_ENDPOINT_0=" + gateways[0].GRPC, "OTLP_ENDPOINT_1=" + gateways[1].GRPC, "OTLP_INSECURE=true",
	}})
	e := sender.New(t, a.GRPC, "traces-dp-attention-tp4-dp2")
	play(t, e, 6)
	a.Settle(outLimit)
	all := &spans.Tree{Spans: map[spans.ID]spans.Span{}}
	for i, g := range gateways {
		assert.Empty(t, g.Settle(outLimit).Losses())
		out := spans.TreeOf(backends[i].Traces()...)
		assert.NotEmpty(t, out.Spans, "gateway %d has nothing to do", i)
		for id := range out.Spans {
			digit := id.Trace.String()[31]
			assert.Equal(t, i == 0, digit <= '7', "trace %s at gateway %d", id.Trace, i)
		}
		all.Add(out)
	}
	in := withoutSteps(e.Made())
	spans.CheckLogical(t, in, all)
	spans.CheckShape(t, in, all)
	checkRanks(t, all)
	t.Logf("%d requests, %d and %d spans", len(in.Roots()), backends[0].Count(), backends[1].Count())
}

// TestRoutingOutage: a gateway that is away does not hold up the other one's traces,
// and gets its own when it is back.
func TestRoutingOutage(t *testing.T) {
	t.Parallel()
	up, down := sink.Start(t), sink.New(t)
	a := collector.Start(t, collector.Options{Config: "agent-routing.yaml", Env: []string{
		"OTLP_ENDPOINT_0=" + up.Address, "OTLP_ENDPOINT_1=" + down.Address, "OTLP_INSECURE=true",
	}})
	e := sender.New(t, a.GRPC, "traces-unified-tp4-level3")
	play(t, e, 6)
	kept := withoutSteps(e.Made()).Kept()
	want := 0
	for id := range kept.Spans {
		if id.Trace.String()[31] <= '7' {
			want++
		}
	}
	require.True(t, until(func() bool { return up.Count() >= want }), "%d of %d spans", up.Count(), want)
	down.Start()
	a.Settle(outLimit)
	assert.Equal(t, len(kept.Spans)-want, down.Count())
}

// TestPDPair: one collector in front of a prefill and a decode engine joins the halves
// of each request, counts it once, and shows both engines' pages.
func TestPDPair(t *testing.T) {
	t.Parallel()
	tool.Need(t, "prometheus", "apt-get install prometheus")
	prefill := engine.Start(t, engine.Page(t, "metrics-pd-prefill.t1"))
	decode := engine.Start(t, engine.Page(t, "metrics-pd-decode.t1"))
	backend := sink.Start(t)
	c := collector.Start(t, collector.Options{Config: "pd-pair.yaml", Env: append(backend.Env(),
		"PREFILL_ENGINE=http://"+prefill.Address, "DECODE_ENGINE=http://"+decode.Address)})
	server := prometheus.Start(t, c.Metrics)
	e := sender.New(t, c.GRPC, "traces-pd-prefill-tp2-decode-tp2")
	play(t, e, 1) // a second run would have the same bootstrap rooms
	assert.Empty(t, c.Settle(outLimit).Losses())
	out, decodes := spans.TreeOf(backend.Traces()...), 0
	for _, root := range out.Roots() {
		joined, ok := root.Attributes().Get(sglang.AttrPDJoined)
		assert.True(t, ok && joined.Bool(), "%s %s is alone", root.Name(), root.ID())
		if sglang.RoleOf(root.Name()) == sglang.RoleDecode {
			decodes++
		}
	}
	require.Positive(t, decodes)
	assert.Len(t, out.Roots(), 2*decodes, "two halves each")
	awaitValue(t, server, `sum(gen_ai_server_request_duration_count)`, float64(decodes))
	awaitValue(t, server, `count(count by (instance) ({__name__=~"sglang:.+",job="sglang",instance=~"prefill-0|decode-0"}))`, 2)
	t.Logf("%d pairs", decodes)
}

// awaitValue waits until an expression has a value in Prometheus.
func awaitValue(t *testing.T, server *prometheus.Server, expr string, want float64) {
	t.Helper()
	got, ok := server.Await(pageLimit, expr, func(s []prometheus.Sample) bool { return len(s) == 1 && s[0].Value == want })
	assert.True(t, ok, "%s is %v, not %v", expr, got, want)
}

// vllmPage is the form of a vLLM 0.11 server's page, shortened.
const vllmPage = `# HELP vllm:num_requests_running Number of requests in model execution batches.
# TYPE vllm:num_requests_running gauge
vllm:num_requests_running{engine="0",model_name="m"} 3.0
# HELP vllm:prompt_tokens_total Number of prefill tokens processed.
# TYPE vllm:prompt_tokens_total counter
vllm:prompt_tokens_total{engine="0",model_name="m"} 1234.0
# HELP vllm:time_to_first_token_seconds Histogram of time to first token in seconds.
# TYPE vllm:time_to_first_token_seconds histogram
vllm:time_to_first_token_seconds_bucket{engine="0",le="0.1",model_name="m"} 2.0
vllm:time_to_first_token_seconds_bucket{engine="0",le="+Inf",model_name="m"} 5.0
vllm:time_to_first_token_seconds_count{engine="0",model_name="m"} 5.0
vllm:time_to_first_token_seconds_sum{engine="0",model_name="m"} 1.5
`

// TestSeveralEngines: two SGLang engines and a vLLM server at one collector.
func TestSeveralEngines(t *testing.T) {
	t.Parallel()
	tool.Need(t, "prometheus", "apt-get install prometheus")
	pages := []string{engine.Page(t, "metrics-tp4-all-schedulers.t1"), engine.Page(t, "metrics-unified-tp1.t1"), vllmPage}
	backend := sink.Start(t)
	env := backend.Env()
	for i, name := range []string{"ENGINE_0", "ENGINE_1", "VLLM"} {
		env = append(env, name+"=http://"+engine.Start(t, pages[i]).Address)
	}
	c := collector.Start(t, collector.Options{Config: "several-engines.yaml", Env: env})
	server := prometheus.Start(t, c.Metrics)
	var engines []*sender.Engine
	for _, name := range []string{"traces-unified-tp4-level3", "traces-unified-tp4-level3", "traces-unified-tp1-level3"} {
		engines = append(engines, sender.New(t, c.GRPC, name))
	}
	for _, e := range engines {
		play(t, e, 2)
	}
	sendVLLM(t, c.GRPC)
	assert.Empty(t, c.Settle(outLimit).Losses())
	out := spans.TreeOf(backend.Traces()...)
	requests := 1 // vLLM's
	ids := map[string]bool{}
	for _, e := range engines {
		in := withoutSteps(e.Made())
		part := out.Of(in)
		spans.CheckKept(t, in, part)
		requests += len(in.Roots())
		for _, s := range part.Spans {
			id, _ := s.Resource.Attributes().Get(sglang.AttrEngineID)
			ids[id.Str()] = true
		}
	}
	assert.Len(t, ids, len(engines), "engines: %v", ids)
	awaitValue(t, server, `sum(gen_ai_server_request_duration_count)`, float64(requests))
	awaitValue(t, server, `sum(gen_ai_server_request_duration_count{gen_ai_provider_name="vllm"})`, 1)
	awaitValue(t, server, `vllm:num_requests_running{job="vllm",instance="vllm-0"}`, 3)
	awaitValue(t, server, `vllm:time_to_first_token_seconds_bucket{instance="vllm-0",le="0.1"}`, 2)
	awaitValue(t, server, `count(count by (instance) (sglang:num_running_reqs{instance=~"engine-[01]"}))`, 2)
}

// sendVLLM sends the one span that vLLM has for a request.
func sendVLLM(t *testing.T, endpoint string) {
	t.Helper()
	td := largeTrace(1, 1)
	ss := td.ResourceSpans().At(0).ScopeSpans().At(0)
	td.ResourceSpans().At(0).Resource().Attributes().PutStr("service.name", "vllm")
	ss.Scope().SetName("vllm.llm_engine")
	s := ss.Spans().At(0)
	s.SetName(sglang.VLLMRequestSpan)
	s.SetStartTimestamp(1e18)
	s.SetEndTimestamp(1e18 + 2e9)
	for key, value := range map[string]any{
		"gen_ai.request.id": "cmpl-1", "gen_ai.usage.prompt_tokens": 10, "gen_ai.usage.completion_tokens": 20,
		"gen_ai.latency.time_in_queue": 0.1, "gen_ai.latency.time_to_first_token": 0.5, "gen_ai.latency.e2e": 2.0,
		"gen_ai.latency.time_in_model_prefill": 0.4, "gen_ai.latency.time_in_model_decode": 1.5,
	} {
		require.NoError(t, putRaw(s.Attributes(), key, value))
	}
	send(t, endpoint, td)
}

func putRaw(m pcommon.Map, key string, value any) error { return m.PutEmpty(key).FromRaw(value) }

// TestRemoteWrite: metrics leave by remote write, with the engine's names, the
// engine's job and instance, and the requests' histograms.
func TestRemoteWrite(t *testing.T) {
	t.Parallel()
	const page = "metrics-unified-tp1"
	e := engine.Start(t, engine.Page(t, page+".t0"))
	server := prometheus.StartReceiver(t)
	backend := sink.Start(t)
	c := collector.Start(t, collector.Options{
		Config: "remote-write.yaml", Overlay: "receivers: {sglang: {collection_interval: 500ms}}\n",
		Env: append(backend.Env(), "ENGINE=http://"+e.Address, "REMOTE_WRITE_URL="+server.WriteURL()),
	})
	replay(t, grpcProtocol, c.GRPC, "traces-unified-tp4-level3", 1, 2, "--speed", "1000")
	c.Settle(outLimit)
	requests := float64(len(spans.TreeOf(backend.Traces()...).Roots()))
	require.Positive(t, requests)
	awaitValue(t, server, `sum(gen_ai_server_request_duration_count)`, requests)

	e.Show(engine.Page(t, page+".t2"))
	want := map[string]float64{}
	for family, f := range engine.Families(t, engine.Page(t, page+".t2")) {
		if strings.HasPrefix(family, sglang.MetricPrefix) && reports(f) {
			for k, v := range series(f) {
				want[k] = v
			}
		}
	}
	require.NotEmpty(t, want)
	same := func(samples []prometheus.Sample) bool {
		got := map[string]float64{}
		for _, s := range samples {
			delete(s.Labels, "job")
			delete(s.Labels, "instance")
			got[key(s.Labels)] = s.Value
		}
		return len(missing(want, got)) == 0 && len(missing(got, want)) == 0
	}
	all := fmt.Sprintf(`{__name__=~"sglang:.*",job="sglang",instance="%s"}`, e.Address)
	got, ok := server.Await(pageLimit, all, same)
	assert.True(t, ok, "%d series, expected %d", len(got), len(want))

	// An engine that is gone leaves no series behind.
	e.Stop()
	left, ok := server.Await(pageLimit, all, func(s []prometheus.Sample) bool { return len(s) == 0 })
	assert.True(t, ok, "%d series of the engine that is gone", len(left))
	t.Logf("%d series", len(want))
}

// missing are the series of a that b has not, or with another value.
func missing(a, b map[string]float64) []string {
	var out []string
	for k, v := range a {
		if w, ok := b[k]; !ok || v != w {
			out = append(out, k)
		}
	}
	return out
}
