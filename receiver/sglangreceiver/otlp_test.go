// Copyright The otelcol-sglang Authors
// SPDX-License-Identifier: Apache-2.0

package sglangreceiver

import (
	"bytes"
	"compress/gzip"
	"context"
	"crypto/tls"
	"encoding/binary"
	"fmt"
	"io"
	"math/rand/v2"
	"net"
	"net/http"
	"net/netip"
	"runtime"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"go.opentelemetry.io/collector/client"
	"go.opentelemetry.io/collector/component"
	"go.opentelemetry.io/collector/component/componentstatus"
	"go.opentelemetry.io/collector/component/componenttest"
	"go.opentelemetry.io/collector/config/configgrpc"
	"go.opentelemetry.io/collector/config/configmiddleware"
	"go.opentelemetry.io/collector/config/configoptional"
	"go.opentelemetry.io/collector/consumer"
	"go.opentelemetry.io/collector/consumer/consumertest"
	"go.opentelemetry.io/collector/extension/extensionmiddleware"
	"go.opentelemetry.io/collector/pdata/plog"
	"go.opentelemetry.io/collector/pdata/plog/plogotlp"
	"go.opentelemetry.io/collector/pdata/pmetric"
	"go.opentelemetry.io/collector/pdata/pmetric/pmetricotlp"
	"go.opentelemetry.io/collector/pdata/ptrace"
	"go.opentelemetry.io/collector/pdata/ptrace/ptraceotlp"
	"go.opentelemetry.io/collector/receiver"
	"go.opentelemetry.io/collector/receiver/receivertest"
	"golang.org/x/net/http2"
	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/metadata"

	sglangmetadata "github.com/otelcol-sglang/otelcol-sglang/receiver/sglangreceiver/internal/metadata"

	"github.com/otelcol-sglang/otelcol-sglang/internal/sglang"
)

const testInstance = "collector-0"

func freeAddress(t testing.TB) string {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	defer l.Close()
	return l.Addr().String()
}

func testSettings() receiver.Settings {
	set := receivertest.NewNopSettings(sglangmetadata.Type)
	set.Resource.Attributes().PutStr(attrServiceInstance, testInstance)
	return set
}

// seen is what a next consumer got of one request.
type seen struct {
	peer string
	info client.Info
}

// running is a receiver with all three signals and real ports.
type running struct {
	grpc, http string
	metrics    consumertest.MetricsSink
	logs       consumertest.LogsSink
	parts      []component.Component

	mu     sync.Mutex
	traces []seen
}

func (r *running) take(ctx context.Context, td ptrace.Traces) error {
	r.mu.Lock()
	defer r.mu.Unlock()
	for _, rs := range td.ResourceSpans().All() {
		peer := ""
		if v, ok := rs.Resource().Attributes().Get(sglang.AttrExporterPeer); ok {
			peer = v.Str()
		}
		r.traces = append(r.traces, seen{peer, client.FromContext(ctx)})
	}
	return nil
}

func (r *running) drain() []seen {
	r.mu.Lock()
	defer r.mu.Unlock()
	out := r.traces
	r.traces = nil
	return out
}

func run(t *testing.T, change func(*Config), host component.Host) *running {
	t.Helper()
	r := &running{grpc: freeAddress(t), http: freeAddress(t)}
	cfg := createDefaultConfig().(*Config)
	cfg.Protocols.GRPC.Get().NetAddr.Endpoint = r.grpc
	cfg.Protocols.HTTP.Get().ServerConfig.NetAddr.Endpoint = r.http
	if change != nil {
		change(cfg)
	}
	next, err := consumer.NewTraces(r.take)
	require.NoError(t, err)
	f, set := NewFactory(), testSettings()
	traces, err := f.CreateTraces(t.Context(), set, cfg, next)
	require.NoError(t, err)
	metrics, err := f.CreateMetrics(t.Context(), set, cfg, &r.metrics)
	require.NoError(t, err)
	logs, err := f.CreateLogs(t.Context(), set, cfg, &r.logs)
	require.NoError(t, err)
	r.parts = []component.Component{traces, metrics, logs}
	for _, p := range r.parts {
		require.NoError(t, p.Start(t.Context(), host))
	}
	t.Cleanup(func() {
		for range 2 {
			for _, p := range r.parts {
				assert.NoError(t, p.Shutdown(context.WithoutCancel(t.Context())))
			}
		}
	})
	return r
}

