// Copyright The otelcol-sglang Authors
// SPDX-License-Identifier: Apache-2.0

package cli

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"go.opentelemetry.io/collector/pdata/ptrace"
	"go.opentelemetry.io/collector/pdata/ptrace/ptraceotlp"
	"go.uber.org/goleak"
	"google.golang.org/grpc"

	"github.com/otelcol-sglang/otelcol-sglang/engine/load"
	"github.com/otelcol-sglang/otelcol-sglang/internal/sglang"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// limit is how long an engine may take for anything.
const limit = 30 * time.Second

// output is written by a command and read by the test.
type output struct {
	mu  sync.Mutex
	buf bytes.Buffer // guarded by mu
}

func (o *output) Write(p []byte) (int, error) {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.buf.Write(p)
}

func (o *output) String() string {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.buf.String()
}

func execute(t *testing.T, args ...string) (string, error) {
	t.Helper()
	var out output
	cmd := New()
	cmd.SetArgs(args)
	cmd.SetOut(&out)
	cmd.SetErr(&out)
	err := cmd.ExecuteContext(t.Context())
	return out.String(), err
}

// running is a command under way.
type running struct {
	*output
	cancel context.CancelFunc
	done   chan error
	once   sync.Once
	err    error
}

// begin runs a command until it is stopped; at the latest the test's end does.
func begin(t *testing.T, args ...string) *running {
	t.Helper()
	ctx, cancel := context.WithCancel(context.Background())
	r := &running{output: &output{}, cancel: cancel, done: make(chan error, 1)}
	cmd := New()
	cmd.SetArgs(args)
	cmd.SetOut(r)
	cmd.SetErr(r)
	go func() { r.done <- cmd.ExecuteContext(ctx) }()
	t.Cleanup(func() { r.stop(t) })
	return r
}

// stop interrupts the command and waits for its end.
func (r *running) stop(t *testing.T) {
	t.Helper()
	r.once.Do(func() {
		r.cancel()
		r.err = <-r.done
	})
	require.NoError(t, r.err, r)
}

var address = regexp.MustCompile(`on (http://[^:]+:\d+):`)

// start starts a simulated engine on any port.
func start(t *testing.T, args ...string) (url string, r *running) {
	t.Helper()
	r = begin(t, append([]string{"--host=localhost", "--port=0"}, args...)...)
	require.Eventually(t, func() bool { return address.MatchString(r.String()) || len(r.done) > 0 }, limit, 5*time.Millisecond)
	found := address.FindStringSubmatch(r.String())
	require.NotNil(t, found, "it did not start: %s", r)
	return found[1], r
}

func get(t *testing.T, url string) string {
	t.Helper()
	resp, err := (&http.Client{Transport: &http.Transport{DisableKeepAlives: true}}).Get(url)
	require.NoError(t, err)
	defer resp.Body.Close()
	text, err := io.ReadAll(resp.Body)
	require.NoError(t, err)
	return string(text)
}

// collector takes spans over OTLP/gRPC.
type collector struct {
	ptraceotlp.UnimplementedGRPCServer
	addr string
	mu   sync.Mutex
	got  []ptrace.Traces // guarded by mu
}

func startCollector(t *testing.T) *collector {
	t.Helper()
	l, err := net.Listen("tcp", "localhost:0")
	require.NoError(t, err)
	c := &collector{addr: l.Addr().String()}
	server := grpc.NewServer()
	ptraceotlp.RegisterGRPCServer(server, c)
	done := make(chan struct{})
	go func() {
		defer close(done)
		_ = server.Serve(l)
	}()
	t.Cleanup(func() {
		server.Stop()
		<-done
	})
	return c
}

// Export implements [ptraceotlp.GRPCServer].
func (c *collector) Export(_ context.Context, r ptraceotlp.ExportRequest) (ptraceotlp.ExportResponse, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.got = append(c.got, r.Traces())
	return ptraceotlp.NewExportResponse(), nil
}

// each visits all spans that came.
func (c *collector) each(visit func(rs ptrace.ResourceSpans, s ptrace.Span)) {
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, td := range c.got {
		for _, rs := range td.ResourceSpans().All() {
			for _, ss := range rs.ScopeSpans().All() {
				for _, s := range ss.Spans().All() {
					visit(rs, s)
				}
			}
		}
	}
}

