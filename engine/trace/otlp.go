// Copyright The otelcol-sglang Authors
// SPDX-License-Identifier: Apache-2.0

package trace // import "github.com/otelcol-sglang/otelcol-sglang/engine/trace"

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"time"

	"go.opentelemetry.io/collector/pdata/ptrace"
	"go.opentelemetry.io/collector/pdata/ptrace/ptraceotlp"
	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials/insecure"
)

// Protocols of OTEL_EXPORTER_OTLP_TRACES_PROTOCOL that the engine knows.
const (
	ProtocolGRPC = "grpc"
	ProtocolHTTP = "http/protobuf"
)

// NewOTLP returns a sink for the engine's endpoint: host:port for gRPC, a whole URL
// for HTTP. "" is gRPC.
func NewOTLP(protocol, endpoint string) (Sink, error) {
	switch protocol {
	case ProtocolGRPC, "":
		return grpcSink{endpoint: endpoint}, nil
	case ProtocolHTTP:
		if u, err := url.Parse(endpoint); err != nil || u.Host == "" {
			return nil, fmt.Errorf("endpoint must be a URL for %s (got %q)", ProtocolHTTP, endpoint)
		}
		return httpSink{url: endpoint}, nil
	}
	return nil, fmt.Errorf("protocol must be %s or %s (got %q)", ProtocolGRPC, ProtocolHTTP, protocol)
}

type grpcSink struct{ endpoint string }

func (s grpcSink) Open(Process) (Exporter, error) {
	conn, err := grpc.NewClient(s.endpoint,
		grpc.WithTransportCredentials(insecure.NewCredentials()), grpc.WithNoProxy())
	if err != nil {
		return nil, err
	}
	return &grpcExporter{conn: conn, client: ptraceotlp.NewGRPCClient(conn)}, nil
}

type grpcExporter struct {
	conn   *grpc.ClientConn
	client ptraceotlp.GRPCClient
}

func (e *grpcExporter) Export(ctx context.Context, td ptrace.Traces) error {
	_, err := e.client.Export(ctx, ptraceotlp.NewExportRequestFromTraces(td), grpc.WaitForReady(true))
	return err
}

func (e *grpcExporter) Close() error { return e.conn.Close() }

type httpSink struct{ url string }

func (s httpSink) Open(Process) (Exporter, error) {
	return &httpExporter{url: s.url, client: &http.Client{Transport: &http.Transport{MaxConnsPerHost: 1}}}, nil
}

type httpExporter struct {
	url    string
	client *http.Client
}

// retryAfter is the first wait of HTTP retries; each doubles the last.
const retryAfter = time.Second

func (e *httpExporter) Export(ctx context.Context, td ptrace.Traces) error {
	body, err := ptraceotlp.NewExportRequestFromTraces(td).MarshalProto()
	if err != nil {
		return err
	}
	for wait := retryAfter; ; wait *= 2 {
		again, err := e.post(ctx, body)
		if !again {
			return err
		}
		select {
		case <-ctx.Done():
			return err
		case <-time.After(wait):
		}
	}
}

// post says whether the same request may be sent again.
func (e *httpExporter) post(ctx context.Context, body []byte) (again bool, err error) {
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, e.url, bytes.NewReader(body))
	if err != nil {
		return false, err
	}
	req.Header.Set("Content-Type", "application/x-protobuf")
	resp, err := e.client.Do(req)
	if err != nil {
		return true, err
	}
	defer resp.Body.Close()
	if _, err := io.Copy(io.Discard, resp.Body); err != nil {
		return true, err
	}
	switch {
	case resp.StatusCode == http.StatusOK:
		return false, nil
	case resp.StatusCode == http.StatusTooManyRequests, resp.StatusCode >= http.StatusInternalServerError:
		return true, fmt.Errorf("status %s", resp.Status)
	}
	return false, fmt.Errorf("status %s", resp.Status)
}

func (e *httpExporter) Close() error {
	e.client.CloseIdleConnections()
	return nil
}
