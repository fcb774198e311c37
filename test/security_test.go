// Copyright The otelcol-sglang Authors
// SPDX-License-Identifier: Apache-2.0

package e2e

import (
	"bytes"
	"context"
	"crypto/tls"
	"fmt"
	"io"
	"log"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"go.opentelemetry.io/collector/pdata/pcommon"
	"go.opentelemetry.io/collector/pdata/ptrace"
	"go.opentelemetry.io/collector/pdata/ptrace/ptraceotlp"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/credentials"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/status"
	"gopkg.in/yaml.v3"

	"github.com/otelcol-sglang/otelcol-sglang/test/internal/certs"
	"github.com/otelcol-sglang/otelcol-sglang/test/internal/collector"
	"github.com/otelcol-sglang/otelcol-sglang/test/internal/engine"
	"github.com/otelcol-sglang/otelcol-sglang/test/internal/sender"
	"github.com/otelcol-sglang/otelcol-sglang/test/internal/sink"
	"github.com/otelcol-sglang/otelcol-sglang/test/internal/spans"
	"github.com/otelcol-sglang/otelcol-sglang/test/internal/tool"
)

// Tokens of config/security/bearer.yaml. They must be in no log.
const (
	clientToken  = "client-secret-4711"
	engineToken  = "engine-secret-4711"
	backendToken = "backend-secret-4711"
	headerSecret = "header-secret-4711"
	bearer       = "Bearer "
)

// access is how a client comes to a listener; without TLS if that is nil.
type access struct {
	tls   *tls.Config
	token string
}

func (a access) url(address, path string) string {
	if a.tls == nil {
		return "http://" + address + path
	}
	return "https://" + address + path
}

// export sends a span over gRPC.
func (a access) export(address string) error {
	creds := insecure.NewCredentials()
	if a.tls != nil {
		creds = credentials.NewTLS(a.tls)
	}
	conn, err := grpc.NewClient(address, grpc.WithTransportCredentials(creds), grpc.WithNoProxy())
	if err != nil {
		return err
	}
	defer conn.Close()
	const limit = 5 * time.Second
	ctx, cancel := context.WithTimeout(context.Background(), limit)
	defer cancel()
	if a.token != "" {
		ctx = metadata.AppendToOutgoingContext(ctx, "authorization", bearer+a.token)
	}
	_, err = ptraceotlp.NewGRPCClient(conn).Export(ctx, ptraceotlp.NewExportRequestFromTraces(largeTrace(1, 1)))
	return err
}

// do asks over HTTP and fails unless the answer is 200.
func (a access) do(method, url string, body []byte) error {
	req, err := http.NewRequest(method, url, bytes.NewReader(body))
	if err != nil {
		return err
	}
	req.Header.Set("Content-Type", "application/x-protobuf")
	if a.token != "" {
		req.Header.Set("Authorization", bearer+a.token)
	}
	client := &http.Client{Timeout: 5 * time.Second, Transport: &http.Transport{TLSClientConfig: a.tls}}
	defer client.CloseIdleConnections()
	resp, err := client.Do(req)
	if err != nil {
		return err
	}
	defer resp.Body.Close()
	if resp.StatusCode != http.StatusOK {
		return fmt.Errorf("HTTP status %d", resp.StatusCode)
	}
	return nil
}

// listeners are all that config/security makes secure, with what opens each.
func listeners(c *collector.Collector) map[string]func(access) error {
	return map[string]func(access) error{
		"OTLP gRPC": func(a access) error { return a.export(c.GRPC) },
		"OTLP HTTP": func(a access) error { return a.do(http.MethodPost, a.url(c.HTTP, "/v1/traces"), nil) },
		"metrics":   func(a access) error { return a.do(http.MethodGet, a.url(c.Metrics, "/metrics"), nil) },
		"health": func(a access) error {
			_, address, _ := strings.Cut(c.HealthURL(), "//")
			return a.do(http.MethodGet, a.url(strings.TrimSuffix(address, "/"), "/"), nil)
		},
	}
}

func checkAccess(t *testing.T, c *collector.Collector, good access, bad map[string]access) {
	t.Helper()
	for listener, try := range listeners(c) {
		require.NoError(t, try(good), listener)
		for who, a := range bad {
			assert.Error(t, try(a), "%s takes %s", listener, who)
		}
	}
}

