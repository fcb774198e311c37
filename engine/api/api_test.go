// Copyright The otelcol-sglang Authors
// SPDX-License-Identifier: Apache-2.0

package api_test

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"io"
	"net"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"

	"github.com/otelcol-sglang/otelcol-sglang/engine"
	"github.com/otelcol-sglang/otelcol-sglang/engine/args"
	"github.com/otelcol-sglang/otelcol-sglang/engine/trace"
	"github.com/otelcol-sglang/otelcol-sglang/internal/sglang"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// server is an engine that answers HTTP, ten times as fast as real time.
type server struct {
	url   string
	spans *trace.Recorder
	stop  func()
	*http.Client
}

func serve(t *testing.T, change func(a *args.Args)) *server {
	t.Helper()
	a := args.Default()
	a.EnableMetrics, a.EnableTrace, a.TimeScale, a.ServedModelName = true, true, 10, "sim"
	change(&a)
	s := &server{spans: trace.NewRecorder(), Client: &http.Client{Transport: &http.Transport{}}}
	e, err := engine.New(t.Context(), a, engine.Options{Spans: s.spans, LaunchCommand: "sglang-sim"})
	require.NoError(t, err)
	l, err := net.Listen("tcp", "localhost:0")
	require.NoError(t, err)
	s.url = "http://" + l.Addr().String()
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan error, 1)
	go func() { done <- e.Serve(ctx, l) }()
	stopped := false
	s.stop = func() {
		if stopped {
			return
		}
		stopped = true
		s.CloseIdleConnections()
		cancel()
		require.NoError(t, <-done)
	}
	t.Cleanup(s.stop)
	return s
}

func (s *server) do(t *testing.T, method, path, body string, header ...string) (int, string) {
	t.Helper()
	req, err := http.NewRequestWithContext(t.Context(), method, s.url+path, strings.NewReader(body))
	require.NoError(t, err)
	if body != "" {
		req.Header.Set("Content-Type", "application/json")
	}
	for i := 0; i < len(header); i += 2 {
		req.Header.Set(header[i], header[i+1])
	}
	resp, err := s.Do(req)
	require.NoError(t, err)
	defer resp.Body.Close()
	text, err := io.ReadAll(resp.Body)
	require.NoError(t, err)
	return resp.StatusCode, string(text)
}

const hello = `"messages":[{"role":"user","content":"Hello there"}]`

