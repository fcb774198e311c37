// Copyright The otelcol-sglang Authors
// SPDX-License-Identifier: Apache-2.0

package page // import "github.com/otelcol-sglang/otelcol-sglang/cmd/sglangctl/internal/page"

import (
	"encoding/json"
	"net/http"
	"regexp"
	"strconv"
	"time"
)

// contentType is what prometheus_client answers to a client that does not ask
// for OpenMetrics.
const contentType = "text/plain; version=0.0.4; charset=utf-8"

// Handler answers as an engine that started when it was called: GET /metrics,
// /server_info (and its older path), /health. A step of the page takes the
// given time.
func (p *Page) Handler(step time.Duration) http.Handler {
	start := time.Now()
	mux := http.NewServeMux()
	mux.HandleFunc("GET /metrics", func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", contentType)
		_, _ = w.Write(p.At(int(time.Since(start) / step)))
	})
	info := p.serverInfo()
	answer := func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", "application/json")
		_ = json.NewEncoder(w).Encode(info)
	}
	mux.HandleFunc("GET /server_info", answer)
	mux.HandleFunc("GET /get_server_info", answer)
	mux.HandleFunc("GET /health", func(http.ResponseWriter, *http.Request) {})
	return mux
}

// engineVersion is the release that the captures are from.
const engineVersion = "0.5.23"

var (
	tpLabel    = regexp.MustCompile(`[{,]tp_rank="(\d+)"`)
	dpLabel    = regexp.MustCompile(`[{,]dp_rank="(\d+)"`)
	ppLabel    = regexp.MustCompile(`[{,]pp_rank="(\d+)"`)
	modelLabel = regexp.MustCompile(`[{,]model_name="([^"]*)"`)
	roleLabel  = regexp.MustCompile(`[{,]engine_type="([^"]*)"`)
)

// serverInfo is the part of /server_info that can be told from the page's
// labels, flat as the engine answers it.
func (p *Page) serverInfo() map[string]any {
	page := p.raw[2]
	role := "null"
	if m := roleLabel.FindSubmatch(page); m != nil && string(m[1]) != "unified" {
		role = string(m[1])
	}
	info := map[string]any{
		"tp_size": sizeOf(page, tpLabel), "dp_size": sizeOf(page, dpLabel), "pp_size": sizeOf(page, ppLabel),
		"disaggregation_mode": role, "enable_metrics": true, "status": "ready", "version": engineVersion,
		"launch_command":  "python -m sglang.launch_server --enable-metrics --enable-trace",
		"internal_states": []any{},
	}
	if m := modelLabel.FindSubmatch(page); m != nil {
		info["served_model_name"], info["model_path"] = string(m[1]), string(m[1])
	}
	return info
}

// sizeOf is one more than the highest rank of a label, at least 1.
func sizeOf(page []byte, label *regexp.Regexp) int {
	size := 1
	for _, m := range label.FindAllSubmatch(page, -1) {
		if rank, err := strconv.Atoi(string(m[1])); err == nil {
			size = max(size, rank+1)
		}
	}
	return size
}