// roots are the attributes of the requests' roots.
func (c *collector) roots() []map[string]any {
	var all []map[string]any
	c.each(func(_ ptrace.ResourceSpans, s ptrace.Span) {
		if sglang.KindOf(s) == sglang.KindRoot {
			all = append(all, s.Attributes().AsRaw())
		}
	})
	return all
}

func TestMistakesAreNamed(t *testing.T) {
	for _, tc := range []struct {
		name, env, value string
		args             []string
		want             string
	}{
		{name: "size", args: []string{"--tp-size=0"}, want: "tp-size must be from 1 to 1024 (got 0)"},
		{name: "word", args: []string{"--disaggregation-mode=both"}, want: `disaggregation-mode must be one of null, prefill, decode (got "both")`},
		{name: "unknown", args: []string{"--tensor-size=2"}, want: "unknown flag: --tensor-size"},
		{name: "argument", args: []string{"serve"}, want: `unknown command "serve"`},
		{name: "labels", args: []string{`--extra-metric-labels={"a":1}`}, want: "--extra-metric-labels"},
		{name: "fault", args: []string{"--fault=fire"}, want: "fire"},
		{name: "load", args: []string{"--load=chat:speed=1"}, want: `load has no setting "speed"`},
		{name: "load of a half", args: []string{"--disaggregation-mode=prefill", "--disaggregation-bootstrap-port=0", "--load=chat"}, want: "load must be empty with disaggregation-mode"},
		{name: "level", env: envLevel, value: "high", want: `SGLANG_TRACE_LEVEL must be a whole number (got "high")`},
		{name: "window", env: envHitWindow, value: "long", want: `SGLANG_CACHE_HIT_RATE_WINDOW_SECONDS must be a number of seconds (got "long")`},
		{name: "no window", env: envHitWindow, value: "0", want: `SGLANG_CACHE_HIT_RATE_WINDOW_SECONDS must be above 0`},
		{name: "bounds", env: envEviction, value: "1,x", want: `SGLANG_BUCKET_EVICTION_DURATION must be numbers apart by commas (got "1,x")`},
		{name: "timer", env: envDeviceTimer, value: "2", want: `SGLANG_ENABLE_METRICS_DEVICE_TIMER must be true or false (got "2")`},
		{name: "target", args: []string{"load", "--target=localhost:30000"}, want: `target must be a URL such as http://localhost:30000 (got "localhost:30000")`},
		{name: "no target", args: []string{"load", "--target="}, want: `target must be a URL such as http://localhost:30000 (got "")`},
		{name: "prefill", args: []string{"load", "--prefill=ftp://x"}, want: `prefill must be a URL such as http://localhost:30000 (got "ftp://x")`},
		{name: "preset", args: []string{"load", "--load=rush"}, want: `load must be one of`},
	} {
		t.Run(tc.name, func(t *testing.T) {
			if tc.env != "" {
				t.Setenv(tc.env, tc.value)
			}
			args := tc.args
			if len(args) == 0 || args[0] != "load" {
				args = append([]string{"--port=0"}, args...)
			}
			_, err := execute(t, args...)
			require.ErrorContains(t, err, tc.want)
		})
	}
}

func TestHelp(t *testing.T) {
	help, err := execute(t, "--help")
	require.NoError(t, err)
	assert.Contains(t, help, "Prefill-decode disaggregation:\n")
	assert.Contains(t, help, "--tp-size int")
	for _, name := range []string{envLevel, envDeviceTimer, envHitWindow, envEviction, envService, envResource} {
		assert.Contains(t, help, name)
	}
	help, err = execute(t, "load", "--help")
	require.NoError(t, err)
	assert.Contains(t, help, "--prefill string")
	assert.NotContains(t, help, "--tp-size")
	faults, err := execute(t, "--fault=list")
	require.NoError(t, err)
	assert.Contains(t, faults, "slow-rank")
}