// secured is a collector with an overlay of config/security, with parts around it
// that ask for credentials too.
type secured struct {
	*collector.Collector
	authority, stranger *certs.Authority
	// scraped counts the scrapes of an engine with the right credentials, fooled what
	// an engine with a stranger's certificate was asked.
	scraped, fooled atomic.Int64
	backend         *guarded
}

func startSecured(t *testing.T, name string, token bool, more string) *secured {
	t.Helper()
	s := &secured{authority: certs.New(t), stranger: certs.New(t)}
	files := t.TempDir()
	env := []string{"TLS_DIR=" + s.authority.Dir}
	for key, text := range map[string]string{"CLIENT_TOKENS": clientToken, "ENGINE_TOKEN": engineToken, "BACKEND_TOKEN": backendToken} {
		file := filepath.Join(files, key)
		require.NoError(t, os.WriteFile(file, []byte(text+"\n"), 0o600))
		env = append(env, key+"="+file)
	}
	s.backend = startGuarded(t, s.authority, token)
	page := engine.Page(t, "metrics-unified-tp1.t1")
	own := serveTLS(t, s.authority, func(w http.ResponseWriter, r *http.Request) {
		if token && r.Header.Get("Authorization") != bearer+engineToken {
			w.WriteHeader(http.StatusUnauthorized)
			return
		}
		_, _ = fmt.Fprint(w, page)
		s.scraped.Add(1)
	})
	strange := serveTLS(t, s.stranger, func(http.ResponseWriter, *http.Request) { s.fooled.Add(1) })
	env = append(env, "ENGINE=https://"+own, "STRANGER=https://"+strange, "OTLP_ENDPOINT="+s.backend.address, "HEADER_SECRET="+headerSecret)
	raw, err := os.ReadFile(filepath.Join(tool.Root(), "config", "security", name))
	require.NoError(t, err)
	client := s.authority.Client(s.authority)
	o := collector.Options{Config: "agent.yaml", Overlay: merge(t, string(raw), more), Env: env, TLS: client}
	if token {
		o.Token = clientToken
	}
	s.Collector = collector.Start(t, o)
	return s
}

// merge puts YAML on top of other YAML, as the Collector does: maps are merged.
func merge(t *testing.T, texts ...string) string {
	t.Helper()
	all := map[string]any{}
	for _, text := range texts {
		var one map[string]any
		require.NoError(t, yaml.Unmarshal([]byte(text), &one))
		mergeInto(all, one)
	}
	raw, err := yaml.Marshal(all)
	require.NoError(t, err)
	return string(raw)
}

func mergeInto(to, from map[string]any) {
	for key, value := range from {
		below, both := to[key].(map[string]any)
		if more, ok := value.(map[string]any); ok && both {
			mergeInto(below, more)
			continue
		}
		to[key] = value
	}
}

// serveTLS is an engine's web server, which asks for a certificate of its authority.
func serveTLS(t *testing.T, a *certs.Authority, handle http.HandlerFunc) (address string) {
	t.Helper()
	address = tool.Address(tool.FreePort(t))
	server := &http.Server{Handler: handle, ErrorLog: log.New(io.Discard, "", 0)}
	l := tls.NewListener(tool.Listen(t, address), serverTLS(a))
	go func() { _ = server.Serve(l) }()
	t.Cleanup(func() { _ = server.Close() })
	return address
}

func serverTLS(a *certs.Authority) *tls.Config {
	return &tls.Config{
		Certificates: []tls.Certificate{a.Certificate("server")}, MinVersion: tls.VersionTLS12,
		ClientAuth: tls.VerifyClientCertIfGiven, ClientCAs: a.Pool,
	}
}

// guarded is a backend with TLS, which takes only those who show its token or, without
// one, a certificate.
type guarded struct {
	ptraceotlp.UnimplementedGRPCServer
	address string
	token   bool
	taken   atomic.Int64
}

func startGuarded(t *testing.T, a *certs.Authority, token bool) *guarded {
	t.Helper()
	g := &guarded{address: tool.Address(tool.FreePort(t)), token: token}
	conf := serverTLS(a)
	if !token {
		conf.ClientAuth = tls.RequireAndVerifyClientCert
	}
	server := grpc.NewServer(grpc.Creds(credentials.NewTLS(conf)))
	ptraceotlp.RegisterGRPCServer(server, g)
	l := tool.Listen(t, g.address)
	go func() { _ = server.Serve(l) }()
	t.Cleanup(server.Stop)
	return g
}

