// Copyright The otelcol-sglang Authors
// SPDX-License-Identifier: Apache-2.0

package page

import (
	"compress/gzip"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/otelcol-sglang/otelcol-sglang/engine/args"
)

func TestNegotiation(t *testing.T) {
	e := engineOf(t, unified)
	e.started()
	const (
		text       = "text/plain; version=0.0.4; charset=utf-8"
		broken     = "application/openmetrics-text; version=1.0.0; charset=utf-8; escaping=underscores"
		whole      = "application/openmetrics-text; version=1.0.0; charset=utf-8; escaping=allow-utf-8"
		typeText   = "# TYPE sglang:http_requests_total counter\n"
		typeOM     = "# TYPE sglang:http_requests counter\n"
		colon      = "\nsglang:http_requests_total{"
		underscore = "\nsglang_http_requests_total{"
	)
	for accept, want := range map[string][3]string{
		"":                      {text, typeText, colon},
		"*/*":                   {text, typeText, colon},
		"text/plain":            {text, typeText, colon},
		acceptText:              {text, typeText, colon},
		"text/html, text/plain": {text, typeText, colon},
		acceptOpenMetrics:       {broken, typeOM, underscore},
		acceptOpenMetrics + ";escaping=underscores":         {broken, typeOM, underscore},
		acceptOpenMetrics + ";escaping=allow-utf-8":         {whole, typeOM, colon},
		"application/openmetrics-text;escaping=allow-utf-8": {broken, typeOM, underscore},
		acceptOpenMetrics + ";q=0.1,text/plain;q=0.9":       {broken, typeOM, underscore},
		"text/plain;q=0.1," + acceptOpenMetrics:             {text, typeText, colon},
	} {
		body, contentType := e.get(accept)
		assert.Equal(t, want[0], contentType, accept)
		assert.Contains(t, string(body), want[1], accept)
		assert.Contains(t, string(body), want[2], accept)
		assert.Equal(t, want[0] != text, strings.HasSuffix(string(body), "# EOF\n"), accept)
		assert.NotContains(t, string(body), "_created", accept)
		assert.NotContains(t, string(body), "# HELP", accept)
	}
}

func TestCompressed(t *testing.T) {
	e := engineOf(t, unified)
	e.started()
	plain, _ := e.get(acceptText)
	req := httptest.NewRequest(http.MethodGet, "/metrics", http.NoBody)
	req.Header.Set("Accept-Encoding", "gzip, deflate")
	rec := httptest.NewRecorder()
	e.page.Handler().ServeHTTP(rec, req)
	assert.Equal(t, "gzip", rec.Header().Get("Content-Encoding"))
	z, err := gzip.NewReader(rec.Body)
	require.NoError(t, err)
	body, err := io.ReadAll(z)
	require.NoError(t, err)
	assert.Equal(t, string(plain), string(body))
}

func TestNoPageWithoutMetrics(t *testing.T) {
	e := engineOf(t, func(a *args.Args) { a.EnableMetrics = false })
	rec := httptest.NewRecorder()
	e.page.Handler().ServeHTTP(rec, httptest.NewRequest(http.MethodGet, "/metrics", http.NoBody))
	assert.Equal(t, http.StatusNotFound, rec.Code)
}

// A scrape reads while the loop writes, and never shows a histogram whose count is
// not that of its last bucket.
func TestScrapeWhileTheLoopWrites(t *testing.T) {
	e := engineOf(t, tieredTP4)
	e.started()
	var wg sync.WaitGroup
	stop := make(chan struct{})
	wg.Go(func() {
		for {
			select {
			case <-stop:
				return
			default:
				tieredWork(e)
			}
		}
	})
	for range 20 {
		for _, f := range e.page.store.Gather() {
			for _, m := range f.Metric {
				if h := m.Histogram; h != nil && len(h.Bucket) > 0 {
					assert.LessOrEqual(t, h.Bucket[len(h.Bucket)-1].GetCumulativeCount(), h.GetSampleCount())
				}
			}
		}
		e.get(acceptOpenMetrics)
	}
	close(stop)
	wg.Wait()
	e.page.Restart()
	e.boot()
	e.schedulers[0].Idle(time.Second)
	e.get(acceptText)
}
