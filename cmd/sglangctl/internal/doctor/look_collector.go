// Copyright The otelcol-sglang Authors
// SPDX-License-Identifier: Apache-2.0

package doctor // import "github.com/otelcol-sglang/otelcol-sglang/cmd/sglangctl/internal/doctor"

import (
	"bytes"
	"context"
	"crypto/tls"
	"fmt"
	"io"
	"net"
	"net/http"
	"strings"
	"time"

	"go.opentelemetry.io/collector/pdata/ptrace/ptraceotlp"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/status"

	own "github.com/otelcol-sglang/otelcol-sglang/cmd/sglangctl/internal/status"
)

// Collector is what a collector's own telemetry said, twice.
type Collector struct {
	URL           string
	Err           error
	Before, After own.Page
}

func (c *Collector) read(ctx context.Context, url string, o Options) {
	c.URL = url
	if c.Before, c.Err = fetch(ctx, url, o.Timeout); c.Err != nil {
		return
	}
	if !pause(ctx, o.Watch) {
		c.Err = ctx.Err()
		return
	}
	c.After, c.Err = fetch(ctx, url, o.Timeout)
}

func fetch(ctx context.Context, url string, timeout time.Duration) (own.Page, error) {
	ctx, cancel := context.WithTimeout(ctx, timeout)
	defer cancel()
	return own.Fetch(ctx, url)
}

// sum is a metric at the second reading.
func (c *Collector) sum(name string, labels ...string) float64 {
	v, _ := c.After.Sum(name, labels...)
	return v
}

// grown is what a counter rose by between the readings.
func (c *Collector) grown(name string, labels ...string) float64 {
	before, _ := c.Before.Sum(name, labels...)
	return max(0, c.sum(name, labels...)-before)
}

func (c *Collector) has(name string) bool {
	_, known := c.After.Sum(name)
	return known
}

// Port is what an OTLP port answered to an export of nothing.
type Port struct {
	Address string
	// Err is nil if the export was taken.
	Err error
	// Listens: somebody takes connections.
	Listens bool
	// TLS: it speaks TLS, so that it could not be asked further.
	TLS bool
	// Auth: it wants credentials.
	Auth bool
}

func lookGRPC(ctx context.Context, address string, timeout time.Duration) *Port {
	if address == "" {
		return nil
	}
	p := &Port{Address: address}
	ctx, cancel := context.WithTimeout(ctx, timeout)
	defer cancel()
	if p.Err = p.exportGRPC(ctx); p.Err == nil {
		p.Listens = true
		return p
	}
	switch status.Code(p.Err) {
	case codes.Unauthenticated, codes.PermissionDenied:
		p.Auth, p.Listens = true, true
	default:
		p.knock()
	}
	return p
}

func (p *Port) exportGRPC(ctx context.Context) error {
	conn, err := grpc.NewClient("passthrough:///"+p.Address,
		grpc.WithTransportCredentials(insecure.NewCredentials()), grpc.WithNoProxy())
	if err != nil {
		return err
	}
	defer conn.Close()
	_, err = ptraceotlp.NewGRPCClient(conn).Export(ctx, ptraceotlp.NewExportRequest())
	return err
}

func lookHTTP(ctx context.Context, client *http.Client, address string) *Port {
	if address == "" {
		return nil
	}
	p := &Port{Address: address}
	if p.Err = p.exportHTTP(ctx, client); p.Err != nil && !p.Auth {
		p.knock()
	}
	p.Listens = p.Listens || p.Err == nil || p.Auth
	return p
}

func (p *Port) exportHTTP(ctx context.Context, client *http.Client) error {
	body, err := ptraceotlp.NewExportRequest().MarshalProto()
	if err != nil {
		return err
	}
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, "http://"+p.Address+"/v1/traces", bytes.NewReader(body))
	if err != nil {
		return err
	}
	req.Header.Set("Content-Type", "application/x-protobuf")
	resp, err := client.Do(req)
	if err != nil {
		return err
	}
	defer resp.Body.Close()
	answer, err := io.ReadAll(io.LimitReader(resp.Body, 256))
	if err != nil {
		return err
	}
	switch resp.StatusCode {
	case http.StatusOK:
		return nil
	case http.StatusUnauthorized, http.StatusForbidden:
		p.Auth = true
	}
	return fmt.Errorf("HTTP status %d: %s", resp.StatusCode, strings.TrimSpace(string(answer)))
}

// knock tells a closed port from one that speaks something else.
func (p *Port) knock() {
	const limit = 2 * time.Second
	dialer := &net.Dialer{Timeout: limit}
	conn, err := dialer.Dial("tcp", p.Address)
	if err != nil {
		return
	}
	_ = conn.Close()
	p.Listens = true
	// Nothing is sent over it: what matters is that it answers.
	secure, err := tls.DialWithDialer(dialer, "tcp", p.Address, &tls.Config{InsecureSkipVerify: true}) //nolint:gosec // see above
	if err != nil {
		// A server that wants the client's certificate refuses after its own hello.
		p.TLS = strings.Contains(err.Error(), "tls: ") && !strings.Contains(err.Error(), "first record does not look like")
		return
	}
	_ = secure.Close()
	p.TLS = true
}
