// Copyright The otelcol-sglang Authors
// SPDX-License-Identifier: Apache-2.0

package cli

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"go.opentelemetry.io/collector/pdata/ptrace/ptraceotlp"
	"go.uber.org/goleak"
	"google.golang.org/grpc"

	"github.com/otelcol-sglang/otelcol-sglang/cmd/sglangctl/internal/doctor"
	"github.com/otelcol-sglang/otelcol-sglang/cmd/sglangctl/internal/explain"
)

const testCaptures = "../../../../testdata/captures"

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

func execute(t *testing.T, args ...string) (out, errOut string, err error) {
	var o, e bytes.Buffer
	cmd := New()
	cmd.SetArgs(args)
	cmd.SetOut(&o)
	cmd.SetErr(&e)
	err = cmd.ExecuteContext(t.Context())
	return o.String(), e.String(), err
}

func TestMistakesAreNamed(t *testing.T) {
	captures := "--captures-dir=" + testCaptures
	for _, tc := range []struct {
		name string
		args []string
		want string
	}{
		{"no captures", []string{"replay", "--captures-dir=nowhere"}, `captures-dir must hold captures in traces/ (got "nowhere")`},
		{"unknown capture", []string{"replay", captures, "--captures=x"}, `(got "x")`},
		{"repeat", []string{"replay", captures, "--repeat=0"}, "repeat must be at least 1 (got 0)"},
		{"engines", []string{"replay", captures, "--engines=0"}, "engines must be between 1 and 1000 (got 0)"},
		{"speed", []string{"replay", captures, "--speed=0"}, "speed must be greater than 0 (got 0)"},
		{"step", []string{"replay", captures, "--metrics-step=0s"}, "metrics-step must be greater than 0 (got 0s)"},
		{"page", []string{"replay", captures, "--metrics=x"}, "x.t0.prom"},
		{"protocol", []string{"replay", captures, "--metrics=", "--protocol=tcp"}, `protocol must be grpc or http (got "tcp")`},
		{"engine", []string{"up", "--engine=host:30000"}, `engine must be a URL such as http://host:30000 (got "host:30000")`},
		{"every", []string{"up", "--every=0s"}, "every must be greater than 0"},
		{"rate of no replay", []string{"up", "--rate=5"}, `rate goes with --captures (got "5")`},
		{"two feeders", []string{"up", "--pd", "--engine=http://localhost:30000"}, "none of the others can be"},
		{"flags of two engines", []string{"up", "--pd", "--", "--tp-size=2"}, `flags of sglang-sim go with one simulated engine alone (got "--tp-size=2")`},
		{"which request", []string{"trace"}, "name one request: its ID, last or slowest (got 0)"},
		{"unknown flag", []string{"trace", "last", "--fil=x"}, "unknown flag: --fil; see sglangctl trace --help"},
		{"summary's address", []string{"summary", "--url=localhost:8888"}, "url must be a URL such as http://localhost:8888/metrics"},
		{"nobody takes it", []string{"replay", captures, "--captures=traces-embeddings-tp1", "--metrics=", "--protocol=http", "--endpoint=localhost:1", "--speed=1000"}, "does localhost:1 take OTLP over http? (--endpoint, --protocol)"},
		{"no sink", []string{"trace", "last", "--file=nowhere.jsonl"}, "nowhere.jsonl"},
		{"number", []string{"traces", "-n=0"}, "n must be at least 1 (got 0)"},
		{"doctor's engine", []string{"doctor", "--engine=host:30000"}, `engine must be a URL such as http://host:30000 (got "host:30000")`},
		{"doctor's collector", []string{"doctor", "--collector=host"}, `collector must be a URL`},
		{"doctor's want", []string{"doctor", "--want=x"}, `want must be of metrics, trace, ranks, device-timer, cache, speculation, priority, mfu (got "x")`},
		{"doctor's watch", []string{"doctor", "--watch=-1s"}, "watch must not be negative"},
		{"explain nothing", []string{"explain"}, "name a request, or a series with --series"},
		{"explain both", []string{"explain", "last", "--series=x"}, "name a request, or a series with --series"},
		{"explain a series", []string{"explain", "--series={"}, "series must be a name with labels"},
		{"explain's engine", []string{"explain", "--series=x", "--engine=host:1"}, "engine must be a URL"},
		{"no engine", []string{"explain", "--series=x", "--engine=http://localhost:1"}, "the engine's page (--engine)"},
		{"explain no file", []string{"explain", "last", "--file=nowhere.jsonl"}, "nowhere.jsonl"},
		{"no collector", []string{"summary", "--url=http://localhost:1/metrics"}, "is the collector running?"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			_, _, err := execute(t, tc.args...)
			require.ErrorContains(t, err, tc.want)
		})
	}
}