func TestAnswers(t *testing.T) {
	s := serve(t, func(*args.Args) {})
	tests := map[string]struct {
		method, path, body string
		status             int
		contains           string
	}{
		"chat":            {"POST", "/v1/chat/completions", `{` + hello + `,"max_tokens":4,"ignore_eos":true}`, 200, `"completion_tokens":4`},
		"chat, stopped":   {"POST", "/v1/chat/completions", `{` + hello + `,"max_tokens":9,"sim_output_len":3}`, 200, `"finish_reason":"stop","matched_stop":128009`},
		"completion":      {"POST", "/v1/completions", `{"prompt":"Hello","max_tokens":2,"ignore_eos":true}`, 200, `"finish_reason":"length"`},
		"two prompts":     {"POST", "/v1/completions", `{"prompt":["Hello","You"],"max_tokens":2,"n":2}`, 200, `"index":3`},
		"token ids":       {"POST", "/v1/completions", `{"prompt":[300,301,302],"max_tokens":2}`, 200, `"prompt_tokens":3`},
		"parts":           {"POST", "/v1/chat/completions", `{"messages":[{"role":"user","content":[{"type":"text","text":"Hi"}]}],"max_tokens":2}`, 200, `"role":"assistant"`},
		"generate":        {"POST", "/generate", `{"text":"Hello","sampling_params":{"max_new_tokens":3,"ignore_eos":true}}`, 200, `"finish_reason":{"length":3,"type":"length"}`},
		"generate, put":   {"PUT", "/generate", `{"input_ids":[300],"sampling_params":{"max_new_tokens":1}}`, 200, `"prompt_tokens":1`},
		"embeddings":      {"POST", "/v1/embeddings", `{"input":["a","b"],"dimensions":2}`, 200, `"index":1`},
		"base64":          {"POST", "/v1/embeddings", `{"input":"a","dimensions":1,"encoding_format":"base64"}`, 200, `"embedding":"AACAPw=="`},
		"models":          {"GET", "/v1/models", "", 200, `"id":"sim"`},
		"one model":       {"GET", "/v1/models/sim", "", 200, `"max_model_len":131072`},
		"no such model":   {"GET", "/v1/models/meta/other", "", 404, `"code":"model_not_found"`},
		"ready":           {"GET", "/ready", "", 200, ``},
		"server info":     {"GET", "/server_info", "", 200, `"version":"0.5.23"`},
		"old server info": {"GET", "/get_server_info", "", 200, `"tp_size":1`},
		"model info":      {"GET", "/model_info", "", 200, `"is_generation":true`},
		"loads":           {"GET", "/v1/loads", "", 200, `"max_running_requests":256`},
		"loads, page":     {"GET", "/v1/loads?format=prometheus", "", 200, `sglang_num_running_reqs{dp_rank="0"} 0`},
		"loads, wrong":    {"GET", "/v1/loads?include=core,what", "", 400, `Invalid include sections: {'what'}`},
		"loads, rank":     {"GET", "/v1/loads?dp_rank=x", "", 400, `dp_rank`},
		"level":           {"POST", "/set_trace_level?level=3", "", 200, "success"},
		"no level":        {"POST", "/set_trace_level", "", 400, "level"},
		"negative level":  {"GET", "/set_trace_level?level=-1", "", 400, "level"},
		"flush":           {"POST", "/flush_cache", "", 200, "Cache flushed."},
		"abort nobody":    {"POST", "/abort_request", `{"rid":"nobody"}`, 200, ""},
		"no json":         {"POST", "/v1/chat/completions", `{`, 400, "JSON decode error"},
		"no messages":     {"POST", "/v1/chat/completions", `{"messages":[]}`, 400, "Messages cannot be empty"},
		"no role":         {"POST", "/v1/chat/completions", `{"messages":[{"content":"x"}]}`, 400, "role: Field required"},
		"wrong type":      {"POST", "/v1/completions", `{"prompt":"x","max_tokens":"many"}`, 400, "max_tokens"},
		"no prompt":       {"POST", "/v1/completions", `{}`, 400, "Prompt cannot be empty"},
		"temperature":     {"POST", "/v1/completions", `{"prompt":"x","temperature":-1}`, 400, "temperature must be non-negative, got -1."},
		"top_p":           {"POST", "/v1/completions", `{"prompt":"x","top_p":1.5}`, 400, "top_p must be in (0, 1], got 1.5."},
		"n":               {"POST", "/v1/completions", `{"prompt":"x","n":0}`, 400, "n must be between 1 and 128, got 0."},
		"too long":        {"POST", "/v1/completions", `{"prompt":"x","max_tokens":999999}`, 400, "maximum context length of 131072 tokens"},
		"no text":         {"POST", "/generate", `{}`, 400, `"error":{"message":"Either text, input_ids`},
		"method":          {"GET", "/v1/completions", "", 405, "Method Not Allowed"},
		"path":            {"GET", "/v1/nothing", "", 404, "Not Found"},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			status, body := s.do(t, tt.method, tt.path, tt.body)
			assert.Equal(t, tt.status, status, body)
			assert.Contains(t, body, tt.contains)
		})
	}
}

func TestMediaType(t *testing.T) {
	s := serve(t, func(*args.Args) {})
	status, body := s.do(t, "POST", "/v1/completions", `{"prompt":"x"}`, "Content-Type", "text/plain")
	assert.Equal(t, http.StatusBadRequest, status)
	assert.Contains(t, body, "Only 'application/json' is allowed")
}

func TestTooLarge(t *testing.T) {
	s := serve(t, func(*args.Args) {})
	status, _ := s.do(t, "POST", "/v1/completions", `{"prompt":"`+strings.Repeat("x", 33<<20)+`"}`)
	assert.Equal(t, http.StatusRequestEntityTooLarge, status)
}

func TestAPIKey(t *testing.T) {
	s := serve(t, func(a *args.Args) { a.APIKey = "secret" })
	for path, open := range map[string]bool{"/v1/models": false, "/server_info": false, "/metrics": true, "/ready": true} {
		status, _ := s.do(t, "GET", path, "")
		assert.Equal(t, open, status == http.StatusOK, "%s: %d", path, status)
		status, _ = s.do(t, "GET", path, "", "Authorization", "Bearer secret")
		assert.Equal(t, http.StatusOK, status, path)
	}
	status, _ := s.do(t, "GET", "/v1/models", "", "Authorization", "Bearer other")
	assert.Equal(t, http.StatusUnauthorized, status)
}

