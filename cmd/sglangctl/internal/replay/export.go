// Copyright The otelcol-sglang Authors
// SPDX-License-Identifier: Apache-2.0

package replay // import "github.com/otelcol-sglang/otelcol-sglang/cmd/sglangctl/internal/replay"

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"strings"
	"time"

	"go.opentelemetry.io/collector/pdata/ptrace"
	"go.opentelemetry.io/collector/pdata/ptrace/ptraceotlp"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/status"
)

// Protocols of OTLP.
const (
	ProtocolGRPC = "grpc"
	ProtocolHTTP = "http"
)

// tracesPath is OTLP/HTTP's path for traces.
const tracesPath = "/v1/traces"

// exporter is one process's connection. Export is called by one goroutine.
type exporter interface {
	// Export returns the number of spans that the receiver refused for good.
	Export(ctx context.Context, traces ptrace.Traces) (refused int64, err error)
	Close() error
}

// retryable marks errors after which OTLP lets a client send again.
type retryable struct{ error }

func (r retryable) Unwrap() error { return r.error }

// dial opens a connection of its own: no proxy, no sharing, no TLS.
func dial(protocol, endpoint string) (exporter, error) {
	switch protocol {
	case ProtocolGRPC:
		conn, err := grpc.NewClient(endpoint,
			grpc.WithTransportCredentials(insecure.NewCredentials()), grpc.WithNoProxy())
		if err != nil {
			return nil, err
		}
		return &grpcExporter{conn: conn, client: ptraceotlp.NewGRPCClient(conn)}, nil
	case ProtocolHTTP:
		if !strings.Contains(endpoint, "://") {
			endpoint = "http://" + endpoint
		}
		if !strings.HasSuffix(endpoint, tracesPath) {
			endpoint = strings.TrimSuffix(endpoint, "/") + tracesPath
		}
		return &httpExporter{url: endpoint, client: &http.Client{Transport: &http.Transport{MaxConnsPerHost: 1}}}, nil
	}
	return nil, fmt.Errorf("protocol must be %s or %s (got %q)", ProtocolGRPC, ProtocolHTTP, protocol)
}

type grpcExporter struct {
	conn   *grpc.ClientConn
	client ptraceotlp.GRPCClient
}

func (e *grpcExporter) Export(ctx context.Context, traces ptrace.Traces) (int64, error) {
	resp, err := e.client.Export(ctx, ptraceotlp.NewExportRequestFromTraces(traces))
	if err == nil {
		return resp.PartialSuccess().RejectedSpans(), nil
	}
	switch status.Code(err) {
	case codes.Canceled, codes.DeadlineExceeded, codes.Aborted, codes.OutOfRange,
		codes.Unavailable, codes.DataLoss, codes.ResourceExhausted:
		return 0, retryable{err}
	}
	return 0, err
}

func (e *grpcExporter) Close() error { return e.conn.Close() }

type httpExporter struct {
	url    string
	client *http.Client
}

func (e *httpExporter) Export(ctx context.Context, traces ptrace.Traces) (int64, error) {
	body, err := ptraceotlp.NewExportRequestFromTraces(traces).MarshalProto()
	if err != nil {
		return 0, err
	}
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, e.url, bytes.NewReader(body))
	if err != nil {
		return 0, err
	}
	req.Header.Set("Content-Type", "application/x-protobuf")
	resp, err := e.client.Do(req)
	if err != nil {
		return 0, retryable{err}
	}
	defer resp.Body.Close()
	const maxAnswer = 64 << 10
	answer, err := io.ReadAll(io.LimitReader(resp.Body, maxAnswer))
	if err != nil {
		return 0, retryable{err}
	}
	return readAnswer(resp.StatusCode, answer)
}

func readAnswer(code int, answer []byte) (int64, error) {
	switch code {
	case http.StatusOK:
		resp := ptraceotlp.NewExportResponse()
		if err := resp.UnmarshalProto(answer); err != nil {
			return 0, fmt.Errorf("answer is not OTLP: %w", err)
		}
		return resp.PartialSuccess().RejectedSpans(), nil
	case http.StatusTooManyRequests, http.StatusBadGateway, http.StatusServiceUnavailable, http.StatusGatewayTimeout:
		return 0, retryable{fmt.Errorf("HTTP status %d", code)}
	}
	return 0, fmt.Errorf("HTTP status %d", code)
}

func (e *httpExporter) Close() error {
	e.client.CloseIdleConnections()
	return nil
}

// retry bounds what a sender does about an export that failed.
type retry struct {
	tries   int
	first   time.Duration
	timeout time.Duration
}

var defaultRetry = retry{tries: 6, first: 250 * time.Millisecond, timeout: 10 * time.Second}

// export sends, and sends again after a retryable error with twice the pause
// each time.
func (r retry) export(ctx context.Context, e exporter, traces ptrace.Traces) (refused int64, err error) {
	pause := r.first
	for try := 1; ; try++ {
		refused, err = r.once(ctx, e, traces)
		if again := (retryable{}); !errors.As(err, &again) || try == r.tries {
			return refused, err
		}
		if !sleep(ctx, pause) {
			return 0, err
		}
		pause *= 2
	}
}

func (r retry) once(ctx context.Context, e exporter, traces ptrace.Traces) (int64, error) {
	ctx, cancel := context.WithTimeout(ctx, r.timeout)
	defer cancel()
	return e.Export(ctx, traces)
}

// sleep returns false where ctx ended first.
func sleep(ctx context.Context, d time.Duration) bool {
	if d <= 0 {
		return ctx.Err() == nil
	}
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-ctx.Done():
		return false
	case <-timer.C:
		return true
	}
}
