// Copyright The otelcol-sglang Authors
// SPDX-License-Identifier: Apache-2.0

package e2e

import (
	"bytes"
	"compress/gzip"
	"context"
	"crypto/rand"
	"fmt"
	"io"
	"net"
	"net/http"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/status"

	"github.com/otelcol-sglang/otelcol-sglang/test/internal/collector"
	"github.com/otelcol-sglang/otelcol-sglang/test/internal/sink"
	"github.com/otelcol-sglang/otelcol-sglang/test/internal/spans"
)

// memoryLimit is agent.yaml's limit_mib: what strangers send must not need it.
const memoryLimit = 512 << 20

// stillWorks: the collector is up, small, and takes an engine's spans.
func stillWorks(t *testing.T, c *collector.Collector, backend *sink.Sink) {
	t.Helper()
	rss, peak := c.Memory()
	t.Logf("resident memory %d MiB, at most %d MiB", rss>>20, peak>>20)
	assert.Less(t, peak, int64(memoryLimit))
	require.False(t, c.Exited())
	require.True(t, c.Healthy())
	const capture, seed = "traces-unified-tp4-level3", 1
	for _, protocol := range []string{grpcProtocol, httpProtocol} {
		in, _ := replayed(t, capture, seed+len(protocol)+int(protocol[0]), 1)
		had := backend.Count()
		replay(t, protocol, endpoint(c, protocol), capture, seed+len(protocol)+int(protocol[0]), 1)
		out, own := await(t, c, backend, had+len(in.Kept().Spans))
		spans.CheckKept(t, in, out.Of(in))
		assert.Empty(t, own.Losses())
	}
}

// TestGarbage: strangers send what is not OTLP, and leave connections open.
func TestGarbage(t *testing.T) {
	t.Parallel()
	backend := sink.Start(t)
	c := agent(t, backend, keepSteps)
	const connections, atOnce = 1000, 100
	var wait sync.WaitGroup
	slots := make(chan struct{}, atOnce)
	for i := range connections {
		wait.Add(1)
		slots <- struct{}{}
		go func() {
			defer func() { <-slots; wait.Done() }()
			address := c.GRPC
			if i%2 == 1 {
				address = c.HTTP
			}
			throw(t, address, garbage(i/2))
		}()
	}
	wait.Wait()
	for i := range 100 {
		conn, err := net.Dial("tcp", []string{c.GRPC, c.HTTP}[i%2])
		require.NoError(t, err)
		defer conn.Close()
		_, err = conn.Write(garbage(i)[:2])
		require.NoError(t, err)
	}
	resp, err := http.Post("http://"+c.HTTP+"/v1/traces", "application/x-protobuf", bytes.NewReader(garbage(0)))
	require.NoError(t, err)
	assert.Equal(t, http.StatusBadRequest, resp.StatusCode)
	require.NoError(t, resp.Body.Close())
	stillWorks(t, c, backend)
}

// garbage is one of the things that strangers say.
func garbage(n int) []byte {
	noise := make([]byte, 4096)
	_, _ = rand.Read(noise) // never fails
	const preface = "PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n"
	switch n % 6 {
	case 0:
		return noise
	case 1:
		return append([]byte(preface), noise...)
	case 2: // an empty SETTINGS frame, then noise
		return append([]byte(preface+"\x00\x00\x00\x04\x00\x00\x00\x00\x00"), noise...)
	case 3:
		return append([]byte("POST /v1/traces HTTP/1.1\r\nHost: x\r\nContent-Type: application/x-protobuf\r\nContent-Length: 4096\r\n\r\n"), noise...)
	case 4:
		return append([]byte("POST /v1/traces HTTP/1.1\r\nHost: x\r\nContent-Encoding: gzip\r\nContent-Length: 99999999999\r\n\r\n"), noise...)
	default:
		return []byte("\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03 hello over TLS")
	}
}

// throw sends, reads what comes within a short time, and hangs up.
func throw(t *testing.T, address string, what []byte) {
	conn, err := net.Dial("tcp", address)
	if err != nil {
		t.Error(err)
		return
	}
	defer conn.Close()
	const patience = 200 * time.Millisecond
	_ = conn.SetDeadline(time.Now().Add(patience))
	_, _ = conn.Write(what)
	_, _ = io.Copy(io.Discard, conn)
}

// bomb is a gzip of about 1 MB that unpacks to 1 GiB.
func bomb(t *testing.T) []byte {
	t.Helper()
	var b bytes.Buffer
	w := gzip.NewWriter(&b)
	block := make([]byte, 1<<20)
	for range 1 << 10 {
		_, err := w.Write(block)
		require.NoError(t, err)
	}
	require.NoError(t, w.Close())
	return b.Bytes()
}

// packed is a codec and compressor that sends what it was given as gzip.
type packed struct{ raw []byte }

func (packed) Name() string                     { return "gzip" }
func (p packed) Marshal(any) ([]byte, error)    { return []byte{0}, nil }
func (packed) Unmarshal([]byte, any) error      { return nil }
func (p packed) Do(w io.Writer, _ []byte) error { _, err := w.Write(p.raw); return err }
func (packed) Type() string                     { return "gzip" }

// rawCodec names no subtype of the content.
type rawCodec struct{ packed }

func (rawCodec) Name() string { return "proto" }

func TestBombs(t *testing.T) {
	t.Parallel()
	backend := sink.Start(t)
	c := agent(t, backend, keepSteps)
	raw := bomb(t)
	require.Less(t, len(raw), 2<<20)
	const atOnce = 8
	var wait sync.WaitGroup
	for range atOnce {
		wait.Go(func() { overGRPC(t, c.GRPC, raw) })
		wait.Go(func() { overHTTP(t, c.HTTP, raw) })
	}
	wait.Wait()
	stillWorks(t, c, backend)
}

func overGRPC(t *testing.T, address string, raw []byte) {
	conn, err := grpc.NewClient(address, grpc.WithTransportCredentials(insecure.NewCredentials()), grpc.WithNoProxy(),
		grpc.WithCompressor(packed{raw}), //nolint:staticcheck // the only way to send a body that is compressed already
		grpc.WithDefaultCallOptions(grpc.ForceCodec(rawCodec{}), grpc.MaxCallSendMsgSize(64<<20)))
	if err != nil {
		t.Error(err)
		return
	}
	defer conn.Close()
	const limit = 30 * time.Second
	ctx, cancel := context.WithTimeout(context.Background(), limit)
	defer cancel()
	err = conn.Invoke(ctx, "/opentelemetry.proto.collector.trace.v1.TraceService/Export", &struct{}{}, &struct{}{})
	assert.Equal(t, codes.ResourceExhausted, status.Code(err), "%v", err)
}

func overHTTP(t *testing.T, address string, raw []byte) {
	req, err := http.NewRequest(http.MethodPost, fmt.Sprintf("http://%s/v1/traces", address), bytes.NewReader(raw))
	if err != nil {
		t.Error(err)
		return
	}
	req.Header.Set("Content-Type", "application/x-protobuf")
	req.Header.Set("Content-Encoding", "gzip")
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		t.Error(err)
		return
	}
	defer resp.Body.Close()
	assert.GreaterOrEqual(t, resp.StatusCode, http.StatusBadRequest)
	assert.Less(t, resp.StatusCode, http.StatusInternalServerError)
}