// events reads a stream to its end.
func events(t *testing.T, r io.Reader) []string {
	t.Helper()
	var all []string
	lines := bufio.NewScanner(r)
	for lines.Scan() {
		if data, ok := strings.CutPrefix(lines.Text(), "data: "); ok {
			all = append(all, data)
		}
	}
	require.NoError(t, lines.Err())
	return all
}

func TestStreams(t *testing.T) {
	s := serve(t, func(*args.Args) {})
	_, body := s.do(t, "POST", "/v1/chat/completions", `{`+hello+`,"max_tokens":3,"ignore_eos":true,"stream":true,"stream_options":{"include_usage":true}}`)
	ev := events(t, strings.NewReader(body))
	require.Len(t, ev, 1+3+1+1+1) // role, tokens, finish, usage, done
	assert.Contains(t, ev[0], `"role":"assistant","content":""`)
	assert.Contains(t, ev[4], `"finish_reason":"length"`)
	assert.Contains(t, ev[5], `"choices":[],"usage":{"prompt_tokens":11,"total_tokens":14,"completion_tokens":3`)
	assert.Equal(t, "[DONE]", ev[6])

	_, body = s.do(t, "POST", "/v1/completions", `{"prompt":"Hello","max_tokens":2,"ignore_eos":true,"stream":true,"n":2}`)
	ev = events(t, strings.NewReader(body))
	require.Len(t, ev, 2*2+1)

	_, body = s.do(t, "POST", "/generate", `{"text":"Hello","stream":true,"sampling_params":{"max_new_tokens":3,"ignore_eos":true}}`)
	ev = events(t, strings.NewReader(body))
	require.Len(t, ev, 3+1)
	var last struct {
		OutputIDs []int32 `json:"output_ids"`
		Meta      struct {
			Completion int `json:"completion_tokens"`
		} `json:"meta_info"`
	}
	require.NoError(t, json.Unmarshal([]byte(ev[2]), &last))
	assert.Len(t, last.OutputIDs, 3)
	assert.Equal(t, 3, last.Meta.Completion)
}

// A client that hangs up ends its request.
func TestHangUp(t *testing.T) {
	s := serve(t, func(a *args.Args) { a.TimeScale = 1 })
	ctx, cancel := context.WithCancel(t.Context())
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, s.url+"/v1/completions",
		strings.NewReader(`{"prompt":"Hello","max_tokens":50000,"ignore_eos":true,"stream":true}`))
	require.NoError(t, err)
	req.Header.Set("Content-Type", "application/json")
	resp, err := s.Do(req)
	require.NoError(t, err)
	_, err = bufio.NewReader(resp.Body).ReadString('\n')
	require.NoError(t, err)
	cancel()
	resp.Body.Close()
	require.Eventually(t, func() bool {
		_, page := s.do(t, "GET", "/metrics", "")
		return strings.Contains(page, "sglang:num_aborted_requests_total{") && s.idle(t)
	}, 20*time.Second, 20*time.Millisecond)
}

// idle tells whether no request runs.
func (s *server) idle(t *testing.T) bool {
	t.Helper()
	_, loads := s.do(t, "GET", "/v1/loads", "")
	return strings.Contains(loads, `"num_running_reqs":0,"num_waiting_reqs":0`)
}

func TestAbort(t *testing.T) {
	s := serve(t, func(a *args.Args) { a.TimeScale = 1 })
	answer := make(chan string, 1)
	go func() {
		resp, err := s.Post(s.url+"/generate", "application/json",
			strings.NewReader(`{"rid":"mine","text":"Hello","sampling_params":{"max_new_tokens":50000,"ignore_eos":true}}`))
		if err != nil {
			answer <- err.Error()
			return
		}
		defer resp.Body.Close()
		b, _ := io.ReadAll(resp.Body)
		answer <- string(b)
	}()
	require.Eventually(t, func() bool { return !s.idle(t) }, 10*time.Second, 5*time.Millisecond)
	status, _ := s.do(t, "POST", "/abort_request", `{"rid":"mine"}`)
	assert.Equal(t, http.StatusOK, status)
	assert.Contains(t, <-answer, `"type":"abort"`)
	status, body := s.do(t, "POST", "/flush_cache", "")
	assert.Equal(t, http.StatusOK, status, body)
}