func spans(peers ...string) ptrace.Traces {
	td := ptrace.NewTraces()
	for _, peer := range peers {
		rs := td.ResourceSpans().AppendEmpty()
		if peer != "" {
			rs.Resource().Attributes().PutStr(sglang.AttrExporterPeer, peer)
		}
		rs.ScopeSpans().AppendEmpty().Spans().AppendEmpty().SetName("decode_loop")
	}
	return td
}

func dial(t *testing.T, target string) (*grpc.ClientConn, *string) {
	t.Helper()
	local := new(string)
	conn, err := grpc.NewClient(target,
		grpc.WithTransportCredentials(insecure.NewCredentials()),
		grpc.WithContextDialer(func(ctx context.Context, addr string) (net.Conn, error) {
			network := "tcp"
			if after, ok := strings.CutPrefix(addr, "unix:"); ok {
				network, addr = "unix", after
			}
			c, err := (&net.Dialer{}).DialContext(ctx, network, addr)
			if err == nil {
				*local = c.LocalAddr().String()
			}
			return c, err
		}))
	require.NoError(t, err)
	t.Cleanup(func() { conn.Close() })
	return conn, local
}

func sendGRPC(t *testing.T, conn *grpc.ClientConn, td ptrace.Traces) {
	t.Helper()
	_, err := ptraceotlp.NewGRPCClient(conn).Export(t.Context(), ptraceotlp.NewExportRequestFromTraces(td))
	require.NoError(t, err)
}

// sender is an HTTP client with one connection.
func sender(t *testing.T) (*http.Client, *string) {
	t.Helper()
	local := new(string)
	transport := &http.Transport{DialContext: func(ctx context.Context, network, addr string) (net.Conn, error) {
		c, err := (&net.Dialer{}).DialContext(ctx, network, addr)
		if err == nil {
			*local = c.LocalAddr().String()
		}
		return c, err
	}}
	t.Cleanup(transport.CloseIdleConnections)
	return &http.Client{Transport: transport}, local
}

func sendHTTP(t *testing.T, c *http.Client, addr string, td ptrace.Traces) {
	t.Helper()
	body, err := ptraceotlp.NewExportRequestFromTraces(td).MarshalProto()
	require.NoError(t, err)
	resp := post(t, c, addr, "", body)
	assert.Equal(t, http.StatusOK, resp)
}

func post(t *testing.T, c *http.Client, addr, encoding string, body []byte) int {
	t.Helper()
	req, err := http.NewRequestWithContext(t.Context(), http.MethodPost, "http://"+addr+"/v1/traces", bytes.NewReader(body))
	require.NoError(t, err)
	req.Header.Set("Content-Type", "application/x-protobuf")
	if encoding != "" {
		req.Header.Set("Content-Encoding", encoding)
	}
	req.Header.Set("X-Scope-OrgID", "tenant")
	resp, err := c.Do(req)
	require.NoError(t, err)
	defer resp.Body.Close()
	_, err = io.Copy(io.Discard, resp.Body)
	require.NoError(t, err)
	return resp.StatusCode
}

func TestPeersGRPC(t *testing.T) {
	r := run(t, nil, componenttest.NewNopHost())
	a, localA := dial(t, r.grpc)
	b, localB := dial(t, r.grpc)
	sendGRPC(t, a, spans("", ""))
	sendGRPC(t, b, spans(""))
	sendGRPC(t, a, spans("agent-7/10.0.0.1:5", ""))
	require.NotEqual(t, *localA, *localB)
	assert.Equal(t, []string{
		testInstance + "/" + *localA, testInstance + "/" + *localA,
		testInstance + "/" + *localB,
		"agent-7/10.0.0.1:5", testInstance + "/" + *localA,
	}, peers(r.drain()))
}

func TestPeersHTTP(t *testing.T) {
	r := run(t, nil, componenttest.NewNopHost())
	a, localA := sender(t)
	b, localB := sender(t)
	sendHTTP(t, a, r.http, spans("", ""))
	sendHTTP(t, b, r.http, spans(""))
	sendHTTP(t, a, r.http, spans("agent-7/10.0.0.1:5", ""))
	require.NotEqual(t, *localA, *localB)
	got := r.drain()
	assert.Equal(t, []string{
		testInstance + "/" + *localA, testInstance + "/" + *localA,
		testInstance + "/" + *localB,
		"agent-7/10.0.0.1:5", testInstance + "/" + *localA,
	}, peers(got))
	// What the Collector says of the client stays as it is.
	assert.IsType(t, &net.IPAddr{}, got[0].info.Addr)
}

