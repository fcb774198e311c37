// Copyright The otelcol-sglang Authors
// SPDX-License-Identifier: Apache-2.0

package scrape

import (
	"compress/gzip"
	"context"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"runtime"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

const limit = 1 << 20

func get(t *testing.T, handler http.HandlerFunc) (Answer, error) {
	t.Helper()
	server := httptest.NewServer(handler)
	t.Cleanup(server.Close)
	return getFrom(t, server, server.URL+"/metrics?key=secret")
}

func getFrom(t *testing.T, server *httptest.Server, url string) (Answer, error) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), 10*time.Second)
	defer cancel()
	return NewFetcher(server.Client(), AcceptText, limit).Get(ctx, url)
}

func TestGet(t *testing.T) {
	a, err := get(t, func(w http.ResponseWriter, r *http.Request) {
		assert.Equal(t, AcceptText, r.Header.Get("Accept"))
		w.Header().Set("Content-Type", contentText)
		_, _ = io.WriteString(w, "a 1\n")
	})
	require.NoError(t, err)
	assert.Equal(t, "a 1\n", string(a.Body))
	assert.Equal(t, contentText, a.ContentType)
	assert.True(t, a.Framed)
}

func TestGetGzip(t *testing.T) {
	a, err := get(t, func(w http.ResponseWriter, r *http.Request) {
		assert.Contains(t, r.Header.Get("Accept-Encoding"), "gzip")
		w.Header().Set("Content-Encoding", "gzip")
		z := gzip.NewWriter(w)
		defer z.Close()
		_, _ = io.WriteString(z, "a 1\n")
	})
	require.NoError(t, err)
	assert.Equal(t, "a 1\n", string(a.Body))
}

func TestGetFollowsRedirect(t *testing.T) {
	for _, code := range []int{http.StatusTemporaryRedirect, http.StatusMovedPermanently} {
		a, err := get(t, func(w http.ResponseWriter, r *http.Request) {
			if r.URL.Path == "/metrics" {
				http.Redirect(w, r, "/metrics/", code)
				return
			}
			assert.Equal(t, AcceptText, r.Header.Get("Accept"))
			_, _ = io.WriteString(w, "a 1\n")
		})
		require.NoError(t, err)
		assert.Equal(t, "a 1\n", string(a.Body))
	}
}

func TestGetErrors(t *testing.T) {
	var elsewhere http.HandlerFunc = func(http.ResponseWriter, *http.Request) { t.Error("credentials left the host") }
	other := httptest.NewServer(elsewhere)
	defer other.Close()
	tests := []struct {
		name    string
		handler http.HandlerFunc
		want    Reason
	}{
		{"status", func(w http.ResponseWriter, _ *http.Request) { http.Error(w, "no", http.StatusInternalServerError) }, ReasonStatus},
		{"redirect loop", func(w http.ResponseWriter, r *http.Request) {
			http.Redirect(w, r, r.URL.Path, http.StatusTemporaryRedirect)
		}, ReasonRedirect},
		{"redirect to another port", func(w http.ResponseWriter, r *http.Request) {
			http.Redirect(w, r, other.URL, http.StatusTemporaryRedirect)
		}, ReasonRedirect},
		{"redirect to another host", func(w http.ResponseWriter, r *http.Request) {
			http.Redirect(w, r, strings.Replace(other.URL, "127.0.0.1", "localhost", 1), http.StatusTemporaryRedirect)
		}, ReasonRedirect},
		{"unknown encoding", func(w http.ResponseWriter, _ *http.Request) { w.Header().Set("Content-Encoding", "br") }, ReasonEncoding},
		{"shorter than announced", func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("Content-Length", "100")
			_, _ = io.WriteString(w, "a 1\n")
		}, ReasonTruncated},
		{"chunks without an end", func(w http.ResponseWriter, _ *http.Request) {
			_, _ = io.WriteString(w, "a 1\n")
			_ = http.NewResponseController(w).Flush()
			panic(http.ErrAbortHandler)
		}, ReasonTruncated},
		{"cut gzip", func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("Content-Encoding", "gzip")
			z := gzip.NewWriter(w)
			_, _ = io.WriteString(z, "a 1\n")
			_ = z.Flush()
		}, ReasonTruncated},
		{"announced too large", func(w http.ResponseWriter, _ *http.Request) { w.Header().Set("Content-Length", "104857600") }, ReasonTooLarge},
		{"too large", func(w http.ResponseWriter, _ *http.Request) {
			for range 100 << 4 {
				if _, err := w.Write(make([]byte, 64<<10)); err != nil {
					return
				}
			}
		}, ReasonTooLarge},
		{"hangs up", func(_ http.ResponseWriter, _ *http.Request) { panic(http.ErrAbortHandler) }, ReasonConnect},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			_, err := get(t, tt.handler)
			require.Error(t, err)
			assert.Equal(t, tt.want, ReasonOf(err), err.Error())
			assert.NotContains(t, err.Error(), "secret")
		})
	}
}

func TestGetTimeout(t *testing.T) {
	for _, when := range []string{"before the header", "in the body"} {
		t.Run(when, func(t *testing.T) {
			server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
				if when == "in the body" {
					_, _ = io.WriteString(w, "a 1\n")
					_ = http.NewResponseController(w).Flush()
				}
				<-r.Context().Done()
			}))
			defer server.Close()
			client := server.Client()
			client.Timeout = 50 * time.Millisecond
			_, err := NewFetcher(client, AcceptText, limit).Get(t.Context(), server.URL)
			assert.Equal(t, ReasonTimeout, ReasonOf(err))
		})
	}
}

func TestGetNobodyThere(t *testing.T) {
	server := httptest.NewServer(http.NotFoundHandler())
	server.Close()
	_, err := getFrom(t, server, server.URL)
	assert.Equal(t, ReasonConnect, ReasonOf(err))
	_, err = getFrom(t, server, "http://\x7f")
	assert.Equal(t, ReasonConnect, ReasonOf(err))
}

// An HTTP/1.0 answer ends with its connection: nothing tells that it is whole.
func TestGetUnframed(t *testing.T) {
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	defer listener.Close()
	served := make(chan struct{})
	go func() {
		defer close(served)
		conn, err := listener.Accept()
		if err != nil {
			return
		}
		defer conn.Close()
		_, _ = conn.Read(make([]byte, 4096))
		fmt.Fprint(conn, "HTTP/1.0 200 OK\r\n\r\na 1\n")
	}()
	a, err := NewFetcher(&http.Client{}, AcceptText, limit).Get(t.Context(), "http://"+listener.Addr().String())
	<-served
	require.NoError(t, err)
	assert.False(t, a.Framed)
}

// TestGetBomb: 1 MB that unpacks to 1 GB.
func TestGetBomb(t *testing.T) {
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	_, err := get(t, func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Encoding", "gzip")
		z := gzip.NewWriter(w)
		line := []byte(strings.Repeat(strings.Repeat("a", 1023)+"\n", 1024))
		for range 1024 {
			if _, err := z.Write(line); err != nil {
				return
			}
		}
		_ = z.Close()
	})
	assert.Equal(t, ReasonTooLarge, ReasonOf(err))
	runtime.ReadMemStats(&after)
	assert.Less(t, after.TotalAlloc-before.TotalAlloc, uint64(32<<20))
}
