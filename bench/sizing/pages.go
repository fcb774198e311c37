// Copyright The otelcol-sglang Authors
// SPDX-License-Identifier: Apache-2.0

package main // import "github.com/otelcol-sglang/otelcol-sglang/bench/sizing"

import (
	"context"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"time"
)

// page is the recorded page of an engine with four schedulers that all report.
const page = "metrics-tp4-all-schedulers.t1.prom"

// scrapeInterval is Prometheus' of the collector.
const scrapeInterval = 15 * time.Second

// pageRun is what scraping some engines cost.
type pageRun struct {
	Engines, SeriesIn, SeriesOut int
	// PageIn is an engine's page, PageOut what Prometheus gets, in bytes.
	PageIn, PageOut int
	Agent           usage
}

// measurePages lets agent-gateway.yaml scrape engines every 5 s, and scrapes it.
func (o options) measurePages(ctx context.Context, engines int) (pageRun, error) {
	r := pageRun{Engines: engines}
	raw, err := os.ReadFile(filepath.Join(o.root, "testdata", "captures", "metrics", page))
	if err != nil {
		return r, err
	}
	r.PageIn, r.SeriesIn = len(raw), engines*series(string(raw))
	var list []string
	for range engines {
		address, stop, err := serve(raw)
		if err != nil {
			return r, err
		}
		defer stop()
		list = append(list, "{endpoint: 'http://"+address+"'}")
	}
	agent, err := o.start(ctx, "agent-gateway.yaml", "localhost:1", "["+strings.Join(list, ", ")+"]")
	if err != nil {
		return r, err
	}
	defer agent.close()
	if err := sleep(ctx, scrapeInterval); err != nil {
		return r, err
	}
	if err := agent.begin(); err != nil {
		return r, err
	}
	for range max(int(o.length/scrapeInterval), 1) {
		if err := sleep(ctx, scrapeInterval); err != nil {
			return r, err
		}
		text, err := get(ctx, "http://"+agent.Metrics+"/metrics")
		if err != nil {
			return r, err
		}
		r.PageOut, r.SeriesOut = len(text), series(text)
	}
	r.Agent, err = agent.end(time.Since(agent.at))
	return r, err
}

// serve is an engine's page until stop.
func serve(page []byte) (address string, stop func(), err error) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return "", nil, err
	}
	mux := http.NewServeMux()
	mux.HandleFunc("GET /metrics", func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", "text/plain; version=0.0.4; charset=utf-8")
		_, _ = w.Write(page)
	})
	s := &http.Server{Handler: mux, ReadHeaderTimeout: time.Minute}
	go func() { _ = s.Serve(l) }()
	return l.Addr().String(), func() { _ = s.Close() }, nil
}

// series counts the samples of a page.
func series(page string) int {
	count := 0
	for line := range strings.Lines(page) {
		if text := strings.TrimSpace(line); text != "" && text[0] != '#' {
			count++
		}
	}
	return count
}

func sleep(ctx context.Context, d time.Duration) error {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-ctx.Done():
		return ctx.Err()
	case <-timer.C:
		return nil
	}
}

func get(ctx context.Context, url string) (string, error) {
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, url, nil)
	if err != nil {
		return "", err
	}
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		return "", err
	}
	defer resp.Body.Close()
	body, err := io.ReadAll(resp.Body)
	return string(body), err
}

func pageTable(runs []pageRun) string {
	var b strings.Builder
	b.WriteString("Metrics: pages of engines with four schedulers, scraped every 5 s; Prometheus scrapes the collector every 15 s.\n\n")
	b.WriteString("| Engines | Series in | Series out | Page in kB | Page out kB | CPU, cores | Peak memory MiB |\n|---:|---:|---:|---:|---:|---:|---:|\n")
	for _, r := range runs {
		fmt.Fprintf(&b, "| %d | %d | %d | %d | %d | %.3f | %d |\n", r.Engines, r.SeriesIn, r.SeriesOut,
			r.Engines*r.PageIn/1000, r.PageOut/1000, r.Agent.CPU, r.Agent.Peak>>20)
	}
	if len(runs) > 1 {
		first, last := runs[0], runs[len(runs)-1]
		n := float64(last.SeriesIn - first.SeriesIn)
		fmt.Fprintf(&b, "\nEach 1 000 series in cost %.4f cores and %.1f MiB more.\n", (last.Agent.CPU-first.Agent.CPU)/n*1000,
			float64(last.Agent.Peak-first.Agent.Peak)/(1<<20)/n*1000)
	}
	return b.String()
}
