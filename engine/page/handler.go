// Copyright The otelcol-sglang Authors
// SPDX-License-Identifier: Apache-2.0

package page // import "github.com/otelcol-sglang/otelcol-sglang/engine/page"

import (
	"bytes"
	"compress/gzip"
	"io"
	"mime"
	"net/http"
	"strings"

	dto "github.com/prometheus/client_model/go"
	"github.com/prometheus/common/expfmt"
	"github.com/prometheus/common/model"

	"github.com/otelcol-sglang/otelcol-sglang/internal/sglang"
)

const (
	mediaOpenMetrics = "application/openmetrics-text"
	mediaText        = "text/plain"

	contentTypeText = "text/plain; version=0.0.4; charset=utf-8"
	// contentTypeOpenMetrics lacks the escaping.
	contentTypeOpenMetrics = "application/openmetrics-text; version=1.0.0; charset=utf-8; escaping="
)

// exposition is what a scraper asked for.
type exposition struct {
	openMetrics bool
	// utf8: names stay as they are. Otherwise prometheus_client 0.23 and newer
	// spells samples with an underscore, and the metadata with the colon.
	utf8 bool
}

// negotiate chooses as prometheus_client does: the first media type it knows, in
// the header's order, whatever the weights.
func negotiate(accept string) exposition {
	for part := range strings.SplitSeq(accept, ",") {
		media, params, err := mime.ParseMediaType(part)
		switch {
		case err != nil:
		case media == mediaOpenMetrics:
			return exposition{openMetrics: true, utf8: params[model.EscapingKey] == model.AllowUTF8 && params["version"] != ""}
		case media == mediaText:
			return exposition{}
		}
	}
	return exposition{}
}

func (e exposition) contentType() string {
	switch {
	case !e.openMetrics:
		return contentTypeText
	case e.utf8:
		return contentTypeOpenMetrics + model.AllowUTF8
	default:
		return contentTypeOpenMetrics + model.EscapeUnderscores
	}
}

// Handler serves the page. It answers 404 where metrics are off.
func (p *Page) Handler() http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if !p.args.EnableMetrics || p.store == nil {
			http.NotFound(w, r)
			return
		}
		e := negotiate(r.Header.Get("Accept"))
		w.Header().Set("Content-Type", e.contentType())
		var body bytes.Buffer
		if err := e.write(&body, p.store.Gather()); err != nil {
			http.Error(w, err.Error(), http.StatusInternalServerError)
			return
		}
		send(w, r, body.Bytes())
	})
}

// send compresses for those who ask for it, as prometheus_client does.
func send(w http.ResponseWriter, r *http.Request, body []byte) {
	if !strings.Contains(r.Header.Get("Accept-Encoding"), "gzip") {
		_, _ = w.Write(body)
		return
	}
	w.Header().Set("Content-Encoding", "gzip")
	z := gzip.NewWriter(w)
	_, _ = z.Write(body)
	_ = z.Close()
}

func (e exposition) write(w io.Writer, families []*dto.MetricFamily) error {
	format := expfmt.NewFormat(expfmt.TypeTextPlain)
	if e.openMetrics {
		format = expfmt.NewFormat(expfmt.TypeOpenMetrics)
	}
	enc := expfmt.NewEncoder(w, format.WithEscapingScheme(model.NoEscaping))
	if e.openMetrics && !e.utf8 {
		return e.writeMisspelt(w, families)
	}
	for _, f := range families {
		if err := enc.Encode(f); err != nil {
			return err
		}
	}
	if c, ok := enc.(expfmt.Closer); ok {
		return c.Close()
	}
	return nil
}

// writeMisspelt writes samples with an underscore under metadata with a colon.
func (e exposition) writeMisspelt(w io.Writer, families []*dto.MetricFamily) error {
	var buf bytes.Buffer
	for _, f := range families {
		misspelt := strings.Replace(f.GetName(), sglang.MetricPrefix, "sglang_", 1)
		f.Name = &misspelt
		buf.Reset()
		if _, err := expfmt.MetricFamilyToOpenMetrics(&buf, f); err != nil {
			return err
		}
		if _, err := w.Write(bytes.Replace(buf.Bytes(), []byte("# TYPE sglang_"), []byte("# TYPE "+sglang.MetricPrefix), 1)); err != nil {
			return err
		}
	}
	_, err := expfmt.FinalizeOpenMetrics(w)
	return err
}