// Export implements the service.
func (g *guarded) Export(ctx context.Context, req ptraceotlp.ExportRequest) (ptraceotlp.ExportResponse, error) {
	md, _ := metadata.FromIncomingContext(ctx)
	if g.token && strings.Join(md.Get("authorization"), "") != bearer+backendToken {
		return ptraceotlp.NewExportResponse(), status.Error(codes.Unauthenticated, "no token")
	}
	g.taken.Add(int64(req.Traces().SpanCount()))
	return ptraceotlp.NewExportResponse(), nil
}

// checkAround: what the collector asks and what it sends to have its credentials, and
// it trusts no stranger.
func (s *secured) checkAround(t *testing.T) {
	t.Helper()
	assert.True(t, until(func() bool { return s.scraped.Load() > 0 }), "the engine is scraped")
	assert.True(t, until(func() bool { return s.backend.taken.Load() > 0 }), "the backend gets spans")
	assert.Zero(t, s.fooled.Load(), "an engine with a stranger's certificate was asked")
}

// twoEngines adds an engine that has a stranger's certificate.
const twoEngines = `
receivers:
  sglang:
    collection_interval: 500ms
    engines:
      - endpoint: ${env:ENGINE}
        tls: &tls {ca_file: "${env:TLS_DIR}/ca.crt", cert_file: "${env:TLS_DIR}/tls.crt", key_file: "${env:TLS_DIR}/tls.key"}
        %[1]s
      - endpoint: ${env:STRANGER}
        tls: *tls
        %[1]s
`

const engineCredentials = `auth: {authenticator: bearertokenauth/engine}
        headers: {x-secret: "${env:HEADER_SECRET}"}`

// TestBearer: with config/security/bearer.yaml no listener takes one without TLS,
// without the token, or with another one; clients check who they speak to. And no
// token gets into the log, whatever is logged.
func TestBearer(t *testing.T) {
	t.Parallel()
	s := startSecured(t, "bearer.yaml", true, merge(t, fmt.Sprintf(twoEngines, engineCredentials), debugLog))
	checkAccess(t, s.Collector, access{s.authority.Client(nil), clientToken}, map[string]access{
		"plain text":    {nil, clientToken},
		"no token":      {s.authority.Client(nil), ""},
		"a wrong token": {s.authority.Client(nil), "guess"},
		"another one's": {s.authority.Client(nil), engineToken},
	})
	for listener, try := range listeners(s.Collector) {
		require.ErrorContains(t, try(access{s.stranger.Client(nil), clientToken}), "x509", "the client of %s trusts another authority", listener)
	}
	s.checkAround(t)
	s.Stop()
	written := s.WholeLog()
	require.Contains(t, written, "debug\t", "debug level")
	for _, secret := range []string{clientToken, engineToken, backendToken, headerSecret} {
		assert.NotContains(t, written, secret)
	}
}

const debugLog = `
service: {telemetry: {logs: {level: debug}}}
`

// TestMutualTLS: with config/security/mtls.yaml no listener takes one without a
// certificate of the authority.
func TestMutualTLS(t *testing.T) {
	t.Parallel()
	s := startSecured(t, "mtls.yaml", false, fmt.Sprintf(twoEngines, "timeout: 2s"))
	checkAccess(t, s.Collector, access{tls: s.authority.Client(s.authority)}, map[string]access{
		"plain text":                {},
		"no certificate":            {tls: s.authority.Client(nil)},
		"a stranger's certificate":  {tls: s.authority.Client(s.stranger)},
		"one who trusts a stranger": {tls: s.stranger.Client(s.authority)},
	})
	s.checkAround(t)
}

// TestTooLarge: a request above 20 MiB is refused over both protocols.
func TestTooLarge(t *testing.T) {
	t.Parallel()
	backend := sink.Start(t)
	c := agent(t, backend, "")
	td := largeTrace(1, 1)
	const limit = 20 << 20
	td.ResourceSpans().At(0).Resource().Attributes().PutStr("k", strings.Repeat("x", limit))
	conn, err := grpc.NewClient(c.GRPC, grpc.WithTransportCredentials(insecure.NewCredentials()), grpc.WithNoProxy())
	require.NoError(t, err)
	defer conn.Close()
	req := ptraceotlp.NewExportRequestFromTraces(td)
	_, err = ptraceotlp.NewGRPCClient(conn).Export(context.Background(), req)
	assert.Equal(t, codes.ResourceExhausted, status.Code(err), "%v", err)
	raw, err := req.MarshalProto()
	require.NoError(t, err)
	require.ErrorContains(t, access{}.do(http.MethodPost, "http://"+c.HTTP+"/v1/traces", raw), "HTTP status 4")
	assert.Zero(t, backend.Count())
	assert.True(t, c.Healthy())
}