func TestTrace(t *testing.T) {
	raw, err := os.ReadFile(filepath.Join(testCaptures, "traces", "traces-retraction-tp2.jsonl"))
	require.NoError(t, err)
	file := filepath.Join(t.TempDir(), "traces.jsonl")
	require.NoError(t, os.WriteFile(file, append([]byte("broken\n"), raw[:len(raw)-10]...), 0o600))

	out, errOut, err := execute(t, "trace", "48ec", "--file", file)
	require.NoError(t, err)
	assert.Contains(t, out, "request  48ec6aced3982fd90d3027db8cc8b432")
	assert.Equal(t, "left out 1 lines that are no OTLP/JSON\n", errOut)

	out, _, err = execute(t, "traces", "--file", file, "--slowest")
	require.NoError(t, err)
	assert.Contains(t, out, "48ec6aced3982fd9")
}

func TestExplain(t *testing.T) {
	kept := filepath.Join("..", "..", "..", "..", "internal", "pipeline", "testdata", "retraction-tp2.jsonl")
	raw := filepath.Join(testCaptures, "traces", "traces-retraction-tp2.jsonl")

	out, _, err := execute(t, "explain", "48ec", "--file", kept, "--raw", raw)
	require.NoError(t, err)
	assert.Contains(t, out, "request  48ec6aced3982fd90d3027db8cc8b432")
	assert.NotContains(t, out, "✗")

	out, _, err = execute(t, "explain", "48ec", "time_in_queue", "--file", kept, "--json")
	require.NoError(t, err)
	var list []explain.Explanation
	require.NoError(t, json.Unmarshal([]byte(out), &list))
	require.Len(t, list, 1)
	assert.True(t, *list[0].Agrees)

	_, _, err = execute(t, "explain", "48ec", "no_such_thing", "--file", kept)
	require.ErrorContains(t, err, `"no_such_thing"`)
}

// TestInterrupted: Ctrl-C ends what reads a file, and is no verdict of the doctor's.
func TestInterrupted(t *testing.T) {
	file := filepath.Join(testCaptures, "traces", "traces-retraction-tp2.jsonl")
	ctx, interrupt := context.WithCancel(t.Context())
	interrupt()
	for _, args := range [][]string{
		{"trace", "last", "--file", file},
		{"traces", "--file", file},
		{"explain", "last", "--file", file},
		{"doctor", "--engine=http://localhost:1", "--collector=http://localhost:1", "--grpc=localhost:1", "--http=localhost:1"},
	} {
		cmd := New()
		var out bytes.Buffer
		cmd.SetArgs(args)
		cmd.SetOut(&out)
		cmd.SetErr(&out)
		require.ErrorIs(t, cmd.ExecuteContext(ctx), context.Canceled, args[0])
		assert.Regexp(t, `^Error: .*\n$`, out.String(), args[0])
	}
}

// TestEmpty: a file without requests is said to be one.
func TestEmpty(t *testing.T) {
	file := filepath.Join(t.TempDir(), "traces.jsonl")
	require.NoError(t, os.WriteFile(file, nil, 0o600))
	_, errOut, err := execute(t, "traces", "--file", file)
	require.NoError(t, err)
	assert.Contains(t, errOut, "no request has ended yet")
}