// The queue is full: 503, or an error inside a stream that had begun.
func TestQueueFull(t *testing.T) {
	s := serve(t, func(a *args.Args) { a.TimeScale, a.MaxRunningRequests, a.MaxQueuedRequests = 1, 1, 1 })
	long := `{"text":"Hello","sampling_params":{"max_new_tokens":50000,"ignore_eos":true}}`
	for range 2 {
		go func() {
			if resp, err := s.Post(s.url+"/generate", "application/json", strings.NewReader(long)); err == nil {
				_ = resp.Body.Close()
			}
		}()
	}
	require.Eventually(t, func() bool {
		_, loads := s.do(t, "GET", "/v1/loads", "")
		return strings.Contains(loads, `"num_running_reqs":1,"num_waiting_reqs":1`)
	}, 10*time.Second, 5*time.Millisecond)
	status, body := s.do(t, "POST", "/v1/completions", `{"prompt":"x"}`)
	assert.Equal(t, http.StatusServiceUnavailable, status, body)
	assert.Contains(t, body, "The request queue is full.")
	status, body = s.do(t, "POST", "/v1/chat/completions", `{`+hello+`,"stream":true}`)
	assert.Equal(t, http.StatusOK, status, body)
	assert.Contains(t, body, `"type":"SERVICE_UNAVAILABLE"`)
	s.do(t, "POST", "/abort_request", `{"abort_all":true}`)
	require.Eventually(t, func() bool { return s.idle(t) }, 10*time.Second, 5*time.Millisecond)
}

func TestHTTPMetrics(t *testing.T) {
	s := serve(t, func(*args.Args) {})
	s.do(t, "POST", "/v1/completions", `{"prompt":"x","max_tokens":1}`, "X-SMG-Routing-Key", "a")
	s.do(t, "GET", "/v1/models/none", "")
	_, page := s.do(t, "GET", "/metrics", "")
	for _, line := range []string{
		`sglang:http_requests_total{endpoint="/v1/completions",method="POST"} 1`,
		`sglang:http_responses_total{endpoint="/v1/completions",method="POST",status_code="200"} 1`,
		`sglang:http_responses_total{endpoint="/v1/models/{model:path}",method="GET",status_code="404"} 1`,
		`sglang:http_requests_active{endpoint="/v1/completions",method="POST"} 0`,
		`sglang:http_requests_active{endpoint="/metrics",method="GET"} 1`,
		`sglang:routing_keys_active 0`,
		`sglang:num_requests_total{engine_type="unified",is_streaming="false",model_name="sim"} 1`,
	} {
		assert.Contains(t, page, line+"\n")
	}
}

func TestNoMetrics(t *testing.T) {
	s := serve(t, func(a *args.Args) { a.EnableMetrics = false })
	status, _ := s.do(t, "GET", "/metrics", "")
	assert.Equal(t, http.StatusNotFound, status)
}

// A probe takes a second; it is a request of one token with a root of its own.
func TestHealth(t *testing.T) {
	s := serve(t, func(*args.Args) {})
	status, body := s.do(t, "GET", "/health", "")
	assert.Equal(t, http.StatusOK, status)
	assert.Empty(t, body)
	s.stop()
	assert.Contains(t, s.names(), " Req ")
}

// names are those of all spans, one after the other.
func (s *server) names() string {
	var b bytes.Buffer
	for _, x := range s.spans.Exports() {
		for _, rs := range x.Traces.ResourceSpans().All() {
			for _, ss := range rs.ScopeSpans().All() {
				for _, span := range ss.Spans().All() {
					b.WriteString(span.Name() + "\n")
				}
			}
		}
	}
	return b.String()
}

// The caller's trace goes on in the engine; a caller that does not sample is
// obeyed, and a header that is none is as if it were absent.
func TestTraceparent(t *testing.T) {
	s := serve(t, func(*args.Args) {})
	const id = "4bf92f3577b34da6a3ce929d0e0e4736"
	body := `{"text":"Hello","sampling_params":{"max_new_tokens":1}}`
	s.do(t, "POST", "/generate", body, "Traceparent", "00-"+id+"-00f067aa0ba902b7-01")
	s.do(t, "POST", "/generate", body, "Traceparent", "00-5bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-00")
	s.do(t, "POST", "/generate", body, "Traceparent", "nonsense")
	s.stop()
	traces := map[string]bool{}
	roots := 0
	for _, x := range s.spans.Exports() {
		for _, rs := range x.Traces.ResourceSpans().All() {
			for _, ss := range rs.ScopeSpans().All() {
				for _, span := range ss.Spans().All() {
					traces[span.TraceID().String()] = true
					if sglang.KindOf(span) == sglang.KindRoot {
						roots++
					}
				}
			}
		}
	}
	assert.Len(t, traces, 2)
	assert.True(t, traces[id])
	assert.Equal(t, 2, roots)
}