// prompt is what a user wrote, in all values that must not leave.
const prompt = "my-secret-prompt-4711"

// patch puts a prompt on all spans, events and links, as a changed engine would, and
// libraries beside it.
func patch(td ptrace.Traces, more ...string) {
	put := func(attrs pcommon.Map) {
		for _, key := range append(more, "gen_ai.prompt", "gen_ai.input.messages", "user.id", "enduser.id", "http.request.header.authorization") {
			attrs.PutStr(key, prompt)
		}
	}
	for _, rs := range td.ResourceSpans().All() {
		rs.Resource().Attributes().PutStr("process.command_args", prompt)
	}
	for s := range spans.All(td) {
		put(s.Attributes())
		for _, e := range s.Events().All() {
			put(e.Attributes())
		}
		for _, l := range s.Links().All() {
			put(l.Attributes())
		}
	}
}

// toSink makes a configuration of Kafka's side end in a sink and begin at OTLP.
var toSink = map[string]string{
	"agent-kafka.yaml": `
exporters: {otlp_grpc: {endpoint: "${env:OTLP_ENDPOINT}", tls: {insecure: true}}}
service: {pipelines: {traces: {exporters: [otlp_grpc]}}}
`,
	"gateway-kafka.yaml": `
receivers: {sglang: {protocols: {grpc: {endpoint: "localhost:%d"}}}}
service: {pipelines: {traces: {receivers: [sglang]}}}
`,
}

// TestPrivate: of each configuration that ships: it listens on this machine only, and
// what a changed engine says of prompts and users does not leave, while what the
// engine says as it ships does.
func TestPrivate(t *testing.T) {
	files, err := filepath.Glob(filepath.Join(tool.Root(), "config", "*.yaml"))
	require.NoError(t, err)
	require.NotEmpty(t, files)
	for _, file := range files {
		name := filepath.Base(file)
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			testPrivate(t, name)
		})
	}
}

func testPrivate(t *testing.T, name string) {
	backend := sink.Start(t)
	o := collector.Options{Config: name, Overlay: toSink[name], Env: append(backend.Env(),
		"OTLP_ENDPOINT_0="+backend.Address, "OTLP_ENDPOINT_1="+backend.Address)}
	if base, ok := overlays[name]; ok {
		raw, err := os.ReadFile(filepath.Join(tool.Root(), "config", name))
		require.NoError(t, err)
		o.Config, o.Overlay = base, string(raw)
	}
	port := 0
	if strings.Contains(o.Overlay, "%d") {
		port = tool.FreePort(t)
		o.Overlay = fmt.Sprintf(o.Overlay, port)
	}
	c := collector.Start(t, o)
	listens := c.Listeners()
	assert.NotEmpty(t, listens)
	for _, at := range listens {
		assert.True(t, at.Addr().IsLoopback(), "listens at %s", at)
	}
	to := c.GRPC
	if port != 0 {
		to = tool.Address(port)
	}
	// Errors, for a sampling tier keeps those.
	for i, x := range sender.Load(t, "traces-abort-tp2") {
		td := sender.Salted(x.Traces, uint64(len(name)))
		patch(td, "note", "sglang.request.prompt", "text")
		send(t, to, td)
		if i == 0 {
			other := largeTrace(1, 1)
			patch(other)
			send(t, to, other)
		}
	}
	own := c.Settle(outLimit)
	assert.Positive(t, own["processor_genai_stripped_attributes"])
	var out []ptrace.Traces
	if !until(func() bool {
		if out = backend.Traces(); len(out) == 0 {
			out = written(t, c)
		}
		return len(out) > 0 && len(spans.TreeOf(out...).Roots()) > 0
	}) {
		t.Fatal("nothing left")
	}
	for _, td := range out {
		raw, err := new(ptrace.JSONMarshaler).MarshalTraces(td)
		require.NoError(t, err)
		assert.NotContains(t, string(raw), prompt)
	}
	if page, err := c.Page(); err == nil { // not all have one
		assert.NotContains(t, page, prompt)
	}
	assert.NotContains(t, c.WholeLog(), prompt)
}