func peers(all []seen) []string {
	var out []string
	for _, s := range all {
		out = append(out, s.peer)
	}
	return out
}

func TestMetadataStays(t *testing.T) {
	r := run(t, func(cfg *Config) {
		cfg.Protocols.HTTP.Get().ServerConfig.IncludeMetadata = true
		cfg.Protocols.GRPC.Get().IncludeMetadata = true
	}, componenttest.NewNopHost())
	c, _ := sender(t)
	sendHTTP(t, c, r.http, spans(""))
	conn, _ := dial(t, r.grpc)
	_, err := ptraceotlp.NewGRPCClient(conn).Export(
		metadata.AppendToOutgoingContext(t.Context(), "x-scope-orgid", "tenant"), ptraceotlp.NewExportRequestFromTraces(spans("")))
	require.NoError(t, err)
	got := r.drain()
	require.Len(t, got, 2)
	for _, s := range got {
		assert.Equal(t, []string{"tenant"}, s.info.Metadata.Get("x-scope-orgid"))
	}
}

// fakeHost has a user's own middleware, and takes status reports.
type fakeHost struct {
	extensions map[component.ID]component.Component
	mu         sync.Mutex
	events     []*componentstatus.Event
}

func (h *fakeHost) GetExtensions() map[component.ID]component.Component { return h.extensions }

func (h *fakeHost) Report(e *componentstatus.Event) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.events = append(h.events, e)
}

type userMiddleware struct {
	component.StartFunc
	component.ShutdownFunc
	called *int
}

var _ extensionmiddleware.HTTPServer = userMiddleware{}

func (m userMiddleware) GetHTTPHandler(context.Context) (extensionmiddleware.WrapHTTPHandlerFunc, error) {
	return func(_ context.Context, next http.Handler) (http.Handler, error) {
		return http.HandlerFunc(func(w http.ResponseWriter, req *http.Request) {
			*m.called++
			req.RemoteAddr = "203.0.113.9:1"
			next.ServeHTTP(w, req)
		}), nil
	}, nil
}

func TestUsersMiddlewareAndStatus(t *testing.T) {
	called := 0
	id := component.MustNewID("mine")
	host := &fakeHost{extensions: map[component.ID]component.Component{id: userMiddleware{called: &called}}}
	r := run(t, func(cfg *Config) {
		cfg.Protocols.HTTP.Get().ServerConfig.Middlewares = []configmiddleware.Config{{ID: id}}
	}, host)
	c, local := sender(t)
	sendHTTP(t, c, r.http, spans(""))
	assert.Equal(t, 1, called)
	assert.Equal(t, []string{testInstance + "/" + *local}, peers(r.drain()))
	assert.Len(t, host.extensions, 1, "the host's own map is not touched")
	host.mu.Lock()
	defer host.mu.Unlock()
	require.NotEmpty(t, host.events)
	assert.Equal(t, componentstatus.StatusStarting, host.events[0].Status())
}

// Over a unix socket all processes look alike: no stamp.
func TestUnixSocketHasNoPeer(t *testing.T) {
	path := t.TempDir() + "/s"
	r := run(t, func(cfg *Config) {
		cfg.Protocols.GRPC.Get().NetAddr.Transport = "unix"
		cfg.Protocols.GRPC.Get().NetAddr.Endpoint = path
	}, componenttest.NewNopHost())
	conn, _ := dial(t, "passthrough:unix:"+path)
	sendGRPC(t, conn, spans("", "agent-7/10.0.0.1:5"))
	assert.Equal(t, []string{"", "agent-7/10.0.0.1:5"}, peers(r.drain()))
}

func TestMetricsAndLogsPass(t *testing.T) {
	r := run(t, nil, componenttest.NewNopHost())
	conn, _ := dial(t, r.grpc)
	md := pmetric.NewMetrics()
	md.ResourceMetrics().AppendEmpty().ScopeMetrics().AppendEmpty().Metrics().AppendEmpty().SetEmptyGauge().DataPoints().AppendEmpty()
	_, err := pmetricotlp.NewGRPCClient(conn).Export(t.Context(), pmetricotlp.NewExportRequestFromMetrics(md))
	require.NoError(t, err)
	ld := plog.NewLogs()
	ld.ResourceLogs().AppendEmpty().ScopeLogs().AppendEmpty().LogRecords().AppendEmpty()
	_, err = plogotlp.NewGRPCClient(conn).Export(t.Context(), plogotlp.NewExportRequestFromLogs(ld))
	require.NoError(t, err)
	require.Len(t, r.metrics.AllMetrics(), 1)
	require.Len(t, r.logs.AllLogs(), 1)
	assert.Zero(t, r.metrics.AllMetrics()[0].ResourceMetrics().At(0).Resource().Attributes().Len())
	assert.Zero(t, r.logs.AllLogs()[0].ResourceLogs().At(0).Resource().Attributes().Len())
}

