// Copyright The otelcol-sglang Authors
// SPDX-License-Identifier: Apache-2.0

// Package scrape asks one engine for its metrics page and for what it is, and
// remembers from page to page what a page alone does not say.
package scrape // import "github.com/otelcol-sglang/otelcol-sglang/receiver/sglangreceiver/internal/scrape"

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/url"

	"github.com/otelcol-sglang/otelcol-sglang/receiver/sglangreceiver/internal/page"
)

// Reason says why a request gave nothing usable.
type Reason string

const (
	ReasonConnect     Reason = "connect"
	ReasonTimeout     Reason = "timeout"
	ReasonStatus      Reason = "http_status"
	ReasonRedirect    Reason = "redirect"
	ReasonContentType Reason = "content_type"
	ReasonEncoding    Reason = "content_encoding"
	ReasonEmpty       Reason = "empty"
	ReasonTruncated   Reason = "truncated"
	ReasonTooLarge    Reason = "too_large"
	ReasonParse       Reason = "parse"
)

// Error is a failed request.
type Error struct {
	Reason Reason
	Status int // HTTP status of ReasonStatus
	Err    error
}

func (e *Error) Error() string { return string(e.Reason) + ": " + e.Err.Error() }

func (e *Error) Unwrap() error { return e.Err }

// PageError is an error of [page.Parse] with its reason.
func PageError(err error) error { return &Error{Reason: ReasonOf(err), Err: err} }

// ReasonOf is the reason of an error of this package or of [page.Parse].
func ReasonOf(err error) Reason {
	var e *Error
	switch {
	case errors.As(err, &e):
		return e.Reason
	case errors.Is(err, page.ErrContentType):
		return ReasonContentType
	case errors.Is(err, page.ErrEmpty):
		return ReasonEmpty
	case errors.Is(err, page.ErrTruncated):
		return ReasonTruncated
	default:
		return ReasonParse
	}
}

// Answer is the body of a good answer. Body is valid until the next Get of its fetcher.
type Answer struct {
	Body        []byte
	ContentType string
	// Framed: the protocol told where the body ends, so that it is whole.
	Framed bool
}

// Fetcher sends GET requests and reads bounded bodies. It is for one goroutine.
type Fetcher struct {
	client   *http.Client
	accept   string
	maxBytes int64
	buf      bytes.Buffer
}

const (
	// AcceptText never asks for OpenMetrics: prometheus_client 0.23 and newer then
	// misspells the samples (`sglang_...`), and not the metadata.
	AcceptText = "text/plain;version=0.0.4"
	AcceptJSON = "application/json"

	maxRedirects = 5
	// keptBuffer is the size to which a buffer is kept though answers are far smaller.
	keptBuffer = 4 << 20
	// sniff is what is read of a refused body, so that its connection can be used again.
	sniff = 4 << 10
)

// NewFetcher returns a fetcher on a copy of the client. Bodies longer than
// maxBytes, after decompression, are refused.
func NewFetcher(client *http.Client, accept string, maxBytes int64) *Fetcher {
	c := *client
	c.CheckRedirect = sameHost
	return &Fetcher{client: &c, accept: accept, maxBytes: maxBytes}
}

var errRedirect = errors.New("redirect")

// sameHost follows redirects within one host only: configured headers and
// credentials are set on every request of the client, wherever it goes.
func sameHost(next *http.Request, via []*http.Request) error {
	from := via[0].URL
	if len(via) > maxRedirects {
		return fmt.Errorf("%w: more than %d", errRedirect, maxRedirects)
	}
	if next.URL.Hostname() != from.Hostname() {
		return fmt.Errorf("%w: to another host", errRedirect)
	}
	sameOrigin := next.URL.Host == from.Host && next.URL.Scheme == from.Scheme
	if !sameOrigin && next.URL.Scheme != "https" {
		return fmt.Errorf("%w: to another port or away from https", errRedirect)
	}
	return nil
}

// Get asks for the URL. Its errors are of type [*Error].
func (f *Fetcher) Get(ctx context.Context, target string) (Answer, error) {
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, target, http.NoBody)
	if err != nil {
		return Answer{}, &Error{Reason: ReasonConnect, Err: err}
	}
	req.Header.Set("Accept", f.accept)
	resp, err := f.client.Do(req)
	if err != nil {
		return Answer{}, requestError(err)
	}
	defer resp.Body.Close()
	if resp.StatusCode != http.StatusOK {
		_, _ = io.CopyN(io.Discard, resp.Body, sniff)
		return Answer{}, &Error{Reason: ReasonStatus, Status: resp.StatusCode, Err: fmt.Errorf("server answered %q", resp.Status)}
	}
	if e := resp.Header.Get("Content-Encoding"); e != "" && e != "identity" {
		return Answer{}, &Error{Reason: ReasonEncoding, Err: fmt.Errorf("cannot decode %.20q", e)}
	}
	return f.read(resp)
}

func (f *Fetcher) read(resp *http.Response) (Answer, error) {
	if resp.ContentLength > f.maxBytes {
		return Answer{}, tooLarge(f.maxBytes)
	}
	if f.buf.Cap() > keptBuffer && f.buf.Cap()/4 > f.buf.Len() {
		f.buf = bytes.Buffer{}
	}
	f.buf.Reset()
	f.buf.Grow(int(max(resp.ContentLength, 0)) + bytes.MinRead)
	n, err := f.buf.ReadFrom(io.LimitReader(resp.Body, f.maxBytes+1))
	switch {
	case err != nil:
		return Answer{}, bodyError(err)
	case n > f.maxBytes:
		return Answer{}, tooLarge(f.maxBytes)
	}
	return Answer{
		Body:        f.buf.Bytes(),
		ContentType: resp.Header.Get("Content-Type"),
		Framed:      resp.ContentLength >= 0 || resp.Uncompressed || len(resp.TransferEncoding) > 0 || resp.ProtoMajor > 1,
	}, nil
}

// bodyError is of a connection that broke after the header.
func bodyError(err error) *Error {
	e := requestError(err)
	if e.Reason == ReasonConnect {
		e.Reason = ReasonTruncated
	}
	return e
}

func tooLarge(limit int64) error {
	return &Error{Reason: ReasonTooLarge, Err: fmt.Errorf("answer is longer than %d bytes", limit)}
}

// requestError leaves the URL out of the error: its query may hold a secret.
func requestError(err error) *Error {
	var u *url.Error
	if errors.As(err, &u) {
		err = u.Err
	}
	var timeout net.Error
	switch {
	case errors.Is(err, context.DeadlineExceeded), errors.As(err, &timeout) && timeout.Timeout():
		return &Error{Reason: ReasonTimeout, Err: err}
	case errors.Is(err, errRedirect):
		return &Error{Reason: ReasonRedirect, Err: err}
	default:
		return &Error{Reason: ReasonConnect, Err: err}
	}
}
