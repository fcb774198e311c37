// Copyright The otelcol-sglang Authors
// SPDX-License-Identifier: Apache-2.0

package doctor // import "github.com/otelcol-sglang/otelcol-sglang/cmd/sglangctl/internal/doctor"

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"strings"
	"time"

	dto "github.com/prometheus/client_model/go"
	"github.com/prometheus/common/expfmt"
	"github.com/prometheus/common/model"

	"github.com/otelcol-sglang/otelcol-sglang/internal/sglang"
)

const (
	// acceptText is what the receiver asks for. Some releases of prometheus_client
	// spoil names if they are asked for OpenMetrics.
	acceptText = "text/plain;version=0.0.4"
	// maxAnswer bounds a page.
	maxAnswer = 64 << 20
)

// newClient follows no redirect: a redirect is something to report. It uses no
// proxy, since what matters is here.
func newClient(timeout time.Duration) *http.Client {
	return &http.Client{
		Timeout:       timeout,
		Transport:     &http.Transport{},
		CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
	}
}

// Engine is what an engine answered.
type Engine struct {
	URL  string
	Page Page
	Info Info
}

// Name is its host and port, by which the collector calls it.
func (e *Engine) Name() string {
	if u, err := url.Parse(e.URL); err == nil && u.Host != "" {
		return u.Host
	}
	return e.URL
}

// Page is an engine's metrics page.
type Page struct {
	// Err: it could not be read, or not be understood.
	Err    error
	Status int
	// Location is where a redirect went to, and was followed.
	Location    string
	ContentType string
	Took        time.Duration
	Size        int
	// Families are those of the engine, by canonical name.
	Families map[string]*dto.MetricFamily
	// Underscored: names come with "sglang_" in place of "sglang:".
	Underscored bool
}

// Info is what /server_info says.
type Info struct {
	Err error
	// Settings are the engine's resolved arguments and some more.
	Settings map[string]any
	// Clock is how far the engine's clock is ahead of ours, at least and at most;
	// its header gives whole seconds.
	Clock struct {
		Known    bool
		Min, Max time.Duration
	}
}

func (e *Engine) read(ctx context.Context, client *http.Client, base string) {
	e.URL = strings.TrimRight(base, "/")
	e.Info.read(ctx, client, e.URL+"/server_info")
	e.Page.read(ctx, client, e.URL+"/metrics")
}

func (p *Page) read(ctx context.Context, client *http.Client, target string) {
	start := time.Now()
	body, err := p.get(ctx, client, target)
	p.Took, p.Size = time.Since(start), len(body)
	if err != nil {
		p.Err = err
		return
	}
	p.parse(body)
}

// get follows one redirect, as the receiver does.
func (p *Page) get(ctx context.Context, client *http.Client, target string) ([]byte, error) {
	a, err := get(ctx, client, target, acceptText)
	if err == nil && a.location != "" {
		p.Location = a.location
		a, err = get(ctx, client, p.Location, acceptText)
	}
	if err != nil {
		return nil, err
	}
	p.Status, p.ContentType = a.status, a.header.Get("Content-Type")
	if p.Status != http.StatusOK {
		return nil, fmt.Errorf("HTTP status %d", p.Status)
	}
	return a.body, nil
}

func (p *Page) parse(body []byte) {
	parser := expfmt.NewTextParser(model.UTF8Validation)
	families, err := parser.TextToMetricFamilies(bytes.NewReader(body))
	if err != nil {
		p.Err = fmt.Errorf("it is no Prometheus page: %w", err)
		return
	}
	p.Families = map[string]*dto.MetricFamily{}
	for name, f := range families {
		canonical := sglang.CanonicalName(name)
		if !strings.HasPrefix(canonical, sglang.MetricPrefix) {
			continue
		}
		p.Underscored = p.Underscored || canonical != name
		p.Families[canonical] = f
	}
}

func (i *Info) read(ctx context.Context, client *http.Client, target string) {
	before := time.Now()
	a, err := get(ctx, client, target, "application/json")
	if err != nil {
		i.Err = err
		return
	}
	i.clock(a.header.Get("Date"), before, time.Now())
	if a.status != http.StatusOK {
		i.Err = fmt.Errorf("HTTP status %d", a.status)
		return
	}
	if err := json.Unmarshal(a.body, &i.Settings); err != nil {
		i.Err = errors.New("its answer is no JSON object")
	}
}

// clock compares the answer's date, cut to seconds and made between asked and
// answered, with our own.
func (i *Info) clock(date string, asked, answered time.Time) {
	at, err := http.ParseTime(date)
	if err != nil {
		return
	}
	i.Clock.Known = true
	i.Clock.Min = at.Sub(answered)
	i.Clock.Max = at.Add(time.Second).Sub(asked)
}

// answer is what a server sent; location is where it redirects to, "" if it does not.
type answer struct {
	status   int
	header   http.Header
	location string
	body     []byte
}

func get(ctx context.Context, client *http.Client, target, accept string) (answer, error) {
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, target, nil)
	if err != nil {
		return answer{}, err
	}
	req.Header.Set("Accept", accept)
	resp, err := client.Do(req)
	if err != nil {
		return answer{}, err
	}
	defer resp.Body.Close()
	a := answer{status: resp.StatusCode, header: resp.Header}
	if to, err := resp.Location(); err == nil {
		a.location = to.String()
	}
	a.body, err = io.ReadAll(io.LimitReader(resp.Body, maxAnswer))
	return a, err
}

// setting is one of /server_info's; ok is false if it doesn't say.
func (i *Info) setting(key string) (v any, ok bool) {
	v, ok = i.Settings[key]
	return v, ok
}

// number is a setting, or 1 where it is not said.
func (i *Info) number(key string) int {
	if v, ok := i.Settings[key].(float64); ok && v >= 1 {
		return int(v)
	}
	return 1
}

// on tells whether a flag is set: true, or a text other than "null".
func (i *Info) on(key string) bool {
	switch v := i.Settings[key].(type) {
	case bool:
		return v
	case string:
		return v != "" && v != "null"
	}
	return false
}

// schedulers is the number of scheduler processes, each of which sends spans.
func (i *Info) schedulers() int {
	n := i.number("tp_size") * i.number("pp_size")
	if !i.on("enable_dp_attention") {
		n *= i.number("dp_size")
	}
	return n
}

// total adds up a family's series; histograms count their observations.
func (p *Page) total(name sglang.FamilyName) (sum float64, known bool) {
	f := p.Families[string(name)]
	for _, m := range f.GetMetric() {
		known = true
		switch {
		case m.GetCounter() != nil:
			sum += m.GetCounter().GetValue()
		case m.GetGauge() != nil:
			sum += m.GetGauge().GetValue()
		case m.GetHistogram() != nil:
			sum += float64(m.GetHistogram().GetSampleCount())
		case m.GetUntyped() != nil:
			sum += m.GetUntyped().GetValue()
		}
	}
	return sum, known
}