func TestPortInUse(t *testing.T) {
	r := run(t, nil, componenttest.NewNopHost())
	cfg := createDefaultConfig().(*Config)
	cfg.Protocols.GRPC = configoptional.None[configgrpc.ServerConfig]()
	cfg.Protocols.HTTP.Get().ServerConfig.NetAddr.Endpoint = r.http
	c, err := NewFactory().CreateTraces(t.Context(), testSettings(), cfg, consumertest.NewNop())
	require.NoError(t, err)
	require.ErrorContains(t, c.Start(t.Context(), componenttest.NewNopHost()), "address already in use")
	require.NoError(t, c.Shutdown(t.Context()))
}

// A sender that stands still in a request does not hold up the shutdown, over
// either protocol.
func TestShutdownIsBounded(t *testing.T) {
	for _, protocol := range []string{"grpc", "http"} {
		t.Run(protocol, func(t *testing.T) {
			r := run(t, nil, componenttest.NewNopHost())
			addr, head := r.http, "POST /v1/traces HTTP/1.1\r\nHost: x\r\nContent-Type: application/x-protobuf\r\nContent-Length: 100\r\n\r\n"
			var held io.Closer
			if protocol == "http" {
				c, err := net.Dial("tcp", addr)
				require.NoError(t, err)
				_, err = io.WriteString(c, head)
				require.NoError(t, err)
				held = c
			} else {
				conn, _ := dial(t, r.grpc)
				desc := &grpc.StreamDesc{ClientStreams: true}
				_, err := conn.NewStream(t.Context(), desc, "/opentelemetry.proto.collector.trace.v1.TraceService/Export")
				require.NoError(t, err)
				held = conn
			}
			// The server has the stalled request once it has answered a later one.
			c, _ := sender(t)
			sendHTTP(t, c, r.http, spans(""))
			first := r.parts[0].(*part)
			first.grace = 50 * time.Millisecond
			done := make(chan error, 1)
			go func() { done <- first.Shutdown(context.WithoutCancel(t.Context())) }()
			select {
			case err := <-done:
				require.NoError(t, err)
			case <-time.After(20 * time.Second):
				t.Error("shutdown hangs")
			}
			require.NoError(t, held.Close())
		})
	}
}

// TestGarbage: 1 000 connections that send random bytes to each port. The 1 001st is served.
func TestGarbage(t *testing.T) {
	r := run(t, nil, componenttest.NewNopHost())
	rnd := rand.New(rand.NewPCG(1, 2))
	for _, addr := range []string{r.grpc, r.http} {
		for range 1000 {
			garbage := make([]byte, 1+rnd.IntN(512))
			for i := range garbage {
				garbage[i] = byte(rnd.Uint32())
			}
			c, err := net.Dial("tcp", addr)
			require.NoError(t, err)
			_, _ = c.Write(garbage)
			require.NoError(t, c.Close())
		}
	}
	conn, _ := dial(t, r.grpc)
	sendGRPC(t, conn, spans(""))
	c, _ := sender(t)
	sendHTTP(t, c, r.http, spans(""))
	assert.Len(t, r.drain(), 2)
	assert.Equal(t, http.StatusBadRequest, post(t, c, r.http, "", []byte("garbage")))
	assert.Equal(t, http.StatusBadRequest, post(t, c, r.http, "gzip", []byte("garbage")))
}

// bomb is about 1 MB of gzip that unpacks to 1 GiB of zeros.
func bomb(t *testing.T) []byte {
	t.Helper()
	const member = 16 << 20
	var one bytes.Buffer
	z := gzip.NewWriter(&one)
	_, err := z.Write(make([]byte, member))
	require.NoError(t, err)
	require.NoError(t, z.Close())
	return bytes.Repeat(one.Bytes(), (1<<30)/member)
}

func allocated(act func()) uint64 {
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	act()
	runtime.ReadMemStats(&after)
	return after.TotalAlloc - before.TotalAlloc
}

func TestBombHTTP(t *testing.T) {
	r := run(t, nil, componenttest.NewNopHost())
	c, _ := sender(t)
	body := bomb(t)
	used := allocated(func() {
		status := post(t, c, r.http, "gzip", body)
		assert.GreaterOrEqual(t, status, 400)
		assert.Less(t, status, 500)
	})
	assert.Less(t, used, uint64(256<<20))
	sendHTTP(t, c, r.http, spans(""))
	assert.Len(t, r.drain(), 1)
}

