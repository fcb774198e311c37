// Copyright The otelcol-sglang Authors
// SPDX-License-Identifier: Apache-2.0

package page // import "github.com/otelcol-sglang/otelcol-sglang/receiver/sglangreceiver/internal/page"

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"mime"

	"github.com/prometheus/common/model"
	"github.com/prometheus/prometheus/model/labels"
	"github.com/prometheus/prometheus/model/textparse"

	"github.com/otelcol-sglang/otelcol-sglang/internal/sglang"
)

const (
	mediaText        = "text/plain"
	mediaOpenMetrics = "application/openmetrics-text"
	// maxErrorText bounds what of a broken page gets into an error.
	maxErrorText = 200
)

var (
	// ErrContentType: the answer is no metrics page.
	ErrContentType = errors.New("content type is not that of a metrics page")
	// ErrEmpty: the page has no sample.
	ErrEmpty = errors.New("page has no samples")
	// ErrTruncated: the page does not end as a whole page does.
	ErrTruncated = errors.New("page is cut off")
	// ErrSyntax: the page cannot be parsed.
	ErrSyntax = errors.New("page cannot be parsed")
)

var (
	openMetricsEnd  = []byte("# EOF\n")
	openMetricsEnd2 = []byte("# EOF")
)

// MediaType gives the media type of a page's Content-Type header, where none
// means text. It returns [ErrContentType] for what is no metrics page.
func MediaType(contentType string) (string, error) {
	if contentType == "" {
		return mediaText, nil
	}
	mediaType, _, err := mime.ParseMediaType(contentType)
	if err != nil || (mediaType != mediaText && mediaType != mediaOpenMetrics) {
		return "", fmt.Errorf("%w: got %.60q", ErrContentType, contentType)
	}
	return mediaType, nil
}

// Parse reads a page of the given Content-Type. It returns one of ErrContentType,
// ErrEmpty, ErrTruncated, ErrSyntax (wrapped), and then no page: what is left of a
// broken page is never passed for the whole. Body is not kept.
//
// OpenMetrics is taken though never asked for. Engines with prometheus_client
// 0.23 or newer then spell samples with `_` and metadata with `:`; as both become
// canonical before they are put together, that page reads like the text one.
func Parse(body []byte, contentType string, opts Options) (*Page, error) {
	mediaType, err := MediaType(contentType)
	if err != nil {
		return nil, err
	}
	if err := checkEnd(body, mediaType); err != nil {
		return nil, err
	}
	parser, err := textparse.New(body, mediaType, nil, textparse.ParserOptions{})
	if err != nil {
		return nil, fmt.Errorf("%w: %w", ErrSyntax, err)
	}
	b := newBuilder(opts)
	if err := read(parser, b); err != nil {
		return nil, fmt.Errorf("%w: %.*s", ErrSyntax, maxErrorText, err.Error())
	}
	p := b.finish()
	if p.Samples == 0 {
		return nil, ErrEmpty
	}
	return p, nil
}

func checkEnd(body []byte, mediaType string) error {
	if len(bytes.TrimSpace(body)) == 0 {
		return ErrEmpty
	}
	if mediaType == mediaOpenMetrics {
		if !bytes.HasSuffix(body, openMetricsEnd) && !bytes.HasSuffix(body, openMetricsEnd2) {
			return fmt.Errorf("%w: no # EOF", ErrTruncated)
		}
		return nil
	}
	if body[len(body)-1] != '\n' {
		return fmt.Errorf("%w: no line break at the end", ErrTruncated)
	}
	return nil
}

func read(parser textparse.Parser, b *builder) error {
	var lset labels.Labels
	for {
		entry, err := parser.Next()
		if errors.Is(err, io.EOF) {
			return nil
		}
		if err != nil {
			return err
		}
		switch entry {
		case textparse.EntryType:
			name, t := parser.Type()
			b.declare(string(name), typeOf(t))
		case textparse.EntryHelp:
			name, help := parser.Help()
			b.describe(string(name), string(help))
		case textparse.EntrySeries:
			_, _, v := parser.Series()
			parser.Labels(&lset)
			b.sample(lset, v)
		}
	}
}

// typeOf maps what has no counterpart here (info, state sets, gauge histograms)
// to gauges under their samples' own names.
func typeOf(t model.MetricType) sglang.MetricType {
	switch t {
	case model.MetricTypeCounter:
		return sglang.TypeCounter
	case model.MetricTypeHistogram:
		return sglang.TypeHistogram
	case model.MetricTypeSummary:
		return sglang.TypeSummary
	case model.MetricTypeUnknown, "":
		return sglang.TypeUntyped
	default:
		return sglang.TypeGauge
	}
}
