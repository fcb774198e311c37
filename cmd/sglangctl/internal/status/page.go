// Copyright The otelcol-sglang Authors
// SPDX-License-Identifier: Apache-2.0

package status // import "github.com/otelcol-sglang/otelcol-sglang/cmd/sglangctl/internal/status"

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"

	dto "github.com/prometheus/client_model/go"
	"github.com/prometheus/common/expfmt"
	"github.com/prometheus/common/model"
)

// maxPage bounds the collector's page.
const maxPage = 32 << 20

// Page is the collector's own metrics.
type Page struct{ families map[string]*dto.MetricFamily }

// Fetch reads the page at url, without a proxy.
func Fetch(ctx context.Context, url string) (Page, error) {
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, url, nil)
	if err != nil {
		return Page{}, err
	}
	transport := &http.Transport{DisableKeepAlives: true}
	defer transport.CloseIdleConnections()
	resp, err := (&http.Client{Transport: transport}).Do(req)
	if err != nil {
		return Page{}, err
	}
	defer resp.Body.Close()
	if resp.StatusCode != http.StatusOK {
		return Page{}, fmt.Errorf("%s: HTTP status %d", url, resp.StatusCode)
	}
	return Parse(io.LimitReader(resp.Body, maxPage))
}

// Parse reads a page of the Prometheus text format.
func Parse(r io.Reader) (Page, error) {
	parser := expfmt.NewTextParser(model.UTF8Validation)
	families, err := parser.TextToMetricFamilies(r)
	if err != nil {
		return Page{}, fmt.Errorf("not a Prometheus page: %w", err)
	}
	if len(families) == 0 {
		return Page{}, errors.New("the page is empty")
	}
	return Page{families}, nil
}

// prefix stands before the name of each of the collector's own metrics.
const prefix = "otelcol_"

// series returns the series of a metric, with or without the type as a suffix.
// (config/*.yaml and the collector's default leave units out of names.)
func (p Page) series(name string) []*dto.Metric {
	for _, suffix := range []string{"", "_total"} {
		if f := p.families[prefix+name+suffix]; f != nil {
			return f.GetMetric()
		}
	}
	return nil
}

func label(m *dto.Metric, name string) string {
	for _, l := range m.GetLabel() {
		if l.GetName() == name {
			return l.GetValue()
		}
	}
	return ""
}

func value(m *dto.Metric) float64 {
	switch {
	case m.GetCounter() != nil:
		return m.GetCounter().GetValue()
	case m.GetGauge() != nil:
		return m.GetGauge().GetValue()
	case m.GetUntyped() != nil:
		return m.GetUntyped().GetValue()
	}
	return 0
}