func TestBombGRPC(t *testing.T) {
	r := run(t, nil, componenttest.NewNopHost())
	body := bomb(t)
	frame := binary.BigEndian.AppendUint32([]byte{1}, uint32(len(body)))
	transport := &http2.Transport{
		AllowHTTP: true,
		DialTLSContext: func(ctx context.Context, network, addr string, _ *tls.Config) (net.Conn, error) {
			return (&net.Dialer{}).DialContext(ctx, network, addr)
		},
	}
	defer transport.CloseIdleConnections()
	req, err := http.NewRequestWithContext(t.Context(), http.MethodPost,
		fmt.Sprintf("http://%s/opentelemetry.proto.collector.trace.v1.TraceService/Export", r.grpc), bytes.NewReader(append(frame, body...)))
	require.NoError(t, err)
	req.Header.Set("Content-Type", "application/grpc")
	req.Header.Set("Grpc-Encoding", "gzip")
	req.Header.Set("Te", "trailers")
	used := allocated(func() {
		resp, err := transport.RoundTrip(req)
		require.NoError(t, err)
		defer resp.Body.Close()
		_, _ = io.Copy(io.Discard, resp.Body)
		status := resp.Trailer.Get("Grpc-Status") + resp.Header.Get("Grpc-Status")
		assert.Equal(t, "8", status, "resource exhausted")
	})
	assert.Less(t, used, uint64(256<<20))
	conn, _ := dial(t, r.grpc)
	sendGRPC(t, conn, spans(""))
	assert.Len(t, r.drain(), 1)
}

// The stamp of a connection is built once, and costs its resource one attribute.
func TestStampAllocations(t *testing.T) {
	next, err := newStamper(testInstance, consumertest.NewNop())
	require.NoError(t, err)
	ctx := client.NewContext(t.Context(), client.Info{Addr: &net.TCPAddr{IP: net.IPv4(10, 0, 0, 1), Port: 4242}})
	stamped := spans(testInstance + "/10.0.0.1:4242")
	require.NoError(t, next.ConsumeTraces(ctx, stamped))
	assert.Zero(t, testing.AllocsPerRun(100, func() { _ = next.ConsumeTraces(ctx, stamped) }))
	bare := spans("")
	attrs := bare.ResourceSpans().At(0).Resource().Attributes()
	attrs.EnsureCapacity(4)
	assert.LessOrEqual(t, testing.AllocsPerRun(100, func() {
		attrs.Remove(sglang.AttrExporterPeer)
		_ = next.ConsumeTraces(ctx, bare)
	}), 1.0)
}

func TestStampsAreBounded(t *testing.T) {
	s := &stamper{prefix: "c/", stamps: map[netip.AddrPort]string{}}
	for port := range 3 * maxStamps {
		addr := netip.AddrPortFrom(netip.AddrFrom4([4]byte{10, 0, 0, byte(port >> 16)}), uint16(port))
		require.Equal(t, "c/"+addr.String(), s.stampOf(addr))
		require.LessOrEqual(t, len(s.stamps), maxStamps)
	}
}

func TestInstance(t *testing.T) {
	set := componenttest.NewNopTelemetrySettings()
	first := instanceOf(set)
	assert.NotEmpty(t, first)
	assert.Equal(t, first, instanceOf(set), "one for the life of the process")
	set.Resource.Attributes().PutStr(attrServiceInstance, "x")
	assert.Equal(t, "x", instanceOf(set))
}

func BenchmarkStamp(b *testing.B) {
	next, err := newStamper(testInstance, consumertest.NewNop())
	require.NoError(b, err)
	ctx := client.NewContext(b.Context(), client.Info{Addr: &net.TCPAddr{IP: net.IPv4(10, 0, 0, 1), Port: 4242}})
	batch := spans("")
	ss := batch.ResourceSpans().At(0).ScopeSpans().At(0).Spans()
	for ss.Len() < 64 {
		ss.AppendEmpty().SetName("decode_loop")
	}
	attrs := batch.ResourceSpans().At(0).Resource().Attributes()
	attrs.PutStr("service.name", "sglang")
	b.ReportAllocs()
	for b.Loop() {
		attrs.Remove(sglang.AttrExporterPeer)
		_ = next.ConsumeTraces(ctx, batch)
	}
}