func TestFlagsReachTheEngine(t *testing.T) {
	url, r := start(t, "--served-model-name=sim", "--tp-size=4", "--dp-size=2", "--enable-dp-attention",
		"--enable-metrics", `--extra-metric-labels={"team":"search"}`, "--page-size=16", "--fault=stuck:after=1h",
		"--load=chat:rate=1e-6,start=1h")
	var info map[string]any
	require.NoError(t, json.Unmarshal([]byte(get(t, url+"/server_info")), &info))
	assert.Equal(t, "sim", info["served_model_name"])
	assert.EqualValues(t, 4, info["tp_size"])
	assert.EqualValues(t, 2, info["dp_size"])
	assert.Equal(t, true, info["enable_dp_attention"])
	assert.EqualValues(t, 16, info["page_size"])
	assert.Regexp(t, fmt.Sprintf(":%v$", info["port"]), url, "the port that it has, not 0")
	assert.Contains(t, get(t, url+"/metrics"), `team="search"`)
	assert.Contains(t, r.String(), "sim on "+url+": tp 4, dp 2, pp 1, DP attention\n")
	assert.Contains(t, r.String(), "stuck:after=1h")
	r.stop(t)
	assert.Contains(t, r.String(), "what the built-in clients saw:\n0 requests")
}

func TestEnvironment(t *testing.T) {
	c := startCollector(t)
	t.Setenv(envLevel, "1")
	t.Setenv(envService, "engine-of-env")
	t.Setenv(envResource, "team=search, k8s.pod.name=engine-0,broken")
	_, r := start(t, "--enable-trace", "--otlp-traces-endpoint="+c.addr, "--load=chat:rate=0,clients=1,count=1,turns=1,output=4,abort=0")
	require.Eventually(t, func() bool { return len(c.roots()) > 0 }, limit, 10*time.Millisecond)
	assert.Contains(t, r.String(), "to "+c.addr+" at level 1")
	c.each(func(rs ptrace.ResourceSpans, s ptrace.Span) {
		attrs := rs.Resource().Attributes().AsRaw()
		assert.Equal(t, "engine-of-env", attrs["service.name"])
		assert.Equal(t, "search", attrs["team"])
		assert.Equal(t, "engine-0", attrs["k8s.pod.name"])
		assert.NotEqual(t, "decode_loop", s.Name(), "those are of level 3")
	})
}

// What lives when the engine is told to end has ended, and been sent, at its end.
func TestShutdownFlushes(t *testing.T) {
	c := startCollector(t)
	file := filepath.Join(t.TempDir(), "truth.jsonl")
	_, r := start(t, "--tp-size=2", "--enable-trace", "--otlp-traces-endpoint="+c.addr, "--truth="+file,
		"--load=chat:rate=0,clients=4,turns=1,output=60000,spread=0,abort=0,stream=1;embed:rate=0,clients=1,count=20")
	require.Eventually(t, func() bool { return len(c.roots()) >= 20 }, limit, 10*time.Millisecond)
	r.stop(t)
	raw, err := os.ReadFile(file)
	require.NoError(t, err)
	ids := map[string]bool{}
	aborted := 0
	for line := range strings.Lines(string(raw)) {
		var record struct{ ID, Finish string }
		require.NoError(t, json.Unmarshal([]byte(line), &record))
		ids[record.ID] = true
		if record.Finish == "abort" {
			aborted++
		}
	}
	assert.Equal(t, 4, aborted)
	assert.Len(t, ids, 24)
	roots, threads := c.roots(), 0
	assert.Len(t, roots, len(ids))
	for _, root := range roots {
		assert.Contains(t, ids, root[sglang.AttrRequestID])
	}
	c.each(func(_ ptrace.ResourceSpans, s ptrace.Span) {
		if s.Attributes().AsRaw()[sglang.AttrThreadLabel] == "Scheduler" {
			threads++
		}
	})
	assert.Equal(t, 2*len(ids), threads, "both ranks'")
}

// report runs clients and reads what they say at the end.
func report(t *testing.T, args ...string) load.Report {
	t.Helper()
	out, err := execute(t, append([]string{"load", "--json"}, args...)...)
	require.NoError(t, err)
	return parseReport(t, out)
}

func parseReport(t *testing.T, out string) load.Report {
	t.Helper()
	var r load.Report
	require.NoError(t, json.Unmarshal([]byte(out), &r), out)
	return r
}