// n samples: the parent's root shows no usage, each sample has one of its own.
func TestSamples(t *testing.T) {
	s := serve(t, func(*args.Args) {})
	_, body := s.do(t, "POST", "/v1/chat/completions", `{`+hello+`,"max_tokens":4,"n":3}`)
	assert.Equal(t, 3, strings.Count(body, `"role":"assistant"`))
	s.stop()
	with, without := 0, 0
	for _, x := range s.spans.Exports() {
		for _, rs := range x.Traces.ResourceSpans().All() {
			for _, ss := range rs.ScopeSpans().All() {
				for _, span := range ss.Spans().All() {
					if sglang.KindOf(span) != sglang.KindRoot {
						continue
					}
					if _, ok := span.Attributes().Get(sglang.AttrCompletionTokens); ok {
						with++
					} else {
						without++
					}
				}
			}
		}
	}
	assert.Equal(t, 3, with)
	assert.Equal(t, 1, without)
}

// Streams leave at the engine's times: tokens of a real-time engine are apart.
func TestStreamsInTime(t *testing.T) {
	s := serve(t, func(a *args.Args) { a.TimeScale = 0.5 })
	resp, err := s.Post(s.url+"/v1/completions", "application/json",
		strings.NewReader(`{"prompt":"Hello","max_tokens":100,"ignore_eos":true,"stream":true}`))
	require.NoError(t, err)
	defer resp.Body.Close()
	var first time.Time
	lines := bufio.NewScanner(resp.Body)
	for lines.Scan() {
		if first.IsZero() {
			first = time.Now()
		}
	}
	// 99 steps of this model take more than 300 ms, and here twice as long.
	assert.Greater(t, time.Since(first), 200*time.Millisecond)
}

// What would overflow, or be taken for what stood before, is refused.
func TestHostileBodies(t *testing.T) {
	s := serve(t, func(*args.Args) {})
	for path, bodies := range map[string][]string{
		"/v1/completions": {
			`{"prompt":"x","max_tokens":9223372036854775807,"ignore_eos":true}`,
			`{"prompt":null}`, `{"prompt":["x",null]}`, `{"prompt":[]}`, `{"prompt":[[]]}`, `{"prompt":{}}`,
			`{"prompt":"x","n":9223372036854775807}`, `{"prompt":"x","n":-1}`,
		},
		"/v1/chat/completions": {`{` + hello + `,"max_tokens":9223372036854775807}`, `{"messages":[{}]}`, `[]`, `null`},
		"/generate":            {`{"text":null,"input_ids":null}`, `{"input_ids":[[1],null]}`, `{"text":"x","sampling_params":{"max_new_tokens":9223372036854775807}}`},
		"/v1/embeddings":       {`{"input":null}`, `{"input":["x",null]}`},
	} {
		for _, body := range bodies {
			status, answer := s.do(t, "POST", path, body)
			assert.Equal(t, http.StatusBadRequest, status, "%s %s: %s", path, body, answer)
		}
	}
	assert.True(t, s.idle(t))
}

// An abort while the prompt of n samples waits answers with the end of all.
func TestAbortOfSamples(t *testing.T) {
	s := serve(t, func(a *args.Args) { a.TimeScale, a.MaxRunningRequests = 1, 1 })
	answers := make(chan string, 2)
	for _, body := range []string{
		`{"rid":"first","text":"Hello","sampling_params":{"max_new_tokens":50000,"ignore_eos":true}}`,
		`{"rid":"samples","text":"Hello","sampling_params":{"max_new_tokens":5,"n":2}}`,
	} {
		go func() {
			resp, err := s.Post(s.url+"/generate", "application/json", strings.NewReader(body))
			if err != nil {
				answers <- err.Error()
				return
			}
			defer resp.Body.Close()
			b, _ := io.ReadAll(resp.Body)
			answers <- string(b)
		}()
		require.Eventually(t, func() bool { return !s.idle(t) }, 10*time.Second, 5*time.Millisecond)
	}
	require.Eventually(t, func() bool {
		_, loads := s.do(t, "GET", "/v1/loads", "")
		return strings.Contains(loads, `"num_running_reqs":1,"num_waiting_reqs":1`)
	}, 10*time.Second, 5*time.Millisecond)
	s.do(t, "POST", "/abort_request", `{"rid":"samples"}`)
	assert.Equal(t, 2, strings.Count(<-answers, `"type":"abort"`))
	s.do(t, "POST", "/abort_request", `{"abort_all":true}`)
	assert.Equal(t, 1, strings.Count(<-answers, `"type":"abort"`))
}