// TestExplainSeries: the page and the collector are read; what moves is looked at again.
func TestExplainSeries(t *testing.T) {
	engine := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		_, _ = w.Write([]byte("sglang:num_running_reqs{tp_rank=\"0\"} 5\nsglang:num_running_reqs{tp_rank=\"1\"} 5\n"))
	}))
	defer engine.Close()
	scrapes := 0
	collector := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		scrapes++
		_, _ = fmt.Fprintf(w, "sglang:num_running_reqs{instance=%q} %d\n", engine.Listener.Addr(), min(3+scrapes, 5))
	}))
	defer collector.Close()
	out, _, err := execute(t, "explain", "--series=sglang:num_running_reqs", "--engine", engine.URL,
		"--collector", collector.URL, "--wait=0s")
	require.NoError(t, err)
	assert.Equal(t, 2, scrapes)
	assert.Contains(t, out, "result  5; the collector shows 5\n")
}

// TestDoctorFails: the exit code tells, and each line what to do.
func TestDoctorFails(t *testing.T) {
	out, errOut, err := execute(t, "doctor", "--engine=http://localhost:1", "--collector=http://localhost:1",
		"--grpc=localhost:1", "--http=localhost:1", "--traces=", "--watch=0s", "--timeout=1s")
	require.ErrorContains(t, err, "5 checks failed")
	assert.Empty(t, errOut)
	assert.Contains(t, out, "fail     collector ")
	out, _, err = execute(t, "doctor", "--engine=http://localhost:1", "--collector=http://localhost:1",
		"--grpc=", "--http=", "--traces=", "--watch=0s", "--timeout=1s", "--json")
	require.Error(t, err)
	var r doctor.Report
	require.NoError(t, json.Unmarshal([]byte(out), &r))
	assert.Equal(t, 3, r.Count(doctor.Fail))
}

func TestReplay(t *testing.T) {
	listener, err := net.Listen("tcp", "localhost:0")
	require.NoError(t, err)
	server := grpc.NewServer()
	ptraceotlp.RegisterGRPCServer(server, &ptraceotlp.UnimplementedGRPCServer{})
	done := make(chan struct{})
	go func() {
		defer close(done)
		_ = server.Serve(listener)
	}()
	defer func() {
		server.Stop()
		<-done
	}()
	out, _, err := execute(t, "replay", "--captures-dir", testCaptures, "--captures", "traces-embeddings-tp1",
		"--metrics-listen", "localhost:0", "--endpoint", listener.Addr().String(), "--speed", "1000")
	require.ErrorContains(t, err, "Unimplemented", "not retried: the receiver will never take it")
	assert.Equal(t, "sent 0 spans of 0 requests from 2 processes; 24 could not be sent\n", out)
}

func TestDefaultMixIsThere(t *testing.T) {
	s := &source{captures: testCaptures}
	s.Captures, s.Repeat, s.Engines, s.Speed, s.metricsStep = defaultMix, 1, 1, 1, 1
	require.NoError(t, s.resolve())
	s.Captures = []string{all}
	require.NoError(t, s.resolve())
	assert.Greater(t, len(s.Captures), len(defaultMix))
}

// A flag of up wins over the environment.
func TestPairWinsOverENGINE(t *testing.T) {
	t.Setenv(envEngine, "http://localhost:1")
	_, _, err := execute(t, "up", "--pd", "--data", t.TempDir(), "--sim", "nowhere")
	require.ErrorContains(t, err, "the prefill engine")
}

// What the user says of the engine comes after what stands there by default.
func TestFlagsOfTheEngine(t *testing.T) {
	args := func(d *demo) []string { return newSimulated(d).engines[0].Args }
	assert.Contains(t, args(&demo{}), "--fault=slow-rank:rank=3,after=5s")
	asked := args(&demo{simArgs: []string{"--tp-size=8", "--load=rag"}})
	assert.Equal(t, []string{defaultLoad, "--tp-size=8", "--load=rag"}, asked[len(asked)-3:])
}