func TestLoad(t *testing.T) {
	url, _ := start(t, "--api-key=secret", "--time-scale=10")
	const common = "rate=0,clients=2,think=0s,turns=1,abort=0,input=20,prefix=0,spread=0,output=7,count=6"
	for _, spec := range []string{
		"chat:stream=1," + common, "chat:stream=0," + common,
		"chat:kind=generate,stream=1," + common, "chat:kind=generate,stream=0," + common,
		"chat:kind=completion,stream=1," + common, "chat:kind=completion,stream=0," + common,
	} {
		t.Run(spec, func(t *testing.T) {
			r := report(t, "--target="+url, "--api-key=secret", "--load="+spec)
			assert.Equal(t, 6, r.Finished, r.FirstError)
			assert.Equal(t, 6, r.Requests)
			assert.Equal(t, 6*7, r.OutputTokens)
			assert.Equal(t, 6, r.E2E.Count)
			streams := 6 * strings.Count(spec, "stream=1")
			assert.Equal(t, streams, r.TTFT.Count)
			assert.Equal(t, streams, r.TPOT.Count)
		})
		t.Run("3 samples, "+spec, func(t *testing.T) {
			r := report(t, "--target="+url, "--api-key=secret", "--load="+spec+",n=3")
			assert.Equal(t, 6, r.Finished, r.FirstError)
			assert.Equal(t, 3*6*7, r.OutputTokens)
		})
	}
	t.Run("embed", func(t *testing.T) {
		assert.Equal(t, 5, report(t, "--target="+url, "--api-key=secret", "--load=embed:rate=50,count=5").Finished)
	})
	t.Run("refused", func(t *testing.T) {
		r := report(t, "--target="+url, "--api-key=wrong", "--load=embed:rate=50,count=2")
		assert.Equal(t, 2, r.Failed)
		assert.Contains(t, r.FirstError, "status 401")
	})
	t.Run("nobody", func(t *testing.T) {
		r := report(t, "--target=http://localhost:1", "--load=embed:rate=50,count=2")
		assert.Equal(t, 2, r.Failed)
		assert.Contains(t, r.FirstError, "connect")
	})
}

// All requests are accounted for, those under way at the end as aborted.
func TestLoadInterrupted(t *testing.T) {
	url, _ := start(t)
	r := begin(t, "load", "--json", "--target="+url, "--load=chat:rate=0,clients=5,turns=1,output=50000,spread=0,abort=0,stream=1")
	require.Eventually(t, func() bool {
		return strings.Contains(get(t, url+"/v1/loads"), `"num_running_reqs":5`)
	}, limit, 10*time.Millisecond)
	r.stop(t)
	got := parseReport(t, r.String())
	assert.Equal(t, 5, got.Requests)
	assert.Equal(t, 5, got.Aborted, got.FirstError)
	require.Eventually(t, func() bool {
		return strings.Contains(get(t, url+"/v1/loads"), `"num_running_reqs":0`)
	}, limit, 10*time.Millisecond, "the engine does not see that they are gone")
}

// pair starts a prefill and a decode engine.
func pair(t *testing.T, c *collector) (prefill, decode string, stop func()) {
	t.Helper()
	l, err := net.Listen("tcp", "localhost:0")
	require.NoError(t, err)
	_, port, err := net.SplitHostPort(l.Addr().String())
	require.NoError(t, err)
	require.NoError(t, l.Close())
	common := []string{"--tp-size=2", "--enable-trace", "--otlp-traces-endpoint=" + c.addr}
	prefill, p := start(t, append(common, "--disaggregation-mode=prefill", "--disaggregation-bootstrap-port="+port)...)
	decode, d := start(t, append(common, "--disaggregation-mode=decode", "--bootstrap-addr=localhost:"+port)...)
	return prefill, decode, func() {
		d.stop(t)
		p.stop(t)
	}
}

func TestPair(t *testing.T) {
	c := startCollector(t)
	prefill, decode, stop := pair(t, c)
	r := report(t, "--target="+decode, "--prefill="+prefill, "--load=rag:rate=20,count=10,output=3,spread=0.1")
	assert.Equal(t, 10, r.Finished, r.FirstError)
	stop()
	rooms := map[any]int{}
	for _, root := range c.roots() {
		rooms[root[sglang.AttrBootstrapRoom]]++
		assert.NotContains(t, fmt.Sprint(root[sglang.AttrFinishReasons]), "abort", "a half's client is there to its end")
	}
	assert.Len(t, rooms, 10)
	for room, n := range rooms {
		assert.Equal(t, 2, n, "halves of room %v", room)
	}
}

// The decode half of what the prefill engine refuses ends at once, with its reason.
func TestPairRefused(t *testing.T) {
	_, decode, _ := pair(t, startCollector(t))
	r := report(t, "--target="+decode, "--prefill=http://localhost:1", "--load=rag:rate=20,count=2")
	assert.Equal(t, 2, r.Failed)
	assert.Contains(t, r.FirstError, "prefill: ")
}
